//! What a cell came to: read from the metrics of its run, kept as `result.json` when the run is done.

use super::grid::Cell;
use crate::metrics::record::{self, Kind, Record};
use crate::train::start::Kept;
use energyc::cli::atomic;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The file of a finished cell.
pub const FILE: &str = "result.json";

/// The numbers of a finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub steps: u64,
    pub parameters: usize,
    /// Validation loss at the end.
    pub last: f64,
    /// The smallest of all validations.
    pub best: f64,
    /// Of training alone.
    pub tokens_per_second: f64,
    /// Training and validation, over all the times the run went on.
    pub seconds: f64,
    /// Validation loss by step.
    #[serde(skip)]
    pub curve: Vec<(u64, f64)>,
}

/// A cell with its outcome, if it is done.
#[derive(Clone, Debug)]
pub struct Done {
    pub cell: Cell,
    pub outcome: Option<Outcome>,
    /// Why it is not done, if it was tried.
    pub failed: Option<String>,
}

/// Reads the metrics of a run that took all its steps, and keeps what they come to.
pub fn finish(run: &Path, parameters: usize) -> Result<Outcome, String> {
    let outcome = of_records(&record::read(&run.join(record::FILE))?, parameters)
        .ok_or_else(|| format!("there is no validation in `{}`", run.join(record::FILE).display()))?;
    let json = serde_json::to_string_pretty(&outcome).map_err(|error| error.to_string())?;
    let path = run.join(FILE);
    atomic::write(&path, json + "\n").map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
    Ok(outcome)
}

/// What is kept of a finished cell; nothing if it is not done.
pub fn read(run: &Path) -> Result<Option<Outcome>, String> {
    let path = run.join(FILE);
    if !path.exists() {
        return Ok(None);
    }
    let wrong = |error: String| format!("`{}`: {error}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    let kept: Outcome = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let curve = of_records(&record::read(&run.join(record::FILE))?, kept.parameters).map(|outcome| outcome.curve);
    Ok(Some(Outcome { curve: curve.unwrap_or_default(), ..kept }))
}

/// The newest checkpoint of a cell that was begun.
pub fn kept(run: &Path) -> Option<Result<Kept, String>> {
    let checkpoints = crate::train::checkpoint::all(&crate::train::checkpoint::in_run(run));
    (!checkpoints.is_empty()).then(|| Kept::newest(run))
}

fn of_records(records: &[Record], parameters: usize) -> Option<Outcome> {
    let valid = records.iter().filter(|record| record.kind == Kind::Valid);
    let curve: Vec<(u64, f64)> = valid.filter_map(|record| Some((record.step, record.loss?))).collect();
    let (steps, last) = *curve.last()?;
    let best = curve.iter().map(|(_, loss)| *loss).fold(f64::INFINITY, f64::min);
    let seconds = records.iter().filter_map(|record| record.seconds).fold(0.0, f64::max);
    Some(Outcome { steps, parameters, last, best, tokens_per_second: speed(records), seconds, curve })
}

/// Tokens by time, where a record speaks for the steps since the one before it: every step has as many tokens.
fn speed(records: &[Record]) -> f64 {
    let train = records.iter().filter(|record| record.kind == Kind::Train);
    let mut before = 0;
    let (mut steps, mut time) = (0.0, 0.0);
    for (step, speed) in train.filter_map(|record| Some((record.step, record.tokens_per_second?))) {
        let own = step.saturating_sub(before) as f64;
        before = step;
        if speed > 0.0 {
            steps += own;
            time += own / speed;
        }
    }
    if time > 0.0 { steps / time } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_tokens_by_time_and_not_a_mean_of_speeds() {
        let record = |step: u64, speed: f64| Record {
            tokens_per_second: Some(speed),
            ..Record::measured(Kind::Train, step, 0, 1.0)
        };
        // Ten steps at 100 and ten at 300 take 0.1 + 0.0333 of a step's tokens.
        let found = speed(&[record(10, 100.0), record(20, 300.0)]);
        assert!((found - 150.0).abs() < 1e-9, "{found}");
        assert_eq!(speed(&[]), 0.0);
    }
}
