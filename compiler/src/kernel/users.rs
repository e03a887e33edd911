//! Names that recipes give to parameters, states and themselves, in code and files that also hold names of our own.
//!
//! A recipe may call anything anything the language allows. The rule that keeps its names apart from ours, and from each
//! other, is one for all places:
//!
//! 1. **Our names never end in `_`.** A recipe's name that does gets one more: `a_` is `a__`, so that exactly one `_` at
//!    the end is free for the next two.
//! 2. **A name we have already gets a `_`**: where `w1` is a weight of ours, a recipe's `w1` is `w1_`. What is ours is
//!    asked of the place itself, which knows what it holds.
//! 3. **In code, what is not ASCII is written by its number**, `_` as `_0`, and a `_` ends it all: `α` is `_u3b1x_`. (Rust
//!    takes letters for each other that look alike, and warns of others.) Keywords are raw identifiers, `r#match`; the
//!    four that cannot be (`self`, …) get a `_`.
//!
//! Ordinary names, `T`, `tau`, `beta_2`, stay as they are, and no two names of a recipe become one.

use proc_macro2::{Ident, Span};

/// A recipe's name where some names are taken.
pub fn apart(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    if name.ends_with('_') || is_taken(name) { format!("{name}_") } else { name.to_string() }
}

/// A recipe's name as an identifier, where some are taken.
pub fn identifier_apart(name: &str, is_taken: impl Fn(&str) -> bool) -> Ident {
    let text = if name.is_ascii() { apart(name, is_taken) } else { by_numbers(name) };
    let is_keyword = text == GEN || syn::parse_str::<Ident>(&text).is_err();
    match (is_keyword, CANNOT_BE_RAW.contains(&text.as_str())) {
        (false, _) => Ident::new(&text, Span::call_site()),
        (true, false) => Ident::new_raw(&text, Span::call_site()),
        (true, true) => Ident::new(&format!("{text}_"), Span::call_site()),
    }
}

/// A recipe's name as an identifier among names that all come from the recipe.
pub fn identifier(name: &str) -> Ident {
    identifier_apart(name, |_| false)
}

/// A keyword since edition 2024, which `syn` does not know.
const GEN: &str = "gen";

/// Rust's keywords that are no raw identifiers either.
const CANNOT_BE_RAW: [&str; 4] = ["self", "Self", "super", "crate"];

/// The name in ASCII, one way for every name.
fn by_numbers(name: &str) -> String {
    let spelled = name.chars().map(|c| match c {
        '_' => "_0".to_string(),
        c if c.is_ascii_alphanumeric() => c.to_string(),
        c => format!("_u{:x}x", u32::from(c)),
    });
    spelled.chain(["_".to_string()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ordinary_names_stay() {
        for name in ["T", "tau", "beta_2", "x1", "rho", "_a"] {
            assert_eq!(identifier(name).to_string(), name);
            assert_eq!(apart(name, |taken| taken == "w1"), name);
        }
    }

    #[test]
    fn names_are_kept_apart_from_ours_and_from_each_other() {
        let ours = ["w1", "dropout", "gen", "self"];
        let names = [
            "w1",
            "w1_",
            "w1__",
            "dropout",
            "dropout_",
            "match",
            "match_",
            "match__",
            "gen",
            "gen_",
            "self",
            "self_",
            "Self",
            "crate",
            "super",
            "try",
            "α",
            "_u3b1x_",
            "_u3b1x",
            "_u3b1x__",
            "α_",
            "é",
            "e\u{301}",
            "Ω",
            "\u{2126}",
            "a_α",
            "a_0_u3b1x_",
            "union",
            "async",
        ];
        for is_taken in [false, true] {
            let is_ours = |name: &str| is_taken && ours.contains(&name);
            let spelled: BTreeSet<String> = names.iter().map(|n| identifier_apart(n, is_ours).to_string()).collect();
            assert_eq!(spelled.len(), names.len(), "{spelled:?}");
            for name in &spelled {
                assert!(!is_ours(name), "{name}");
                let code = format!("struct S {{ {name}: f32 }}");
                syn::parse_str::<syn::ItemStruct>(&code).unwrap_or_else(|e| panic!("{code}: {e}"));
            }
            let words: BTreeSet<String> = names.iter().map(|name| apart(name, is_ours)).collect();
            assert_eq!(words.len(), names.len(), "{words:?}");
        }
    }
}
