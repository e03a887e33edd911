//! Compiled kernels against the plan interpreter and the formulas: every recipe, every mask, awkward sizes, and inputs
//! chosen to break them.

mod chain;

use chain::{Case, DIRECTION, ENERGY, OF_ENERGY, Values, agree, every_shipped, masks};
use energy_runtime::engine::{Engine, Interpreted, find};
use energy_runtime::problem::{GRAD_ENERGY, GRAD_OUT, Problem, Size};
use energyc::interpret::HeadSize;
use energyc::ir::Role;
use energyc::ir::eval::Env;
use energyc::kernel::recipe_hash;
use energyc::pipeline::{self, Target};
use energyc::plan;
use energyc::plan::graph::Op;
use energyc::primitives::visible::Visible;
use energyc::simplify::Options;

/// Rounding in f32, relative to the largest entry; solving systems amplifies it.
const TOLERANCE: f64 = 3e-4;
const SOLVED: f64 = 3e-3;

/// (queries, tokens, d_h): ordinary, a single token, decoding, more than a block and a chunk, wide heads, odd ones.
const SIZES: [(usize, usize, usize); 6] = [(5, 5, 8), (1, 1, 16), (3, 9, 5), (70, 70, 8), (9, 9, 256), (33, 33, 20)];

/// One head as a problem of its own.
fn problem(case: &Case, env: &Env, visible: &Visible) -> Problem {
    let energyc::ir::eval::Sizes { queries, tokens, head, .. } = env.sizes;
    let size = Size { batch: 1, heads: 1, queries, tokens, head };
    let of = |name: &str| env.values[name].data.iter().map(|x| *x as f32).collect::<Vec<f32>>();
    let [direction, energy] = [0, 1].map(|i| &*case.plan.cotangents[i].name);
    let mut tensors: std::collections::BTreeMap<String, Vec<f32>> =
        [("q", "q"), ("k", "k"), ("v", "v"), (GRAD_OUT, direction), (GRAD_ENERGY, energy)]
            .into_iter()
            .map(|(to, from)| (to.into(), of(from)))
            .collect();
    for constraint in &case.recipe().constraints {
        let raw = plan::unconstrained(&constraint.vector);
        tensors.insert(constraint.vector.name.to_string(), of(&raw.name));
    }
    for param in &case.recipe().params {
        let is_decay = param.leaf.role == Role::Decay;
        let source = if is_decay { format!("{} steps", param.name) } else { param.name.clone() };
        tensors.insert(param.name.clone(), of(&source));
    }
    Problem { size, visible: vec![visible.clone()], tensors, dropout: case.dropout }
}

fn run(engine: &dyn Engine, problem: &Problem) -> Values {
    let wide = |x: Vec<f32>| x.into_iter().map(f64::from).collect::<Vec<f64>>();
    let forward = engine.forward(problem);
    let mut values: Values = engine.backward(problem, &forward).into_iter().map(|(name, x)| (name, wide(x))).collect();
    let of_energy = engine.energy_backward(problem);
    values.extend(of_energy.into_iter().map(|(name, x)| (format!("{OF_ENERGY}{name}"), wide(x))));
    values.insert(DIRECTION.to_string(), wide(forward.out));
    values.insert(ENERGY.to_string(), wide(engine.energy(problem)));
    values
}

fn holds(case: &Case, env: &Env, visible: &Visible, what: &str, tolerance: f64) {
    let problem = problem(case, env, visible);
    let compiled = run(&*find(case.recipe(), &case.plan).expect("a compiled kernel"), &problem);
    let interpreted = run(&Interpreted::new(case.plan.clone()), &problem);
    let mut expected = case.reference(env);
    expected.retain(|name, _| compiled.contains_key(name));
    // Taken as it is written, a formula may overflow in f64 where its value does not: then the plan in f64 stands in.
    let planned = case.planned::<f64>(env, visible);
    for (name, x) in expected.iter_mut().filter(|(_, x)| x.iter().any(|x| !x.is_finite())) {
        x.clone_from(&planned[name]);
    }
    assert!(compiled.values().flatten().all(|x| x.is_finite()), "{what}: not finite");
    agree(&format!("kernel, {what}"), &expected, &compiled, tolerance);
    agree(&format!("interpreter, {what}"), &expected, &interpreted, tolerance);
}

fn tolerance(case: &Case) -> f64 {
    if case.derivation.preconditioned.is_some() { SOLVED } else { TOLERANCE }
}

#[test]
fn kernels_are_what_the_compiler_prints() {
    for case in every_shipped() {
        let recipe = case.recipe();
        let kernel = energy_kernels::find(&recipe_hash(recipe)).expect("a compiled kernel");
        let printed = pipeline::compile(recipe, Target::Cpu, &Options::default()).expect("a kernel");
        assert!(kernel.source() == printed, "`{}` runs other code than `energyc compile` prints", recipe.name);
    }
}

#[test]
fn kernels_compute_what_the_formulas_say() {
    for case in every_shipped() {
        for (i, (queries, tokens, head)) in SIZES.into_iter().enumerate() {
            let size = HeadSize { queries, tokens, head };
            for (mask, visible) in masks(queries, tokens, case.has_decay()) {
                let env = case.sample(size, &visible, 11 + i as u64);
                let what = format!("{} {size:?} {mask}", case.recipe().name);
                holds(&case, &env, &visible, &what, tolerance(&case));
            }
        }
    }
}

#[test]
fn kernels_drop_what_the_formulas_drop() {
    for (i, case) in every_shipped().into_iter().enumerate() {
        let case = case.dropping(7 + i as u64, 0.25);
        for (queries, tokens, head) in [(9, 9, 5), (70, 70, 8)] {
            let size = HeadSize { queries, tokens, head };
            for (mask, visible) in masks(queries, tokens, case.has_decay()).into_iter().take(2) {
                let env = case.sample(size, &visible, 31 + i as u64);
                let what = format!("{} {size:?} {mask}, with dropout", case.recipe().name);
                holds(&case, &env, &visible, &what, tolerance(&case));
            }
        }
    }
}

/// Changes to inputs that are hard on a kernel, and how near its answer must be.
type Trouble = (&'static str, f64, fn(&mut Env));

const TROUBLES: [Trouble; 8] = [
    ("identical keys", 2e-3, |env| {
        let head = env.sizes.head;
        let k = env.values.get_mut("k").expect("keys");
        let first = k.data[..head].to_vec();
        k.data.chunks_mut(head).for_each(|row| row.copy_from_slice(&first));
    }),
    ("zero vectors", 2e-3, |env| {
        for name in ["q", "k", "v"] {
            env.values.get_mut(name).expect("tokens").data.fill(0.0);
        }
    }),
    ("one enormous outlier", 2e-3, |env| {
        let head = env.sizes.head;
        env.values.get_mut("k").expect("keys").data[head..2 * head].iter_mut().for_each(|x| *x *= 300.0);
    }),
    ("a small temperature", 2e-3, |env| {
        if let Some(t) = env.values.get_mut("T") {
            t.data[0] = 0.05;
        }
    }),
    ("a large temperature", 2e-3, |env| {
        if let Some(t) = env.values.get_mut("T") {
            t.data[0] = 1e3;
        }
    }),
    // Powers of two and vectors on a grid: scores are exact, so a weight is wrong only if the kernel is.
    ("a temperature of 2^-10", 3e-3, |env| at_temperature(env, 1.0 / 1024.0)),
    ("a temperature of 2^10", 3e-3, |env| at_temperature(env, 1024.0)),
    // What cancels in a gradient is as large as the vectors are: two hundred.
    ("scores of ten thousand", 6e-2, |env| {
        on_grid(env);
        for name in ["q", "k"] {
            env.values.get_mut(name).expect("tokens").data.iter_mut().for_each(|x| *x *= 64.0);
        }
    }),
];

fn on_grid(env: &mut Env) {
    for name in ["q", "k"] {
        env.values.get_mut(name).expect("tokens").data.iter_mut().for_each(|x| *x = (*x * 8.0).round() / 8.0);
    }
}

fn at_temperature(env: &mut Env, temperature: f64) {
    on_grid(env);
    if let Some(t) = env.values.get_mut("T") {
        t.data[0] = temperature;
    }
}

/// Whether a kernel solves a system per query. These are as badly conditioned as the weights make them, so they are
/// compared where they make sense and must be finite everywhere.
fn solves(case: &Case) -> bool {
    case.plan.graph.nodes.iter().any(|node| matches!(node.op, Op::Solve { .. }))
}

#[test]
fn kernels_survive_hard_inputs() {
    let size = HeadSize { queries: 12, tokens: 12, head: 8 };
    let visible = Visible::causal(12, 12);
    for case in every_shipped().iter().filter(|c| c.recipe().constraints.is_empty() && !solves(c)) {
        for (trouble, tolerance, change) in TROUBLES {
            let mut env = case.sample(size, &visible, 5);
            change(&mut env);
            let what = format!("{} {trouble}", case.recipe().name);
            holds(case, &env, &visible, &what, tolerance);
        }
    }
}

#[test]
fn systems_and_constraints_stay_finite() {
    let size = HeadSize { queries: 9, tokens: 9, head: 8 };
    let visible = Visible::causal(9, 9);
    for case in every_shipped().iter().filter(|c| !c.recipe().constraints.is_empty() || solves(c)) {
        for (trouble, _, change) in TROUBLES {
            let mut env = case.sample(size, &visible, 6);
            change(&mut env);
            let problem = problem(case, &env, &visible);
            let name = &case.recipe().name;
            for engine in
                [find(case.recipe(), &case.plan).expect("a kernel"), Box::new(Interpreted::new(case.plan.clone()))]
            {
                for (what, values) in run(&*engine, &problem) {
                    assert!(values.iter().all(|x| x.is_finite()), "{name}, {trouble}: {what} is not finite");
                }
            }
        }
    }
}
