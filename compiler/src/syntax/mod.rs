//! From the text of a recipe to a tree with spans, and back.
//!
//! ```text
//! text ── scan ──▶ bare text + comments ── lex ──▶ tokens ── parse ──▶ File ── format ──▶ text
//! ```
//! `scan` bounds everything a hostile file could blow up (size, nesting, odd characters) before the
//! lexer sees it; `expression` bounds recursion; so no input panics, hangs or exhausts memory.

pub mod ast;
mod comments;
mod cursor;
mod expression;
mod format;
mod lex;
mod number;
mod parse;
mod print;
mod scan;

pub use ast::{File, same_expr, same_tree};
pub use cursor::RESERVED;
pub use format::format;
pub use number::parse_number;
pub use parse::{parse, parse_expr, read_source};
pub use print::{print_comparison, print_expr};

#[cfg(test)]
mod properties;
