//! How long it takes from text to a derived, simplified and proven rule with its backward pass.
//!
//! `cargo bench -p energyc` — every shipped recipe should stay under 300 ms (first-order ones under 100), and a series
//! should take at most four times as long when its order doubles.

use criterion::{Criterion, criterion_group, criterion_main};
use energyc::simplify::Options;
use std::hint::black_box;
use std::path::Path;

fn recipes() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes");
    let mut all: Vec<(String, String)> = std::fs::read_dir(folder)
        .expect("recipes are there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "recipe"))
        .map(|path| {
            let name = path.file_stem().expect("a stem").to_string_lossy().to_string();
            (name, std::fs::read_to_string(&path).expect("readable"))
        })
        .collect();
    all.sort();
    all
}

/// Parse, check, derive, simplify, prove; forward and backward.
fn whole(source: &str) -> usize {
    let (file, _) = energyc::syntax::parse(source);
    let (recipe, _) = energyc::check::check(&file, energyc::prelude::load());
    let options = Options::default();
    let derivation = energyc::derive::derive(&recipe.expect("a shipped recipe checks"), &options);
    let backward = energyc::derive::backward(&derivation, &options);
    backward.gradients.len()
}

/// Newton's method on distances, the inverse Hessian taken to some order.
fn series(order: u32) -> String {
    format!(
        "recipe series {{ local euclidean; global lse(T = learn(1)); optimizer newton(solve = taylor({order})); \
         values tied; }}"
    )
}

fn bench(c: &mut Criterion) {
    let all = recipes();
    for (name, source) in &all {
        c.bench_function(name, |b| b.iter(|| whole(black_box(source))));
    }
    for order in [1, 2, 4, 8] {
        let source = series(order);
        c.bench_function(&format!("series of order {order}"), |b| b.iter(|| whole(black_box(&source))));
    }
    c.bench_function("all recipes", |b| b.iter(|| all.iter().map(|(_, s)| whole(black_box(s))).sum::<usize>()));
}

criterion_group! { name = derive; config = Criterion::default().sample_size(10); targets = bench }
criterion_main!(derive);
