//! |x|, sign and select.

use super::{Condition::*, Row, Use::*};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    ("abs-even-power",    "(pow (abs ?x) ?r)",                          "(pow ?x ?r)",                       &[Even("?r")], Search),
    ("abs-times-sign",    "(* (abs ?x) (sign ?x))",                     "?x",                                &[], Search),
    ("value-times-sign",  "(* ?x (sign ?x))",                           "(abs ?x)",                          &[], Search),
    ("sign-even-power",   "(* ?x (pow (sign ?x) ?r))",                  "?x",                                &[Even("?r")], Search),
    ("abs-sign-power",    "(* (abs ?x) (pow (sign ?x) ?r))",            "(abs ?x)",                          &[Even("?r")], Search),
    ("select-factor",     "(select ?a ?b (* ?c ?x) (* ?c ?y))",         "(* ?c (select ?a ?b ?x ?y))",       &[], Search),
    ("select-factor-then","(select ?a ?b ?x (* ?x ?y))",                "(* ?x (select ?a ?b 1 ?y))",        &[NotConstant("?x")], Search),
    ("select-factor-else","(select ?a ?b (* ?y ?x) ?y)",                "(* ?y (select ?a ?b ?x 1))",        &[NotConstant("?y")], Search),
    ("select-zero-then",  "(select ?a ?b 0 (* ?x ?y))",                 "(* ?x (select ?a ?b 0 ?y))",        &[], Search),
    ("select-zero-else",  "(select ?a ?b (* ?x ?y) 0)",                 "(* ?x (select ?a ?b ?y 0))",        &[], Search),
    ("select-zero-twice", "(* (pow (select ?a ?b 0 ?x) ?r) (select ?a ?b 0 ?y))", "(* (pow (select ?a ?b 0 ?x) ?r) ?y)", &[], Expand),
    ("select-merge",      "(+ (select ?a ?b ?x ?y) (select ?a ?b ?u ?v))", "(select ?a ?b (+ ?x ?u) (+ ?y ?v))", &[], Search),
];
