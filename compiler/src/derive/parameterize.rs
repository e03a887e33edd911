//! Free values: the attended token in the vector part becomes v = W_V h.
//!
//! In a force Σ_i w_i·f(q, k_i), an occurrence of k whose component axis is the output's axis is part of the vector
//! and becomes v; k under a sum over components is part of a score and stays.

use crate::check::inputs;
use crate::ir::{Axis, Expr, Leaf, traverse};

/// The direction with v in its vector part.
pub fn free_values(direction: &Expr) -> Expr {
    let k = inputs::k();
    traverse::substitute_leaves(direction, &mut |leaf: &Leaf| {
        let in_vector_part = leaf.same_input(&k) && leaf.axes.contains(&Axis::E);
        in_vector_part.then(|| Expr::leaf(Leaf { axes: leaf.axes.clone(), ..inputs::v() }))
    })
}

/// Whether any attended token stands in the vector part at all.
pub fn vector_part(direction: &Expr) -> bool {
    free_values(direction) != *direction
}
