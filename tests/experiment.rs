//! Experiments: shipped files that say what the paper says, a grid that runs, goes on and is refused as it should be,
//! tests of significance against known numbers.

use energy_runtime::experiment::significance::{Sample, welch};
use energy_runtime::experiment::{assign, file::File, grid, shipped};
use energy_runtime::train::checkpoint;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const FIVE: [&str; 5] = ["softmax", "momentum", "nag", "newton_taylor", "newton_light"];

fn shipped_file(name: &str) -> File {
    shipped::read(name).expect("a shipped experiment")
}

fn cells(file: &File) -> Vec<grid::Cell> {
    grid::cells(file, &file.recipes).expect("a grid")
}

#[test]
fn every_file_is_shipped_and_can_be_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
    let entries = std::fs::read_dir(folder).expect("experiments").map(|entry| entry.expect("an entry").path());
    let stem = |path: std::path::PathBuf| path.file_stem().expect("a name").to_string_lossy().to_string();
    let mut files: Vec<String> = entries.map(stem).collect();
    let mut names: Vec<String> = shipped::SHIPPED.iter().map(|(name, _)| (*name).to_string()).collect();
    files.sort();
    names.sort();
    assert_eq!(files, names);
    for name in &names {
        let file = shipped_file(name);
        assert_eq!(file.name, *name);
        assert!(!file.about.is_empty() && !cells(&file).is_empty(), "{name}");
        assert_eq!(File::from_toml(&file.to_toml()), Ok(file), "{name}");
    }
}

#[test]
fn the_paper_s_experiments_have_the_paper_s_numbers() {
    let figure4 = shipped_file("figure4");
    assert_eq!(figure4.recipes, FIVE);
    let cells4 = cells(&figure4);
    assert_eq!(cells4.len(), 20);
    for (cell, (layers, heads)) in cells4.iter().step_by(5).zip([(6, 4), (8, 6), (8, 8), (12, 12)]) {
        let model = cell.settings.model(50257).expect("a model");
        assert_eq!((model.layers, model.heads, model.head, model.window), (layers, heads, 64, 256));
    }
    for cell in cells4.iter().chain(&cells(&shipped_file("figure5"))).chain(&cells(&shipped_file("table2"))) {
        let train = &cell.settings.train;
        assert_eq!(train.batch, if cell.size == "160m" { 16 } else { 32 });
        assert_eq!((train.epochs, train.steps, train.accumulate, train.learning_rate), (3.0, 0, 1, 1e-4));
        assert_eq!((train.adamw.beta1, train.adamw.beta2, cell.settings.model.dropout), (0.9, 0.999, 0.1));
        assert!(train.warmup > 0.0);
    }
    let shapes = |name: &str| -> Vec<(String, usize)> {
        let cells = cells(&shipped_file(name));
        grid::panels(&cells).into_iter().map(|(size, window)| (size.to_string(), window)).collect()
    };
    assert_eq!(shapes("figure5"), [("30m".to_string(), 512), ("160m".to_string(), 512)]);
    assert_eq!(shapes("table2"), [("160m".to_string(), 256)]);
    let glue = shipped_file("table2").glue.expect("GLUE");
    assert_eq!((glue.tasks.len(), glue.seeds.len(), glue.rows, glue.epochs), (7, 3, None, None));
}

#[test]
fn ingredients_are_all_shipped_recipes() {
    let mut recipes = shipped_file("ingredients-small").recipes;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes");
    let entries = std::fs::read_dir(folder).expect("recipes").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<String> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "recipe"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().to_string())
        .collect();
    files.sort();
    recipes.sort();
    assert_eq!(recipes, files);
}

#[test]
fn assignments_reach_grid_and_settings() {
    let file = shipped_file("figure4-small");
    let changed = ["seeds=7", "recipes=softmax, nag", "train.steps=5", "model.layers=1"]
        .iter()
        .try_fold(file, |file, assignment| assign::with(&file, assignment))
        .expect("known keys");
    let cells = cells(&changed);
    assert_eq!(cells.len(), 2);
    let settings = &cells[1].settings;
    // A size's own number gives way to one that is given for all.
    assert_eq!((cells[1].seed, settings.train.steps, settings.model.layers, settings.model.heads), (7, 5, 1, 4));
    let refused = |assignment: &str| assign::with(&changed, assignment).expect_err("a refusal");
    assert!(refused("seed5=1").contains("`seeds`"));
    assert!(refused("batch=3").contains("`train.batch`"));
    assert!(refused("train.batch=x").contains("train.batch"));
    assert!(refused("seeds=1,1").contains("twice"));
    assert!(refused("seeds").contains("key=value"));
    assert!(refused("seed=4").contains("`seeds` decides"));
}

/// Widely used pairs of samples with the p-values that R's `t.test` gives for them.
#[test]
fn p_values_are_the_known_ones() {
    let a = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4];
    let b = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4];
    check(&a, &b, 0.021_378_001_462_867);
    let a = [17.2, 20.9, 22.6, 18.1, 21.7, 21.4, 23.5, 24.2, 14.7, 21.8];
    let b = [
        21.5, 22.8, 21.0, 23.0, 21.6, 23.6, 22.5, 20.7, 23.4, 21.8, 20.7, 21.7, 21.5, 22.5, 23.6, 21.5, 22.5, 23.5,
        21.5, 21.8,
    ];
    check(&a, &b, 0.148_841_696_605_327);
    check(
        &[30.02, 29.99, 30.11, 29.97, 30.01, 29.99],
        &[29.89, 29.93, 29.72, 29.98, 30.02, 29.98],
        0.090_773_324_285_671,
    );
    check(&[3.0, 4.0, 1.0, 2.1], &[490.2, 340.0, 433.9], 0.010_751_561_149_785);
    // By hand: t = −√(3/2), ν = 4, and P(|T₄| ≥ t) = 1 − (3s − s³)/2 with s = t/√(4 + t²).
    let of_four = |t: f64| {
        let s = t / (4.0 + t * t).sqrt();
        1.0 - 1.5 * s + 0.5 * s.powi(3)
    };
    let found = welch(&sample(&[1.0, 2.0, 3.0]), &sample(&[2.0, 3.0, 4.0])).expect("a test");
    assert!((found.t + 1.5f64.sqrt()).abs() < 1e-12 && (found.degrees_of_freedom - 4.0).abs() < 1e-12);
    assert!((found.p - of_four(1.5f64.sqrt())).abs() < 1e-12, "{found:?}");
    assert!(welch(&sample(&[1.0]), &sample(&[1.0, 2.0])).is_none());
    assert!(welch(&sample(&[1.0, 1.0]), &sample(&[2.0, 2.0])).is_none());
}

fn sample(numbers: &[f64]) -> Sample {
    Sample::of(numbers).expect("numbers")
}

#[track_caller]
fn check(a: &[f64], b: &[f64], p: f64) {
    let found = welch(&sample(a), &sample(b)).expect("a test");
    assert!((found.p - p).abs() < 1e-12, "{found:?}");
}

const TINY: &str = r#"
name = "tiny"
about = "two recipes, two windows, two seeds on recall"
recipes = ["softmax", "nag"]
windows = [16, 20]
seeds = [1, 2]
preset = "recall"
[settings]
model.head = 8
model.layers = 1
train.batch = 8
train.steps = 30
report.valid_every = 10
report.checkpoint_every = 5
report.keep = 10
data.recall.valid_examples = 16
"#;

fn energyrun(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_energyrun")).args(arguments).current_dir(folder).output().expect("energyrun runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).to_string() + &String::from_utf8_lossy(&output.stderr)
}

/// Summaries hold times, which differ from run to run.
fn without_times(value: &Value) -> Value {
    match value {
        Value::Object(entries) => {
            let timeless = entries.iter().filter(|(key, _)| !["seconds", "tokens_per_second"].contains(&key.as_str()));
            Value::Object(timeless.map(|(key, value)| (key.clone(), without_times(value))).collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(without_times).collect()),
        other => other.clone(),
    }
}

fn summary(output: &Path) -> Value {
    let text = std::fs::read_to_string(output.join("summary.json")).expect("a summary");
    without_times(&serde_json::from_str(&text).expect("JSON"))
}

#[test]
fn a_grid_runs_and_one_that_was_stopped_goes_on_to_the_same_summary() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    std::fs::write(path.join("tiny.toml"), TINY).expect("a file");
    let whole = energyrun(path, &["experiment", "tiny.toml"]);
    assert!(whole.status.success(), "{}", said(&whole));
    let output = path.join("experiments/tiny");
    let found = summary(&output);
    let groups = found["groups"].as_array().expect("groups");
    assert_eq!(groups.len(), 2);
    for group in groups {
        let rows = group["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 2);
        assert_eq!((&rows[0]["against"]["is"], &rows[1]["against"]["is"]), (&"baseline".into(), &"tested".into()));
        let p = rows[1]["against"]["p"].as_f64().expect("a probability");
        assert!((0.0..=1.0).contains(&p));
        // The final loss is that of the last validation of every seed.
        let runs = rows[1]["runs"].as_array().expect("runs");
        let losses: Vec<f64> = runs.iter().map(|run| run["last"].as_f64().expect("a loss")).collect();
        assert_eq!((losses.len(), losses[0] == losses[1]), (2, false));
        let mean = rows[1]["last"]["mean"].as_f64().expect("a mean");
        assert!((mean - (losses[0] + losses[1]) / 2.0).abs() < 1e-12);
    }
    let figure = std::fs::read_to_string(output.join("figure.svg")).expect("a figure");
    // A panel for every window; in each, two recipes with a mean and two seeds.
    assert!(figure.contains("windows of 16<") && figure.contains("windows of 20<"), "{figure}");
    assert_eq!(figure.matches(r#"class="curve""#).count(), 2 * 2 * 3);
    assert!(std::fs::read_to_string(output.join("summary.md")).expect("Markdown").contains("| recipe"));

    let again = energyrun(path, &["experiment", "tiny.toml"]);
    assert!(again.status.success() && !said(&again).contains("steps from"), "{}", said(&again));
    assert_eq!(summary(&output), found);

    // Killed in the middle of a run, with the first cell done.
    let mut child = Command::new(env!("CARGO_BIN_EXE_energyrun"))
        .args(["experiment", "tiny.toml", "--output", "stopped"])
        .current_dir(path)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("energyrun runs");
    let stopped = path.join("stopped");
    let checkpoints = stopped.join("runs/nag-tiny-16-seed1/checkpoints");
    while checkpoint::all(&checkpoints).is_empty() {
        assert!(child.try_wait().expect("a state").is_none(), "it ended before it was killed");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    assert!(stopped.join("runs/softmax-tiny-16-seed1/result.json").exists());
    let resumed = energyrun(path, &["experiment", "tiny.toml", "--output", "stopped"]);
    assert!(resumed.status.success(), "{}", said(&resumed));
    assert!(!said(&resumed).contains("30 steps from 0 → stopped/runs/nag-tiny-16-seed1"), "{}", said(&resumed));
    assert_eq!(summary(&stopped), found);

    let other = energyrun(path, &["experiment", "tiny.toml", "seeds=1,3"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(said(&other).contains("seeds: [1, 3] was [1, 2]"), "{}", said(&other));
}

#[test]
fn an_interrupt_stops_and_says_how_to_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    std::fs::write(path.join("tiny.toml"), TINY).expect("a file");
    let child = Command::new(env!("CARGO_BIN_EXE_energyrun"))
        .args(["experiment", "tiny.toml", "train.steps=100000", "report.valid_every=0"])
        .current_dir(path)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("energyrun runs");
    let checkpoints = path.join("experiments/tiny/runs/softmax-tiny-16-seed1/checkpoints");
    while checkpoint::all(&checkpoints).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(interrupted.success());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success() && said(&output).contains("stopped with 8 runs left"), "{}", said(&output));
}

#[test]
fn what_is_wrong_is_said_before_any_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let refused = |text: &str, arguments: &[&str], code: i32, because: &str| {
        std::fs::write(path.join("tiny.toml"), text).expect("a file");
        let output = energyrun(path, &[&["experiment", "tiny.toml"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains(because), "{because}: {}", said(&output));
        assert!(!path.join("experiments").exists(), "{because}");
    };
    refused(&TINY.replace("seeds =", "seds ="), &[], 1, "`seeds`");
    refused(&TINY.replace("\"nag\"", "\"nagg\""), &[], 1, "nag");
    refused(&TINY.replace("train.batch", "train.btach"), &[], 1, "train.batch");
    refused(&TINY.replace("[settings]", "sizes = [\"31m\"]\n[settings]"), &[], 1, "31m");
    refused(&TINY.replace("[settings]", "baseline = \"huber\"\n[settings]"), &[], 1, "baseline");
    refused(&TINY.replace("[settings]", "[settings]\nseed = 3"), &[], 1, "`seeds` decides");
    refused(&TINY.replace("\"recall\"", "\"recal\""), &[], 1, "recall");
    refused(&TINY.replace("windows = [16, 20]", "windows = [4]"), &[], 1, "positions");
    refused(TINY, &["train.objective=alternating"], 1, "softmax");
    refused(TINY, &["stes=3"], 2, "there is no key `stes`");
    refused(TINY, &["train.stebs=3"], 2, "train.steps");
    refused(TINY, &["data.train=nowhere", "data.valid=nowhere"], 1, "nowhere");
    let files = format!("{TINY}[data.files]\ntrain = [\"a.txt\"]\nvalid = [\"b.txt\"]\nvocabulary = 300\n");
    refused(&files, &[], 1, "--data");
    refused(&files, &["--data", "."], 1, "a.txt");
    refused(&files, &["--data", "nowhere"], 1, "nowhere");
    refused(&files.replace("vocabulary = 300", ""), &[], 1, "vocabulary");
    let unknown = energyrun(path, &["experiment", "figure4-smal"]);
    assert!(unknown.status.code() == Some(1) && said(&unknown).contains("figure4-small"), "{}", said(&unknown));
    assert_eq!(energyrun(path, &["experiment"]).status.code(), Some(2));
    let list = energyrun(path, &["experiment", "--list"]);
    assert!(list.status.success() && shipped::SHIPPED.iter().all(|(name, _)| said(&list).contains(name)));
}

#[test]
fn a_dry_run_says_what_it_takes_and_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    std::fs::write(path.join("tiny.toml"), TINY).expect("a file");
    let output = energyrun(path, &["experiment", "tiny.toml", "--dry-run"]);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout).to_string();
    let row = |name: &str, window: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.split_whitespace().map(str::to_string).collect::<Vec<_>>());
        let is_row =
            |cells: &Vec<String>| cells.first().is_some_and(|c| c == name) && cells.contains(&window.to_string());
        lines.into_iter().find(is_row).unwrap_or_else(|| panic!("{name}: {text}"))
    };
    // Two seeds of 30 steps on 8 sequences of 16 tokens.
    assert_eq!(row("softmax", "16")[1..7], ["tiny", "16", "2", "30", "7.7", "k"]);
    assert_eq!(row("all", "8")[1..4], ["8", "35", "k"]);
    let entries = std::fs::read_dir(path).expect("entries").count();
    assert_eq!(entries, 1, "it wrote something");
    // Without its data: what is assumed is said.
    let files = format!("{TINY}[data.files]\ntrain = [\"a.txt\"]\nvalid = [\"b.txt\"]\nvocabulary = 300\n");
    std::fs::write(path.join("tiny.toml"), files).expect("a file");
    let output = energyrun(path, &["experiment", "tiny.toml", "--dry-run", "windows=16", "recipes=softmax"]);
    assert!(output.status.success() && said(&output).contains("assumed: "), "{}", said(&output));
}

#[test]
fn raw_files_are_prepared_once_and_a_checkpoint_of_another_vocabulary_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    std::fs::create_dir(path.join("texts")).expect("a folder");
    let text: String = (0..400).map(|i| format!("word{} and number {} follow. ", i % 7, i % 11)).collect();
    std::fs::write(path.join("texts/a.txt"), &text).expect("a file");
    std::fs::write(path.join("texts/b.txt"), &text[..600]).expect("a file");
    let files = "[data.files]\ntrain = [\"a.txt\"]\nvalid = [\"b.txt\"]\nvocabulary = 280\n";
    let file = TINY.replace("preset = \"recall\"", "").replace("windows = [16, 20]", "windows = [16]");
    let file = file.replace("seeds = [1, 2]", "seeds = [1]").replace("train.steps = 30", "train.steps = 6");
    let file = file.replace("data.recall.valid_examples = 16", "data.mode = \"pack\"\nmodel.size = \"tiny\"");
    std::fs::write(path.join("tiny.toml"), format!("{file}{files}")).expect("a file");
    let first = energyrun(path, &["experiment", "tiny.toml", "--data", "texts"]);
    assert!(first.status.success() && said(&first).contains("one seed: no significance"), "{}", said(&first));
    let output = path.join("experiments/tiny");
    let meta = std::fs::read_to_string(output.join("data/train/meta.json")).expect("prepared data");
    assert_eq!(serde_json::from_str::<Value>(&meta).expect("JSON")["vocabulary"], 280);
    // Once it is prepared, the raw files are not needed.
    std::fs::remove_file(path.join("texts/a.txt")).expect("removed");
    let again = energyrun(path, &["experiment", "tiny.toml", "--data", "texts"]);
    assert!(again.status.success(), "{}", said(&again));
    // Other data, other vocabulary: what is left of the cells does not fit.
    std::fs::remove_dir_all(output.join("data")).expect("removed");
    std::fs::write(path.join("texts/a.txt"), &text).expect("a file");
    let prepare = |input: &str, target: &str| {
        let target = format!("experiments/tiny/data/{target}");
        energyrun(path, &["prepare", input, "--tokenizer", "bytes", "--output", &target])
    };
    std::fs::create_dir(output.join("data")).expect("a folder");
    assert!(prepare("texts/a.txt", "train").status.success() && prepare("texts/b.txt", "valid").status.success());
    let other = energyrun(path, &["experiment", "tiny.toml", "--data", "texts"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(said(&other).contains("vocabulary of 280 tokens and the data one of 257"), "{}", said(&other));
}

/// Two sentences of which the second is a part of the first, or not.
fn entailment(rows: usize) -> String {
    let row = |i: usize| match i % 2 {
        0 => format!("{i}\tword{} and more follow\tword{}\tentailment\n", i % 5, i % 5),
        _ => format!("{i}\tword{} and more follow\tnumber\tnot_entailment\n", i % 5),
    };
    "index\tsentence1\tsentence2\tlabel\n".to_string() + &(0..rows).map(row).collect::<String>()
}

#[test]
fn trained_models_are_fine_tuned_and_tasks_without_rows_are_absent() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let text: String = (0..400).map(|i| format!("word{} and number {} follow. ", i % 7, i % 11)).collect();
    for (name, content) in [
        ("data/a.txt", text.clone()),
        ("data/b.txt", text[..600].to_string()),
        ("data/glue/RTE/train.tsv", entailment(12)),
        ("data/glue/RTE/dev.tsv", entailment(6)),
        ("data/glue/QNLI/dev.tsv", "index\tquestion\tsentence\tlabel\n0\tWhen?\tThen.\tentailment\n".to_string()),
    ] {
        std::fs::create_dir_all(path.join(name).parent().expect("a folder")).expect("made");
        std::fs::write(path.join(name), content).expect("a file");
    }
    let file = r#"
        name = "tuned"
        recipes = ["softmax", "nag"]
        windows = [128]
        [settings]
        model = { size = "tiny", head = 8, layers = 1 }
        train = { batch = 2, steps = 4 }
        data.mode = "pack"
        [data.files]
        train = ["a.txt"]
        valid = ["b.txt"]
        vocabulary = 300
        [glue]
        tasks = ["RTE", "QNLI"]
        seeds = [1, 2]
        epochs = 1
        rows = 8
        batch = 4
        learning_rate = 1e-3
    "#;
    let refused = |file: &str, arguments: &[&str], because: &str| {
        std::fs::write(path.join("tuned.toml"), file).expect("a file");
        let output = energyrun(path, &[&["experiment", "tuned.toml", "--data", "data"], arguments].concat());
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(because), "{because}: {}", said(&output));
        assert!(!path.join("experiments").exists(), "{because}");
    };
    refused(&file.replace("\"QNLI\"", "\"QNIL\""), &[], "qnli");
    refused(file, &["glue.data=nowhere"], "nowhere");
    refused(&file.replace("[glue]", "[glue]\nrow = 3"), &[], "unknown field `row`");
    let no_text = r#"
        name = "tuned"
        recipes = ["softmax"]
        preset = "recall"
        [glue]
        tasks = ["RTE"]
        batch = 4
        learning_rate = 1e-3
    "#;
    refused(no_text, &[], "recall");

    std::fs::write(path.join("tuned.toml"), file).expect("a file");
    let dry = energyrun(path, &["experiment", "tuned.toml", "--data", "data", "--dry-run"]);
    assert!(dry.status.success() && said(&dry).contains("nag, GLUE"), "{}", said(&dry));
    let arguments = ["experiment", "tuned.toml", "--data", "data"];
    let first = energyrun(path, &arguments);
    assert!(first.status.success(), "{}", said(&first));
    let output = path.join("experiments/tuned");
    let read = || std::fs::read_to_string(output.join("glue.json")).expect("a table");
    let table: Value = serde_json::from_str(&read()).expect("JSON");
    assert_eq!(table["columns"], serde_json::json!(["softmax", "nag"]));
    let rows = table["rows"].as_array().expect("rows");
    assert_eq!(rows[0]["cells"][1]["values"].as_array().map(Vec::len), Some(2));
    assert!(rows[1]["absent"].as_str().is_some_and(|why| why.contains("training")), "{}", rows[1]);
    assert!(["glue.txt", "glue.md", "glue.tex"].iter().all(|name| output.join(name).exists()));
    // What is done is not done again: a result that is missing is, with the same numbers.
    let before = read();
    std::fs::remove_file(output.join("glue/nag-tiny-128-seed1/rte-seed-2.json")).expect("removed");
    let again = energyrun(path, &arguments);
    assert!(again.status.success() && said(&again).contains("1 of them done before"), "{}", said(&again));
    let shares = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| line.contains("\"accuracy\"") || line.contains("\"loss\""))
            .map(String::from)
            .collect()
    };
    assert_eq!(shares(&read()), shares(&before));
    // Another experiment takes the trained models over, with its own fine-tuning.
    let reused = energyrun(
        path,
        &[&arguments[..], &["--output", "other", "--reuse", "experiments/tuned", "glue.rows=4"]].concat(),
    );
    assert!(reused.status.success() && !said(&reused).contains("steps from"), "{}", said(&reused));
    assert!(path.join("other/glue.json").exists() && !path.join("other/runs").exists());
    let differs = energyrun(
        path,
        &[&arguments[..], &["--output", "third", "--reuse", "experiments/tuned", "train.batch=3"]].concat(),
    );
    assert!(differs.status.code() == Some(1) && said(&differs).contains("train.batch"), "{}", said(&differs));
}
