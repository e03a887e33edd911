//! Emitted sources as modules of a crate that is built and run.
//!
//! The crates lie in the build folder, `target/fuzz/…`, and have the versions of the workspace's lock file. A module that rustc
//! refuses is named by the errors' places, left out, and the rest is built again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A crate to be.
pub struct Crate<'a> {
    pub name: &'a str,
    /// Lines of a manifest.
    pub dependencies: &'a str,
    /// Sources; the i-th becomes the module `m{i}`.
    pub modules: &'a [String],
    /// The program, given the modules that are left.
    pub main: &'a dyn Fn(&[usize]) -> String,
}

/// A built program, and what rustc said about modules it refused.
pub struct Built {
    pub program: PathBuf,
    pub refused: BTreeMap<usize, String>,
}

/// The workspace this crate is part of.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn write(path: &Path, text: &str) {
    // A file that stays the same keeps its time, so that nothing is built twice.
    if std::fs::read_to_string(path).ok().as_deref() != Some(text) {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder to write to");
        std::fs::write(path, text).expect("a file to write");
    }
}

/// Builds a crate. The modules are not optimized, which would take most of the time; what they call is.
pub fn build(what: &Crate) -> Built {
    let root = workspace().join("target/fuzz").join(what.name);
    let manifest = format!(
        "[package]\nname = \"{}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [profile.dev]\nopt-level = 0\ndebug = false\nincremental = false\ncodegen-units = 64\n\n\
         [profile.dev.package.\"*\"]\nopt-level = 1\n\n[dependencies]\n{}",
        what.name, what.dependencies
    );
    write(&root.join("Cargo.toml"), &manifest);
    if !root.join("Cargo.lock").exists() {
        std::fs::copy(workspace().join("Cargo.lock"), root.join("Cargo.lock")).expect("the workspace's lock file");
    }
    let mut refused: BTreeMap<usize, String> = BTreeMap::new();
    loop {
        let left: Vec<usize> = (0..what.modules.len()).filter(|i| !refused.contains_key(i)).collect();
        for i in &left {
            write(&root.join(format!("src/m{i}.rs")), &what.modules[*i]);
        }
        let declared: String = left.iter().map(|i| format!("#[allow(warnings)]\nmod m{i};\n")).collect();
        write(&root.join("src/main.rs"), &format!("{declared}{}", (what.main)(&left)));
        let output = cargo(&root, true);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // The first build of all may have to fetch what no other crate of the workspace needs.
        let is_missing = !output.status.success() && errors_by_module(&said).is_empty();
        let output = if is_missing { cargo(&root, false) } else { output };
        if output.status.success() {
            return Built { program: workspace().join("target/fuzz/target/debug").join(what.name), refused };
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let errors = errors_by_module(&said);
        assert!(!errors.is_empty(), "a crate of emitted files cannot be built:\n{said}");
        refused.extend(errors);
    }
}

fn cargo(root: &Path, is_offline: bool) -> Output {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--message-format=short", "--manifest-path"]).arg(root.join("Cargo.toml"));
    if is_offline {
        command.arg("--offline");
    }
    command.env("CARGO_TARGET_DIR", workspace().join("target/fuzz/target"));
    command.output().expect("cargo runs")
}

/// The first error of every module.
fn errors_by_module(said: &str) -> BTreeMap<usize, String> {
    let mut errors = BTreeMap::new();
    for line in said.lines() {
        let Some((place, rest)) = line.split_once(": error") else { continue };
        let file = place.split(':').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let number = file.strip_prefix('m').and_then(|name| name.strip_suffix(".rs")).and_then(|n| n.parse().ok());
        if let Some(number) = number {
            errors.entry(number).or_insert_with(|| format!("error{rest}\n    at {place}"));
        }
    }
    errors
}
