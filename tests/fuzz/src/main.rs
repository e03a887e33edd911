//! `energy-fuzz`: random recipes against the compiler, from the command line.

use clap::{Parser, Subcommand};
use energy_fuzz::supervise::{self, Run};
use energy_fuzz::tally::Tally;
use energy_fuzz::{fuzz, generate, print, shrink};
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Random recipes, run by the compiler and by an evaluator that shares nothing with it")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Draws recipes and compares what the compiler makes of them with what they mean
    Fuzz {
        #[arg(long, default_value_t = 100)]
        recipes: u64,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Go on after the first failure
        #[arg(long)]
        keep_going: bool,
        /// Show failing recipes as they are
        #[arg(long)]
        no_shrinking: bool,
    },
    /// Compares the recipe of a seed, as `fuzz` names it
    Try {
        seed: u64,
        /// A smaller recipe: which neighbour to go to, and from there
        #[arg(long, value_delimiter = ',')]
        path: Vec<usize>,
        /// Look for a smaller recipe that fails in the same way
        #[arg(long)]
        shrink: bool,
    },
    /// Prints the recipe of a seed
    Show { seed: u64 },
    #[command(hide = true)]
    Work {
        seed: u64,
        from: u64,
        recipes: u64,
        #[arg(long)]
        keep_going: bool,
        #[arg(long)]
        no_shrinking: bool,
    },
}

fn main() -> ExitCode {
    let code = |is_good: bool| if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    match Arguments::parse().command {
        Command::Show { seed } => {
            print!("{}", print::recipe(&generate::recipe(seed)));
            ExitCode::SUCCESS
        }
        Command::Try { seed, path, shrink } if path.is_empty() => {
            let mut tally = Tally::default();
            let found = fuzz::one(seed, &mut tally);
            if let Some(found) = &found {
                println!("{}", fuzz::report(found));
                if shrink {
                    println!("  smallest: {}", fuzz::report(&fuzz::smallest(found)));
                }
            }
            println!("{tally}");
            code(found.is_none())
        }
        Command::Try { seed, path, .. } => {
            let recipe = shrink::along(&generate::recipe(seed), &path);
            code(recipe.is_none_or(|recipe| fuzz::try_recipe(&recipe, seed).is_ok()))
        }
        Command::Work { seed, from, recipes, keep_going, no_shrinking } => {
            supervise::work(Run { recipes, seed, keep_going, shrinks: !no_shrinking }, from);
            ExitCode::SUCCESS
        }
        Command::Fuzz { recipes, seed, keep_going, no_shrinking } => {
            let mut tally = Tally::default();
            supervise::supervise(Run { recipes, seed, keep_going, shrinks: !no_shrinking }, &mut tally);
            println!("{tally}");
            code(tally.failures.is_empty())
        }
    }
}
