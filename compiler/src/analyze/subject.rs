//! An energy under analysis: what was derived of it, what is claimed, and what was seen.

use super::curvature::{Curvature, Curvatures};
use super::draws::{Ball, settings};
use super::known::Known;
use super::numbers::{Claims, Seen, look};
use super::parts::parts;
use super::verdict::{self, Verdict};
use crate::calculus;
use crate::check::inputs;
use crate::derive::{Derivation, Hessian, hessian};
use crate::ir::{Expr, Func, Op, traverse};
use crate::simplify::Options;
use crate::verify::stable;

/// The Hessian times its probe as differentiation leaves it: covariances are centred there, and lose no digits.
fn centred_product(energy: &Expr, hessian: &Hessian) -> Expr {
    let gradient = calculus::gradient(&stable(energy), &inputs::q());
    calculus::hessian_vector(&gradient, &inputs::q(), &hessian.probe, &[])
}

/// One energy.
pub struct Subject {
    pub derivation: Derivation,
    pub hessian: Hessian,
    pub claims: Claims,
    /// Whether composition alone proves the curvature that is claimed.
    pub by_composition: bool,
    /// Whether q and k_i are taken from a ball only.
    pub is_in_ball: bool,
    pub seen: Seen,
}

impl Subject {
    /// Claims everything there is to claim about the energy of a derivation, and looks at it inside the ball.
    pub fn of(derivation: Derivation, ball: Option<&Ball>, options: &Options) -> Subject {
        let recipe = &derivation.recipe;
        let known = Known::of(recipe);
        let mut hessian = hessian(&derivation, options);
        hessian.kinks.retain(|kink| kink.is_reachable(|e| known.sign(e)));
        let q = inputs::q();
        let simplified = &derivation.energy.term;
        // Under constraints the energy is the one they are put into.
        let energy = if recipe.constraints.is_empty() { &recipe.energy } else { simplified };
        let mut curvatures = Curvatures::of_input(&q, known.clone());
        let composed = match curvatures.of(simplified) {
            Curvature::Unknown => curvatures.of(energy),
            composed => composed,
        };
        let parts = parts(simplified, &q, &hessian.probe, &known);
        let claims = Claims {
            energy: stable(energy),
            product: centred_product(energy, &hessian),
            curvature: verdict::proven(composed, &parts, !hessian.kinks.is_empty()),
            kinks: hessian.kinks.clone(),
            probe: hessian.probe.clone(),
            parts,
        };
        let forms = claims.parts.iter().map(|part| part.form.clone());
        let terms: Vec<Expr> = [claims.energy.clone(), claims.product.clone()].into_iter().chain(forms).collect();
        let seen = look(&claims, recipe, &settings(&terms, recipe, ball));
        let (by_composition, is_in_ball) = (composed != Curvature::Unknown, ball.is_some());
        Subject { by_composition, is_in_ball, derivation, hessian, claims, seen }
    }

    pub fn verdict(&self) -> Verdict {
        verdict::verdict(self.claims.curvature, &self.seen)
    }

    /// Whether the energy is made of analytic functions only: constant around one point, it is constant.
    pub fn is_analytic(&self) -> bool {
        let joins = |x: &Expr| matches!(x.op(), Op::Call(Func::Abs | Func::Sign, _) | Op::Select(_));
        !self.has_kinks() && !traverse::subterms(&self.derivation.energy.term).iter().any(joins)
    }

    pub fn has_kinks(&self) -> bool {
        !self.claims.kinks.is_empty()
    }
}
