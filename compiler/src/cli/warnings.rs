//! What a reader of simplified formulas should know: that a simpler one may exist, or that one was refused.

use crate::diagnostic::{Code, Diagnostic};
use crate::simplify::{Options, Simplified};
use crate::span::Source;

use super::outcome::{Outcome, message};

/// Warnings about some simplifications, each with the name of what was simplified.
pub fn warnings<'a>(
    simplified: impl IntoIterator<Item = (&'a str, &'a Simplified)>,
    file: &str,
    color: bool,
) -> Outcome {
    let mut limited: Vec<&str> = Vec::new();
    let mut refused = String::new();
    for (name, value) in simplified {
        limited.extend(value.hit_limit.then_some(name));
        for reason in &value.rejected {
            let text = format!("a simplification of {name} was rejected, the form before it is kept: {reason}");
            refused.push_str(&message("warning", &text, color));
        }
    }
    let diagnostic = (!limited.is_empty()).then(|| {
        let text = format!("the simplifier reached its limit: {}", limited.join(", "));
        Diagnostic::new(Code::SimplifierLimit, text).note("the formulas are right, but simpler ones may exist")
    });
    let diagnostics: Vec<Diagnostic> = diagnostic.into_iter().collect();
    let said = Outcome::of_diagnostics(&diagnostics, &Source::new(file, ""), color);
    Outcome { messages: said.messages + &refused, ..said }
}

/// The warning that not everything was simplified, if that is so.
pub fn of_budget(options: &Options, file: &str, color: bool) -> Outcome {
    let text = "the simplifier spent its budget";
    let warning = Diagnostic::new(Code::SimplifierLimit, text).note("the result is right, but a simpler one may exist");
    let diagnostics: Vec<Diagnostic> = options.budget.has_refused().then_some(warning).into_iter().collect();
    Outcome::of_diagnostics(&diagnostics, &Source::new(file, ""), color)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Expr;
    use crate::simplify::Proof;

    #[test]
    fn limits_and_refusals_are_said_and_nothing_else() {
        let value = |hit_limit, rejected: &[&str]| Simplified {
            term: Expr::one(),
            proof: Proof::trivial(&Expr::one()),
            hit_limit,
            rejected: rejected.iter().map(|reason| reason.to_string()).collect(),
        };
        let (fine, limited, refused) = (value(false, &[]), value(true, &[]), value(false, &["no proof"]));
        assert_eq!(warnings([("a", &fine)], "f", false), Outcome::default());
        let said = warnings([("a", &limited), ("b", &refused)], "f", false);
        assert!(said.messages.contains("warning[W0001]: the simplifier reached its limit: a\n"), "{}", said.messages);
        assert!(said.messages.ends_with("rejected, the form before it is kept: no proof\n"), "{}", said.messages);
    }
}
