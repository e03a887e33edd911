//! AdamW on one array of weights: moments, bias correction, decay and the step in one pass over memory.
//!
//! m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², w ← w − lr (m̂/(√v̂ + ε) + λw) with m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ).

use crate::model::weights::Layout;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// The constants of the method.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Constants {
    pub beta1: f64,
    pub beta2: f64,
    pub epsilon: f64,
    /// Of matrices; biases, norms and single numbers do not decay.
    pub weight_decay: f64,
}

impl Default for Constants {
    fn default() -> Constants {
        Constants { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.01 }
    }
}

/// m and v of every weight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moments {
    pub first: Vec<f32>,
    pub second: Vec<f32>,
}

impl Moments {
    pub fn new(length: usize) -> Moments {
        Moments { first: vec![0.0; length], second: vec![0.0; length] }
    }
}

/// Numbers a thread takes at a time.
const CHUNK: usize = 1 << 15;

/// One step; `step` counts from 1, and the gradient is multiplied by `scale` first. The gradient is left at 0.
pub fn step(
    constants: &Constants,
    layout: &Layout,
    (learning_rate, step, scale): (f64, u64, f32),
    weights: &mut [f32],
    gradient: &mut [f32],
    moments: &mut Moments,
) {
    let steps = step.min(1 << 30) as i32;
    let correct1 = (1.0 / (1.0 - constants.beta1.powi(steps))) as f32;
    let correct2 = (1.0 / (1.0 - constants.beta2.powi(steps))) as f32;
    let [gain1, gain2] = [constants.beta1, constants.beta2].map(|beta| (1.0 - beta) as f32);
    let (rate, epsilon) = (learning_rate as f32, constants.epsilon as f32);
    for weight in layout.weights() {
        let decay = if weight.decays { (learning_rate * constants.weight_decay) as f32 } else { 0.0 };
        let range = weight.range.clone();
        let values = weights[range.clone()].par_chunks_mut(CHUNK).zip(gradient[range.clone()].par_chunks_mut(CHUNK));
        let first = moments.first[range.clone()].par_chunks_mut(CHUNK);
        let second = moments.second[range].par_chunks_mut(CHUNK);
        values.zip(first.zip(second)).for_each(|((w, g), (m, v))| {
            pulp::Arch::new().dispatch(
                #[inline(always)]
                || {
                    for ((w, g), (m, v)) in w.iter_mut().zip(g).zip(m.iter_mut().zip(v)) {
                        let own = *g * scale;
                        *g = 0.0;
                        *m += gain1 * (own - *m);
                        *v += gain2 * (own * own - *v);
                        let direction = *m * correct1 / ((*v * correct2).sqrt() + epsilon);
                        *w -= rate * direction + decay * *w;
                    }
                },
            );
        });
    }
}

/// The length of an array, summed in f64 in an order that depends on the length alone.
pub fn norm(values: &[f32]) -> f64 {
    let of_chunk = |chunk: &[f32]| {
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                let mut lanes = [0.0f64; 16];
                for part in chunk.chunks(16) {
                    lanes.iter_mut().zip(part).for_each(|(sum, x)| *sum += f64::from(*x) * f64::from(*x));
                }
                lanes.iter().sum::<f64>()
            },
        )
    };
    let parts: Vec<f64> = values.par_chunks(CHUNK).map(of_chunk).collect();
    parts.iter().sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::weights::Start;

    /// torch.optim.AdamW(lr = 0.1, betas = (0.9, 0.999), eps = 1e-8, weight_decay = 0.01) on w = [1, −2] with the
    /// gradients [0.5, −1], then [0.25, 2]; the second weight without decay.
    #[test]
    fn two_steps_are_those_of_the_reference() {
        let mut layout = Layout::default();
        layout.add("a".to_string(), &[1, 1], Start::Constant(0.0));
        layout.add("b".to_string(), &[1], Start::Constant(0.0));
        let (mut weights, mut moments) = (vec![1.0f32, -2.0], Moments::new(2));
        let constants = Constants::default();
        for (i, gradient) in [[0.5f32, -1.0], [0.25, 2.0]].into_iter().enumerate() {
            let mut gradient = gradient.to_vec();
            step(&constants, &layout, (0.1, i as u64 + 1, 1.0), &mut weights, &mut gradient, &mut moments);
            assert_eq!(gradient, [0.0, 0.0]);
        }
        for (found, wanted) in weights.iter().zip(TORCH) {
            assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
        }
    }

    const TORCH: [f32; 2] = [0.804_883_06, -1.936_610_3];

    #[test]
    fn the_norm_is_that_of_the_whole() {
        let values: Vec<f32> = (0..100_000).map(|i| (i % 7) as f32 - 3.0).collect();
        let wanted = values.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        assert!((norm(&values) - wanted).abs() < 1e-9 * wanted);
    }
}
