//! One head of a recipe through two links of the chain: its formulas, by the reference interpreter of the algebra, and
//! its plan, by the plan interpreter. Both give the same values under the same names.

use super::samples;
use super::slopes::value;
use crate::calculus;
use crate::check::{Recipe, inputs};
use crate::derive::{self, Backward, Derivation, EnergyBackward};
use crate::interpret::{Head, HeadDropout, HeadSize, Number};
use crate::ir::eval::{Env, Sizes, evaluate_all};
use crate::ir::sample::Random;
use crate::ir::tensor::Tensor;
use crate::ir::{Axis, Expr, Leaf, Role};
use crate::plan::schedule::{Domain, Pass};
use crate::plan::{self, Passes, Unsupported, Valid};
use crate::primitives::dropout::Dropout;
use crate::primitives::visible::Visible;
use crate::simplify::Options;
use std::collections::BTreeMap;

/// A recipe and what both interpreters need of it.
#[derive(Clone, Debug)]
pub struct Case {
    pub derivation: Derivation,
    pub backward: Backward,
    pub energy_backward: EnergyBackward,
    pub plan: Valid,
    /// The seed and the rate of attention dropout.
    pub dropout: Option<(u64, f64)>,
}

/// Values by name: [`DIRECTION`], [`ENERGY`], the gradients of the direction by the names of the inputs, and those of the
/// energy with [`OF_ENERGY`] in front.
pub type Values = BTreeMap<String, Vec<f64>>;

// No input can have these names.
pub const DIRECTION: &str = "the direction";
pub const ENERGY: &str = "the energy";
/// In front of the name of an input: the gradient of the energy.
pub const OF_ENERGY: &str = "energy ";

impl Case {
    /// Derives and plans a recipe.
    pub fn new(recipe: &Recipe, options: &Options) -> Result<Case, Unsupported> {
        let derivation = derive::derive(recipe, options);
        let plan = plan::plan(&derivation, options)?;
        Ok(Case::of(derivation, plan, options))
    }

    /// A derivation and its plan.
    pub fn of(derivation: Derivation, plan: Valid, options: &Options) -> Case {
        let backward = derive::backward(&derivation, options);
        let energy_backward = derive::energy_backward(&derivation, options);
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
        let sizes = Sizes { queries, tokens, head, model: 2 * head, heads: 2 };
        let mut env = Env::new(sizes);
        let mut random = Random::new(seed);
        let length = |a: Axis| sizes.length(a);
        let [g, u] = self.plan.cotangents.clone();
        for leaf in [inputs::q(), inputs::k(), inputs::v(), g, u] {
            env.values.insert(leaf.name.to_string(), Tensor::build(&leaf.axes, length, |_| random.normal()));
        }
        for param in &self.recipe().params {
            let leaf = &param.leaf;
            let axes: &[Axis] = if leaf.role == Role::Decay { &[Axis::N] } else { &leaf.axes };
            let drawn = Tensor::build(axes, length, |_| 0.2 + 0.8 * random.uniform());
            let name = if leaf.role == Role::Decay { steps_of(leaf) } else { leaf.name.to_string() };
            env.values.insert(name, drawn);
        }
        if let Some((seed, rate)) = self.dropout {
            let dropout = Dropout::new(seed, rate);
            let leaf = derive::kept(&self.derivation, Axis::N);
            let factor = |at: &[usize]| f64::from(dropout.factor(0, at[0] as u32, at[1] as u32));
            env.values.insert(leaf.name.to_string(), Tensor::build(&leaf.axes, length, factor));
        }
        samples::start(&mut env, self.recipe());
        samples::spread(&mut env, self.recipe(), &mut random);
        for constraint in &self.recipe().constraints {
            let x = env.values[&*constraint.vector.name].clone();
            env.values.insert(plan::unconstrained(&constraint.vector).name.to_string(), x);
        }
        let seen = (0..queries).flat_map(|t| (0..tokens).map(move |n| (t, n)));
        env.visible = Some(seen.map(|(t, n)| visible.of(t).contains(&n)).collect());
        self.settle(&mut env);
        env
    }

    /// Computes what follows from the inputs that are free: the products of a decay, vectors at their lengths.
    pub fn settle(&self, env: &mut Env) {
        let Sizes { queries, tokens, head, .. } = env.sizes;
        for param in self.recipe().params.iter().filter(|p| p.leaf.role == Role::Decay) {
            let data = decay_products(&env.values[&steps_of(&param.leaf)].data, queries, tokens);
            let products = Tensor { axes: param.leaf.axes.clone(), shape: vec![queries, tokens], data };
            env.values.insert(param.leaf.name.to_string(), products);
        }
        for constraint in &self.recipe().constraints {
            let mut x = env.values[&*plan::unconstrained(&constraint.vector).name].clone();
            let radius = samples::number(&constraint.radius, env);
            x.data.chunks_mut(head).for_each(|row| row.copy_from_slice(&at_length(row, radius)));
            env.values.insert(constraint.vector.name.to_string(), x);
        }
    }

    /// What the formulas say, by the reference interpreter.
    pub fn reference(&self, env: &Env) -> Result<Values, String> {
        let mut env = env.clone();
        let put = |env: &mut Env, leaf: &Leaf, e: &Expr| -> Result<(), String> {
            let x = value(e, &leaf.axes, env)?;
            env.values.insert(leaf.name.to_string(), x);
            Ok(())
        };
        for named in &self.derivation.names {
            put(&mut env, &named.leaf, &named.value())?;
        }
        let mut out = Values::new();
        let mut wanted: Vec<(String, Expr, Vec<Axis>)> = vec![
            (DIRECTION.into(), self.derivation.direction.term.clone(), vec![Axis::T, Axis::E]),
            (ENERGY.into(), self.derivation.energy.term.clone(), vec![Axis::T]),
        ];
        for definition in &self.backward.definitions {
            put(&mut env, &definition.leaf, &definition.value.term)?;
        }
        let passes = [("", &self.backward.gradients), (OF_ENERGY, &self.energy_backward.gradients)];
        for (prefix, gradients) in passes {
            for definition in gradients {
                let name = definition.leaf.name.trim_start_matches('∂');
                wanted.push((format!("{prefix}{name}"), definition.value.term.clone(), definition.leaf.axes.clone()));
            }
        }
        let terms: Vec<Expr> = wanted.iter().map(|(_, term, _)| term.clone()).collect();
        for ((name, _, axes), x) in wanted.iter().zip(evaluate_all(&terms, &env)?) {
            out.insert(name.clone(), super::slopes::along(&x, axes, &env).data);
        }
        self.through_decays(&env, &mut out);
        self.through_constraints(&env, &mut out);
        self.blank(&env, &mut out);
        Ok(out)
    }

    /// Queries that see nothing have nothing.
    fn blank(&self, env: &Env, out: &mut Values) {
        let Sizes { queries, tokens, head, .. } = env.sizes;
        let sees = |t: usize| env.visible.as_ref().is_none_or(|v| v[t * tokens..(t + 1) * tokens].contains(&true));
        let of_query = inputs::q().name;
        for (name, per_row) in [
            (DIRECTION.to_string(), head),
            (ENERGY.to_string(), 1),
            (of_query.to_string(), head),
            (format!("{OF_ENERGY}{of_query}"), head),
        ] {
            let Some(x) = out.get_mut(&name) else { continue };
            (0..queries).filter(|t| !sees(*t)).for_each(|t| x[t * per_row..(t + 1) * per_row].fill(0.0));
        }
    }

    /// Gradients by pair become gradients by step: ∂d_j = Σ ∂γ_{t,i} ∂γ_{t,i}/∂d_j, term by term.
    fn through_decays(&self, env: &Env, out: &mut Values) {
        for param in self.recipe().params.iter().filter(|p| p.leaf.role == Role::Decay) {
            let steps = env.values[&steps_of(&param.leaf)].data.clone();
            let Sizes { queries, tokens, .. } = env.sizes;
            for prefix in ["", OF_ENERGY] {
                let Some(pairs) = out.remove(&format!("{prefix}{}", param.name)) else { continue };
                let mut gradient = vec![0.0; tokens];
                for (t, n) in (0..queries).flat_map(|t| (0..tokens).map(move |n| (t, n))) {
                    let position = t + tokens - queries;
                    if env.visible.as_ref().is_some_and(|seen| !seen[t * tokens + n]) {
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

    /// Gradients of constrained vectors become gradients of what was brought to length, by finite differences, and those
    /// of the lengths go to the parameters the lengths are made of.
    fn through_constraints(&self, env: &Env, out: &mut Values) {
        for constraint in &self.recipe().constraints {
            let name = constraint.vector.name.to_string();
            let x = env.values[&*plan::unconstrained(&constraint.vector).name].data.clone();
            let radius = samples::number(&constraint.radius, env);
            let head = env.sizes.head;
            for prefix in ["", OF_ENERGY] {
                let Some(y) = out.get(&format!("{prefix}{name}")).cloned() else { continue };
                let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                let mut gradient = Vec::new();
                let mut length = 0.0;
                for (x, y) in x.chunks(head).zip(y.chunks(head)) {
                    length += dot(&at_length(x, 1.0), y);
                    for e in 0..head {
                        let at = |h: f64| {
                            let mut x = x.to_vec();
                            x[e] += h;
                            dot(&at_length(&x, radius), y)
                        };
                        gradient.push((at(1e-5) - at(-1e-5)) / 2e-5);
                    }
                }
                out.insert(format!("{prefix}{name}"), gradient);
                for param in &self.recipe().params {
                    let slope = calculus::gradient(&constraint.radius, &param.leaf);
                    if !slope.is_zero() {
                        let slope = super::slopes::value(&slope, &param.leaf.axes, env);
                        let slope = slope.map_or(vec![f64::NAN], |x| x.data);
                        let own = out.entry(format!("{prefix}{}", param.name)).or_insert(vec![0.0; slope.len()]);
                        own.iter_mut().zip(slope).for_each(|(x, slope)| *x += slope * length);
                    }
                }
            }
        }
    }

    /// The same by the plan interpreter, with the passes its mask asks for.
    pub fn planned<T: Number>(&self, env: &Env, visible: &Visible) -> Values {
        let passes = self.plan.passes_for(std::slice::from_ref(visible), self.dropout.is_some());
        self.planned_by::<T>(passes, env, visible)
    }

    /// The same by given passes.
    pub fn planned_by<T: Number>(&self, passes: &Passes, env: &Env, visible: &Visible) -> Values {
        let Passes { forward, energy, backward, constants, energy_backward, energy_constants } = passes;
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
                Role::Decay => &inputs[&steps_of(leaf)],
                _ => inputs.get(&*leaf.name).unwrap_or_else(|| panic!("no input {}", leaf.name)),
            }
        };
        let plan = &self.plan;
        let dropout = self.dropout.map(|(seed, rate)| HeadDropout { dropout: Dropout::new(seed, rate), head: 0 });
        let length = |id| size.entries(Domain::of(plan.graph.axes(id)));
        let mut saved: Vec<Vec<T>> = forward.saved.iter().map(|id| vec![T::ZERO; length(*id)]).collect();
        let mut out = Values::new();
        let mut run = |pass: &Pass, name: &dyn Fn(&str) -> String, saved: &mut [Vec<T>]| {
            let mut outputs: Vec<Vec<T>> = pass.outputs.iter().map(|o| vec![T::ZERO; size.entries(o.domain)]).collect();
            T::run_head(&plan.graph, pass, Head { size, visible, dropout }, &find, saved, &mut outputs);
            if pass.is_saving {
                for (saved, id) in saved.iter_mut().zip(&pass.saved) {
                    if let Some(i) = pass.outputs.iter().position(|o| o.id == *id) {
                        saved.clone_from(&outputs[i]);
                    }
                }
            }
            for (output, x) in pass.outputs.iter().zip(outputs) {
                out.insert(name(&output.name), x.iter().map(|x| x.to_f64()).collect());
            }
        };
        run(forward, &|_| DIRECTION.to_string(), &mut saved);
        run(energy, &|_| ENERGY.to_string(), &mut []);
        run(backward, &str::to_string, &mut saved);
        run(constants, &str::to_string, &mut saved);
        run(energy_backward, &|input| format!("{OF_ENERGY}{input}"), &mut saved);
        run(energy_constants, &|input| format!("{OF_ENERGY}{input}"), &mut saved);
        out
    }
}

pub fn head_size(env: &Env) -> HeadSize {
    HeadSize { queries: env.sizes.queries, tokens: env.sizes.tokens, head: env.sizes.head }
}

/// The name of a decay's factors per step, which no parameter can have.
pub fn steps_of(decay: &Leaf) -> String {
    format!("{} steps", decay.name)
}

/// γ_{t,i} = Π_{i < j ≤ t} d_j, 0 behind the query.
fn decay_products(steps: &[f64], queries: usize, tokens: usize) -> Vec<f64> {
    let pairs = (0..queries).flat_map(|t| (0..tokens).map(move |n| (t + tokens - queries, n)));
    pairs.map(|(t, n)| if n > t { 0.0 } else { steps[n + 1..=t].iter().product() }).collect()
}

/// ρ x/|x|, 0 at 0.
fn at_length(x: &[f64], radius: f64) -> Vec<f64> {
    let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
    x.iter().map(|x| if norm == 0.0 { 0.0 } else { radius * x / norm }).collect()
}

/// The masks a kernel knows, for these lengths; decays need the query to come last.
pub fn masks(queries: usize, tokens: usize, causal_only: bool) -> Vec<(&'static str, Visible)> {
    let documents: Vec<u32> = (0..tokens as u32).map(|n| n / 3).collect();
    let mut first_blind = Visible::causal(queries, tokens).intervals().to_vec();
    first_blind[0] = 0..0;
    let mut masks = vec![
        ("causal", Visible::causal(queries, tokens)),
        ("first query blind", Visible::new(first_blind, tokens)),
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
