//! The derived pieces, as data: verification judges these and derives nothing itself, so a test can hand it wrong ones.

use crate::calculus;
use crate::check::{Recipe, inputs};
use crate::derive::{
    self, Backward, Derivation, Hessian, Reveal, StepBackward, backward, derive, hessian, options_for,
};
use crate::ir::sample::Norm;
use crate::ir::{Axis, Entropy, Expr, Leaf, traverse};
use crate::simplify::{Options, Simplified};
use std::cell::RefCell;

/// A recipe (inside its derivation) and everything derived from it.
#[derive(Clone, Debug)]
pub struct Parts {
    pub derivation: Derivation,
    /// ∂F_h/∂z with q = W1 z put in.
    pub gradient_in_z: Expr,
    pub hessian: Hessian,
    pub backward: Backward,
    pub step: StepBackward,
    /// What the proofs may use, the recipe's assumptions included.
    pub options: Options,
    /// What names were found to stand for.
    pub revealed: RefCell<Reveal>,
}

impl Parts {
    /// Derives everything there is to verify about a recipe.
    pub fn of(recipe: &Recipe, options: &Options) -> Parts {
        let derivation = derive(recipe, options);
        let energy = through_z(&stable(smooth_energy(&derivation)));
        Parts {
            gradient_in_z: calculus::gradient(&energy, &inputs::z()),
            hessian: hessian(&derivation, options),
            backward: backward(&derivation, options),
            step: derive::step_backward(recipe, options),
            options: options_for(recipe, options),
            revealed: RefCell::default(),
            derivation,
        }
    }

    pub(super) fn recipe(&self) -> &Recipe {
        &self.derivation.recipe
    }

    pub(super) fn is_constrained(&self) -> bool {
        !self.recipe().constraints.is_empty()
    }

    /// The recipe's energy; with constraints, the energy after they are put in.
    pub(super) fn energy(&self) -> &Expr {
        smooth_energy(&self.derivation)
    }

    /// How [`Parts::energy`] is called in a line's detail.
    pub(super) fn energy_name(&self) -> &'static str {
        if self.is_constrained() {
            "F after the constraints are put in (its radial term is dropped)"
        } else {
            "F as the recipe gives it"
        }
    }

    pub(super) fn norms(&self) -> Vec<Norm> {
        let constraints = self.recipe().constraints.iter();
        constraints.map(|c| (c.vector.clone(), c.radius.clone())).collect()
    }

    /// q, k, v and the parameters.
    pub(super) fn inputs(&self) -> Vec<Leaf> {
        let params = self.recipe().params.iter().map(|p| p.leaf.clone());
        [inputs::q(), inputs::k(), inputs::v()].into_iter().chain(params).collect()
    }

    /// A term with every name replaced by what it stands for.
    pub(super) fn reveal(&self, e: &Expr) -> Expr {
        let names = self.derivation.names.iter().map(|named| (named.leaf.clone(), named.value()));
        let definitions = self.backward.definitions.iter().map(|d| (d.leaf.clone(), d.value.term.clone()));
        let mut revealed = self.revealed.borrow_mut();
        revealed.stand_for(names.chain(definitions).collect());
        revealed.of(e)
    }

    pub(super) fn direction(&self) -> Expr {
        self.reveal(&self.derivation.direction.term)
    }

    /// The formula for an input's cotangent; 0 where the backward pass has none.
    pub(super) fn cotangent(&self, input: &Leaf) -> Expr {
        let name = format!("∂{}", input.name);
        let found = self.backward.gradients.iter().find(|d| d.leaf.role == input.role && *d.leaf.name == *name);
        found.map_or_else(Expr::zero, |d| self.reveal(&d.value.term))
    }

    /// Every simplification that was made.
    pub(super) fn stages(&self) -> Vec<(String, &Simplified)> {
        let first = self.derivation.stages().map(|(name, value)| (name.to_string(), value));
        let definitions = self.backward.definitions.iter().chain(&self.backward.gradients);
        let backward = definitions.map(|d| (d.leaf.name.to_string(), &d.value));
        let second = self.hessian.form.iter().map(|part| ("hessian".to_string(), part));
        let step = self.step.forces.iter().chain(self.step.inputs.iter().map(|(_, d)| d));
        let step = step.map(|d| (d.leaf.name.to_string(), &d.value));
        first.into_iter().chain(backward).chain(second).chain(step).collect()
    }
}

/// The energy whose slopes the derived formulas claim to be.
fn smooth_energy(derivation: &Derivation) -> &Expr {
    let recipe = &derivation.recipe;
    if recipe.constraints.is_empty() { &recipe.energy } else { &derivation.energy.term }
}

/// The term with log Σ exp in its stable form, without which the slopes of a steep energy are ∞/∞.
pub(crate) fn stable(e: &Expr) -> Expr {
    traverse::rewrite_bottom_up(e, &mut |x| match x.as_log_sum_exp() {
        Some((axis, scores)) => Expr::smoothmax(&Entropy::Shannon, axis, &scores),
        None => x,
    })
}

/// The term with q = W1 z put in: q_e = Σ_c W1[e,c] z_c.
pub(super) fn through_z(e: &Expr) -> Expr {
    traverse::substitute_leaves(e, &mut |leaf| {
        let &[t, e] = leaf.axes.as_slice() else { return None };
        let w1 = Expr::leaf(Leaf { axes: vec![e, Axis::C], ..inputs::w1() });
        let z = Expr::leaf(Leaf { axes: vec![t, Axis::C], ..inputs::z() });
        leaf.same_input(&inputs::q()).then(|| Expr::sum(Axis::C, &w1.times(&z)))
    })
}

/// The direction with tied values: k stands where v was put.
pub(super) fn tied(direction: &Expr) -> Expr {
    traverse::substitute_leaves(direction, &mut |leaf| {
        let k = || Expr::leaf(Leaf { axes: leaf.axes.clone(), ..inputs::k() });
        leaf.same_input(&inputs::v()).then(k)
    })
}
