//! Gradients that stay accurate at small temperatures.
//!
//! Weights do not change when a number is added to all scores, so the cotangents ∂s of a row's scores sum to 0. Two
//! things use that.
//!
//! - The gradient of a temperature multiplies ∂s by the scores themselves, which are large where the temperature is small,
//!   and nearly all of it cancels. Measured from the largest score, Σ_n ∂s c s = c Σ_n ∂s (s − max s), the tokens that
//!   matter multiply numbers near 0. Any other number y per token is measured from its mean, Σ_n ∂s y = Σ_n ∂s (y − Σ p y).
//! - ∂s = p (∂p − D) subtracts two numbers that are equal where a token has all the weight. D comes from the direction,
//!   ∂p from a sum over components; where that is a loop (and the forces are as steep as such energies are), their
//!   rounding differs, and what is left over is taken back: ∂s − p Σ_n ∂s.
//!
//! The ∂s of shares sum to 0 together with ∂s₀ of the rest: Σ_n ∂s y = Σ_n ∂s (y − ȳ) − ȳ ∂s₀, for any number ȳ.

use super::graph::{Fold, Id};
use super::lower::{Lowering, Unsupported};
use super::schedule::reachable;
use crate::calculus::Meaning;
use crate::derive::{Backward, Derivation};
use crate::ir::{Axis, Entropy, Expr, Leaf, Op, Role, Sign, Space, rational, traverse};
use std::collections::BTreeSet;

/// The cotangent of the scores of some weights or shares, which sums to 0 over the tokens of a row and its rest.
pub struct Balanced {
    leaf: Leaf,
    kind: Entropy,
    scores: Expr,
    /// ∂s₀, where there is a rest.
    of_rest: Option<Expr>,
}

/// The cotangents of a backward pass that sum to 0. They are numbered by the names they belong to, the last name first.
pub fn balanced(derivation: &Derivation, backward: &Backward) -> Vec<Balanced> {
    let of_scores = |leaf: &Leaf| match &derivation.names.iter().rev().nth(usize::from(leaf.ordinal))?.meaning {
        Meaning::Weights { kind, scores } => {
            Some(Balanced { leaf: leaf.clone(), kind: kind.clone(), scores: scores.clone(), of_rest: None })
        }
        Meaning::Share(shares) => {
            let (_, of_rest) = backward.of_rests.iter().find(|(known, _)| known.same_input(leaf))?;
            let (kind, scores) = (Entropy::Shannon, shares.scores.clone());
            Some(Balanced { leaf: leaf.clone(), kind, scores, of_rest: Some(of_rest.clone()) })
        }
        _ => None,
    };
    let adjoints = backward.definitions.iter().map(|d| &d.leaf).filter(|leaf| leaf.role == Role::Adjoint);
    adjoints.filter_map(of_scores).collect()
}

impl Lowering {
    /// Whether a name is the cotangent of the scores of some weights or shares.
    pub(super) fn is_balanced(&self, leaf: &Leaf) -> bool {
        self.balanced.iter().any(|b| b.leaf.same_input(leaf))
    }

    /// The value of a name, with what rounding leaves of its sum over tokens taken back if it is a ∂s from a loop.
    pub(super) fn evened(&mut self, leaf: &Leaf, id: Id) -> Result<Id, Unsupported> {
        let is_own = |b: &&Balanced| b.leaf.same_input(leaf) && b.kind == Entropy::Shannon && b.of_rest.is_none();
        let own = self.balanced.iter().find(is_own);
        let Some(scores) = own.map(|b| b.scores.clone()) else { return Ok(id) };
        let below = reachable(&self.graph, &BTreeSet::from([id]), &BTreeSet::new());
        if !below.into_iter().any(|id| self.graph[id].is_triple()) {
            return Ok(id);
        }
        let weights = self.weights(&Entropy::Shannon, &scores)?;
        let weights = self.normalized(&weights);
        let rest = self.graph.fold(Fold::Sum, Axis::N, id);
        let minus = self.graph.number(&rational::int(-1));
        let excess = self.graph.mul(&[minus, weights, rest]);
        Ok(self.graph.add(&[id, excess]))
    }

    /// Σ_axis of factors that all have the axis, if they are ∂s and numbers per token.
    pub(super) fn centred(&mut self, axis: Axis, factors: &[Expr]) -> Result<Option<Id>, Unsupported> {
        let Some(Centred { cotangent, kind, scores, of_rest, others, multiple }) = self.beside_cotangent(axis, factors)
        else {
            return Ok(None);
        };
        let cotangent = self.lower(&cotangent)?;
        let weights = self.weights(&kind, &scores)?;
        let minus = self.graph.number(&rational::int(-1));
        // Minus ȳ, and y − ȳ.
        let (below, deviation) = match multiple {
            Some(_) => {
                let shift = self.lower(&weights.shift)?;
                let top = self.graph.add(&[weights.top, shift]);
                (self.graph.mul(&[minus, top]), weights.scores)
            }
            None => {
                let y = self.lower(&others)?;
                let p = self.normalized(&weights);
                let weighted = self.graph.mul(&[p, y]);
                let mean = self.graph.fold(Fold::Sum, Axis::N, weighted);
                let below = self.graph.mul(&[minus, mean]);
                (below, self.graph.add(&[y, below]))
            }
        };
        let product = self.graph.mul(&[cotangent, deviation]);
        let mut sum = self.graph.fold(Fold::Sum, Axis::N, product);
        if let Some(of_rest) = of_rest {
            let of_rest = self.lower(&of_rest)?;
            let rest = self.graph.mul(&[below, of_rest]);
            sum = self.graph.add(&[sum, rest]);
        }
        let Some(multiple) = multiple else { return Ok(Some(sum)) };
        let multiple = self.lower(&multiple)?;
        Ok(Some(self.graph.mul(&[multiple, sum])))
    }

    /// ∂s and what it is multiplied by along the axis.
    fn beside_cotangent(&self, axis: Axis, factors: &[Expr]) -> Option<Centred> {
        if axis.space != Space::Token || factors.iter().any(|f| f.axes().has_space(Space::Head)) {
            return None;
        }
        let leaf_of = |e: &Expr| match e.op() {
            Op::Leaf(leaf) => self.balanced.iter().find(|b| b.leaf.same_input(leaf)),
            _ => None,
        };
        let (at, balanced) = factors.iter().enumerate().find_map(|(i, f)| Some((i, leaf_of(f)?)))?;
        let at_n = |e: &Expr| traverse::rename(e, axis, Axis::N);
        let others = factors.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, f)| f.clone());
        let others = at_n(&Expr::mul(others));
        let is_varying = |f: &Expr| f.has_axis(Axis::N);
        let (varying, fixed): (Vec<Expr>, Vec<Expr>) = balanced.scores.factors().into_iter().partition(is_varying);
        // What is divided by must not be 0 anywhere.
        let is_safe = |f: &Expr| f.as_const().is_some() || f.sign() == Sign::Positive;
        let is_multiple = !varying.is_empty() && fixed.iter().all(is_safe) && Expr::mul(varying) == others;
        let multiple = is_multiple.then(|| Expr::mul(fixed).pow(&rational::int(-1)));
        Some(Centred {
            cotangent: at_n(&factors[at]),
            kind: balanced.kind.clone(),
            scores: balanced.scores.clone(),
            of_rest: balanced.of_rest.clone(),
            others,
            multiple,
        })
    }
}

/// Σ_n ∂s y.
struct Centred {
    cotangent: Expr,
    /// The weights p of these scores s.
    kind: Entropy,
    scores: Expr,
    /// ∂s₀, where there is a rest.
    of_rest: Option<Expr>,
    /// y along `N`.
    others: Expr,
    /// c, if y is c s.
    multiple: Option<Expr>,
}
