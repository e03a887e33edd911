//! What the compiler says about wrong files: one fixture in `tests/err` and one snapshot for each mistake, and the
//! promise that no input whatever makes it panic.

use std::fs;
use std::path::{Path, PathBuf};

use energyc::check::{Recipe, check};
use energyc::diagnostic::{Code, Diagnostic, render_all};
use energyc::prelude;
use energyc::span::Source;
use energyc::syntax::{parse, read_source};
use proptest::prelude::*;

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests")
}

/// As the command line does it.
fn compile(text: &str) -> (Option<Recipe>, Vec<Diagnostic>) {
    energyc::pipeline::front(text)
}

fn recipe_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == "recipe")).collect();
    files.sort();
    files
}

fn name_of(path: &Path) -> String {
    path.file_stem().expect("a name").to_string_lossy().into_owned()
}

#[test]
fn fixtures() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(tests().join("snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for path in recipe_files(&tests().join("err")) {
            let name = name_of(&path);
            let source = Source::new(format!("{name}.recipe"), fs::read_to_string(&path).expect("text"));
            let (recipe, diagnostics) = compile(&source.text);
            assert!(recipe.is_none(), "{name} compiles");
            insta::assert_snapshot!(format!("diagnostics__{name}"), render_all(&diagnostics, &source, false));
        }
    });
}

#[test]
fn the_recipes_are_right() {
    for path in recipe_files(&tests().join("../recipes")) {
        let source = Source::new(name_of(&path), fs::read_to_string(&path).expect("text"));
        let (recipe, diagnostics) = compile(&source.text);
        assert_eq!(render_all(&diagnostics, &source, false), "");
        assert_eq!(recipe.expect("a recipe").name, source.name, "a recipe is called as its file");
    }
}

fn check_codes(bytes: Vec<u8>, expect: &[Code]) {
    let diagnostics = match read_source(bytes, "generated.recipe") {
        Ok(source) => compile(&source.text).1,
        Err(diagnostic) => vec![diagnostic],
    };
    let codes: Vec<Code> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(codes, expect, "{}", diagnostics.iter().map(|d| format!("{}\n", d.message)).collect::<String>());
}

fn check_energy(energy: &str, expect: &[Code]) {
    let text = format!("recipe r {{ local mine() {{ {energy} }} global lse; optimizer gd; }}");
    check_codes(text.into_bytes(), expect);
}

#[test]
fn odd_files_are_refused() {
    check_codes(b"recipe \xff\xfe".to_vec(), &[Code::NotUtf8]);
    check_codes(b"".to_vec(), &[Code::EmptyFile]);
    check_codes(b" \n// nothing\n".to_vec(), &[Code::EmptyFile]);
    check_codes(vec![b'x'; 10_000_000], &[Code::FileTooLarge]);
    let deep = format!("E = {}1{}", "(".repeat(10_000), ")".repeat(10_000));
    check_energy(&deep, &[Code::NestingTooDeep]);
    check_energy(&format!("E = {}norm(q)", "-".repeat(10_000)), &[Code::NestingTooDeep]);
}

#[test]
fn large_terms_are_refused_quickly() {
    let doubled = |step: &str| {
        (1..60)
            .map(|i| step.replace("NEW", &format!("a{i}")).replace("OLD", &format!("a{}", i - 1)))
            .collect::<String>()
    };
    let start = "let a0 = norm(q - k);";
    check_energy(&format!("{start} {} E = a59", doubled("let NEW = max(OLD, exp(OLD));")), &[Code::NestingTooDeep]);
    check_energy(&format!("{start} {} E = a59", doubled("let NEW = exp(OLD) * OLD;")), &[Code::NestingTooDeep]);
    check_energy(&format!("{start} {} E = a59", doubled("let NEW = OLD * OLD;")), &[Code::PowerDomain]);
    check_energy(
        &format!("let a0 = 7e99; {} E = a59 * norm(q - k)", doubled("let NEW = OLD * OLD;")),
        &[Code::BadNumber],
    );
    let terms: Vec<String> = (0..1900).map(|i| format!("{i} * norm(q - k)")).collect();
    check_energy(&format!("E = {}", terms.join(" + ")), &[Code::NestingTooDeep]);
}

#[test]
fn ingredients_that_call_many_others_are_refused_quickly() {
    let level = |i: usize| format!("local a{i}() {{ E = a{}() + a{}() }}\n", i + 1, i + 1);
    let chain: String = (0..40).map(level).collect();
    let text = format!("{chain} local a40() {{ E = norm(q - k) }} recipe r {{ local a0; global lse; optimizer gd; }}");
    let (recipe, diagnostics) = compile(&text);
    assert!(recipe.is_none());
    let codes: std::collections::BTreeSet<Code> = diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(codes.into_iter().collect::<Vec<_>>(), [Code::NestingTooDeep]);
}

/// Words and signs of the language, and names of the prelude.
fn word() -> impl Strategy<Value = String> {
    let fixed = [
        "recipe",
        "local",
        "global",
        "optimizer",
        "let",
        "state",
        "if",
        "else",
        "where",
        "param",
        "values",
        "free",
        "tied",
        "constrain",
        "steps",
        "tokens",
        "fixed",
        "evolve",
        "learn",
        "gate",
        "decay",
        "sigmoid",
        "per",
        "head",
        "component",
        "query",
        "(",
        ")",
        "{",
        "}",
        ",",
        ";",
        "=",
        "==",
        "<=",
        "<",
        ">=",
        ">",
        "+",
        "-",
        "*",
        "/",
        "^",
        "0",
        "1",
        "2",
        "0.5",
        "1e300",
        "1e-300",
        "64",
        "q",
        "k",
        "z",
        "h",
        "E",
        "F",
        "N",
        "d",
        "d_h",
        "H",
        "T",
        "p",
        "x",
        "norm",
        "dot",
        "sum",
        "exp",
        "log",
        "sqrt",
        "abs",
        "sign",
        "max",
        "min",
        "tanh",
        "softplus",
        "tsallis_min",
        "norm_min",
        "grad",
        "hess",
        "solve",
        "taylor",
    ];
    let prelude = prelude::load().ingredients.iter().map(|ingredient| ingredient.name.text.clone());
    let words: Vec<String> = fixed.map(String::from).into_iter().chain(prelude).collect();
    prop::sample::select(words)
}

/// Expressions that parse, right or wrong.
fn expression() -> impl Strategy<Value = String> {
    let atoms =
        ["q", "k", "z", "E", "T", "p", "a", "w", "N", "d_h", "0", "1", "2", "3", "0.5", "1e300", "dot()", "huber()"];
    let atom = prop::sample::select(atoms.to_vec()).prop_map(String::from);
    atom.prop_recursive(5, 40, 3, |inner| {
        let unary = ["exp", "log", "sqrt", "abs", "sign", "norm", "sum", "sigmoid", "tanh", "softplus", "grad", "-"];
        let binary = ["+", "-", "*", "/", "^"];
        prop_oneof![
            (prop::sample::select(unary.to_vec()), inner.clone()).prop_map(|(f, x)| format!("{f}({x})")),
            (inner.clone(), prop::sample::select(binary.to_vec()), inner.clone())
                .prop_map(|(a, op, b)| format!("({a}) {op} ({b})")),
            (prop::sample::select(vec!["dot", "max", "min", "norm"]), inner.clone(), inner.clone())
                .prop_map(|(f, a, b)| format!("{f}({a}, {b})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("tsallis_min({a}, {b}, {c})")),
            (inner.clone(), inner.clone(), inner.clone(), prop::sample::select(vec!["<=", "<", "==", ">"]))
                .prop_map(|(a, b, c, op)| format!("if {a} {op} {b} {{ {c} }} else {{ {a} }}")),
        ]
    })
}

fn never_panics(text: &str) {
    let (file, mut diagnostics) = parse(text);
    diagnostics.extend(check(&file, prelude::load()).1);
    render_all(&diagnostics, &Source::new("random.recipe", text), false);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(source) = read_source(bytes, "random.recipe") {
            never_panics(&source.text);
        }
    }

    #[test]
    fn random_text_never_panics(text in ".{0,200}") {
        never_panics(&text);
    }

    #[test]
    fn token_soups_never_panic(words in prop::collection::vec(word(), 0..120)) {
        never_panics(&words.join(" "));
    }

    #[test]
    fn random_bodies_never_panic(e in expression(), f in expression(), g in expression(), v in expression()) {
        never_panics(&format!(
            "recipe r {{ local mine(p = 2, a = learn(1), w = learn(1, per component)) {{ let x = {e}; E = x + {f} }}
             global yours(T = {v}) {{ F = {g} }}
             optimizer ours(b = {v}) {{ state s = {v}; let y = {f}; s = {e}; z = z - b * grad(y) }} }}"
        ));
        never_panics(&format!(
            "recipe r {{ local euclidean; global yours(T = 2, p = 3) {{ let x = {e}; F = sum(T * {g} + x) }}
             optimizer ours(T = 2, a = {v}) {{ z = z - grad(z) * ({f}) }} constrain norm(q) = {v}; }}"
        ));
    }
}
