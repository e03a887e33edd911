//! The command line: arguments in, an exit code out. Each subcommand is a file with its arguments, its help and a
//! function that returns an `Outcome`; only this module prints, so a closed pipe is handled in one place.

mod analyze;
pub mod atomic;
mod check;
mod compile;
mod completions;
mod cost;
mod derive;
mod equiv;
mod explain;
pub mod fault;
mod fmt;
mod list;
mod new;
pub mod outcome;
pub mod read;
pub mod shipped;
mod skips;
mod table;
pub mod verify;
mod warnings;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use outcome::{Exit, Outcome, message};

/// Large enough for the deepest term the limits of the earlier stages let through.
const STACK_BYTES: usize = 256 << 20;

/// A compiler from energies to attention layers.
#[derive(Parser, Debug)]
#[command(
    name = "energyc",
    version,
    arg_required_else_help = true,
    after_help = "A FILE that does not exist but names a shipped recipe means that recipe; `-` is standard input.\n\
                  Exit codes: 0 all is well, 1 the recipe is wrong, 2 wrong usage, 3 an internal error.\n\n\
                  Examples:\n  energyc list\n  energyc derive softmax\n  energyc new mine && energyc verify mine.recipe"
)]
pub struct Args {
    /// When to color messages
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: Color,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, PartialEq, Debug, ValueEnum)]
pub enum Color {
    /// If messages go to a terminal and NO_COLOR is not set
    Auto,
    Always,
    Never,
}

#[derive(Subcommand, Debug)]
enum Command {
    Check(check::Args),
    Compile(compile::Args),
    Derive(derive::Args),
    Verify(verify::Args),
    Analyze(analyze::Args),
    Equiv(equiv::Args),
    Cost(cost::Args),
    Skips(skips::Args),
    Fmt(fmt::Args),
    List(list::Args),
    New(new::Args),
    Explain(explain::Args),
    Completions(completions::Args),
}

/// Runs a command and prints what it has to say.
pub fn run(args: Args) -> ExitCode {
    run_program("energyc", args.color, move |color| outcome_of(&args.command, color))
}

/// Does a program's work, which is told whether to use color, and prints what it has to say.
pub fn run_program(name: &str, color: Color, work: impl FnOnce(bool) -> Outcome + Send + 'static) -> ExitCode {
    let color = use_color(color);
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || work(color));
    let outcome = match worker.map(std::thread::JoinHandle::join) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => Outcome::internal(name, &*panic, color),
        Err(error) => return failed(&format!("no thread to work on: {error}"), color),
    };
    // Messages first: a reader who closed the results still sees them.
    let _ = io::stderr().lock().write_all(outcome.messages.as_bytes());
    match print(&outcome.results) {
        Ok(()) => ExitCode::from(outcome.exit as u8),
        Err(error) => {
            failed(&format!("cannot write the results: {error}"), color);
            ExitCode::FAILURE
        }
    }
}

fn outcome_of(command: &Command, color: bool) -> Outcome {
    match command {
        Command::Check(args) => check::run(args, color),
        Command::Compile(args) => compile::run(args, color),
        Command::Derive(args) => derive::run(args, color),
        Command::Verify(args) => verify::run(args, color),
        Command::Analyze(args) => analyze::run(args, color),
        Command::Equiv(args) => equiv::run(args, color),
        Command::Cost(args) => cost::run(args, color),
        Command::Skips(args) => skips::run(args, color),
        Command::Fmt(args) => fmt::run(args, color),
        Command::List(args) => list::run(args),
        Command::New(args) => new::run(args, color),
        Command::Explain(args) => explain::run(args),
        Command::Completions(args) => completions::run(args),
    }
}

fn use_color(color: Color) -> bool {
    match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            !refused && io::stderr().is_terminal()
        }
    }
}

/// Writes the results; a reader that has seen enough is no error.
fn print(results: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(results.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn failed(text: &str, color: bool) -> ExitCode {
    let text = message("error", text, color);
    let _ = io::stderr().lock().write_all(text.as_bytes());
    ExitCode::from(Exit::Internal as u8)
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
            assert!(help.contains("Examples:\n  energyc "), "{help}");
            assert!(sub.get_about().is_some(), "{}", sub.get_name());
        }
    }
}
