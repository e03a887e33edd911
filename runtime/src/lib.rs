//! The runtime of `energyc`: where derived attention layers are run and trained.
//!
//! It depends on the compiler and never the other way round.

pub use energyc as compiler;
