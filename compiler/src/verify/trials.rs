//! Runs a claim on many samples and keeps the worst that was seen.

use super::report::Outcome;
use super::samples::{SHAPES, Sample, Source};
use crate::ir::eval::Sizes;
use crate::ir::tensor::{Tensor, broadcast};
use std::fmt;

/// Seeds a shape is tried with.
const SEEDS: u64 = 2;
/// Draws after which a sample away from the kinks is given up.
const ATTEMPTS: u64 = 1000;
/// How the report says that none was found.
const NO_SAMPLE: &str = "no sample with a reliable finite difference";

/// How it says that there was no work left for one.
pub const TOO_LONG: &str = "the formulas are too long to look at a sample";

/// The distance of two tensors, and where it is largest.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap {
    pub error: f64,
    pub place: String,
}

impl Gap {
    pub const NONE: Gap = Gap { error: 0.0, place: String::new() };

    /// The larger of two.
    pub fn or(self, other: Gap) -> Gap {
        if other.error > self.error { other } else { self }
    }
    pub fn impossible(place: String) -> Gap {
        Gap { error: f64::INFINITY, place }
    }
}

/// max |a − b| / (1 + max(|a|, |b|)) over the entries; infinite where one is not a number.
pub fn gap(what: &str, got: &Tensor, expected: &Tensor, sizes: Sizes) -> Gap {
    let all = |which: usize| broadcast(&[got, expected], |a| sizes.length(a), |v| v[which]);
    let (got, expected) = (all(0), all(1));
    let errors = got.data.iter().zip(&expected.data).map(|(&a, &b)| relative(a, b));
    let worst = errors.enumerate().fold((0, 0.0), |worst, new| if new.1 > worst.1 { new } else { worst });
    let (at, error) = worst;
    let place = match error > 0.0 {
        true => format!("{what}{} is {:.9}, expected {:.9}", entry(&got, at), got.data[at], expected.data[at]),
        false => String::new(),
    };
    Gap { error, place }
}

fn relative(a: f64, b: f64) -> f64 {
    let error = (a - b).abs() / (1.0 + a.abs().max(b.abs()));
    match (a == b, error.is_nan()) {
        (true, _) => 0.0,
        (_, true) => f64::INFINITY,
        _ => error,
    }
}

/// "[t 0, e 1]" for the entry stored at `offset`.
fn entry(x: &Tensor, offset: usize) -> String {
    let strides = x.strides_for(&x.axes);
    let position = |j: usize| (offset / strides[j]) % x.shape[j];
    let parts: Vec<String> = x.axes.iter().enumerate().map(|(j, a)| format!("{a} {}", position(j))).collect();
    if parts.is_empty() { String::new() } else { format!("[{}]", parts.join(", ")) }
}

/// How many samples were looked at, of how many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Samples {
    done: usize,
    of: usize,
}

impl Samples {
    pub fn all(of: usize) -> Samples {
        Samples { done: of, of }
    }
    pub fn of(done: usize, of: usize) -> Samples {
        Samples { done, of }
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.done == self.of {
            true => write!(f, "{}", self.of),
            false => write!(f, "only {} of {}", self.done, self.of),
        }
    }
}

/// What a claim's trials came to.
#[derive(Clone, Debug)]
pub struct Tally {
    pub samples: Samples,
    pub worst: Gap,
}

impl Tally {
    /// Whether some shape had no sample that could be used.
    pub fn is_without_sample(&self) -> bool {
        self.worst.error.is_infinite() && self.worst.place.starts_with(NO_SAMPLE)
    }
    pub fn join(self, other: Tally) -> Tally {
        let (a, b) = (self.samples, other.samples);
        Tally { samples: Samples { done: a.done + b.done, of: a.of + b.of }, worst: self.worst.or(other.worst) }
    }
    pub fn outcome(self, tolerance: f64) -> Outcome {
        if self.is_without_sample() {
            return Outcome::Inconclusive { reason: self.worst.place };
        }
        let Gap { error, place } = self.worst;
        if self.samples.done == 0 && self.samples.of > 0 {
            return Outcome::NotApplicable { reason: TOO_LONG.to_string() };
        }
        if error <= tolerance {
            Outcome::Pass { error, tolerance }
        } else {
            Outcome::Fail { error, tolerance, where_: place }
        }
    }
}

/// Tries a claim on every shape and seed, as far as the source's work goes. A trial answers nothing where its own
/// expected value is not to be trusted; then another sample is drawn, and a shape without any usable sample fails.
pub fn run(source: &Source, trial: impl Fn(&Sample) -> Result<Option<Gap>, String>) -> Tally {
    let mut tally = Tally { samples: Samples::all(0), worst: Gap::NONE };
    for shape in SHAPES {
        for seed in 0..SEEDS {
            let found = first_usable(source, shape, seed, &trial);
            let samples = Samples { done: usize::from(found.is_some()), of: 1 };
            tally = tally.join(Tally { samples, worst: found.unwrap_or(Gap::NONE) });
        }
    }
    tally
}

/// The gap at the first sample that can be used; nothing when there is no work left to find one.
fn first_usable(
    source: &Source,
    shape: (usize, usize, usize, usize),
    seed: u64,
    trial: impl Fn(&Sample) -> Result<Option<Gap>, String>,
) -> Option<Gap> {
    for attempt in 0..ATTEMPTS {
        if source.work.is_spent() {
            return None;
        }
        let Some(sample) = source.draw(shape, seed * ATTEMPTS + attempt) else { continue };
        let at = |place: String| format!("{place} ({})", sample.describe());
        match trial(&sample) {
            Ok(Some(gap)) if gap.error.is_infinite() && source.overflows(&sample.env) => {}
            Ok(Some(gap)) => return Some(Gap { place: at(gap.place), ..gap }),
            Ok(None) => {}
            Err(problem) => return Some(Gap::impossible(at(problem))),
        }
    }
    let (queries, tokens, head, _) = shape;
    let sizes = format!("{queries} queries, N = {tokens}, d_h = {head}");
    Some(Gap::impossible(format!("{NO_SAMPLE} in {ATTEMPTS} draws ({sizes})")))
}
