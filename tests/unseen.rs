//! Recipes nobody shipped, each of which once panicked or computed something else than its formula: the plan against the
//! reference interpreter, forward, energy, backward and energy backward, over every mask and awkward sizes.

mod chain;

use chain::{Case, agree, masks};
use energyc::interpret::HeadSize;
use energyc::pipeline::{self, Target};
use energyc::simplify::Options;
use std::collections::BTreeSet;

/// What a recipe says beyond its name.
const RECIPES: &[(&str, &str)] = &[
    // Results that do not depend on the component.
    ("number_per_query", "local l() { E = sum(q + k) } global g() { F = sum(E^2) / 2 } optimizer gd; values tied;"),
    ("product_of_sums", "local l() { E = sum(q) * sum(k) } global lse; optimizer gd;"),
    (
        "product_of_sums_tied",
        "local l() { E = sum(q) * sum(k) } global g() { F = sum(E^2) / 2 } optimizer gd; values tied;",
    ),
    ("norm_times_sum", "local l() { E = norm(q) * sum(k) } global lse; optimizer gd; values tied;"),
    ("sum_of_query_and_token", "local l() { E = sum(q + k) } global lse; optimizer gd;"),
    // Constants inside of sums over components.
    ("constant_in_sum", "local l() { E = log(sum(1 + (q - k)^2)) } global lse; optimizer gd;"),
    ("constant_in_sum_tied", "local l() { E = log(sum(1 + (q - k)^2)) } global square_sum; optimizer gd; values tied;"),
    ("size", "local l() { E = log(d_h + norm(q - k)^2) } global lse; optimizer gd;"),
    // Log-sum-exp over components.
    ("log_of_dot", "local l() { E = -log(dot(exp(q), exp(k))) } global lse; optimizer gd;"),
    ("log_of_sum_tied", "local l() { E = log(sum(exp(q * k))) } global square_sum; optimizer gd; values tied;"),
    // Sums that come apart.
    ("gated_tied", "local abs_dot; global gated_square_sum; optimizer gd; values tied;"),
    ("decayed_tied", "local abs_dot; global gated_square_sum(gamma = decay(sigmoid)); optimizer gd; values tied;"),
    ("dot_and_sum", "local l() { E = dot(q, k) + sum(q) } global square_sum; optimizer gd;"),
    ("flat_newton", "local l() { E = sum(q + k) } global square_sum; optimizer newton(solve = taylor(1), eps = 1);"),
    ("exponentials", "local l() { E = dot(exp(q), exp(-k)) } global lse; optimizer gd;"),
    ("hellinger", "local l() { E = sum((sqrt(exp(q)) - sqrt(exp(k)))^2) } global lse; optimizer gd;"),
    ("product_and_query", "local l() { E = sum(q * k + q) } global g() { F = -sum(E^2) / 2 } optimizer gd;"),
    (
        "bregman",
        "local l() { E = sum(exp(q)) - sum(exp(k) * (1 + q - k)) } global g() { F = -log(1 + sum(exp(-E))) } optimizer gd;",
    ),
    ("squared_tanh", "local l() { E = sum(tanh(q - k)^2) } global g() { F = -sum(E^2) / 2 } optimizer gd;"),
    (
        "nested_components",
        "local l() { let mu = min(q - k, 0.25); E = sum(abs(abs(dot(mu, q * k)) * softplus(mu))) } global gated_square_sum(gamma = gate(sigmoid)); optimizer gd;",
    ),
    (
        "power_of_norms",
        "local l() { let nu = dot(q, q + k) * (q * k); E = sign(dot(q, k)) * dot(nu, nu) * norm(nu, 4) } global tsallis(alpha = 2, T = 1.25); optimizer gd;",
    ),
    // A case distinction over components, with a number that all components are in.
    (
        "larger_component",
        "local l() { let r = (q * k)^3; E = dot(max(norm(abs(q)) * (r + 0.5), r), r) } global lse; optimizer gd; values tied;",
    ),
    (
        "smaller_component",
        "local l() { E = norm(min((q - k) / (1 + norm(q - k)), 0.7) - 0.25) } global square_sum; optimizer gd; values tied;",
    ),
    // Scans with a decay.
    ("decayed_sum", "local dot; global g(gamma = decay(sigmoid)) { F = sum(gamma * E) } optimizer gd; values tied;"),
    // The matrix of a system with a sum over components around a sum over tokens.
    (
        "contracted_moment",
        "local dot; global g() { F = sum(E / (1 + E^2)) + sum(sum(E)) } optimizer o() { z = solve(hess(z) + 1, grad(z)) } values tied;",
    ),
    // A query that sees nothing sends nothing back.
    ("query_alone", "local l() { E = sum(q) } global g() { F = E } optimizer gd; values tied;"),
    // A Hessian that is 0.
    ("no_curvature", "local dot; global g() { F = sum(E) } optimizer newton(eps = 1);"),
    // Matrices of systems: vectors and sums inside and outside of other sums.
    ("sum_times_squares", "local dot; global g() { F = sum(E) * sum(E^2) } optimizer newton(eps = 1); values tied;"),
    (
        "one_over_mean",
        "local dot; global g() { F = 1 / (sum(1 + E^2) / sum(1)) } optimizer newton(eps = 1); values tied;",
    ),
    (
        "sum_of_sums",
        "local l() { E = sum(q^2) } global g() { F = sum(sum(E)) } optimizer newton(eps = 1); values tied;",
    ),
    (
        "sum_over_squares",
        "local dot; global g() { F = sum(E) / (1 + sum(E^2)) } optimizer newton(eps = 1); values tied;",
    ),
    (
        "query_alone_squared",
        "local l() { E = dot(exp(q), q) } global g() { F = E^2 } optimizer newton(eps = 1); values tied;",
    ),
    (
        "over_sum_of_query",
        "local l() { E = dot(q, k) / sum(sigmoid(q)) } global g() { F = sum(E) } optimizer newton(eps = 1); values tied;",
    ),
    // A sum over components of a sum over tokens of a matrix.
    (
        "absolute_norm_times_dot",
        "local l() { E = norm(q, 1) * dot(q, k) } global g() { F = sum(E^2) } optimizer gd; values tied;",
    ),
    (
        "dot_times_sum",
        "local l() { E = -(dot(q, k) * sum(k)) } global g() { F = sum(sigmoid(E)) + sum(E) } optimizer gd; values tied;",
    ),
    // A vector along components, in every place one may stand.
    ("weighted_distance", "local l(w = learn(1, per component)) { E = norm(w * (q - k))^2 / 2 } global lse; optimizer gd;"),
    (
        "weighted_norm",
        "local l(w = learn(1, per head, per component)) { E = norm(w * (q - k)) } global lse; optimizer gd; values tied;",
    ),
    (
        "weighted_abs",
        "local l(w = learn(0.5, per component)) where w > 0 { E = sum(w * abs(q - k)) } global square_sum; optimizer gd;",
    ),
    ("weighted_dot", "local l(w = learn(1, per component)) { E = -dot(w * q, k) } global lse; optimizer gd; values tied;"),
    (
        "weighted_root",
        "local l(w = learn(2, per component)) where w > 0 { E = sqrt(sum(w * (q - k)^2)) } global lse; optimizer gd;",
    ),
    (
        "shifted_and_centred",
        "local l(w = learn(1, per component)) { let x = q - k + w; E = sum((x - mean(w * x))^2) } global lse; optimizer gd;",
    ),
    (
        "numbers_of_a_vector",
        "local l(w = learn(1, per component)) { E = norm(w, 3) * dot(q, k) + log(sum(exp(w))) + max(sum(w), dot(w, q)) }
         global g(u = learn(2, per component)) { F = sum(E^2) / norm(u) + norm(u, 1) } optimizer gd;",
    ),
    (
        "exponentials_of_a_vector",
        "local l(w = learn(1, per component)) { E = -log(dot(exp(w * q), exp(w - k))) } global lse; optimizer gd;",
    ),
    (
        "weighted_case",
        "local l(w = learn(1, per component)) { E = sum(if w * q <= k { w^2 * (q - k)^2 } else { tanh(w * k * q) }) }
         global lse; optimizer gd; values tied;",
    ),
    (
        "weighted_newton",
        "local l(w = learn(1, per component)) { E = norm(w * (q - k))^2 / 2 } global lse(T = 4);
         optimizer newton(eps = 1); values tied;",
    ),
    (
        "weighted_series",
        "local l(w = learn(1, per component)) { E = norm(w * (q - k))^2 / 2 } global lse(T = 4);
         optimizer newton(solve = taylor(2, alpha = 3), eps = 1);",
    ),
    (
        "radius_of_a_vector",
        "param w = learn(1, per component); local dot; global lse; optimizer gd; constrain norm(q) = norm(w), norm(k) = 2;",
    ),
    (
        "weighted_decay",
        "local l(w = learn(1, per component)) { E = dot(w * q, k) }
         global g(gamma = decay(sigmoid)) { F = -sum(gamma * E^2) / 2 } optimizer gd;",
    ),
    // Gates of the query.
    (
        "gated_query",
        "local l(g = gate(sigmoid, per query)) { E = g * norm(q - k)^2 } global lse; optimizer gd; values tied;",
    ),
    (
        "gated_temperature",
        "local euclidean; global g(gamma = gate(sigmoid, per query), T = learn(2)) where T > 0 {
         F = -gamma * T * log(sum(exp(-E / (gamma * T)))) } optimizer gd;",
    ),
    (
        "gated_minimum",
        "local dot; global g(a = gate(sigmoid, per query)) { F = tsallis_min(E, a, 2) } optimizer gd; values tied;",
    ),
    (
        "gated_scan",
        "local l(w = learn(1, per component), g = gate(sigmoid, per query)) { E = g * dot(w * q, k) }
         global s(gamma = gate(sigmoid)) { F = -sum(gamma * E^2) / 2 } optimizer gd;",
    ),
    (
        "gated_newton",
        "local euclidean; global g(gamma = gate(sigmoid, per query)) { F = -gamma * 4 * log(sum(exp(-E / 4))) }
         optimizer newton(eps = 1); values tied;",
    ),
];

const SIZES: [(usize, usize, usize); 5] = [(5, 5, 4), (1, 1, 3), (2, 7, 3), (50, 50, 2), (6, 6, 1)];

#[test]
fn plans_of_unseen_recipes_compute_what_the_formulas_say() {
    let only = std::env::var("ONLY").ok();
    let mut failed = Vec::new();
    for (name, sections) in RECIPES.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)) {
        let outcome = std::panic::catch_unwind(|| {
            let case = Case::read(&format!("recipe {name} {{ {sections} }}"));
            for (i, (queries, tokens, head)) in SIZES.into_iter().enumerate() {
                let size = HeadSize { queries, tokens, head };
                for (mask, visible) in masks(queries, tokens, case.has_decay()) {
                    let env = case.sample(size, &visible, 3 + i as u64);
                    let what = format!("{name} {size:?} {mask}");
                    let expected = case.reference(&env);
                    agree(&what, &expected, &case.planned::<f64>(&env, &visible), 1e-8);
                    agree(&what, &expected, &case.planned_by::<f64>(&case.plan.tiles, &env, &visible), 1e-8);
                }
            }
        });
        if outcome.is_err() {
            failed.push(*name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

/// Behind the end of a row everything that is loaded is 0, and an exponential of what is computed from it may be infinite:
/// 0 · 0 · ∞ is no number. So a sum over components takes nothing from there where a factor is an exponential.
#[test]
fn sums_over_components_end_where_the_components_do() {
    let text = "recipe r { local dot; global g(x = learn(2)) where x > 0 { F = sum(log(1 + E^2)) / sum(exp(-E / x)) } \
                optimizer gd; values tied; }";
    let recipe = pipeline::front(text).0.expect("a recipe without mistakes");
    let source = pipeline::compile(&recipe, Target::Cpu, &Options::default()).expect("a kernel");
    let (mut exponentials, mut products, mut sums) = (BTreeSet::new(), BTreeSet::new(), 0);
    for line in source.lines().map(str::trim) {
        if let Some((x, value)) = line.strip_prefix("let ").and_then(|line| line.split_once(" = ")) {
            let mut factors = value.trim_end_matches(';').split(" * ");
            if value.ends_with(".exponential();") {
                exponentials.insert(x);
            } else if factors.any(|factor| exponentials.contains(factor)) {
                products.insert(x);
            }
        }
        if let Some((_, x)) = line.trim_end_matches(';').split_once("_lanes += ") {
            sums += 1;
            assert!(!products.contains(x), "{line}");
        }
    }
    assert!(sums > 0 && !products.is_empty(), "the kernel has sums and products with exponentials");
}
