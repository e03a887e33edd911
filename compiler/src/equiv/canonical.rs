//! Multiplied-out forms: two ways to write a polynomial meet there, also inside weights and functions.

use crate::ir::memo::Memo;
use crate::ir::{Expr, traverse};
use crate::simplify::expand::{Extent, expand};
use crate::simplify::proof::Lemma;
use crate::simplify::{Options, Proof};

/// Rounds after which a term counts as settled.
const MAX_ROUNDS: usize = 4;

/// The proof from a term to its multiplied-out form, as far as the budget goes.
pub fn canonical(e: &Expr, options: &Options) -> Proof {
    let mut lemmas = Vec::new();
    let mut end = e.clone();
    for _ in 0..MAX_ROUNDS {
        let next = round(&end, options, &mut lemmas, &mut Memo::default());
        if next == end {
            break;
        }
        end = next;
    }
    Proof::from_lemmas(e, &lemmas)
}

/// Every subterm, inside out; a subterm that would grow too large stays.
fn round(e: &Expr, options: &Options, lemmas: &mut Vec<Lemma>, done: &mut Memo<Expr>) -> Expr {
    if let Some(end) = done.get(e) {
        return end.clone();
    }
    let inside = traverse::map_children(e, |x| round(x, options, lemmas, done));
    let expanded = (!options.budget.is_spent())
        .then(|| expand(&inside, &options.rules, Extent::Expand, &options.budget))
        .flatten();
    let end = match expanded {
        Some((end, steps)) if !steps.is_empty() => {
            lemmas.push(Lemma { start: inside, steps, end: end.clone() });
            end
        }
        _ => inside,
    };
    done.insert(e.clone(), end.clone());
    end
}
