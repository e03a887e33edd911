//! Cross-entropy of the next token: a linear map to the vocabulary and −log softmax, a few hundred rows at a time.
//!
//! The logits of all rows together are never held. In training, a chunk's logits become their own gradient in place, and
//! both products that need it follow at once.

use super::blocks::{sized, wide};
use super::matrix::{Into, multiply, project, rows, transposed};
use energyc::primitives::functions::exponential as exp;
use rayon::prelude::*;

/// Rows of a chunk.
const CHUNK: usize = 512;

/// A position that is not in the loss.
pub const NONE: i32 = -1;

/// Σ −log p over the positions that count, and how many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Loss {
    pub sum: f64,
    pub count: usize,
    /// Positions whose target has the largest logit.
    pub right: usize,
}

impl Loss {
    /// Per position.
    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    /// The part of the positions whose target has the largest logit.
    pub fn accuracy(&self) -> f64 {
        self.right as f64 / self.count.max(1) as f64
    }

    pub fn plus(self, other: Loss) -> Loss {
        Loss { sum: self.sum + other.sum, count: self.count + other.count, right: self.right + other.right }
    }
}

/// Buffers of one chunk.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    logits: Vec<f32>,
    x: Vec<f32>,
    of_x: Vec<f32>,
}

/// What a gradient is wanted of: the loss times `scale`.
pub struct Wanted<'a> {
    pub scale: f32,
    /// ∂W is added.
    pub of_weight: &'a mut [f32],
    /// ∂x is put here.
    pub of_x: &'a mut [f32],
}

/// The loss of rows x `[rows, d]` with W `[vocabulary, d]`.
pub fn loss(
    x: &[f32],
    d: usize,
    weight: &[f32],
    targets: &[i32],
    scratch: &mut Scratch,
    mut wanted: Option<Wanted>,
) -> Loss {
    let vocabulary = weight.len() / d;
    let counted: Vec<usize> = (0..targets.len()).filter(|i| targets[*i] != NONE).collect();
    if let Some(wanted) = &mut wanted {
        wanted.of_x[..x.len()].par_chunks_mut(1 << 16).for_each(|part| part.fill(0.0));
    }
    let mut total = Loss::default();
    for chunk in counted.chunks(CHUNK) {
        let n = chunk.len();
        let own = sized(&mut scratch.x, n * d);
        own.chunks_exact_mut(d).zip(chunk).for_each(|(row, i)| row.copy_from_slice(&x[i * d..(i + 1) * d]));
        let logits = sized(&mut scratch.logits, n * vocabulary);
        project(own, weight, [n, d, vocabulary], logits);
        let scale = wanted.as_ref().map(|wanted| wanted.scale);
        let each = logits.par_chunks_mut(vocabulary).zip(chunk);
        let of_rows: Vec<(f64, bool)> = each
            .map(|(row, i)| {
                wide(
                    #[inline(always)]
                    || row_loss(row, targets[*i] as usize, scale),
                )
            })
            .collect();
        for (loss, is_right) in of_rows {
            total = total.plus(Loss { sum: loss, count: 1, right: usize::from(is_right) });
        }
        if let Some(wanted) = &mut wanted {
            let shape = [vocabulary, d, n];
            multiply(shape, wanted.of_weight, Into::Add, 1.0, transposed(logits, vocabulary), rows(own, d));
            let of_own = sized(&mut scratch.of_x, n * d);
            let shape = [n, d, vocabulary];
            multiply(shape, of_own, Into::Replace, 1.0, rows(logits, vocabulary), rows(weight, d));
            let each = of_own.chunks_exact(d).zip(chunk);
            each.for_each(|(row, i)| wanted.of_x[i * d..(i + 1) * d].copy_from_slice(row));
        }
    }
    total
}

/// −log p of the target, and whether it is the largest; the logits become (p − 1_target) scale if that is wanted.
#[inline(always)]
fn row_loss(logits: &mut [f32], target: usize, scale: Option<f32>) -> (f64, bool) {
    let of_target = logits[target];
    let largest = largest(logits);
    let mut sums = [0.0f32; LANES];
    for chunk in logits.chunks_mut(LANES) {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *x = exp(*x - largest);
            *sum += *x;
        }
    }
    let sum: f64 = sums.iter().map(|x| f64::from(*x)).sum();
    if let Some(scale) = scale {
        let factor = (f64::from(scale) / sum) as f32;
        logits.iter_mut().for_each(|x| *x *= factor);
        logits[target] -= scale;
    }
    (sum.ln() - f64::from(of_target - largest), of_target >= largest)
}

const LANES: usize = 32;

#[inline(always)]
fn largest(row: &[f32]) -> f32 {
    let mut most = [f32::NEG_INFINITY; LANES];
    for chunk in row.chunks(LANES) {
        for (most, x) in most.iter_mut().zip(chunk) {
            *most = if *x > *most { *x } else { *most };
        }
    }
    most.into_iter().fold(f32::NEG_INFINITY, f32::max)
}
