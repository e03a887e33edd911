//! What a folder of GLUE has, read once and before any work: rows of every task and split, what is missing, what is wrong.

use super::columns::Row;
use super::files::{self, TRAIN};
use super::read::{self, Bad};
use super::task::Task;
use crate::data::checksum::Summed;
use crate::metrics::table::table;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The rows of the tasks that were asked for.
#[derive(Clone, Debug)]
pub struct Survey {
    pub data: PathBuf,
    pub tasks: Vec<Surveyed>,
}

/// What there is of a task.
#[derive(Clone, Debug)]
pub struct Surveyed {
    pub task: Task,
    pub train: Option<Part>,
    /// In the order of the task's splits; those that are missing are not there.
    pub dev: Vec<Part>,
    /// What is missing, in words.
    pub missing: Vec<String>,
    /// What else there is to say, such as a file that is not read.
    pub notes: Vec<String>,
}

/// The rows of a split.
#[derive(Clone, Debug)]
pub struct Part {
    pub split: &'static str,
    pub files: Vec<PathBuf>,
    pub rows: Vec<Row>,
    pub bad: Bad,
    /// Of the rows, whatever the file's form.
    pub checksum: String,
}

/// Reads everything the tasks need. Tasks that are not there are in the answer, with the reason; that none of them is
/// there is an error, and so is a file that cannot be read.
pub fn survey(data: &Path, tasks: &[Task]) -> Result<Survey, String> {
    if !data.is_dir() {
        return Err(format!("there is no folder `{}`", data.display()));
    }
    let found = Survey {
        data: data.to_path_buf(),
        tasks: tasks.iter().map(|task| of_task(data, *task)).collect::<Result<_, _>>()?,
    };
    if found.tasks.iter().all(|task| !task.is_usable()) {
        let why: Vec<String> =
            found.tasks.iter().map(|one| format!("{}: {}", one.task.name(), one.missing.join("; "))).collect();
        return Err(format!("there is nothing to train on in `{}`\n  {}", data.display(), why.join("\n  ")));
    }
    Ok(found)
}

fn of_task(data: &Path, task: Task) -> Result<Surveyed, String> {
    let mut found = Surveyed { task, train: None, dev: Vec::new(), missing: Vec::new(), notes: Vec::new() };
    let Some(folder) = files::folder(data, task)? else {
        found.missing.push(format!("there is no folder `{}` in `{}`", task.name(), data.display()));
        return Ok(found);
    };
    found.train = part(&folder, TRAIN, &mut found)?;
    for split in task.splits() {
        let own = part(&folder, split, &mut found)?;
        found.dev.extend(own);
    }
    Ok(found)
}

/// The rows of a split, if there are any.
fn part(folder: &Path, split: &'static str, found: &mut Surveyed) -> Result<Option<Part>, String> {
    let Some(chosen) = files::of_split(folder, split)? else {
        let what = if split == TRAIN { "training file".to_string() } else { format!("{split} file") };
        found.missing.push(format!("there is no {what} in `{}`", folder.display()));
        return Ok(None);
    };
    let (mut rows, mut bad) = (Vec::new(), Bad::default());
    for file in &chosen.files {
        let own = read::rows(file, chosen.form, found.task)?;
        rows.extend(own.rows);
        bad.add(own.bad);
    }
    let shown = chosen.files.first().map(|file| file.display().to_string()).unwrap_or_default();
    if !chosen.others.is_empty() {
        let others: Vec<String> = chosen.others.iter().map(|file| format!("`{}`", file.display())).collect();
        found.notes.push(format!("`{shown}` is read, and not {}", others.join(", ")));
    }
    if rows.is_empty() {
        let first = bad.first.first().map_or(String::new(), |first| format!(" ({first})"));
        found.missing.push(format!("there is no row in `{shown}`{first}"));
        return Ok(None);
    }
    let checksum = checksum(&rows);
    Ok(Some(Part { split, files: chosen.files, rows, bad, checksum }))
}

fn checksum(rows: &[Row]) -> String {
    let mut sum = Summed::new(std::io::sink());
    for row in rows {
        // Nothing goes wrong while writing to nowhere.
        let _ = writeln!(sum, "{}\t{}", row.class, row.sentences.join("\t"));
    }
    sum.finish().1
}

impl Surveyed {
    /// Whether a model can be trained and tried.
    pub fn is_usable(&self) -> bool {
        self.train.is_some() && !self.dev.is_empty()
    }

    /// Rows that were left out, of the training rows and of a split.
    pub fn bad_rows(&self, split: &str) -> usize {
        let of_split = self.dev.iter().find(|part| part.split == split);
        self.train.iter().chain(of_split).map(|part| part.bad.count).sum()
    }
}

impl Survey {
    /// What there is of a task that was asked for.
    pub fn of(&self, task: Task) -> Option<&Surveyed> {
        self.tasks.iter().find(|one| one.task == task)
    }

    /// For the reader of a terminal, before the work begins.
    pub fn summary(&self) -> String {
        let row = |one: &Surveyed| {
            let count = |part: Option<&Part>| part.map_or("–".to_string(), |part| part.rows.len().to_string());
            let dev: Vec<String> = (one.task.splits().iter())
                .map(|split| count(one.dev.iter().find(|part| part.split == *split)))
                .collect();
            let file = |part: &Part| {
                let first = part.files.first().and_then(|file| file.file_name()).map(|name| name.to_string_lossy());
                first.unwrap_or_default().into_owned()
            };
            let files: Vec<String> = one.train.iter().chain(&one.dev).map(file).collect();
            vec![one.task.name().to_string(), count(one.train.as_ref()), dev.join(" + "), files.join(", ")]
        };
        let rows: Vec<Vec<String>> = self.tasks.iter().map(row).collect();
        let mut text = table(&["task", "training rows", "dev rows", "read from"], &rows);
        for one in &self.tasks {
            let is_absent = if one.is_usable() { "" } else { " is left out" };
            let missing = one.missing.iter().map(|why| format!("{}{is_absent}: {why}\n", one.task.name()));
            missing.for_each(|line| text.push_str(&line));
            one.notes.iter().for_each(|note| text.push_str(&format!("{}: {note}\n", one.task.name())));
            let parts = one.train.iter().chain(&one.dev).filter(|part| part.bad.count > 0);
            parts.for_each(|part| text.push_str(&bad(one.task, part)));
        }
        text
    }
}

/// `RTE: 2 rows of train.tsv are skipped:`, and the first of them below.
fn bad(task: Task, part: &Part) -> String {
    let Bad { count, first } = &part.bad;
    let mut text = format!("{}: {} of {} {} skipped\n", task.name(), rows(*count), part.split, are(*count));
    first.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    if *count > first.len() {
        text.push_str(&format!("  and {} more\n", count - first.len()));
    }
    text
}

fn rows(count: usize) -> String {
    energyc::cli::outcome::count(count, "row")
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}
