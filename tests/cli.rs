//! The real binary, as a user runs it: every subcommand, its exit codes, and what it does to files.

mod binary;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use binary::{Run, command, run_in};
use energyc::diagnostic::Code;
use serde_json::Value;
use tempfile::TempDir;

const STAGES: [&str; 5] = ["energy", "gradient", "hessian", "update", "backward"];

impl Run {
    #[track_caller]
    fn stays_silent(self) -> Run {
        assert_eq!((self.out.as_str(), self.err.as_str()), ("", ""));
        self
    }
}

/// Runs where there are no files.
fn run(args: &[&str]) -> Run {
    run_in(folder().path(), args)
}

fn run_with_input(args: &[&str], input: &[u8]) -> Run {
    let folder = folder();
    let mut command = command(folder.path(), args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    // A reader that refuses early closes the pipe; what it says is what counts.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("it ends").into()
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn file(folder: &TempDir, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).expect("written");
    path
}

fn recipes() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes");
    let paths = fs::read_dir(folder).expect("recipes").map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == "recipe")).collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    path.file_stem().expect("a name").to_string_lossy().into_owned()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

const GOOD: &str = "recipe good { local dot; global lse; optimizer gd; }";
const TIED: &str = "recipe tied { local dot; global lse; optimizer gd; values tied; }";
const MISSPELT: &str = "recipe bad { local dott; global lse; optimizer gd; }";
const LIBRARY: &str = "local far() { E = norm(q - k)^4 }";
const UGLY: &str =
    "// above\nrecipe   good{local dot;// beside\n global lse;\n\n\n\n/* inside */ optimizer gd ;}\n// below\n";

// ---- usage ----

#[test]
fn help_and_version() {
    run(&["--help"]).exits(0).prints("Usage: energyc").prints("derive");
    run(&["--version"]).exits(0).prints("energyc 0.");
    run(&[]).exits(2).says("Usage: energyc");
    let commands =
        ["check", "derive", "verify", "equiv", "cost", "skips", "fmt", "list", "new", "explain", "completions"];
    for command in commands {
        run(&[command, "--help"]).exits(0).prints("Examples:\n  energyc ");
    }
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let folder = folder();
    file(&folder, "good.recipe", GOOD);
    for args in [
        &["chekc"][..],
        &["check"],
        &["derive"],
        &["derive", "good.recipe", "extra"],
        &["derive", "good.recipe", "--stage", "hesian"],
        &["derive", "good.recipe", "--format", "pdf"],
        &["check", "good.recipe", "--color", "blue"],
        &["verify"],
        &["equiv", "good.recipe"],
        &["skips"],
        &["skips", "good.recipe"],
        &["fmt"],
        &["new"],
        &["completions", "tcl"],
        &["explain", "E9999"],
        &["list", "--nonsense"],
    ] {
        run_in(folder.path(), args).exits(2);
    }
}

// ---- files ----

#[test]
fn files_that_cannot_be_read_are_exit_code_1() {
    let folder = folder();
    file(&folder, "latin.recipe", b"// caf\xe9\n");
    file(&folder, "empty.recipe", "");
    file(&folder, "huge.recipe", vec![b' '; (1 << 20) + 1]);
    fs::create_dir(folder.path().join("dir.recipe")).expect("a directory");
    let cases = [
        ("missing.recipe", "E0004"),
        ("dir.recipe", "E0003"),
        ("latin.recipe", "E0001"),
        ("empty.recipe", "E0002"),
        ("huge.recipe", "E0005"),
    ];
    for (name, code) in cases {
        for subcommand in ["check", "derive", "verify", "cost", "fmt"] {
            run_in(folder.path(), &[subcommand, name]).exits(1).says(code).says(name);
        }
        run_in(folder.path(), &["equiv", "softmax", name]).exits(1).says(code);
        run_in(folder.path(), &["equiv", name, "softmax"]).exits(1).says(code);
        run_in(folder.path(), &["skips", name, "--layers", "2"]).exits(1).says(code);
    }
}

#[test]
fn standard_input_is_a_file() {
    run_with_input(&["check", "-"], GOOD.as_bytes()).exits(0).prints("1 file, no problems");
    run_with_input(&["derive", "-"], GOOD.as_bytes()).exits(0).prints("Gradient");
    run_with_input(&["check", "-"], MISSPELT.as_bytes()).exits(1).says("<stdin>:1:20");
    run_with_input(&["check", "-"], b"\xff").exits(1).says("E0001");
    run_with_input(&["check", "-"], &vec![b'('; 32 << 20]).exits(1).says("E0005");
}

#[test]
fn shipped_recipes_are_in_the_binary_but_files_win() {
    for argument in ["softmax", "softmax.recipe"] {
        run(&["derive", argument]).exits(0).prints("softmax\n");
    }
    let folder = folder();
    file(&folder, "softmax.recipe", MISSPELT);
    run_in(folder.path(), &["check", "softmax.recipe"]).exits(1).says("E0201");
    run_in(folder.path(), &["check", "softmax"]).exits(0);
    run(&["check", "softmx"]).exits(1).says("did you mean `softmax`?");
}

// ---- check ----

#[test]
fn check_reports_everything_in_every_file() {
    let folder = folder();
    file(&folder, "good.recipe", GOOD);
    file(&folder, "library.recipe", LIBRARY);
    file(&folder, "bad.recipe", MISSPELT);
    file(&folder, "worse.recipe", "recipe r { local dot(; }");
    let good = run_in(folder.path(), &["check", "good.recipe", "library.recipe"]).exits(0);
    assert_eq!((good.out.as_str(), good.err.as_str()), ("2 files, no problems\n", ""));
    run_in(folder.path(), &["check", "bad.recipe", "good.recipe", "worse.recipe"])
        .exits(1)
        .says("error[E0201]: there is no local energy called `dott`")
        .says("did you mean `dot`?")
        .says("bad.recipe:1:20")
        .says("worse.recipe");
    run_in(folder.path(), &["derive", "library.recipe"]).exits(1).says("E0505");
}

#[test]
fn warnings_are_no_errors() {
    let folder = folder();
    file(&folder, "r.recipe", "recipe r { local dot() { E = -dot(q, k) } global lse; optimizer gd; }");
    run_in(folder.path(), &["check", "r.recipe"]).exits(0).says("W0002").prints("1 file, no errors\n");
    run_in(folder.path(), &["derive", "r.recipe"]).exits(0).says("W0002").prints("Update");
}

#[test]
fn colors_are_as_wished() {
    let folder = folder();
    file(&folder, "bad.recipe", MISSPELT);
    let messages = |color: &str| run_in(folder.path(), &["check", "bad.recipe", "--color", color]).exits(1).err;
    assert!(messages("always").contains('\u{1b}'));
    assert!(!messages("never").contains('\u{1b}'));
    assert!(!messages("auto").contains('\u{1b}'));
}

#[test]
fn deep_and_long_files_end_with_a_message() {
    let nested = |n: usize| format!("local l() {{ E = {}q{} }}", "(".repeat(n), ")".repeat(n));
    let signs = format!("local l() {{ E = {}1 }}", "-".repeat(500_000));
    let powers = format!("local l() {{ E = 2{} }}", "^2".repeat(400_000));
    let sums = format!("local l() {{ E = norm(q - k){} }}", " + norm(q - k)".repeat(70_000));
    for text in [nested(100), nested(500_000), signs, powers, sums] {
        run_with_input(&["check", "-"], text.as_bytes()).exits(1).says("E0006");
        run_with_input(&["fmt", "-"], text.as_bytes()).exits(1).says("E0006");
    }
}

// ---- derive ----

#[test]
fn every_shipped_recipe_checks_and_derives_in_every_form() {
    let check = |path: &PathBuf| {
        let name = name_of(path);
        run(&["check", &name]).exits(0).prints("no problems");
        for stage in STAGES {
            let derive = |format| run(&["derive", &name, "--stage", stage, "--format", format]).exits(0).out;
            assert!(derive("text").starts_with(&format!("{name}\n")));
            let latex = derive("latex");
            assert!(latex.starts_with("\\documentclass") && latex.trim_end().ends_with("\\end{document}"), "{latex}");
            let value = json(&derive("json"));
            assert_eq!(value["recipe"], name);
            let lines = value["stages"][stage].as_array().expect("lines");
            assert!(!lines.is_empty(), "{name} {stage}");
            assert!(value.get("proofs").is_none());
        }
    };
    let recipes = recipes();
    let halves = recipes.chunks(recipes.len().div_ceil(2));
    std::thread::scope(|scope| {
        halves.for_each(|half| {
            scope.spawn(|| half.iter().for_each(check));
        });
    });
}

#[test]
fn stages_come_in_order_and_default_to_the_forward_ones() {
    let headings = |args: &[&str]| -> Vec<String> {
        let text = run(args).exits(0).out;
        let blocks = text.split("\n\n").skip(1);
        blocks.map(|block| block.lines().next().unwrap_or("").to_string()).collect()
    };
    assert_eq!(headings(&["derive", "softmax"]), ["Energy", "Gradient", "Update"]);
    assert_eq!(headings(&["derive", "softmax", "--stage", "update,energy,update"]), ["Energy", "Update"]);
    let both = ["derive", "softmax", "--stage", "backward", "--stage", "hessian"];
    assert_eq!(headings(&both), ["Hessian", "Backward"]);
}

#[test]
fn the_usual_attention_comes_out() {
    run(&["derive", "softmax"]).exits(0).prints("o_h = Σ_i p_i v_i\n").prints("p_i = exp(q·k_i/T)/Z");
}

#[test]
fn proofs_are_replayed() {
    let folder = folder();
    file(&folder, "tied.recipe", TIED);
    let text = run_in(folder.path(), &["derive", "tied.recipe", "--proof"]).exits(0).out;
    let last = text.lines().last().expect("a line");
    assert!(last.ends_with(", replayed"), "{text}");
    let latex = run(&["derive", "huber", "--proof", "--format", "latex"]).exits(0).out;
    let (_, after) = latex.split_once("\\end{document}\n").expect("a whole file");
    assert!(after.lines().all(|line| line.starts_with('%')), "{after}");
    assert!(after.ends_with(", replayed\n"), "{after}");
    for path in recipes() {
        let stages = STAGES.join(",");
        let args = ["derive", &name_of(&path), "--proof", "--format", "json", "--stage", &stages];
        let value = json(&run(&args).exits(0).out);
        let proofs = value["proofs"].as_array().expect("proofs");
        assert!(proofs.len() >= STAGES.len());
        for proof in proofs {
            assert_eq!(proof["replayed"], true);
            for step in proof["steps"].as_array().expect("steps") {
                assert!(step["rule"].is_string() && step["forward"].is_boolean(), "{step}");
                assert!(step["from"].is_string() && step["to"].is_string(), "{step}");
            }
        }
    }
}

/// A crowd of terms: more than the e-graph may hold.
const CROWDED: &str = "recipe crowded {
    local crowded(a = learn(1), b = learn(2), c = learn(3)) {
        E = (a * norm(q - k)^2 + b * dot(q, k)) * (b * norm(q)^2 + c * dot(q, k)) * (c * norm(k)^2 + a * dot(q, k))
    }
    global    lse(T = 1);
    optimizer gd;
}
";

#[test]
fn a_search_that_hits_its_limits_is_right_and_says_so() {
    let folder = folder();
    file(&folder, "crowded.recipe", CROWDED);
    run_in(folder.path(), &["derive", "crowded.recipe", "--stage", "hessian"]).exits(0).says("W0001").prints("Hessian");
    run_in(folder.path(), &["verify", "crowded.recipe"]).exits(0).prints("✓");
}

#[test]
fn latex_compiles() {
    let engine = ["pdflatex", "tectonic"].into_iter().find(|engine| {
        let found = Command::new(engine).arg("--version").output();
        found.is_ok_and(|output| output.status.success())
    });
    let Some(engine) = engine else {
        println!("skipped: neither pdflatex nor tectonic is installed");
        return;
    };
    let folder = folder();
    let mut problems = Vec::new();
    for path in recipes() {
        let (name, stages) = (name_of(&path), STAGES.join(","));
        let latex = run(&["derive", &name, "--stage", &stages, "--format", "latex", "--proof"]).exits(0).out;
        file(&folder, &format!("{name}.tex"), latex);
        let mut command = Command::new(engine);
        if engine == "pdflatex" {
            command.args(["-interaction=nonstopmode", "-halt-on-error"]);
        }
        let output = command.arg(format!("{name}.tex")).current_dir(folder.path()).output().expect("it starts");
        if !output.status.success() {
            let log = String::from_utf8_lossy(&output.stdout).into_owned();
            let complaint = log.lines().find(|line| line.starts_with('!')).unwrap_or(&log);
            problems.push(format!("{name}: {complaint}"));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

// ---- verify, equiv, cost ----

#[test]
fn verify_prints_a_table() {
    let folder = folder();
    file(&folder, "tied.recipe", TIED);
    run_in(folder.path(), &["verify", "tied.recipe"]).exits(0).prints("✓  gradient").prints(" verified");
    run_in(folder.path(), &["verify", "missing.recipe"]).exits(1).says("E0004");
    run_with_input(&["verify", "-"], MISSPELT.as_bytes()).exits(1).says("E0201");
}

#[test]
fn equiv_proves_or_refutes() {
    let folder = folder();
    file(&folder, "good.recipe", GOOD);
    file(&folder, "tied.recipe", TIED);
    for (other, words) in [("softmax", "term by term"), ("qknorm", "by sum-hoist")] {
        let same = run_in(folder.path(), &["equiv", "good.recipe", other]).exits(0).prints(words);
        assert!(same.out.starts_with("proven\n"), "{same:?}");
    }
    for other in ["tied.recipe", "linear"] {
        let differ = run_in(folder.path(), &["equiv", "good.recipe", other]).exits(1);
        assert!(differ.out.starts_with("differ\n    "), "{differ:?}");
    }
    file(&folder, "bad.recipe", MISSPELT);
    run_in(folder.path(), &["equiv", "bad.recipe", "missing"]).exits(1).says("E0201").says("E0004");
}

#[test]
fn cost_counts_before_and_after() {
    run(&["cost", "softmax"]).exits(0).prints("N = 512, d = 512, d_h = 64, H = 8").prints("4·N²·d_h").prints("8·N·d²");
    // Which form is cheaper depends on the sizes.
    let long = run(&["cost", "linear", "--sizes", "N=2048, H=4"]).exits(0);
    let long = long.prints("N = 2048, d = 512, d_h = 64, H = 4").out;
    let short = run(&["cost", "linear", "--sizes", "N=4,d_h=512"]).exits(0).out;
    let after =
        |text: &str| text.lines().find(|line| line.trim_start().starts_with("after ")).expect("a row").to_string();
    assert!(after(&long).contains("4·N·d_h²") && !after(&long).contains("N²·d_h"), "{long}");
    assert!(after(&short).contains("N²·d_h") && !after(&short).contains("N·d_h²"), "{short}");
    for sizes in ["", "N", "N=0", "N=x", "M=3", "N=1,N=2", "N=1;d=2", "N=99999999999999999999"] {
        run(&["cost", "softmax", "--sizes", sizes]).exits(2).says("--sizes");
    }
}

#[test]
fn simplification_never_costs_more() {
    for path in recipes() {
        let text = run(&["cost", &name_of(&path)]).exits(0).out;
        let value = |line: &str| -> f64 {
            let digits: String = line.split("  ").find(|cell| cell.contains(',')).expect("a value").replace(',', "");
            digits.trim().trim_start_matches("after").trim().parse().expect("a number")
        };
        let rows = text.lines().filter(|line| line.starts_with("    ") && !line.contains("O("));
        let values: Vec<f64> = rows.map(value).collect();
        assert_eq!(values.len(), 8, "{text}");
        assert!(values.chunks(2).all(|pair| pair[1] <= pair[0]), "{text}");
    }
}

// ---- fmt ----

#[test]
fn fmt_keeps_comments_and_is_idempotent() {
    let folder = folder();
    let path = file(&folder, "ugly.recipe", UGLY);
    run_in(folder.path(), &["fmt", "ugly.recipe"]).exits(0).says("formatted ugly.recipe");
    let once = fs::read_to_string(&path).expect("text");
    assert_ne!(once, UGLY);
    for comment in ["// above", "// beside", "/* inside */", "// below"] {
        assert!(once.contains(comment), "{once}");
    }
    run_in(folder.path(), &["fmt", "ugly.recipe"]).exits(0).stays_silent();
    assert_eq!(fs::read_to_string(&path).expect("text"), once);
    run_in(folder.path(), &["fmt", "--check", "ugly.recipe"]).exits(0).stays_silent();
    let piped = run_with_input(&["fmt", "-"], UGLY.as_bytes()).exits(0);
    assert_eq!((piped.out, piped.err), (once, String::new()));
    assert_eq!(fs::read_dir(folder.path()).expect("entries").count(), 1, "no temporary file is left");
}

#[test]
fn fmt_check_changes_nothing() {
    let folder = folder();
    let path = file(&folder, "ugly.recipe", UGLY);
    file(&folder, "bad.recipe", "recipe {");
    let found = run_in(folder.path(), &["fmt", "--check", "ugly.recipe"]).exits(1);
    assert_eq!(found.out, "ugly.recipe\n");
    run_in(folder.path(), &["fmt", "bad.recipe", "ugly.recipe", "--check"])
        .exits(1)
        .says("E0102")
        .prints("ugly.recipe");
    assert_eq!(fs::read_to_string(path).expect("text"), UGLY);
    assert_eq!(run_with_input(&["fmt", "--check", "-"], UGLY.as_bytes()).exits(1).out, "<stdin>\n");
}

#[test]
fn fmt_leaves_wrong_files_alone_and_formats_the_others() {
    let folder = folder();
    let bad = file(&folder, "bad.recipe", "recipe   r {");
    let ugly = file(&folder, "ugly.recipe", UGLY);
    run_in(folder.path(), &["fmt", "bad.recipe", "ugly.recipe", "softmax"]).exits(1).says("E0102").says("E0004");
    assert_eq!(fs::read_to_string(bad).expect("text"), "recipe   r {");
    assert_ne!(fs::read_to_string(ugly).expect("text"), UGLY);
}

#[test]
fn the_shipped_files_are_in_house_style() {
    let paths: Vec<String> = recipes().iter().map(|path| path.display().to_string()).collect();
    let args: Vec<&str> = ["fmt", "--check"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    run(&args).exits(0).stays_silent();
}

#[cfg(unix)]
#[test]
fn fmt_keeps_permissions_and_links() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = folder();
    let path = file(&folder, "ugly.recipe", UGLY);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("permissions");
    symlink("ugly.recipe", folder.path().join("link.recipe")).expect("a link");
    run_in(folder.path(), &["fmt", "link.recipe"]).exits(0);
    assert!(fs::symlink_metadata(folder.path().join("link.recipe")).expect("a link").is_symlink());
    assert_ne!(fs::read_to_string(&path).expect("text"), UGLY);
    assert_eq!(fs::metadata(&path).expect("metadata").permissions().mode() & 0o777, 0o640);
}

#[cfg(unix)]
#[test]
fn fmt_fails_clearly_where_it_may_not_write() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let path = file(&folder, "ugly.recipe", UGLY);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("permissions");
    run_in(folder.path(), &["fmt", "ugly.recipe"]).exits(1).says("cannot write `ugly.recipe`").says("read-only");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("permissions");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).expect("permissions");
    if fs::write(folder.path().join("probe"), "").is_ok() {
        println!("skipped: this user may write into read-only directories");
    } else {
        run_in(folder.path(), &["fmt", "ugly.recipe"]).exits(1).says("cannot write `ugly.recipe`");
        run_in(folder.path(), &["new", "mine"]).exits(1).says("cannot write `mine.recipe`");
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    assert_eq!(fs::read_to_string(path).expect("text"), UGLY);
}

// ---- list, new, explain, completions ----

#[test]
fn list_names_ingredients_and_recipes() {
    let run_list = |format: &str| run(&["list", "--format", format]).exits(0).out;
    let (text, value) = (run_list("text"), json(&run_list("json")));
    for ingredient in &energyc::prelude::load().ingredients {
        let name = format!("{}(", ingredient.name.text);
        assert!(text.contains(&format!("  {name}")), "{text}");
        let entries = value["ingredients"][ingredient.kind.as_str()].as_array().expect("entries");
        let entry = entries.iter().find(|entry| entry["name"].as_str().expect("a name").starts_with(&name));
        let entry = entry.unwrap_or_else(|| panic!("no {name}"));
        assert!(["formula", "about"].iter().all(|key| entry[key].as_str().is_some_and(|text| !text.is_empty())));
    }
    let entries = value["recipes"].as_array().expect("recipes");
    assert_eq!(entries.len(), recipes().len());
    for (entry, path) in entries.iter().zip(recipes()) {
        assert_eq!(entry["name"], name_of(&path));
        assert!(entry["formula"].as_str().is_some_and(|formula| formula.starts_with("o = ")), "{entry}");
        assert!(text.contains(&format!("  {}  ", name_of(&path))), "{text}");
    }
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_is_no_error() {
    let program = env!("CARGO_BIN_EXE_energyc");
    for args in ["list", "list --format json", "explain", "completions bash", "--help", "derive huber --proof"] {
        let script = format!("'{program}' {args} | true; echo ${{PIPESTATUS[0]}}");
        let output = Command::new("bash").args(["-c", &script]).output().expect("bash");
        let run = Run::from(output).exits(0);
        assert_eq!((run.out.trim(), run.err.as_str()), ("0", ""), "{args}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let mut command = command(Path::new("/"), &["list"]);
    command.stdout(fs::File::create("/dev/full").expect("/dev/full"));
    let run = Run::from(command.output().expect("it starts"));
    assert!(run.code != 0 && run.err.contains("cannot write the results"), "{run:?}");
}

#[test]
fn new_writes_a_recipe_that_works() {
    let folder = folder();
    run_in(folder.path(), &["new", "mine"]).exits(0).prints("wrote mine.recipe");
    let path = folder.path().join("mine.recipe");
    let text = fs::read_to_string(&path).expect("text");
    assert!(text.contains("recipe mine {"), "{text}");
    run_in(folder.path(), &["check", "mine.recipe"]).exits(0).prints("no problems");
    run_in(folder.path(), &["fmt", "--check", "mine.recipe"]).exits(0);
    run_in(folder.path(), &["derive", "mine.recipe"]).exits(0).prints("mine\n");
    run_in(folder.path(), &["verify", "mine.recipe"]).exits(0);
    run_in(folder.path(), &["new", "other", "-o", "elsewhere.recipe"]).exits(0);
    run_in(folder.path(), &["check", "elsewhere.recipe"]).exits(0);
    assert_eq!(fs::read_dir(folder.path()).expect("entries").count(), 2, "no temporary file is left");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(&path).expect("metadata").permissions().mode();
        assert_eq!(mode & 0o600, 0o600);
    }
}

#[test]
fn new_refuses_what_it_should() {
    let folder = folder();
    let path = file(&folder, "mine.recipe", "precious");
    run_in(folder.path(), &["new", "mine"]).exits(1).says("cannot write `mine.recipe`: it exists already");
    run_in(folder.path(), &["new", "other", "-o", "mine.recipe"]).exits(1).says("exists");
    assert_eq!(fs::read_to_string(path).expect("text"), "precious");
    run_in(folder.path(), &["new", "x", "-o", "no/such/folder/x.recipe"]).exits(1).says("cannot write");
    for name in ["2a", "a b", "a-b", "", "recipe", "../x", "a.recipe", "x{}"] {
        run_in(folder.path(), &["new", name]).exits(2);
    }
    assert_eq!(fs::read_dir(folder.path()).expect("entries").count(), 1);
}

#[test]
fn explain_knows_every_code() {
    let table = run(&["explain"]).exits(0).out;
    assert_eq!(table.lines().count(), Code::ALL.len());
    for code in Code::ALL {
        let text = run(&["explain", code.as_str()]).exits(0).out;
        assert_eq!(text, code.explanation());
        assert!(table.contains(&format!("{code}  {}", code.title())));
    }
    run(&["explain", "e0201"]).exits(0);
    run(&["explain", "E02011"]).exits(2).says("did you mean `E0201`?");
    run(&["explain", "nonsense"]).exits(2).says("no such code");
}

#[test]
fn completions_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]).exits(0).out;
        assert!(script.contains("energyc") && script.contains("derive"), "{shell}");
        // The shell itself says whether the script is well-formed, where there is one.
        let file = folder();
        let path = self::file(&file, "script", &script);
        if let Ok(output) = Command::new(shell).arg("-n").arg(&path).output() {
            assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}
