//! The binary as a user runs it, and what came of a run.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The binary of the package that is being tested.
const PROGRAM: &str = match (option_env!("CARGO_BIN_EXE_energyc"), option_env!("CARGO_BIN_EXE_energyrun")) {
    (Some(program), _) | (None, Some(program)) => program,
    (None, None) => panic!("a package with a binary"),
};

/// What came of a run.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Run {
        Run {
            code: output.status.code().expect("no signal ended it"),
            out: String::from_utf8(output.stdout).expect("UTF-8 results"),
            err: String::from_utf8(output.stderr).expect("UTF-8 messages"),
        }
    }
}

impl Run {
    /// The exit code is as expected, and nothing panicked.
    #[track_caller]
    pub fn exits(self, code: i32) -> Run {
        assert_eq!(self.code, code, "{self:#?}");
        assert!(!self.err.contains("panicked"), "{self:#?}");
        self
    }

    #[track_caller]
    pub fn says(self, text: &str) -> Run {
        assert!(self.err.contains(text), "no `{text}` in {self:#?}");
        self
    }

    #[track_caller]
    pub fn prints(self, text: &str) -> Run {
        assert!(self.out.contains(text), "no `{text}` in {self:#?}");
        self
    }
}

pub fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command
}

pub fn run_in(folder: &Path, args: &[&str]) -> Run {
    command(folder, args).output().expect("it starts").into()
}
