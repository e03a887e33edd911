//! Where the published files keep sentences and labels, and how they write a class.
//!
//! Several names for a column are the names of several publications: the benchmark's own TSV files, and the hub's tables.

use super::task::Task;

/// A labelled example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// One or two.
    pub sentences: Vec<String>,
    /// As the hub numbers classes.
    pub class: usize,
}

/// The names a column goes by.
pub type Names = &'static [&'static str];

/// The columns of a task: those of the sentences, then that of the label.
pub fn columns(task: Task) -> Vec<Names> {
    match task {
        Task::Rte => vec![&["sentence1", "premise"], &["sentence2", "hypothesis"], &["label"]],
        Task::Mrpc => vec![&["#1 String", "sentence1"], &["#2 String", "sentence2"], &["Quality", "label"]],
        Task::Cola | Task::Sst2 => vec![&["sentence"], &["label"]],
        Task::Qnli => vec![&["question"], &["sentence"], &["label"]],
        Task::Qqp => vec![&["question1"], &["question2"], &["is_duplicate", "label"]],
        Task::Mnli => vec![&["sentence1", "premise"], &["sentence2", "hypothesis"], &["gold_label", "label"]],
    }
}

/// The places of these columns, and how many there are, where the file of a task has no header.
pub fn without_header(task: Task) -> Option<(Vec<usize>, usize)> {
    // A source, the label, the mark of the linguist who wrote the sentence, the sentence.
    (task == Task::Cola).then(|| (vec![3, 1], 4))
}

/// Where the columns stand among these names.
pub fn places(task: Task, header: &[&str]) -> Result<Vec<usize>, String> {
    let place = |names: &Names| {
        let is_named = |found: &&str| names.iter().any(|name| name.eq_ignore_ascii_case(found.trim()));
        header.iter().position(is_named).ok_or_else(|| missing(names, header))
    };
    columns(task).iter().map(place).collect()
}

/// What is said of a column that is not there.
pub fn missing(names: Names, found: &[&str]) -> String {
    let quoted = |names: &[&str], between: &str| {
        names.iter().map(|name| format!("`{}`", name.trim())).collect::<Vec<_>>().join(between)
    };
    match found {
        [] => format!("there is no {}", quoted(names, " or ")),
        _ => format!("there is no {}, only {}", quoted(names, " or "), quoted(found, ", ")),
    }
}

/// The classes as they are written in words; their numbers are those of the hub.
pub fn classes(task: Task) -> &'static [&'static str] {
    match task {
        Task::Rte | Task::Qnli => &["entailment", "not_entailment"],
        Task::Mrpc => &["not_equivalent", "equivalent"],
        Task::Cola => &["unacceptable", "acceptable"],
        Task::Sst2 => &["negative", "positive"],
        Task::Qqp => &["not_duplicate", "duplicate"],
        Task::Mnli => &["entailment", "neutral", "contradiction"],
    }
}

fn class(task: Task, text: &str) -> Result<usize, String> {
    let (text, classes) = (text.trim(), classes(task));
    let by_word = classes.iter().position(|class| class.eq_ignore_ascii_case(text));
    let by_number = || text.parse().ok().filter(|class| *class < classes.len());
    by_word.or_else(by_number).ok_or_else(|| {
        let numbers: Vec<String> = (0..classes.len()).map(|class| class.to_string()).collect();
        format!("the label `{text}` is none of {}, {}", classes.join(", "), numbers.join(", "))
    })
}

/// A row from the texts of its columns, in the order of [`columns`].
pub fn row(task: Task, cells: &[&str]) -> Result<Row, String> {
    let Some((label, sentences)) = cells.split_last() else { return Err("there is nothing".to_string()) };
    let class = class(task, label)?;
    let sentences: Vec<String> = sentences.iter().map(|text| text.trim().to_string()).collect();
    match sentences.iter().all(String::is_empty) {
        true => Err("there is no text".to_string()),
        false => Ok(Row { sentences, class }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_words_or_numbers() {
        let of = |task, label| row(task, &["a", "b", label]).map(|row| row.class);
        assert_eq!(of(Task::Rte, "not_entailment"), Ok(1));
        assert_eq!(of(Task::Mnli, "contradiction"), Ok(2));
        assert_eq!(of(Task::Qqp, "1"), Ok(1));
        assert!(of(Task::Mnli, "-").expect_err("no gold label").contains("neutral"));
        assert!(of(Task::Mrpc, "2").is_err());
        assert!(of(Task::Mrpc, "-1").is_err());
    }

    #[test]
    fn columns_are_found_by_name_and_not_by_place() {
        let header = ["index", "label1", "sentence2", " Sentence1 ", "gold_label"];
        assert_eq!(places(Task::Mnli, &header), Ok(vec![3, 2, 4]));
        let error = places(Task::Rte, &["index", "text"]).expect_err("other columns");
        assert_eq!(error, "there is no `sentence1` or `premise`, only `index`, `text`");
    }
}
