//! `energyc verify`: is what was derived true of the energy?

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::check::Recipe;
use crate::simplify::Options;
use crate::verify::{self, Line, Report};

use super::outcome::{Exit, Format, Outcome, count};
use super::table::{table, wrapped};
use super::warnings::of_budget;
use super::{fault, read};

/// Columns for what was compared, so that a line fits a usual terminal.
const DETAIL_WIDTH: usize = 64;

/// Compare the derivation of a recipe with finite differences of its energy, and its plan with the derivation
#[derive(clap::Args, Debug)]
#[command(after_help = "✓ holds, ✗ fails, ! holds with a loss, – does not apply, ? could not be tried.\n\
    Exit code 1 if a line fails, 3 if it is one about the plan: then the compiler is wrong, not the recipe.\n\n\
    Examples:\n  \
    energyc verify mine.recipe\n  \
    energyc verify softmax --format json")]
pub struct Args {
    /// A recipe file, a shipped recipe, or `-`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    report(&args.file, args.format, color, |_| Vec::new())
}

/// The report on the recipe of a file, with more lines by somebody who runs it.
pub fn report(file: &Path, format: Format, color: bool, more: impl Fn(&Recipe) -> Vec<Line>) -> Outcome {
    let (recipe, said) = match read::recipe(file, color) {
        Ok(checked) => checked,
        Err(refused) => return refused,
    };
    let options = Options::default();
    let mut report = verify::verify(&recipe, &options);
    report.lines.extend(more(&recipe));
    let results = match format {
        Format::Text => print(&recipe.name, &report),
        Format::Json => format!("{:#}\n", as_json(&recipe.name, &report)),
    };
    let exit = if report.passed() { Exit::Good } else { Exit::Wrong };
    let said = said.then(of_budget(&options, &read::display_name(file), color));
    let judged = said.then(Outcome { results, exit, ..Outcome::default() });
    match report.lines.iter().find(|line| line.is_of_plan() && line.failed()) {
        Some(Line { name, outcome: verify::Outcome::Fail { where_, .. }, .. }) => {
            judged.then(fault::fault(&recipe.name, &format!("{name}: {where_}"), color))
        }
        _ => judged,
    }
}

fn as_json(name: &str, report: &Report) -> Value {
    let line = |Line { name, detail, outcome }: &Line| match outcome {
        verify::Outcome::Pass { error, tolerance } => {
            json!({ "line": name, "outcome": "pass", "error": error, "tolerance": tolerance, "compared": detail })
        }
        verify::Outcome::Fail { error, tolerance, where_ } => json!({
            "line": name, "outcome": "fail", "error": error, "tolerance": tolerance, "compared": detail, "where": where_
        }),
        verify::Outcome::NotApplicable { reason } => {
            json!({ "line": name, "outcome": "not applicable", "compared": detail, "reason": reason })
        }
        verify::Outcome::Warning { reason } => {
            json!({ "line": name, "outcome": "warning", "compared": detail, "reason": reason })
        }
        verify::Outcome::Inconclusive { reason } => {
            json!({ "line": name, "outcome": "inconclusive", "compared": detail, "reason": reason })
        }
    };
    json!({ "recipe": name, "passed": report.passed(), "lines": report.lines.iter().map(line).collect::<Vec<Value>>() })
}

fn print(name: &str, report: &Report) -> String {
    let heading = ["", "line", "error", "tolerance", "what was compared"].map(String::from);
    let lines = report.lines.iter().flat_map(rows);
    let rows: Vec<[String; 5]> = std::iter::once(heading).chain(lines).collect();
    format!("{name}\n\n{}\n{}\n", table(&rows, 0), summary(report))
}

/// A line; its detail and the reason for its outcome go on below.
fn rows(line: &Line) -> Vec<[String; 5]> {
    let number = |x: &f64| format!("{x:.1e}");
    let (mark, error, tolerance, reason) = match &line.outcome {
        verify::Outcome::Pass { error, tolerance } => ("✓", number(error), number(tolerance), None),
        verify::Outcome::Fail { error, tolerance, where_ } => ("✗", number(error), number(tolerance), Some(where_)),
        verify::Outcome::NotApplicable { reason } => ("–", String::new(), String::new(), Some(reason)),
        verify::Outcome::Warning { reason } => ("!", String::new(), String::new(), Some(reason)),
        verify::Outcome::Inconclusive { reason } => ("?", String::new(), String::new(), Some(reason)),
    };
    let reason = reason.map(|reason| format!("{mark} {reason}"));
    let details = std::iter::once(&line.detail).chain(&reason);
    let mut details = details.flat_map(|text| wrapped(text, DETAIL_WIDTH));
    let first = [mark.to_string(), line.name.to_string(), error, tolerance, details.next().unwrap_or_default()];
    let below = details.map(|detail| {
        let [a, b, c, d] = std::array::from_fn(|_| String::new());
        [a, b, c, d, detail]
    });
    std::iter::once(first).chain(below).collect()
}

fn summary(report: &Report) -> String {
    let failed = report.lines.iter().filter(|line| line.failed()).count();
    let of = |wanted: fn(&verify::Outcome) -> bool| report.lines.iter().filter(|line| wanted(&line.outcome)).count();
    let open = of(|outcome| matches!(outcome, verify::Outcome::NotApplicable { .. }));
    let untried = of(|outcome| matches!(outcome, verify::Outcome::Inconclusive { .. }));
    let warned = of(|outcome| matches!(outcome, verify::Outcome::Warning { .. }));
    let hold = report.lines.len() - failed - open - untried - warned;
    let mut parts = vec![format!("{} verified", count(hold, "line"))];
    if failed > 0 {
        parts.push(format!("{failed} failed"));
    }
    if warned > 0 {
        parts.push(count(warned, "warning"));
    }
    if open > 0 {
        parts.push(format!("{open} not applicable"));
    }
    if untried > 0 {
        parts.push(format!("{untried} inconclusive"));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_where_and_is_counted() {
        let line = |name, outcome| Line { name, detail: "a against b".to_string(), outcome };
        let report = Report {
            lines: vec![
                line("one", verify::Outcome::Pass { error: 0.0, tolerance: 1e-6 }),
                line("two", verify::Outcome::Fail { error: 0.5, tolerance: 1e-6, where_: "at 0".to_string() }),
                line("three", verify::Outcome::NotApplicable { reason: "none".to_string() }),
                line("four", verify::Outcome::Inconclusive { reason: "no sample".to_string() }),
            ],
        };
        let expect = "\
r

   line   error   tolerance  what was compared
✓  one    0.0e0   1.0e-6     a against b
✗  two    5.0e-1  1.0e-6     a against b
                             ✗ at 0
–  three                     a against b
                             – none
?  four                      a against b
                             ? no sample

1 line verified, 1 failed, 1 not applicable, 1 inconclusive
";
        assert_eq!(print("r", &report), expect);
    }
}
