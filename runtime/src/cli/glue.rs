//! `energyrun glue`: checkpoints are fine-tuned on the tasks of GLUE, and compared in a table.

use crate::glue::{self, Plan, Score, Task};
use crate::refusal::Refusal;
use crate::train::{checkpoint, run};
use clap::ValueEnum;
use energyc::cli::outcome::{Exit, Outcome, message};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Fine-tune checkpoints on the tasks of GLUE by instruction
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The data folder has a folder for each task, as published: `RTE/train.tsv` and `RTE/dev.tsv`, or JSONL, or the hub's
parquet files. Every finished task and seed is a file in the output folder; the same command goes on where it stopped.

Examples:
  energyrun glue --checkpoint runs/one --data glue
  energyrun glue --checkpoint runs/one --checkpoint runs/two --data glue --format latex
  energyrun glue --checkpoint runs/one --data glue --tasks rte,mrpc --seeds 1 --rows 500")]
pub struct Args {
    /// A checkpoint, or a run, whose newest one is taken; several make several columns
    #[arg(long, value_name = "DIR", required = true)]
    checkpoint: Vec<PathBuf>,
    /// The folder of the tasks' folders
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Which tasks, between commas: rte, mrpc, cola, sst2, qnli, qqp, mnli; all unless said otherwise
    #[arg(long, value_name = "TASKS", value_delimiter = ',', value_parser = Task::from_name)]
    tasks: Vec<Task>,
    /// How many runs with different seeds
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Where the results go, a folder for each checkpoint
    #[arg(long, value_name = "DIR", default_value = "runs/glue")]
    output: PathBuf,
    /// Training rows of a task at most, chosen by the seed
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Rows of a dev set at most, the same for every seed
    #[arg(long, value_name = "N")]
    valid_rows: Option<usize>,
    /// Epochs, instead of the paper's: 9 for RTE and MRPC, 7 for CoLA, 5 for SST-2, 3 for QNLI, QQP and MNLI
    #[arg(long, value_name = "N")]
    epochs: Option<u64>,
    /// Rows of a step
    #[arg(long, value_name = "N", default_value_t = 16)]
    batch: usize,
    /// The highest learning rate
    #[arg(long, value_name = "X", default_value_t = 1e-4)]
    learning_rate: f64,
    /// What the table is written in
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// How many threads compute; all there are unless said otherwise
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// Who reads the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Latex,
    Json,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    let plan = plan(args);
    if let Err(error) = plan.check() {
        return Outcome { exit: Exit::Usage, ..Outcome::wrong(message("error", &error, color)) };
    }
    match fine_tuned(args, &plan) {
        Ok(table) => Outcome::good(table),
        Err(text) if run::STOP.load(Ordering::Relaxed) => {
            let text = format!("{text}; the same command goes on");
            Outcome { messages: message("note", &text, color), ..Outcome::default() }
        }
        Err(refusal) => refusal.outcome(color),
    }
}

fn plan(args: &Args) -> Plan {
    let mut tasks = if args.tasks.is_empty() { Task::all().to_vec() } else { args.tasks.clone() };
    tasks.sort();
    tasks.dedup();
    Plan {
        tasks,
        seeds: (1..=args.seeds).collect(),
        rows: args.rows,
        valid_rows: args.valid_rows,
        epochs: args.epochs,
        batch: args.batch,
        learning_rate: args.learning_rate,
    }
}

fn fine_tuned(args: &Args, plan: &Plan) -> Result<String, Refusal> {
    if let Some(threads) = args.threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build_global();
        pool.map_err(|error| format!("cannot use {threads} threads: {error}"))?;
    }
    let folders: Vec<PathBuf> = args.checkpoint.iter().map(|path| checkpoint::find(path)).collect::<Result<_, _>>()?;
    let survey = glue::survey(&args.data, &plan.tasks)?;
    let names = names(&folders, &args.checkpoint)?;
    let columns: Vec<(String, &PathBuf)> = names.into_iter().zip(&folders).collect();
    for (name, folder) in &columns {
        glue::check(folder, &survey, &args.output.join(name), plan)?;
    }
    eprint!("{}", survey.summary());
    // A handler that is there already sets the same flag.
    let _ = ctrlc::set_handler(|| run::STOP.store(true, Ordering::Relaxed));
    let run = |(name, folder): (String, &PathBuf)| -> Result<(String, Vec<Score>), Refusal> {
        let scores = glue::run(folder, &survey, &args.output.join(&name), plan)?;
        Ok((name, scores))
    };
    let columns: Vec<(String, Vec<Score>)> = columns.into_iter().map(run).collect::<Result<_, _>>()?;
    let table = glue::table(&columns, &survey);
    Ok(match args.format {
        Format::Text => table.text(),
        Format::Markdown => table.markdown(),
        Format::Latex => table.latex(),
        Format::Json => table.json(),
    })
}

/// A name for every checkpoint: its recipe's, or its run's where a recipe is there twice.
fn names(folders: &[PathBuf], given: &[PathBuf]) -> Result<Vec<String>, String> {
    let recipes: Vec<String> = folders.iter().map(|folder| glue::recipe_name(folder)).collect::<Result<_, _>>()?;
    let is_twice = |name: &String| recipes.iter().filter(|other| *other == name).count() > 1;
    let name = |(recipe, given): (&String, &PathBuf)| if is_twice(recipe) { run_name(given) } else { recipe.clone() };
    let names: Vec<String> = recipes.iter().zip(given).map(name).collect();
    match names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
        Some((_, name)) => Err(format!("two checkpoints are `{name}`; the folders of runs need different names")),
        None => Ok(names),
    }
}

/// The last name of a path, and with a checkpoint's own folder the run's in front of it.
fn run_name(path: &Path) -> String {
    let names: Vec<String> = path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).filter(|name| *name != "checkpoints").collect();
    match names[..] {
        [.., run, step] if step.starts_with("step-") => format!("{run}-{step}"),
        [.., last] => last.to_string(),
        [] => String::new(),
    }
}
