//! What a fine-tuned model came to on one split.

use super::likelihood::{Answers, log_likelihoods, most_likely};
use super::measure::{accuracy, f1, majority, matthews};
use super::prompt::Prompt;
use super::task::{Beside, Task};
use crate::metrics::memory;
use crate::metrics::progress::{Every, Numbers, Progress};
use crate::model::{Gpt, Tape};
use crate::train::run::STOP;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Shares lie between 0 and 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    pub task: Task,
    /// `dev`, or MNLI's `matched` and `mismatched`.
    pub split: String,
    pub seed: u64,
    pub accuracy: f64,
    pub matthews: Option<f64>,
    /// Of the class 1: equivalent, duplicate.
    pub f1: Option<f64>,
    /// The accuracy of always saying the commonest class of these rows.
    pub majority: f64,
    /// −log p of the right answer, per row.
    pub loss: f64,
    /// Rows that were tried.
    pub rows: usize,
    /// Rows that were learned from.
    pub train_rows: usize,
    /// Rows of both files that could not be read.
    pub bad_rows: usize,
    /// Rows that were tried with a sentence cut to the window.
    pub cut: usize,
    /// Rows that were learned from with a sentence cut to the window.
    pub train_cut: usize,
    pub epochs: u64,
    /// Steps of the optimizer.
    pub steps: u64,
    /// Of training and trying.
    pub seconds: f64,
}

/// Predictions of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predictions {
    pub truth: Vec<usize>,
    pub guess: Vec<usize>,
    /// −log p of the right answer, over all rows.
    pub loss: f64,
}

impl Predictions {
    pub fn accuracy(&self) -> f64 {
        accuracy(&self.truth, &self.guess)
    }

    pub fn majority(&self) -> f64 {
        majority(&self.truth)
    }

    /// Loss of a row.
    pub fn mean_loss(&self) -> f64 {
        self.loss / self.truth.len().max(1) as f64
    }

    /// What a task wants beside accuracy: Matthews' correlation, F1.
    pub fn beside(&self, task: Task) -> [Option<f64>; 2] {
        match task.beside() {
            Some(Beside::Matthews) => [Some(matthews(&self.truth, &self.guess)), None],
            Some(Beside::F1) => [None, Some(f1(&self.truth, &self.guess))],
            None => [None, None],
        }
    }
}

/// The answers a model gives, or nothing if somebody stopped it. Rows of a length go together, so that little is padded.
pub fn predict(
    (gpt, weights): (&Gpt, &[f32]),
    prompts: &[Prompt],
    answers: &Answers,
    (batch, padding): (usize, u16),
) -> Option<Predictions> {
    let mut order: Vec<&Prompt> = prompts.iter().collect();
    order.sort_by_key(|prompt| prompt.tokens.len());
    let (mut tape, mut found) = (Tape::default(), Predictions::default());
    let count = order.len().div_ceil(batch.max(1));
    let mut progress = Progress::new(0, count as u64, Every::Seconds(10.0));
    let (start, mut positions) = (Instant::now(), 0);
    for (i, part) in order.chunks(batch.max(1)).enumerate() {
        if STOP.load(Ordering::Relaxed) {
            return None;
        }
        let tokens: Vec<&[u16]> = part.iter().map(|prompt| &prompt.tokens[..]).collect();
        let likelihoods = log_likelihoods((gpt, weights), &tokens, answers, padding, &mut tape);
        for (prompt, own) in part.iter().zip(&likelihoods) {
            found.truth.push(prompt.class);
            found.guess.push(most_likely(own));
            found.loss -= own[prompt.class];
        }
        positions += tokens.iter().map(|tokens| tokens.len()).sum::<usize>();
        progress.update(&Numbers {
            step: i as u64 + 1,
            loss: found.mean_loss(),
            tokens_per_second: positions as f64 / start.elapsed().as_secs_f64().max(1e-9),
            gflops: None,
            memory_mib: memory::current_mib(),
        });
    }
    Some(found)
}
