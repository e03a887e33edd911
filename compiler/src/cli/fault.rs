//! What the compiler says of its own mistakes: a plan that does not compute what the formulas say is refused.

use crate::diagnostic::{Code, Diagnostic};
use crate::plan::Unsupported;
use crate::span::Source;

use super::outcome::{Exit, Outcome, message};

/// Why a recipe has no kernel: it asks for what no kernel can do, or the compiler is at fault.
pub fn refused(recipe: &str, why: &Unsupported, color: bool) -> Outcome {
    match why {
        Unsupported::Formula(why) => {
            Outcome::wrong(message("error", &format!("`{recipe}` has no kernel: {why}"), color))
        }
        Unsupported::Fault(what) => fault(recipe, what, color),
    }
}

/// A plan that disagrees with its formulas.
pub fn fault(recipe: &str, what: &str, color: bool) -> Outcome {
    let diagnostic = Diagnostic::new(Code::PlanDisagrees, format!("the plan of `{recipe}` cannot be trusted"))
        .note(what.to_string())
        .note("this is a mistake of the compiler, not of the recipe; the recipe is refused")
        .help("please report it, with the text of the recipe and the output of `energyc verify`");
    Outcome { exit: Exit::Internal, ..Outcome::of_diagnostics(&[diagnostic], &Source::new(recipe, ""), color) }
}
