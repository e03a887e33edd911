//! Compiles the recipes beside this file into modules of the crate.

fn main() {
    energyc::build::compile(
        ["cauchy.recipe", "cosine.recipe", "curved.recipe", "mixture.recipe"],
        energyc::pipeline::Target::Cpu,
    );
}
