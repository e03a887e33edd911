//! Rounding: how far values move when their inputs are off by a little.
//!
//! Where large terms cancel, what a formula gives is noise, and says nothing about whether the formula is right.

use super::trials::Gap;
use crate::ir::eval::Env;
use crate::ir::sample::{AMPLIFIED, nudged};
use crate::ir::tensor::Tensor;

/// How often inputs are moved.
const NUDGES: u64 = 3;

/// The gap, or nothing where rounding alone moves the values as far.
pub fn beyond_rounding(
    gap: Gap,
    tolerance: f64,
    env: &Env,
    values: impl Fn(&Env) -> Result<Vec<Tensor>, String>,
) -> Result<Option<Gap>, String> {
    if gap.error <= tolerance {
        return Ok(Some(gap));
    }
    let relative = |a: f64, b: f64| (a - b).abs() / (1.0 + a.abs().max(b.abs()));
    let moved = movement(env, |env| Ok(values(env)?.into_iter().flat_map(|x| x.data).collect()), relative)?;
    Ok((gap.error > moved).then_some(gap))
}

/// How far rounding may move values by some measure, many times over.
pub fn movement(
    env: &Env,
    values: impl Fn(&Env) -> Result<Vec<f64>, String>,
    distance: impl Fn(f64, f64) -> f64,
) -> Result<f64, String> {
    let here = values(env)?;
    let mut most: f64 = 0.0;
    for seed in 0..NUDGES {
        let moved = values(&nudged(env, seed))?;
        let pairs = here.iter().zip(&moved);
        // What is not a number stays none.
        let distances = pairs.map(|(&a, &b)| match (a.is_finite(), b.is_finite()) {
            (true, true) => distance(a, b),
            (false, false) => 0.0,
            _ => f64::INFINITY,
        });
        most = distances.fold(most, f64::max);
    }
    Ok(AMPLIFIED * most)
}

/// Whether there is a value everywhere.
pub fn is_finite(x: &Tensor) -> bool {
    x.data.iter().all(|x| x.is_finite())
}
