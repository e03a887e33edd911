//! Models: a GPT with any recipe as its attention, over plain arrays.
//!
//! ```text
//! tokens ──gpt──▶ sublayers (norm, force, optimizer's step) ──▶ last norm ──loss──▶ loss, and all the way back
//!                    force = attention (projections, kernel, write_back) | feed_forward
//! ```
//! Whole sublayers have hand-written backward passes over buffers that live from step to step; the attention's comes
//! from the compiler. All learned numbers are one array, see [`weights`].

mod attention;
mod blocks;
pub mod classifier;
pub mod config;
mod dropout;
mod feed_forward;
mod gate;
pub mod gpt;
mod heads;
pub mod loss;
pub mod matrix;
mod norm;
mod program;
pub mod random;
mod sublayer;
mod terms;
pub mod weights;
mod write_back;

pub use config::Config;
pub use gpt::{Cache, Gpt, Input, Tape};
pub use loss::Loss;
