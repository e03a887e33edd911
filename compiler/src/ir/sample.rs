//! Random inputs for a term, from a seed: what numeric comparisons run on.

use super::axis::Axis;
use super::eval::{Env, Sizes, evaluate};
use super::expr::{Expr, Leaf, Role};
use super::sign::Sign;
use super::tensor::{Tensor, broadcast};
use super::traverse;

/// A small counter-based generator (SplitMix64): the same seed gives the same numbers everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }
    /// Uniform in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
    /// Standard normal, by the polar form of two uniforms.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
    /// An integer below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }
}

/// An assumption ‖vector‖ = radius that sampled inputs must satisfy.
pub type Norm = (Leaf, Expr);

/// Values for every input of the terms, respecting known signs and norms.
pub fn sample(terms: &[Expr], sizes: Sizes, norms: &[Norm], random: &mut Random) -> Env {
    let mut env = Env::new(sizes);
    let radii: Vec<Expr> = norms.iter().map(|(_, radius)| radius.clone()).collect();
    for e in terms.iter().chain(&radii) {
        for leaf in traverse::inputs(e) {
            if !matches!(leaf.role, Role::Size | Role::Visible)
                && !leaf.is_identity()
                && !env.values.contains_key(&*leaf.name)
            {
                let value = sample_leaf(&leaf, sizes, random);
                env.values.insert(leaf.name.to_string(), value);
            }
        }
    }
    obey(&mut env, terms, norms);
    env
}

/// Makes the inputs what they are assumed to be: weights sum to one, constrained vectors have their norm.
pub fn obey(env: &mut Env, terms: &[Expr], norms: &[Norm]) {
    for leaf in terms.iter().flat_map(traverse::inputs).filter(|leaf| leaf.role == Role::Weights) {
        env.values.get_mut(&*leaf.name).into_iter().for_each(sum_to_one);
    }
    for (vector, radius) in norms {
        let radius = evaluate(radius, env).map_or(1.0, |t| t.data[0]);
        env.values.get_mut(&*vector.name).into_iter().for_each(|x| normalize(x, radius));
    }
}

fn sample_leaf(leaf: &Leaf, sizes: Sizes, random: &mut Random) -> Tensor {
    Tensor::build(
        &leaf.axes,
        |a: Axis| sizes.length(a),
        |_| match (leaf.role, leaf.sign) {
            (Role::Gate | Role::Decay, _) => random.uniform(),
            (_, Sign::Positive | Sign::NonNegative) => (0.4 * random.normal()).exp(),
            (_, Sign::Negative | Sign::NonPositive) => -(0.4 * random.normal()).exp(),
            (_, Sign::Zero) => 0.0,
            (_, Sign::Unknown) => random.normal(),
        },
    )
}

/// Scales every row (the last axis) to sum to one.
fn sum_to_one(x: &mut Tensor) {
    let width = x.shape.last().copied().unwrap_or(1).max(1);
    for row in x.data.chunks_mut(width) {
        let total: f64 = row.iter().sum();
        row.iter_mut().for_each(|v| *v /= total);
    }
}

/// Scales every row (the last axis) to the given norm; 0 stays 0.
fn normalize(x: &mut Tensor, radius: f64) {
    let width = x.shape.last().copied().unwrap_or(1).max(1);
    for row in x.data.chunks_mut(width) {
        let norm = row.iter().map(|v| v * v).sum::<f64>().sqrt();
        if norm > 0.0 {
            row.iter_mut().for_each(|v| *v *= radius / norm);
        }
    }
}

/// Hides tokens at random, at least one left to each query, and makes the inputs obey: weights and cotangents are 0 at
/// what is not seen, weights sum to one over what is.
pub fn hide_some(env: &mut Env, terms: &[Expr], random: &mut Random) {
    let Sizes { queries, tokens, .. } = env.sizes;
    let mut visible: Vec<bool> = (0..queries * tokens).map(|_| random.uniform() < 0.6).collect();
    for t in 0..queries {
        visible[t * tokens + random.below(tokens)] = true;
    }
    for leaf in terms.iter().flat_map(traverse::inputs) {
        if let (Role::Weights | Role::Share | Role::Adjoint, Some(value)) = (leaf.role, env.values.get_mut(&*leaf.name))
        {
            value.data.iter_mut().zip(&visible).for_each(|(x, seen)| *x = if *seen { *x } else { 0.0 });
            if leaf.role == Role::Weights {
                sum_to_one(value);
            }
        }
    }
    env.visible = Some(visible);
}

/// The largest difference relative to the size of the entries (and to 1), over what the queries see.
pub fn difference(a: &Tensor, b: &Tensor, env: &Env) -> f64 {
    let length = |axis: Axis| env.sizes.length(axis);
    let rows = Tensor::build(&[Axis::T], length, |_| 0.0);
    let parts: &[&Tensor] = if env.visible.is_some() { &[a, b, &rows] } else { &[a, b] };
    let mut both = broadcast(parts, length, |v| {
        if v[0] == v[1] { 0.0 } else { (v[0] - v[1]).abs() / (1.0 + v[0].abs().max(v[1].abs())) }
    });
    env.blank_unseen(&mut both);
    both.data.iter().fold(0.0, |worst: f64, x| if x.is_nan() { f64::INFINITY } else { worst.max(*x) })
}

/// By how much inputs are moved to see what rounding does, how often (what is left of large terms that cancel has few
/// values, and may stay by chance), and how many times over that may go into a difference.
const NUDGE: f64 = 1e-12;
pub const NUDGES: u64 = 16;
pub const AMPLIFIED: f64 = 1e3;

/// The inputs, each off by a little.
pub fn nudged(env: &Env, seed: u64) -> Env {
    nudged_by(env, NUDGE, seed)
}

/// The inputs, each off by a random part of itself, `by` at the most.
pub fn nudged_by(env: &Env, by: f64, seed: u64) -> Env {
    let mut env = env.clone();
    let mut random = Random::new(seed ^ 0x5eed);
    let mut names: Vec<String> = env.values.keys().cloned().collect();
    names.sort();
    for name in names {
        if let Some(x) = env.values.get_mut(&name) {
            x.data.iter_mut().for_each(|x| *x *= 1.0 + by * (2.0 * random.uniform() - 1.0));
        }
    }
    env
}

/// A difference of two terms, if it is more than rounding makes of one of them.
fn beyond_rounding(difference_seen: f64, terms: &[(&Expr, &Tensor)], env: &Env) -> Result<f64, String> {
    let mut allowed: f64 = 0.0;
    for seed in 0..NUDGES {
        let moved = nudged(env, seed);
        for (term, value) in terms {
            allowed = allowed.max(AMPLIFIED * difference(value, &evaluate(term, &moved)?, env));
        }
    }
    Ok(if difference_seen <= allowed { 0.0 } else { difference_seen })
}

/// Smaller differences are not looked into.
const SMALL: f64 = 1e-9;

/// Compares two terms on random inputs of several small sizes, one of them with a mask; the largest relative difference.
pub fn compare(a: &Expr, b: &Expr, norms: &[Norm], seed: u64) -> Result<f64, String> {
    let mut random = Random::new(seed);
    let mut worst: f64 = 0.0;
    let mut compared = 0;
    for (queries, tokens, head, model, masked) in [(2, 3, 2, 3, false), (1, 1, 3, 2, false), (3, 4, 1, 2, true)] {
        // On a sphere in one dimension all distances are 0 or 2ρ, at the edge of rounding.
        let head = if norms.is_empty() { head } else { head.max(2) };
        let sizes = Sizes { queries, tokens, head, model, heads: 2 };
        let terms = [a.clone(), b.clone()];
        let mut env = sample(&terms, sizes, norms, &mut random);
        if masked {
            hide_some(&mut env, &terms, &mut random);
        }
        // A value too large for f64 says nothing; smaller inputs do.
        let is_finite = |x: &Tensor| x.data.iter().all(|v| v.is_finite());
        let mut first = evaluate(a, &env)?;
        for _ in 0..4 {
            if is_finite(&first) {
                break;
            }
            env.values.values_mut().for_each(|x| x.data.iter_mut().for_each(|v| *v *= 0.3));
            obey(&mut env, &terms, norms);
            first = evaluate(a, &env)?;
        }
        if is_finite(&first) {
            let second = evaluate(b, &env)?;
            let mut error = difference(&first, &second, &env);
            if error > SMALL && error.is_finite() {
                error = beyond_rounding(error, &[(a, &first), (b, &second)], &env)?;
            }
            worst = worst.max(error);
            compared += 1;
        }
    }
    if compared > 0 { Ok(worst) } else { Err("no sample gives finite values to compare".to_string()) }
}
