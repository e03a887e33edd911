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
use crate::pipeline::{self, Target};
use crate::simplify::Options;
use crate::span::Source;
use std::path::{Path, PathBuf};

/// Compiles recipes into `OUT_DIR`: a file each, and `recipes.rs`, which declares a module for each.
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
        let path = folder.join(format!("{}.rs", recipe.name));
        write(&path, &text);
        modules.push_str(&format!("#[path = {path:?}]\npub mod {};\n", recipe.name));
        recipes.push(recipe);
    }
    write(&folder.join("recipes.rs"), &modules);
    recipes
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
    std::fs::write(path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}
