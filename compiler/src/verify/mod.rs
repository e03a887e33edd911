//! Verification: is what was derived from a recipe true of its energy?
//!
//! Expected values never come from the derived formulas: they are finite differences of the energy as the recipe gives
//! it, taken with the reference interpreter on random inputs from fixed seeds. One line of the report is one claim; a
//! file here holds one claim or two.
//!
//! | line | claim |
//! |---|---|
//! | `gradient` | the derived ∇_q F_h is the slope of F_h |
//! | `gradient in z` | so is ∂F_h/∂z, through q = W1 z |
//! | `direction` | the direction is −∇_q F_h once k stands where v was put, or the solution of the optimizer's system |
//! | `newton in z` | an exact solve, through W1⁺, is Newton's step in z |
//! | `hessian` | the Hessian–vector product is the slope of the gradient |
//! | `hessian matrix` | the matrix, applied to the probe, is that product |
//! | `vjp` | the backward pass gives the slopes of ⟨g, direction⟩ in every input |
//! | `step` | so do the steps of the whole layer, through states, points, heads and write-back |
//! | `simplified` | every simplified term has the value of the term it came from |
//! | `proofs` | every proof replays |
//! | `descent` | a small step of the optimizer lowers F_h |
//! | `awkward points` | nothing is infinite or undefined where formulas like to break |
//! | `plan …` | every pass of the plan, as it will run, computes what the formulas say |
//! | `precision` | what runs loses no more digits than the problem does, at inputs from 10⁻³ to 10⁴ |
//! | `kernel …` | so does what runs it in single precision, where somebody hands it over |

mod awkward;
mod backward;
pub mod chain;
mod descent;
mod gradient;
mod hessian;
pub mod kernel;
mod parts;
mod passes;
pub mod plan;
mod precondition;
mod report;
pub mod samples;
pub(crate) mod scales;
mod simplified;
pub mod slopes;
pub(crate) mod steady;
mod step;
pub(crate) mod trials;

pub use parts::Parts;
pub(crate) use parts::stable;
pub use report::{Line, Outcome, Report};

use crate::check::Recipe;
use crate::derive::Derivation;
use crate::simplify::Options;

/// Derives and plans a recipe, and verifies both.
pub fn verify(recipe: &Recipe, options: &Options) -> Report {
    let parts = Parts::of(recipe, options);
    let mut report = verify_derivation(&parts);
    report.lines.extend(planned(&parts.derivation, options));
    report
}

/// What runs: a line for every pass of the plan.
fn planned(derivation: &Derivation, options: &Options) -> Vec<Line> {
    match crate::plan::plan(derivation, options) {
        Ok(found) => {
            let (case, single) = scales::in_precision(chain::Case::of(derivation.clone(), found, options));
            plan::lines(&case).into_iter().chain([scales::line(&case, single)]).collect()
        }
        Err(why) => {
            let reason = format!("there is no plan: {why}");
            let detail = "every pass of the plan against the formulas".to_string();
            let outcome = match why.is_fault() {
                true => Outcome::Fail { error: f64::INFINITY, tolerance: 0.0, where_: reason },
                false => Outcome::NotApplicable { reason },
            };
            vec![Line { name: plan::LINE, detail, outcome }]
        }
    }
}

/// Verifies derived pieces, wherever they come from.
pub fn verify_derivation(parts: &Parts) -> Report {
    let solved = parts.recipe().program.preconditioner.as_ref().zip(parts.derivation.preconditioned.as_ref());
    let direction = solved.map_or_else(
        || vec![gradient::direction(parts)],
        |(how, done)| vec![precondition::direction(parts, how, done), precondition::in_z(parts, how)],
    );
    let first = [gradient::in_q(parts), gradient::in_z(parts)].into_iter().chain(direction);
    let rest = [
        hessian::product(parts),
        hessian::matrix(parts),
        backward::vjp(parts),
        step::step(parts),
        simplified::values(parts),
        simplified::proofs(parts),
        descent::descent(parts),
        awkward::awkward(parts),
    ];
    Report { lines: first.chain(rest).collect() }
}
