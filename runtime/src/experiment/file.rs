//! The format of an experiment: a grid of recipes × sizes × windows × seeds over the trainer's settings, as TOML.
//!
//! ```toml
//! name = "example"
//! about = "one line for the list"
//! recipes = ["mine.recipe", "yours.recipe"]  # files or shipped names
//! sizes = ["30m", "small"]               # named sizes, or tables below; the settings' own if absent
//! windows = [256]                        # likewise
//! seeds = [1, 2, 3]
//! baseline = "mine.recipe"               # what differences are taken to; the first recipe if absent
//! preset = "paper-{size}-{window}"       # where settings start; the trainer's defaults if absent
//!
//! [settings]                             # any keys of `energyrun pretrain --print`, over the preset
//! train.steps = 300
//!
//! [size.small]                           # and over those, for one size
//! model.size = "tiny"
//!
//! [data.files]                           # prepared once, in the output folder; or [data.prepared]; or [settings.data]
//! train = ["train.jsonl.gz"]
//! valid = ["valid.jsonl.gz"]
//! vocabulary = 4096
//!
//! [glue]                                 # fine-tunes every trained model afterwards
//! tasks = ["RTE"]
//! ```

use energyc::diagnostic::nearest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub name: String,
    #[serde(default)]
    pub about: String,
    pub recipes: Vec<String>,
    #[serde(default)]
    pub sizes: Vec<String>,
    #[serde(default)]
    pub windows: Vec<usize>,
    #[serde(default = "one_seed")]
    pub seeds: Vec<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// `{size}` and `{window}` stand for those of the cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    #[serde(default)]
    pub settings: toml::Table,
    #[serde(default)]
    pub size: BTreeMap<String, toml::Table>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glue: Option<Glue>,
}

/// The keys of an experiment, as they are listed where one is wrong.
pub const KEYS: [&str; 12] =
    ["name", "about", "recipes", "sizes", "windows", "seeds", "baseline", "preset", "settings", "size", "data", "glue"];

/// Keys of the settings that the grid decides.
pub const DECIDED: [(&str, &str); 4] =
    [("recipe", "recipes"), ("seed", "seeds"), ("model.window", "windows"), ("report.output", "--output")];

fn one_seed() -> Vec<u64> {
    vec![1]
}

/// Where the tokens come from, in the folder of `--data`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Data {
    /// Folders of `energyrun prepare`.
    Prepared(Prepared),
    /// Files of text, which the experiment prepares itself.
    Files(Files),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepared {
    pub train: String,
    pub valid: String,
    /// What a dry run takes for granted where the folders are not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
}

/// How large data is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    pub vocabulary: usize,
    pub train_documents: usize,
    pub valid_documents: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    pub train: Vec<String>,
    pub valid: Vec<String>,
    /// Entries of a byte-level BPE that is learned from the training files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<usize>,
    /// Or a tokenizer that is there: `gpt2`, `bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// Where the text is in a parquet file or a JSON object.
    #[serde(default = "text")]
    pub field: String,
}

fn text() -> String {
    "text".to_string()
}

/// Fine-tuning after training. What is absent is as in the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Glue {
    /// The folder of the tasks, in that of `--data`.
    #[serde(default = "glue")]
    pub data: String,
    pub tasks: Vec<String>,
    #[serde(default = "one_seed")]
    pub seeds: Vec<u64>,
    /// Rows of a task's training set at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_rows: Option<usize>,
    /// Passes over the training set; the paper's number of every task if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    pub batch: usize,
    pub learning_rate: f64,
}

fn glue() -> String {
    "glue".to_string()
}

impl File {
    /// An experiment from TOML; an error names the key.
    pub fn from_toml(text: &str) -> Result<File, String> {
        let table: toml::Table = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_string())?;
        if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(unknown(key, &KEYS));
        }
        // Read from the text once more: errors then show the line.
        let file: File = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_string())?;
        file.check()?;
        Ok(file)
    }

    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// The recipe differences are taken to.
    pub fn baseline(&self) -> &str {
        self.baseline.as_deref().or(self.recipes.first().map(String::as_str)).unwrap_or("")
    }

    /// An error that names the key that is wrong.
    pub fn check(&self) -> Result<(), String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || !self.name.chars().all(plain) || self.name.starts_with('.') {
            return Err(format!("`name` is `{}`; it has to be letters, digits, `-`, `_` and `.`", self.name));
        }
        distinct("recipes", &self.recipes)?;
        distinct("seeds", &self.seeds)?;
        no_repeats("sizes", &self.sizes)?;
        no_repeats("windows", &self.windows)?;
        if let Some(baseline) = self.baseline.as_ref().filter(|baseline| !self.recipes.contains(baseline)) {
            let recipes = self.recipes.join(", ");
            return Err(format!(
                "`baseline` is `{baseline}`, which is none of the recipes {recipes}; name one of them"
            ));
        }
        if let Some(size) = self.size.keys().find(|size| !self.sizes.contains(size)) {
            return Err(format!("there is a table `size.{size}`, and no such size in `sizes`"));
        }
        let tables = [("settings", &self.settings)].into_iter().chain(self.size.values().map(|t| ("size", t)));
        for (name, table) in tables {
            for (key, instead) in DECIDED {
                if crate::train::settings::known_keys(table, "").iter().any(|known| known == key) {
                    return Err(format!("`{key}` in `{name}` has no effect: `{instead}` decides it"));
                }
            }
        }
        if let Some(Data::Files(files)) = &self.data {
            distinct("data.files.train", &files.train)?;
            distinct("data.files.valid", &files.valid)?;
            if files.vocabulary.is_some() == files.tokenizer.is_some() {
                return Err("`data.files` needs `vocabulary` or `tokenizer`, one of them".to_string());
            }
        }
        self.glue.as_ref().map_or(Ok(()), Glue::check)
    }
}

impl Glue {
    fn check(&self) -> Result<(), String> {
        distinct("glue.tasks", &self.tasks)?;
        distinct("glue.seeds", &self.seeds)?;
        if self.batch == 0 || self.rows == Some(0) || self.valid_rows == Some(0) || self.epochs == Some(0) {
            return Err("`glue.batch`, `rows`, `valid_rows` and `epochs` have to be at least 1".to_string());
        }
        if !(self.learning_rate.is_finite() && self.learning_rate > 0.0) {
            return Err(format!("`glue.learning_rate` is {}; it has to be larger than 0", self.learning_rate));
        }
        Ok(())
    }
}

/// What to say of a key that is not there.
pub fn unknown(key: &str, known: &[&str]) -> String {
    match nearest(key, known.iter().copied()) {
        Some(near) => format!("there is no key `{key}`; did you mean `{near}`?"),
        None => format!("there is no key `{key}`; there are {}", known.join(", ")),
    }
}

/// Something, and nothing twice.
fn distinct<T: PartialEq + std::fmt::Display>(key: &str, values: &[T]) -> Result<(), String> {
    if values.is_empty() {
        return Err(format!("`{key}` is empty"));
    }
    no_repeats(key, values)
}

fn no_repeats<T: PartialEq + std::fmt::Display>(key: &str, values: &[T]) -> Result<(), String> {
    match (1..values.len()).find(|at| values[..*at].contains(&values[*at])) {
        Some(at) => Err(format!("`{key}` has `{}` twice", values[at])),
        None => Ok(()),
    }
}
