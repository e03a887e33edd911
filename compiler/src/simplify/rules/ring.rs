//! Sums and products. Order and grouping are the normal form's business, so those rows are silent.
//!
//! Chains nest to the right: reordering brings any member to the front, and nothing nests to the left, which keeps the
//! e-graph at n·2ⁿ nodes for a chain of n instead of 3ⁿ.

use super::{Condition::*, Row, Use::*};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    ("add-commutes",   "(+ ?a ?b)",              "(+ ?b ?a)",                           &[NotSum("?b")], Silent),
    ("add-associates", "(+ (+ ?a ?b) ?c)",       "(+ ?a (+ ?b ?c))",                    &[], Silent),
    ("add-reorders",   "(+ ?a (+ ?b ?c))",       "(+ ?b (+ ?a ?c))",                    &[], Silent),
    ("mul-commutes",   "(* ?a ?b)",              "(* ?b ?a)",                           &[NotProduct("?b")], Silent),
    ("mul-associates", "(* (* ?a ?b) ?c)",       "(* ?a (* ?b ?c))",                    &[], Silent),
    ("mul-reorders",   "(* ?a (* ?b ?c))",       "(* ?b (* ?a ?c))",                    &[], Silent),
    ("mul-one",        "(* 1 ?a)",               "?a",                                  &[], Silent),
    ("distribute",     "(* ?a (+ ?b ?c))",       "(+ (* ?a ?b) (* ?a ?c))",             &[], Expand),
    ("factor",         "(+ (* ?a ?b) (* ?a ?c))", "(* ?a (+ ?b ?c))",                   &[], Everywhere),
    ("factor-one",     "(+ ?a (* ?a ?b))",       "(* ?a (+ 1 ?b))",                     &[NotConstant("?a")], Search),
    ("clear-quotient", "(* (pow ?c ?r) (pow (+ ?a (* (pow ?c -1) ?b)) ?r))", "(pow (+ (* ?a ?c) ?b) ?r)", &[Positive("?c")], Expand),
    ("square-of-sum",  "(sum ?i (pow (+ ?a ?b) 2))", "(sum ?i (+ (pow ?a 2) (+ (* 2 (* ?a ?b)) (pow ?b 2))))", &[], Expand),
];
