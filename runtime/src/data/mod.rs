//! Data: where the sequences of a batch come from.

pub mod batch;

pub use batch::{Batch, Examples};
