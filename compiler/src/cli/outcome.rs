//! What a subcommand comes to, as a value: results for stdout, messages for stderr, an exit code. A fault of the program
//! itself is such a value too, so that one file's fault never takes the reports of other files with it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::ValueEnum;

use crate::diagnostic::{Diagnostic, render_all};
use crate::span::Source;

/// The worst decides: the order matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Exit {
    #[default]
    Good = 0,
    /// The recipe, a claim about it, or a file is wrong.
    Wrong = 1,
    /// The command was asked for something that makes no sense.
    Usage = 2,
    /// The program itself is at fault.
    Internal = 3,
}

/// Who reads the results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// Unicode, for reading
    Text,
    /// For other programs
    Json,
}

/// Results, messages, exit code.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    pub results: String,
    pub messages: String,
    pub exit: Exit,
}

impl Outcome {
    /// Only results.
    pub fn good(results: String) -> Outcome {
        Outcome { results, ..Outcome::default() }
    }

    /// Only a message, and a failure.
    pub fn wrong(messages: String) -> Outcome {
        Outcome { messages, exit: Exit::Wrong, ..Outcome::default() }
    }

    /// What the work on something comes to, a panic included.
    pub fn guarded(about: &str, color: bool, work: impl FnOnce() -> Outcome) -> Outcome {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Outcome::internal(about, &*panic, color))
    }

    /// What a panic comes to.
    pub fn internal(about: &str, panic: &(dyn Any + Send), color: bool) -> Outcome {
        let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let text = format!("internal error, please report it with `{about}`: {}", said.unwrap_or("no reason given"));
        Outcome { messages: message("error", &text, color), exit: Exit::Internal, ..Outcome::default() }
    }

    /// What diagnostics come to: an error is a failure.
    pub fn of_diagnostics(diagnostics: &[Diagnostic], source: &Source, color: bool) -> Outcome {
        let is_wrong = diagnostics.iter().any(Diagnostic::is_error);
        Outcome {
            messages: render_all(diagnostics, source, color),
            exit: if is_wrong { Exit::Wrong } else { Exit::Good },
            ..Outcome::default()
        }
    }

    /// One after the other.
    pub fn then(mut self, next: Outcome) -> Outcome {
        self.results.push_str(&next.results);
        self.messages.push_str(&next.messages);
        self.exit = self.exit.max(next.exit);
        self
    }
}

/// `warning: text`, for what has no place in a file.
pub fn message(level: &str, text: &str, color: bool) -> String {
    let (start, end) = match (color, level) {
        (false, _) => ("", ""),
        (true, "error") => ("\u{1b}[1;31m", "\u{1b}[0m"),
        (true, _) => ("\u{1b}[1;33m", "\u{1b}[0m"),
    };
    format!("{start}{level}{end}: {text}\n")
}

/// `1 file`, `2 files`.
pub fn count(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_reported_and_the_others_go_on() {
        let files = ["a", "b", "c"].map(|file| {
            Outcome::guarded(file, false, || match file {
                "b" => panic!("no such {file}"),
                _ => Outcome::good(format!("{file} is fine\n")),
            })
        });
        let all = files.into_iter().fold(Outcome::default(), Outcome::then);
        assert_eq!(all.results, "a is fine\nc is fine\n");
        assert_eq!(all.messages, "error: internal error, please report it with `b`: no such b\n");
        assert_eq!(all.exit, Exit::Internal);
    }
}
