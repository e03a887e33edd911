//! What a run measures of itself, and how it is shown.
//!
//! ```text
//! trainer ──record──▶ metrics.jsonl ──plot──▶ SVG
//!    ├──tensorboard──▶ event file
//!    └──progress────▶ terminal
//! ```

pub mod memory;
pub mod plot;
pub mod progress;
pub mod record;
pub mod table;
pub mod tensorboard;
