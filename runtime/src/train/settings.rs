//! The settings of a run: one TOML file, every key with a default, every key a `key=value` on the command line.

use super::adamw;
use crate::model::config::{Config, DEVIATION, named};
use energyc::diagnostic::nearest;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Everything a run depends on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    pub recipe: Recipes,
    /// All randomness comes from it.
    pub seed: Seed,
    pub model: Model,
    pub data: Data,
    pub train: Train,
    pub report: Report,
}

/// One recipe for all layers, or one for each: files, or names of shipped recipes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Recipes {
    One(String),
    PerLayer(Vec<String>),
}

impl Default for Recipes {
    fn default() -> Recipes {
        Recipes::One("softmax".to_string())
    }
}

impl Recipes {
    pub fn list(&self) -> &[String] {
        match self {
            Recipes::One(one) => std::slice::from_ref(one),
            Recipes::PerLayer(all) => all,
        }
    }
}

/// A number that is 1 unless something is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Default for Seed {
    fn default() -> Seed {
        Seed(1)
    }
}

/// The model, but for its vocabulary, which is the data's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Model {
    /// A named size; `layers`, `heads` and `head` replace its numbers where they are not 0.
    pub size: String,
    pub layers: usize,
    pub heads: usize,
    /// Components of a head.
    pub head: usize,
    /// Positions of a sequence.
    pub window: usize,
    pub dropout: f64,
    /// Whether a feed-forward network follows every attention.
    pub feed_forward: bool,
    /// The standard deviation that matrices start with; 0.02 is GPT-2's and suits wide models.
    pub deviation: f64,
}

impl Default for Model {
    fn default() -> Model {
        let size = "30m".to_string();
        Model {
            size,
            layers: 0,
            heads: 0,
            head: 0,
            window: 256,
            dropout: 0.1,
            feed_forward: true,
            deviation: DEVIATION,
        }
    }
}

/// Where the tokens come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Data {
    /// A folder of `energyrun prepare`, or `recall`: sequences made up on the spot, see `data.recall`.
    pub train: String,
    pub valid: String,
    pub mode: Mode,
    pub recall: Recall,
}

impl Default for Data {
    fn default() -> Data {
        let [train, valid] = ["data/minipile/train", "data/minipile/validation"].map(str::to_string);
        Data { train, valid, mode: Mode::Prepared, recall: Recall::default() }
    }
}

/// How documents become sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// As it was said when the data was prepared.
    Prepared,
    /// Every document is cut to the window; short ones are padded.
    Truncate,
    /// Documents one after another, and no token sees another document.
    Pack,
}

/// Multi-query associative recall.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recall {
    /// Pairs of a key and a value.
    pub pairs: usize,
    /// Keys that come back.
    pub queries: usize,
    /// Tokens: a filler, keys and values.
    pub vocabulary: usize,
    /// Sequences to learn from.
    pub train_examples: usize,
    pub valid_examples: usize,
}

impl Default for Recall {
    fn default() -> Recall {
        Recall { pairs: 4, queries: 4, vocabulary: 33, train_examples: 1 << 16, valid_examples: 256 }
    }
}

/// How the weights are learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Train {
    pub objective: Objective,
    /// λ of the objective `energy`: cross-entropy + λ·Σ F, per position, over all layers.
    pub energy_weight: f64,
    /// Sequences of a batch.
    pub batch: usize,
    /// Batches of a step.
    pub accumulate: usize,
    pub epochs: f64,
    /// Steps in all; 0 means as many as the epochs take.
    pub steps: u64,
    pub learning_rate: f64,
    /// Steps in which the learning rate rises; below 1 it is a share of all steps.
    pub warmup: f64,
    /// The longest a step's gradient may be; 0 means any length.
    pub clip: f64,
    pub adamw: adamw::Constants,
}

impl Default for Train {
    fn default() -> Train {
        Train {
            objective: Objective::Backpropagation,
            energy_weight: 0.01,
            batch: 32,
            accumulate: 1,
            epochs: 3.0,
            steps: 0,
            learning_rate: 1e-4,
            warmup: 0.01,
            clip: 1.0,
            adamw: adamw::Constants::default(),
        }
    }
}

/// What is made smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Cross-entropy.
    Backpropagation,
    /// Cross-entropy and the energies of the layers.
    Energy,
    /// Token, matrices and logits in turn, each its own quantity; nothing goes back through layers.
    Alternating,
}

/// What is written, and how often. It can be changed when a run goes on; nothing here changes a loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Report {
    /// The folder of the run; empty means `runs/` and the names of recipe and size.
    pub output: PathBuf,
    /// Steps between lines of the metrics.
    pub log_every: u64,
    /// Steps between validations; 0 means only at the end.
    pub valid_every: u64,
    /// Sequences of a validation; 0 means all.
    pub valid_examples: usize,
    /// Steps between checkpoints; 0 means only at the end.
    pub checkpoint_every: u64,
    /// Checkpoints that are kept.
    pub keep: usize,
}

impl Default for Report {
    fn default() -> Report {
        Report {
            output: PathBuf::new(),
            log_every: 10,
            valid_every: 500,
            valid_examples: 0,
            checkpoint_every: 500,
            keep: 2,
        }
    }
}

impl Settings {
    /// Settings from TOML; an error names the key.
    pub fn from_toml(text: &str) -> Result<Settings, String> {
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_string())
    }

    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// The same with `key=value` put in, such as `train.batch=8`. Text needs no quotes.
    pub fn with(&self, assignment: &str) -> Result<Settings, String> {
        let (key, value) = assignment
            .split_once('=')
            .ok_or_else(|| format!("`{assignment}` is no `key=value`, as in `train.batch=8`"))?;
        self.put(key.trim(), |before| parsed(value.trim(), before))
    }

    /// The same with the values of a table put in, which has some of the keys of [`Settings::to_toml`].
    pub fn over(&self, changes: &toml::Table) -> Result<Settings, String> {
        known_keys(changes, "").iter().try_fold(self.clone(), |settings, key| {
            let value = value_at(changes, key).ok_or_else(|| format!("`{key}` has no value"))?;
            settings.put(key, |before| widened(value, before))
        })
    }

    fn put(&self, key: &str, value: impl FnOnce(Option<&toml::Value>) -> toml::Value) -> Result<Settings, String> {
        let mut table = toml::Table::try_from(self).map_err(|error| error.to_string())?;
        let names: Vec<&str> = key.split('.').collect();
        let known = known_keys(&table, "");
        let Some((last, folders)) = names.split_last().filter(|_| known.iter().any(|k| k == key)) else {
            return Err(unknown_key(key, &known));
        };
        let mut place = &mut table;
        for folder in folders {
            place = place.get_mut(*folder).and_then(toml::Value::as_table_mut).ok_or("no such table")?;
        }
        let value = value(place.get(*last));
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        place.insert((*last).to_string(), value);
        let wrong = |error: toml::de::Error| format!("`{key}` cannot be `{shown}`: {}", error.message());
        table.try_into().map_err(wrong)
    }

    /// The model with this vocabulary.
    pub fn model(&self, vocabulary: usize) -> Result<Config, String> {
        let size = named(&self.model.size)?;
        let or = |given: usize, of_size: usize| if given == 0 { of_size } else { given };
        let config = Config {
            layers: or(self.model.layers, size.layers),
            heads: or(self.model.heads, size.heads),
            head: or(self.model.head, size.head),
            window: self.model.window,
            vocabulary,
            dropout: self.model.dropout,
            feed_forward: self.model.feed_forward,
            deviation: self.model.deviation,
        };
        config.check()?;
        Ok(config)
    }

    /// An error that names the key that is wrong.
    pub fn check(&self) -> Result<(), String> {
        let train = &self.train;
        let counts = [
            ("train.batch", train.batch),
            ("train.accumulate", train.accumulate),
            ("report.keep", self.report.keep),
            ("report.log_every", self.report.log_every as usize),
        ];
        for (key, value) in counts {
            if value == 0 {
                return Err(format!("`{key}` is 0; it has to be at least 1"));
            }
        }
        let positive = [("train.learning_rate", train.learning_rate), ("train.adamw.epsilon", train.adamw.epsilon)];
        for (key, value) in positive {
            if !(value.is_finite() && value > 0.0) {
                return Err(format!("`{key}` is {value}; it has to be larger than 0"));
            }
        }
        let nonnegative = [
            ("train.clip", train.clip),
            ("train.warmup", train.warmup),
            ("train.epochs", train.epochs),
            ("train.energy_weight", train.energy_weight),
            ("train.adamw.weight_decay", train.adamw.weight_decay),
        ];
        for (key, value) in nonnegative {
            if !(value.is_finite() && value >= 0.0) {
                return Err(format!("`{key}` is {value}; it cannot be below 0"));
            }
        }
        for (key, value) in [("train.adamw.beta1", train.adamw.beta1), ("train.adamw.beta2", train.adamw.beta2)] {
            if !(0.0..1.0).contains(&value) {
                return Err(format!("`{key}` is {value}; it has to lie in [0, 1)"));
            }
        }
        if train.steps == 0 && train.epochs == 0.0 {
            return Err("`train.epochs` and `train.steps` are both 0; one of them says how long to train".to_string());
        }
        Ok(())
    }

    /// Steps in all, over this many examples.
    pub fn steps(&self, examples: usize) -> u64 {
        match self.train.steps {
            0 => {
                let of_step = (self.train.batch * self.train.accumulate) as f64;
                (self.train.epochs * examples as f64 / of_step).ceil() as u64
            }
            steps => steps,
        }
    }

    /// Steps in which the learning rate rises.
    pub fn warmup(&self, steps: u64) -> u64 {
        match self.train.warmup {
            share if share < 1.0 => (share * steps as f64).ceil() as u64,
            count => count as u64,
        }
    }

    /// Keys whose values differ, apart from those of the report.
    pub fn differences(&self, other: &Settings) -> Vec<String> {
        let table = |settings: &Settings| toml::Table::try_from(settings).unwrap_or_default();
        let (ours, theirs) = (table(self), table(other));
        let keys = known_keys(&ours, "").into_iter().filter(|key| !key.starts_with("report."));
        let shown = |value: Option<toml::Value>| value.map_or("nothing".to_string(), |value| value.to_string());
        keys.filter_map(|key| {
            let (a, b) = (value_at(&ours, &key), value_at(&theirs, &key));
            (a != b).then(|| format!("{key}: {} was {}", shown(b), shown(a)))
        })
        .collect()
    }
}

/// What to say of a setting that is not there: those that end alike, the nearest one, or all.
fn unknown_key(key: &str, known: &[String]) -> String {
    let last = key.rsplit('.').next().unwrap_or(key);
    let alike: Vec<&str> = known.iter().filter(|k| k.rsplit('.').next() == Some(last)).map(String::as_str).collect();
    let near = nearest(key, known.iter().map(String::as_str));
    let hint = match (alike.is_empty(), near) {
        (false, _) => alike.join(", "),
        (true, Some(near)) => near.to_string(),
        (true, None) => known.join(", "),
    };
    format!("there is no setting `{key}`; there is {hint}")
}

/// The value of a full name.
fn value_at(table: &toml::Table, key: &str) -> Option<toml::Value> {
    let mut names = key.split('.');
    let first = table.get(names.next()?)?.clone();
    names.try_fold(first, |value, name| value.get(name).cloned())
}

/// The full names of all values of a table.
pub fn known_keys(table: &toml::Table, prefix: &str) -> Vec<String> {
    let of = |(key, value): (&String, &toml::Value)| match value {
        toml::Value::Table(inner) => known_keys(inner, &format!("{prefix}{key}.")),
        _ => vec![format!("{prefix}{key}")],
    };
    table.iter().flat_map(of).collect()
}

/// A value as TOML reads it, or else as text; whole numbers serve where fractions are wanted.
pub fn parsed(text: &str, before: Option<&toml::Value>) -> toml::Value {
    let read = toml::from_str::<toml::Table>(&format!("value = {text}")).ok();
    let value = read.and_then(|mut table| table.remove("value"));
    match (value, before) {
        (Some(value), Some(toml::Value::String(_))) if !value.is_array() && !value.is_str() => {
            toml::Value::String(text.to_string())
        }
        (Some(value), _) => widened(value, before),
        (None, _) => toml::Value::String(text.to_string()),
    }
}

/// A whole number as a fraction where there was one before.
fn widened(value: toml::Value, before: Option<&toml::Value>) -> toml::Value {
    match (value, before) {
        (toml::Value::Integer(whole), Some(toml::Value::Float(_))) => toml::Value::Float(whole as f64),
        (value, _) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_visible_and_reads_back() {
        let settings = Settings::default();
        let text = settings.to_toml();
        for key in ["seed", "window", "learning_rate", "beta2", "valid_every", "mode = \"prepared\""] {
            assert!(text.contains(key), "{text}");
        }
        assert_eq!(Settings::from_toml(&text), Ok(settings));
    }

    #[test]
    fn assignments_replace_values_and_name_what_is_wrong() {
        let settings = Settings::default();
        let changed =
            settings.with("train.batch=8").and_then(|s| s.with("train.clip=2")).and_then(|s| s.with("seed=7"));
        let changed = changed.and_then(|s| s.with("recipe=[\"nag\", \"softmax\"]")).expect("known keys");
        assert_eq!((changed.train.batch, changed.train.clip, changed.seed), (8, 2.0, Seed(7)));
        assert_eq!(changed.recipe.list().len(), 2);
        assert_eq!(changed.differences(&settings).len(), 4);
        assert!(settings.with("batch=8").expect_err("a short key").contains("train.batch"));
        assert!(settings.with("train.batch=many").expect_err("no number").contains("train.batch"));
        assert!(settings.with("train.batch").is_err());
        assert!(Settings::from_toml("[train]\nbtach = 3").expect_err("a typo").contains("btach"));
        assert!(settings.with("train.clipp=8").expect_err("a typo").ends_with("there is train.clip"));
        let table = toml::from_str("seed = 3\ntrain.clip = 2").expect("a table");
        let over = settings.over(&table).expect("known keys");
        assert_eq!((over.seed, over.train.clip, over.differences(&settings).len()), (Seed(3), 2.0, 2));
        let zero = settings.with("train.batch=0").expect("a number");
        assert!(zero.check().expect_err("no batch").contains("train.batch"));
    }

    #[test]
    fn epochs_become_steps() {
        let settings = Settings::default();
        assert_eq!(settings.steps(1_000_000), 93_750);
        assert_eq!(settings.warmup(93_750), 938);
    }
}
