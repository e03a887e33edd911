//! The kernel: what runs in single precision, by whoever runs it.

use super::chain::Case;
pub use super::passes::Run;
use super::passes::{self, Arithmetic, Runner};
use super::report::Line;

/// Forward, energy, backward, energy backward.
pub const LINES: [&str; 4] = ["kernel forward", "kernel energy", "kernel backward", "kernel energy backward"];

/// Every pass of what runs against the formulas, a line each. `run` gives the values of every head it was run on, with words
/// that tell them apart; `what` says what it is.
pub fn lines(case: &Case, what: &str, run: &Run) -> Vec<Line> {
    passes::lines(case, &Runner { lines: LINES, what, arithmetic: Arithmetic::SINGLE, run })
}
