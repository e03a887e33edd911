//! What kernels are made of: arithmetic, matrix products, row searches and systems, none of which knows an attention.
//!
//! The plan interpreter calls these functions, and emitted kernels carry the text of the files they need.

pub mod blocks;
pub mod columns;
pub mod decay;
pub mod double;
pub mod dropout;
pub mod functions;
pub mod heads;
pub mod lanes;
pub mod panels;
pub mod product;
pub mod real;
pub mod scan;
pub mod smooth;
pub mod solve;
pub mod steps;
pub mod threshold;
pub mod visible;
