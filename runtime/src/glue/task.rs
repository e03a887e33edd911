//! The tasks of GLUE that ask for a class. STS-B asks for a number and WNLI has too few rows; the paper leaves both out.

use energyc::diagnostic::nearest;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// Does one text entail another?
    Rte,
    /// Do two sentences of news mean the same?
    Mrpc,
    /// Is a sentence acceptable English?
    Cola,
    /// Is a piece of a film review positive?
    Sst2,
    /// Does a sentence answer a question?
    Qnli,
    /// Do two questions of Quora ask the same?
    Qqp,
    /// Does one sentence entail another, contradict it, or neither? Asked twice: in genres of the training and in others.
    Mnli,
}

/// What is measured beside accuracy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    Matthews,
    F1,
}

impl Task {
    /// In the order of the paper's table.
    pub fn all() -> [Task; 7] {
        [Task::Rte, Task::Mrpc, Task::Cola, Task::Sst2, Task::Qnli, Task::Qqp, Task::Mnli]
    }

    pub fn name(self) -> &'static str {
        match self {
            Task::Rte => "RTE",
            Task::Mrpc => "MRPC",
            Task::Cola => "CoLA",
            Task::Sst2 => "SST-2",
            Task::Qnli => "QNLI",
            Task::Qqp => "QQP",
            Task::Mnli => "MNLI",
        }
    }

    /// The name in letters and digits, for files and for comparison.
    pub fn key(self) -> String {
        key(self.name())
    }

    /// The task of this name, however it is written: `sst2`, `SST-2`, `sst_2`.
    pub fn from_name(name: &str) -> Result<Task, String> {
        let wanted = key(name);
        let keys: Vec<String> = Task::all().iter().map(|task| task.key()).collect();
        let found = Task::all().into_iter().find(|task| task.key() == wanted);
        found.ok_or_else(|| match nearest(&wanted, keys.iter().map(String::as_str)) {
            Some(near) => format!("there is no task `{name}`; did you mean `{near}`?"),
            None => format!("there is no task `{name}`; there are {}", keys.join(", ")),
        })
    }

    /// How often the paper goes through the training rows.
    pub fn epochs(self) -> u64 {
        match self {
            Task::Rte | Task::Mrpc => 9,
            Task::Cola => 7,
            Task::Sst2 => 5,
            Task::Qnli | Task::Qqp | Task::Mnli => 3,
        }
    }

    /// What a trained model is tried on.
    pub fn splits(self) -> &'static [&'static str] {
        match self {
            Task::Mnli => &["matched", "mismatched"],
            _ => &["dev"],
        }
    }

    /// The name of a row of the table.
    pub fn row_name(self, split: &str) -> String {
        match split {
            "matched" => format!("{}-M", self.name()),
            "mismatched" => format!("{}-MM", self.name()),
            _ => self.name().to_string(),
        }
    }

    pub fn beside(self) -> Option<Beside> {
        match self {
            Task::Cola => Some(Beside::Matthews),
            Task::Mrpc | Task::Qqp => Some(Beside::F1),
            _ => None,
        }
    }
}

/// Lower-case letters and digits of a name.
pub fn key(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_however_they_are_written() {
        for task in Task::all() {
            assert_eq!(Task::from_name(task.name()), Ok(task));
            assert_eq!(Task::from_name(&task.key()), Ok(task));
        }
        assert_eq!(Task::from_name("sst_2"), Ok(Task::Sst2));
        assert!(Task::from_name("mnil").expect_err("a slip").contains("did you mean `mnli`"));
        assert!(Task::from_name("squad").expect_err("another task").contains("rte, mrpc, cola"));
    }

    #[test]
    fn epochs_are_the_papers() {
        assert_eq!(Task::all().map(Task::epochs), [9, 9, 7, 5, 3, 3, 3]);
    }
}
