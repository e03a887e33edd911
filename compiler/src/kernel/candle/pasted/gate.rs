//! Gates: a number in (0, 1) per token and head, σ(g·h + b).

use super::config::Config;
use super::matrix::project;
use candle_core::{Result, Tensor};
use candle_nn::{Init, VarBuilder};

/// A learned linear map of the token, squashed.
#[derive(Clone, Debug)]
pub struct Gate {
    weight: Tensor,
    bias: Tensor,
}

impl Gate {
    /// `weight`, `[H, d]`, starts as candle's layers do, `bias`, `[H]`, at the given number.
    pub fn new(config: &Config, bias: f64, vb: VarBuilder) -> Result<Gate> {
        let weight =
            vb.get_with_hints((config.heads, config.d_model), "weight", candle_nn::init::DEFAULT_KAIMING_NORMAL)?;
        Ok(Gate { weight, bias: vb.get_with_hints(config.heads, "bias", Init::Const(bias))? })
    }

    /// The gates of tokens `[B, N, d]`: `[B, H, N]`, flat. By σ(x) = (1 + tanh(x/2))/2, which no x overflows.
    pub fn of(&self, tokens: &Tensor) -> Result<Tensor> {
        let x = project(tokens, &self.weight)?.broadcast_add(&self.bias)?;
        let gate = (x * 0.5)?.tanh()?.affine(0.5, 0.5)?;
        gate.transpose(1, 2)?.contiguous()?.flatten_all()
    }
}
