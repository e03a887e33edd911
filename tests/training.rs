//! Training: losses of an independent implementation, runs that repeat and go on bit by bit, checkpoints that are whole
//! or refused, generation with a cache, objectives that lower what they are meant to lower.

use energy_runtime::compiler::check::Recipe;
use energy_runtime::compiler::pipeline;
use energy_runtime::data::{Batch, Examples};
use energy_runtime::generate::{Sampling, Writer};
use energy_runtime::model::classifier::{Classifier, Shape};
use energy_runtime::model::random::Stream;
use energy_runtime::model::weights::Weight;
use energy_runtime::model::{Config, Gpt, Tape};
use energy_runtime::train::settings::{Objective, Settings};
use energy_runtime::train::trainer::Trainer;
use energy_runtime::train::{alternating, checkpoint, loaded};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(text: &str) -> Recipe {
    pipeline::front(text).0.expect("a recipe")
}

fn shipped(name: &str) -> Recipe {
    read(&std::fs::read_to_string(root().join("recipes").join(format!("{name}.recipe"))).expect("a shipped recipe"))
}

fn all_shipped() -> Vec<Recipe> {
    let entries = std::fs::read_dir(root().join("recipes")).expect("recipes");
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            entry.expect("an entry").path().file_name()?.to_str()?.strip_suffix(".recipe").map(String::from)
        })
        .collect();
    names.sort();
    names.iter().map(|name| shipped(name)).collect()
}

mod reference {
    //! What `runtime/reference/ten_steps.py` computes with.

    use super::*;

    pub const SIZES: (usize, usize, usize, usize, usize) = (2, 2, 8, 12, 29);
    pub const BATCH: usize = 3;

    /// A number in [−1, 1).
    fn noise(i: u64, j: u64) -> f64 {
        let x = (i * 2_654_435_761 + j * 97) % (1 << 32);
        let x = (x ^ (x >> 15)) * 2_246_822_519 % (1 << 32);
        (x ^ (x >> 13)) as f64 / 2f64.powi(31) - 1.0
    }

    pub fn weight(weight: &Weight, start: &[f32]) -> Vec<f32> {
        let j: u64 = weight.name.bytes().map(u64::from).sum();
        let value = |(i, start): (usize, &f32)| match weight.shape.len() {
            2.. => (0.2 * noise(i as u64, j)) as f32,
            _ => (f64::from(*start) + 0.05 * noise(i as u64, j)) as f32,
        };
        start.iter().enumerate().map(value).collect()
    }

    pub struct Tokens;

    impl Examples for Tokens {
        fn count(&self) -> usize {
            1 << 20
        }

        fn vocabulary(&self) -> usize {
            SIZES.4
        }

        /// Examples in the order of their numbers, whatever order was asked for.
        fn fill(&self, which: &[usize], batch: &mut Batch) -> Result<(), String> {
            unreachable!("{which:?} {batch:?}: batches are filled in order")
        }
    }

    pub fn batch(step: usize) -> Batch {
        let token = |i: usize| (7 * i * i + 3 * i + i / 5) % SIZES.4;
        let (window, first) = (SIZES.3, step * BATCH * (SIZES.3 + 1));
        let mut batch = Batch::default();
        batch.reset(BATCH, window, 0);
        for i in 0..BATCH * window {
            let at = first + i / window * (window + 1) + i % window;
            batch.tokens[i] = token(at) as u16;
            batch.targets[i] = token(at + 1) as i32;
        }
        batch
    }
}

#[test]
fn ten_losses_are_those_of_an_independent_implementation() {
    let text = std::fs::read_to_string(root().join("tests/ten_steps.json")).expect("the reference's losses");
    let wanted: BTreeMap<String, Vec<f64>> = serde_json::from_str(&text).expect("losses by recipe");
    assert_eq!(wanted.len(), 5);
    for (name, wanted) in wanted {
        let (layers, heads, head, window, vocabulary) = reference::SIZES;
        let config =
            Config { layers, heads, head, window, vocabulary, dropout: 0.0, feed_forward: true, deviation: 0.02 };
        let gpt = Gpt::new(&config, &[shipped(&name)]).expect("a model");
        let mut settings = Settings::default();
        settings.train.batch = reference::BATCH;
        settings.train.steps = 10;
        settings.train.learning_rate = 1e-2;
        settings.train.warmup = 0.0;
        let mut trainer = Trainer::new(settings, gpt, Box::new(reference::Tokens)).expect("a trainer");
        let start = trainer.weights.clone();
        for weight in trainer.gpt.layout.weights() {
            let values = reference::weight(weight, &start[weight.range.clone()]);
            trainer.weights[weight.range.clone()].copy_from_slice(&values);
        }
        for (step, wanted) in wanted.iter().enumerate() {
            let found = trainer.step_on(vec![reference::batch(step)]).expect("a step").loss.mean();
            let error = (found - wanted).abs();
            assert!(error < 2e-4, "{name}, step {step}: {found} and not {wanted}");
        }
    }
}

#[test]
fn named_sizes_have_the_paper_s_parameter_counts() {
    for (name, millions) in [("30m", 30.0), ("55m", 55.0), ("76m", 76.0), ("160m", 160.0)] {
        let settings = Settings::default().with(&format!("model.size={name}")).expect("a size");
        let gpt = Gpt::new(&settings.model(50257).expect("a model"), &[shipped("softmax")]).expect("a model");
        let count = gpt.layout.len() as f64 / 1e6;
        assert!((count / millions - 1.0).abs() < 0.05, "{name} has {count} million parameters");
    }
}

fn small(recipe: &str) -> Settings {
    let mut settings = energy_runtime::train::presets::preset("recall").expect("a preset");
    let changes = ["train.batch=8", "train.steps=12", "model.dropout=0.1", "train.accumulate=2", "model.head=8"];
    for change in changes {
        settings = settings.with(change).expect("a setting");
    }
    settings.with(&format!("recipe={recipe}")).expect("a recipe")
}

fn trainer(settings: &Settings, recipes: &[Recipe]) -> Trainer {
    let sources = energy_runtime::train::examples::open(settings).expect("examples");
    let gpt = Gpt::new(&settings.model(sources.train.vocabulary()).expect("sizes"), recipes).expect("a model");
    Trainer::new(settings.clone(), gpt, sources.train).expect("a trainer")
}

fn losses(settings: &Settings, recipes: &[Recipe]) -> Vec<u64> {
    let mut trainer = trainer(settings, recipes);
    (0..6).map(|_| trainer.next_step().expect("a step").loss.sum.to_bits()).collect()
}

#[test]
fn one_seed_gives_the_same_losses_and_another_gives_others() {
    let settings = small("nag");
    let first = losses(&settings, &[shipped("nag")]);
    assert_eq!(first, losses(&settings, &[shipped("nag")]));
    assert_ne!(first, losses(&settings.with("seed=2").expect("a seed"), &[shipped("nag")]));
}

#[test]
fn layers_may_have_recipes_of_their_own() {
    let settings = small("softmax");
    let mixed = losses(&settings, &[shipped("nag"), shipped("huber")]);
    assert_ne!(mixed, losses(&settings, &[shipped("nag"), shipped("nag")]));
    let model = settings.model(64).expect("sizes");
    let error = Gpt::new(&model, &[shipped("nag"), shipped("nag"), shipped("nag")]).err().expect("too many");
    assert!(error.to_string().contains("3 recipes for 2 layers"), "{error}");
}

#[test]
fn training_lowers_the_loss() {
    for objective in [Objective::Backpropagation, Objective::Energy] {
        let mut settings = small("softmax");
        (settings.train.objective, settings.train.steps) = (objective, 60);
        let mut trainer = trainer(&settings, &[shipped("softmax")]);
        let all: Vec<f64> = (0..60).map(|_| trainer.next_step().expect("a step").loss.mean()).collect();
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        assert!(mean(&all[50..]) < mean(&all[..10]) - 0.3, "{all:?}");
    }
}

#[test]
fn an_energy_in_the_objective_is_lowered_with_it() {
    let mut settings = small("softmax");
    settings.train.objective = Objective::Energy;
    let mut energies = Vec::new();
    for weight in [0.0, 0.3] {
        settings.train.energy_weight = weight;
        let mut trainer = trainer(&settings, &[shipped("softmax")]);
        let last = (0..12).map(|_| trainer.next_step().expect("a step")).last().expect("steps");
        energies.push(last.energy.expect("an energy"));
    }
    assert!(energies[1] < energies[0] - 1e-3, "{energies:?}");
}

const TIED: &str = "recipe tied_loop { local euclidean; global lse(T = 1); optimizer gd(eta = 0.5); values tied;
    constrain norm(q) = rho, norm(k) = rho; steps 3; tokens evolve; }";

#[test]
fn alternating_steps_lower_what_each_is_meant_to_lower() {
    let mut settings = small("softmax");
    (settings.model.layers, settings.model.feed_forward) = (1, false);
    settings.train.objective = Objective::Alternating;
    let mut trainer = trainer(&settings, &[read(TIED)]);
    let sources = energy_runtime::train::examples::open(&settings).expect("examples");
    let mut batch = Batch::default();
    sources.train.fill(&[0, 1, 2, 3], &mut batch).expect("a batch");
    let mut tape = Tape::default();
    let mut gradient = vec![0.0; trainer.weights.len()];
    for round in 0..5 {
        // Same tokens, so that only the step of W and E is between the two looks at F and the loss.
        let before = trainer.weights.clone();
        let parts = (&trainer.gpt, &mut tape, &mut gradient[..]);
        let done = alternating::step(parts, &mut trainer.weights, &batch, 0.02);
        let mut look = |weights: &[f32], held: &[f32]| {
            trainer.gpt.forward(held, &batch.input(), None, &mut tape);
            let loss = trainer.gpt.loss(weights, &batch.targets, &mut tape, None).mean();
            let energy = trainer.gpt.energy_at_end(weights, &mut tape, None) / batch.present() as f64;
            (loss, energy)
        };
        let (loss_before, energy_before) = look(&before, &before);
        let (loss_after, energy_after) = look(&trainer.weights, &before);
        assert!((loss_before - done.loss.mean()).abs() < 1e-5 && (energy_before - done.energy).abs() < 1e-4);
        assert!(energy_after < energy_before, "round {round}: F {energy_before} → {energy_after}");
        assert!(loss_after < loss_before, "round {round}: loss {loss_before} → {loss_after}");
    }
    assert!((0..3).all(|_| trainer.next_step().is_ok()));
}

#[test]
fn alternating_needs_a_bounded_descent_and_says_so() {
    let mut settings = small("softmax");
    settings.train.objective = Objective::Alternating;
    let refused = |settings: &Settings, text: &str| {
        let gpt = Gpt::new(&settings.model(64).expect("sizes"), &[read(text)]).expect("a model");
        let sources = energy_runtime::train::examples::open(settings).expect("examples");
        Trainer::new(settings.clone(), gpt, sources.train).err().expect("a refusal")
    };
    assert!(refused(&settings, TIED).contains("model.layers"));
    (settings.model.layers, settings.model.feed_forward) = (1, false);
    assert!(refused(&settings, &TIED.replace("steps 3;", "")).contains("steps"));
    assert!(refused(&settings, &TIED.replace("tied;", "free;")).contains("values tied"));
    assert!(refused(&settings, &TIED.replace("constrain norm(q) = rho, norm(k) = rho;", "")).contains("constrain"));
}

#[test]
fn a_classification_token_learns_without_backpropagation() {
    let shape = Shape { heads: 2, head: 8, tokens: 6, classes: 3 };
    let stream = Stream::new(4);
    let (count, d) = (48, 16);
    let labels: Vec<usize> = (0..count).map(|i| i % 3).collect();
    // Tokens around the prototype of the sample's class.
    let number = |i: usize| {
        let (sample, c) = (i / (6 * d), i % d);
        let prototype = stream.stream(1).normal((labels[sample] * d + c) as u64);
        (prototype + 0.5 * stream.normal(i as u64)) as f32
    };
    let samples: Vec<f32> = (0..count * 6 * d).map(number).collect();
    let mut classifier = Classifier::new(&read(TIED), shape, samples.clone(), labels.clone(), 1).expect("a classifier");
    let epochs: Vec<_> = (0..60).map(|_| classifier.epoch(0.1)).collect();
    // Later on z is at rest, up to the radial part of its step that the paper drops.
    for (i, epoch) in epochs.iter().enumerate().take(25) {
        assert!(epoch.energy_by_z[1] < epoch.energy_by_z[0], "epoch {i}: {epoch:?}");
        assert!(epoch.energy_by_w[1] < epoch.energy_by_w[0], "epoch {i}: {epoch:?}");
        assert!(epoch.loss_by_e[1] < epoch.loss_by_e[0], "epoch {i}: {epoch:?}");
    }
    assert!(epochs[59].accuracy > 0.9, "{:?}", epochs[59]);
    let free = Classifier::new(&shipped("softmax"), shape, samples, labels, 1).err().expect("free values");
    assert!(free.contains("values tied"), "{free}");
}

#[test]
fn a_cache_gives_the_tokens_that_come_without_it() {
    for recipe in all_shipped().into_iter().chain([read(WEIGHTED_AND_GATED)]) {
        let config = Config {
            layers: 2,
            heads: 2,
            head: 8,
            window: 10,
            vocabulary: 23,
            dropout: 0.0,
            feed_forward: true,
            deviation: 0.02,
        };
        let name = recipe.name.clone();
        let gpt = Gpt::new(&config, &[recipe]).expect("a model");
        let stream = Stream::new(3);
        let mut weights = gpt.layout.start(3);
        for weight in gpt.layout.weights().iter().filter(|weight| weight.shape.len() > 1) {
            weight.range.clone().for_each(|i| weights[i] = 0.3 * stream.normal(i as u64) as f32);
        }
        let sampling = Sampling { temperature: 1.0, most: 0, seed: 5 };
        let tokens = |caches: bool| {
            let mut writer = Writer::new(&gpt, &weights, &[1, 2, 3], sampling, caches).expect("a prompt");
            // More than the window holds.
            for _ in 0..24 {
                writer.next_token();
            }
            writer.tokens
        };
        assert_eq!(tokens(true), tokens(false), "{name}");
    }
}

/// A weight per component and a gate of the query, in a layer with a state.
const WEIGHTED_AND_GATED: &str = "recipe weighted_and_gated {
    local weighted(w = learn(1, per head, per component), s = learn(0.5, per component)) {
        E = norm(w * (q - k))^2 / 2 - dot(s * q, k)
    }
    global gated(gamma = gate(sigmoid, per query)) { F = -gamma * log(sum(exp(-E / gamma))) }
    optimizer momentum(beta = learn(0.5), eta = 0.5);
}";

#[test]
fn weights_per_component_and_gates_of_queries_are_trained_and_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    std::fs::write(path.join("mine.recipe"), WEIGHTED_AND_GATED).expect("written");
    let steps = ["--recipe", "mine.recipe", "train.steps=6", "report.checkpoint_every=3"];
    for name in ["report.output=whole", "report.output=again"] {
        let run = energyrun(path, &[&SMALL[..], &steps, &[name]].concat());
        assert!(run.status.success(), "{}", said(&run));
    }
    let last = |run: &str| checkpoint::path(&checkpoint::in_run(&path.join(run)), 6);
    let loaded = loaded::load(&last("whole")).expect("it loads");
    let start = loaded.gpt.layout.start(0);
    let (heads, head) = (loaded.gpt.config.heads, loaded.gpt.config.head);
    let weights = [
        ("w", vec![heads, head], Some(1.0)),
        ("s", vec![head], Some(0.5)),
        ("gamma.weight", vec![heads, heads * head], None),
        ("gamma.bias", vec![heads], Some(0.0)),
    ];
    for (name, shape, from) in weights {
        let name = format!("layers.0.attention.{name}");
        let weight = loaded.gpt.layout.weights().iter().find(|weight| weight.name == name).expect("a weight");
        let (before, after) = (&start[weight.range.clone()], &loaded.weights[weight.range.clone()]);
        assert_eq!(weight.shape, shape, "{name}");
        assert!(from.is_none_or(|from| before.iter().all(|x| *x == from)), "{name} starts at {before:?}");
        assert!(before.iter().zip(after).all(|(x, y)| x != y), "{name} stays in part: {after:?}");
    }
    std::fs::remove_dir_all(last("again")).expect("removed");
    let resumed = energyrun(path, &["pretrain", "--resume", "again"]);
    assert!(resumed.status.success(), "{}", said(&resumed));
    let weights = |run: &str| std::fs::read(last(run).join("model.safetensors")).expect("weights");
    assert!(weights("whole") == weights("again"), "they go on otherwise");
}

fn energyrun(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_energyrun")).args(arguments).current_dir(folder).output().expect("energyrun runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).to_string() + &String::from_utf8_lossy(&output.stderr)
}

const SMALL: [&str; 8] = [
    "pretrain",
    "--preset",
    "recall",
    "model.head=8",
    "train.batch=8",
    "model.dropout=0.1",
    "report.log_every=1",
    "data.recall.vocabulary=64",
];

/// Names of weights, fields and keywords are names like any other: all weights are saved, each under its own name, and
/// come back.
#[test]
fn weights_keep_apart_whatever_a_recipe_calls_its_parameters() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let recipe = root().join("tests/names/match.recipe").display().to_string();
    let arguments = ["--recipe", &recipe, "train.steps=4", "report.checkpoint_every=2", "report.output=run"];
    let output = energyrun(path, &[&SMALL[..], &arguments].concat());
    assert!(output.status.success(), "{}", said(&output));
    let newest = checkpoint::all(&path.join("run/checkpoints")).pop().expect("a checkpoint");
    let loaded = loaded::load(&newest).expect("it loads");
    let mut names: Vec<&str> = loaded.gpt.layout.weights().iter().map(|weight| weight.name.as_str()).collect();
    for name in
        ["w1", "w1_", "wv", "wv_", "wo", "wo_", "norm.weight", "norm_.weight", "dropout", "match__", "gen", "α", "b1"]
    {
        assert!(names.contains(&format!("layers.0.attention.{name}").as_str()), "{name} in {names:?}");
    }
    assert!(names.contains(&"layers.0.feed_forward.b1") && names.contains(&"layers.0.feed_forward.b1_"), "{names:?}");
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
    let start = loaded.gpt.layout.start(0);
    let moved = |name: &str| {
        let weight = loaded.gpt.layout.weights().iter().find(|weight| weight.name == name).expect("a weight");
        loaded.weights[weight.range.clone()] != start[weight.range.clone()]
    };
    for name in ["w1_", "wv_", "wo_", "dropout", "match__", "gen", "norm_.bias"] {
        assert!(moved(&format!("layers.0.attention.{name}")), "{name} does not learn");
    }
    let resumed = energyrun(path, &["pretrain", "--resume", "run"]);
    assert!(resumed.status.success(), "{}", said(&resumed));
}

/// A parameter of the recipe itself that the energy and the optimizer look at is one weight.
#[test]
fn a_shared_parameter_is_saved_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let text = "recipe shared {
        param     a = learn(0.5);
        local     c() { E = a * norm(q - k)^2 }
        global    lse(T = 1);
        optimizer o() { z = z - a * sign(grad(z)); }
    }";
    std::fs::write(path.join("shared.recipe"), text).expect("written");
    let arguments = ["--recipe", "shared.recipe", "train.steps=2", "report.output=run"];
    let output = energyrun(path, &[&SMALL[..], &arguments].concat());
    assert!(output.status.success(), "{}", said(&output));
    let newest = checkpoint::all(&path.join("run/checkpoints")).pop().expect("a checkpoint");
    let loaded = loaded::load(&newest).expect("it loads");
    let names = loaded.gpt.layout.weights().iter().filter(|weight| weight.name == "layers.0.attention.a");
    assert_eq!(names.count(), 1);
}

/// Loss by step, as it stands in the metrics.
fn curve(run: &Path) -> BTreeMap<u64, String> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let records = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a record"));
    records
        .filter(|record| record["kind"] == "train")
        .map(|record| (record["step"].as_u64().expect("a step"), record["loss"].to_string()))
        .collect()
}

#[test]
fn a_killed_run_goes_on_with_the_same_losses() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let steps = ["train.steps=400", "report.valid_every=0", "report.checkpoint_every=7"];
    let whole = energyrun(path, &[&SMALL[..], &steps, &["report.output=whole"]].concat());
    assert!(whole.status.success(), "{}", said(&whole));
    let arguments = [&SMALL[..], &steps, &["report.output=killed"]].concat();
    let mut child = Command::new(env!("CARGO_BIN_EXE_energyrun"))
        .args(&arguments)
        .current_dir(path)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("energyrun runs");
    let killed = path.join("killed");
    // Killed as soon as there is something to go on with.
    while checkpoint::all(&checkpoint::in_run(&killed)).len() < 2 {
        assert!(child.try_wait().expect("a state").is_none(), "it ended before it was killed");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    let manifest = checkpoint::manifest(&checkpoint::find(&killed).expect("a checkpoint")).expect("a manifest");
    assert!(manifest.step.is_multiple_of(7) && manifest.step < 400, "{}", manifest.step);
    let resumed = energyrun(path, &["pretrain", "--resume", "killed"]);
    assert!(resumed.status.success(), "{}", said(&resumed));
    let (whole, killed) = (curve(&path.join("whole")), curve(&killed));
    assert_eq!(whole.len(), 400);
    assert_eq!(whole, killed);
    let again = energyrun(path, &["pretrain", "--resume", "killed"]);
    assert!(again.status.success() && said(&again).contains("nothing left to do"), "{}", said(&again));
}

#[test]
fn a_recipe_from_standard_input_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let arguments = [&SMALL[..], &["--recipe", "-", "train.steps=2", "report.output=run"]].concat();
    let mut child = Command::new(env!("CARGO_BIN_EXE_energyrun"))
        .args(&arguments)
        .current_dir(path)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("energyrun runs");
    let text = "recipe piped { local l1; global lse(T = 2); optimizer gd; values free; }\n";
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    assert!(child.wait().expect("it ends").success());
    let manifest =
        checkpoint::manifest(&checkpoint::find(&path.join("run")).expect("a checkpoint")).expect("a manifest");
    assert_eq!(manifest.recipes, [text]);
}

#[test]
fn what_cannot_go_on_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let steps = ["train.steps=6", "report.checkpoint_every=3", "report.output=run"];
    let first = energyrun(path, &[&SMALL[..], &steps].concat());
    assert!(first.status.success(), "{}", said(&first));
    let refused = |arguments: &[&str], because: &str| {
        let output = energyrun(path, arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(said(&output).contains(because), "{}", said(&output));
    };
    refused(&[&SMALL[..], &steps].concat(), "--resume");
    refused(&["pretrain", "--resume", "run", "train.batch=4"], "train.batch: 4 was 8");
    refused(&["pretrain", "--resume", "run", "--recipe", "huber"], "another recipe");
    refused(&["pretrain", "--resume", "nowhere"], "nowhere");
    refused(&["pretrain"], "--preset");
    refused(&["pretrain", "--preset", "recal"], "recall");
    refused(&["pretrain", "--preset", "recall", "train.batch=x"], "train.batch");
    refused(&["pretrain", "--preset", "recall", "data.recall.pairs=20"], "positions");
    refused(&["pretrain", "--preset", "small", "data.train=nowhere", "data.valid=nowhere"], "nowhere");
    refused(&["pretrain", "--preset", "recall", "--recipe", "nowhere.recipe"], "nowhere.recipe");
    refused(&["generate", "--checkpoint", "run"], "no tokenizer");

    let checkpoints = checkpoint::all(&path.join("run/checkpoints"));
    assert_eq!(checkpoints.len(), 2);
    let newest = checkpoints.last().expect("a checkpoint");
    let model = newest.join("model.safetensors");
    let bytes = std::fs::read(&model).expect("weights");
    std::fs::write(&model, &bytes[..bytes.len() - 9]).expect("a file");
    refused(&["pretrain", "--resume", "run"], "damaged");
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    std::fs::write(&model, &flipped).expect("a file");
    refused(&["pretrain", "--resume", "run"], "checksum");
    std::fs::remove_file(&model).expect("removed");
    refused(&["pretrain", "--resume", "run"], "model.safetensors");
    std::fs::write(newest.join("checkpoint.json"), "{}").expect("a file");
    refused(&["pretrain", "--resume", "run"], "no checkpoint of energyrun");
    // The one before it is as good as ever.
    let before = checkpoints.first().expect("a checkpoint").display().to_string();
    assert!(loaded::load(Path::new(&before)).is_ok());
}

#[test]
fn numbers_that_are_not_finite_stop_with_step_place_and_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let wild = ["train.steps=40", "train.learning_rate=1e38", "report.checkpoint_every=1", "train.warmup=0"];
    let output = energyrun(folder.path(), &[&SMALL[..], &wild, &["report.output=wild"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let text = said(&output);
    for part in ["is not finite", "step ", "begins in ", "step-0000000"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_full_disk_leaves_the_checkpoint_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = small("softmax");
    let mut trainer = trainer(&settings, &[shipped("softmax")]);
    let manifest =
        checkpoint::Manifest::new(trainer.gpt.config.clone(), settings.to_toml(), vec![], String::new(), None);
    let write = |trainer: &Trainer, folder: &Path, step: u64| {
        let mut manifest = manifest.clone();
        manifest.step = step;
        checkpoint::write(folder, &manifest, &trainer.gpt.layout, &trainer.weights, Some(&trainer.moments), 2)
    };
    let first = write(&trainer, folder.path(), 1).expect("a checkpoint");
    trainer.next_step().expect("a step");
    // A file where the next checkpoint's folder is to be made stands for a disk that takes no more.
    std::fs::write(folder.path().join(".unfinished-00000002"), "in the way").expect("a file");
    assert!(write(&trainer, folder.path(), 2).expect_err("no room").contains("cannot write a checkpoint"));
    assert_eq!(checkpoint::all(folder.path()), std::slice::from_ref(&first));
    assert!(checkpoint::manifest(&first).is_ok());
    std::fs::remove_file(folder.path().join(".unfinished-00000002")).expect("removed");
    for step in 2..6 {
        write(&trainer, folder.path(), step).expect("a checkpoint");
    }
    let kept = checkpoint::all(folder.path());
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert!(kept[1].ends_with("step-00000005"));
}

#[test]
fn logits_and_loss_of_given_tokens_are_written() {
    use safetensors::tensor::{Dtype, SafeTensors, TensorView};
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let run = energyrun(path, &[&SMALL[..], &["train.steps=3", "report.output=run"]].concat());
    assert!(run.status.success(), "{}", said(&run));
    let write = |shape: Vec<usize>, tokens: &[i64]| {
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        let view = TensorView::new(Dtype::I64, shape, &bytes).expect("a tensor");
        let file = safetensors::serialize([("tokens", view)], None).expect("bytes");
        std::fs::write(path.join("in.safetensors"), file).expect("a file");
    };
    let arguments = ["logits", "--checkpoint", "run", "--tokens", "in.safetensors", "--output", "out.safetensors"];
    let tokens: Vec<i64> = (0..14).map(|i| (i * 5 + 1) % 64).collect();
    write(vec![2, 7], &tokens);
    let output = energyrun(path, &arguments);
    assert!(output.status.success(), "{}", said(&output));
    let bytes = std::fs::read(path.join("out.safetensors")).expect("results");
    let file = SafeTensors::deserialize(&bytes).expect("tensors");
    let numbers = |name: &str| -> Vec<f64> {
        let data = file.tensor(name).expect(name).data().to_vec();
        data.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))).collect()
    };
    let logits = numbers("logits");
    assert_eq!(file.tensor("logits").expect("logits").shape(), [2, 7, 64]);
    // The loss, from the logits alone.
    let of = |row: usize| {
        let own = &logits[row * 64..(row + 1) * 64];
        own.iter().map(|x| x.exp()).sum::<f64>().ln() - own[tokens[row + 1] as usize]
    };
    let rows: Vec<usize> = (0..14).filter(|row| row % 7 < 6).collect();
    let wanted = rows.iter().map(|row| of(*row)).sum::<f64>() / 12.0;
    assert!((numbers("loss")[0] - wanted).abs() < 1e-4);
    for (shape, tokens, because) in [
        (vec![14], tokens.clone(), "[B,N]"),
        (vec![1, 1], vec![0], "window"),
        (vec![1, 2], vec![0, 64], "64"),
        (vec![1, 2], vec![0, -1], "-1"),
    ] {
        write(shape, &tokens);
        let output = energyrun(path, &arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains(because), "{}", said(&output));
    }
}

#[test]
fn an_interrupt_saves_and_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let steps = ["train.steps=100000", "report.valid_every=0", "report.checkpoint_every=5", "report.output=run"];
    let child = Command::new(env!("CARGO_BIN_EXE_energyrun"))
        .args([&SMALL[..], &steps].concat())
        .current_dir(path)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("energyrun runs");
    let run = path.join("run");
    while checkpoint::all(&checkpoint::in_run(&run)).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(interrupted.success());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", said(&output));
    let newest = checkpoint::manifest(&checkpoint::find(&run).expect("a checkpoint")).expect("a manifest");
    assert!(said(&output).contains(&format!("stopped after step {};", newest.step)), "{}", said(&output));
    assert_eq!(curve(&run).keys().last(), Some(&newest.step));
}

#[test]
fn text_is_prepared_learned_and_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let lines: Vec<String> = (0..200).map(|i| format!("line {i} of a small text, and some more of it")).collect();
    std::fs::write(path.join("text.txt"), lines.join("\n")).expect("a file");
    let succeeds = |arguments: &[&str]| {
        let output = energyrun(path, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).to_string()
    };
    for mode in ["truncate", "pack"] {
        let train = format!("data.train={mode}");
        let (valid, run) = (format!("data.valid={mode}"), format!("report.output=run-{mode}"));
        let tokens = ["--lines", "--tokenizer", "bytes", "--mode", mode, "--output", mode];
        succeeds(&[&["prepare", "text.txt"][..], &tokens].concat());
        let sizes =
            ["model.window=24", "model.head=8", "train.batch=4", "train.steps=6", "recipe=[\"nag\", \"softmax\"]"];
        let arguments = [&["pretrain", "--preset", "recall"][..], &sizes, &[&train, &valid, &run]].concat();
        assert!(succeeds(&arguments).contains("6 steps"));
    }
    let generate = ["generate", "--checkpoint", "run-pack", "--prompt", "line", "--tokens", "40"];
    let text = succeeds(&generate);
    assert!(text.starts_with("line"));
    assert_eq!(text, succeeds(&[&generate[..], &["--no-cache"]].concat()));
    let figure = ["plot", "run-pack", "run-truncate", "--output", "curves.svg", "--kind", "both"];
    succeeds(&figure);
    assert!(std::fs::read_to_string(path.join("curves.svg")).expect("a figure").contains("run-truncate"));
}
