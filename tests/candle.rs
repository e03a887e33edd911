//! The candle target: every shipped recipe as a layer, one whose names are those of other things, and one that does not look
//! at the query, in a crate of its own that has nothing but the crates the files ask for. `candle/layers.rs` is what runs
//! there.

use energyc::kernel::users;
use energyc::pipeline::{self, Target};
use energyc::simplify::Options;
use std::path::{Path, PathBuf};
use std::process::Command;

const MANIFEST: &str = "[package]\nname = \"layers\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
    [workspace]\n\n[profile.dev]\nopt-level = 1\ndebug = false\nincremental = false\n\n[dependencies]\n";

/// The crates an emitted file says it needs.
fn dependencies(source: &str) -> String {
    let lines = source.lines().skip_while(|line| *line != "//! ```toml").skip(1);
    lines.take_while(|line| *line != "//! ```").map(|line| line.trim_start_matches("//! ").to_string() + "\n").collect()
}

fn write(path: &Path, text: &str) {
    // A file that stays the same keeps its time, so that nothing is built twice.
    if std::fs::read_to_string(path).ok().as_deref() != Some(text) {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder to write to");
        std::fs::write(path, text).expect("a file to write");
    }
}

#[test]
fn layers_compute_and_learn() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut recipes: Vec<PathBuf> = std::fs::read_dir(root.join("recipes"))
        .expect("recipes")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "recipe"))
        .collect();
    recipes.sort();
    recipes.extend(["tests/names/match.recipe", "tests/candle/without_query.recipe"].map(|path| root.join(path)));
    let crate_root = root.join("target/layers");
    let [mut modules, mut subjects, mut checks, mut needed] = std::array::from_fn(|_| String::new());
    for path in &recipes {
        let text = std::fs::read_to_string(path).expect("a recipe");
        let recipe = pipeline::front(&text).0.expect("a recipe without mistakes");
        let source = pipeline::compile(&recipe, Target::Candle, &Options::default()).expect("a layer");
        let name = &recipe.name;
        let kind = if recipe.program.states.is_empty() { "stateless" } else { "stateful" };
        let module = users::identifier(name);
        modules += &format!("pub mod {module};\n");
        subjects += &format!("{kind}!({module});\n");
        checks += &format!("check::<layers::{module}::Layer>(\"{name}\")?;\n");
        needed = dependencies(&source);
        write(&crate_root.join(format!("src/{name}.rs")), &source);
    }
    write(&crate_root.join("Cargo.toml"), &format!("{MANIFEST}{needed}"));
    write(&crate_root.join("src/lib.rs"), &format!("#![deny(warnings)]\n{modules}"));
    let harness = include_str!("candle/layers.rs");
    let harness = harness.replace("/* subjects */", &subjects).replace("/* checks */", &checks);
    write(&crate_root.join("src/main.rs"), &harness);
    let status = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--manifest-path"])
        .arg(crate_root.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", crate_root.join("target"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the layers do not do what they should");
}
