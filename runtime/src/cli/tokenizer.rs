//! `energyrun tokenizer`: learn a tokenizer from texts.

use super::prepare::bar;
use crate::data::read::{How, sizes};
use crate::data::train_tokenizer::train_on_files;
use energyc::cli::atomic;
use energyc::cli::outcome::{Outcome, message};
use std::path::PathBuf;
use std::time::Instant;

/// Learn a byte-level BPE tokenizer from files of text
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Inputs are those of `energyrun prepare`. The same files give the same tokenizer; `<|endoftext|>` ends a document.

Examples:
  energyrun tokenizer --vocabulary 4096 --output tokenizer.json corpus.jsonl.gz
  energyrun prepare corpus.jsonl.gz --tokenizer tokenizer.json --output tokens")]
pub struct Args {
    /// Files of text
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    /// How many entries: 257 to 65536
    #[arg(long, value_name = "N")]
    vocabulary: usize,
    /// Where the tokenizer goes
    #[arg(long, value_name = "tokenizer.json")]
    output: PathBuf,
    /// Where the text is in a parquet file or a JSON object
    #[arg(long, value_name = "NAME", default_value = "text")]
    field: String,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    match learn(args) {
        Ok(results) => Outcome::good(results),
        Err(wrong) => Outcome::wrong(message("error", &wrong, color)),
    }
}

fn learn(args: &Args) -> Result<String, String> {
    let start = Instant::now();
    let bar = bar(sizes(&args.inputs)?);
    let how = How { field: args.field.clone(), ..How::default() };
    let learned = train_on_files(args.vocabulary, &args.inputs, &how, &bar);
    bar.finish_and_clear();
    let (json, entries) = learned?;
    let path = args.output.display();
    atomic::write(&args.output, json).map_err(|error| format!("cannot write `{path}`: {error}"))?;
    Ok(format!("{path}: {entries} entries, {:.1} s\n", start.elapsed().as_secs_f64()))
}
