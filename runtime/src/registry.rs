//! The recipes whose kernels are compiled in.

pub use crate::engine::find;
