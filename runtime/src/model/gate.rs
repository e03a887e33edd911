//! Gates: a number in (0, 1) per token and head, σ(g·h + b), of the attended tokens or of the queries' own.

use super::heads::Lengths;
use super::matrix::{Into, project, project_backward};
use super::weights::{Layout, Named, Place, Start};
use energyc::check::Param;
use energyc::ir::Role;

/// What a decay's bias starts at: σ(4) ≈ 0.98, so that a layer begins with a long memory.
pub const DECAY_BIAS: f32 = 4.0;

/// A learned linear map of the token, squashed.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The kernel's input.
    pub name: String,
    /// Whether queries have it, and not attended tokens: it moves with the point, and none is remembered.
    pub is_of_query: bool,
    heads: usize,
    d: usize,
    weight: Place,
    bias: Place,
}

impl Gate {
    pub fn new(layout: &mut Layout, prefix: &str, param: &Param, [heads, d]: [usize; 2], deviation: f32) -> Gate {
        let bias = Start::Constant(if param.leaf.role == Role::Decay { DECAY_BIAS } else { 0.0 });
        let named = |suffix| Named { suffix, ..Named::new(prefix, &param.name) };
        Gate {
            name: param.name.clone(),
            is_of_query: param.value.is_of_query(),
            heads,
            d,
            weight: layout.add_named(named(".weight"), &[heads, d], Start::Normal(deviation)),
            bias: layout.add_named(named(".bias"), &[heads], bias),
        }
    }

    /// The gates of tokens x `[B·N, d]`: `[B, H, N]`.
    pub fn forward(&self, weights: &[f32], x: &[f32], lengths: Lengths, out: &mut Vec<f32>) {
        let Lengths { batch, tokens, heads, .. } = lengths;
        let mut scores = vec![0.0; batch * tokens * heads];
        project(x, &weights[self.weight.clone()], [batch * tokens, self.d, heads], &mut scores);
        out.resize(batch * heads * tokens, 0.0);
        let bias = &weights[self.bias.clone()];
        for (i, row) in scores.chunks_exact(heads).enumerate() {
            for (h, score) in row.iter().enumerate() {
                out[place(i, h, lengths)] = 1.0 / (1.0 + (-(score + bias[h])).exp());
            }
        }
    }

    /// Adds to the gradients, given that of the gates: ∂score = ∂γ γ (1 − γ).
    #[allow(clippy::too_many_arguments)]
    pub fn backward(
        &self,
        weights: &[f32],
        gradient: &mut [f32],
        x: &[f32],
        lengths: Lengths,
        values: &[f32],
        given: &[f32],
        of_x: &mut [f32],
    ) {
        if given.is_empty() {
            return;
        }
        let (rows, heads) = (lengths.batch * lengths.tokens, self.heads);
        let mut of_scores = vec![0.0; rows * heads];
        for (i, row) in of_scores.chunks_exact_mut(heads).enumerate() {
            for (h, score) in row.iter_mut().enumerate() {
                let at = place(i, h, lengths);
                *score = given[at] * values[at] * (1.0 - values[at]);
                gradient[self.bias.start + h] += *score;
            }
        }
        let (weight, of_weight) = (&weights[self.weight.clone()], &mut gradient[self.weight.clone()]);
        project_backward(x, weight, [rows, self.d, heads], &of_scores, of_weight, (of_x, Into::Add));
    }
}

/// Where the gate of a row and a head lies.
fn place(row: usize, head: usize, lengths: Lengths) -> usize {
    let (b, t) = (row / lengths.tokens, row % lengths.tokens);
    (b * lengths.heads + head) * lengths.tokens + t
}
