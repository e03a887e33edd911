//! Mathematics for people: terms as a reader would write them.
//!
//! ```text
//! Expr ──write──▶ Math ──text──▶ Unicode
//!                      └─latex─▶ LaTeX
//! ```
//! [`mod@write`] turns named axes into vectors, inner products and indices; the two printers only lay out.

pub mod latex;
pub mod math;
pub mod symbol;
pub mod text;
pub mod unit;
pub mod write;

pub use math::Math;
pub use write::Writer;
