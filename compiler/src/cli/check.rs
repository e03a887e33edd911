//! `energyc check`: everything that is wrong with some files.

use std::path::{Path, PathBuf};

use crate::pipeline;

use super::outcome::{Exit, Outcome, count};
use super::read;

/// Check recipes and ingredient files, and report everything that is wrong
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    energyc check mine.recipe\n  \
    energyc check recipes/*.recipe\n  \
    energyc check - < mine.recipe")]
pub struct Args {
    /// Recipe files, shipped recipes, or `-`
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    let files = args.files.iter().map(|file| Outcome::guarded(&read::display_name(file), color, || check(file, color)));
    let checked = files.fold(Outcome::default(), Outcome::then);
    let files = count(args.files.len(), "file");
    let summary = match (checked.exit, checked.messages.is_empty()) {
        (Exit::Wrong | Exit::Usage | Exit::Internal, _) => return checked,
        (Exit::Good, true) => format!("{files}, no problems\n"),
        (Exit::Good, false) => format!("{files}, no errors\n"),
    };
    checked.then(Outcome::good(summary))
}

/// A file of ingredients alone is fine.
fn check(file: &Path, color: bool) -> Outcome {
    match read::source(file, color) {
        Ok(source) => {
            let (_, diagnostics) = pipeline::front_of_library(&source.text);
            Outcome::of_diagnostics(&diagnostics, &source, color)
        }
        Err(refused) => refused,
    }
}
