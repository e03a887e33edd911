//! `energyrun logits`: what a checkpoint makes of given tokens, for checks from outside.

use crate::model::loss::NONE;
use crate::model::{Input, Tape};
use crate::refusal::Refusal;
use crate::tensors::{self, Tensor};
use crate::train::loaded::load;
use energyc::cli::atomic;
use energyc::cli::outcome::Outcome;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Compute the logits and the loss of tokens with a checkpoint, dropout off
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The input holds `tokens` [B,N] (i64). The output holds `logits` [B,N,V] and `loss` [], the mean cross-entropy of the
next token over positions 0 to N−2.

Examples:
  energyrun logits --checkpoint runs/nag-30m-256 --tokens in.safetensors --output out.safetensors")]
pub struct Args {
    /// A checkpoint, or a run, whose newest one is taken
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,
    #[arg(long, value_name = "IN.safetensors")]
    tokens: PathBuf,
    #[arg(long, value_name = "OUT.safetensors")]
    output: PathBuf,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    match logits(args) {
        Ok(text) => Outcome::good(text),
        Err(refusal) => refusal.outcome(color),
    }
}

fn logits(args: &Args) -> Result<String, Refusal> {
    let in_file = |error: String| format!("{}: {error}", args.tokens.display());
    let bytes = std::fs::read(&args.tokens).map_err(|error| in_file(error.to_string()))?;
    let given = tensors::read_whole_numbers(&bytes, "tokens").map_err(in_file)?;
    let model = load(&args.checkpoint)?;
    let config = &model.gpt.config;
    let [batch, length] = given.shape[..] else {
        return Err(in_file(format!("`tokens` has the shape {:?}; it has to be [B,N]", given.shape)).into());
    };
    if batch == 0 || length < 2 || length > config.window {
        let why = format!("B has to be at least 1, and N from 2 to the model's window of {}", config.window);
        return Err(in_file(format!("`tokens` has the shape {:?}; {why}", given.shape)).into());
    }
    let known = 0..config.vocabulary as i64;
    if let Some(token) = given.data.iter().find(|token| !known.contains(token)) {
        return Err(
            in_file(format!("`tokens` has a {token}; the model knows tokens from 0 to {}", known.end - 1)).into()
        );
    }
    let tokens: Vec<u16> = given.data.iter().map(|token| *token as u16).collect();
    let next = |i: usize| if i % length + 1 < length { i32::from(tokens[i + 1]) } else { NONE };
    let targets: Vec<i32> = (0..tokens.len()).map(next).collect();
    let mut tape = Tape::default();
    let input = Input { batch, length, tokens: &tokens, lengths: None, documents: None };
    model.gpt.forward(&model.weights, &input, None, &mut tape);
    let loss = model.gpt.loss(&model.weights, &targets, &mut tape, None).mean();
    let logits = model.gpt.logits(&model.weights, 0..tokens.len(), &tape);
    let results = BTreeMap::from([
        ("logits".to_string(), Tensor { shape: vec![batch, length, config.vocabulary], data: logits }),
        ("loss".to_string(), Tensor { shape: vec![], data: vec![loss as f32] }),
    ]);
    let cannot = |error: String| format!("cannot write `{}`: {error}", args.output.display());
    let bytes = tensors::write(&results).map_err(cannot)?;
    atomic::write(&args.output, bytes).map_err(|error| cannot(error.to_string()))?;
    Ok(format!("{}: loss {loss:.6} over {} positions\n", args.output.display(), batch * (length - 1)))
}
