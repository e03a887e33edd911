//! Training: examples in, weights changed, one step at a time. Nothing here writes a file.

use super::adamw::{self, Moments};
use super::alternating;
use super::schedule;
use super::settings::{Objective, Settings};
use crate::data::order::Order;
use crate::data::{Batch, Examples};
use crate::model::random::Stream;
use crate::model::{Gpt, Loss, Tape};

/// A model and everything that changes while it learns.
pub struct Trainer {
    pub settings: Settings,
    pub gpt: Gpt,
    pub weights: Vec<f32>,
    pub moments: Moments,
    /// Steps taken.
    pub step: u64,
    /// Examples seen.
    pub position: u64,
    /// Positions of the loss so far.
    pub tokens: u64,
    /// Steps in all.
    pub steps: u64,
    gradient: Vec<f32>,
    examples: Box<dyn Examples>,
    order: Order,
    batches: Vec<Batch>,
    tape: Tape,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub step: u64,
    pub loss: Loss,
    /// Σ F over layers, per position, where the objective has it.
    pub energy: Option<f64>,
    pub learning_rate: f64,
    /// Before it was clipped.
    pub gradient_norm: f64,
    /// Positions the model went through, with padding.
    pub positions: usize,
}

/// Keeps dropout's use of the seed apart from others.
const DROPOUT: u64 = 0x6472_6f70_6f75_7421;

impl Trainer {
    /// A model that has learned nothing yet.
    pub fn new(settings: Settings, gpt: Gpt, examples: Box<dyn Examples>) -> Result<Trainer, String> {
        settings.check()?;
        if settings.train.objective == Objective::Alternating {
            alternating::check(&gpt)?;
        }
        let order = Order::new(examples.count(), settings.seed.0)?;
        let length = gpt.layout.len();
        Ok(Trainer {
            weights: gpt.layout.start(settings.seed.0),
            moments: Moments::new(length),
            step: 0,
            position: 0,
            tokens: 0,
            steps: settings.steps(examples.count()),
            gradient: vec![0.0; length],
            batches: vec![Batch::default(); settings.train.accumulate],
            tape: Tape::default(),
            settings,
            gpt,
            examples,
            order,
        })
    }

    pub fn is_done(&self) -> bool {
        self.step >= self.steps
    }

    /// The whole epochs that were seen.
    pub fn epoch(&self) -> u64 {
        self.order.epoch_of(self.position)
    }

    /// The next step, or where a number is not finite.
    pub fn next_step(&mut self) -> Result<Step, String> {
        let step = self.step + 1;
        let train = &self.settings.train;
        let size = train.batch as u64;
        for (i, batch) in self.batches.iter_mut().enumerate() {
            let first = self.position + i as u64 * size;
            let which: Vec<usize> = (first..first + size).map(|position| self.order.at(position)).collect();
            self.examples.fill(&which, batch)?;
        }
        self.learn(step)
    }

    /// The same on batches that are given: one step, whatever the examples are.
    pub fn step_on(&mut self, batches: Vec<Batch>) -> Result<Step, String> {
        self.batches = batches;
        self.learn(self.step + 1)
    }

    fn learn(&mut self, step: u64) -> Result<Step, String> {
        let train = &self.settings.train;
        let learning_rate = schedule::rate(train.learning_rate, step, self.settings.warmup(self.steps), self.steps);
        let done = match train.objective {
            Objective::Alternating => self.alternate(step, learning_rate)?,
            _ => self.backpropagate(step, learning_rate)?,
        };
        self.step = step;
        self.position += examples_in(&self.batches);
        self.tokens += done.loss.count as u64;
        Ok(done)
    }

    fn backpropagate(&mut self, step: u64, learning_rate: f64) -> Result<Step, String> {
        let train = &self.settings.train;
        let counted: usize = self.batches.iter().map(Batch::counted).sum();
        let present: usize = self.batches.iter().map(Batch::present).sum();
        let scale = 1.0 / counted.max(1) as f32;
        let of_energy = (train.objective == Objective::Energy).then_some(train.energy_weight);
        let seeds = Stream::new(self.settings.seed.0).stream(DROPOUT).stream(step);
        let (mut loss, mut energy) = (Loss::default(), 0.0);
        for (i, batch) in self.batches.iter().enumerate() {
            self.gpt.forward(&self.weights, &batch.input(), Some(seeds.bits(i as u64)), &mut self.tape);
            let wanted = Some((scale, &mut self.gradient[..]));
            let own = self.gpt.loss(&self.weights, &batch.targets, &mut self.tape, wanted);
            if !own.sum.is_finite() {
                return Err(self.not_finite(step, "loss"));
            }
            if of_energy.is_some() {
                energy += self.gpt.energies(&self.tape).iter().sum::<f64>() / present.max(1) as f64;
            }
            let of_heads = of_energy.map(|w| (w / (self.gpt.config.heads * present.max(1)) as f64) as f32);
            self.gpt.backward(&self.weights, &mut self.gradient, &mut self.tape, of_heads);
            loss = loss.plus(own);
        }
        let gradient_norm = adamw::norm(&self.gradient);
        if !gradient_norm.is_finite() {
            return Err(self.not_finite(step, "gradient"));
        }
        let clip = if train.clip > 0.0 { (train.clip / gradient_norm.max(1e-30)).min(1.0) } else { 1.0 };
        let layout = &self.gpt.layout;
        let how = (learning_rate, step, clip as f32);
        adamw::step(&train.adamw, layout, how, &mut self.weights, &mut self.gradient, &mut self.moments);
        let positions = self.batches.iter().map(|batch| batch.tokens.len()).sum();
        let energy = of_energy.map(|_| energy);
        Ok(Step { step, loss, energy, learning_rate, gradient_norm, positions })
    }

    fn alternate(&mut self, step: u64, learning_rate: f64) -> Result<Step, String> {
        let (mut loss, mut energy, mut norm) = (Loss::default(), 0.0, 0.0);
        for batch in &self.batches {
            let parts = (&self.gpt, &mut self.tape, &mut self.gradient[..]);
            let done = alternating::step(parts, &mut self.weights, batch, learning_rate);
            loss = loss.plus(done.loss);
            energy += done.energy / self.batches.len() as f64;
            norm += done.gradient_norm / self.batches.len() as f64;
        }
        if !(loss.sum + energy).is_finite() {
            return Err(self.not_finite(step, "loss"));
        }
        if !norm.is_finite() {
            return Err(self.not_finite(step, "gradient"));
        }
        let positions = self.batches.iter().map(|batch| batch.tokens.len()).sum();
        Ok(Step { step, loss, energy: Some(energy), learning_rate, gradient_norm: norm, positions })
    }

    /// What is not finite, and where it began.
    fn not_finite(&self, step: u64, what: &str) -> String {
        let in_network = self.gpt.first_not_finite(&self.tape);
        let in_weights = || {
            let place = self.weights.iter().position(|x| !x.is_finite());
            place.map(|place| format!("the weight {}", self.gpt.layout.owner(place)))
        };
        let in_gradient = || {
            let place = self.gradient.iter().position(|x| !x.is_finite());
            place.map(|place| format!("the gradient of {}", self.gpt.layout.owner(place)))
        };
        let place = in_weights().or(in_network).or_else(in_gradient).unwrap_or_else(|| "the logits".to_string());
        format!("the {what} of step {step} is not finite: it begins in {place}")
    }

    /// The loss over examples the model does not learn from: the first `most` of them, or all if it is 0.
    pub fn validate(&mut self, examples: &dyn Examples, most: usize) -> Result<Loss, String> {
        let count = if most == 0 { examples.count() } else { most.min(examples.count()) };
        let which: Vec<usize> = (0..count).collect();
        let mut batch = Batch::default();
        let mut total = Loss::default();
        for part in which.chunks(self.settings.train.batch) {
            examples.fill(part, &mut batch)?;
            self.gpt.forward(&self.weights, &batch.input(), None, &mut self.tape);
            total = total.plus(self.gpt.loss(&self.weights, &batch.targets, &mut self.tape, None));
            if !total.sum.is_finite() {
                return Err(self.not_finite(self.step, "validation loss"));
            }
        }
        Ok(total)
    }
}

/// Examples in all.
fn examples_in(batches: &[Batch]) -> u64 {
    batches.iter().map(|batch| batch.batch as u64).sum()
}
