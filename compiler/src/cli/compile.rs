//! `energyc compile`: a recipe as Rust source.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::check::Recipe;
use crate::pipeline::{self, Target};
use crate::plan::Unsupported;
use crate::simplify::Options;

use super::outcome::{Outcome, message};
use super::warnings::of_budget;
use super::{atomic, fault, read};

/// Compile recipes to Rust: fused kernels with backward passes, and layers around them
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Every recipe becomes one file, NAME.rs, which says at its top what it computes and which crates it needs.\n\n\
    Examples:\n  \
    energyc compile softmax\n  \
    energyc compile mine.recipe -o src/layers --target cpu\n  \
    energyc compile huber --emit plan"
)]
pub struct Args {
    /// Recipe files, shipped recipes, or `-`
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The folder to write to; it is made if it is not there
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    #[arg(long, value_name = "TARGET", default_value = "candle")]
    target: TargetName,
    /// `plan` prints the plan of the kernel and writes nothing
    #[arg(long, value_name = "WHAT", default_value = "rust")]
    emit: Emit,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum TargetName {
    /// A kernel over slices that needs nothing of this project
    Cpu,
    /// The same kernel inside of a layer for candle
    Candle,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Emit {
    Rust,
    Plan,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    let compiled = args.files.iter();
    let compiled =
        compiled.map(|file| Outcome::guarded(&read::display_name(file), color, || compile_one(file, args, color)));
    compiled.fold(Outcome::default(), Outcome::then)
}

fn compile_one(file: &Path, args: &Args, color: bool) -> Outcome {
    let (recipe, said) = match read::recipe(file, color) {
        Ok(checked) => checked,
        Err(refused) => return refused,
    };
    let options = Options::default();
    let text = text(&recipe, args, &options);
    let said = said.then(of_budget(&options, &read::display_name(file), color));
    let text = match text {
        Ok(text) => text,
        Err(why) => return said.then(fault::refused(&recipe.name, &why, color)),
    };
    if args.emit == Emit::Plan {
        return said.then(Outcome::good(text));
    }
    let path = args.output.join(format!("{}.rs", recipe.name));
    let written = std::fs::create_dir_all(&args.output).and_then(|()| atomic::write(&path, &text));
    said.then(match written {
        Ok(()) => Outcome::good(format!("wrote {}\n", path.display())),
        Err(error) => Outcome::wrong(message("error", &format!("cannot write `{}`: {error}", path.display()), color)),
    })
}

fn text(recipe: &Recipe, args: &Args, options: &Options) -> Result<String, Unsupported> {
    match args.emit {
        Emit::Plan => pipeline::plan_text(recipe, options),
        Emit::Rust => {
            let target = match args.target {
                TargetName::Cpu => Target::Cpu,
                TargetName::Candle => Target::Candle,
            };
            pipeline::compile(recipe, target, options)
        }
    }
}
