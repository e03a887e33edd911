//! For build scripts: recipes become modules of the crate that is being built.
//!
//! ```no_run
//! // build.rs
//! energyc::build::compile(["recipes/mine.recipe"], energyc::pipeline::Target::Candle);
//! ```
//! ```ignore
//! // src/lib.rs
//! include!(concat!(env!("OUT_DIR"), "/recipes.rs"));
//! // and then: mine::Layer, mine::forward, …
//! ```

use crate::check::Recipe;
use crate::diagnostic::{Diagnostic, render_all};
use crate::kernel::users;
use crate::pipeline::{self, Target};
use crate::simplify::Options;
use crate::span::Source;
use std::path::{Path, PathBuf};

/// Compiles recipes into `OUT_DIR`: a file each, in a folder of their own, and `recipes.rs`, which declares a module for
/// each. A recipe called like a keyword has a raw name: `r#match`.
///
/// # Panics
///
/// As build scripts do, with the compiler's messages, if a recipe is wrong or a file cannot be read or written.
pub fn compile(files: impl IntoIterator<Item = impl AsRef<Path>>, target: Target) -> Vec<Recipe> {
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("a build script has OUT_DIR"));
    let mut recipes = Vec::new();
    let mut modules = String::new();
    for file in files {
        let recipe = read(file.as_ref());
        let text = pipeline::compile(&recipe, target, &Options::default())
            .unwrap_or_else(|why| panic!("`{}` has no kernel: {why}", recipe.name));
        let path = source(&folder, &recipe);
        write(&path, &text);
        modules.push_str(&module(&path, &recipe));
        recipes.push(recipe);
    }
    write(&folder.join("recipes.rs"), &modules);
    recipes
}

/// The module of a recipe.
fn module(path: &Path, recipe: &Recipe) -> String {
    format!("#[path = {path:?}]\npub mod {};\n", users::identifier(&recipe.name))
}

/// Where the source of a recipe is written to; no recipe's file is one of ours there.
pub fn source(folder: &Path, recipe: &Recipe) -> PathBuf {
    folder.join("recipes").join(format!("{}.rs", recipe.name))
}

fn read(file: &Path) -> Recipe {
    println!("cargo::rerun-if-changed={}", file.display());
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
    let (recipe, diagnostics) = pipeline::front(&text);
    let source = Source::new(file.display().to_string(), text.as_str());
    let shown = render_all(&diagnostics, &source, false);
    match recipe {
        Some(recipe) if !diagnostics.iter().any(Diagnostic::is_error) => recipe,
        _ => panic!("\n{shown}"),
    }
}

fn write(path: &Path, text: &str) {
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    folder
        .and_then(|()| std::fs::write(path, text))
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_may_have_the_names_of_keywords_and_of_our_files() {
        for (name, expect) in [("match", "r#match"), ("gen", "r#gen"), ("crate", "crate_"), ("recipes", "recipes")] {
            let text = format!("recipe {name} {{ local dot; global lse; optimizer gd; }}");
            let recipe = pipeline::front(&text).0.expect("a recipe");
            let path = source(Path::new("out"), &recipe);
            assert_ne!(path, Path::new("out/recipes.rs"));
            let module = module(&path, &recipe);
            assert_eq!(module, format!("#[path = \"out/recipes/{name}.rs\"]\npub mod {expect};\n"));
            syn::parse_str::<syn::ItemMod>(&module).expect("a module");
        }
    }
}
