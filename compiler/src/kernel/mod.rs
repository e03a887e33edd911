//! Kernels: a plan as Rust source.
//!
//! The text follows the plan line by line: a matrix product is one call, a fused loop is one loop over
//! registers full of numbers. A file is complete: behind the kernel it carries
//! the primitives it calls, none of which knows an attention.

mod candle;
mod hash;
mod header;
mod interface;
mod loops;
mod names;
mod pass;
mod steps;
mod triple;
pub mod users;

pub use hash::recipe_hash;
pub use interface::{Field, Interface, interface};

use crate::derive::Derivation;
use crate::ir::rational;
use crate::plan::graph::{Node, Op};
use crate::plan::{Plan, Unsupported, Valid};
use proc_macro2::TokenStream;
use quote::quote;

/// The crates an emitted kernel needs, as lines of a manifest.
pub const DEPENDENCIES: &str = "gemm = { version = \"0.19\", features = [\"x86-v4\"] }\n\
     pulp = { version = \"0.22\", features = [\"x86-v4\"] }\nrayon = \"1\"\n";

/// The primitives in the order they appear in a file.
const PRIMITIVES: [(&str, &str); 16] = [
    ("functions", include_str!("../primitives/functions.rs")),
    ("smooth", include_str!("../primitives/smooth.rs")),
    ("real", include_str!("../primitives/real.rs")),
    ("double", include_str!("../primitives/double.rs")),
    ("lanes", include_str!("../primitives/lanes.rs")),
    ("panels", include_str!("../primitives/panels.rs")),
    ("blocks", include_str!("../primitives/blocks.rs")),
    ("product", include_str!("../primitives/product.rs")),
    ("columns", include_str!("../primitives/columns.rs")),
    ("threshold", include_str!("../primitives/threshold.rs")),
    ("solve", include_str!("../primitives/solve.rs")),
    ("decay", include_str!("../primitives/decay.rs")),
    ("dropout", include_str!("../primitives/dropout.rs")),
    ("scan", include_str!("../primitives/scan.rs")),
    ("steps", include_str!("../primitives/steps.rs")),
    ("visible", include_str!("../primitives/visible.rs")),
];

/// Values of a plan beyond which no compiler would take its kernel.
const MOST_VALUES: usize = 16_000;

/// Whether a plan can be written as a kernel: every number is one of f32, and there are not too many values.
pub fn representable(plan: &Valid) -> Result<(), Unsupported> {
    let is_too_large = |node: &Node| matches!(&node.op, Op::Number(c) if (rational::to_f64(c) as f32).is_infinite());
    if plan.graph.nodes.iter().any(is_too_large) {
        return Err(Unsupported::formula("its formulas have numbers that are too large for f32"));
    }
    match plan.graph.nodes.len() > MOST_VALUES {
        true => Err(Unsupported::formula("its formulas are too long for a kernel; it can be interpreted")),
        false => Ok(()),
    }
}

/// A self-contained kernel over slices: the direction, the energy, and the gradients of both.
pub fn cpu(plan: &Valid, derivation: &Derivation) -> String {
    let header = header::header(derivation, DEPENDENCIES);
    let body = kernel(plan, derivation);
    format!("{header}\n{}\n{}", formatted(body), primitives(&used_primitives(plan)))
}

/// The same kernel inside of a layer for candle.
pub fn candle(plan: &Valid, derivation: &Derivation) -> Result<String, Unsupported> {
    let header = header::header(derivation, &format!("{}{DEPENDENCIES}", candle::DEPENDENCIES));
    let body = kernel(plan, derivation);
    let layer = candle::layer(plan, derivation)?;
    let used = [used_primitives(plan), candle::pasted(plan, derivation)].concat();
    Ok(format!("{header}\n{}\n{}\n{}", formatted(body), formatted(layer), primitives(&used)))
}

fn kernel(plan: &Plan, derivation: &Derivation) -> TokenStream {
    let types = names::types(plan, derivation);
    let passes = names::passes(plan).filter(|p| !p.outputs.is_empty()).map(|p| pass::pass(plan, p));
    let used = names::imports(plan);
    quote! {
        #used
        #types
        #(#passes)*
    }
}

/// Formatted source; a statement `note!("…")` is a comment.
fn formatted(tokens: TokenStream) -> String {
    let file: syn::File = match syn::parse2(tokens.clone()) {
        Ok(file) => file,
        Err(error) => panic!("an emitted kernel does not parse: {error}\n{tokens}"),
    };
    with_comments(&prettyplease::unparse(&file))
}

/// The text with a comment for every statement `note!("…");`, which a long one has on three lines.
fn with_comments(text: &str) -> String {
    let mut lines = text.lines();
    let mut out = String::new();
    while let Some(line) = lines.next() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let comment = match line.trim_start().strip_prefix("note!(") {
            Some("") => {
                let comment = lines.next().map(|comment| comment.trim().trim_matches('"'));
                lines.next();
                comment
            }
            Some(rest) => Some(rest.trim_end_matches(");").trim_matches('"')),
            None => None,
        };
        match comment {
            Some(comment) => out.push_str(&format!("{indent}// {comment}\n")),
            None => out.push_str(&format!("{line}\n")),
        }
    }
    out
}

/// The primitives a plan calls.
fn used_primitives(plan: &Plan) -> Vec<&'static str> {
    names::primitives_of(plan)
}

/// Their text, as modules.
fn primitives(used: &[&str]) -> String {
    let mut text = String::from(
        "/// What the kernel is made of; nothing here knows an attention.\n#[allow(dead_code)]\nmod primitives {\n",
    );
    for (name, source) in PRIMITIVES.iter().chain(&candle::PASTED).filter(|(name, _)| used.contains(name)) {
        text.push_str(&format!("    pub mod {name} {{\n"));
        for line in source.lines() {
            match line.is_empty() {
                true => text.push('\n'),
                false => text.push_str(&format!("        {line}\n")),
            }
        }
        text.push_str("    }\n\n");
    }
    text.truncate(text.trim_end().len());
    text.push_str("\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_comments_however_long() {
        let long = "Σ_n x ".repeat(30);
        let tokens = quote::quote! { fn f() { note!("short"); note!(#long); let x = 1; } };
        let expected = format!("fn f() {{\n    // short\n    // {long}\n    let x = 1;\n}}\n");
        assert_eq!(formatted(tokens), expected);
    }
}
