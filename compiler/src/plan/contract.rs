//! Contraction of long formulas: Σ_f M_ef x_f without the matrix M.
//!
//! A derivative of a second-order step multiplies matrices by vectors: M_ef extends along two components, and no value of a
//! kernel does. Where M is short it is multiplied out (`separate.rs`). Where that would make thousands of terms, the sum
//! over f goes inside instead, to where factors along f stand alone:
//!
//! | M | Σ_f M x |
//! |---|---|
//! | A + B | Σ_f A x + Σ_f B x |
//! | Σ_n B | Σ_n Σ_f B x |
//! | a_e b_f | a_e Σ_f b x |
//!
//! The same serves two attended tokens.

use super::separate::alternatives;
use crate::ir::{Axis, Expr, Op, Space};

/// Products that a formula may become.
const AT_MOST: usize = 3_000;

/// Σ_axis of a product as a term in which nothing extends along the axis and another one of its space; `None` if there is
/// none.
pub fn contracted(axis: Axis, factors: Vec<Expr>) -> Option<Expr> {
    Contraction { axis, left: AT_MOST }.sum(factors)
}

struct Contraction {
    axis: Axis,
    left: usize,
}

impl Contraction {
    /// Whether a factor extends along the axis and another one of its space.
    fn compares(&self, factor: &Expr) -> bool {
        factor.has_axis(self.axis) && factor.axes().iter().any(|a| a != self.axis && a.space == self.axis.space)
    }

    fn sum(&mut self, factors: Vec<Expr>) -> Option<Expr> {
        self.left = self.left.checked_sub(1)?;
        let (mut inside, outside): (Vec<Expr>, Vec<Expr>) = factors.into_iter().partition(|f| f.has_axis(self.axis));
        let outside = Expr::mul(outside);
        let Some(at) = inside.iter().position(|f| self.compares(f)) else {
            return Some(outside.times(&Expr::sum(self.axis, &Expr::mul(inside))));
        };
        let matrix = inside.remove(at);
        let with = |more: Vec<Expr>| [inside.clone(), more].concat();
        let sum = match matrix.op() {
            Op::Add(terms) => {
                let terms: Option<Vec<Expr>> = terms.iter().map(|term| self.sum(with(term.factors()))).collect();
                Expr::add(terms?)
            }
            Op::Sum(bound, _) if bound.space == Space::Query && inside.iter().any(|f| f.has_axis(Axis::T)) => {
                return None;
            }
            Op::Sum(bound, body) => {
                let axes = inside.iter().fold(body.axes().with(self.axis), |axes, f| axes.union(f.axes()));
                let fresh = if bound.space == Space::Query { *bound } else { axes.with(*bound).fresh(bound.space) };
                let body = crate::ir::traverse::rename(body, *bound, fresh);
                Expr::sum(fresh, &self.sum(with(body.factors()))?)
            }
            _ => {
                let parts = alternatives(&matrix, AT_MOST)?;
                if parts.iter().any(|part| part.factors.contains(&matrix)) {
                    return None;
                }
                let terms: Option<Vec<Expr>> = parts.into_iter().map(|part| self.sum(with(part.factors))).collect();
                Expr::add(terms?)
            }
        };
        Some(outside.times(&sum))
    }
}
