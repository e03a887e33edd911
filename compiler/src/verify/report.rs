//! What verification says: one line a claim, as data and as text.

use super::{kernel, plan, scales};
use std::fmt;

/// How a claim fared.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Pass {
        error: f64,
        tolerance: f64,
    },
    Fail {
        error: f64,
        tolerance: f64,
        where_: String,
    },
    /// The claim does not make sense for this recipe.
    NotApplicable {
        reason: String,
    },
    /// The claim holds, but not as well as it could; the reason says where.
    Warning {
        reason: String,
    },
    /// The claim could not be tried: nothing is known to be wrong, and nothing to be right.
    Inconclusive {
        reason: String,
    },
}

/// One claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub name: &'static str,
    /// What was compared, and on how many samples.
    pub detail: String,
    pub outcome: Outcome,
}

/// Every claim about a recipe.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub lines: Vec<Line>,
}

impl Line {
    pub fn failed(&self) -> bool {
        matches!(self.outcome, Outcome::Fail { .. })
    }
    /// Whether the line is about what runs: a failure there is a mistake of the compiler, not of the recipe.
    pub fn is_of_plan(&self) -> bool {
        [plan::LINE, scales::LINE].contains(&self.name)
            || plan::LINES.contains(&self.name)
            || kernel::LINES.contains(&self.name)
    }
}

impl Report {
    /// Whether no claim failed.
    pub fn passed(&self) -> bool {
        !self.lines.iter().any(Line::failed)
    }
    pub fn line(&self, name: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.name == name)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (name, detail) = (self.name, &self.detail);
        match &self.outcome {
            Outcome::Pass { error, tolerance } => {
                write!(f, "pass  {name:<15} {error:>8.1e} ≤ {tolerance:.0e}  {detail}")
            }
            Outcome::Fail { error, tolerance, where_ } => {
                write!(f, "FAIL  {name:<15} {error:>8.1e} > {tolerance:.0e}  {detail}")?;
                write!(f, "\n      {where_}")
            }
            Outcome::NotApplicable { reason } => {
                write!(f, "n/a   {name:<15} {detail}\n      {reason}")
            }
            Outcome::Warning { reason } => {
                write!(f, "!     {name:<15} {detail}\n      {reason}")
            }
            Outcome::Inconclusive { reason } => {
                write!(f, "?     {name:<15} {detail}\n      {reason}")
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
