//! The runtime of `energyc`: where derived attention layers are run and trained.
//!
//! It depends on the compiler and never the other way round.
//!
//! ```text
//! file ──tensors──▶ named tensors ──input──▶ Problem ──engine──▶ direction, energy, gradients
//! ```

pub mod bench;
pub mod cli;
pub mod data;
pub mod engine;
pub mod experiment;
pub mod generate;
pub mod glue;
pub mod input;
pub mod mask;
pub mod metrics;
pub mod model;
pub mod problem;
pub mod refusal;
pub mod tensors;
pub mod train;

pub use energyc as compiler;
