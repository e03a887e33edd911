//! Golden files: what every recipe derives to, stage by stage, in text and LaTeX.
//!
//! `INSTA_UPDATE=always cargo test --test golden` rewrites them; read each change as a mathematician would.

use energyc::derive::{Backward, Derivation, Hessian, StepBackward, backward, derive, hessian, step_backward};
use energyc::emit::document::{Extras, Stage, document};
use energyc::emit::{latex, text};
use energyc::simplify::Options;
use std::path::{Path, PathBuf};

/// A recipe and everything that can be printed of it.
struct Derived {
    name: String,
    derivation: Derivation,
    hessian: Hessian,
    backward: Backward,
    step: StepBackward,
}

impl Derived {
    fn extras(&self) -> Extras<'_> {
        Extras { hessian: Some(&self.hessian), backward: Some(&self.backward), step: Some(&self.step) }
    }
}

fn derived(path: &Path) -> Derived {
    let source = std::fs::read_to_string(path).expect("a recipe can be read");
    let (file, diagnostics) = energyc::syntax::parse(&source);
    assert!(diagnostics.is_empty(), "{}: {diagnostics:?}", path.display());
    let (recipe, diagnostics) = energyc::check::check(&file, energyc::prelude::load());
    let recipe = recipe.unwrap_or_else(|| panic!("{}: {diagnostics:?}", path.display()));
    let options = Options::default();
    let derivation = derive(&recipe, &options);
    let hessian = hessian(&derivation, &options);
    let backward = backward(&derivation, &options);
    let step = step_backward(&recipe, &options);
    Derived { name: recipe.name.clone(), derivation, hessian, backward, step }
}

fn recipes_in(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "recipe"))
        .collect();
    files.sort();
    files
}

/// One snapshot a stage, one for all of LaTeX, one for the length of the proofs.
fn check(d: &Derived) {
    let extras = d.extras();
    let print = |stages: &[Stage]| text::print(&document(&d.derivation, extras, stages));
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../tests/golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        let first_order = [Stage::Energy, Stage::Gradient, Stage::Update];
        insta::assert_snapshot!(format!("{}.rule", d.name), print(&first_order));
        insta::assert_snapshot!(format!("{}.hessian", d.name), print(&[Stage::Hessian]));
        insta::assert_snapshot!(format!("{}.backward", d.name), print(&[Stage::Backward]));
        insta::assert_snapshot!(
            format!("{}.latex", d.name),
            latex::body(&document(&d.derivation, extras, &Stage::ALL))
        );
        insta::assert_snapshot!(format!("{}.proofs", d.name), proof_lengths(d));
    });
}

fn proof_lengths(d: &Derived) -> String {
    let stages = d.derivation.stages().into_iter().map(|(name, s)| (name.to_string(), s));
    let back = d.backward.definitions.iter().chain(&d.backward.gradients);
    let back = back.map(|definition| (definition.leaf.name.to_string(), &definition.value));
    let all = stages.chain(back).chain(d.hessian.form.iter().map(|part| ("hessian".to_string(), part)));
    all.map(|(name, s)| format!("{name}: {} steps\n", s.proof.len())).collect()
}

#[test]
fn shipped_recipes_derive_as_recorded() {
    let files = recipes_in("recipes");
    assert!(files.len() >= 28, "the shipped recipes are found");
    files.iter().for_each(|path| check(&derived(path)));
}

#[test]
fn energies_the_prelude_does_not_have_derive_as_recorded() {
    recipes_in("tests/ok").iter().for_each(|path| check(&derived(path)));
}

#[test]
fn first_order_rules_of_shipped_recipes_are_found_within_the_limits() {
    for path in recipes_in("recipes") {
        let d = derived(&path);
        let back = d.backward.definitions.iter().chain(&d.backward.gradients).map(|x| &x.value);
        for simplified in d.derivation.stages().into_iter().map(|(_, s)| s).chain(back) {
            assert!(!simplified.hit_limit, "{}: the search hit its limits at {}", d.name, simplified.term);
            assert!(simplified.rejected.is_empty(), "{}: {:?}", d.name, simplified.rejected);
        }
    }
}

#[test]
fn deriving_again_gives_the_same_bytes() {
    let extras = |d: &Derived| text::print(&document(&d.derivation, d.extras(), &Stage::ALL));
    for path in recipes_in("recipes") {
        assert_eq!(extras(&derived(&path)), extras(&derived(&path)), "{}", path.display());
    }
}
