//! Which files of a folder hold a task's rows: the benchmark's names (`RTE/train.tsv`, `MNLI/dev_matched.tsv`) and the
//! hub's (`rte/train-00000-of-00001.parquet`, `mnli/validation_matched-….parquet`).

use super::task::{Task, key};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    Tsv,
    Objects,
    Parquet,
}

/// The file of a split, maybe in several parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub files: Vec<PathBuf>,
    pub form: Form,
    /// Files that would have served as well and are not read.
    pub others: Vec<PathBuf>,
}

/// The training split, which a task's own splits are told from.
pub const TRAIN: &str = "train";

/// The beginnings of the names of files that a model is tried on.
const DEV: [&str; 4] = ["dev", "validation", "valid", "val"];

/// What a file's name says.
struct Name {
    stem: String,
    form: Form,
    is_packed: bool,
    /// Parts in all, if it is a part.
    parts: Option<usize>,
}

/// The folder of a task.
pub fn folder(data: &Path, task: Task) -> Result<Option<PathBuf>, String> {
    let is_own = |path: &PathBuf| path.is_dir() && key(&file_name(path)) == task.key();
    let mut found = entries(data)?;
    found.retain(is_own);
    match &found[..] {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        [one, two, ..] => {
            Err(format!("`{}` and `{}` both are {}; keep one of them", one.display(), two.display(), task.name()))
        }
    }
}

/// The files of a split in a task's folder.
pub fn of_split(folder: &Path, split: &str) -> Result<Option<Chosen>, String> {
    let mut groups: BTreeMap<(bool, Form, bool, String), Vec<(PathBuf, Option<usize>)>> = BTreeMap::new();
    for path in entries(folder)? {
        let Some(name) = name(&path).filter(|name| is_of(&name.stem, split)) else { continue };
        let is_variant = split == TRAIN && name.stem != TRAIN;
        let group = groups.entry((is_variant, name.form, name.is_packed, name.stem)).or_default();
        group.push((path, name.parts));
    }
    let Some(((_, form, _, _), files)) = groups.pop_first() else { return Ok(None) };
    if let Some((first, Some(parts))) = files.first().filter(|(_, parts)| parts.is_some_and(|n| n != files.len())) {
        return Err(format!("`{}`: {} of its {parts} parts are there", first.display(), files.len()));
    }
    let others = groups.into_values().flatten().map(|(path, _)| path).collect();
    Ok(Some(Chosen { files: files.into_iter().map(|(path, _)| path).collect(), form, others }))
}

/// Whether a file of this stem belongs to the split. Training files may go on, as in `train_10k`.
fn is_of(stem: &str, split: &str) -> bool {
    match split {
        TRAIN => stem.strip_prefix(TRAIN).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric)),
        "dev" => DEV.contains(&stem),
        _ => DEV.iter().any(|dev| stem == format!("{dev}_{split}") || stem == format!("{dev}-{split}")),
    }
}

fn name(path: &Path) -> Option<Name> {
    let name = file_name(path).to_lowercase();
    let (name, is_packed) = name.strip_suffix(".gz").map_or((&name[..], false), |inner| (inner, true));
    let (stem, extension) = name.rsplit_once('.')?;
    let form = match (extension, is_packed) {
        ("tsv", _) => Form::Tsv,
        ("jsonl", _) => Form::Objects,
        ("parquet", false) => Form::Parquet,
        _ => return None,
    };
    let (stem, parts) = match part(stem) {
        Some((stem, parts)) => (stem, Some(parts)),
        None => (stem, None),
    };
    Some(Name { stem: stem.to_string(), form, is_packed, parts })
}

/// `train-00000-of-00002` is one of two parts of `train`.
fn part(stem: &str) -> Option<(&str, usize)> {
    let (before, parts) = stem.rsplit_once("-of-")?;
    let (stem, number) = before.rsplit_once('-')?;
    number.parse::<usize>().ok()?;
    Some((stem, parts.parse().ok()?))
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What is in a folder, by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |error: std::io::Error| format!("cannot read `{}`: {error}", folder.display());
    let found: Result<Vec<PathBuf>, _> = fs::read_dir(folder).map_err(wrong)?.map(|e| e.map(|e| e.path())).collect();
    let mut found = found.map_err(wrong)?;
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_split() {
        let of = |file: &str, split: &str| name(Path::new(file)).is_some_and(|name| is_of(&name.stem, split));
        for file in ["train.tsv", "train_10k.tsv", "train-00000-of-00001.parquet", "Train.jsonl.gz"] {
            assert!(of(file, TRAIN), "{file}");
        }
        assert!(of("dev.tsv", "dev") && of("validation-00000-of-00001.parquet", "dev") && of("val.jsonl", "dev"));
        assert!(of("dev_matched.tsv", "matched") && of("validation_matched-00000-of-00001.parquet", "matched"));
        assert!(!of("dev_mismatched.tsv", "matched") && !of("dev_matched.tsv", "dev"));
        assert!(!of("dev_ids.tsv", "dev") && !of("training.tsv", TRAIN) && !of("train.txt", TRAIN));
        assert!(!of("test.tsv", "dev"));
    }
}
