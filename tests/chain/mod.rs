//! One head of a recipe through two links of the chain, the reference interpreter and the plan interpreter, for tests:
//! what goes wrong is a panic.
#![allow(dead_code)]

#[allow(unused_imports)]
pub use energyc::verify::chain::{DIRECTION, ENERGY, OF_ENERGY, Values, masks};

use energyc::check::Recipe;
use energyc::ir::eval::Env;
use energyc::simplify::Options;
use energyc::verify::chain;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

/// A recipe and what both interpreters need of it.
#[derive(Clone)]
pub struct Case(pub chain::Case);

impl Deref for Case {
    type Target = chain::Case;
    fn deref(&self) -> &chain::Case {
        &self.0
    }
}

impl DerefMut for Case {
    fn deref_mut(&mut self) -> &mut chain::Case {
        &mut self.0
    }
}

pub fn recipe_files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "recipe"));
    files.sort();
    files
}

pub fn shipped(name: &str) -> Case {
    let files = recipe_files("recipes");
    let path = files.iter().find(|p| p.file_stem().is_some_and(|s| s == name)).expect("a shipped recipe");
    Case::read(&std::fs::read_to_string(path).expect("a recipe can be read"))
}

pub fn every_shipped() -> Vec<Case> {
    recipe_files("recipes").iter().map(|p| Case::read(&std::fs::read_to_string(p).expect("a recipe"))).collect()
}

impl Case {
    pub fn read(text: &str) -> Case {
        let (recipe, diagnostics) = energyc::pipeline::front(text);
        let recipe = recipe.unwrap_or_else(|| panic!("{diagnostics:?}\n{text}"));
        Case::of(&recipe)
    }

    pub fn of(recipe: &Recipe) -> Case {
        let case = chain::Case::new(recipe, &Options::default());
        Case(case.unwrap_or_else(|why| panic!("{}: {why}", recipe.name)))
    }

    /// The same with attention dropout.
    pub fn dropping(self, seed: u64, rate: f64) -> Case {
        Case(self.0.dropping(seed, rate))
    }

    /// What the formulas say.
    pub fn reference(&self, env: &Env) -> Values {
        self.0.reference(env).expect("values")
    }
}

/// The largest difference relative to the largest entry.
pub fn gap(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let scale = a.iter().chain(b).fold(1.0, |m: f64, x| m.max(x.abs()));
    let worst = a.iter().zip(b).map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() });
    worst.fold(0.0, |m: f64, x| if x.is_nan() { f64::INFINITY } else { m.max(x) }) / scale
}

/// Asserts that both have the same values; a gradient that one of them leaves out is 0 in the other.
pub fn agree(what: &str, expected: &Values, got: &Values, tolerance: f64) {
    for (name, x) in expected {
        let zero = vec![0.0; x.len()];
        let y = got.get(name).unwrap_or(&zero);
        let gap = gap(x, y);
        assert!(gap <= tolerance, "{what}: {name} is off by {gap:.1e}\nexpected {:?}\ngot      {:?}", head(x), head(y));
    }
    for (name, y) in got.iter().filter(|(name, _)| !expected.contains_key(*name)) {
        assert!(y.iter().all(|y| *y == 0.0), "{what}: nothing is expected of {name}, got {:?}", head(y));
    }
}

fn head(x: &[f64]) -> &[f64] {
    &x[..x.len().min(12)]
}
