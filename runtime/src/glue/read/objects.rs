//! One JSON object a line, with fields named as the columns of a table.

use super::{Rows, at, lines, text};
use crate::glue::columns::{Names, Row, columns, missing, row};
use crate::glue::task::Task;
use serde_json::{Map, Value};
use std::path::Path;

pub fn rows(path: &Path, task: Task) -> Result<Rows, String> {
    let mut found = Rows::default();
    for line in lines(path)? {
        let (number, line) = line?;
        found.push(|| at(path, number), text(&line).and_then(|line| of_line(task, line)));
    }
    Ok(found)
}

fn of_line(task: Task, line: &str) -> Result<Row, String> {
    let object: Value = serde_json::from_str(line).map_err(|error| format!("this is no JSON: {error}"))?;
    let Value::Object(fields) = object else { return Err("this is no JSON object".to_string()) };
    let cells: Vec<String> = columns(task).into_iter().map(|names| cell(names, &fields)).collect::<Result<_, _>>()?;
    row(task, &cells.iter().map(String::as_str).collect::<Vec<_>>())
}

fn cell(names: Names, fields: &Map<String, Value>) -> Result<String, String> {
    match names.iter().find_map(|name| fields.get(*name).map(|value| (name, value))) {
        Some((_, Value::String(text))) => Ok(text.clone()),
        Some((_, Value::Number(number))) => Ok(number.to_string()),
        Some((name, _)) => Err(format!("`{name}` is neither text nor a number")),
        None => Err(missing(names, &fields.keys().map(String::as_str).collect::<Vec<_>>())),
    }
}
