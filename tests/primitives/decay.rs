//! The gradient of a decay's steps, query by query and by scans, against γ_{t,i} = Π_{i<j≤t} d_j as it is written, which is
//! linear in every step.

use energyc::primitives::decay::add_gradient;
use energyc::primitives::scan::{Course, Scan};
use std::ops::Range;

fn gamma(steps: &[f64], position: usize, token: usize) -> f64 {
    if token > position { 0.0 } else { steps[token + 1..=position].iter().product() }
}

/// Numbers between −1 and 1.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(2) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 30) - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// The slope of a function that is linear in one step.
fn slope(steps: &[f64], j: usize, f: impl Fn(&[f64]) -> f64) -> f64 {
    let at = |step: f64| {
        let mut steps = steps.to_vec();
        steps[j] = step;
        f(&steps)
    };
    at(1.0) - at(0.0)
}

#[test]
fn one_query_gives_the_slope_of_every_product_a_step_stands_in() {
    let steps = [0.5, 0.25, 0.0, 0.75, 1.5];
    let slopes = [1.0, -2.0, 0.5];
    let (position, tokens) = (4, 1..4);
    let mut out = vec![0.0; steps.len()];
    add_gradient(&steps, position, tokens.clone(), &slopes, &mut Vec::new(), &mut out);
    for (j, got) in out.iter().enumerate() {
        let f = |steps: &[f64]| tokens.clone().zip(slopes).map(|(i, s)| s * gamma(steps, position, i)).sum();
        assert!((got - slope(&steps, j, f)).abs() < 1e-15, "step {j}");
    }
}

/// Σ_t Σ_i γ (x_t·y_i) (g_t·v_i), by scans over several chunks and in documents.
#[test]
fn scans_give_the_same() {
    let (tokens, queries, rank, width) = (150, 140, 2, 3);
    let offset = tokens - queries;
    let starts = |t: usize| [0, 30, 64, 90].into_iter().rfind(|start| *start <= t).unwrap_or(0);
    let masks: [(&str, Vec<Range<usize>>); 3] = [
        ("causal", (0..queries).map(|t| 0..t + offset + 1).collect()),
        ("documents", (0..queries).map(|t| starts(t + offset)..t + offset + 1).collect()),
        ("a length", (0..queries).map(|t| if t < 100 { 0..t + offset + 1 } else { 0..0 }).collect()),
    ];
    let (x, y) = (numbers(queries * rank, 1), numbers(tokens * rank, 2));
    let (g, v) = (numbers(queries * width, 3), numbers(tokens * width, 4));
    let steps: Vec<f64> = numbers(tokens, 5).iter().map(|x| 0.9 + 0.2 * x).collect();
    let dot = |a: &[f64], i: usize, b: &[f64], j: usize, n: usize| -> f64 {
        a[i * n..(i + 1) * n].iter().zip(&b[j * n..(j + 1) * n]).map(|(a, b)| a * b).sum()
    };
    for (name, visible) in masks {
        let course = Course::of(&visible, tokens, true).expect("a course");
        let mut out = vec![0.0; tokens];
        let scan = Scan { course: &course, rank, width, x: &x, y: &y, decay: Some(&steps) };
        scan.steps(&v, &g, &mut out);
        let f = |steps: &[f64]| -> f64 {
            let pairs = visible.iter().enumerate().flat_map(|(t, seen)| seen.clone().map(move |i| (t, i)));
            pairs.map(|(t, i)| gamma(steps, t + offset, i) * dot(&x, t, &y, i, rank) * dot(&g, t, &v, i, width)).sum()
        };
        for j in (0..tokens).step_by(7) {
            let expected = slope(&steps, j, f);
            assert!(
                (out[j] - expected).abs() < 1e-11 * (1.0 + expected.abs()),
                "{name}: step {j}, {} and {expected}",
                out[j]
            );
        }
    }
}
