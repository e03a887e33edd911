//! `energyrun apply` as a user runs it: every shipped recipe against formulas written by hand and their finite
//! differences, every mask, and every way an input can be wrong.

mod binary;
mod formulas;

use binary::{Run, run_in};
use formulas::{Row, has_free_values, initial, params};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use tempfile::TempDir;

/// Rounding in f32, relative to the largest entry (or to 1).
const TOLERANCE: f64 = 3e-5;

// ---- files ----

#[derive(Clone, Debug, PartialEq)]
struct Array {
    shape: Vec<usize>,
    data: Vec<f64>,
}

type Arrays = BTreeMap<String, Array>;

fn array(shape: &[usize], mut value: impl FnMut() -> f64) -> Array {
    // Numbers that f32 has exactly.
    let data = (0..shape.iter().product()).map(|_| f64::from(value() as f32)).collect();
    Array { shape: shape.to_vec(), data }
}

/// A file of f32 tensors and one of i64, `lengths`.
fn file_of(arrays: &Arrays) -> Vec<u8> {
    let encoded: Vec<(&String, Dtype, &[usize], Vec<u8>)> = (arrays.iter())
        .map(|(name, array)| match name.as_str() {
            "lengths" => {
                let bytes = array.data.iter().flat_map(|x| (*x as i64).to_le_bytes()).collect();
                (name, Dtype::I64, &array.shape[..], bytes)
            }
            _ => {
                let bytes = array.data.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
                (name, Dtype::F32, &array.shape[..], bytes)
            }
        })
        .collect();
    let views = encoded
        .iter()
        .map(|(name, dtype, shape, bytes)| (*name, TensorView::new(*dtype, shape.to_vec(), bytes).expect("a tensor")));
    serialize(views, None).expect("a file")
}

fn arrays_in(path: &Path) -> Arrays {
    let bytes = fs::read(path).expect("an output");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let values = |bytes: &[u8]| bytes.as_chunks::<4>().0.iter().map(|x| f64::from(f32::from_le_bytes(*x))).collect();
    (file.iter())
        .map(|(name, view)| {
            assert_eq!(view.dtype(), Dtype::F32, "{name}");
            (name.to_string(), Array { shape: view.shape().to_vec(), data: values(view.data()) })
        })
        .collect()
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn apply_bytes(folder: &TempDir, recipe: &str, bytes: &[u8], options: &[&str]) -> Run {
    fs::write(folder.path().join("in"), bytes).expect("written");
    let args = ["apply", "--recipe", recipe, "--input", "in", "--output", "out"];
    run_in(folder.path(), &[&args[..], options].concat())
}

/// What comes out.
fn apply(recipe: &str, arrays: &Arrays, options: &[&str]) -> Arrays {
    let folder = folder();
    apply_bytes(&folder, recipe, &file_of(arrays), options).exits(0).prints("out: energy [");
    arrays_in(&folder.path().join("out"))
}

/// What is said when it fails; nothing is written then.
#[track_caller]
fn refused(recipe: &str, arrays: &Arrays, options: &[&str]) -> Run {
    let folder = folder();
    let run = apply_bytes(&folder, recipe, &file_of(arrays), options).exits(1);
    assert!(!folder.path().join("out").exists());
    run
}

// ---- cases ----

/// Numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    mask: &'static str,
    queries: usize,
    tokens: usize,
    head: usize,
    lengths: Option<[usize; 2]>,
    /// Whether parameters are given per head.
    per_head: bool,
}

const BATCH: usize = 2;
const HEADS: usize = 2;

const PLAIN: Case = Case { mask: "causal", queries: 6, tokens: 6, head: 3, lengths: None, per_head: true };
const CASES: [Case; 5] = [
    PLAIN,
    Case { mask: "full", lengths: Some([6, 3]), per_head: false, ..PLAIN },
    Case { mask: "window:2", lengths: Some([0, 5]), ..PLAIN },
    Case { queries: 2, lengths: Some([6, 5]), per_head: false, ..PLAIN },
    Case { head: 1, queries: 4, tokens: 4, ..PLAIN },
];

fn shipped() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes");
    let paths = fs::read_dir(folder).expect("recipes").map(|entry| entry.expect("an entry").path());
    let recipes = paths.filter(|path| path.extension().is_some_and(|e| e == "recipe"));
    let mut names: Vec<String> =
        recipes.map(|path| path.file_stem().expect("a name").to_string_lossy().into()).collect();
    names.sort();
    names
}

impl Case {
    fn length(&self, b: usize) -> usize {
        self.lengths.map_or(self.tokens, |lengths| lengths[b])
    }

    fn is_absent(&self, b: usize, position: usize) -> bool {
        position >= self.length(b)
    }

    /// The tokens a query sees.
    fn seen(&self, b: usize, t: usize) -> Range<usize> {
        let position = t + self.tokens - self.queries;
        if self.is_absent(b, position) {
            return 0..0;
        }
        match self.mask {
            "causal" => 0..position + 1,
            "full" => 0..self.length(b),
            _ => (position + 1).saturating_sub(2)..position + 1,
        }
    }

    /// Inputs for a recipe; what is absent is not a number.
    fn inputs(&self, recipe: &str, seed: u64) -> Arrays {
        let mut random = Random(seed);
        let Case { queries, tokens, head, .. } = *self;
        let mut arrays = Arrays::new();
        let vectors = |n: usize| [BATCH, HEADS, n, head];
        let mut put = |name: &str, array: Array| {
            arrays.insert(name.to_string(), array);
        };
        put("q", array(&vectors(queries), || random.normal()));
        put("k", array(&vectors(tokens), || random.normal()));
        if has_free_values(recipe) {
            put("v", array(&vectors(tokens), || random.normal()));
        }
        put("grad_out", array(&vectors(queries), || random.normal()));
        put("grad_energy", array(&[BATCH, HEADS, queries], || random.normal()));
        match recipe {
            "gated_linear" => put("gamma", array(&[BATCH, HEADS, tokens], || random.uniform())),
            "retention" => put("decay", array(&[BATCH, HEADS, tokens], || 0.3 + 0.6 * random.uniform())),
            _ => {}
        }
        let shape: &[usize] = if self.per_head { &[HEADS] } else { &[] };
        for name in params(recipe) {
            let value = initial(recipe, name, head) * if *name == "T" { 1.5 } else { 1.1 };
            put(name, array(shape, || value * (1.0 + 0.2 * random.uniform())));
        }
        for (name, array) in arrays.iter_mut().filter(|(_, array)| array.shape.len() > 1) {
            let positions = array.shape[2];
            let width = array.data.len() / (BATCH * HEADS * positions);
            for (i, row) in array.data.chunks_mut(width).enumerate() {
                let (b, p) = (i / (HEADS * positions), i % positions + tokens - positions);
                if self.is_absent(b, p) {
                    row.fill(if name == "k" { 1e30 } else { f64::NAN });
                }
            }
        }
        if let Some(lengths) = self.lengths {
            let data = lengths.iter().map(|x| *x as f64).collect();
            arrays.insert("lengths".to_string(), Array { shape: vec![BATCH], data });
        }
        arrays
    }

    /// The direction and the energy of a whole batch, by the formulas.
    fn reference(&self, recipe: &str, arrays: &Arrays) -> (Vec<f64>, Vec<f64>) {
        let Case { queries, tokens, head, .. } = *self;
        let vector = |name: &str, positions: usize, i: usize, n: usize| {
            let start = (i * positions + n) * head;
            &arrays[name].data[start..start + head]
        };
        let (mut directions, mut energies) = (vec![], vec![]);
        for (i, t) in (0..BATCH * HEADS).flat_map(|i| (0..queries).map(move |t| (i, t))) {
            let seen = self.seen(i / HEADS, t);
            if seen.is_empty() {
                directions.extend(vec![0.0; head]);
                energies.push(0.0);
                continue;
            }
            let steps = |name: &str| &arrays[name].data[i * tokens..(i + 1) * tokens];
            let position = t + tokens - queries;
            let gamma = |n: usize| match recipe {
                "gated_linear" => steps("gamma")[n],
                "retention" => steps("decay")[n + 1..=position].iter().product(),
                _ => 1.0,
            };
            let values = if has_free_values(recipe) { "v" } else { "k" };
            let param = |name: &str| match arrays.get(name) {
                Some(array) => array.data[if array.shape.is_empty() { 0 } else { i % HEADS }],
                None => initial(recipe, name, head),
            };
            let row = Row {
                q: vector("q", queries, i, t),
                keys: seen.clone().map(|n| vector("k", tokens, i, n)).collect(),
                values: seen.clone().map(|n| vector(values, tokens, i, n)).collect(),
                gamma: seen.map(gamma).collect(),
                param: &param,
            };
            let (direction, energy) = formulas::row(recipe, &row);
            directions.extend(direction);
            energies.push(energy);
        }
        (directions, energies)
    }

    /// What the cotangents make of a batch: the number whose gradients are asked for.
    fn loss(&self, recipe: &str, arrays: &Arrays) -> f64 {
        let (directions, energies) = self.reference(recipe, arrays);
        let paired = |name: &str, values: &[f64]| -> f64 {
            let Some(cotangent) = arrays.get(name) else { return 0.0 };
            let here = cotangent.data.iter().zip(values).filter(|(g, _)| !g.is_nan());
            here.map(|(g, x)| g * x).sum()
        };
        paired("grad_out", &directions) + paired("grad_energy", &energies)
    }

    /// Everything `apply` has to answer.
    fn expected(&self, recipe: &str, arrays: &Arrays) -> Arrays {
        let (out, energy) = self.reference(recipe, arrays);
        let rows = vec![BATCH, HEADS, self.queries];
        let mut expected = Arrays::from([
            ("out".to_string(), Array { shape: arrays["q"].shape.clone(), data: out }),
            ("energy".to_string(), Array { shape: rows, data: energy }),
        ]);
        let is_input = |name: &str| !["grad_out", "grad_energy", "lengths"].contains(&name);
        for (name, array) in arrays.iter().filter(|(name, _)| is_input(name)) {
            let slope = |i: usize| {
                let step = 1e-5;
                let at = |h: f64| {
                    let mut arrays = arrays.clone();
                    arrays.get_mut(name).expect("an input").data[i] += h;
                    self.loss(recipe, &arrays)
                };
                (at(step) - at(-step)) / (2.0 * step)
            };
            let data = (0..array.data.len()).map(slope).collect();
            expected.insert(format!("grad_{name}"), Array { shape: array.shape.clone(), data });
        }
        expected
    }
}

#[track_caller]
fn agree(what: &str, expected: &Arrays, got: &Arrays) {
    assert_eq!(expected.keys().collect::<Vec<_>>(), got.keys().collect::<Vec<_>>(), "{what}");
    for (name, x) in expected {
        let y = &got[name];
        assert_eq!(x.shape, y.shape, "{what}: {name}");
        let scale = x.data.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
        let worst = x.data.iter().zip(&y.data).map(|(x, y)| (x - y).abs() / scale);
        let worst = worst.fold(0.0, |m: f64, e| if e.is_nan() { f64::INFINITY } else { m.max(e) });
        assert!(worst <= TOLERANCE, "{what}: {name} is off by {worst:.1e}\nexpected {:?}\ngot {:?}", x.data, y.data);
    }
}

// ---- what is computed ----

#[test]
fn every_shipped_recipe_computes_its_formula_and_its_gradients() {
    for recipe in shipped() {
        for (seed, case) in (1..).zip(CASES) {
            if recipe == "retention" && case.mask == "full" {
                continue;
            }
            let inputs = case.inputs(&recipe, seed);
            let got = apply(&recipe, &inputs, &["--mask", case.mask]);
            agree(&format!("{recipe} {case:?}"), &case.expected(&recipe, &inputs), &got);
        }
    }
}

#[test]
fn parameters_start_where_the_recipe_says() {
    for recipe in shipped() {
        let mut inputs = PLAIN.inputs(&recipe, 11);
        params(&recipe).iter().for_each(|name| drop(inputs.remove(*name)));
        inputs.retain(|name, _| !name.starts_with("grad_"));
        let mut expected = PLAIN.expected(&recipe, &inputs);
        expected.retain(|name, _| !name.starts_with("grad_"));
        agree(&recipe, &expected, &apply(&recipe, &inputs, &["--engine", "interpreted"]));
    }
}

#[test]
fn each_cotangent_works_alone() {
    for (recipe, cotangent) in [("huber", "grad_out"), ("huber", "grad_energy"), ("retention", "grad_energy")] {
        let mut inputs = PLAIN.inputs(recipe, 3);
        inputs.retain(|name, _| !name.starts_with("grad_") || name == cotangent);
        agree(&format!("{recipe} {cotangent}"), &PLAIN.expected(recipe, &inputs), &apply(recipe, &inputs, &[]));
    }
}

#[test]
fn what_is_absent_is_exactly_zero() {
    let case = Case { lengths: Some([2, 0]), ..PLAIN };
    for recipe in ["softmax", "newton", "retention", "gated_linear", "qknorm"] {
        for (name, array) in apply(recipe, &case.inputs(recipe, 5), &[]) {
            let Some(rows) = array.shape.get(2) else { continue };
            let width = array.data.len() / (BATCH * HEADS * rows);
            for (i, row) in array.data.chunks(width).enumerate() {
                let is_absent = case.is_absent(i / (HEADS * rows), i % rows);
                assert!(!is_absent || row.iter().all(|x| *x == 0.0), "{recipe}: {name} at row {i}: {row:?}");
            }
        }
    }
}

#[test]
fn gates_and_decays_go_by_the_recipes_names_too() {
    let rename = |recipe: &str, from: &str, to: &str| {
        let mut inputs = PLAIN.inputs(recipe, 9);
        let plain = apply(recipe, &inputs, &[]);
        let array = inputs.remove(from).expect("an input");
        inputs.insert(to.to_string(), array);
        (plain[&format!("grad_{from}")].clone(), apply(recipe, &inputs, &[])[&format!("grad_{to}")].clone())
    };
    let (decay, gamma) = rename("retention", "decay", "gamma");
    assert_eq!(decay, gamma);
    let folder = folder();
    let text = "recipe own { local abs_dot; global gated_square_sum(T = 1, gamma = g); param g = gate(sigmoid); \
                optimizer gd; values free; }";
    let own = folder.path().join("own.recipe");
    fs::write(&own, text).expect("written");
    let mut inputs = PLAIN.inputs("gated_linear", 9);
    inputs.remove("T");
    let own = own.to_str().expect("a path");
    let by_alias = apply(own, &inputs, &[]);
    let gate = inputs.remove("gamma").expect("a gate");
    inputs.insert("g".to_string(), gate.clone());
    let by_name = apply(own, &inputs, &[]);
    assert_eq!(by_alias["grad_gamma"], by_name["grad_g"]);
    assert_eq!(by_alias["out"], by_name["out"]);
    inputs.insert("gamma".to_string(), gate);
    refused(own, &inputs, &[]).says("`g` and `gamma` are the same input");
}

/// A recipe with a weight per component and a gate of the query, by hand: with p = softmax(−E), E = Σ_e w_e (q − k)_e², F is
/// −γ log Σ exp(−E) and o = −2 γ Σ p w (q − v).
const WEIGHTED: &str = "recipe weighted {
    local     weighted(w = learn(0.5, per component)) where w > 0 { E = sum(w * (q - k)^2) }
    global    gated(gamma = gate(sigmoid, per query)) { F = -gamma * log(sum(exp(-E))) }
    optimizer gd;
}";

/// The direction and the energy of every query, from w along `[H, d_h]`.
fn weighted(case: Case, arrays: &Arrays, w: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let Case { queries, tokens, head, .. } = case;
    let (mut directions, mut energies) = (vec![], vec![]);
    for (i, t) in (0..BATCH * HEADS).flat_map(|i| (0..queries).map(move |t| (i, t))) {
        let row = |name: &str, n: usize, at: usize| &arrays[name].data[(i * n + at) * head..][..head];
        let (q, gamma, w) =
            (row("q", queries, t), arrays["gamma"].data[i * queries + t], &w[i % HEADS * head..][..head]);
        let energy = |n: usize| -> f64 {
            let squares = q.iter().zip(row("k", tokens, n)).zip(w).map(|((q, k), w)| w * (q - k).powi(2));
            squares.sum()
        };
        let seen = case.seen(i / HEADS, t);
        let total: f64 = seen.clone().map(|n| (-energy(n)).exp()).sum();
        energies.push(if seen.is_empty() { 0.0 } else { -gamma * total.ln() });
        directions.extend((0..head).map(|e| -> f64 {
            let part = |n: usize| (-energy(n)).exp() / total * w[e] * (q[e] - row("v", tokens, n)[e]);
            -2.0 * gamma * seen.clone().map(part).sum::<f64>()
        }));
    }
    (directions, energies)
}

#[test]
fn weights_per_component_and_gates_of_queries_have_their_shapes() {
    let folder = folder();
    let path = folder.path().join("weighted.recipe");
    fs::write(&path, WEIGHTED).expect("written");
    let recipe = path.display().to_string();
    for (seed, case) in (1..).zip(CASES) {
        let (queries, head) = (case.queries, case.head);
        let mut random = Random(40 + seed);
        let mut inputs = case.inputs("softmax", seed);
        inputs.remove("T");
        inputs.insert("gamma".to_string(), array(&[BATCH, HEADS, queries], || 0.2 + 0.7 * random.uniform()));
        let shape: &[usize] = if case.per_head { &[HEADS, head] } else { &[head] };
        inputs.insert("w".to_string(), array(shape, || 0.3 + random.uniform()));
        let per_head = |w: &Array| if case.per_head { w.data.clone() } else { w.data.repeat(HEADS) };
        let (out, energy) = weighted(case, &inputs, &per_head(&inputs["w"]));
        let got = apply(&recipe, &inputs, &["--mask", case.mask]);
        let loss = |inputs: &Arrays| -> f64 {
            let (out, energy) = weighted(case, inputs, &per_head(&inputs["w"]));
            let paired = |name: &str, values: &[f64]| -> f64 {
                let here = inputs[name].data.iter().zip(values).filter(|(g, _)| !g.is_nan());
                here.map(|(g, x)| g * x).sum()
            };
            paired("grad_out", &out) + paired("grad_energy", &energy)
        };
        let mut expected = Arrays::from([
            ("out".to_string(), Array { shape: inputs["q"].shape.clone(), data: out }),
            ("energy".to_string(), Array { shape: inputs["gamma"].shape.clone(), data: energy }),
        ]);
        for name in ["q", "k", "v", "w", "gamma"] {
            let slope = |i: usize| {
                let at = |h: f64| {
                    let mut moved = inputs.clone();
                    moved.get_mut(name).expect("an input").data[i] += h;
                    loss(&moved)
                };
                (at(1e-5) - at(-1e-5)) / 2e-5
            };
            let data = (0..inputs[name].data.len()).map(slope).collect();
            expected.insert(format!("grad_{name}"), Array { shape: inputs[name].shape.clone(), data });
        }
        agree(&format!("{case:?}"), &expected, &got);
    }
    let with = |name: &str, shape: &[usize]| {
        let mut inputs = PLAIN.inputs("softmax", 2);
        inputs.remove("T");
        inputs.insert("gamma".to_string(), array(&[BATCH, HEADS, PLAIN.queries], || 0.5));
        inputs.insert(name.to_string(), array(shape, || -0.5));
        inputs
    };
    refused(&recipe, &with("w", &[]), &[]).says("`w` has the shape []; it has to be [3] or [2, 3]");
    refused(&recipe, &with("w", &[HEADS]), &[]).says("it has to be [3] or [2, 3]");
    refused(&recipe, &with("w", &[HEADS, 3]), &[]).says("`w` is -0.5 at [0, 0]; it has to be positive");
    refused(&recipe, &with("gamma", &[BATCH, HEADS, 5]), &[]).says("it has to be [2, 2, 6]");
}

#[test]
fn larger_heads_are_fine() {
    let case = Case { head: 300, queries: 3, tokens: 3, ..PLAIN };
    let mut inputs = case.inputs("softmax", 2);
    inputs.retain(|name, _| !name.starts_with("grad_"));
    let (out, _) = case.reference("softmax", &inputs);
    let got = apply("softmax", &inputs, &[]);
    assert!(out.iter().zip(&got["out"].data).all(|(x, y)| (x - y).abs() < 1e-4));
}

#[test]
fn the_output_may_be_the_input() {
    let folder = folder();
    fs::write(folder.path().join("x"), file_of(&PLAIN.inputs("softmax", 1))).expect("written");
    let args = ["apply", "--recipe", "softmax", "--input", "x", "--output", "x"];
    run_in(folder.path(), &args).exits(0);
    assert!(arrays_in(&folder.path().join("x")).contains_key("grad_q"));
    assert_eq!(fs::read_dir(folder.path()).expect("entries").count(), 1);
}

// ---- what is refused ----

/// Inputs with one of them changed.
fn with(recipe: &str, name: &str, shape: &[usize], value: f64) -> Arrays {
    let mut inputs = PLAIN.inputs(recipe, 4);
    inputs.insert(name.to_string(), array(shape, || value));
    inputs
}

fn without(recipe: &str, name: &str) -> Arrays {
    let mut inputs = PLAIN.inputs(recipe, 4);
    inputs.remove(name).expect("an input");
    inputs
}

#[test]
fn missing_tensors_are_named() {
    for name in ["q", "k", "v"] {
        refused("softmax", &without("softmax", name), &[]).says(&format!("in: `{name}` is missing"));
    }
    refused("gated_linear", &without("gated_linear", "gamma"), &[]).says("`gamma` is missing");
    refused("retention", &without("retention", "decay"), &[]).says("`decay` is missing");
    refused("softmax", &Arrays::new(), &[]).says("`q` is missing");
}

#[test]
fn wrong_shapes_are_named() {
    let wrong: [(&str, &[usize]); 12] = [
        ("q", &[2, 6, 3]),
        ("q", &[0, 2, 6, 3]),
        ("q", &[2, 2, 7, 3]),
        ("k", &[2, 2, 6, 4]),
        ("k", &[1, 2, 6, 3]),
        ("v", &[2, 2, 5, 3]),
        ("grad_out", &[2, 2, 6]),
        ("grad_energy", &[2, 2, 6, 1]),
        ("T", &[1]),
        ("T", &[3]),
        ("T", &[2, 2]),
        ("lengths", &[3]),
    ];
    for (name, shape) in wrong {
        refused("softmax", &with("softmax", name, shape, 1.0), &[]).says(&format!("`{name}` has"));
    }
    refused("retention", &with("retention", "decay", &[2, 2], 0.5), &[]).says("`decay` has the shape [2, 2]");
}

#[test]
fn numbers_that_are_none_are_named() {
    for name in ["q", "k", "v", "grad_out", "grad_energy", "T"] {
        for value in [f64::NAN, f64::INFINITY] {
            let mut inputs = PLAIN.inputs("softmax", 4);
            *inputs.get_mut(name).expect("an input").data.last_mut().expect("an entry") = value;
            refused("softmax", &inputs, &[]).says(&format!("`{name}` is ")).says(" at [");
        }
    }
}

#[test]
fn results_that_are_no_numbers_are_written_and_named() {
    // E² is beyond f32.
    let mut inputs = PLAIN.inputs("linear", 4);
    for name in ["q", "k"] {
        inputs.get_mut(name).expect("an input").data.iter_mut().for_each(|x| *x *= f64::from(1e15f32));
    }
    let folder = folder();
    let run = apply_bytes(&folder, "linear", &file_of(&inputs), &[]).exits(1).prints("out: energy [");
    run.says("warning: `energy` is not finite in ").says(" entries: it is ");
}

#[test]
fn values_outside_of_their_domain_are_named() {
    for (recipe, name) in [("softmax", "T"), ("huber", "delta"), ("qknorm", "rho")] {
        for value in [0.0, -1.0] {
            refused(recipe, &with(recipe, name, &[], value), &[]).says(&format!("`{name}` is {value}; it has to be"));
        }
    }
    for value in [0.0, -0.1, 1.5] {
        let inputs = with("retention", "decay", &[2, 2, 6], value);
        refused("retention", &inputs, &[]).says("`decay` is").says("between 0 and 1");
    }
    apply("retention", &with("retention", "decay", &[2, 2, 6], 1.0), &[]);
    refused("gated_linear", &with("gated_linear", "gamma", &[2, 2, 6], -0.5), &[]).says("`gamma` is -0.5");
    for value in [-1.0, 7.0] {
        refused("softmax", &with("softmax", "lengths", &[2], value), &[]).says("`lengths` has");
    }
    // What only scales a step may have any sign.
    apply("newton_taylor", &with("newton_taylor", "tau", &[], -0.5), &[]);
}

#[test]
fn strangers_are_named() {
    refused("softmax", &with("softmax", "grad_ouť", &[], 1.0), &[]).says("did you mean `grad_out`?");
    refused("softmax", &with("softmax", "length", &[2], 1.0), &[]).says("did you mean `lengths`?");
    refused("softmax", &with("softmax", "something", &[], 1.0), &[]).says("`something` is not an input of `softmax`");
    refused("softmax", &with("softmax", "gamma", &[2, 2, 6], 0.5), &[]).says("`gamma` is not an input");
    refused("newton", &with("newton", "v", &[2, 2, 6, 3], 0.5), &[]).says("`v` is not an input of `newton`");
    for (recipe, name) in [("lp", "p"), ("sparsemax", "alpha"), ("normmax", "gamma")] {
        refused(recipe, &with(recipe, name, &[], 2.0), &[]).says(&format!("`{name}` is a constant that shapes"));
    }
}

#[test]
fn other_number_types_are_named() {
    let bytes = vec![0; 2 * 2 * 6 * 3 * 8];
    for (name, dtype, size) in
        [("q", Dtype::F64, 8), ("q", Dtype::F16, 2), ("q", Dtype::BF16, 2), ("lengths", Dtype::F32, 4)]
    {
        let view = TensorView::new(dtype, vec![2, 2, 6, 3], &bytes[..72 * size]).expect("a tensor");
        let file = serialize([(name, view)], None).expect("a file");
        apply_bytes(&folder(), "softmax", &file, &[]).exits(1).says(&format!("`{name}` is {dtype:?}"));
    }
}

#[test]
fn masks_are_checked() {
    let inputs = PLAIN.inputs("retention", 4);
    refused("retention", &inputs, &["--mask", "full"]).says("a decay").says("`causal`");
    for mask in ["window:0", "window:", "window:x", "none"] {
        apply_bytes(&folder(), "softmax", &file_of(&inputs), &["--mask", mask]).exits(2).says("--mask");
    }
}

#[test]
fn files_that_cannot_be_read_or_written() {
    let folder = folder();
    let run = |recipe: &str, input: &str, output: &str| {
        run_in(folder.path(), &["apply", "--recipe", recipe, "--input", input, "--output", output])
    };
    run("softmax", "nowhere", "out").exits(1).says("cannot read `nowhere`");
    fs::write(folder.path().join("text"), "this is text").expect("written");
    run("softmax", "text", "out").exits(1).says("text: this is no safetensors file");
    let whole = file_of(&PLAIN.inputs("softmax", 1));
    fs::write(folder.path().join("cut"), &whole[..whole.len() - 8]).expect("written");
    run("softmax", "cut", "out").exits(1).says("cut: this is no safetensors file");
    fs::write(folder.path().join("in"), &whole).expect("written");
    run("softmax", "in", "no/where").exits(1).says("cannot write `no/where`");
    run("softmax", "in", ".").exits(1).says("cannot write `.`");
    run("sofmax", "in", "out").exits(1).says("did you mean `softmax`?");
    fs::write(folder.path().join("bad.recipe"), "recipe bad { local dott; global lse; optimizer gd; }")
        .expect("written");
    run("bad.recipe", "in", "out").exits(1).says("error[").says("did you mean `dot`?");
    // A file that is there stays as it was.
    fs::write(folder.path().join("bad"), file_of(&without("softmax", "k"))).expect("written");
    let before = fs::read(folder.path().join("bad")).expect("bytes");
    run("softmax", "bad", "bad").exits(1).says("`k` is missing");
    assert_eq!(fs::read(folder.path().join("bad")).expect("bytes"), before);
    assert!(!folder.path().join("out").exists());
}

#[test]
fn usage() {
    let folder = folder();
    run_in(folder.path(), &[]).exits(2).says("Usage: energyrun");
    run_in(folder.path(), &["apply", "--help"]).exits(0).prints("[B,H,N,d_h]").prints("Examples:\n  energyrun ");
    run_in(folder.path(), &["apply", "--recipe", "softmax"]).exits(2).says("--input");
    let inputs = PLAIN.inputs("softmax", 1);
    let text = "recipe mine { local dot; global lse(T = 3); optimizer gd; }";
    let mine = folder.path().join("mine.recipe");
    fs::write(&mine, text).expect("written");
    let mine = mine.to_str().expect("a path");
    refused(mine, &inputs, &["--engine", "compiled"]).says("there is no compiled kernel for `mine`");
    apply_bytes(&folder, mine, &file_of(&inputs), &[]).exits(0).says("note: `mine` has no compiled kernel");
    let run = apply_bytes(&folder, mine, &file_of(&inputs), &["--engine", "interpreted"]).exits(0);
    assert_eq!(run.err, "");
}

/// A parameter called like something else in a file has a `_` more there, and means what it means.
#[test]
fn parameters_may_be_called_like_anything_in_a_file() {
    let recipe = |a: &str, b: &str| {
        format!(
            "recipe r {{
                local c({a} = learn(1)) where {a} > 0 {{ E = {a} * norm(q - k)^2 }}
                global g({b} = learn(2)) where {b} > 0 {{ F = -{b} * log(sum(exp(-E / {b}))) }}
                optimizer gd; values tied;
            }}"
        )
    };
    let outcome = |[a, b]: [&str; 2], [in_file, other]: [&str; 2]| {
        let own = folder();
        let path = own.path().join("r.recipe");
        fs::write(&path, recipe(a, b)).expect("written");
        let mut inputs = PLAIN.inputs("euclidean", 7);
        inputs.retain(|name, _| ["q", "k", "grad_out", "grad_energy"].contains(&name.as_str()));
        inputs.insert(in_file.to_string(), array(&[HEADS], || 0.7));
        inputs.insert(other.to_string(), array(&[HEADS], || 1.3));
        apply(&path.display().to_string(), &inputs, &[])
    };
    let plain = outcome(["s", "T"], ["s", "T"]);
    let other = outcome(["lengths", "grad_out"], ["lengths_", "grad_out_"]);
    for (name, ours) in [("out", "out"), ("energy", "energy"), ("grad_q", "grad_q"), ("grad_s", "grad_lengths_")] {
        assert_eq!(plain[name], other[ours], "{name}");
    }
    assert_eq!(plain["grad_T"], other["grad_grad_out_"]);
}

#[test]
fn what_runs_is_verified() {
    let folder = TempDir::new().expect("a folder");
    let text = "recipe mine { local l() { E = log(sum(1 + (q - k)^2)) } global lse; optimizer gd; }";
    fs::write(folder.path().join("mine.recipe"), text).expect("a file");
    for (recipe, by) in [("entmax15", "the compiled kernel"), ("mine.recipe", "the interpreter")] {
        let run = run_in(folder.path(), &["verify", recipe]).exits(0).prints(&format!("computed by {by}"));
        for line in ["kernel forward", "kernel energy", "kernel backward", "kernel energy backward"] {
            assert!(run.out.contains(&format!("✓  {line}")), "{}", run.out);
        }
    }
    let json = run_in(folder.path(), &["verify", "mine.recipe", "--format", "json"]).exits(0).out;
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let lines = report["lines"].as_array().expect("lines");
    assert!(lines.iter().any(|line| line["line"] == "kernel backward" && line["outcome"] == "pass"), "{json}");
}
