//! What is measured at a step, one JSON object a line: `metrics.jsonl` in the folder of a run.
//!
//! A killed run may leave its last line unfinished; that line is dropped. Everything else that is no record is an error.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use energyc::cli::atomic;
use serde::{Deserialize, Serialize};

/// The file of a run.
pub const FILE: &str = "metrics.jsonl";

/// What a record is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Train,
    Valid,
    /// Something that happened, said in `text`.
    Note,
}

/// One line. What was not measured, or is no finite number, is absent.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    pub kind: Kind,
    /// Steps of the optimizer so far.
    pub step: u64,
    /// Tokens seen so far.
    pub tokens: u64,
    #[serde(default, skip_serializing_if = "is_absent")]
    pub loss: Option<f64>,
    /// The share of tokens predicted right, from 0 to 1.
    #[serde(default, skip_serializing_if = "is_absent")]
    pub accuracy: Option<f64>,
    #[serde(default, skip_serializing_if = "is_absent")]
    pub learning_rate: Option<f64>,
    #[serde(default, skip_serializing_if = "is_absent")]
    pub gradient_norm: Option<f64>,
    #[serde(default, skip_serializing_if = "is_absent")]
    pub tokens_per_second: Option<f64>,
    #[serde(default, skip_serializing_if = "is_absent")]
    pub gflops: Option<f64>,
    /// Time spent so far, over all the times the run was resumed.
    #[serde(default, skip_serializing_if = "is_absent")]
    pub seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "is_absent")]
    pub memory_mib: Option<f64>,
    /// The sum of F over layers, heads and tokens.
    #[serde(default, skip_serializing_if = "is_absent")]
    pub energy: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

fn is_absent(value: &Option<f64>) -> bool {
    !value.is_some_and(f64::is_finite)
}

impl Record {
    /// A measurement with a loss and nothing else yet.
    pub fn measured(kind: Kind, step: u64, tokens: u64, loss: f64) -> Record {
        Record { kind, step, tokens, loss: Some(loss), ..Record::default() }
    }

    pub fn note(step: u64, tokens: u64, text: impl Into<String>) -> Record {
        Record { kind: Kind::Note, step, tokens, text: Some(text.into()), ..Record::default() }
    }

    /// The record as a line of a file.
    pub fn line(&self) -> Result<String, String> {
        let line = serde_json::to_string(self).map_err(|error| format!("a record cannot be written: {error}"))?;
        Ok(line + "\n")
    }
}

/// All records of a file in their order.
pub fn read(path: &Path) -> Result<Vec<Record>, String> {
    let bytes = bytes(path)?;
    Ok(lines(path, &bytes)?.into_iter().map(|(_, record)| record).collect())
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))
}

/// Every whole line with its record.
fn lines<'a>(path: &Path, bytes: &'a [u8]) -> Result<Vec<(&'a [u8], Record)>, String> {
    let mut found = Vec::new();
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        match serde_json::from_slice(text) {
            Ok(record) => found.push((text, record)),
            Err(_) if !line.ends_with(b"\n") => {}
            Err(error) => return Err(format!("{}:{}: this is no record: {error}", path.display(), number + 1)),
        }
    }
    Ok(found)
}

/// Appends records to a file; each is in the file when `append` returns.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
}

impl Writer {
    /// Starts a file that must not exist yet.
    pub fn create(path: &Path) -> Result<Writer, String> {
        atomic::create(path, "").map_err(|error| cannot_write(path, &error))?;
        Writer::open(path)
    }

    /// Goes on after a checkpoint: records of later steps are dropped, so that the file holds one curve. A file that
    /// does not exist is started.
    pub fn resume(path: &Path, step: u64) -> Result<Writer, String> {
        let bytes = if path.exists() { bytes(path)? } else { Vec::new() };
        let mut kept = Vec::with_capacity(bytes.len());
        for (line, _) in lines(path, &bytes)?.iter().filter(|(_, record)| record.step <= step) {
            kept.extend_from_slice(line);
            kept.push(b'\n');
        }
        atomic::write(path, kept).map_err(|error| cannot_write(path, &error))?;
        Writer::open(path)
    }

    fn open(path: &Path) -> Result<Writer, String> {
        let file = OpenOptions::new().append(true).open(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Writer { path: path.to_path_buf(), file })
    }

    pub fn append(&mut self, record: &Record) -> Result<(), String> {
        let line = record.line()?;
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.flush());
        written.map_err(|error| cannot_write(&self.path, &error))
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> String {
    format!("cannot write `{}`: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_file(content: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FILE);
        std::fs::write(&path, content).expect("written");
        (folder, path)
    }

    #[test]
    fn a_line_holds_what_was_measured_and_comes_back() {
        let record = Record {
            learning_rate: Some(1e-3),
            gradient_norm: Some(f64::NAN),
            ..Record::measured(Kind::Train, 12, 4096, 0.1 + 0.2)
        };
        let line = record.line().expect("a line");
        let expected = r#"{"kind":"train","step":12,"tokens":4096,"loss":0.30000000000000004,"learning_rate":0.001}"#;
        assert_eq!(line, format!("{expected}\n"));
        let back: Record = serde_json::from_str(&line).expect("a record");
        assert_eq!(back, Record { gradient_norm: None, ..record });
    }

    #[test]
    fn a_cut_last_line_is_dropped_even_inside_a_letter() {
        let whole = Record::measured(Kind::Valid, 1, 2, 3.0).line().expect("a line");
        let note = Record::note(2, 4, "∂F").line().expect("a line");
        for cut in 0..note.len() {
            let (_folder, path) = in_file([whole.as_bytes(), &note.as_bytes()[..cut]].concat());
            let steps: Vec<u64> = read(&path).expect("records").iter().map(|r| r.step).collect();
            // Without its newline alone, a line is whole.
            assert_eq!(steps, if cut == note.len() - 1 { vec![1, 2] } else { vec![1] }, "cut at {cut}");
        }
    }

    #[test]
    fn other_nonsense_is_named_by_file_and_line() {
        let (_folder, path) = in_file("{\"kind\":\"train\",\"step\":1,\"tokens\":1}\n\n{\"kind\":\"tra\n");
        let error = read(&path).expect_err("no record");
        assert!(error.starts_with(&format!("{}:3: this is no record: ", path.display())), "{error}");
        let (_folder, path) = in_file("{\"kind\":\"test\",\"step\":1,\"tokens\":1}\n");
        let error = read(&path).expect_err("no kind");
        assert!(error.contains(":1: ") && error.contains("`test`"), "{error}");
    }
}
