//! Columns between tabs, as the benchmark publishes them: a quote is a character like any other.

use super::{Rows, at, lines, text};
use crate::glue::columns::{Row, places, row, without_header};
use crate::glue::task::Task;
use std::path::Path;

/// Where the wanted columns are, and how many a line has.
struct Layout {
    places: Vec<usize>,
    width: usize,
}

pub fn rows(path: &Path, task: Task) -> Result<Rows, String> {
    let mut found = Rows::default();
    let mut layout = None;
    for line in lines(path)? {
        let (number, line) = line?;
        let line = text(&line);
        if layout.is_none() {
            let first = line.as_ref().map_err(String::clone).and_then(|line| of_first(task, line));
            let (own, is_header) = first.map_err(|why| format!("{}: {why}", at(path, number)))?;
            layout = Some(own);
            if is_header {
                continue;
            }
        }
        if let Some(layout) = &layout {
            found.push(|| at(path, number), line.and_then(|line| of_line(task, layout, line)));
        }
    }
    Ok(found)
}

/// The layout that the first line shows, and whether it is a header.
fn of_first(task: Task, line: &str) -> Result<(Layout, bool), String> {
    let header: Vec<&str> = line.split('\t').collect();
    match (places(task, &header), without_header(task)) {
        (Ok(places), _) => Ok((Layout { places, width: header.len() }, true)),
        (Err(_), Some((places, width))) if header.len() == width => Ok((Layout { places, width }, false)),
        (Err(error), _) => Err(error),
    }
}

fn of_line(task: Task, layout: &Layout, line: &str) -> Result<Row, String> {
    let cells: Vec<&str> = line.split('\t').collect();
    if cells.len() != layout.width {
        return Err(format!("{} columns instead of {}", cells.len(), layout.width));
    }
    let wanted: Vec<&str> = layout.places.iter().map(|place| cells[*place]).collect();
    row(task, &wanted)
}
