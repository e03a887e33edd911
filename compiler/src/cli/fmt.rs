//! `energyc fmt`: files in house style, in place.

use std::path::{Path, PathBuf};

use crate::syntax;

use super::outcome::{Outcome, message};
use super::{atomic, read};

/// Format recipe files in place, comments kept
#[derive(clap::Args, Debug)]
#[command(after_help = "A file with errors is left alone. `-` formats standard input to standard output.\n\n\
    Examples:\n  \
    energyc fmt mine.recipe\n  \
    energyc fmt --check recipes/*.recipe\n  \
    energyc fmt - < mine.recipe")]
pub struct Args {
    /// Recipe files, or `-`
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Change nothing; list the files that would change, and fail if there are any
    #[arg(long)]
    check: bool,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    let files = args.files.iter();
    let formatted =
        files.map(|file| Outcome::guarded(&read::display_name(file), color, || format_one(file, args.check, color)));
    formatted.fold(Outcome::default(), Outcome::then)
}

fn format_one(file: &Path, only_check: bool, color: bool) -> Outcome {
    let source = match read::from_disk(file, color) {
        Ok(source) => source,
        Err(refused) => return refused,
    };
    let formatted = match syntax::format(&source.text) {
        Ok(formatted) => formatted,
        Err(diagnostics) => return Outcome::of_diagnostics(&diagnostics, &source, color),
    };
    let changes = formatted != source.text;
    match (only_check, read::is_stdin(file)) {
        (true, _) if changes => Outcome { results: format!("{}\n", source.name), ..Outcome::wrong(String::new()) },
        (true, _) => Outcome::default(),
        (false, true) => Outcome::good(formatted),
        (false, false) if changes => write(file, &formatted, color),
        (false, false) => Outcome::default(),
    }
}

fn write(file: &Path, text: &str, color: bool) -> Outcome {
    match atomic::replace(file, text) {
        Ok(()) => Outcome { messages: format!("formatted {}\n", file.display()), ..Outcome::default() },
        Err(error) => {
            let text = format!("cannot write `{}`: {error}", file.display());
            Outcome::wrong(message("error", &text, color))
        }
    }
}
