//! How fast this machine trains a model: a few real steps on random tokens.
//!
//! A step on b sequences takes t_o + b·t_s: the optimizer's pass over all weights, and each sequence. Large models are
//! measured on few sequences; t_o is measured by itself, so that both numbers are known.

use crate::data::Noise;
use crate::model::Gpt;
use crate::train::adamw;
use crate::train::settings::Settings;
use crate::train::trainer::Trainer;
use std::time::Instant;

/// Floating-point operations of a measured step, unless a single sequence takes more.
const WORK: f64 = 2e10;
/// Steps that are measured, after one that fills the buffers; the fastest counts.
const STEPS: usize = 2;

/// Seconds of training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Of the optimizer, for a step.
    pub optimizer: f64,
    /// Of a sequence, forward and backward.
    pub sequence: f64,
}

impl Speed {
    pub fn of_step(&self, sequences: usize) -> f64 {
        self.optimizer + self.sequence * sequences as f64
    }

    /// A validation goes forward only, which is a third of the work.
    pub fn of_validation(&self, sequences: usize) -> f64 {
        self.sequence * sequences as f64 / 3.0
    }
}

/// Measures a model with the settings it would be trained with.
pub fn measure(settings: &Settings, gpt: &Gpt) -> Result<Speed, String> {
    let (window, vocabulary) = (gpt.config.window, gpt.config.vocabulary);
    let of_sequence = gpt.operations(window) * window as f64;
    let batch = ((WORK / of_sequence) as usize).clamp(1, settings.train.batch);
    let mut settings = settings.clone();
    (settings.train.batch, settings.train.accumulate, settings.train.steps) = (batch, 1, 1 << 20);
    let mut trainer = Trainer::new(settings, gpt.clone(), Box::new(Noise { window, vocabulary }))?;
    trainer.next_step()?;
    let step = fastest(|| trainer.next_step().map(|_| ()))?;
    let mut gradient = vec![0.0; gpt.layout.len()];
    let optimizer = fastest(|| {
        let length = adamw::norm(&gradient) as f32;
        let (constants, how) = (trainer.settings.train.adamw, (1e-9, 1, 1.0 + length));
        adamw::step(&constants, &gpt.layout, how, &mut trainer.weights, &mut gradient, &mut trainer.moments);
        Ok(())
    })?;
    Ok(Speed { optimizer, sequence: (step - optimizer).max(1e-9) / batch as f64 })
}

fn fastest(mut once: impl FnMut() -> Result<(), String>) -> Result<f64, String> {
    let mut least = f64::INFINITY;
    for _ in 0..STEPS {
        let start = Instant::now();
        once()?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(least)
}
