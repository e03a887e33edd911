//! Rows out of files. What is wrong with a row is counted and named by its line; what is wrong with a file is an error.

mod objects;
#[cfg(feature = "parquet")]
mod parquet;
mod tsv;

use super::columns::Row;
use super::files::Form;
use super::task::Task;
use crate::data::read;
use indicatif::ProgressBar;
use std::io::BufRead;
use std::path::Path;

/// Bad rows that are named; the rest is counted.
const NAMED: usize = 3;

/// The rows of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    pub rows: Vec<Row>,
    pub bad: Bad,
}

/// Rows that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bad {
    pub count: usize,
    /// The first of them: file, line and what is wrong.
    pub first: Vec<String>,
}

impl Bad {
    pub fn add(&mut self, other: Bad) {
        self.count += other.count;
        self.first.extend(other.first);
        self.first.truncate(NAMED);
    }
}

impl Rows {
    /// Takes a row in, or notes what is wrong at its place.
    fn push(&mut self, place: impl Fn() -> String, row: Result<Row, String>) {
        match row {
            Ok(row) => self.rows.push(row),
            Err(why) => self.bad.add(Bad { count: 1, first: vec![format!("{}: {why}", place())] }),
        }
    }
}

/// All rows of a file.
pub fn rows(path: &Path, form: Form, task: Task) -> Result<Rows, String> {
    match form {
        Form::Tsv => tsv::rows(path, task),
        Form::Objects => objects::rows(path, task),
        Form::Parquet => of_parquet(path, task),
    }
}

#[cfg(feature = "parquet")]
fn of_parquet(path: &Path, task: Task) -> Result<Rows, String> {
    parquet::rows(path, task)
}

#[cfg(not(feature = "parquet"))]
fn of_parquet(path: &Path, _: Task) -> Result<Rows, String> {
    let how = "build energy-runtime with its feature `parquet`";
    Err(format!("{}: this energyrun reads no parquet files; {how}", path.display()))
}

/// The lines of a file that have something on them, with their numbers, without what ends them and without the mark
/// some systems put in front of UTF-8.
fn lines(path: &Path) -> Result<impl Iterator<Item = Result<(usize, Vec<u8>), String>>, String> {
    let is_packed = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    let stream = read::stream(path, is_packed, &ProgressBar::hidden())?;
    let lines = stream.split(b'\n').enumerate().map(move |(i, line)| {
        let mut line = line.map_err(|error| read::broken(path, &error))?;
        line.pop_if(|last| *last == b'\r');
        if i == 0 && line.starts_with(MARK) {
            line.drain(..MARK.len());
        }
        Ok((i + 1, line))
    });
    Ok(lines.filter(|line| !line.as_ref().is_ok_and(|(_, line)| line.is_empty())))
}

const MARK: &[u8] = "\u{feff}".as_bytes();

/// A line as text.
fn text(line: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(line).map_err(|_| "this is not UTF-8".to_string())
}

/// `file:line`.
fn at(path: &Path, line: usize) -> String {
    format!("{}:{line}", path.display())
}
