//! `energyc analyze`: the shape of an energy, its stationary points and its bound on a ball.

use std::path::PathBuf;

use crate::analyze::{self, Report};
use crate::simplify::Options;

use super::outcome::{Exit, Format, Outcome, message};
use super::read;
use super::warnings::of_budget;

/// Tell where an energy is convex or concave, where its minima are, and what bounds it
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The Hessian is printed as a sum of parts that are ⪰ 0, ⪯ 0 or of unknown sign; every claim is\n\
    held against eigenvalues on random inputs. Exit code 1 if numbers speak against a claim.\n\n\
    Examples:\n  \
    energyc analyze euclidean\n  \
    energyc analyze mine.recipe --format json"
)]
pub struct Args {
    /// A recipe file, a shipped recipe, or `-`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How to print it; JSON has the verdicts, and every formula as text and LaTeX
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    let (recipe, said) = match read::recipe(&args.file, color) {
        Ok(checked) => checked,
        Err(refused) => return refused,
    };
    let options = Options::default();
    let report = analyze::analyze(&recipe, &options);
    said.then(of_budget(&options, &read::display_name(&args.file), color)).then(outcome(&report, args.format, color))
}

/// The report; its problems are messages, and a failure.
fn outcome(report: &Report, format: Format, color: bool) -> Outcome {
    Outcome {
        results: match format {
            Format::Text => report.text(),
            Format::Json => format!("{:#}\n", report.json()),
        },
        messages: report.problems.iter().map(|problem| message("error", problem, color)).collect(),
        exit: if report.problems.is_empty() { Exit::Good } else { Exit::Wrong },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disagreement_is_an_error_that_says_what() {
        let problems = vec!["part 1 is not ⪰ 0".to_string()];
        let report = Report { title: "r".to_string(), verdicts: vec![], sections: vec![], problems };
        let outcome = outcome(&report, Format::Text, false);
        assert_eq!((outcome.exit, outcome.messages.as_str()), (Exit::Wrong, "error: part 1 is not ⪰ 0\n"));
    }
}
