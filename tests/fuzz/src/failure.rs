//! What can go wrong with a recipe, and how two failures are recognized as the same.

use std::fmt;

#[derive(Clone, PartialEq, Debug)]
pub enum Failure {
    /// The compiler panicked.
    Panic { stage: String, message: String, location: String },
    /// A number is not what it should be.
    Wrong { engine: String, output: String, detail: String },
    /// A source that rustc refuses.
    Refused { engine: String, detail: String },
    /// The process died.
    Crash { how: String },
    /// A promise of a command that does not hold.
    Broken { command: String, detail: String },
}

impl Failure {
    /// Failures with one kind are taken to have one cause.
    pub fn kind(&self) -> String {
        match self {
            Failure::Panic { stage, location, .. } => format!("panic in {stage} at {location}"),
            Failure::Wrong { engine, output, .. } => format!("wrong {} ({engine})", class(output)),
            Failure::Refused { engine, detail } => format!("refused by rustc ({engine}): {}", first_line(detail)),
            Failure::Crash { how } => format!("crash: {how}"),
            Failure::Broken { command, detail } => format!("{command}: {}", first_line(detail)),
        }
    }
}

/// Gradients of one loss are one kind of output, whatever they are gradients of.
fn class(output: &str) -> &str {
    let at = output.find('∂').map(|at| at + '∂'.len_utf8());
    at.map_or(output, |at| &output[..at])
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Failure::Panic { message, .. } => write!(f, "{}: {message}", self.kind()),
            Failure::Wrong { engine, output, detail } => write!(f, "wrong {output} ({engine}): {detail}"),
            Failure::Refused { engine, detail } => write!(f, "refused by rustc ({engine}): {detail}"),
            Failure::Crash { .. } => write!(f, "{}", self.kind()),
            Failure::Broken { command, detail } => write!(f, "{command}: {detail}"),
        }
    }
}
