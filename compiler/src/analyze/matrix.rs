//! A part of the Hessian on paper: its matrix, with the names a reader needs.
//!
//! A scatter is written as what it is, Σ_i u_i (x_i − x̄)(x_i − x̄)ᵀ: slopes that all tokens share cancel in the
//! differences, and a factor that all share comes out squared. Any other part is read off its product with the probe.

use super::parts::{Part, times_probe};
use super::scatter::Scatter;
use crate::calculus::{self, Meaning};
use crate::derive::{COLUMN, Derivation, Named, hide, matrix_of, unused};
use crate::ir::{Axis, Entropy, Expr, Leaf, Role, Sign, Space, traverse};
use crate::notation::{Math, Writer};
use crate::simplify::expand::{Extent, expand};
use crate::simplify::{Options, simplify};

/// How a part is shown.
#[derive(Clone, Debug)]
pub enum Formula {
    Matrix(Math),
    /// The matrix times the probe, where vectors do not suffice to write the matrix.
    Product(Math),
}

/// A part on paper.
#[derive(Clone, Debug)]
pub struct Shown {
    pub formula: Formula,
    /// The terms that were written: their names want definitions.
    pub terms: Vec<Expr>,
    /// Names that belong to this part alone.
    pub definitions: Vec<(Math, Math)>,
}

/// Writes parts in one notation, new names counted through.
pub struct Writing<'a> {
    pub derivation: &'a Derivation,
    pub options: &'a Options,
    pub probe: &'a Leaf,
    pub writer: Writer,
    taken: Vec<String>,
}

/// A sum with the factors that all its terms have in front.
fn factored(e: &Expr) -> Expr {
    let terms = e.terms();
    let is_common = |f: &Expr| terms.iter().all(|term| term.factors().contains(f));
    let common: Vec<Expr> = terms[0].factors().into_iter().filter(|f| f.as_const().is_none() && is_common(f)).collect();
    let front = Expr::mul(common.iter().cloned());
    let without = |term: &Expr| Expr::mul(term.factors().into_iter().filter(|f| !common.contains(f)));
    if terms.len() > 1 { front.times(&Expr::add(terms.iter().map(without))) } else { e.clone() }
}

impl<'a> Writing<'a> {
    pub fn new(derivation: &'a Derivation, options: &'a Options, probe: &'a Leaf, writer: Writer) -> Writing<'a> {
        Writing { derivation, options, probe, writer, taken: vec![] }
    }

    /// The part as a formula; nothing when it is 0 in a way only simplification finds out.
    pub fn show(&mut self, part: &Part) -> Option<Shown> {
        match &part.scatter {
            Some(scatter) => self.scatter(scatter),
            None => self.peeled(&part.form),
        }
    }

    /// Simplified, with names.
    fn tidy(&self, e: &Expr) -> Expr {
        self.named(&simplify(&self.named(e), self.options).term)
    }

    /// Weights are named first: their scores are written without the names of cases.
    fn named(&self, e: &Expr) -> Expr {
        let is_weights = |n: &&Named| matches!(n.meaning, Meaning::Weights { .. });
        let (weights, cases): (Vec<&Named>, Vec<&Named>) = self.derivation.names.iter().partition(is_weights);
        let hide_all = |e: &Expr, names: Vec<&Named>| hide(e, &names.into_iter().cloned().collect::<Vec<_>>());
        hide_all(&hide_all(e, weights), cases)
    }

    fn peeled(&mut self, form: &Expr) -> Option<Shown> {
        let product = self.tidy(&times_probe(form, self.probe));
        if product.is_zero() {
            return None;
        }
        let matrix = self.writer.matrix(&matrix_of(&product, self.probe), Axis::E, COLUMN);
        let formula = match matrix {
            Some(matrix) => Formula::Matrix(matrix),
            None => Formula::Product(self.writer.write(&product)),
        };
        Some(Shown { formula, terms: vec![product], definitions: vec![] })
    }

    fn scatter(&mut self, scatter: &Scatter) -> Option<Shown> {
        let axis = scatter.axis;
        let slope = self.tidy(&calculus::transpose(&scatter.change, self.probe));
        let slope = self.without_shared_terms(&slope, axis);
        if slope.is_zero() {
            return None;
        }
        let is_shared = |f: &Expr| !f.has_axis(axis) && !f.axes().has_space(Space::Head);
        let (shared, own): (Vec<Expr>, Vec<Expr>) = slope.factors().into_iter().partition(is_shared);
        let (shared, own) = (Expr::mul(shared.iter().map(factored)), Expr::mul(own));
        let front = self.tidy(&Expr::mul([scatter.front.clone(), scatter.scale(), shared.square()]));
        let mut definitions = Vec::new();
        let mut weights = self.named(&scatter.weights);
        if weights.as_leaf().is_none() {
            let leaf = self.fresh("w", Role::Weights, &[Axis::T, axis]);
            definitions.push((Math::indexed(&leaf.name, "i"), self.define(&weights)));
            weights = Expr::leaf(leaf);
        }
        let named = Scatter { weights, ..scatter.clone() };
        let mut terms = vec![own.clone(), front.clone(), named.spread_weights()];
        let vector = if own.as_leaf().is_some_and(|leaf| leaf.role == Role::Key) {
            own
        } else {
            let leaf = self.fresh("g", Role::Key, &[Axis::T, axis, Axis::E]);
            definitions.push((Math::indexed(&leaf.name, "i"), self.define(&own)));
            Expr::leaf(leaf)
        };
        let centre = match scatter.kind {
            Entropy::Tsallis(_) => {
                let value = self.tidy(&named.centre(&vector));
                let leaf = self.fresh("m", Role::Named, &[Axis::T, Axis::E]);
                definitions.push((Math::symbol(&leaf.name), self.define(&value)));
                terms.push(value);
                Expr::leaf(leaf)
            }
            _ => named.centre(&vector),
        };
        let row = vector.minus(&centre);
        let column = traverse::rename(&row, Axis::E, COLUMN);
        let spread = Expr::sum(axis, &Expr::mul([named.spread_weights(), row, column]));
        let matrix = self.writer.matrix(&front.times(&spread), Axis::E, COLUMN);
        let formula = match matrix {
            Some(matrix) => Formula::Matrix(matrix),
            None => return self.peeled(&scatter.form()),
        };
        Some(Shown { formula, terms, definitions })
    }

    /// The slope without the terms that are the same for every token, which cancel against the mean, if that is shorter.
    fn without_shared_terms(&self, slope: &Expr, axis: Axis) -> Expr {
        let expanded = expand(slope, &self.options.rules, Extent::Expand, &self.options.budget)
            .map_or_else(|| slope.clone(), |(e, _)| e);
        let terms = expanded.terms();
        let own: Vec<Expr> = terms.iter().filter(|term| term.has_axis(axis)).cloned().collect();
        if own.len() == terms.len() {
            return slope.clone();
        }
        let rest = self.tidy(&Expr::add(own));
        if traverse::tree_size(&rest) < traverse::tree_size(slope) { rest } else { slope.clone() }
    }

    /// A definition's right side, indices from i on.
    fn define(&mut self, e: &Expr) -> Math {
        let mut writer = self.writer.clone();
        let formula = writer.write(e);
        self.writer.used_means = writer.used_means;
        formula
    }

    /// A new leaf; primes tell letters apart that were taken before.
    fn fresh(&mut self, letter: &str, role: Role, axes: &[Axis]) -> Leaf {
        let mut name = unused(letter, &self.derivation.recipe);
        while self.taken.contains(&name) {
            name.push('\'');
        }
        self.taken.push(name.clone());
        let ordinal = 200u16.saturating_add(u16::try_from(self.taken.len()).unwrap_or(u16::MAX));
        Leaf::new(role, ordinal, &name, axes, Sign::Unknown)
    }
}
