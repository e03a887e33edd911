//! `energyrun generate`: text from a checkpoint.

use crate::generate::{Sampling, Writer};
use crate::refusal::Refusal;
use crate::train::loaded::load;
use energyc::cli::outcome::Outcome;
use std::io::Write as _;
use std::path::PathBuf;

/// Write text with a trained model
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  energyrun generate --checkpoint runs/nag-30m-256 --prompt \"The first\"
  energyrun generate --checkpoint runs/nag-30m-256 --prompt \"The first\" --temperature 0 --tokens 50")]
pub struct Args {
    /// A checkpoint, or a run, whose newest one is taken
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,
    /// What the text begins with; nothing means the beginning of a document
    #[arg(long, default_value = "")]
    prompt: String,
    /// Tokens to add at most
    #[arg(long, default_value_t = 200)]
    tokens: usize,
    /// Logits are divided by it; 0 takes the most likely token
    #[arg(long, default_value_t = 0.8)]
    temperature: f64,
    /// Choose among so many of the most likely tokens; 0 means all
    #[arg(long, default_value_t = 50)]
    top_k: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Compute every position again for every token
    #[arg(long)]
    no_cache: bool,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    match generate(args) {
        Ok(()) => Outcome::default(),
        Err(refusal) => refusal.outcome(color),
    }
}

fn generate(args: &Args) -> Result<(), Refusal> {
    if !(args.temperature.is_finite() && args.temperature >= 0.0) {
        return Err(format!("a temperature of {} makes no sense", args.temperature).into());
    }
    let model = load(&args.checkpoint)?;
    let tokenizer = model.tokenizer()?;
    let end = tokenizer.end_of_text();
    let mut prompt = tokenizer.encode(&args.prompt)?;
    if prompt.is_empty() {
        prompt.push(end);
    }
    let sampling = Sampling { temperature: args.temperature, most: args.top_k, seed: args.seed };
    let mut writer = Writer::new(&model.gpt, &model.weights, &prompt, sampling, !args.no_cache)?;
    let mut out = std::io::stdout().lock();
    let wrong = |error: std::io::Error| format!("cannot write: {error}");
    write!(out, "{}", args.prompt).map_err(wrong)?;
    // A character may take several tokens: what is not whole yet waits.
    let mut shown = 0;
    for _ in 0..args.tokens {
        if writer.next_token() == end {
            break;
        }
        let text = tokenizer.decode(&writer.tokens[prompt.len()..]);
        if text.ends_with('\u{fffd}') {
            continue;
        }
        let Some(more) = text.get(shown..) else { continue };
        write!(out, "{more}").and_then(|()| out.flush()).map_err(wrong)?;
        shown = text.len();
    }
    Ok(writeln!(out).map_err(wrong)?)
}
