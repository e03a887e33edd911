//! Optimizer programs, up to the names of their states.

use super::Equivalence;
use super::matching::rename_inputs;
use super::numbers;
use crate::check::inputs;
use crate::check::recipe::Recipe;
use crate::ir::{Expr, Leaf};
use crate::simplify::{Options, simplify};

/// Whether two programs do the same; otherwise the answer for the recipes.
pub fn same(a: &Recipe, b: &Recipe, options: &Options) -> Result<(), Equivalence> {
    let (p, q) = (&a.program, &b.program);
    let count = |what: &str, x: usize, y: usize| match x == y {
        true => Ok(()),
        false => Err(Equivalence::Differ {
            evidence: format!("the optimizer of `{}` has {x} {what}, that of `{}` {y}", a.name, b.name),
        }),
    };
    count("gradients", p.gradients.len(), q.gradients.len())?;
    count("states", p.states.len(), q.states.len())?;
    for (what, x, y) in terms(a).into_iter().zip(terms(b)).map(|((what, x), (_, y))| (what, x, y)) {
        if x == y || simplify(&x, options).term == simplify(&y, options).term {
            continue;
        }
        return Err(match numbers::difference(&format!("the optimizer's {what} "), &x, &y, &[]) {
            Ok(Some(evidence)) => Equivalence::Differ { evidence },
            Ok(None) => Equivalence::Unknown {
                reason: format!("the optimizers' {what} agree in numbers, but no proof was found"),
            },
            Err(reason) => Equivalence::Unknown { reason },
        });
    }
    Ok(())
}

/// The terms of a program, its states and gradients numbered instead of named.
fn terms(recipe: &Recipe) -> Vec<(String, Expr)> {
    let program = &recipe.program;
    let numbered = |leaf: &Leaf, name: String| (leaf.clone(), Leaf { name: name.into(), ..leaf.clone() });
    let states = program.states.iter().enumerate().map(|(i, s)| numbered(&s.leaf, format!("state {i}")));
    let gradients = (0..program.gradients.len()).map(|i| numbered(&inputs::gradient(i), format!("gradient {i}")));
    let renaming: Vec<(Leaf, Leaf)> = states.chain(gradients).collect();
    let starts = program.states.iter().map(|s| ("first state".to_string(), &s.init));
    let points = program.gradients.iter().map(|e| ("point of a gradient".to_string(), e));
    let nexts = program.next_states.iter().map(|e| ("next state".to_string(), e));
    let all = std::iter::once(("next token".to_string(), &program.z)).chain(starts).chain(points).chain(nexts);
    all.map(|(what, e)| (what, rename_inputs(e, &renaming))).collect()
}
