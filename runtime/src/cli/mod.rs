//! The command line: arguments in, an exit code out. Each subcommand is a file with its arguments, its help and a
//! function that returns an `Outcome`.

mod apply;
mod bench;
mod experiment;
mod generate;
mod glue;
mod logits;
mod plot;
mod prepare;
mod pretrain;
mod quickstart;
mod tokenizer;
mod verify;

use clap::{Parser, Subcommand};
use energyc::cli::outcome::Outcome;
use energyc::cli::{Color, run_program};
use std::process::ExitCode;

/// Runs the attention layers that energyc derives.
#[derive(Parser, Debug)]
#[command(
    name = "energyrun",
    version,
    arg_required_else_help = true,
    after_help = "A recipe FILE that does not exist but names a shipped recipe means that recipe.\n\
                  Exit codes: 0 all is well, 1 the recipe or an input is wrong, 2 wrong usage, 3 an internal error.\n\n\
                  Examples:\n  energyrun apply --recipe softmax --input in.safetensors --output out.safetensors"
)]
pub struct Args {
    /// When to color messages
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: Color,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Quickstart(quickstart::Args),
    Prepare(prepare::Args),
    Tokenizer(tokenizer::Args),
    Pretrain(pretrain::Args),
    Experiment(experiment::Args),
    Plot(plot::Args),
    Generate(generate::Args),
    Logits(logits::Args),
    Glue(glue::Args),
    Verify(verify::Args),
    Apply(apply::Args),
    Bench(bench::Args),
}

/// Runs a command and prints what it has to say.
pub fn run(args: Args) -> ExitCode {
    run_program("energyrun", args.color, move |color| outcome_of(&args.command, color))
}

fn outcome_of(command: &Command, color: bool) -> Outcome {
    match command {
        Command::Quickstart(args) => quickstart::run(args, color),
        Command::Prepare(args) => prepare::run(args, color),
        Command::Tokenizer(args) => tokenizer::run(args, color),
        Command::Pretrain(args) => pretrain::run(args, color),
        Command::Experiment(args) => experiment::run(args, color),
        Command::Plot(args) => plot::run(args, color),
        Command::Generate(args) => generate::run(args, color),
        Command::Logits(args) => logits::run(args, color),
        Command::Glue(args) => glue::run(args, color),
        Command::Verify(args) => verify::run(args, color),
        Command::Apply(args) => apply::run(args, color),
        Command::Bench(args) => bench::run(args, color),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent_and_every_subcommand_shows_an_example() {
        let command = Args::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands() {
            let help = sub.clone().render_long_help().to_string();
            assert!(help.contains("Examples:\n  energyrun "), "{help}");
            assert!(sub.get_about().is_some(), "{}", sub.get_name());
        }
    }
}
