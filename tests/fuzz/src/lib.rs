//! Random recipes through the whole compiler, beside an evaluator that shares nothing with it.

pub mod catching;
pub mod closed;
pub mod commands;
pub mod compare;
pub mod compiled;
pub mod crates;
pub mod emitted;
pub mod evaluate;
#[cfg(test)]
mod evaluate_tests;
pub mod expansion;
pub mod failure;
pub mod fuzz;
pub mod generate;
pub mod interpreted;
pub mod layer;
pub mod layers;
pub mod linear;
pub mod meaning;
pub mod minimum;
pub mod mutate;
pub mod names;
pub mod point;
pub mod prelude;
pub mod print;
pub mod program;
pub mod random;
pub mod samples;
pub mod shrink;
pub mod sphere;
pub mod step;
pub mod supervise;
pub mod tally;
pub mod tape;
pub mod tree;
pub mod words;
