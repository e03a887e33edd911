//! Habits the compiler's sources keep: a module comment first, stages that look only back, no names of ingredients.

use std::path::{Path, PathBuf};

/// The stages in order; a stage may use those before it and nothing after.
const STAGES: [&str; 23] = [
    "span",
    "diagnostic",
    "syntax",
    "prelude",
    "ir",
    "check",
    "calculus",
    "notation",
    "simplify",
    "derive",
    "emit",
    "primitives",
    "plan",
    "interpret",
    "kernel",
    "verify",
    "equiv",
    "feasible",
    "analyze",
    "skips",
    "pipeline",
    "build",
    "cli",
];

fn sources() -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, out: &mut Vec<(PathBuf, String)>) {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("entry").path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                walk(&path, out);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source file");
                out.push((path, text));
            }
        }
    }
    let mut out = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut out);
    out
}

/// Code without the tests at a file's bottom and without comments.
fn code(text: &str) -> String {
    let body = text.split("#[cfg(test)]").next().unwrap_or(text);
    body.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_file_opens_with_a_module_comment() {
    for (path, text) in sources() {
        assert!(text.starts_with("//! "), "{} does not say what it is for", path.display());
    }
}

#[test]
fn stages_import_only_from_earlier_stages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (path, text) in sources() {
        let relative = path.strip_prefix(&root).expect("inside src");
        let own = relative.components().next().expect("a component").as_os_str().to_string_lossy().replace(".rs", "");
        let Some(position) = STAGES.iter().position(|s| *s == own) else { continue };
        for later in &STAGES[position + 1..] {
            let import = format!("crate::{later}");
            assert!(!code(&text).contains(&import), "{} imports from the later stage `{later}`", path.display());
        }
    }
}

#[test]
fn no_compiler_code_names_an_ingredient_or_a_recipe() {
    let prelude = energyc::prelude::load();
    let recipes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes");
    let recipes = std::fs::read_dir(recipes).expect("recipes").map(|e| e.expect("entry").path());
    let names = prelude.ingredients.iter().map(|i| i.name.text.clone()).chain(
        recipes
            .filter(|p| p.extension().is_some_and(|e| e == "recipe"))
            .map(|p| p.file_stem().expect("a stem").to_string_lossy().to_string()),
    );
    // These are words of the language or of mathematics as well.
    let words = ["dot", "lse", "tsallis", "softmax", "normmax", "entmax", "linear"];
    let names: Vec<String> = names.filter(|n| !words.contains(&n.as_str())).collect();
    for (path, text) in sources() {
        // The list of shipped recipes, help examples and property tests speak of recipes by design.
        if path.components().any(|c| c.as_os_str() == "cli")
            || path.ends_with("diagnostic/code.rs")
            || path.ends_with("syntax/properties.rs")
        {
            continue;
        }
        for name in &names {
            let quoted = format!("\"{name}\"");
            assert!(!code(&text).contains(&quoted), "{} mentions {quoted}", path.display());
        }
    }
}

#[test]
fn no_code_is_left_in_comments() {
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let is_code = line.starts_with("// let ")
                || line.starts_with("// fn ")
                || line.ends_with(");") && line.starts_with("// ");
            assert!(!is_code, "{}:{} holds disabled code", path.display(), number + 1);
        }
    }
}
