//! Writes an optimizer that no prelude has, derives the layer it induces with its backward pass, and unrolls its skip
//! connections.
//!
//! `cargo run --release -p energyc --example new_optimizer`

use energyc::emit::document::Stage;
use energyc::simplify::Options;
use energyc::skips::{language, unroll};
use energyc::{emit, pipeline, verify};

/// Two memories, one short and one long, and a look-ahead along the long one.
const RECIPE: &str = "
    recipe two_memories {
        local  dot;
        global lse(T = sqrt(d_h));
        optimizer two_memories(beta = learn(0.5), gamma = learn(0.95), eta = learn(1)) {
            state p = 0;                       // forgets soon
            state m = 0;                       // forgets late
            let ahead = z - gamma * m;
            p = beta * p + grad(ahead);
            m = gamma * m + p;
            z = z - eta * p;
        }
        values free;
    }
";

fn main() {
    let (recipe, problems) = pipeline::front(RECIPE);
    let recipe = recipe.unwrap_or_else(|| panic!("{problems:?}"));
    let options = Options::default();
    let stages = [Stage::Update, Stage::Backward];
    let derived = pipeline::derived(&recipe, &stages, &options);
    print!("{}", emit::text::print(&pipeline::documented(&derived, &stages)));

    let unrolled = unroll(&recipe, 3, &Default::default()).unwrap_or_else(|stop| panic!("{stop:?}"));
    println!("\nz after three layers is z before them, plus");
    for (layer, weight) in &unrolled.result().outputs {
        println!("    f of layer {layer} times {}", language::print(weight));
    }
    let report = verify::verify(&recipe, &options);
    println!("\nverified: {}", if report.passed() { "every line holds" } else { "NO" });
}
