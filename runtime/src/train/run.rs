//! The loop around a trainer: metrics, validation, checkpoints, until the steps are done or somebody stops it.

use super::checkpoint::{self, Manifest};
use super::trainer::{Step, Trainer};
use crate::data::Examples;
use crate::metrics::memory;
use crate::metrics::progress::{Every, Numbers, Progress};
use crate::metrics::record::{self, Kind, Record};
use crate::metrics::tensorboard::Events;
use crate::model::Loss;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Set when training is to stop after the step it is in.
pub static STOP: AtomicBool = AtomicBool::new(false);

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    pub step: u64,
    /// Whether all steps were taken.
    pub is_done: bool,
    pub valid: Option<Loss>,
    /// Of training alone.
    pub tokens_per_second: f64,
    pub checkpoint: PathBuf,
}

/// The folder of a run, held by this process alone.
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Opens or makes the folder of a run.
    pub fn open(path: &Path) -> Result<Folder, String> {
        let wrong = |error: std::io::Error| format!("cannot write to `{}`: {error}", path.display());
        fs::create_dir_all(path).map_err(wrong)?;
        let lock = File::create(path.join(".lock")).map_err(wrong)?;
        match lock.try_lock() {
            Ok(()) => Ok(Folder { path: path.to_path_buf(), _lock: lock }),
            Err(fs::TryLockError::WouldBlock) => Err(format!("another process trains in `{}`", path.display())),
            Err(fs::TryLockError::Error(error)) => Err(wrong(error)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a run in it already.
    pub fn is_used(&self) -> bool {
        self.path.join(record::FILE).exists() || !checkpoint::all(&checkpoint::in_run(&self.path)).is_empty()
    }
}

/// Speed since the last line of the metrics.
struct Pace {
    /// Time that was spent before this process, and in it.
    seconds: f64,
    positions: usize,
    since: f64,
    all_positions: usize,
    all_seconds: f64,
}

/// Trains until the steps are done or [`STOP`] is set.
pub fn run(trainer: &mut Trainer, valid: &dyn Examples, manifest: &Manifest, folder: &Folder) -> Result<Ended, String> {
    let report = trainer.settings.report.clone();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let path = folder.path.join(record::FILE);
    let mut writer = record::Writer::resume(&path, trainer.step)?;
    let mut events = Events::resume(&folder.path, now, trainer.step)?;
    let before = record::read(&path)?.last().and_then(|last| last.seconds).unwrap_or(0.0);
    let mut pace = Pace { seconds: before, positions: 0, since: 0.0, all_positions: 0, all_seconds: 0.0 };
    let operations = trainer.gpt.operations(trainer.gpt.config.window);
    let mut progress = Progress::new(trainer.step, trainer.steps, Every::Seconds(10.0));
    let mut say = |record: Record| -> Result<(), String> {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        writer.append(&record)?;
        events.append_record(wall, &record)
    };
    let mut validated = None;
    let mut saved = checkpoint::all(&checkpoint::in_run(&folder.path)).pop();
    while !trainer.is_done() && !STOP.load(Ordering::Relaxed) {
        let start = Instant::now();
        let step = trainer.next_step().map_err(|error| stopped(&error, saved.as_deref()))?;
        pace.add(start.elapsed().as_secs_f64(), step.positions);
        let is_last = trainer.is_done();
        if step.step % report.log_every == 0 || is_last || step.step == 1 {
            let (speed, gflops) = pace.take(operations);
            progress.update(&Numbers {
                step: step.step,
                loss: step.loss.mean(),
                tokens_per_second: speed,
                gflops: Some(gflops),
                memory_mib: memory::current_mib(),
            });
            say(train_record(&step, trainer.tokens, [speed, gflops, pace.seconds]))?;
        }
        if is_last || is_due(step.step, report.valid_every) {
            let start = Instant::now();
            let loss = trainer.validate(valid, report.valid_examples)?;
            pace.seconds += start.elapsed().as_secs_f64();
            progress.say(&format!("step {}: validation loss {:.4}", step.step, loss.mean()));
            let record = Record::measured(Kind::Valid, step.step, trainer.tokens, loss.mean());
            say(Record { accuracy: Some(loss.accuracy()), seconds: Some(pace.seconds), ..record })?;
            validated = Some(loss);
        }
        if is_last || is_due(step.step, report.checkpoint_every) {
            saved = Some(save(trainer, manifest, &folder.path)?);
        }
    }
    let has_newest = saved.as_ref().is_some_and(|path| *path == path_of(trainer, &folder.path));
    let checkpoint = match saved {
        Some(path) if has_newest => path,
        _ => save(trainer, manifest, &folder.path)?,
    };
    let tokens_per_second = pace.all_positions as f64 / pace.all_seconds.max(1e-9);
    Ok(Ended { step: trainer.step, is_done: trainer.is_done(), valid: validated, tokens_per_second, checkpoint })
}

impl Pace {
    fn add(&mut self, seconds: f64, positions: usize) {
        self.seconds += seconds;
        self.since += seconds;
        self.positions += positions;
        self.all_seconds += seconds;
        self.all_positions += positions;
    }

    /// Positions per second and GFLOP/s since the last time.
    fn take(&mut self, operations: f64) -> (f64, f64) {
        let speed = self.positions as f64 / self.since.max(1e-9);
        (self.positions, self.since) = (0, 0.0);
        (speed, speed * operations / 1e9)
    }
}

fn is_due(step: u64, every: u64) -> bool {
    every > 0 && step.is_multiple_of(every)
}

fn train_record(step: &Step, tokens: u64, [speed, gflops, seconds]: [f64; 3]) -> Record {
    Record {
        learning_rate: Some(step.learning_rate),
        gradient_norm: Some(step.gradient_norm),
        tokens_per_second: Some(speed),
        gflops: Some(gflops),
        seconds: Some(seconds),
        memory_mib: memory::current_mib(),
        energy: step.energy,
        ..Record::measured(Kind::Train, step.step, tokens, step.loss.mean())
    }
}

fn path_of(trainer: &Trainer, folder: &Path) -> PathBuf {
    checkpoint::path(&checkpoint::in_run(folder), trainer.step)
}

fn save(trainer: &Trainer, manifest: &Manifest, folder: &Path) -> Result<PathBuf, String> {
    let mut manifest = manifest.clone();
    (manifest.step, manifest.position, manifest.tokens) = (trainer.step, trainer.position, trainer.tokens);
    let layout = &trainer.gpt.layout;
    let keep = trainer.settings.report.keep;
    let folder = checkpoint::in_run(folder);
    checkpoint::write(&folder, &manifest, layout, &trainer.weights, Some(&trainer.moments), keep)
}

fn stopped(error: &str, saved: Option<&Path>) -> String {
    match saved {
        Some(path) => format!("{error}; the last good checkpoint is `{}`", path.display()),
        None => format!("{error}; no checkpoint was written yet"),
    }
}
