//! Smooth maxima and their weights.

use super::{Condition::*, Row, Use::*};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    ("log-sum-exp",     "(log (sum ?i (exp ?s)))",        "(smoothmax #shannon ?i ?s)",          &[OfTokens("?i")], Search),
    ("log-sum-scaled",  "(log (sum ?i (* ?a (exp ?s))))", "(smoothmax #shannon ?i (+ ?s (log ?a)))", &[Positive("?a"), OfTokens("?i")], Search),
    ("weights-shift",   "(weights ?K ?i (+ ?s ?c))",      "(weights ?K ?i ?s)",                  &[Free("?c", "?i")], Expand),
    ("smoothmax-shift", "(smoothmax ?K ?i (+ ?s ?c))",    "(+ (smoothmax ?K ?i ?s) ?c)",         &[Free("?c", "?i")], Expand),
    ("log-of-product",  "(log (* ?a ?b))",                "(+ (log ?a) (log ?b))",               &[Positive("?a"), Positive("?b")], Search),
];
