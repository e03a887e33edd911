//! What is to be done, and everything one result of it depends on.

use super::prompt::{label_words, template};
use super::survey::Surveyed;
use super::task::Task;
use crate::train::settings::{Seed, Settings};
use serde::{Deserialize, Serialize};

/// Which tasks are fine-tuned, how often and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub tasks: Vec<Task>,
    pub seeds: Vec<u64>,
    /// Training rows of a task at most.
    pub rows: Option<usize>,
    /// Rows of a dev set at most.
    pub valid_rows: Option<usize>,
    /// Instead of the paper's, which are a task's own.
    pub epochs: Option<u64>,
    pub batch: usize,
    pub learning_rate: f64,
}

/// Three runs with the paper's learning rate, and the batch of its largest model.
impl Default for Plan {
    fn default() -> Plan {
        Plan {
            tasks: Task::all().to_vec(),
            seeds: vec![1, 2, 3],
            rows: None,
            valid_rows: None,
            epochs: None,
            batch: 16,
            learning_rate: 1e-4,
        }
    }
}

impl Plan {
    /// An error that names what makes no sense.
    pub fn check(&self) -> Result<(), String> {
        let counts = [
            ("tasks", Some(self.tasks.len())),
            ("seeds", Some(self.seeds.len())),
            ("rows", self.rows),
            ("valid-rows", self.valid_rows),
            ("epochs", self.epochs.map(|epochs| epochs as usize)),
            ("batch", Some(self.batch)),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == Some(0)) {
            return Err(format!("the number of {name} is 0; it has to be at least 1"));
        }
        let twice = |i: usize| self.seeds[..i].contains(&self.seeds[i]);
        if let Some(i) = (0..self.seeds.len()).find(|i| twice(*i)) {
            return Err(format!("the seed {} is there twice", self.seeds[i]));
        }
        match self.learning_rate.is_finite() && self.learning_rate > 0.0 {
            true => Ok(()),
            false => Err(format!("the learning rate is {}; it has to be larger than 0", self.learning_rate)),
        }
    }
}

/// Everything a result depends on but the program and the number of threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// A checksum of what the checkpoint says of itself, with the checksum of its weights.
    pub checkpoint: String,
    pub task: Task,
    pub seed: u64,
    pub epochs: u64,
    pub batch: usize,
    pub learning_rate: f64,
    /// Rows that are learned from.
    pub train_rows: usize,
    /// A checksum of all training rows.
    pub train_data: String,
    /// Rows of every split, and checksums of all its rows.
    pub dev_rows: Vec<usize>,
    pub dev_data: Vec<String>,
    pub prompt: String,
    pub answers: Vec<String>,
}

impl Terms {
    /// Of one task and seed, if there is something to train on.
    pub fn new(plan: &Plan, checkpoint: &str, found: &Surveyed, seed: u64) -> Option<Terms> {
        let train = found.train.as_ref().filter(|_| found.is_usable())?;
        let most = |count: usize, most: Option<usize>| most.map_or(count, |most| most.min(count));
        Some(Terms {
            checkpoint: checkpoint.to_string(),
            task: found.task,
            seed,
            epochs: plan.epochs.unwrap_or(found.task.epochs()),
            batch: plan.batch,
            learning_rate: plan.learning_rate,
            train_rows: most(train.rows.len(), plan.rows),
            train_data: train.checksum.clone(),
            dev_rows: found.dev.iter().map(|part| most(part.rows.len(), plan.valid_rows)).collect(),
            dev_data: found.dev.iter().map(|part| part.checksum.clone()).collect(),
            prompt: template(found.task).to_string(),
            answers: label_words(found.task).iter().map(|word| word.to_string()).collect(),
        })
    }

    /// The trainer's settings: those of pretraining but for what is said here.
    pub fn settings(&self) -> Settings {
        let mut settings = Settings { seed: Seed(self.seed), ..Settings::default() };
        settings.train.batch = self.batch;
        settings.train.epochs = self.epochs as f64;
        settings.train.learning_rate = self.learning_rate;
        settings
    }

    /// `RTE, seed 1`.
    pub fn name(&self) -> String {
        format!("{}, seed {}", self.task.name(), self.seed)
    }
}
