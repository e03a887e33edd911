//! Recipes that ask for too much: every stage ends within its budget, with a right result and a note.
//!
//! Work is counted, not time; `tests/heavy/measure` shows seconds and memory.

use std::fs;
use std::path::Path;

use energyc::check::Recipe;
use energyc::emit::{self, Stage};
use energyc::equiv::{Equivalence, equivalence};
use energyc::ir::{Budget, Expr, traverse};
use energyc::pipeline::{self, Derived};
use energyc::simplify::{Options, simplify};

/// Distinct subterms that a derived formula may have.
const LARGEST: usize = 20_000;
/// Bytes that a document may have.
const LONGEST: usize = 16 << 20;

fn recipe(text: &str) -> Recipe {
    let (recipe, diagnostics) = pipeline::front(text);
    recipe.unwrap_or_else(|| panic!("{diagnostics:?}"))
}

fn stored(name: &str) -> Recipe {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/heavy").join(format!("{name}.recipe"));
    recipe(&fs::read_to_string(path).expect("readable"))
}

fn names() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/heavy");
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let recipes = files.filter(|path| path.extension().is_some_and(|e| e == "recipe"));
    let mut names: Vec<String> =
        recipes.map(|path| path.file_stem().expect("a stem").to_string_lossy().to_string()).collect();
    names.sort();
    names
}

/// Whether some formula of the stages is said to be perhaps not the simplest, or refused.
fn noted(derived: &Derived) -> (bool, Vec<String>) {
    let all = || Stage::ALL.into_iter().flat_map(|stage| pipeline::simplifications(derived, stage));
    (all().any(|(_, value)| value.hit_limit), all().flat_map(|(_, value)| value.rejected.clone()).collect())
}

#[test]
fn every_heavy_recipe_is_derived_and_what_is_left_undone_is_noted() {
    for name in names() {
        let recipe = stored(&name);
        let options = Options::default();
        let derived = pipeline::derived(&recipe, &Stage::ALL, &options);
        let (limited, rejected) = noted(&derived);
        assert!(rejected.is_empty(), "{name}: {rejected:?}");
        assert!(limited || !options.budget.has_refused(), "{name}: something was left undone and nobody says so");
        for stage in Stage::ALL {
            for (what, value) in pipeline::simplifications(&derived, stage) {
                let size = traverse::occurring(&value.term).len();
                assert!(size <= LARGEST, "{name}: {what} has {size} subterms");
            }
        }
        let text = emit::text::print(&pipeline::documented(&derived, &Stage::ALL));
        assert!(text.len() <= LONGEST, "{name}: {} bytes", text.len());
    }
}

#[test]
fn a_heavy_recipe_is_equal_to_itself_without_a_step() {
    for name in names() {
        let recipe = stored(&name);
        match equivalence(&recipe, &recipe, &Options::default()) {
            Equivalence::Proven { proof, .. } => assert!(proof.is_empty(), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn hard_pairs_are_decided_by_numbers_or_left_open() {
    let (a, b) = (stored("nested_products"), stored("logistic_map"));
    assert!(matches!(equivalence(&a, &b, &Options::default()), Equivalence::Differ { .. }));
    let series = |order: u32| {
        let text = "recipe r { local c() { E = log(1 + norm(q - k)^2) + dot(q, k)^4 } global lse(T = 1);
            optimizer newton(solve = taylor(ORDER, alpha = 1)); values tied; }";
        recipe(&text.replace("ORDER", &order.to_string()))
    };
    assert!(matches!(equivalence(&series(16), &series(15), &Options::default()), Equivalence::Differ { .. }));
}

/// (1 + x₁)(1 + x₂)…, a term with much to do about.
fn product(factors: usize) -> Expr {
    let recipe = |j: usize| format!("({j} + norm(q - {j} * k)^2)");
    let written: Vec<String> = (1..=factors).map(recipe).collect();
    let text = format!("recipe r {{ local c() {{ E = {} }} global lse(T = 1); optimizer gd; }}", written.join(" * "));
    self::recipe(&text).energy
}

#[test]
fn a_spent_budget_leaves_a_right_term_and_a_note() {
    let term = product(6);
    for work in [0, 100, 10_000] {
        let options = Options { budget: Budget::of(work), ..Options::default() };
        let simplified = simplify(&term, &options);
        assert!(simplified.hit_limit && simplified.rejected.is_empty(), "{work}: {:?}", simplified.rejected);
        assert!(options.budget.has_refused());
        assert_eq!(simplified.proof.end, simplified.term);
    }
    let nothing = simplify(&term, &Options { budget: Budget::of(0), ..Options::default() });
    assert_eq!(nothing.term, term);
}

/// What a term becomes does not depend on what was simplified before it with the same rules.
#[test]
fn what_was_seen_before_costs_as_much_as_the_first_time() {
    let term = product(4);
    let options = Options::default();
    let first = simplify(&term, &options);
    let spent = options.budget.spent();
    let again = options.clone().afresh();
    let second = simplify(&term, &again);
    assert_eq!((first.term, spent), (second.term, again.budget.spent()));
    assert!(spent > 0);
}
