//! GLUE by instruction: a pretrained model learns to answer questions about sentences with a word, and is asked which
//! of the words it finds likeliest.
//!
//! ```text
//! folder ──files, read──▶ Survey ──prompt──▶ tokens ──fine_tune (the trainer)──▶ weights ──likelihood──▶ Score ──▶ Table
//!                                                       └── results: one file for each task and seed ──┘
//! ```

pub mod columns;
pub mod files;
mod fine_tune;
pub mod likelihood;
pub mod measure;
mod plan;
pub mod prompt;
pub mod prompts;
pub mod read;
pub mod results;
mod run;
pub mod score;
mod survey;
mod table;
mod task;

pub use plan::{Plan, Terms};
pub use run::{check, recipe_name, run};
pub use score::Score;
pub use survey::{Part, Survey, Surveyed, survey};
pub use table::{Table, table};
pub use task::{Beside, Task};
