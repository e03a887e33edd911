//! The model: gradients against finite differences for every recipe, with padding, dropout, energies in the objective
//! and mixed recipes; every variable is moved by the loss.

use energy_runtime::compiler::check::Recipe;
use energy_runtime::compiler::pipeline;
use energy_runtime::model::random::Stream;
use energy_runtime::model::{Config, Gpt, Input, Tape};
use std::path::PathBuf;

fn config(layers: usize) -> Config {
    Config { layers, heads: 2, head: 8, window: 12, vocabulary: 31, dropout: 0.0, feed_forward: true, deviation: 0.02 }
}

fn recipes(folder: &str) -> Vec<Recipe> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let entries = std::fs::read_dir(folder).expect("recipes");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "recipe"));
    files.sort();
    files.iter().map(|path| read(&std::fs::read_to_string(path).expect("text"))).collect()
}

fn read(text: &str) -> Recipe {
    pipeline::front(text).0.expect("a recipe")
}

/// A model with weights that are not as small as they start, so that every term counts.
fn weights(gpt: &Gpt, seed: u64) -> Vec<f32> {
    let stream = Stream::new(seed);
    let start = gpt.layout.start(seed);
    let mut all = start.clone();
    for weight in gpt.layout.weights() {
        for i in weight.range.clone() {
            let spread = if weight.shape.len() > 1 { 0.15 } else { 0.1 };
            let noise = spread * stream.normal(i as u64) as f32;
            all[i] = if weight.shape.len() > 1 { noise } else { start[i] + noise * start[i].abs().clamp(0.1, 1.0) };
        }
    }
    all
}

struct Sequences {
    tokens: Vec<u16>,
    targets: Vec<i32>,
    lengths: Vec<usize>,
}

fn sequences(config: &Config, batch: usize, seed: u64) -> Sequences {
    let stream = Stream::new(seed);
    let count = batch * config.window;
    let token = |i: usize| (stream.bits(i as u64) % config.vocabulary as u64) as u16;
    let lengths: Vec<usize> = (0..batch).map(|b| config.window - 3 * b).collect();
    let is_there = |i: usize| i % config.window < lengths[i / config.window];
    let target = |i: usize| if is_there(i) { i32::from(token(i + 1000)) } else { -1 };
    Sequences { tokens: (0..count).map(token).collect(), targets: (0..count).map(target).collect(), lengths }
}

impl Sequences {
    fn input<'a>(&'a self, config: &Config) -> Input<'a> {
        let batch = self.lengths.len();
        Input { batch, length: config.window, tokens: &self.tokens, lengths: Some(&self.lengths), documents: None }
    }
}

/// The objective: mean loss and a part of the energy.
fn objective(gpt: &Gpt, weights: &[f32], data: &Sequences, seed: Option<u64>, energy: f64, tape: &mut Tape) -> f64 {
    gpt.forward(weights, &data.input(&gpt.config), seed, tape);
    let energies: f64 = if energy == 0.0 { 0.0 } else { gpt.energies(tape).iter().sum() };
    gpt.loss(weights, &data.targets, tape, None).mean() + energy * energies
}

fn gradient(gpt: &Gpt, weights: &[f32], data: &Sequences, seed: Option<u64>, energy: f64, tape: &mut Tape) -> Vec<f32> {
    let mut gradient = vec![0.0; weights.len()];
    gpt.forward(weights, &data.input(&gpt.config), seed, tape);
    let count = data.targets.iter().filter(|t| **t >= 0).count();
    gpt.loss(weights, &data.targets, tape, Some((1.0 / count as f32, &mut gradient)));
    let of_heads = (energy != 0.0).then(|| (energy / gpt.config.heads as f64) as f32);
    gpt.backward(weights, &mut gradient, tape, of_heads);
    gradient
}

/// Recipes whose force jumps (it is made of signs): differences see jumps that no gradient has.
const JUMPS: [&str; 2] = ["l1", "weighted_l1"];

/// Every weight's gradient along a random direction against central differences.
fn check(recipe: &[Recipe], layers: usize, dropout: f64, energy: f64, tolerance: f64) {
    let name = &recipe[0].name;
    let config = Config { dropout, ..config(layers) };
    let gpt = Gpt::new(&config, recipe).expect(name);
    let (weights, data) = (weights(&gpt, 5), sequences(&config, 3, 9));
    let seed = (dropout > 0.0).then_some(77);
    let mut tape = Tape::default();
    let gradient = gradient(&gpt, &weights, &data, seed, energy, &mut tape);
    let size = gradient.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    assert!(size.is_finite() && size > 1e-3, "{name}: |gradient| = {size}");
    for (w, weight) in gpt.layout.weights().iter().enumerate() {
        let own = &gradient[weight.range.clone()];
        let length = own.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        // A sign has no slope: what stands only under signs, the values, has the gradient 0.
        if JUMPS.contains(&name.as_str()) && (length > 0.0 || weight.name.ends_with(".wv")) {
            continue;
        }
        if length == 0.0 {
            // A number that multiplies a state which is still 0 moves nothing; everything else has a gradient.
            assert_eq!(weight.shape, [1], "{name}: {} has no gradient", weight.name);
            let mut moved = weights.clone();
            moved[weight.range.start] += 0.5;
            let at = |weights: &[f32], tape: &mut Tape| objective(&gpt, weights, &data, seed, energy, tape);
            assert_eq!(at(&moved, &mut tape), at(&weights, &mut tape), "{name}: {} has no gradient", weight.name);
            continue;
        }
        // Along the gradient itself, where the slope is its length.
        let step = (0.02 / length.max(0.02)).min(0.02);
        let mut at = |step: f64| {
            let mut moved = weights.clone();
            let pairs = moved[weight.range.clone()].iter_mut().zip(own);
            pairs.for_each(|(x, g)| *x += (step * f64::from(*g) / length) as f32);
            objective(&gpt, &moved, &data, seed, energy, &mut tape)
        };
        let mut difference = |step: f64| (at(step) - at(-step)) / (2.0 * step);
        // Richardson's extrapolation: what is left is of fourth order.
        let slope = (4.0 * difference(step / 2.0) - difference(step)) / 3.0;
        let error = (slope - length).abs();
        assert!(error < tolerance * length + 3e-4 * size, "{name} {w} {}: {length} but {slope}", weight.name);
    }
}

#[test]
fn gradients_of_every_recipe_are_slopes_of_the_loss() {
    for recipe in recipes("recipes") {
        check(&[recipe], 2, 0.0, 0.0, 0.03);
    }
}

#[test]
fn recipes_without_a_compiled_kernel_train_too() {
    for recipe in recipes("tests/ok") {
        check(&[recipe], 1, 0.0, 0.0, 0.03);
    }
}

#[test]
fn gradients_are_slopes_under_dropout() {
    for recipe in recipes("recipes") {
        check(&[recipe], 1, 0.2, 0.0, 0.04);
    }
}

#[test]
fn gradients_are_slopes_of_energies_too() {
    for recipe in recipes("recipes") {
        check(&[recipe], 2, 0.0, 0.02, 0.04);
    }
}

#[test]
fn gradients_go_through_layers_with_different_recipes() {
    let all = recipes("recipes");
    let named = |name: &str| all.iter().find(|recipe| recipe.name == name).expect("a shipped recipe").clone();
    check(&[named("nag"), named("softmax"), named("momentum")], 3, 0.0, 0.0, 0.03);
    check(&[named("loop_softmax"), named("momentum")], 2, 0.0, 0.0, 0.03);
}

/// What layers of these recipes make of a sequence.
fn logits(recipes: &[Recipe]) -> Vec<f32> {
    let config = config(recipes.len());
    let gpt = Gpt::new(&config, recipes).expect("a model");
    let (weights, data) = (weights(&gpt, 3), sequences(&config, 1, 4));
    let mut tape = Tape::default();
    gpt.forward(&weights, &data.input(&config), None, &mut tape);
    gpt.logits(&weights, 0..config.window, &tape)
}

#[test]
fn recipes_of_one_name_are_two_recipes() {
    let mine = |name: &str, local: &str| {
        read(&format!("recipe {name} {{ local {local}; global lse(T = 1); optimizer gd; values free; }}"))
    };
    let alike = logits(&[mine("mine", "dot"), mine("mine", "l1")]);
    assert_eq!(alike, logits(&[mine("one", "dot"), mine("other", "l1")]));
    assert_ne!(alike, logits(&[mine("mine", "dot"), mine("mine", "dot")]));
}

#[test]
fn padding_and_other_documents_change_nothing() {
    for recipe in recipes("recipes") {
        let config = config(2);
        let name = recipe.name.clone();
        let gpt = Gpt::new(&config, &[recipe]).expect("a model");
        let (weights, data) = (weights(&gpt, 3), sequences(&config, 1, 4));
        let mut tape = Tape::default();
        let mut logits = |tokens: &[u16], lengths: Option<&[usize]>, documents: Option<&[u32]>| {
            let input = Input { batch: 1, length: tokens.len(), tokens, lengths, documents };
            gpt.forward(&weights, &input, None, &mut tape);
            gpt.logits(&weights, 0..5, &tape)
        };
        let alone = logits(&data.tokens[..5], None, None);
        let padded = logits(&data.tokens, Some(&[5]), None);
        let documents: Vec<u32> = (0..config.window).map(|i| u32::from(i >= 5)).collect();
        let beside = logits(&data.tokens, None, Some(&documents));
        for other in [padded, beside] {
            let error = alone.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(error < 2e-4, "{name}: {error}");
        }
    }
}
