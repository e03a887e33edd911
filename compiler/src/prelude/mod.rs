//! The ingredients every recipe may use, written in the recipe language itself: no energy and no method is known
//! to the compiler otherwise.

use std::sync::OnceLock;

use crate::diagnostic::Diagnostic;
use crate::span::Source;
use crate::syntax::ast::{Ingredient, Item};
use crate::syntax::parse;

const FILES: [(&str, &str); 3] = [
    ("prelude/local.recipe", include_str!("local.recipe")),
    ("prelude/global.recipe", include_str!("global.recipe")),
    ("prelude/optimizer.recipe", include_str!("optimizer.recipe")),
];

/// Ingredients in the order of their text, and that text.
#[derive(Clone, Debug, Default)]
pub struct Prelude {
    pub ingredients: Vec<Ingredient>,
    pub sources: Vec<Source>,
}

/// The embedded prelude, parsed once.
pub fn load() -> &'static Prelude {
    static PRELUDE: OnceLock<Prelude> = OnceLock::new();
    PRELUDE.get_or_init(|| {
        let sources = FILES.map(|(name, text)| Source::new(name, text)).to_vec();
        let ingredients = sources.iter().flat_map(|source| ingredients_of(source).0).collect();
        Prelude { ingredients, sources }
    })
}

fn ingredients_of(source: &Source) -> (Vec<Ingredient>, Vec<Diagnostic>) {
    let (file, diagnostics) = parse(&source.text);
    let ingredients = file.items.into_iter().filter_map(|item| match item {
        Item::Ingredient(ingredient) => Some(ingredient),
        Item::Recipe(_) => None,
    });
    (ingredients.collect(), diagnostics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_file;
    use crate::diagnostic::render_all;

    #[test]
    fn every_ingredient_is_right_by_itself() {
        for source in &load().sources {
            let (file, mut diagnostics) = parse(&source.text);
            diagnostics.extend(check_file(&file, &Prelude::default()).1);
            assert_eq!(render_all(&diagnostics, source, false), "");
            assert!(!file.items.is_empty());
        }
    }
}
