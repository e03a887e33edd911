//! From the tree of a file to a [`Recipe`]: names, values, axes and domains.
//!
//! Everything wrong is reported in one run. A part that is wrong has no value, and what depends on it says nothing.

mod axes;
mod constraint;
mod definition;
mod domain;
mod energy;
mod function;
pub mod inputs;
mod library;
mod params;
mod program;
mod reading;
pub mod recipe;
mod section;
mod term;
mod value;

pub use recipe::{Constraint, Ingredients, Origin, Param, ParamValue, Program, Recipe, Squash, State, Tokens, Used, Values};

use crate::diagnostic::{Code, Diagnostic};
use crate::prelude::Prelude;
use crate::syntax::ast::{self, File, Item, Section};
use library::Library;

/// The recipe a file holds, and everything there is to say about it. There is a recipe only without errors.
pub fn check(file: &File, prelude: &Prelude) -> (Option<Recipe>, Vec<Diagnostic>) {
    let (recipe, mut diagnostics) = check_file(file, prelude);
    let has_recipe = file.items.iter().any(|item| matches!(item, Item::Recipe(_)));
    if !has_recipe && !file.items.is_empty() {
        let diagnostic = Diagnostic::new(Code::NoRecipe, "the file defines ingredients, but no recipe")
            .help("add `recipe name { local …; global …; optimizer …; }`");
        diagnostics.push(diagnostic);
    }
    (recipe, diagnostics)
}

/// As [`check`], but a file of ingredients alone is fine.
pub fn check_file(file: &File, prelude: &Prelude) -> (Option<Recipe>, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    let mut shared = Library::of_prelude(&prelude.ingredients);
    let mut recipes: Vec<&ast::Recipe> = Vec::new();
    for item in &file.items {
        match item {
            Item::Recipe(recipe) => recipes.push(recipe),
            Item::Ingredient(ingredient) => shared.define(ingredient, &mut diagnostics),
        }
    }
    diagnostics.extend(several(&recipes));
    let mut budget = term::BUDGET;
    let mut result = None;
    for recipe in &recipes {
        let mut library = shared.clone();
        for section in &recipe.sections {
            if let Section::Define(ingredient) = section {
                library.define(ingredient, &mut diagnostics);
            }
        }
        library.refuse_cycles(&mut diagnostics);
        let (read, visited) = reading::read(recipe, &library, &mut budget, &mut diagnostics);
        reading::review(&library, &visited, &mut budget, &mut diagnostics);
        result = read;
    }
    if recipes.is_empty() {
        shared.refuse_cycles(&mut diagnostics);
        reading::review(&shared, &Default::default(), &mut budget, &mut diagnostics);
    }
    let diagnostics = in_order(diagnostics);
    let result = result.filter(|_| !diagnostics.iter().any(Diagnostic::is_error));
    (result, diagnostics)
}

fn several(recipes: &[&ast::Recipe]) -> Option<Diagnostic> {
    let [first, second, ..] = recipes else { return None };
    Some(
        Diagnostic::new(Code::SeveralRecipes, format!("the file holds {} recipes", recipes.len()))
            .also(first.name.span, "the first")
            .at(second.name.span, "another")
            .help("one file compiles to one layer: move the others into files of their own"),
    )
}

/// By place in the text, each once.
fn in_order(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(Diagnostic::primary_span);
    diagnostics.dedup();
    diagnostics
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::render_all;
    use crate::ir::{Axis, AxisSet};
    use crate::prelude;
    use crate::span::Source;
    use crate::syntax::parse;

    fn recipe(text: &str) -> Recipe {
        let (file, mut diagnostics) = parse(text);
        let (recipe, found) = super::check(&file, prelude::load());
        diagnostics.extend(found);
        let shown = render_all(&diagnostics, &Source::new("test.recipe", text), false);
        recipe.unwrap_or_else(|| panic!("{shown}"))
    }

    /// The local energy, F over E, and F with E put in.
    fn check(sections: &str, local: &str, global: &str, energy: &str) {
        let recipe = recipe(&format!("recipe r {{ {sections} }}"));
        let terms = [&recipe.local, &recipe.global, &recipe.energy].map(ToString::to_string);
        assert_eq!(terms, [local, global, energy]);
        assert!(recipe.local.axes().is_subset(AxisSet::of(&[Axis::T, Axis::N])));
        assert!(recipe.energy.axes().is_subset(AxisSet::of(&[Axis::T])));
    }

    #[test]
    fn energies_become_terms() {
        check(
            "local dot; global lse; optimizer gd;",
            "",
            "",
            "",
        );
    }
}
