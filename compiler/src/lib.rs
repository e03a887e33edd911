//! A compiler from energies to attention layers.

pub mod analyze;
pub mod build;
pub mod calculus;
pub mod check;
pub mod cli;
pub mod derive;
pub mod diagnostic;
pub mod emit;
pub mod equiv;
pub mod feasible;
pub mod interpret;
pub mod ir;
pub mod kernel;
pub mod notation;
pub mod pipeline;
pub mod plan;
pub mod prelude;
pub mod primitives;
pub mod simplify;
pub mod skips;
pub mod span;
pub mod syntax;
pub mod verify;
