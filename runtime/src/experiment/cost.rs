//! What an experiment will take, before it is started: runs, tokens, operations, time on this machine, disk.

use super::Experiment;
use super::calibrate::{Speed, measure};
use super::check::{self, Model};
use super::file::Data;
use super::glue::{self, Job};
use super::grid::Cell;
use super::{data, glue_cost, result};
use crate::glue::Plan;
use crate::metrics::progress::duration;
use crate::metrics::table::table;
use crate::train::settings::Settings;
use energyc::cli::outcome::count;
use std::ops::AddAssign;
use std::time::Duration;

/// Sums over runs.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Cost {
    pub runs: usize,
    /// Positions the models learn from, with padding.
    pub tokens: f64,
    /// Floating-point operations of training.
    pub operations: f64,
    pub seconds: f64,
    /// Bytes that stay.
    pub disk: f64,
}

impl Cost {
    pub fn times(self, count: usize) -> Cost {
        let Cost { runs, tokens, operations, seconds, disk } = self;
        let all = |of_one: f64| count as f64 * of_one;
        let (tokens, operations) = (all(tokens), all(operations));
        Cost { runs: count * runs, tokens, operations, seconds: all(seconds), disk: all(disk) }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.runs += other.runs;
        self.tokens += other.tokens;
        self.operations += other.operations;
        self.seconds += other.seconds;
        self.disk += other.disk;
    }
}

/// The table of a dry run. Nothing is written.
pub fn report(experiment: &Experiment) -> Result<String, String> {
    check::same_experiment(experiment)?;
    let models = check::models(experiment)?;
    let tuning = Tuning::of(experiment)?;
    let (mut rows, mut total, mut assumed) = (Vec::new(), Cost::default(), tuning.assumed.clone());
    let mut add = |names: [&str; 3], steps: &str, cost: Cost| {
        rows.push(row(&names, steps, &cost));
        total += cost;
    };
    for (number, model) in models.iter().enumerate() {
        let Some(cell) = model.cells.first() else { continue };
        let (name, size, window) = (&cell.name, &cell.size, cell.window.to_string());
        eprintln!("[{}/{}] measuring {name}, size {size}, window {window}", number + 1, models.len());
        let speed = measure(&cell.settings, &model.gpt)?;
        let left = model.cells.iter().filter(|cell| !is_done(experiment, cell)).count();
        let steps = cell.settings.steps(model.facts.train).to_string();
        add([name, size, &window], &steps, of_training(model, &cell.settings, &speed).times(left));
        if let Some(plan) = &tuning.plan {
            let of_one = glue_cost::of_model(plan, tuning.job.as_ref(), &model.gpt, &speed);
            add([&format!("{name}, GLUE"), size, &window], "", of_one.times(model.cells.len()));
        }
        let new = model.facts.assumed.iter().filter(|said| !assumed.contains(said));
        assumed.extend(new.cloned().collect::<Vec<_>>());
    }
    let to_prepare = models.first().map_or(0, |model| model.facts.disk);
    if to_prepare > 0 {
        add(["prepared data", "", ""], "", Cost { disk: to_prepare as f64, ..Cost::default() });
    }
    rows.push(row(&["all", "", ""], "", &total));
    let header = ["recipe", "size", "window", "runs", "steps", "tokens", "FLOP", "time", "disk"];
    let notes: String = notes(experiment, &assumed).iter().map(|note| format!("{note}\n")).collect();
    Ok(format!("{}\n\n{}\n{notes}", experiment.file.name, table(&header, &rows)))
}

/// Fine-tuning, as far as its data is there.
struct Tuning {
    plan: Option<Plan>,
    job: Option<Job>,
    assumed: Vec<String>,
}

impl Tuning {
    fn of(experiment: &Experiment) -> Result<Tuning, String> {
        let plan = glue::plan(experiment)?;
        let missing = experiment.file.glue.as_ref().and_then(|of| data::find(experiment.data(), &of.data).err());
        match missing {
            None => Ok(Tuning { plan, job: glue::job(experiment)?, assumed: Vec::new() }),
            Some(missing) => {
                let assumed = vec![format!("{missing}: the published rows of every task")];
                Ok(Tuning { plan, job: None, assumed })
            }
        }
    }
}

fn notes(experiment: &Experiment, assumed: &[String]) -> Vec<String> {
    let threads = rayon::current_num_threads();
    let mut notes = vec![format!(
        "time: from a few measured steps of every model on {}; tokens: positions with padding; FLOP: matrix products",
        count(threads, "thread")
    )];
    if matches!(experiment.file.data, Some(Data::Files(_))) {
        notes.push("time: without learning a vocabulary and preparing the data".to_string());
    }
    notes.extend(assumed.iter().map(|said| format!("assumed: {said}")));
    let done = experiment.cells.iter().filter(|cell| is_done(experiment, cell)).count();
    if done > 0 {
        notes.push(format!("not counted: {} that are done", count(done, "run")));
    }
    notes
}

fn is_done(experiment: &Experiment, cell: &Cell) -> bool {
    experiment.run_of(cell).join(result::FILE).exists()
}

/// Of one run.
fn of_training(model: &Model, settings: &Settings, speed: &Speed) -> Cost {
    let (train, report) = (&settings.train, &settings.report);
    let steps = settings.steps(model.facts.train);
    let sequences = train.batch * train.accumulate;
    let tokens = steps as f64 * (sequences * settings.model.window) as f64;
    let validated = match report.valid_examples {
        0 => model.facts.valid,
        most => most.min(model.facts.valid),
    };
    let validations = steps.checked_div(report.valid_every).unwrap_or(0).max(1);
    let of_step = speed.optimizer + train.accumulate as f64 * (speed.of_step(train.batch) - speed.optimizer);
    let seconds = steps as f64 * of_step + validations as f64 * speed.of_validation(validated);
    let checkpoints = match report.checkpoint_every {
        0 => 1,
        every => steps.div_ceil(every).clamp(1, report.keep.max(1) as u64),
    };
    // The weights and AdamW's two moments of each.
    let disk = checkpoints as f64 * 3.0 * 4.0 * model.gpt.layout.len() as f64;
    let operations = tokens * model.gpt.operations(settings.model.window);
    Cost { runs: 1, tokens, operations, seconds, disk }
}

fn row(names: &[&str; 3], steps: &str, cost: &Cost) -> Vec<String> {
    let blank = |value: f64, text: String| if value > 0.0 { text } else { String::new() };
    let time = Duration::try_from_secs_f64(cost.seconds).map_or("too long".to_string(), duration);
    let mut cells: Vec<String> = names.iter().map(|name| (*name).to_string()).collect();
    cells.extend([
        blank(cost.runs as f64, cost.runs.to_string()),
        steps.to_string(),
        blank(cost.tokens, scaled(cost.tokens, "")),
        blank(cost.operations, scaled(cost.operations, "")),
        blank(cost.seconds, time),
        blank(cost.disk, scaled(cost.disk, "B")),
    ]);
    cells
}

/// `1.2 G`, `830 MB`.
fn scaled(value: f64, unit: &str) -> String {
    let letters = ["", "k", "M", "G", "T", "P", "E"];
    let power = if value < 1.0 { 0 } else { ((value.log10() / 3.0) as usize).min(letters.len() - 1) };
    let scaled = value / 1e3f64.powi(power as i32);
    let digits = if scaled < 10.0 && power > 0 { 1 } else { 0 };
    format!("{scaled:.digits$} {}{unit}", letters[power]).trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::scaled;

    #[test]
    fn large_numbers_have_letters() {
        let shown = [0.0, 999.0, 1200.0, 34_567.0, 8.3e8, 2.5e18].map(|value| scaled(value, "B"));
        assert_eq!(shown, ["0 B", "999 B", "1.2 kB", "35 kB", "830 MB", "2.5 EB"]);
    }
}
