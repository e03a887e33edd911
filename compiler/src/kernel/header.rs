//! The opening comment of an emitted file: the formula it computes, and how to use it.

use crate::derive::Derivation;
use crate::emit::document::{Extras, Stage, document};
use crate::emit::text;

/// A kernel follows its plan line by line, also where a person would write less.
const ALLOWED: &str = "#![allow(clippy::assign_op_pattern, clippy::borrow_deref_ref, clippy::double_parens, clippy::erasing_op)]\n\
    #![allow(clippy::identity_op, clippy::let_and_return, clippy::manual_memcpy, clippy::needless_borrow)]\n\
    #![allow(unused_parens)]\n";

/// The derived rule, and what a manifest needs.
pub fn header(derivation: &Derivation, dependencies: &str) -> String {
    let stages = [Stage::Energy, Stage::Gradient, Stage::Update];
    let derived = text::print(&document(derivation, Extras::default(), &stages));
    let mut lines = vec![
        format!(
            "`{}`: an attention kernel, forward and backward, derived from its energy by energyc.",
            derivation.recipe.name
        ),
        String::new(),
        "```text".to_string(),
    ];
    lines.extend(derived.lines().map(str::to_string));
    lines.extend(["```".to_string(), String::new(), "It needs these crates:".to_string(), "```toml".to_string()]);
    lines.extend(dependencies.lines().map(str::to_string));
    lines.push("```".to_string());
    let comment: String = lines.iter().map(|line| format!("//! {line}").trim_end().to_string() + "\n").collect();
    format!("{comment}{ALLOWED}")
}
