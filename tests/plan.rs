//! The plan interpreter against the reference interpreter: every recipe, every mask, awkward sizes.

mod chain;

use chain::{agree, every_shipped, masks};
use energyc::interpret::HeadSize;

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
                if case.plan.scan.is_some() {
                    let tiles = case.planned_by::<f64>(case.plan.passes(), &env, &visible);
                    agree(&what, &expected, &tiles, tolerance);
                }
            }
        }
    }
}
