//! x
pub mod text { pub fn plain(e: &crate::ir::Expr) -> String { e.to_string() } }
