//! After training, fine-tuning: every trained model of an experiment learns the tasks of GLUE, and the paper's Table 2
//! comes of it.

use super::grid::{Cell, panels};
use super::{Experiment, data, result};
use crate::data::Tokenizer;
use crate::glue::prompt::Prompter;
use crate::glue::{self, Plan, Score, Survey, Table, Task};
use crate::train::examples::RECALL;
use crate::train::run::STOP;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// What there is to fine-tune on.
pub struct Job {
    pub plan: Plan,
    pub survey: Survey,
}

/// What fine-tuning came to so far.
pub struct Tuned {
    pub table: Table,
    /// Models that are not done.
    pub left: usize,
    pub failures: Vec<String>,
}

/// The plan of an experiment, if it has one.
pub fn plan(experiment: &Experiment) -> Result<Option<Plan>, String> {
    let Some(of) = &experiment.file.glue else { return Ok(None) };
    let tasks = of.tasks.iter().map(|name| Task::from_name(name)).collect::<Result<Vec<Task>, _>>();
    let plan = Plan {
        tasks: tasks.map_err(|error| format!("`glue.tasks`: {error}"))?,
        seeds: of.seeds.clone(),
        rows: of.rows,
        valid_rows: of.valid_rows,
        epochs: of.epochs,
        batch: of.batch,
        learning_rate: of.learning_rate,
    };
    plan.check()?;
    if experiment.cells.iter().any(|cell| experiment.file.data.is_none() && cell.settings.data.train == RECALL) {
        return Err(format!("`glue` needs models of text, and `{RECALL}` is none"));
    }
    Ok(Some(plan))
}

/// The plan and the rows there are; an error if something stands in the way that can be known by now.
pub fn job(experiment: &Experiment) -> Result<Option<Job>, String> {
    let (Some(plan), Some(of)) = (plan(experiment)?, &experiment.file.glue) else { return Ok(None) };
    let survey = glue::survey(&data::find(experiment.data(), &of.data)?, &plan.tasks)?;
    for (_, window) in panels(&experiment.cells) {
        let Some(tokenizer) = tokenizer(experiment) else { break };
        for found in survey.tasks.iter().filter(|found| found.is_usable()) {
            Prompter::new(found.task, &tokenizer, window)?;
        }
    }
    for cell in &experiment.cells {
        let run = experiment.run_of(cell);
        if result::read(&run)?.is_some() {
            glue::check(&run, &survey, &folder(experiment, cell), &plan)?;
        }
    }
    Ok(Some(Job { plan, survey }))
}

/// The tokenizer of the data, if it is prepared.
fn tokenizer(experiment: &Experiment) -> Option<Tokenizer> {
    let cell = experiment.cells.first()?;
    let placed = data::placed(&experiment.file, &cell.settings, experiment.data(), &experiment.output).ok()?;
    Tokenizer::of_prepared(Path::new(&placed.data.train)).ok()
}

fn folder(experiment: &Experiment, cell: &Cell) -> PathBuf {
    experiment.output.join("glue").join(cell.folder())
}

/// Fine-tunes the models that are trained. `so_far` is given the table after each of them.
pub fn run(
    experiment: &Experiment,
    job: &Job,
    trained: &[&Cell],
    mut so_far: impl FnMut(&Table) -> Result<(), String>,
) -> Result<Tuned, String> {
    eprint!("{}", job.survey.summary());
    let mut columns: Vec<(String, Vec<Score>)> = Vec::new();
    let mut tuned = Tuned { table: glue::table(&columns, &job.survey), left: 0, failures: Vec::new() };
    for cell in trained {
        if STOP.load(Ordering::Relaxed) {
            tuned.left += 1;
            continue;
        }
        match glue::run(&experiment.run_of(cell), &job.survey, &folder(experiment, cell), &job.plan) {
            Ok(scores) => {
                let name = column(experiment, cell);
                match columns.iter_mut().find(|(column, _)| *column == name) {
                    Some((_, before)) => before.extend(scores),
                    None => columns.push((name, scores)),
                }
            }
            Err(_) if STOP.load(Ordering::Relaxed) => tuned.left += 1,
            Err(error) => tuned.failures.push(format!("{}: {error}", cell.folder())),
        }
        tuned.table = glue::table(&columns, &job.survey);
        so_far(&tuned.table)?;
    }
    Ok(tuned)
}

/// A recipe has one column for every size and window; seeds of training share it.
fn column(experiment: &Experiment, cell: &Cell) -> String {
    match panels(&experiment.cells).len() {
        1 => cell.name.clone(),
        _ => format!("{} {} {}", cell.name, cell.size, cell.window),
    }
}
