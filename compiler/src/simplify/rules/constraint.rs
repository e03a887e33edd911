//! Assumptions a recipe makes: `constrain norm(q) = rho` becomes the ground rule Σ_e q_e² = ρ².

use super::{Pattern, Rule, Use};
use crate::ir::{Axis, Expr, Leaf};

/// The rule |x|² = radius² for the input `vector`.
pub fn constraint_rules(vector: &Leaf, radius: &Expr) -> Vec<Rule> {
    let square = Expr::sum(Axis::E, &Expr::leaf(vector.clone()).square());
    // The vector may stand at a bound token inside a reduction; index 1 is where the normal form puts it.
    let bound = vector
        .axes
        .iter()
        .find(|a| a.space == crate::ir::Space::Token)
        .map(|&n| crate::ir::traverse::rename(&square, n, Axis::new(n.space, 1)));
    [Some(square), bound]
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(i, left)| Rule {
            name: format!("constraint-{}{}", vector.name, if i == 0 { "" } else { "-bound" }),
            left: Pattern::Ground(left),
            right: Pattern::Ground(radius.square()),
            conditions: vec![],
            usage: Use::Everywhere,
        })
        .collect()
}
