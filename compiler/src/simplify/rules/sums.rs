//! Σ: linearity, hoisting, order.

use super::{Condition::*, Row, Use::*};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    ("sum-of-sum",  "(sum ?i (+ ?a ?b))",           "(+ (sum ?i ?a) (sum ?i ?b))", &[], Expand),
    ("sum-merge",   "(+ (sum ?i ?a) (sum ?i ?b))",  "(sum ?i (+ ?a ?b))",          &[], Search),
    ("sum-hoist",   "(sum ?i (* ?a ?b))",           "(* ?a (sum ?i ?b))",          &[Free("?a", "?i")], Everywhere),
    ("sum-absorb",  "(* ?a (sum ?i ?b))",           "(sum ?i (* ?a ?b))",          &[Free("?a", "?i"), Extended("?a")], Search),
    ("sum-swap",    "(sum ?i (sum ?j ?a))",         "(sum ?j (sum ?i ?a))",        &[Independent("?i", "?j")], Search),
    ("sum-to-one",  "(sum ?i ?p)",                  "1",                           &[Normalized("?p", "?i")], Everywhere),
];
