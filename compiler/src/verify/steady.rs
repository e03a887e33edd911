//! Rounding: how far values move when their inputs are off by a little.
//!
//! Where large terms cancel, what a formula gives is noise, and says nothing about whether the formula is right.

use super::trials::Gap;
use crate::ir::eval::Env;
use crate::ir::sample::{AMPLIFIED, NUDGES, nudged};
use crate::ir::tensor::Tensor;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::eval::Sizes;

    fn at(x: f64) -> Env {
        let mut env = Env::new(Sizes { queries: 1, tokens: 1, head: 1, model: 1, heads: 1 });
        env.values.insert("x".to_string(), Tensor::scalar(x));
        env
    }

    fn judged(error: f64, f: impl Fn(f64) -> f64) -> Option<Gap> {
        let gap = Gap { error, place: String::new() };
        let values = |env: &Env| Ok(vec![env.values["x"].map(&f)]);
        beyond_rounding(gap, 1e-8, &at(0.7), values).expect("a value")
    }

    #[test]
    fn what_cancels_is_excused_and_what_is_wrong_is_not() {
        let cancelling = |x: f64| 1e12 * ((x + 1.0).powi(2) - x * x - 2.0 * x - 1.0);
        assert!(judged(1e-5, cancelling).is_none());
        assert!(judged(1e-5, f64::exp).is_some());
        assert!(judged(f64::INFINITY, |_| f64::NAN).is_some());
    }
}
