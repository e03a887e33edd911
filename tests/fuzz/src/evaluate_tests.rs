//! The evaluator against itself and against what is known: finite differences of its energy and of its direction, softmax
//! attention and its backward pass in closed form, sparsemax, and Newton's step.
#![allow(clippy::needless_range_loop, reason = "entries are read by their numbers, as in the formulas")]

use crate::compare::arrays;
use crate::evaluate::{Limits, Outcome, evaluate};
use crate::generate;
use crate::meaning::{self, Meaning};
use crate::point::Point;
use crate::prelude;
use crate::random::Random;
use crate::samples::{self, Mask};
use crate::tree::{Each, Expr, Function, Kind, Method, Pairing, Param, Recipe, Value, Values};

const LIMITS: Limits =
    Limits { kink: 1e-2, largest: 1e3, energy: 1e14, condition: 1e2, on_the_way: 1e14, looks_at_both: false };

/// A recipe of prelude ingredients whose parameters are all 1, but for those that are given.
fn of_prelude(local: &str, global: &str, optimizer: &str, given: &[(&str, Value)], values: Values) -> Recipe {
    let mut recipe = Recipe {
        name: "r".to_string(),
        params: vec![],
        implied: vec![],
        local: prelude::energy(Kind::Local, local),
        global: prelude::energy(Kind::Global, global),
        optimizer: prelude::optimizer(optimizer),
        values,
        constraints: vec![],
        write_back: None,
        steps: None,
        tokens_evolve: None,
    };
    let params = [&mut recipe.local.params, &mut recipe.global.params, &mut recipe.optimizer.params];
    for param in params.into_iter().flatten() {
        if let Some((_, value)) = given.iter().find(|(name, _)| *name == param.name) {
            param.value = value.clone();
        }
    }
    recipe
}

fn fixed(numerator: i64, denominator: i64) -> Value {
    Value::Fixed(Expr::ratio(numerator, denominator))
}

fn near(what: &str, x: &[f64], y: &[f64], tolerance: f64) {
    let largest = x.iter().chain(y).fold(1.0, |m: f64, x| m.max(x.abs()));
    assert_eq!(x.len(), y.len(), "{what}");
    for (i, (x, y)) in x.iter().zip(y).enumerate() {
        assert!((x - y).abs() <= tolerance * largest, "{what}: {x} and {y} at {i}");
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The inputs of a point, by the names gradients have.
fn input<'p>(point: &'p mut Point, name: &str, entry: usize) -> &'p mut f64 {
    match name {
        "q" => &mut point.q[entry],
        "k" => &mut point.k[entry],
        "v" => &mut point.v[entry],
        _ if point.vectors.contains_key(name) => &mut point.vectors.get_mut(name).expect("a vector")[entry],
        _ if point.query_gates.contains_key(name) => &mut point.query_gates.get_mut(name).expect("gates")[entry],
        _ if point.gates.contains_key(name) => &mut point.gates.get_mut(name).expect("gates")[entry],
        _ if point.decays.contains_key(name) => &mut point.decays.get_mut(name).expect("steps")[entry],
        _ => point.numbers.get_mut(name).expect("a number"),
    }
}

/// All gradients of an outcome against central differences of what they are gradients of, two of each array.
fn check_slopes(meaning: &Meaning, point: &Point, outcome: &Outcome) {
    let losses = |point: &Point| {
        let limits = Limits { kink: 0.0, ..LIMITS };
        let outcome = evaluate(meaning, point, limits).expect("a value");
        [dot(&outcome.out, &point.g), dot(&outcome.energy, &point.u)]
    };
    for (loss, gradients) in [&outcome.of_direction, &outcome.of_energy].into_iter().enumerate() {
        for (name, slopes) in gradients {
            let largest = slopes.iter().fold(1.0, |m: f64, x| m.max(x.abs()));
            for entry in [0, slopes.len() - 1] {
                let at = |h: f64| {
                    let mut moved = point.clone();
                    *input(&mut moved, name, entry) += h;
                    losses(&moved)[loss]
                };
                let coarse = (at(1e-4) - at(-1e-4)) / 2e-4;
                let fine = (at(1e-5) - at(-1e-5)) / 2e-5;
                let allowed = 1e-5 * largest + 3.0 * (coarse - fine).abs();
                let gap = (fine - slopes[entry]).abs();
                assert!(gap <= allowed, "loss {loss}, {name} {entry}: {} where differences give {fine}", slopes[entry]);
            }
        }
    }
}

#[test]
fn gradients_are_slopes_of_what_they_are_gradients_of() {
    let mut compared = 0;
    for seed in 0..400 {
        let recipe = generate::recipe(seed);
        if meaning::needs_expansion(&recipe) {
            continue;
        }
        let meaning = Meaning::of(&recipe, None);
        let mut random = Random::new(seed);
        let mask = random.pick(&Mask::ALL);
        let point = samples::draw(&meaning, (2, 3, 2), mask, &mut random);
        let Ok(outcome) = evaluate(&meaning, &point, LIMITS) else { continue };
        check_slopes(&meaning, &point, &outcome);
        compared += 1;
    }
    assert!(compared > 100, "{compared} recipes were compared");
}

/// With tied values the direction is minus the gradient of the energy by q.
#[test]
fn tied_directions_descend() {
    let mut compared = 0;
    for seed in 1000..1300 {
        let recipe = generate::recipe(seed);
        if recipe.system().is_some() || !recipe.constraints.is_empty() {
            continue;
        }
        let meaning = Meaning::of(&Recipe { values: Values::Tied, ..recipe }, None);
        let mut random = Random::new(seed);
        let mut point = samples::draw(&meaning, (2, 4, 3), Mask::Causal, &mut random);
        point.u = vec![-1.0; 2];
        let Ok(outcome) = evaluate(&meaning, &point, LIMITS) else { continue };
        near("out", &outcome.out, &outcome.of_energy["q"], 1e-10);
        compared += 1;
    }
    assert!(compared > 50, "{compared} recipes were compared");
}

/// Values that are the keys are free values with nothing free about them: directions agree, and the gradient of the tied
/// one is the sum of both.
#[test]
fn free_values_at_the_keys_are_tied() {
    let mut compared = 0;
    for seed in 2000..2300 {
        let recipe = generate::recipe(seed);
        if meaning::needs_expansion(&recipe) || recipe.constraints.iter().any(|c| !c.of_query) {
            continue;
        }
        let of = |values: Values| Meaning::of(&Recipe { values, ..recipe.clone() }, None);
        let [free, tied] = [Values::Free, Values::Tied].map(of);
        let mut point = samples::draw(&free, (2, 4, 3), Mask::Causal, &mut Random::new(seed));
        point.v = point.k.clone();
        let both = [&free, &tied].map(|meaning| evaluate(meaning, &point, LIMITS));
        let [Ok(free), Ok(tied)] = both else { continue };
        near("out", &free.out, &tied.out, 1e-9);
        near("∂q", &free.of_direction["q"], &tied.of_direction["q"], 1e-8);
        let sum: Vec<f64> = free.of_direction["k"].iter().zip(&free.of_direction["v"]).map(|(k, v)| k + v).collect();
        near("∂k", &sum, &tied.of_direction["k"], 1e-8);
        compared += 1;
    }
    assert!(compared > 50, "{compared} recipes were compared");
}

/// o = Σ p v with p = softmax(q·k/T), and its backward pass.
#[test]
fn softmax_attention_is_what_it_is() {
    let recipe = of_prelude("dot", "lse", "gd", &[("T", fixed(3, 2))], Values::Free);
    let meaning = Meaning::of(&recipe, None);
    let point = samples::draw(&meaning, (3, 5, 4), Mask::Causal, &mut Random::new(3));
    let outcome = evaluate(&meaning, &point, LIMITS).expect("an outcome");
    let (t, head) = (1.5, 4);
    let row = |x: &[f64], i: usize| x[i * head..][..head].to_vec();
    let mut expected = Outcome { out: vec![], energy: vec![], ..outcome.clone() };
    for gradients in [&mut expected.of_direction, &mut expected.of_energy] {
        gradients.values_mut().for_each(|x| x.fill(0.0));
    }
    for query in 0..3 {
        let (q, g) = (row(&point.q, query), row(&point.g, query));
        let seen = point.visible[query].clone();
        let scores: Vec<f64> = seen.clone().map(|n| dot(&q, &row(&point.k, n)) / t).collect();
        let z: f64 = scores.iter().map(|s| s.exp()).sum();
        let p: Vec<f64> = scores.iter().map(|s| s.exp() / z).collect();
        let dp: Vec<f64> = seen.clone().map(|n| dot(&g, &row(&point.v, n))).collect();
        let mean = dot(&p, &dp);
        expected.energy.push(-t * z.ln());
        for e in 0..head {
            expected.out.push(seen.clone().map(|n| p[n] * point.v[n * head + e]).sum());
        }
        for n in seen {
            let ds = p[n] * (dp[n] - mean);
            for e in 0..head {
                expected.of_direction.get_mut("q").expect("q")[query * head + e] += ds * point.k[n * head + e] / t;
                expected.of_direction.get_mut("k").expect("k")[n * head + e] += ds * q[e] / t;
                expected.of_direction.get_mut("v").expect("v")[n * head + e] += p[n] * g[e];
            }
            expected.of_direction.get_mut("T").expect("T")[0] -= ds * scores[n] / t;
            let u = point.u[query];
            for e in 0..head {
                expected.of_energy.get_mut("q").expect("q")[query * head + e] -= u * p[n] * point.k[n * head + e];
                expected.of_energy.get_mut("k").expect("k")[n * head + e] -= u * p[n] * q[e];
            }
            expected.of_energy.get_mut("T").expect("T")[0] += u * p[n] * scores[n];
        }
        expected.of_energy.get_mut("T").expect("T")[0] -= point.u[query] * z.ln();
    }
    let (expected, got) = (arrays(&expected), arrays(&outcome));
    for (name, values) in &expected {
        near(name, values, &got[name], 1e-12);
    }
}

/// E = −Σ w q k and F = −γ log Σ exp(−E): o = γ w ⊙ Σ p v with p = softmax(Σ w q k), and what γ and w get of F.
#[test]
fn weights_per_component_and_gates_of_queries_are_what_they_are() {
    let mut recipe = of_prelude("dot", "lse", "gd", &[], Values::Free);
    let each = Each { head: false, component: true };
    let param = |name: &str, value: Value| Param { name: name.to_string(), value, is_positive: false };
    recipe.local.params.push(param("w", Value::Learn { init: Expr::number(1), each }));
    recipe.local.body = Expr::name("w").times(Expr::Query).pair(Pairing::Dot, Expr::Key).negated();
    recipe.global.params = vec![param("gamma", Value::QueryGate)];
    let sum = Expr::Energy.negated().apply(Function::Exp).apply(Function::Sum);
    recipe.global.body = Expr::name("gamma").negated().times(sum.apply(Function::Log));
    let meaning = Meaning::of(&recipe, None);
    let point = samples::draw(&meaning, (3, 5, 4), Mask::Causal, &mut Random::new(8));
    let outcome = evaluate(&meaning, &point, LIMITS).expect("an outcome");
    let (w, gamma, head) = (&point.vectors["w"], &point.query_gates["gamma"], 4);
    let (mut out, mut energy, mut of_w, mut of_gamma) = (vec![], vec![], vec![0.0; head], vec![]);
    for t in 0..3 {
        let seen = point.visible[t].clone();
        let entry = |x: &[f64], n: usize, e: usize| x[n * head + e];
        let score = |n: usize| -> f64 { (0..head).map(|e| w[e] * point.q[t * head + e] * entry(&point.k, n, e)).sum() };
        let z: f64 = seen.clone().map(|n| score(n).exp()).sum();
        let mean = |x: &[f64], e: usize| -> f64 { seen.clone().map(|n| score(n).exp() / z * entry(x, n, e)).sum() };
        energy.push(-gamma[t] * z.ln());
        of_gamma.push(-point.u[t] * z.ln());
        for e in 0..head {
            out.push(gamma[t] * w[e] * mean(&point.v, e));
            of_w[e] -= point.u[t] * gamma[t] * point.q[t * head + e] * mean(&point.k, e);
        }
    }
    near("out", &out, &outcome.out, 1e-12);
    near("energy", &energy, &outcome.energy, 1e-12);
    near("∂w", &of_w, &outcome.of_energy["w"], 1e-12);
    near("∂γ", &of_gamma, &outcome.of_energy["gamma"], 1e-12);
}

/// sparsemax and normmax give weights that sum to 1, so that equal values come out as they are.
#[test]
fn regularized_minima_have_weights() {
    let shapes = [("tsallis", "alpha", 2, 1), ("tsallis", "alpha", 3, 2), ("norm_entropy", "gamma", 2, 1)];
    for (global, name, numerator, denominator) in shapes {
        let given = [(name, fixed(numerator, denominator))];
        let meaning = Meaning::of(&of_prelude("dot", global, "gd", &given, Values::Free), None);
        let mut point = samples::draw(&meaning, (3, 6, 2), Mask::Full, &mut Random::new(7));
        point.v.fill(0.5);
        let outcome = evaluate(&meaning, &point, Limits { kink: 1e-4, ..LIMITS }).expect("an outcome");
        near(global, &outcome.out, &[0.5; 6], 1e-9);
    }
    // sparsemax of two scores: p = (1 ± (s₁ − s₂))/2.
    let meaning = Meaning::of(&of_prelude("dot", "tsallis", "gd", &[("alpha", fixed(2, 1))], Values::Free), None);
    let mut point = samples::draw(&meaning, (1, 2, 1), Mask::Full, &mut Random::new(1));
    (point.q, point.k, point.v) = (vec![1.0], vec![0.3, -0.2], vec![1.0, 0.0]);
    let outcome = evaluate(&meaning, &point, LIMITS).expect("an outcome");
    near("sparsemax", &outcome.out, &[0.75], 1e-12);
    // V = Σ p s + (1 − Σ p²)/2.
    near("its energy", &outcome.energy, &[-(0.75 * 0.3 - 0.25 * 0.2 + (1.0 - 0.625) / 2.0)], 1e-12);
}

/// One token: ½‖q − k‖² has the Hessian I, and Newton's step goes to the value.
#[test]
fn newtons_step_arrives() {
    let recipe = of_prelude("euclidean", "lse", "newton", &[("eps", fixed(0, 1))], Values::Free);
    let meaning = Meaning::of(&recipe, None);
    let point = samples::draw(&meaning, (1, 1, 3), Mask::Full, &mut Random::new(5));
    let outcome = evaluate(&meaning, &point, Limits::DOUBLE).expect("an outcome");
    let expected: Vec<f64> = point.v.iter().zip(&point.q).map(|(v, q)| v - q).collect();
    near("out", &outcome.out, &expected, 1e-12);
}

/// A long series is the exact solution.
#[test]
fn series_converge() {
    let way = |method: Method| Value::Way(Box::new(method));
    let alpha = Some(fixed(4, 1));
    let of = |method: Method| {
        let given = [("eps", fixed(3, 1)), ("solve", way(method)), ("T", fixed(3, 1))];
        Meaning::of(&of_prelude("euclidean", "lse", "newton", &given, Values::Free), None)
    };
    let (exact, series) = (of(Method::Exact { scale: None }), of(Method::Taylor { order: 60, scale: None, alpha }));
    let point = samples::draw(&exact, (3, 4, 2), Mask::Causal, &mut Random::new(2));
    let [exact, series] =
        [&exact, &series].map(|meaning| evaluate(meaning, &point, Limits::DOUBLE).expect("an outcome"));
    near("out", &exact.out, &series.out, 1e-6);
}
