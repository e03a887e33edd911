//! `energyc verify`: is what was derived true of the energy?

use std::path::PathBuf;

use crate::simplify::Options;
use crate::verify::{self, Line, Report};

use super::outcome::{Exit, Outcome, count};
use super::read;
use super::table::{table, wrapped};

/// Columns for what was compared, so that a line fits a usual terminal.
const DETAIL_WIDTH: usize = 64;

/// Compare the derivation of a recipe with finite differences of its energy
#[derive(clap::Args, Debug)]
#[command(after_help = "✓ holds, ✗ fails, – does not apply. Exit code 1 if a line fails.\n\n\
    Examples:\n  \
    energyc verify mine.recipe\n  \
    energyc verify softmax")]
pub struct Args {
    /// A recipe file, a shipped recipe, or `-`
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    let (recipe, said) = match read::recipe(&args.file, color) {
        Ok(checked) => checked,
        Err(refused) => return refused,
    };
    let report = verify::verify(&recipe, &Options::default());
    said.then(Outcome {
        results: print(&recipe.name, &report),
        messages: String::new(),
        exit: if report.passed() { Exit::Good } else { Exit::Wrong },
    })
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
    let open = report.lines.iter().filter(|line| matches!(line.outcome, verify::Outcome::NotApplicable { .. })).count();
    let hold = report.lines.len() - failed - open;
    let mut parts = vec![format!("{} verified", count(hold, "line"))];
    if failed > 0 {
        parts.push(format!("{failed} failed"));
    }
    if open > 0 {
        parts.push(format!("{open} not applicable"));
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

1 line verified, 1 failed, 1 not applicable
";
        assert_eq!(print("r", &report), expect);
    }
}
