//! One fine-tuning: a checkpoint's weights learn the answers of a task in memory, and are tried on its dev sets.

use super::likelihood::Answers;
use super::plan::Terms;
use super::prompt::{Prompt, Prompter};
use super::prompts::{Prompts, chosen};
use super::score::{Score, predict};
use super::survey::{Part, Surveyed};
use crate::metrics::memory;
use crate::metrics::progress::{Every, Numbers, Progress};
use crate::model::Gpt;
use crate::train::loaded::Loaded;
use crate::train::run::STOP;
use crate::train::trainer::Trainer;
use rayon::prelude::*;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Dev rows are chosen the same way whatever the seed, so that all runs are tried on the same ones.
const DEV_SEED: u64 = 0;

/// Steps between numbers on the screen.
const SHOWN_EVERY: u64 = 10;

/// Scores of all splits, or nothing if somebody stopped it.
pub fn fine_tune(
    loaded: &Loaded,
    prompter: &Prompter,
    padding: u16,
    found: &Surveyed,
    terms: &Terms,
) -> Result<Option<Vec<Score>>, String> {
    let start = Instant::now();
    let train = found.train.as_ref().ok_or("there are no training rows")?;
    let prompts = prompts(prompter, train, terms.train_rows, terms.seed)?;
    let train_cut = cut(&prompts);
    let answers = prompter.answers().to_vec();
    let vocabulary = loaded.gpt.config.vocabulary;
    let examples = Box::new(Prompts { prompts, answers, vocabulary, padding });
    let mut trainer = Trainer::new(terms.settings(), loaded.gpt.clone(), examples)?;
    trainer.weights.copy_from_slice(&loaded.weights);
    eprintln!("{} rows, {} epochs, {} steps", terms.train_rows, terms.epochs, trainer.steps);
    if !learn(&mut trainer)? {
        return Ok(None);
    }
    let steps = trainer.step;
    let (gpt, weights) = model(trainer);
    let answers = Answers::new(prompter.answers());
    let mut scores = Vec::new();
    for (part, rows) in found.dev.iter().zip(&terms.dev_rows) {
        let prompts = self::prompts(prompter, part, *rows, DEV_SEED)?;
        eprintln!("trying it on {rows} rows of {}", terms.task.row_name(part.split));
        let how = (terms.batch, padding);
        let Some(predictions) = predict((&gpt, &weights), &prompts, &answers, how) else { return Ok(None) };
        let [matthews, f1] = predictions.beside(terms.task);
        scores.push(Score {
            task: terms.task,
            split: part.split.to_string(),
            seed: terms.seed,
            accuracy: predictions.accuracy(),
            matthews,
            f1,
            majority: predictions.majority(),
            loss: predictions.mean_loss(),
            rows: prompts.len(),
            train_rows: terms.train_rows,
            bad_rows: found.bad_rows(part.split),
            cut: cut(&prompts),
            train_cut,
            epochs: terms.epochs,
            steps,
            seconds: start.elapsed().as_secs_f64(),
        });
    }
    Ok(Some(scores))
}

/// So many rows of a split as prompts.
fn prompts(prompter: &Prompter, part: &Part, most: usize, seed: u64) -> Result<Vec<Prompt>, String> {
    let rows = chosen(part.rows.len(), Some(most), seed);
    rows.par_iter().map(|row| prompter.prompt(&part.rows[*row])).collect()
}

fn cut(prompts: &[Prompt]) -> usize {
    prompts.iter().filter(|prompt| prompt.is_cut).count()
}

/// What was learned; the memory that training alone needs is given back.
fn model(trainer: Trainer) -> (Gpt, Vec<f32>) {
    (trainer.gpt, trainer.weights)
}

/// Takes all steps; whether nobody stopped it.
fn learn(trainer: &mut Trainer) -> Result<bool, String> {
    let mut progress = Progress::new(0, trainer.steps, Every::Seconds(10.0));
    let (mut since, mut positions) = (Instant::now(), 0);
    while !trainer.is_done() {
        if STOP.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let step = trainer.next_step()?;
        positions += step.positions;
        if step.step == 1 || step.step % SHOWN_EVERY == 0 || trainer.is_done() {
            progress.update(&Numbers {
                step: step.step,
                loss: step.loss.mean(),
                tokens_per_second: positions as f64 / since.elapsed().as_secs_f64().max(1e-9),
                gflops: None,
                memory_mib: memory::current_mib(),
            });
            (since, positions) = (Instant::now(), 0);
        }
    }
    Ok(true)
}
