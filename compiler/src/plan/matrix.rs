//! The matrix of a system, taken apart into what a kernel can fill in.
//!
//! An energy looks at vectors component by component and through sums, so every second derivative is a sum of three
//! kinds of matrices: diagonal ones, products x yᵀ of two vectors of the query, and moments Σ_n w x yᵀ over tokens. The
//! simplifier may write them in other ways: sums inside of sums, case distinctions, factors in front of a sum that belong
//! to its vectors. Here they are multiplied out until only those three kinds are left.

use super::contract::contracted;
use super::graph::Entry;
use super::lower::{Lowering, Unsupported};
use super::separate::{Product, separate};
use crate::ir::{Axis, Expr, Leaf, Op, Space, traverse};

/// A matrix along the axes `row` and `column`.
pub(super) struct Matrix {
    pub row: Axis,
    pub column: Axis,
}

/// Factors that are multiplied. They are kept apart, since a product of exponentials would be one exponential again.
type Factors = Vec<Expr>;

fn is_identity(f: &Expr) -> bool {
    f.as_leaf().is_some_and(Leaf::is_identity)
}

impl Matrix {
    /// A term along both axes as entries, which are vectors along `column`.
    pub fn entries(&self, term: &Expr, lowering: &mut Lowering) -> Result<Vec<Entry>, Unsupported> {
        let mut all = Vec::new();
        for product in self.products(term) {
            self.add_entries(product, lowering, &mut all)?;
        }
        Ok(all)
    }

    fn has_both(&self, f: &Expr) -> bool {
        f.has_axis(self.row) && f.has_axis(self.column)
    }

    /// The factors along the rows, those along the columns and the others.
    fn sides(&self, factors: Factors) -> (Factors, Factors, Factors) {
        let (left, rest): (Factors, Factors) = factors.into_iter().partition(|f| f.has_axis(self.row));
        let (right, numbers) = rest.into_iter().partition(|f| f.has_axis(self.column));
        (left, right, numbers)
    }

    /// The diagonal of a product, which is a vector along `column`.
    fn diagonal(&self, factors: impl Iterator<Item = Expr>) -> Expr {
        traverse::rename(&Expr::mul(factors), self.row, self.column)
    }

    fn add_entries(
        &self,
        mut product: Factors,
        lowering: &mut Lowering,
        all: &mut Vec<Entry>,
    ) -> Result<(), Unsupported> {
        if product.iter().any(is_identity) {
            let diagonal = self.diagonal(product.into_iter().filter(|f| !is_identity(f)));
            all.push(Entry::Diagonal(lowering.lower(&diagonal)?));
            return Ok(());
        }
        let Some(at) = product.iter().position(|f| self.has_both(f)) else {
            let (left, right, numbers) = self.sides(product);
            let left = lowering.lower(&self.diagonal(left.into_iter()))?;
            let right = lowering.lower(&Expr::mul(right.into_iter().chain(numbers)))?;
            all.push(Entry::Outer(left, right));
            return Ok(());
        };
        let matrix = product.swap_remove(at);
        match matrix.op() {
            Op::Sum(token, body) if token.space == Space::Token => {
                for inside in self.products(body) {
                    self.add_sum(*token, inside, product.clone(), lowering, all)?;
                }
                Ok(())
            }
            _ => Err(Unsupported::formula("a matrix of its system does not separate into vectors")),
        }
    }

    /// Σ_token of a product, times what stands outside.
    fn add_sum(
        &self,
        token: Axis,
        product: Factors,
        mut outside: Factors,
        lowering: &mut Lowering,
        all: &mut Vec<Entry>,
    ) -> Result<(), Unsupported> {
        let (inside, free): (Factors, Factors) = product.into_iter().partition(|f| f.has_axis(token));
        outside.extend(free);
        let summed = |factors: Factors| Expr::sum(token, &Expr::mul(factors));
        let is_along = |axis: Axis| inside.iter().any(|f| f.has_axis(axis));
        // Only a number or a vector is summed, or a diagonal: the matrix, if any, is outside.
        if !(is_along(self.row) && is_along(self.column)) || inside.iter().chain(&outside).any(is_identity) {
            if inside.iter().any(is_identity) {
                let (identity, rest): (Factors, Factors) = inside.into_iter().partition(is_identity);
                outside.extend(identity);
                outside.push(Expr::sum(token, &self.diagonal(rest.into_iter())));
            } else {
                outside.push(summed(inside));
            }
            return self.add_entries(outside, lowering, all);
        }
        match inside.iter().position(|f| self.has_both(f)) {
            Some(at) => {
                // Σ_n x_n Σ_m A_m b_n = (Σ_n x_n b_n) Σ_m A_m.
                let Op::Sum(other, body) = inside[at].op() else {
                    return Err(Unsupported::formula("a matrix of its system does not separate into vectors"));
                };
                for product in self.products(body) {
                    let (theirs, mut ours): (Factors, Factors) = product.into_iter().partition(|f| f.has_axis(*other));
                    if theirs.iter().any(|f| f.has_axis(token)) {
                        return Err(Unsupported::formula("a matrix of its system compares tokens with each other"));
                    }
                    ours.extend(inside.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, f)| f.clone()));
                    let mut outside = outside.clone();
                    outside.push(Expr::sum(*other, &Expr::mul(theirs)));
                    self.add_sum(token, ours, outside, lowering, all)?;
                }
                Ok(())
            }
            None if outside.iter().any(|f| self.has_both(f)) => {
                Err(Unsupported::formula("a matrix of its system is a product of matrices, entry by entry"))
            }
            // What stands outside of the sum belongs to the vectors where it extends along their axes.
            None => {
                let (left, right, numbers) = self.sides(inside.into_iter().chain(outside).collect());
                let at_n = |e: &Expr| traverse::rename(e, token, Axis::N);
                let left = lowering.lower(&at_n(&self.diagonal(left.into_iter())))?;
                let right = lowering.lower(&at_n(&Expr::mul(right)))?;
                let weight = lowering.lower(&at_n(&Expr::mul(numbers)))?;
                let weight = lowering.tile(&lowering.graph.factors(weight));
                all.push(Entry::Moment(weight, left, right));
                Ok(())
            }
        }
    }

    /// A term as products of factors along one of the two axes each, as far as that goes: sums are multiplied out, and
    /// squares, exponentials and case distinctions of both axes come apart as they do elsewhere.
    fn products(&self, term: &Expr) -> Vec<Factors> {
        let mut done: Vec<Factors> = vec![vec![]];
        for factor in term.factors() {
            let choices: Vec<Factors> = match factor.op() {
                Op::Add(terms) if self.has_both(&factor) => terms.iter().flat_map(|term| self.products(term)).collect(),
                // Σ_f q_f Σ_n k_ne k_nf … is a matrix of its own once the sum over f is where f is.
                Op::Sum(axis, body) if self.has_both(&factor) && axis.space == Space::Head => {
                    match contracted(*axis, body.factors()) {
                        Some(matrix) => self.products(&matrix),
                        None => vec![vec![factor.clone()]],
                    }
                }
                _ if self.has_both(&factor) && !is_identity(&factor) => {
                    let products = separate(&factor).unwrap_or_else(|| vec![Product::of(&factor)]);
                    products.into_iter().map(|product| product.factors).collect()
                }
                _ => vec![vec![factor.clone()]],
            };
            done = done
                .iter()
                .flat_map(|left| choices.iter().map(|right| [left.clone(), right.clone()].concat()))
                .collect();
        }
        done
    }
}
