//! What a derivation looks like on paper.
//!
//! [`mod@document`] arranges the formulas of a derivation, the way a paper would print them; [`text`], [`latex`] and
//! [`json`] lay the same document out.

pub mod document;
pub mod json;
pub mod latex;
pub mod proof;
pub mod text;

pub use document::{Document, Line, Section, Stage, document};
mod update;
