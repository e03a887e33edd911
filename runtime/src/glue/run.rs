//! All tasks and seeds of one checkpoint, one after another; what is finished stays finished.

use super::fine_tune::fine_tune;
use super::plan::{Plan, Terms};
use super::prompt::Prompter;
use super::results;
use super::score::Score;
use super::survey::{Survey, Surveyed};
use super::task::Task;
use crate::data::Tokenizer;
use crate::data::checksum::checksum;
use crate::refusal::Refusal;
use crate::train::checkpoint;
use crate::train::loaded::{self, Loaded, load};
use crate::train::run::{Folder, STOP};
use energyc::check::Recipe;
use energyc::cli::outcome::count;
use std::path::Path;
use std::sync::atomic::Ordering;

/// A checkpoint with everything that has to be right before the work begins.
struct Ready<'a> {
    loaded: Loaded,
    tokenizer: Tokenizer,
    /// What is to be done, seed by seed, and the scores that are there.
    jobs: Vec<(&'a Surveyed, Terms, Option<Vec<Score>>)>,
}

impl Ready<'_> {
    fn new<'a>(checkpoint: &Path, survey: &'a Survey, output: &Path, plan: &Plan) -> Result<Ready<'a>, Refusal> {
        plan.check()?;
        let loaded = load(checkpoint)?;
        let in_checkpoint = |why: String| format!("`{}`: {why}", loaded.folder.display());
        let tokenizer = loaded.tokenizer()?;
        let known = loaded.gpt.config.vocabulary;
        if tokenizer.vocabulary() > known {
            let why = format!("its tokenizer has {} tokens and its model {known}", tokenizer.vocabulary());
            return Err(in_checkpoint(why).into());
        }
        let manifest = serde_json::to_string(&loaded.manifest).map_err(|error| in_checkpoint(error.to_string()))?;
        let identity = checksum(manifest.as_bytes());
        let mut jobs = Vec::new();
        for seed in &plan.seeds {
            for task in &plan.tasks {
                let found = survey.of(*task).ok_or_else(|| format!("{} was not surveyed", task.name()))?;
                let Some(terms) = Terms::new(plan, &identity, found, *seed) else { continue };
                Prompter::new(*task, &tokenizer, loaded.gpt.config.window).map_err(in_checkpoint)?;
                let scores = results::read(output, &terms)?;
                jobs.push((found, terms, scores));
            }
        }
        match jobs.is_empty() {
            true => Err(format!("none of the tasks is in `{}`", survey.data.display()).into()),
            false => Ok(Ready { loaded, tokenizer, jobs }),
        }
    }

    fn opening(&self, output: &Path) -> String {
        let done = self.jobs.iter().filter(|(_, _, scores)| scores.is_some()).count();
        let done = if done > 0 { format!(", {done} of them done before") } else { String::new() };
        let interpreted = if self.loaded.gpt.is_compiled() { "" } else { ", interpreted and slow" };
        format!(
            "{}: {:.1} million parameters{interpreted}, windows of {}, from `{}`; {}{done} → {}",
            named(&self.loaded.recipes),
            self.loaded.gpt.layout.len() as f64 / 1e6,
            self.loaded.gpt.config.window,
            self.loaded.folder.display(),
            count(self.jobs.len(), "fine-tuning"),
            output.display()
        )
    }
}

/// Everything that can be wrong with a checkpoint and with its results so far, without any work.
pub fn check(checkpoint: &Path, survey: &Survey, output: &Path, plan: &Plan) -> Result<(), Refusal> {
    Ready::new(checkpoint, survey, output, plan).map(|_| ())
}

/// The name of a checkpoint's recipe, or of those of all layers.
pub fn recipe_name(checkpoint: &Path) -> Result<String, String> {
    let folder = checkpoint::find(checkpoint)?;
    let manifest = checkpoint::manifest(&folder)?;
    Ok(named(&loaded::recipes(&folder, &manifest.recipes)?))
}

fn named(recipes: &[Recipe]) -> String {
    let mut names: Vec<&str> = recipes.iter().map(|recipe| recipe.name.as_str()).collect();
    names.dedup();
    names.join("+")
}

/// Fine-tunes a checkpoint on every task with every seed, but for what has its result in the output folder already.
/// Tasks that the survey did not find are left out. When [`STOP`] is set it ends with an error, and goes on next time.
pub fn run(checkpoint: &Path, survey: &Survey, output: &Path, plan: &Plan) -> Result<Vec<Score>, Refusal> {
    let mut ready = Ready::new(checkpoint, survey, output, plan)?;
    let folder = Folder::open(output)?;
    eprintln!("{}", ready.opening(output));
    let all = ready.jobs.len();
    let window = ready.loaded.gpt.config.window;
    let padding = ready.tokenizer.end_of_text();
    for (i, (found, terms, scores)) in ready.jobs.iter_mut().enumerate() {
        if scores.is_some() {
            continue;
        }
        eprint!("{} ({} of {all}): ", terms.name(), i + 1);
        let prompter = Prompter::new(terms.task, &ready.tokenizer, window)?;
        let own = fine_tune(&ready.loaded, &prompter, padding, found, terms);
        let own = own.map_err(|error| format!("{}: {error}", terms.name()))?;
        let Some(own) = own.filter(|_| !STOP.load(Ordering::Relaxed)) else {
            let place = folder.path().display();
            return Err(format!("stopped in {}; {i} of {all} results are in `{place}`, and stay", terms.name()).into());
        };
        results::write(folder.path(), terms, &own)?;
        own.iter().for_each(|score| eprintln!("{}", said(score)));
        *scores = Some(own);
    }
    let mut scores: Vec<Score> = ready.jobs.into_iter().filter_map(|(_, _, scores)| scores).flatten().collect();
    let place = |task: Task, split: &str| {
        (plan.tasks.iter().position(|own| *own == task), task.splits().iter().position(|own| *own == split))
    };
    scores.sort_by_key(|score| (place(score.task, &score.split), score.seed));
    Ok(scores)
}

/// `RTE: accuracy 52.71 %, the commonest class 52.71 %`.
fn said(score: &Score) -> String {
    let percent = |name: &str, value: Option<f64>| value.map(|value| format!("{name} {:.2} %", 100.0 * value));
    let parts = [
        percent("accuracy", Some(score.accuracy)),
        percent("F1", score.f1),
        score.matthews.map(|value| format!("Matthews {:.3}", value)),
        percent("the commonest class", Some(score.majority)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("{}: {}", score.task.row_name(&score.split), parts.join(", "))
}
