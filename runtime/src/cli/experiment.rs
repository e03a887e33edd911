//! `energyrun experiment`: a grid of runs from a file, with its table and figure.

use crate::experiment::file::File;
use crate::experiment::{Experiment, Places, assign, cost, run, shipped};
use crate::metrics::table::table;
use crate::refusal::Refusal;
use crate::train::run::STOP;
use crate::train::start::Chosen;
use energyc::cli::outcome::{Exit, Outcome, message};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// Run a grid of recipes, sizes, windows and seeds, and compare them
#[derive(clap::Args, Debug)]
#[command(after_help = "\
An output folder holds the runs, `summary.txt`, `.md` and `.json`, and the figures. Running the same command again goes on
where it stopped; Ctrl-C saves and stops. `key=value` replaces a value of the grid (`seeds=1,2`) or a setting of all runs
(`train.steps=100`).

Examples:
  energyrun experiment --list
  energyrun experiment figure4-small --data DIR --dry-run
  energyrun experiment figure4-small --data DIR
  energyrun experiment table2-small --data DIR --reuse experiments/figure4-small
  energyrun experiment figure4 --print > mine.toml
  energyrun experiment mine.toml recipes=mine.recipe,yours.recipe train.steps=500 --output experiments/mine")]
pub struct Args {
    /// A shipped experiment or a file
    #[arg(value_name = "NAME|FILE", required_unless_present = "list")]
    experiment: Option<String>,
    /// Where everything goes; `experiments/` and the name unless said otherwise
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Where the experiment's files or prepared folders are
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The output folder of another experiment: its finished runs are used where they are the same
    #[arg(long, value_name = "DIR")]
    reuse: Option<PathBuf>,
    /// Say what it takes and do nothing else
    #[arg(long)]
    dry_run: bool,
    /// List the shipped experiments
    #[arg(long)]
    list: bool,
    /// Print the experiment's file and do nothing
    #[arg(long)]
    print: bool,
    /// How many threads compute; all there are unless said otherwise
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Values to replace
    #[arg(value_name = "KEY=VALUE")]
    assignments: Vec<String>,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    if args.list {
        return list(color);
    }
    let wrong = |text: &str| Outcome::wrong(message("error", text, color));
    let name = args.experiment.as_deref().unwrap_or_default();
    let mut file = match shipped::read(name) {
        Ok(file) => file,
        Err(error) => return wrong(&error),
    };
    for assignment in &args.assignments {
        file = match assign::with(&file, assignment) {
            Ok(file) => file,
            Err(error) => return Outcome { exit: Exit::Usage, ..wrong(&error) },
        };
    }
    if args.print {
        let is_changed = !args.assignments.is_empty();
        let text = if is_changed { Ok(file.to_toml()) } else { shipped::text(name) };
        return text.map_or_else(|error| wrong(&error), Outcome::good);
    }
    let (recipes, said) = match recipes(&file, color) {
        Ok(found) => found,
        Err(refused) => return refused,
    };
    match execute(args, file, recipes) {
        Ok(outcome) => said.then(outcome),
        Err(refusal) => said.then(refusal.outcome(color)),
    }
}

fn list(color: bool) -> Outcome {
    let row = |(name, _): &(&str, &str)| shipped::read(name).map(|file| vec![(*name).to_string(), file.about]);
    match shipped::SHIPPED.iter().map(row).collect::<Result<Vec<_>, _>>() {
        Ok(rows) => Outcome::good(table(&["experiment", ""], &rows)),
        Err(error) => Outcome::wrong(message("error", &error, color)),
    }
}

/// The recipes the file names, and what there is to say about them.
fn recipes(file: &File, color: bool) -> Result<(Vec<Chosen>, Outcome), Outcome> {
    let (mut recipes, mut said) = (Vec::new(), Outcome::default());
    for name in &file.recipes {
        let (chosen, outcome) = Chosen::named(std::slice::from_ref(name), color)?;
        recipes.push(chosen);
        said = said.then(outcome);
    }
    Ok((recipes, said))
}

fn execute(args: &Args, file: File, recipes: Vec<Chosen>) -> Result<Outcome, Refusal> {
    if let Some(threads) = args.threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build_global();
        pool.map_err(|error| format!("cannot use {threads} threads: {error}"))?;
    }
    let places = Places { data: args.data.clone(), output: args.output.clone(), reuse: args.reuse.clone() };
    let experiment = Experiment::new(file, recipes, places)?;
    if args.dry_run {
        return Ok(Outcome::good(cost::report(&experiment)?));
    }
    // A handler that is there already sets the same flag.
    let _ = ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed));
    let report = run::run(&experiment)?;
    let failures: String = report.failures.iter().map(|error| message("error", error, false)).collect();
    let exit = if failures.is_empty() { Exit::Good } else { Exit::Wrong };
    Ok(Outcome { results: report.text, messages: failures, exit })
}
