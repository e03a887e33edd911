//! Writes an energy that no prelude has, derives the attention it induces, and checks it numerically.
//!
//! `cargo run --release -p energyc --example new_energy`

use energyc::emit::document::{Extras, Stage, document};
use energyc::simplify::Options;
use energyc::{check, derive, emit, prelude, syntax, verify};

/// Far tokens push with a force that fades like 1/r: the energy grows like a logarithm.
const RECIPE: &str = "
    recipe logarithmic_pull {
        local logarithmic_pull(c = 1) where c > 0 { E = c * log(1 + norm(q - k)^2 / c) }
        global    lse(T = learn(sqrt(2 * d_h), per head));
        optimizer gd;
        values    free;
    }
";

fn main() {
    let (file, problems) = syntax::parse(RECIPE);
    assert!(problems.is_empty(), "{problems:?}");
    let (recipe, problems) = check::check(&file, prelude::load());
    let recipe = recipe.unwrap_or_else(|| panic!("{problems:?}"));

    let options = Options::default();
    let derivation = derive::derive(&recipe, &options);
    let backward = derive::backward(&derivation, &options);
    let extras = Extras { backward: Some(&backward), ..Extras::default() };
    let stages = [Stage::Energy, Stage::Gradient, Stage::Update, Stage::Backward];
    print!("{}", emit::text::print(&document(&derivation, extras, &stages)));

    let report = verify::verify(&recipe, &options);
    println!("\nverified: {}", if report.passed() { "every line holds" } else { "NO" });
}
