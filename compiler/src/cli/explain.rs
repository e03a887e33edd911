//! `energyc explain`: what a code means, at length.

use crate::diagnostic::{Code, nearest};

use super::outcome::Outcome;
use super::table::table;

/// Explain a code such as E0201, or list all codes
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    energyc explain E0201\n  \
    energyc explain")]
pub struct Args {
    /// The code of a message
    #[arg(value_name = "CODE", value_parser = parse)]
    code: Option<Code>,
}

pub fn run(args: &Args) -> Outcome {
    Outcome::good(match args.code {
        Some(code) => code.explanation(),
        None => all(),
    })
}

fn parse(text: &str) -> Result<Code, String> {
    Code::parse(text).ok_or_else(|| {
        let codes = Code::ALL.iter().map(|code| code.as_str());
        match nearest(text, codes) {
            Some(code) => format!("no such code; did you mean `{code}`?"),
            None => "no such code; `energyc explain` lists them all".to_string(),
        }
    })
}

fn all() -> String {
    let row = |code: &Code| [code.as_str().to_string(), code.title().to_string()];
    let rows: Vec<[String; 2]> = Code::ALL.iter().map(row).collect();
    table(&rows, 0)
}
