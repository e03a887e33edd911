//! Training: settings, steps, checkpoints, and the loop around them.
//!
//! ```text
//! settings ──examples, start──▶ Trainer (objective, adamw, schedule) ──run──▶ metrics, checkpoints, validation
//! ```

pub mod adamw;
pub mod alternating;
pub mod checkpoint;
pub mod examples;
pub mod loaded;
pub mod presets;
pub mod run;
pub mod schedule;
pub mod settings;
pub mod start;
pub mod trainer;
