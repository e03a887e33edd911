//! What fine-tuning will take: steps on prompts that are shorter than the window, then dev rows forward.

use super::calibrate::Speed;
use super::cost::Cost;
use super::glue::Job;
use crate::glue::{Part, Plan, Surveyed, Task};
use crate::model::Gpt;

/// Bytes of English a token takes, and of an instruction with its answer: for estimates alone.
const BYTES_OF_TOKEN: f64 = 3.5;
const INSTRUCTION: f64 = 85.0;
/// Tokens of a prompt whose rows are not there.
const TOKENS: f64 = 90.0;

/// The published numbers of training and dev rows, for tasks whose files are not there.
fn published(task: Task) -> [usize; 2] {
    match task {
        Task::Rte => [2490, 277],
        Task::Mrpc => [3668, 408],
        Task::Cola => [8551, 1043],
        Task::Sst2 => [67349, 872],
        Task::Qnli => [104_743, 5463],
        Task::Qqp => [363_846, 40_430],
        Task::Mnli => [392_702, 19_647],
    }
}

/// Rows and their padded lengths in tokens.
#[derive(Clone, Copy)]
struct Rows {
    count: usize,
    length: f64,
}

/// All tasks and seeds for one model.
pub fn of_model(plan: &Plan, job: Option<&Job>, gpt: &Gpt, speed: &Speed) -> Cost {
    let window = gpt.config.window as f64;
    let mut cost = Cost::default();
    for task in &plan.tasks {
        let found = job.and_then(|job| job.survey.of(*task));
        let Some([train, dev]) = rows(plan, *task, job.is_some(), found, window) else { continue };
        let seen = (train.count as u64 * plan.epochs.unwrap_or(task.epochs())) as f64;
        let steps = (seen / plan.batch as f64).ceil();
        // Only answers are asked for: the other positions need no logits.
        let share = without_logits(gpt, gpt.config.window) / gpt.operations(gpt.config.window);
        let of_token = share * speed.sequence / window;
        let learning = steps * speed.optimizer + seen * train.length * of_token;
        let trying = dev.count as f64 * dev.length * of_token / 3.0;
        let tokens = seen * train.length;
        let operations = tokens * without_logits(gpt, train.length as usize);
        cost += Cost { runs: 1, tokens, operations, seconds: learning + trying, disk: 0.0 };
    }
    cost.times(plan.seeds.len())
}

/// Operations for a token whose logits nobody asks for.
fn without_logits(gpt: &Gpt, length: usize) -> f64 {
    gpt.operations(length) - 6.0 * (gpt.config.width() * gpt.config.vocabulary) as f64
}

/// Training and dev rows of a task; nothing of one that is left out.
fn rows(plan: &Plan, task: Task, is_surveyed: bool, found: Option<&Surveyed>, window: f64) -> Option<[Rows; 2]> {
    let most = |count: usize, most: Option<usize>| most.map_or(count, |most| most.min(count));
    if !is_surveyed {
        let [train, dev] = published(task);
        let of = |count: usize| Rows { count, length: TOKENS.min(window) };
        return Some([of(most(train, plan.rows)), of(most(dev, plan.valid_rows))]);
    }
    let found = found.filter(|found| found.is_usable())?;
    let train = found.train.as_ref()?;
    let dev = found.dev.iter().map(|part| most(part.rows.len(), plan.valid_rows)).sum();
    let length = found.dev.first().map_or(window, |part| length(part, plan.batch, window));
    Some([
        Rows { count: most(train.rows.len(), plan.rows), length: self::length(train, plan.batch, window) },
        Rows { count: dev, length },
    ])
}

/// The length batches are padded to, as a mean over some of them.
fn length(part: &Part, batch: usize, window: f64) -> f64 {
    let of_row = |row: &crate::glue::columns::Row| {
        let bytes = row.sentences.iter().map(String::len).sum::<usize>() as f64;
        ((bytes + INSTRUCTION) / BYTES_OF_TOKEN).min(window)
    };
    let longest: Vec<f64> =
        part.rows.chunks(batch).take(64).map(|rows| rows.iter().map(of_row).fold(0.0, f64::max)).collect();
    longest.iter().sum::<f64>() / longest.len().max(1) as f64
}
