//! Runs the cells of an experiment one after another, and writes what they come to.

use super::check::{self, with_data_of};
use super::glue::Tuned;
use super::grid::Cell;
use super::result::{self, Done, Outcome};
use super::{Experiment, data, figure, glue, summary};
use crate::glue::Table;
use crate::refusal::Refusal;
use crate::train::run::{Folder, STOP, run as train};
use crate::train::settings::Settings;
use crate::train::start::{opening, start};
use energyc::cli::atomic;
use energyc::cli::outcome::count;
use std::sync::atomic::Ordering;

/// What an experiment came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// For the terminal.
    pub text: String,
    /// Whether every cell is done.
    pub is_done: bool,
    /// Why cells failed.
    pub failures: Vec<String>,
}

/// Runs what is not done yet, until all is done or somebody stops it.
pub fn run(experiment: &Experiment) -> Result<Report, Refusal> {
    let job = check::check(experiment)?;
    let _held = Folder::open(&experiment.output)?;
    check::keep(&experiment.file, &experiment.output)?;
    if !experiment.is_trained() {
        data::prepare_once(&experiment.file, experiment.data(), &experiment.output)?;
    }
    let mut done: Vec<Done> = Vec::new();
    for (number, cell) in experiment.cells.iter().enumerate() {
        let place = format!("[{}/{}] ", number + 1, experiment.cells.len());
        let (outcome, failed) = match one(experiment, cell, &place) {
            Ok(outcome) => (outcome, None),
            Err(error) => {
                eprintln!("{}: {error}", cell.folder());
                (None, Some(error))
            }
        };
        done.push(Done { cell: cell.clone(), outcome, failed });
        write(experiment, &done)?;
    }
    let trained: Vec<&Cell> = done.iter().filter(|one| one.outcome.is_some()).map(|one| &one.cell).collect();
    let tuned = match &job {
        Some(job) if !trained.is_empty() => {
            Some(glue::run(experiment, job, &trained, |table| write_table(experiment, table))?)
        }
        _ => None,
    };
    Ok(report(experiment, &done, tuned.as_ref()))
}

/// The outcome of a cell; nothing if it was stopped, or not even begun.
fn one(experiment: &Experiment, cell: &Cell, place: &str) -> Result<Option<Outcome>, String> {
    let folder = experiment.run_of(cell);
    if let Some(outcome) = result::read(&folder)? {
        return Ok(Some(outcome));
    }
    if STOP.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let chosen = &experiment.recipes[cell.recipe];
    let kept = result::kept(&folder).transpose()?;
    let mut settings = data::placed(&experiment.file, &cell.settings, experiment.data(), &experiment.output)?;
    settings.report.output.clone_from(&folder);
    if let Some(kept) = &kept {
        let same_data: Settings = with_data_of(&settings, &kept.settings);
        kept.check(chosen, &same_data)?;
    }
    let mut started = start(settings, chosen, kept.as_ref())?;
    eprintln!("{place}{}", opening(&started, &cell.name));
    let ended = train(&mut started.trainer, &*started.valid, &started.manifest, &started.folder)?;
    match ended.is_done {
        true => result::finish(&folder, started.trainer.gpt.layout.len()).map(Some),
        false => Ok(None),
    }
}

/// Writes tables and figures of what is there so far.
fn write(experiment: &Experiment, done: &[Done]) -> Result<(), String> {
    let summary = summary::of(&experiment.file.name, experiment.baseline(), done);
    let figures = figure::of(&experiment.file, done);
    let files = [
        ("summary.txt", summary.text()),
        ("summary.md", summary.markdown()),
        ("summary.json", summary.json()?),
        ("figure.svg", figures.whole),
        ("figure-end.svg", figures.end),
    ];
    for (name, text) in files {
        save(experiment, name, &text)?;
    }
    Ok(())
}

fn save(experiment: &Experiment, name: &str, text: &str) -> Result<(), String> {
    let path = experiment.output.join(name);
    atomic::write(&path, text).map_err(|error| format!("cannot write `{}`: {error}", path.display()))
}

fn write_table(experiment: &Experiment, table: &Table) -> Result<(), String> {
    let files = [
        ("glue.txt", table.text()),
        ("glue.md", table.markdown()),
        ("glue.tex", table.latex()),
        ("glue.json", table.json()),
    ];
    files.iter().try_for_each(|(name, text)| save(experiment, name, text))
}

fn report(experiment: &Experiment, done: &[Done], tuned: Option<&Tuned>) -> Report {
    let summary = summary::of(&experiment.file.name, experiment.baseline(), done);
    let mut failures: Vec<String> = (done.iter())
        .filter_map(|done| done.failed.as_ref().map(|error| format!("{}: {error}", done.cell.folder())))
        .collect();
    let left = done.iter().filter(|done| done.outcome.is_none() && done.failed.is_none()).count();
    let to_tune = tuned.map_or(0, |tuned| tuned.left);
    let mut text = summary.text();
    if let Some(tuned) = tuned {
        failures.extend(tuned.failures.iter().cloned());
        text.push_str(&format!("\n{}", tuned.table.text()));
    }
    text.push_str(&format!("\n{}\n", experiment.output.display()));
    let goes_on = "the same command goes on";
    if left > 0 {
        text.push_str(&format!("stopped with {} left; {goes_on}\n", count(left, "run")));
    }
    if to_tune > 0 {
        text.push_str(&format!("stopped with {} left to fine-tune; {goes_on}\n", count(to_tune, "model")));
    }
    Report { text, is_done: left + to_tune == 0 && failures.is_empty(), failures }
}
