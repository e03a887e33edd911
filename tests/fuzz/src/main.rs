//! `energy-fuzz`: random recipes against the compiler, from the command line.

use clap::{Parser, Subcommand};
use energy_fuzz::fuzz::{self, Found};
use energy_fuzz::tally::Tally;
use energy_fuzz::{generate, print};
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
    },
    /// Compares the recipe of a seed, as `fuzz` names it
    Try { seed: u64 },
    /// Prints the recipe of a seed
    Show { seed: u64 },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Show { seed } => {
            print!("{}", print::recipe(&generate::recipe(seed)));
            ExitCode::SUCCESS
        }
        Command::Try { seed } => {
            let mut tally = Tally::default();
            fuzz::one(seed, &mut tally, &mut |found| {
                report(found);
                true
            });
            println!("{tally}");
            if tally.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Command::Fuzz { recipes, seed, keep_going } => {
            let mut tally = Tally::default();
            fuzz::interpreted(recipes, seed, &mut tally, |found| {
                report(found);
                keep_going
            });
            println!("{tally}");
            if tally.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}

fn report(found: &Found) {
    println!("{}\nseed {}\n{}", found.failure, found.seed, print::recipe(&found.recipe));
}
