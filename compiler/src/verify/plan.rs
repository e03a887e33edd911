//! The plan: does what will run compute what was proven? The plan interpreter runs every pass in f64, over tiles and by scans.

use super::chain::Case;
use super::passes::{self, Arithmetic, Runner};
use super::report::{Line, Outcome};
use crate::ir::eval::Env;
use crate::plan::Passes;
use crate::primitives::visible::Visible;

/// The one line of a recipe without a plan.
pub const LINE: &str = "plan";
/// Forward, energy, backward, energy backward.
pub const LINES: [&str; 4] = ["plan forward", "plan energy", "plan backward", "plan energy backward"];

/// Every pass of the plan against the formulas, a line each.
pub fn lines(case: &Case) -> Vec<Line> {
    let run = |env: &Env, visible: &Visible| {
        let mut ways: Vec<(&str, &Passes)> = vec![("", &case.plan.tiles)];
        let chosen = case.plan.passes_for(std::slice::from_ref(visible), false);
        if chosen.forward.is_scan {
            ways.push((", by scans", chosen));
        }
        ways.into_iter().map(|(way, passes)| (way, case.planned_by::<f64>(passes, env, visible))).collect()
    };
    passes::lines(case, &Runner { lines: LINES, what: "the plan", arithmetic: Arithmetic::DOUBLE, run: &run })
}

/// The first disagreement of a plan and its formulas, in words.
pub fn disagreement(case: &Case) -> Option<String> {
    lines(case).into_iter().find_map(|line| match line.outcome {
        Outcome::Fail { where_, .. } => Some(format!("{}: {where_}", line.name)),
        _ => None,
    })
}
