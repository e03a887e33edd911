//! Sigmoids, tanh and softplus.

use super::{Row, Use::*};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    ("sigmoid-complement", "(+ 1 (* -1 (sigmoid ?x)))",                     "(sigmoid (* -1 ?x))", &[], Search),
    ("sigmoid-pair",       "(+ (sigmoid ?x) (sigmoid (* -1 ?x)))",          "1",                   &[], Search),
    ("sigmoid-centred",    "(+ -1 (* 2 (sigmoid (* 2 ?x))))",               "(tanh ?x)",           &[], Search),
    ("softplus-pair",      "(+ (softplus ?x) (* -1 (softplus (* -1 ?x))))", "?x",                  &[], Search),
    ("tanh-complement",    "(+ 1 (* -1 (pow (tanh ?x) 2)))",                "(tanh_slope ?x)",     &[], Search),
];
