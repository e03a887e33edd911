//! The paper's table: a row for every task, a column for every checkpoint, mean ± deviation over seeds.

mod print;

use crate::glue::measure::{deviation, mean};
use crate::glue::score::Score;
use crate::glue::survey::{Survey, Surveyed};
use crate::glue::task::{Beside, Task};
use serde::Serialize;
use std::collections::BTreeMap;

/// All numbers are shares; they are shown in percent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Line>,
    /// Of the accuracies of all tasks that are there, for every column.
    pub average: Vec<Option<f64>>,
    pub average_majority: Option<f64>,
    pub notes: Vec<String>,
    pub scores: BTreeMap<String, Vec<Score>>,
}

/// A task, or what is measured beside its accuracy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    pub task: Task,
    pub split: String,
    pub measure: Measure,
    pub train_rows: Option<usize>,
    pub rows: Option<usize>,
    pub majority: Option<f64>,
    /// Why there are no numbers.
    pub absent: Option<String>,
    pub cells: Vec<Option<Cell>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    Accuracy,
    Matthews,
    F1,
}

/// A number over seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    pub mean: f64,
    /// With n − 1; none of a single seed.
    pub deviation: Option<f64>,
    pub seeds: Vec<u64>,
    pub values: Vec<f64>,
}

/// The table of several checkpoints, each with its name and its scores.
pub fn table(columns: &[(String, Vec<Score>)], survey: &Survey) -> Table {
    let rows: Vec<Line> = survey.tasks.iter().flat_map(|found| lines(columns, found)).collect();
    let of_tasks: Vec<&Line> = rows.iter().filter(|line| line.measure == Measure::Accuracy).collect();
    let average = |column: usize| {
        let means: Vec<f64> = of_tasks.iter().filter_map(|line| Some(line.cells[column].as_ref()?.mean)).collect();
        (!means.is_empty()).then(|| mean(&means))
    };
    let majorities: Vec<f64> = of_tasks.iter().filter_map(|line| line.majority).collect();
    Table {
        columns: columns.iter().map(|(name, _)| name.clone()).collect(),
        average: (0..columns.len()).map(average).collect(),
        average_majority: (!majorities.is_empty()).then(|| mean(&majorities)),
        notes: notes(columns, survey),
        scores: columns.iter().cloned().collect(),
        rows,
    }
}

/// The lines of a task: every split, with what is measured beside accuracy below it.
fn lines(columns: &[(String, Vec<Score>)], found: &Surveyed) -> Vec<Line> {
    let beside = match found.task.beside() {
        Some(Beside::Matthews) => Some(Measure::Matthews),
        Some(Beside::F1) => Some(Measure::F1),
        None => None,
    };
    let mut lines = Vec::new();
    for split in found.task.splits() {
        let own = |(_, scores): &(String, Vec<Score>)| -> Vec<Score> {
            scores.iter().filter(|score| score.task == found.task && score.split == *split).cloned().collect()
        };
        let own: Vec<Vec<Score>> = columns.iter().map(own).collect();
        let any = own.iter().flatten().next();
        let is_there = found.is_usable() && found.dev.iter().any(|part| part.split == *split);
        let absent = (!is_there).then(|| found.missing.join("; "));
        for measure in [Some(Measure::Accuracy), beside.filter(|_| is_there)].into_iter().flatten() {
            lines.push(Line {
                task: found.task,
                split: split.to_string(),
                measure,
                train_rows: any.map(|score| score.train_rows),
                rows: any.map(|score| score.rows),
                majority: any.map(|score| score.majority).filter(|_| measure == Measure::Accuracy),
                absent: absent.clone(),
                cells: own.iter().map(|scores| cell(scores, measure)).collect(),
            });
        }
    }
    lines
}

fn cell(scores: &[Score], measure: Measure) -> Option<Cell> {
    let value = |score: &Score| match measure {
        Measure::Accuracy => Some(score.accuracy),
        Measure::Matthews => score.matthews,
        Measure::F1 => score.f1,
    };
    let values: Vec<f64> = scores.iter().filter_map(value).collect();
    let seeds = scores.iter().map(|score| score.seed).collect();
    (!values.is_empty()).then(|| Cell { mean: mean(&values), deviation: deviation(&values), seeds, values })
}

/// What a reader of the numbers has to know.
fn notes(columns: &[(String, Vec<Score>)], survey: &Survey) -> Vec<String> {
    let mut notes = Vec::new();
    for found in survey.tasks.iter().filter(|found| !found.missing.is_empty()) {
        let what = if found.is_usable() { "incomplete" } else { "absent" };
        notes.push(format!("{} is {what}: {}", found.task.name(), found.missing.join("; ")));
    }
    for (name, scores) in columns {
        let mut told: Vec<(Task, &str)> = Vec::new();
        for score in scores {
            let row = (score.task, score.split.as_str());
            if score.cut + score.train_cut == 0 || told.contains(&row) {
                continue;
            }
            told.push(row);
            notes.push(format!(
                "{name}: {} of {} training rows and {} of {} dev rows of {} were cut to the window",
                score.train_cut,
                score.train_rows,
                score.cut,
                score.rows,
                score.task.row_name(&score.split)
            ));
        }
    }
    for found in &survey.tasks {
        let bad: usize = found.train.iter().chain(&found.dev).map(|part| part.bad.count).sum();
        if bad > 0 {
            notes.push(format!("{}: {bad} rows of the files could not be read", found.task.name()));
        }
    }
    notes
}
