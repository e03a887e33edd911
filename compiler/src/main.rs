//! The `energyc` command: arguments in, exit code out.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    energyc::cli::run(energyc::cli::Args::parse())
}
