//! Attention dropout: what a head adds when some of its tokens are left out.
//!
//! Every sum over tokens in the direction, and in the vectors it is made of, gets a factor per pair of a query and a
//! token: 0 for a pair that is dropped, 1/(1 − rate) for one that is kept. Weights stay as they are, and so does a system
//! that an optimizer solves. Differentiating that direction gives the backward pass.

use super::{Derivation, Named, unused};
use crate::calculus::Meaning;
use crate::ir::{Axis, Expr, Leaf, Op, Role, Sign, Space, traverse};

/// The factor of a pair.
pub fn kept(derivation: &Derivation, token: Axis) -> Leaf {
    let name = unused("kept", &derivation.recipe);
    Leaf::new(Role::Kept, 0, &name, &[Axis::T, token], Sign::NonNegative)
}

/// The derivation of the direction with dropout.
pub fn with_dropout(derivation: &Derivation) -> Derivation {
    let thin = |e: &Expr| {
        traverse::rewrite_bottom_up(e, &mut |e| match e.op() {
            Op::Sum(axis, body) if axis.space == Space::Token => {
                Expr::sum(*axis, &body.times(&Expr::leaf(kept(derivation, *axis))))
            }
            _ => e,
        })
    };
    let named = |named: &Named| match &named.meaning {
        Meaning::Formula(e) if named.leaf.axes.contains(&Axis::E) => {
            Named { meaning: Meaning::Formula(thin(e)), ..named.clone() }
        }
        _ => named.clone(),
    };
    let mut dropped = derivation.clone();
    dropped.direction.term = thin(&derivation.direction.term);
    dropped.names = derivation.names.iter().map(named).collect();
    dropped
}
