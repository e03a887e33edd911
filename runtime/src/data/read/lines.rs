//! One document a line: JSON objects with a field for the text, or the line itself.

use super::{Piece, Stream, broken};
use serde_json::Value;
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// Lines with their numbers, without what ends them.
struct Lines {
    path: PathBuf,
    stream: Stream,
    number: usize,
}

impl Lines {
    fn new(path: &Path, stream: Stream) -> Lines {
        Lines { path: path.to_path_buf(), stream, number: 0 }
    }
}

impl Iterator for Lines {
    type Item = Result<(usize, String), String>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = Vec::new();
        self.number += 1;
        match self.stream.read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(broken(&self.path, &error))),
        }
        for end in [b'\n', b'\r'] {
            line.pop_if(|last| *last == end);
        }
        let text = String::from_utf8(line);
        Some(text.map(|text| (self.number, text)).map_err(|_| at(&self.path, self.number, "this is not UTF-8")))
    }
}

/// Something about a line.
fn at(path: &Path, line: usize, what: impl std::fmt::Display) -> String {
    format!("{}:{line}: {what}", path.display())
}

/// Every line is a document.
pub fn plain(path: &Path, stream: Stream) -> impl Iterator<Item = Result<Piece, String>> + Send + use<> {
    Lines::new(path, stream).map(|line| line.map(|(_, text)| Piece::whole(text)))
}

/// Every line is an object with a field for the text; lines with nothing on them are nothing.
pub fn objects(path: &Path, field: &str, stream: Stream) -> impl Iterator<Item = Result<Piece, String>> + Send + use<> {
    let (path, field) = (path.to_path_buf(), field.to_string());
    let is_blank = |line: &Result<(usize, String), String>| line.as_ref().is_ok_and(|(_, text)| text.trim().is_empty());
    Lines::new(&path, stream).filter(move |line| !is_blank(line)).map(move |line| {
        let (number, line) = line?;
        document(&line, &field).map(Piece::whole).map_err(|error| at(&path, number, error))
    })
}

fn document(line: &str, field: &str) -> Result<String, String> {
    let object: Value = serde_json::from_str(line).map_err(|error| format!("this is no JSON: {error}"))?;
    match object {
        Value::Object(mut fields) => match fields.remove(field) {
            Some(Value::String(text)) => Ok(text),
            Some(Value::Null) => Ok(String::new()),
            Some(_) => Err(format!("the field `{field}` is no text")),
            None => Err(format!("there is no field `{field}`")),
        },
        _ => Err("this is no JSON object".to_string()),
    }
}
