//! `energyrun verify`: is what was derived true of the energy, and what runs true of what was derived?

use crate::engine;
use energyc::cli::outcome::{Format, Outcome};
use energyc::cli::verify;
use std::path::PathBuf;

/// Compare a recipe's derivation with its energy, its plan with the derivation, and what runs with both
#[derive(clap::Args, Debug)]
#[command(after_help = "\
✓ holds, ✗ fails, – does not apply, ? could not be tried.
The lines `kernel …` are about what this program runs, in single precision: the kernel that is compiled in for the recipe,
or the interpreter if there is none.
Exit code 1 if a line fails, 3 if it is one about the plan or the kernel: then the compiler is wrong, not the recipe.

Examples:
  energyrun verify softmax
  energyrun verify mine.recipe --format json")]
pub struct Args {
    /// A recipe file, a shipped recipe, or `-`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    verify::report(&args.file, args.format, color, engine::verify::lines)
}
