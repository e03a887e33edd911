//! Multiplied-out forms: two ways to write a polynomial meet there, also inside weights and functions.

use crate::ir::{Expr, traverse};
use crate::simplify::expand::{Extent, expand};
use crate::simplify::proof::Lemma;
use crate::simplify::{Proof, RuleSet};

/// Rounds after which a term counts as settled.
const MAX_ROUNDS: usize = 4;

/// The proof from a term to its multiplied-out form.
pub fn canonical(e: &Expr, rules: &RuleSet) -> Proof {
    let mut lemmas = Vec::new();
    let mut end = e.clone();
    for _ in 0..MAX_ROUNDS {
        let next = round(&end, rules, &mut lemmas);
        if next == end {
            break;
        }
        end = next;
    }
    Proof::from_lemmas(e, lemmas)
}

/// Every subterm, inside out; a subterm that would grow too large stays.
fn round(e: &Expr, rules: &RuleSet, lemmas: &mut Vec<Lemma>) -> Expr {
    let inside = traverse::map_children(e, |x| round(x, rules, lemmas));
    match expand(&inside, rules, Extent::Expand) {
        Some((end, steps)) if !steps.is_empty() => {
            lemmas.push(Lemma { start: inside, steps, end: end.clone() });
            end
        }
        _ => inside,
    }
}
