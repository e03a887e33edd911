//! The plan interpreter against the reference interpreter: every recipe, every mask, awkward sizes.

mod chain;

use chain::{DIRECTION, agree, every_shipped, masks};
use energyc::interpret::HeadSize;
use energyc::ir::eval::Env;
use energyc::primitives::visible::Visible;

/// Rounding in f64, and what solving systems makes of it.
const TOLERANCE: f64 = 1e-9;
/// Constraints are compared with finite differences.
const CONSTRAINED: f64 = 1e-6;

/// (queries, tokens, d_h): ordinary, a single token, decoding, more than a block of rows, one component.
const SIZES: [(usize, usize, usize); 5] = [(5, 5, 4), (1, 1, 3), (2, 7, 3), (70, 70, 2), (6, 6, 1)];

#[test]
fn plans_compute_what_the_formulas_say() {
    for case in every_shipped() {
        for (i, (queries, tokens, head)) in SIZES.into_iter().enumerate() {
            let size = HeadSize { queries, tokens, head };
            for (mask, visible) in masks(queries, tokens, case.has_decay()) {
                let env = case.sample(size, &visible, 7 + i as u64);
                let what = format!("{} {size:?} {mask}", case.recipe().name);
                let tolerance = if case.recipe().constraints.is_empty() { TOLERANCE } else { CONSTRAINED };
                let expected = case.reference(&env);
                agree(&what, &expected, &case.planned::<f64>(&env, &visible), tolerance);
                if case.plan.scans.is_some() {
                    let tiles = case.planned_by::<f64>(&case.plan.tiles, &env, &visible);
                    agree(&what, &expected, &tiles, tolerance);
                }
            }
        }
    }
}

/// Random energies: sums of products of what the language offers, under random globals, values and optimizers. Those
/// that solve a system of the Hessian get an energy that has one.
fn random_recipe(seed: u64) -> String {
    let mut random = energyc::ir::sample::Random::new(seed);
    let mut pick = |choices: &[&str]| choices[random.below(choices.len())].to_string();
    let optimizer = pick(&[
        "gd;",
        "momentum;",
        "damped() { z = z - solve(hess(z) + 4, grad(z)); }",
        "shortened() { z = z - solve(hess(z) + 4, grad(z), taylor(1)); }",
    ]);
    let has_hessian = optimizer.contains("hess");
    let smooth = ["dot(q, k)", "norm(q - k)^2", "log(1 + norm(q - k)^2)", "exp(-norm(q - k)^2 / 8)", "sum(q^2 * k)"];
    let sharp = ["norm(q - k)", "sum(abs(q - k))", "sum(abs(q - k)^1.5)", "abs(dot(q, k))", "dot(k, k)"];
    let parts = if has_hessian { smooth.to_vec() } else { [smooth, sharp].concat() };
    let (first, second, third) = (pick(&parts), pick(&parts), pick(&["1", "a", "a^2", "1 / (1 + a^2)"]));
    let forms: &[&str] = if has_hessian { &["sum", "product"] } else { &["sum", "product", "choice"] };
    let energy = match pick(forms).as_str() {
        "sum" => format!("a * {first} + {third} * {second}"),
        "product" => format!("{third} * ({first}) / (2 + a * ({second})^2)"),
        _ => format!("if norm(q - k) <= 1.5 {{ {first} }} else {{ a * {third} * {second} }}"),
    };
    let global = pick(&[
        "lse(T = learn(2, per head));",
        "tsallis(alpha = 1.5, T = 3);",
        "tsallis(alpha = 2, T = 3);",
        "square_sum(T = 1);",
        "gated_square_sum(T = 1, gamma = gate(sigmoid));",
        "norm_entropy(gamma = 2, T = 4);",
        "sum_of_squares() { F = log(1 + sum(E^2)) }",
        "two_scales(S = learn(2)) { F = -S * log(sum(exp(-E / S))) - log(1 + sum(exp(-E))) }",
    ]);
    let values = pick(&["free", "tied"]);
    format!(
        "recipe random {{ local mine(a = learn(0.7)) {{ E = {energy} }} global {global} optimizer {optimizer} values {values}; }}"
    )
}

#[test]
fn random_recipes_have_plans_that_compute_them() {
    let (mut compared, mut solved) = (0, 0);
    for seed in 0..40 {
        let text = random_recipe(seed);
        // Some energies are not energies: those that do not depend on the query, or that the checks refuse.
        let (Some(recipe), _) = energyc::pipeline::front(&text) else { continue };
        let case = chain::Case::of(&recipe);
        let size = HeadSize { queries: 4, tokens: 6, head: 3 };
        for (mask, visible) in masks(size.queries, size.tokens, false) {
            let env = case.sample(size, &visible, seed);
            let expected = case.reference(&env);
            if expected.values().flatten().any(|x| !x.is_finite() || x.abs() > 1e6) {
                continue;
            }
            agree(&format!("{text} {mask}"), &expected, &case.planned::<f64>(&env, &visible), 1e-7);
            compared += 1;
            solved += usize::from(text.contains("hess"));
        }
    }
    assert!(compared > 150 && solved > 50, "only {compared} comparisons, {solved} of them with systems");
}

/// Direction and gradients where dropout leaves some pairs out: the plan does what the formulas say, and the gradients
/// are those of the direction.
#[test]
fn dropout_goes_through_the_chain() {
    let size = HeadSize { queries: 6, tokens: 6, head: 3 };
    let visible = Visible::causal(6, 6);
    for (i, case) in every_shipped().into_iter().enumerate() {
        let case = case.dropping(40 + i as u64, 0.3);
        let env = case.sample(size, &visible, 70 + i as u64);
        let expected = case.reference(&env);
        let name = case.recipe().name.clone();
        agree(&format!("{name} with dropout"), &expected, &case.planned::<f64>(&env, &visible), 1e-9);
        if case.recipe().constraints.is_empty() {
            for input in ["q", "k", "v"] {
                let Some(gradient) = expected.get(input) else { continue };
                let slopes = slopes(&case, &env, input);
                let largest = slopes.iter().fold(1.0f64, |m, x| m.max(x.abs()));
                for (slope, x) in slopes.iter().zip(gradient) {
                    assert!((slope - x).abs() < 1e-5 * largest, "{name}: ∂{input} is {x}, the slope is {slope}");
                }
            }
        }
    }
}

/// What ⟨g, direction⟩ changes by with every entry of an input, by central differences.
fn slopes(case: &chain::Case, env: &Env, input: &str) -> Vec<f64> {
    let g = &case.plan.cotangents[0].name;
    let weight = env.values[&**g].data.clone();
    let at = |i: usize, h: f64| -> f64 {
        let mut env = env.clone();
        env.values.get_mut(input).expect("an input").data[i] += h;
        case.reference(&env)[DIRECTION].iter().zip(&weight).map(|(x, g)| x * g).sum()
    };
    (0..env.values[input].data.len()).map(|i| (at(i, 1e-6) - at(i, -1e-6)) / 2e-6).collect()
}

/// The mean over masks is what is computed without.
#[test]
fn dropout_leaves_the_direction_in_the_mean() {
    let size = HeadSize { queries: 5, tokens: 5, head: 2 };
    let visible = Visible::causal(5, 5);
    let mut case = chain::shipped("softmax");
    let env = case.sample(size, &visible, 5);
    let expected = case.planned::<f64>(&env, &visible)[DIRECTION].clone();
    let mut mean = vec![0.0; expected.len()];
    let rounds = 4000;
    for seed in 0..rounds {
        case.dropout = Some((seed, 0.2));
        let out = case.planned::<f64>(&env, &visible)[DIRECTION].clone();
        mean.iter_mut().zip(out).for_each(|(sum, x)| *sum += x / rounds as f64);
    }
    for (mean, expected) in mean.iter().zip(&expected) {
        assert!((mean - expected).abs() < 0.05, "{mean} instead of {expected}");
    }
}
