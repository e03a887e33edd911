//! The kernel: what runs in single precision, by whoever runs it.

use super::chain::{Case, Values};
use super::passes::{self, Arithmetic, Runner};
use super::report::Line;
use crate::ir::eval::Env;
use crate::primitives::visible::Visible;

/// Forward, energy, backward, energy backward.
pub const LINES: [&str; 4] = ["kernel forward", "kernel energy", "kernel backward", "kernel energy backward"];

/// Every pass of what runs against the formulas, a line each. `run` gives the values of every head it was run on, with words
/// that tell them apart; `what` says what it is.
pub fn lines(case: &Case, what: &str, run: &dyn Fn(&Env, &Visible) -> Vec<(&'static str, Values)>) -> Vec<Line> {
    passes::lines(case, &Runner { lines: LINES, what, arithmetic: Arithmetic::SINGLE, run })
}
