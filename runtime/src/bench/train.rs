//! `energyrun bench train`: whole training steps of a GPT, forward, backward, clipping and AdamW, with dropout, beside the
//! same model in PyTorch.

use super::probe::Probe;
use super::turns::{self, Measured, Running, Setting};
use super::worker;
use crate::data::Noise;
use crate::metrics::memory;
use crate::metrics::table::markdown;
use crate::model::Gpt;
use crate::model::matrix::{Into, multiply, rows, transposed};
use crate::train::settings::Settings;
use crate::train::trainer::Trainer;
use energyc::cli::outcome::{Outcome, message};
use energyc::cli::read;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// The model in PyTorch, and its side of the benchmark.
const TORCH: &str = concat!(include_str!("../../reference/gpt.py"), include_str!("../../reference/bench.py"));

/// GPT-2's.
const VOCABULARY: usize = 50257;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Task {
    /// The first is the one others are compared with.
    pub recipes: Vec<String>,
    pub size: String,
    pub batches: Vec<usize>,
    pub window: usize,
    pub all_in_torch: bool,
}

/// Who trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Ours,
    Eager,
    Compile,
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Who::Ours => "energyrun",
            Who::Eager => "torch eager",
            Who::Compile => "torch.compile",
        }
    }
}

/// A recipe, and who trains it.
type Contender = (String, Who);

fn settings(size: &str, batch: usize, window: usize) -> Result<Settings, String> {
    let mut settings = Settings::default();
    settings.model.size = size.to_string();
    settings.model.window = window;
    settings.train.batch = batch;
    settings.train.steps = 1 << 20;
    settings.check()?;
    Ok(settings)
}

/// Our side: training steps on request.
pub fn serve(recipe: &Path, size: &str, [batch, window]: [usize; 2], color: bool) -> Result<(), Outcome> {
    let (recipe, _) = read::recipe(recipe, color)?;
    let wrong = |text: String| Outcome::wrong(message("error", &text, color));
    let settings = settings(size, batch, window).map_err(wrong)?;
    let model = settings.model(VOCABULARY).map_err(wrong)?;
    let gpt = Gpt::new(&model, &[recipe]).map_err(|refusal| refusal.outcome(color))?;
    let mut trainer = Trainer::new(settings, gpt, Box::new(Noise { window, vocabulary: VOCABULARY })).map_err(wrong)?;
    worker::answer(
        || {
            if let Err(error) = trainer.next_step() {
                eprintln!("{error}");
            }
        },
        || memory::peak_kib().unwrap_or(0),
    );
    Ok(())
}

/// Measures and tells, as Markdown.
pub fn report(task: &Task, setting: &Setting) -> Result<String, String> {
    let mut probe = Probe::new(setting.threads);
    let mut rows = Vec::new();
    for batch in &task.batches {
        let settings = settings(&task.size, *batch, task.window)?;
        let model = settings.model(VOCABULARY)?;
        let bound = bound(&model, batch * task.window, setting.threads);
        for contenders in rounds(task, setting.python.is_some()) {
            let mut running: Vec<Running<Contender>> = Vec::new();
            for (recipe, who) in &contenders {
                let Some(command) = command(task, setting, recipe, *who, *batch, &model) else { continue };
                eprintln!("starting {} ({recipe}, batch {batch})", who.name());
                match turns::start((recipe.clone(), *who), command, setting.threads) {
                    Some(one) => running.push(one),
                    None => eprintln!("  it did not start"),
                }
            }
            eprintln!("measuring at batch {batch}");
            let measured = turns::measure(running, setting.repetitions, &mut probe);
            let all = rows_of(&task.recipes[0], &measured, *batch, task.window, bound);
            // Ours are shown once, from the round they have among themselves.
            let shown = contenders.last().map(|(_, who)| who.name());
            rows.extend(all.into_iter().filter(|row| Some(row[2].as_str()) == shown));
        }
    }
    let header =
        ["recipe", "batch", "trainer", "s/step", "tokens/s", "× ours", "× first recipe", "of the bound", "peak MiB"];
    Ok(markdown(&header, &rows))
}

/// Who takes turns with whom: our recipes with each other, and each of PyTorch's contenders with ours. Not all at once: a
/// large batch in eager PyTorch needs most of a machine's memory.
fn rounds(task: &Task, has_torch: bool) -> Vec<Vec<Contender>> {
    let ours = |recipe: &String| (recipe.clone(), Who::Ours);
    let mut rounds = vec![task.recipes.iter().map(ours).collect()];
    let in_torch = match (has_torch, task.all_in_torch) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => task.recipes.len(),
    };
    for recipe in &task.recipes[..in_torch] {
        for who in [Who::Eager, Who::Compile] {
            rounds.push(vec![ours(recipe), (recipe.clone(), who)]);
        }
    }
    rounds
}

fn command(
    task: &Task,
    setting: &Setting,
    recipe: &str,
    who: Who,
    batch: usize,
    model: &crate::model::Config,
) -> Option<Command> {
    let mode = match who {
        Who::Ours => {
            let mut command = Command::new(std::env::current_exe().ok()?);
            let numbers = [batch, task.window].map(|n| n.to_string());
            command.args(["bench", "train-worker", recipe, &task.size]).args(numbers);
            return Some(command);
        }
        Who::Eager => "eager",
        Who::Compile => "compile",
    };
    let numbers = [batch, task.window, setting.threads, model.layers, model.heads, model.head, model.vocabulary];
    let mut command = Command::new(setting.python.as_ref()?);
    command.args(["-c", TORCH, mode, recipe]).args(numbers.map(|n| n.to_string())).arg(model.dropout.to_string());
    Some(command)
}

/// The rows of a round.
fn rows_of(first: &str, measured: &[Measured<Contender>], batch: usize, window: usize, bound: f64) -> Vec<Vec<String>> {
    let median_of = |recipe: &str, who: Who| {
        let found = measured.iter().find(|m| m.contender.0 == recipe && m.contender.1 == who);
        found.map_or(f64::NAN, Measured::median)
    };
    let ratio = |ms: f64, of: f64| if of.is_finite() { format!("{:.2}", ms / of) } else { "–".to_string() };
    let row = |m: &Measured<Contender>| {
        let ms = m.median();
        let (recipe, who) = &m.contender;
        let of_bound = match (who, recipe == first) {
            (Who::Ours, true) => format!("{:.0} %", 100.0 * bound * 1e3 / ms),
            _ => "–".to_string(),
        };
        let of_first = if *who == Who::Ours { median_of(first, Who::Ours) } else { f64::NAN };
        vec![
            recipe.clone(),
            batch.to_string(),
            who.name().to_string(),
            format!("{:.2}", ms / 1e3),
            format!("{:.0}", (batch * window) as f64 / ms * 1e3),
            ratio(ms, median_of(recipe, Who::Ours)),
            ratio(ms, of_first),
            of_bound,
            format!("{:.0}", m.peak_kib as f64 / 1024.0),
        ]
    };
    measured.iter().map(row).collect()
}

/// Seconds that the matrix products of one step take at the speed each of their shapes is measured at: projections,
/// write-back, feed-forward network and logits, forward and backward, and attention at the speed of its own shapes.
fn bound(model: &crate::model::Config, positions: usize, threads: usize) -> f64 {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let work = || {
        let (d, n) = (model.width(), positions);
        let of_layer = [[n, 3 * d, d], [n, d, d], [n, 4 * d, d], [n, d, 4 * d]];
        let layers: f64 = of_layer.iter().map(|shape| three_products(*shape)).sum();
        let pairs = (positions / model.window * model.heads) as f64 * (model.window * (model.window + 1) / 2) as f64;
        // Two products forward and five backward over the pairs that are seen.
        let attention = 7.0 * 2.0 * pairs * model.head as f64 / fastest_flops();
        let chunk = n.min(512);
        let logits = three_products([chunk, model.vocabulary, d]) * n as f64 / chunk as f64;
        model.layers as f64 * (layers + attention) + logits
    };
    match pool {
        Ok(pool) => pool.install(work),
        Err(_) => f64::NAN,
    }
}

/// Seconds for y = xWᵀ and its two gradients, for `[m, inner]` by `[outer, inner]`.
fn three_products([m, outer, inner]: [usize; 3]) -> f64 {
    let (x, w, mut y) = (vec![0.5f32; m * inner], vec![0.25f32; outer * inner], vec![0.0f32; m * outer]);
    let (mut of_x, mut of_w) = (vec![0.0f32; m * inner], vec![0.0f32; outer * inner]);
    fastest(|| {
        multiply([m, outer, inner], &mut y, Into::Replace, 1.0, rows(&x, inner), transposed(&w, inner));
        multiply([outer, inner, m], &mut of_w, Into::Add, 1.0, transposed(&y, outer), rows(&x, inner));
        multiply([m, inner, outer], &mut of_x, Into::Replace, 1.0, rows(&y, outer), rows(&w, inner));
    })
}

/// The fastest the machine multiplies square matrices.
fn fastest_flops() -> f64 {
    let n = 1024;
    let (a, b, mut c) = (vec![0.5f32; n * n], vec![0.25f32; n * n], vec![0.0f32; n * n]);
    let seconds = fastest(|| multiply([n, n, n], &mut c, Into::Replace, 1.0, rows(&a, n), rows(&b, n)));
    2.0 * (n as f64).powi(3) / seconds
}

fn fastest(mut once: impl FnMut()) -> f64 {
    let time = |once: &mut dyn FnMut()| {
        let start = Instant::now();
        once();
        start.elapsed().as_secs_f64()
    };
    (0..5).map(|_| time(&mut once)).fold(f64::INFINITY, f64::min)
}
