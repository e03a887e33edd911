//! Equivalence: do two recipes induce the same update rule?
//!
//! Parameters are matched first, so that both rules are written over the same inputs. Then everything a layer does is
//! compared: how values are written back, the optimizer's program, the steps, and the direction. A direction is proven
//! equal by a proof from one unsimplified direction to the other, or decided to be equal with exponentials as variables,
//! shown different by numbers, or left open.

mod canonical;
mod direction;
mod exponentials;
mod matching;
mod numbers;
mod program;
mod quotient;
mod reverse;

pub use matching::Matched;

use crate::check::recipe::{Constraint, Recipe, Tokens, Values, WriteBack};
use crate::simplify::{Options, Proof};

/// The answer.
#[derive(Clone, Debug)]
pub enum Equivalence {
    /// From the first recipe's unsimplified direction to the second's, names revealed.
    Proven { proof: Proof, notes: Vec<String> },
    /// Equal as rational functions of exponentials: the substitutions that show it.
    Decided { substitutions: Vec<String>, notes: Vec<String> },
    /// What shows that they differ.
    Differ { evidence: String },
    /// Neither proven nor refuted.
    Unknown { reason: String },
}

/// Compares two recipes.
pub fn equivalence(a: &Recipe, b: &Recipe, options: &Options) -> Equivalence {
    let Matched { a, b, mut notes } = matching::matched(a, b);
    if let Some(evidence) = written_differently(&a, &b) {
        return Equivalence::Differ { evidence };
    }
    if let Err(answer) = program::same(&a, &b, options) {
        return answer;
    }
    notes.extend(constraint_notes(&a, &b));
    direction::compare(&a, &b, options, notes)
}

/// What sets the layers apart before any formula does.
fn written_differently(a: &Recipe, b: &Recipe) -> Option<String> {
    let values = |r: &Recipe| match r.values {
        Values::Free => "has free values",
        Values::Tied => "has tied values",
    };
    let write_back = |r: &Recipe| match r.write_back {
        WriteBack::Transpose => "writes back with W1ᵀ",
        WriteBack::Pinv => "writes back with W1⁺",
        WriteBack::Free => "writes back with W_O",
        WriteBack::FreePinv => "writes back with W_O W_V W1⁺",
    };
    let tokens = |r: &Recipe| match r.tokens {
        Tokens::Fixed => "keeps the attended tokens fixed",
        Tokens::Evolve => "lets the attended tokens evolve",
    };
    if a.values != b.values {
        return Some(format!("`{}` {}, `{}` {}", a.name, values(a), b.name, values(b)));
    }
    if a.write_back != b.write_back {
        return Some(format!("`{}` {}, `{}` {}", a.name, write_back(a), b.name, write_back(b)));
    }
    if a.steps != b.steps {
        return Some(format!("`{}` takes {} steps, `{}` {}", a.name, a.steps, b.name, b.steps));
    }
    if a.steps > 1 && a.tokens != b.tokens {
        return Some(format!("`{}` {}, `{}` {}", a.name, tokens(a), b.name, tokens(b)));
    }
    let other = |x: &Constraint| b.constraints.iter().find(|y| y.vector.same_input(&x.vector) && y.radius != x.radius);
    a.constraints.iter().find_map(|x| {
        let (y, vector) = (other(x)?, &x.vector.name);
        Some(format!("`{}` normalizes {vector} to {}, `{}` to {}", a.name, x.radius, b.name, y.radius))
    })
}

/// A constraint is a normalization in the layer; only one side may have it.
fn constraint_notes(a: &Recipe, b: &Recipe) -> Vec<String> {
    let norms = |r: &Recipe| {
        let parts: Vec<String> = r.constraints.iter().map(|c| format!("‖{}‖ = {}", c.vector.name, c.radius)).collect();
        parts.join(", ")
    };
    let one_sided = |with: &Recipe, without: &Recipe| {
        let same = without.constraints == with.constraints;
        (!with.constraints.is_empty() && !same).then(|| {
            let (name, norms) = (&with.name, norms(with));
            format!("`{name}` normalizes in the layer ({norms}): the rules agree for q and k normalized so")
        })
    };
    one_sided(a, b).into_iter().chain(one_sided(b, a)).collect()
}
