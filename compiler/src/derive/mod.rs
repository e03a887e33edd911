//! Derivation: from a checked recipe to the update rule it induces.
//!
//! ```text
//! F_h ──simplify──▶ F_h ──gradient, simplify──▶ ∇_q F_h ──parameterize, simplify──▶ direction
//! ```
//! The *direction* is what a head adds to the token before write-back, with its true sign and without η and 1/H:
//! −∇_q F_h for tied values; for free ones the same with v in the vector part; where the optimizer solves a system, the
//! solution with that on its right side.

mod backward;
mod dropout;
mod hessian;
mod kinks;
mod naming;
mod parameterize;
mod precondition;
mod step;
mod update;

pub use backward::{Backward, EnergyBackward, backward, energy_backward};
pub use dropout::{kept, with_dropout};
pub use hessian::{COLUMN, Hessian, hessian, matrix_of};
pub use kinks::{Kink, SECOND_DERIVATIVE, kinks};
pub use naming::{Named, Reveal, at_axes, hide, reveal, reveal_within, unused};
pub use parameterize::{free_values, vector_part};
pub use precondition::{Preconditioned, applied};
pub use step::{StepBackward, step_backward};
pub use update::{UpdateRule, update_rule};

use crate::calculus;
use crate::check::inputs;
use crate::check::recipe::{Recipe, Values};
use crate::ir::{Expr, Leaf};
use crate::simplify::{Options, Simplified, simplify};

/// A named quantity and its formula.
#[derive(Clone, Debug)]
pub struct Definition {
    pub leaf: Leaf,
    pub value: Simplified,
}

/// Everything the first-order derivation finds.
#[derive(Clone, Debug)]
pub struct Derivation {
    pub recipe: Recipe,
    /// E_i.
    pub local: Simplified,
    /// F_h over the named E_i.
    pub global: Simplified,
    /// F_h, constraints put in.
    pub energy: Simplified,
    /// The weights that differentiation brings in: p_i and what they stand for. Later terms use the names.
    pub names: Vec<Named>,
    /// ∇_q F_h.
    pub gradient: Simplified,
    /// What the gradient goes through, where the optimizer solves a system.
    pub preconditioned: Option<Preconditioned>,
    /// What a head adds.
    pub direction: Simplified,
    /// How the optimizer uses it.
    pub update: UpdateRule,
}

impl Derivation {
    /// Every simplification that was made, with the name of its stage.
    pub fn stages(&self) -> [(&'static str, &Simplified); 3] {
        [("energy", &self.energy), ("gradient", &self.gradient), ("direction", &self.direction)]
    }
}

/// The options with the recipe's constraints as assumptions. Every stage of a derivation takes them with a budget of its
/// own, so that it finds the same whichever stages went before.
pub fn options_for(recipe: &Recipe, options: &Options) -> Options {
    let norms = recipe.constraints.iter().map(|c| (c.vector.clone(), c.radius.clone())).collect();
    options.clone().assuming(norms)
}

/// Derives the update rule of a recipe.
pub fn derive(recipe: &Recipe, options: &Options) -> Derivation {
    let options = options_for(recipe, options).afresh();
    let local = simplify(&recipe.local, &options);
    let global = simplify(&recipe.global, &options);
    let energy = simplify(&recipe.energy, &options);
    let shares = naming::name_shares(&energy.term, recipe);
    let named_energy = naming::in_shares(&energy.term, &shares);
    let raw = calculus::gradient_naming(&named_energy, &inputs::q(), &naming::meanings(&shares));
    let mut names = naming::name_weights(&raw, recipe, shares);
    let mut gradient = simplify(&hide(&raw, &names), &options);
    names.extend(naming::name_cases(&gradient.term, recipe));
    gradient.term = hide(&gradient.term, &names);
    let (raw, preconditioned) = match &recipe.program.preconditioner {
        None => (direction_of(&gradient.term, recipe.values), None),
        Some(how) => {
            let hessian = hessian::second_derivative(recipe, &energy.term, &names, &options);
            let (raw, done) = precondition::precondition(recipe, how, &gradient.term, hessian, &options);
            names.extend(done.names.iter().cloned());
            (raw, Some(done))
        }
    };
    // A series is as short as it gets.
    let is_series = preconditioned.as_ref().is_some_and(|p| p.names.len() > 1);
    let direction = if is_series { Simplified::as_it_is(&raw) } else { simplify(&raw, &options) };
    let update = update_rule(recipe);
    Derivation { recipe: recipe.clone(), local, global, energy, names, gradient, preconditioned, direction, update }
}

/// −∇_q F_h, with values put in where they are free.
fn direction_of(gradient: &Expr, values: Values) -> Expr {
    let descent = gradient.neg();
    match values {
        Values::Tied => descent,
        Values::Free => free_values(&descent),
    }
}
