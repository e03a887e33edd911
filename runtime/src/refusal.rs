//! Why something is not done: an input is wrong, or a recipe has no plan that can be trusted, which may be the compiler's
//! own mistake and ends with an exit code of its own.

use energyc::cli::fault;
use energyc::cli::outcome::{Outcome, message};
use energyc::plan::Unsupported;
use std::fmt;

#[derive(Clone, PartialEq, Debug)]
pub enum Refusal {
    /// A file, a choice or a setting is wrong.
    Wrong(String),
    /// There is no plan of the recipe of this name.
    NoPlan(String, Unsupported),
}

impl Refusal {
    /// What a command that refuses says, and how it ends.
    pub fn outcome(&self, color: bool) -> Outcome {
        match self {
            Refusal::Wrong(wrong) => Outcome::wrong(message("error", wrong, color)),
            Refusal::NoPlan(recipe, why) => fault::refused(recipe, why, color),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Refusal::Wrong(wrong) => write!(f, "{wrong}"),
            Refusal::NoPlan(recipe, why) => write!(f, "`{recipe}` cannot be run: {why}"),
        }
    }
}

impl From<String> for Refusal {
    fn from(wrong: String) -> Refusal {
        Refusal::Wrong(wrong)
    }
}

impl From<Refusal> for String {
    fn from(refusal: Refusal) -> String {
        refusal.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use energyc::cli::outcome::Exit;

    #[test]
    fn our_own_mistakes_have_an_exit_code_of_their_own() {
        let fault = Refusal::NoPlan("mine".to_string(), Unsupported::Fault("∂q: entry 0 is 1, expected 2".to_string()));
        let outcome = fault.outcome(false);
        assert_eq!(outcome.exit, Exit::Internal);
        assert!(outcome.messages.contains("please report it") && outcome.messages.contains("entry 0"), "{outcome:?}");
        assert_eq!(Refusal::from("no such file".to_string()).outcome(false).exit, Exit::Wrong);
    }
}
