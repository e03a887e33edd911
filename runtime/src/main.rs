//! The `energyrun` command: arguments in, exit code out.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    energy_runtime::cli::run(energy_runtime::cli::Args::parse())
}
