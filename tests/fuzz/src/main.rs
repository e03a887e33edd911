//! `energy-fuzz`: random recipes against the compiler, from the command line.

use clap::{Parser, Subcommand, ValueEnum};
use energy_fuzz::fuzz::{self, Look};
use energy_fuzz::supervise::{self, Run, with_a_large_stack};
use energy_fuzz::tally::Tally;
use energy_fuzz::{generate, mutate, print, shrink};
use std::process::ExitCode;

#[derive(Parser)]
#[command(about = "Random recipes, run by the compiler and by an evaluator that shares nothing with it")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// The plan interpreter in double precision
    Interpreted,
    /// The same in single precision, at inputs from a thousandth to ten thousand
    Single,
    /// Every command of the compiler's
    Commands,
    /// Emitted kernels in single precision
    Compiled,
    /// Emitted layers of candle, by their kernels and by tensor operations
    Candle,
    All,
}

impl Engine {
    fn looks(self) -> &'static [Look] {
        match self {
            Engine::Interpreted => &[Look::Interpreted],
            Engine::Single => &[Look::Single],
            Engine::Commands => &[Look::Commands],
            Engine::Compiled => &[Look::Compiled],
            Engine::Candle => &[Look::Candle],
            Engine::All => &Look::ALL,
        }
    }
}

#[derive(Subcommand)]
enum Command {
    /// Draws recipes and compares what the compiler makes of them with what they mean
    Fuzz {
        #[arg(long, default_value_t = 100)]
        recipes: u64,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        #[arg(long, default_value = "interpreted")]
        engine: Engine,
        /// Go on after the first failure
        #[arg(long)]
        keep_going: bool,
        /// Show failing recipes as they are
        #[arg(long)]
        no_shrinking: bool,
    },
    /// Changes bytes of recipe files and reads them: no panic, and never for long
    Mutate {
        #[arg(long, default_value_t = 1000)]
        mutations: usize,
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Looks at the recipe of a seed, as `fuzz` names it
    Try {
        seed: u64,
        #[arg(long, default_value = "interpreted", value_parser = look)]
        look: Look,
        /// A smaller recipe: which neighbour to go to, and from there
        #[arg(long, value_delimiter = ',')]
        path: Vec<usize>,
        /// Look for a smaller recipe that fails in the same way
        #[arg(long)]
        shrink: bool,
    },
    /// Prints the recipe of a seed
    Show { seed: u64 },
    /// The compiler's own command line
    #[command(hide = true, disable_help_flag = true)]
    Energyc {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    #[command(hide = true)]
    Work {
        #[arg(value_parser = look)]
        look: Look,
        seed: u64,
        from: u64,
        recipes: u64,
        #[arg(long)]
        together: u64,
        #[arg(long)]
        keep_going: bool,
        #[arg(long)]
        no_shrinking: bool,
    },
}

fn look(name: &str) -> Result<Look, String> {
    Look::parse(name).ok_or_else(|| "no such engine".to_string())
}

fn main() -> ExitCode {
    let code = |is_good: bool| if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    match Arguments::parse().command {
        Command::Show { seed } => {
            print!("{}", print::recipe(&generate::recipe(seed)));
            ExitCode::SUCCESS
        }
        Command::Try { seed, look, path, shrink } => {
            code(with_a_large_stack(move || try_one(seed, look, &path, shrink)))
        }
        Command::Mutate { mutations, seed } => code(with_a_large_stack(move || mutated(mutations, seed))),
        Command::Energyc { words } => {
            let words = std::iter::once("energyc".to_string()).chain(words);
            match energyc::cli::Args::try_parse_from(words) {
                Ok(args) => energyc::cli::run(args),
                Err(error) => {
                    eprintln!("{error}");
                    ExitCode::from(2)
                }
            }
        }
        Command::Work { look, seed, from, recipes, together, keep_going, no_shrinking } => {
            let run = Run { look, recipes, seed, keep_going, shrinks: !no_shrinking, together };
            with_a_large_stack(move || supervise::work(run, from));
            ExitCode::SUCCESS
        }
        Command::Fuzz { recipes, seed, engine, keep_going, no_shrinking } => {
            let mut all_good = true;
            for &look in engine.looks() {
                let mut tally = Tally::default();
                let together = look.together();
                let run = Run { look, recipes, seed, keep_going, shrinks: !no_shrinking, together };
                supervise::supervise(run, &mut tally);
                println!("{}: {tally}", look.name());
                all_good &= tally.failures.is_empty();
            }
            code(all_good)
        }
    }
}

fn mutated(count: usize, seed: u64) -> bool {
    let mutations = mutate::mutate(count, seed, |mutant| println!("{}\n{}\n", mutant.failure, mutant.text));
    println!("{} mutations, {} of them valid recipes", mutations.tried, mutations.valid);
    if let Some((time, text)) = &mutations.slowest {
        println!("the slowest took {:.2} s:\n{text}", time.as_secs_f64());
    }
    println!("{} failures", mutations.found.len());
    mutations.found.is_empty()
}

fn try_one(seed: u64, look: Look, path: &[usize], shrink: bool) -> bool {
    if !path.is_empty() {
        let recipe = shrink::along(&generate::recipe(seed), path);
        return recipe.is_none_or(|recipe| fuzz::try_recipe(&recipe, look, seed).is_ok());
    }
    let mut tally = Tally::default();
    let found = fuzz::one(seed, look, &mut tally);
    if let Some(found) = &found {
        println!("{}", fuzz::report(found));
        if shrink {
            println!("  smallest: {}", fuzz::report(&fuzz::smallest(found, look)));
        }
    }
    println!("{tally}");
    found.is_none()
}
