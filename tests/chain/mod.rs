//! One head of a recipe through two links of the chain: the reference interpreter and the plan interpreter.
#![allow(dead_code)]

use energyc::check::{Recipe, inputs};
use energyc::derive::{self, Backward, Derivation, EnergyBackward};
use energyc::interpret::{Head, HeadDropout, HeadSize, run_head};
use energyc::ir::eval::{Env, Sizes};
use energyc::ir::sample::Random;
use energyc::ir::tensor::Tensor;
use energyc::ir::{Axis, Expr, Leaf, Role};
use energyc::plan::schedule::{Domain, Pass};
use energyc::plan::{self, Plan};
use energyc::primitives::decay;
use energyc::primitives::dropout::Dropout;
use energyc::primitives::real::Real;
use energyc::primitives::visible::Visible;
use energyc::simplify::Options;
use energyc::verify::samples;
use energyc::verify::slopes::value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A recipe and what both interpreters need of it.
pub struct Case {
    pub derivation: Derivation,
    pub backward: Backward,
    pub energy_backward: EnergyBackward,
    pub plan: Plan,
    /// The seed and the rate of attention dropout.
    pub dropout: Option<(u64, f64)>,
}

/// Values by name.
pub type Values = BTreeMap<String, Vec<f64>>;

pub fn recipe_files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "recipe"));
    files.sort();
    files
}

pub fn shipped(name: &str) -> Case {
    let files = recipe_files("recipes");
    let path = files.iter().find(|p| p.file_stem().is_some_and(|s| s == name)).expect("a shipped recipe");
    Case::read(&std::fs::read_to_string(path).expect("a recipe can be read"))
}

pub fn every_shipped() -> Vec<Case> {
    recipe_files("recipes").iter().map(|p| Case::read(&std::fs::read_to_string(p).expect("a recipe"))).collect()
}

impl Case {
    pub fn read(text: &str) -> Case {
        let (recipe, diagnostics) = energyc::pipeline::front(text);
        let recipe = recipe.unwrap_or_else(|| panic!("{diagnostics:?}\n{text}"));
        Case::of(&recipe)
    }

    pub fn of(recipe: &Recipe) -> Case {
        let options = Options::default();
        let derivation = derive::derive(recipe, &options);
        let backward = derive::backward(&derivation, &options);
        let energy_backward = derive::energy_backward(&derivation, &options);
        let plan = plan::plan(&derivation, &options).unwrap_or_else(|why| panic!("{}: {why:?}", recipe.name));
        Case { derivation, backward, energy_backward, plan, dropout: None }
    }

    /// The same with attention dropout.
    pub fn dropping(self, seed: u64, rate: f64) -> Case {
        let derivation = derive::with_dropout(&self.derivation);
        let backward = derive::backward(&derivation, &Options::default());
        Case { derivation, backward, dropout: Some((seed, rate)), ..self }
    }

    pub fn recipe(&self) -> &Recipe {
        &self.derivation.recipe
    }

    pub fn has_decay(&self) -> bool {
        self.recipe().params.iter().any(|p| p.leaf.role == Role::Decay)
    }

    /// Random inputs with the parameters at their starting values, seen through a mask.
    pub fn sample(&self, size: HeadSize, visible: &Visible, seed: u64) -> Env {
        let HeadSize { queries, tokens, head } = size;
        let sizes = Sizes { queries, tokens, head, model: head + 1, heads: 2 };
        let mut env = Env::new(sizes);
        let mut random = Random::new(seed);
        let length = |a: Axis| sizes.length(a);
        let [g, u] = self.plan.cotangents.clone();
        for leaf in [inputs::q(), inputs::k(), inputs::v(), g, u] {
            env.values.insert(leaf.name.to_string(), Tensor::build(&leaf.axes, length, |_| random.normal()));
        }
        for param in &self.recipe().params {
            let leaf = &param.leaf;
            let draw = |_: &[usize]| 0.2 + 0.8 * random.uniform();
            let tensor = match leaf.role {
                Role::Decay => {
                    let steps = Tensor::build(&[Axis::N], length, draw);
                    let full = decay_matrix(&steps.data, visible);
                    env.values.insert(format!("{} steps", leaf.name), steps);
                    Tensor { axes: leaf.axes.clone(), shape: vec![queries, tokens], data: full }
                }
                _ => Tensor::build(&leaf.axes, length, draw),
            };
            env.values.insert(leaf.name.to_string(), tensor);
        }
        if let Some((seed, rate)) = self.dropout {
            let dropout = Dropout::new(seed, rate);
            let leaf = derive::kept(&self.derivation, Axis::N);
            let factor = |at: &[usize]| f64::from(dropout.factor(0, at[0] as u32, at[1] as u32));
            env.values.insert(leaf.name.to_string(), Tensor::build(&leaf.axes, length, factor));
        }
        samples::start(&mut env, self.recipe());
        let seen = (0..queries).flat_map(|t| (0..tokens).map(move |n| (t, n)));
        env.visible = Some(seen.map(|(t, n)| visible.of(t).contains(&n)).collect());
        for constraint in &self.recipe().constraints {
            let x = env.values[&*constraint.vector.name].clone();
            env.values.insert(plan::unconstrained(&constraint.vector).name.to_string(), x);
            let radius = samples::number(&constraint.radius, &env);
            let x = env.values.get_mut(&*constraint.vector.name).expect("a vector");
            for row in x.data.chunks_mut(head) {
                let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
                row.iter_mut().for_each(|x| *x *= if norm == 0.0 { 0.0 } else { radius / norm });
            }
        }
        env
    }

    /// What the formulas say, by the reference interpreter.
    pub fn reference(&self, env: &Env) -> Values {
        let mut env = env.clone();
        let put = |env: &mut Env, leaf: &Leaf, e: &Expr| {
            let x = value(e, &leaf.axes, env).expect("a value");
            env.values.insert(leaf.name.to_string(), x);
        };
        for named in &self.derivation.names {
            put(&mut env, &named.leaf, &named.value());
        }
        let mut out = Values::new();
        let at = |env: &Env, e: &Expr, axes: &[Axis]| value(e, axes, env).expect("a value");
        out.insert("out".into(), at(&env, &self.derivation.direction.term, &[Axis::T, Axis::E]).data);
        out.insert("energy".into(), at(&env, &self.derivation.energy.term, &[Axis::T]).data);
        for definition in &self.backward.definitions {
            put(&mut env, &definition.leaf, &definition.value.term);
        }
        let passes = [("", &self.backward.gradients), ("energy ", &self.energy_backward.gradients)];
        for (prefix, gradients) in passes {
            for definition in gradients {
                let name = definition.leaf.name.trim_start_matches('∂');
                let x = at(&env, &definition.value.term, &definition.leaf.axes);
                out.insert(format!("{prefix}{name}"), x.data);
            }
        }
        self.through_decays(&env, &mut out);
        self.through_constraints(&env, &mut out);
        // Queries that see nothing have nothing.
        let sees =
            |t: usize| (0..env.sizes.tokens).any(|n| env.visible.as_ref().expect("a mask")[t * env.sizes.tokens + n]);
        for (name, per_row) in
            [("out", env.sizes.head), ("q", env.sizes.head), ("energy q", env.sizes.head), ("energy", 1)]
        {
            let Some(x) = out.get_mut(name) else { continue };
            (0..env.sizes.queries).filter(|t| !sees(*t)).for_each(|t| x[t * per_row..(t + 1) * per_row].fill(0.0));
        }
        out
    }

    /// Gradients by pair become gradients by step: ∂d_j = Σ ∂γ_{t,i} ∂γ_{t,i}/∂d_j, term by term.
    fn through_decays(&self, env: &Env, out: &mut Values) {
        for param in self.recipe().params.iter().filter(|p| p.leaf.role == Role::Decay) {
            let steps = env.values[&format!("{} steps", param.name)].data.clone();
            let Sizes { queries, tokens, .. } = env.sizes;
            for prefix in ["", "energy "] {
                let Some(pairs) = out.remove(&format!("{prefix}{}", param.name)) else { continue };
                let mut gradient = vec![0.0; tokens];
                for (t, n) in (0..queries).flat_map(|t| (0..tokens).map(move |n| (t, n))) {
                    let position = t + tokens - queries;
                    if !env.visible.as_ref().expect("a mask")[t * tokens + n] {
                        continue;
                    }
                    for (j, slope) in gradient.iter_mut().enumerate().take(position + 1).skip(n + 1) {
                        let others: f64 = (n + 1..=position).filter(|&i| i != j).map(|i| steps[i]).product();
                        *slope += pairs[t * tokens + n] * others;
                    }
                }
                out.insert(format!("{prefix}{}", param.name), gradient);
            }
        }
    }

    /// Gradients of constrained vectors become gradients of what was brought to length, by finite differences.
    fn through_constraints(&self, env: &Env, out: &mut Values) {
        for constraint in &self.recipe().constraints {
            let name = constraint.vector.name.to_string();
            let x = env.values[&*plan::unconstrained(&constraint.vector).name].data.clone();
            let radius = samples::number(&constraint.radius, env);
            let head = env.sizes.head;
            let scaled = |x: &[f64], radius: f64| -> Vec<f64> {
                let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
                x.iter().map(|x| if norm == 0.0 { 0.0 } else { radius * x / norm }).collect()
            };
            for prefix in ["", "energy "] {
                let Some(y) = out.get(&format!("{prefix}{name}")).cloned() else { continue };
                let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                let mut gradient = Vec::new();
                let mut length = 0.0;
                for (x, y) in x.chunks(head).zip(y.chunks(head)) {
                    length += dot(&scaled(x, 1.0), y);
                    for e in 0..head {
                        let at = |h: f64| {
                            let mut x = x.to_vec();
                            x[e] += h;
                            dot(&scaled(&x, radius), y)
                        };
                        gradient.push((at(1e-5) - at(-1e-5)) / 2e-5);
                    }
                }
                out.insert(format!("{prefix}{name}"), gradient);
                // The shipped constraints fix the length by a parameter of its own.
                let param = constraint.radius.as_leaf().expect("a parameter").name.to_string();
                out.entry(format!("{prefix}{param}")).or_insert(vec![0.0])[0] += length;
            }
        }
    }

    /// The same by the plan interpreter.
    pub fn planned<T: Real>(&self, env: &Env, visible: &Visible) -> Values {
        let passes = self.plan.passes_for(std::slice::from_ref(visible), self.dropout.is_some());
        self.planned_by::<T>(passes, env, visible)
    }

    /// The same by given passes.
    pub fn planned_by<T: Real>(&self, passes: [&Pass; 5], env: &Env, visible: &Visible) -> Values {
        let [forward, energy, backward, constants, energy_backward] = passes;
        let size = head_size(env);
        let inputs: BTreeMap<String, Vec<T>> =
            (env.values.iter()).map(|(name, x)| (name.clone(), x.data.iter().map(|x| T::of(*x)).collect())).collect();
        let sizes: BTreeMap<&str, Vec<T>> = ["N", "d", "d_h", "H"]
            .into_iter()
            .map(|name| (name, vec![T::of(env.sizes.symbol(name).expect("a size"))]))
            .collect();
        let find = |leaf: &Leaf| -> &[T] {
            match leaf.role {
                Role::Size => &sizes[&*leaf.name],
                Role::Decay => &inputs[&format!("{} steps", leaf.name)],
                _ => inputs.get(&*leaf.name).unwrap_or_else(|| panic!("no input {}", leaf.name)),
            }
        };
        let plan = &self.plan;
        let dropout = self.dropout.map(|(seed, rate)| HeadDropout { dropout: Dropout::new(seed, rate), head: 0 });
        let length = |id| size.entries(Domain::of(plan.graph.axes(id)));
        let mut saved: Vec<Vec<T>> = forward.saved.iter().map(|id| vec![T::ZERO; length(*id)]).collect();
        let mut out = Values::new();
        let mut run = |pass: &Pass, prefix: &str, saved: &mut [Vec<T>]| {
            let mut outputs: Vec<Vec<T>> = pass.outputs.iter().map(|o| vec![T::ZERO; size.entries(o.domain)]).collect();
            run_head(&plan.graph, pass, Head { size, visible, dropout }, &find, saved, &mut outputs);
            if pass.is_saving {
                for (saved, id) in saved.iter_mut().zip(&pass.saved) {
                    if let Some(i) = pass.outputs.iter().position(|o| o.id == *id) {
                        saved.clone_from(&outputs[i]);
                    }
                }
            }
            for (output, x) in pass.outputs.iter().zip(outputs) {
                out.insert(format!("{prefix}{}", output.name), x.iter().map(|x| x.to_f64()).collect());
            }
        };
        run(forward, "", &mut saved);
        run(energy, "", &mut []);
        run(backward, "", &mut saved);
        run(constants, "", &mut saved);
        run(energy_backward, "energy ", &mut saved);
        for param in self.recipe().params.iter().filter(|p| p.leaf.role == Role::Decay) {
            for prefix in ["", "energy "] {
                let sums = plan::decay_sums(&param.name).map(|name| out.remove(&format!("{prefix}{name}")));
                let [Some(rows), Some(columns)] = sums else { continue };
                let steps = &env.values[&format!("{} steps", param.name)].data;
                let mut gradient = vec![0.0; steps.len()];
                decay::gradient(steps, size.tokens - size.queries, &rows, &columns, &mut gradient);
                out.insert(format!("{prefix}{}", param.name), gradient);
            }
        }
        out
    }
}

pub fn head_size(env: &Env) -> HeadSize {
    HeadSize { queries: env.sizes.queries, tokens: env.sizes.tokens, head: env.sizes.head }
}

fn decay_matrix(steps: &[f64], visible: &Visible) -> Vec<f64> {
    let (queries, tokens) = (visible.queries(), visible.tokens());
    let pairs = (0..queries).flat_map(|t| (0..tokens).map(move |n| (t + tokens - queries, n)));
    pairs.map(|(t, n)| if n > t { 0.0 } else { steps[n + 1..=t].iter().product() }).collect()
}

/// The largest difference relative to the largest entry.
pub fn gap(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let scale = a.iter().chain(b).fold(1.0, |m: f64, x| m.max(x.abs()));
    let worst = a.iter().zip(b).map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() });
    worst.fold(0.0, |m: f64, x| if x.is_nan() { f64::INFINITY } else { m.max(x) }) / scale
}

/// Asserts that both have the same values; a gradient that one of them leaves out is 0 in the other.
pub fn agree(what: &str, expected: &Values, got: &Values, tolerance: f64) {
    for (name, x) in expected {
        let zero = vec![0.0; x.len()];
        let y = got.get(name).unwrap_or(&zero);
        let gap = gap(x, y);
        assert!(gap <= tolerance, "{what}: {name} is off by {gap:.1e}\nexpected {:?}\ngot      {:?}", head(x), head(y));
    }
    for (name, y) in got.iter().filter(|(name, _)| !expected.contains_key(*name)) {
        assert!(y.iter().all(|y| *y == 0.0), "{what}: nothing is expected of {name}, got {:?}", head(y));
    }
}

fn head(x: &[f64]) -> &[f64] {
    &x[..x.len().min(12)]
}

/// The masks a kernel knows, for these lengths; decays need the query to come last.
pub fn masks(queries: usize, tokens: usize, causal_only: bool) -> Vec<(&'static str, Visible)> {
    let documents: Vec<u32> = (0..tokens as u32).map(|n| n / 3).collect();
    let mut masks = vec![
        ("causal", Visible::causal(queries, tokens)),
        ("window", Visible::window(queries, tokens, 3)),
        ("lengths", Visible::causal(queries, tokens).with_length(tokens.saturating_sub(2))),
        ("documents", Visible::causal(queries, tokens).within_documents(&documents)),
    ];
    if !causal_only {
        masks.push(("full", Visible::full(queries, tokens)));
        masks.push(("full, lengths", Visible::full(queries, tokens).with_length(tokens / 2)));
    }
    masks
}
