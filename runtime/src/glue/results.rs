//! Finished results, one file for each task and seed. A file is there whole or not at all, and says what its numbers
//! depend on; a file of other settings is never taken for a result.

use super::plan::Terms;
use super::score::Score;
use energyc::cli::atomic;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Finished {
    terms: Terms,
    /// One for each split.
    scores: Vec<Score>,
}

/// Where the result of a task and a seed lies.
pub fn path(folder: &Path, terms: &Terms) -> PathBuf {
    folder.join(format!("{}-seed-{}.json", terms.task.key(), terms.seed))
}

/// The scores, if they are there already.
pub fn read(folder: &Path, terms: &Terms) -> Result<Option<Vec<Score>>, String> {
    let path = path(folder, terms);
    let shown = path.display();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot read `{shown}`: {error}")),
    };
    let damaged = |error| format!("`{shown}` is no result of this program, or damaged: {error}; remove it to go on");
    let found: Finished = serde_json::from_str(&text).map_err(damaged)?;
    match differences(&found.terms, terms) {
        differences if differences.is_empty() => Ok(Some(found.scores)),
        differences => {
            let differences = differences.join("\n  ");
            Err(format!(
                "`{shown}` is the result of another checkpoint, other data or other settings:\n  {differences}\n\
                 choose another output folder for these, or remove the file"
            ))
        }
    }
}

pub fn write(folder: &Path, terms: &Terms, scores: &[Score]) -> Result<(), String> {
    let finished = Finished { terms: terms.clone(), scores: scores.to_vec() };
    let path = path(folder, terms);
    let wrong = |error: &dyn std::fmt::Display| format!("cannot write `{}`: {error}", path.display());
    let text = serde_json::to_string_pretty(&finished).map_err(|error| wrong(&error))?;
    atomic::write(&path, text + "\n").map_err(|error| wrong(&error))
}

/// What is not the same, as `name: then and not now`.
fn differences(then: &Terms, now: &Terms) -> Vec<String> {
    let fields = |terms: &Terms| match serde_json::to_value(terms) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let (then, now) = (fields(then), fields(now));
    let differs = |(name, value): (&String, &Value)| {
        let before = then.get(name).unwrap_or(&Value::Null);
        (before != value).then(|| format!("{name}: {before} and not {value}"))
    };
    now.iter().filter_map(differs).collect()
}
