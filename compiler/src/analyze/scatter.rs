//! The curvature of a smooth maximum: a weighted scatter of the slopes around their mean.
//!
//! With p the weights of m(s) and ds the change of the scores, dsᵀ J ds for the Jacobian J of the weights is
//!
//! ```text
//! κ Σ_i u_i (ds_i − μ)²          Shannon     κ = 1,                    u = p,         μ = Σ p ds
//!                                Tsallis α   κ = 1,                    u = p^(2−α),   μ = Σ u ds / Σ u
//!                                norm γ      κ = ‖p‖^(γ−1) / (γ − 1),  u = p^(2−γ),   μ = Σ p ds
//! ```
//! with p^0 = 1 on the support and 0 off it. Every one is a sum of squares with weights κ u ≥ 0: m is convex.

use crate::ir::{Axis, Entropy, Expr, Rational, rational};
use num_traits::Zero;

/// front · κ Σ_axis u (change − μ)².
#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    pub front: Expr,
    pub kind: Entropy,
    pub axis: Axis,
    /// p, along the axis.
    pub weights: Expr,
    /// ds, along the axis and linear in the probe.
    pub change: Expr,
}

impl Scatter {
    /// The quadratic form in the probe.
    pub fn form(&self) -> Expr {
        let spread = self.change.minus(&self.centre(&self.change)).square();
        Expr::mul([self.front.clone(), self.scale(), Expr::sum(self.axis, &self.spread_weights().times(&spread))])
    }

    /// κ.
    pub fn scale(&self) -> Expr {
        match &self.kind {
            Entropy::Norm(gamma) => {
                let less = gamma - rational::int(1);
                let norm = Expr::sum(self.axis, &self.weights.pow(gamma)).pow(&(&less / gamma));
                norm.scale(&less.recip())
            }
            _ => Expr::one(),
        }
    }

    /// u.
    pub fn spread_weights(&self) -> Expr {
        let support_power = |r: Rational| if r.is_zero() { self.weights.signum() } else { self.weights.pow(&r) };
        match &self.kind {
            Entropy::Shannon => self.weights.clone(),
            Entropy::Tsallis(order) | Entropy::Norm(order) => support_power(rational::int(2) - order),
        }
    }

    /// The mean of x that the spread is measured from.
    pub fn centre(&self, x: &Expr) -> Expr {
        let mean = |w: &Expr| Expr::sum(self.axis, &w.times(x));
        match &self.kind {
            Entropy::Tsallis(_) => {
                let u = self.spread_weights();
                mean(&u).over(&Expr::sum(self.axis, &u))
            }
            _ => mean(&self.weights),
        }
    }

    /// The same, c times as large.
    pub fn times(&self, c: &Expr) -> Scatter {
        Scatter { front: self.front.times(c), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calculus::weights_jacobian;
    use crate::ir::{Leaf, Role, Sign, sample};

    /// Σ ds · J ds, from the rule that differentiates weights.
    #[test]
    fn the_scatter_is_the_jacobian_in_the_direction_of_the_change() {
        let leaf = |name: &str| Expr::leaf(Leaf::new(Role::Named, 7, name, &[Axis::T, Axis::N], Sign::Unknown));
        let (scores, change) = (leaf("s"), leaf("ds"));
        for kind in [
            Entropy::Shannon,
            Entropy::Tsallis(rational::ratio(3, 2)),
            Entropy::Tsallis(rational::int(2)),
            Entropy::Tsallis(rational::int(3)),
            Entropy::Norm(rational::int(2)),
            Entropy::Norm(rational::ratio(3, 2)),
            Entropy::Norm(rational::int(3)),
        ] {
            let weights = Expr::weights(&kind, Axis::N, &scores);
            let jacobian = weights_jacobian(&kind, Axis::N, &weights, &change);
            let expected = Expr::sum(Axis::N, &change.times(&jacobian));
            let front = Expr::one();
            let form = Scatter { front, kind: kind.clone(), axis: Axis::N, weights, change: change.clone() }.form();
            let error = sample::compare(&form, &expected, &[], 3).expect("values");
            assert!(error < 1e-9, "{kind}: {error}");
        }
    }
}
