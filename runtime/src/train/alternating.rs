//! Learning without backpropagation: the paper's alternating optimization of a one-layer loop (Algorithm 3).
//!
//! min over Z, W, E of L(EᵀZ, Y) + Σ_i F(z_i, H; W), one after the other, each with the others held:
//!
//! 1. z ← z − η∇_z F, K times: the layer's forward pass;
//! 2. W ← W − η∇_W Σ F at the tokens the loop ended in;
//! 3. E ← E − η∇_E L at the same tokens.
//!
//! Nothing goes back through the loop. F's own numbers (temperatures, lengths) stay, since F could fall by them alone.

use super::adamw::norm;
use crate::data::Batch;
use crate::model::{Gpt, Loss, Tape};

/// What one round came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Before E was changed.
    pub loss: Loss,
    /// Σ F per position, before W was changed.
    pub energy: f64,
    /// Of W and E together.
    pub gradient_norm: f64,
}

/// An error that says what stands in the way.
pub fn check(gpt: &Gpt) -> Result<(), String> {
    match gpt.why_not_local() {
        None => Ok(()),
        Some(why) => Err(format!("the objective `alternating` cannot train this model: {why}")),
    }
}

/// One round on a batch.
pub fn step(
    (gpt, tape, gradient): (&Gpt, &mut Tape, &mut [f32]),
    weights: &mut [f32],
    batch: &Batch,
    learning_rate: f64,
) -> Round {
    gpt.forward(weights, &batch.input(), None, tape);
    let scale = 1.0 / batch.counted().max(1) as f32;
    let loss = gpt.loss(weights, &batch.targets, tape, Some((scale, gradient)));
    let present = batch.present().max(1);
    let of_heads = 1.0 / (gpt.config.heads * present) as f32;
    let energy = gpt.energy_at_end(weights, tape, Some((of_heads, gradient))) / present as f64;
    let mut squares = 0.0;
    for place in [gpt.first_matrices(), gpt.logits_matrix()] {
        let own = &mut gradient[place.clone()];
        squares += norm(own).powi(2);
        weights[place].iter_mut().zip(own).for_each(|(w, g)| *w -= learning_rate as f32 * *g);
    }
    gradient.fill(0.0);
    Round { loss, energy, gradient_norm: squares.sqrt() }
}
