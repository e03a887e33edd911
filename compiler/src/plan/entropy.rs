//! The gradient of a temperature is an entropy, and is computed as one.
//!
//! With V(s) = max_p Σ p s + H(p) and F = −T V(−E/T), ∂F/∂T = Σ p s − V(s) = −H(p). Written as the chain rule has it, that is a
//! difference of two numbers as large as E/T, of which nothing is left where a token has nearly all the weight. H(p) itself
//! takes the scores measured from the largest: log Σ exp(s − max s) − Σ p (s − max s).
//!
//! V(s) is opened to H + Σ p s, the simplifier lets Σ p s meet what it cancels with, however that is written, and H is
//! closed again as V(s) − Σ p s, which lowering knows.

use super::graph::{Fold, Graph, Id, Map};
use super::lower::{Lowering, Unsupported, Weights};
use crate::derive::{Derivation, hide};
use crate::ir::{Axis, Entropy, Expr, Func, Leaf, Op, Role, Sign, Space, rational, traverse};
use crate::simplify::{Options, Simplified, simplify};

/// V(s) of some term.
struct Maximum {
    kind: Entropy,
    axis: Axis,
    scores: Expr,
}

impl Maximum {
    fn of(e: &Expr) -> Option<Maximum> {
        if let Op::SmoothMax(kind, axis, scores) = e.op() {
            return Some(Maximum { kind: kind.clone(), axis: *axis, scores: scores.clone() });
        }
        let (axis, scores) = e.as_log_sum_exp().filter(|(axis, _)| axis.space == Space::Token)?;
        Some(Maximum { kind: Entropy::Shannon, axis, scores })
    }

    /// Σ p s.
    fn linear(&self) -> Expr {
        Expr::sum(self.axis, &Expr::weights(&self.kind, self.axis, &self.scores).times(&self.scores))
    }
}

/// The same gradient, with entropies in the place of what they are the differences of. It is opened as differentiation left it:
/// what is simplified already may write Σ p s in a way that nothing cancels with.
pub fn with_entropies(gradient: &Simplified, derivation: &Derivation, options: &Options) -> Expr {
    let written = &gradient.proof.start;
    let number = |(number, (maximum, e)): (usize, (Maximum, Expr))| {
        let axes: Vec<Axis> = e.axes().iter().collect();
        let entropy = Expr::leaf(Leaf::new(Role::Probe, 900 + number as u16, "H", &axes, Sign::Unknown));
        (entropy, maximum.linear(), e)
    };
    let maxima = traverse::subterms(written).into_iter().filter_map(|e| Some((Maximum::of(&e)?, e)));
    let maxima: Vec<(Expr, Expr, Expr)> = maxima.enumerate().map(number).collect();
    if maxima.is_empty() {
        return gradient.term.clone();
    }
    let opened = maxima.iter().fold(written.clone(), |written, (entropy, linear, e)| {
        traverse::replace(&written, e, &entropy.plus(&hide(linear, &derivation.names)))
    });
    let simple = hide(&simplify(&opened, options).term, &derivation.names);
    if traverse::tree_size(&simple) > traverse::tree_size(&gradient.term) {
        return gradient.term.clone();
    }
    maxima.iter().fold(simple, |simple, (entropy, linear, e)| traverse::replace(&simple, entropy, &e.minus(linear)))
}

impl Lowering {
    /// The first c V(s) − c Σ p s among the terms of a sum, and the other terms.
    pub(super) fn entropy_among(&mut self, terms: &[Expr]) -> Result<Option<(Id, Vec<Expr>)>, Unsupported> {
        for term in terms {
            let (c, base) = term.split_coefficient();
            let Some(maximum) = Maximum::of(&base) else { continue };
            let linear = maximum.linear().scale(&-c.clone()).terms();
            if !linear.iter().all(|own| terms.contains(own)) {
                continue;
            }
            let others = terms.iter().filter(|e| *e != term && !linear.contains(e)).cloned().collect();
            let scores = traverse::rename(&maximum.scores, maximum.axis, Axis::N);
            let entropy = self.entropy(&maximum.kind, &scores)?;
            let c = self.graph.number(&c);
            return Ok(Some((self.graph.mul(&[c, entropy]), others)));
        }
        Ok(None)
    }

    /// H(p) of the weights of scores along `N`.
    fn entropy(&mut self, kind: &Entropy, scores: &Expr) -> Result<Id, Unsupported> {
        let weights = self.weights(kind, scores)?;
        Ok(self.entropy_of_weights(kind, &weights))
    }

    /// H(p) as a sum over tokens that is exactly 0 where a token has all the weight.
    pub(super) fn entropy_of_weights(&mut self, kind: &Entropy, weights: &Weights) -> Id {
        let p = self.normalized(weights);
        let graph = &mut self.graph;
        let [one, minus] = [1, -1].map(|c| graph.number(&rational::int(c)));
        let sum = |graph: &mut Graph, factors: &[Id]| {
            let product = graph.mul(factors);
            graph.fold(Fold::Sum, Axis::N, product)
        };
        match (kind, weights.total) {
            // (1 − Σ p^α) / (α(α − 1)) = Σ p (1 − p^(α−1)) / (α(α − 1)).
            (Entropy::Tsallis(alpha), _) => {
                let power = graph.map(Map::Pow(alpha - rational::int(1)), &[p]);
                let power = graph.mul(&[minus, power]);
                let rest = graph.add(&[one, power]);
                let total = sum(graph, &[p, rest]);
                let c = graph.number(&(alpha * (alpha - rational::int(1))).recip());
                graph.mul(&[c, total])
            }
            // 1 − ‖p‖_γ = Σ p (1 − ‖p‖_γ).
            (Entropy::Norm(gamma), _) => {
                let power = graph.map(Map::Pow(gamma.clone()), &[p]);
                let powers = graph.fold(Fold::Sum, Axis::N, power);
                let norm = graph.map(Map::Pow(gamma.recip()), &[powers]);
                let norm = graph.mul(&[minus, norm]);
                let rest = graph.add(&[one, norm]);
                sum(graph, &[p, rest])
            }
            // log Σ exp(s) − Σ p s.
            (Entropy::Shannon, total) => {
                let total = total.unwrap_or_else(|| unreachable!("exponentials have a sum"));
                let log = graph.map(Map::Call(Func::Log), &[total]);
                let linear = sum(graph, &[p, weights.scores]);
                let linear = graph.mul(&[minus, linear]);
                graph.add(&[log, linear])
            }
        }
    }
}
