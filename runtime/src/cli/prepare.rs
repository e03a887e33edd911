//! `energyrun prepare`: files of text become a folder of tokens.

use crate::data::meta::{Meta, Mode};
use crate::data::prepare::{Task, prepare};
use crate::data::read::{How, sizes};
use crate::data::{Corpus, Tokenizer};
use energyc::cli::outcome::{Outcome, count, message};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Turn files of text into tokens to train with
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Inputs are `.parquet` (a column of texts), `.jsonl` and `.jsonl.gz` (an object a line), `.txt` and `.txt.gz` (a file is
one document, or a line with --lines). Documents keep their order; empty ones are left out.
The folder appears when it is complete. It holds all tokens whatever the mode, and training may choose the other one.

Examples:
  energyrun prepare minipile/data/train-*.parquet --output train
  energyrun prepare corpus.jsonl.gz --field body --tokenizer tokenizer.json --output tokens
  energyrun prepare --check train")]
pub struct Args {
    /// Files of text
    #[arg(value_name = "INPUT", required_unless_present = "check")]
    inputs: Vec<PathBuf>,
    /// The folder to make
    #[arg(long, value_name = "DIR", required_unless_present = "check")]
    output: Option<PathBuf>,
    /// `gpt2`, `bytes` or a tokenizer.json
    #[arg(long, value_name = "WHICH", default_value = "gpt2")]
    tokenizer: String,
    /// How training makes sequences of the documents
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// Where the text is in a parquet file or a JSON object
    #[arg(long, value_name = "NAME", default_value = "text")]
    field: String,
    /// Every line of a `.txt` is a document
    #[arg(long)]
    lines: bool,
    /// Stop after this many documents
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Replace the folder if it exists
    #[arg(long)]
    force: bool,
    /// Read a prepared folder again and compare checksums
    #[arg(long, value_name = "DIR", conflicts_with_all = ["inputs", "output"])]
    check: Option<PathBuf>,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    let done = match (&args.check, &args.output) {
        (Some(folder), _) => check(folder),
        (None, Some(output)) => write(args, output),
        (None, None) => Err("--output is missing".to_string()),
    };
    match done {
        Ok(results) => Outcome::good(results),
        Err(wrong) => Outcome::wrong(message("error", &wrong, color)),
    }
}

fn write(args: &Args, output: &Path) -> Result<String, String> {
    let start = Instant::now();
    let tokenizer = Tokenizer::named(&args.tokenizer)?;
    let bar = bar(sizes(&args.inputs)?);
    let how = How { field: args.field.clone(), lines: args.lines };
    let (limit, force) = (args.limit, args.force);
    let task = Task { inputs: &args.inputs, output, tokenizer: &tokenizer, how, mode: args.mode, limit, force };
    let meta = prepare(&task, &bar);
    bar.finish_and_clear();
    Ok(format!("{}, {:.1} s\n", summary(output, &meta?), start.elapsed().as_secs_f64()))
}

fn check(folder: &Path) -> Result<String, String> {
    let start = Instant::now();
    let corpus = Corpus::open(folder)?;
    corpus.verify()?;
    Ok(format!("{}, checked in {:.1} s\n", summary(folder, corpus.meta()), start.elapsed().as_secs_f64()))
}

/// What is in a folder, on one line.
fn summary(folder: &Path, meta: &Meta) -> String {
    let Meta { documents, tokens, vocabulary, empty, .. } = meta;
    let mean = *tokens as f64 / *documents as f64;
    let left_out = if *empty > 0 { format!(" ({empty} empty left out)") } else { String::new() };
    let documents = count(*documents as usize, "document");
    let bytes = tokens * 2 + (meta.documents + 1) * 8;
    let what = format!("{documents}{left_out}, {tokens} tokens, {mean:.1} tokens/document");
    format!("{}: {what}, vocabulary {vocabulary}, {bytes} bytes", folder.display())
}

/// Shows how much of the inputs is read.
pub(super) fn bar(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left");
    ProgressBar::new(bytes).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
