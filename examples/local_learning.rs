//! Learning without backpropagation: a classification token descends on an energy, the matrices descend on the same
//! energy, and only the last matrix sees the labels. Run it with
//! `cargo run --release -p energy-runtime --example local_learning`.

use energy_runtime::compiler::pipeline;
use energy_runtime::model::classifier::{Classifier, Shape};
use energy_runtime::model::random::Stream;

/// Values are keys, and queries and keys have a length, so every step is a descent on a bounded energy.
const RECIPE: &str = "recipe retrieval {
    local     euclidean;
    global    lse(T = 1);
    optimizer gd(eta = 0.5);
    values    tied;
    constrain norm(q) = rho, norm(k) = rho;
}";

fn main() -> Result<(), String> {
    let (recipe, _) = pipeline::front(RECIPE);
    let recipe = recipe.ok_or("the recipe is refused")?;
    let shape = Shape { heads: 2, head: 16, tokens: 8, classes: 4 };
    let (count, d) = (200, shape.heads * shape.head);
    let labels: Vec<usize> = (0..count).map(|i| i % shape.classes).collect();
    // A sample's tokens lie around the prototype of its class.
    let stream = Stream::new(7);
    let number = |i: usize| {
        let (sample, component) = (i / (shape.tokens * d), i % d);
        let prototype = stream.stream(1).normal((labels[sample] * d + component) as u64);
        (prototype + 1.5 * stream.normal(i as u64)) as f32
    };
    let samples = (0..count * shape.tokens * d).map(number).collect();
    let mut classifier = Classifier::new(&recipe, shape, samples, labels.clone(), 1)?;
    println!("epoch   F by z            F by W            loss by E         accuracy");
    for epoch in 1..=30 {
        let done = classifier.epoch(0.1);
        if epoch % 5 == 0 || epoch == 1 {
            let shown = |[before, after]: [f64; 2]| format!("{before:7.4} → {after:7.4}");
            let steps = [done.energy_by_z, done.energy_by_w, done.loss_by_e].map(shown);
            println!("{epoch:5}   {}   {:.3}", steps.join("   "), done.accuracy);
        }
    }
    Ok(())
}
