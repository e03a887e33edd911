//! Descent: a small enough step along the direction lowers F_h, in q and through W1ᵀ in z.

use super::parts::{Parts, through_z, tied};
use super::report::{Line, Outcome};
use super::samples::Source;
use super::slopes::{self, moved};
use super::trials::{Gap, Tally, run};
use crate::check::inputs;
use crate::check::recipe::Values;
use crate::derive::kinks;
use crate::ir::eval::Env;
use crate::ir::tensor::Tensor;
use crate::ir::{Axis, Expr, Leaf, Sign};

/// Rows whose squared step is below this stand at a minimum already.
const STILL: f64 = 1e-8;
const SMALLEST_STEP: f64 = 1e-6;

/// F after a step, for tied values; what that says of free ones is in the detail.
pub fn descent(parts: &Parts) -> Line {
    if parts.derivation.preconditioned.is_some() {
        let reason = "a solved step goes where A⁻¹ sends it: A may be indefinite".to_string();
        let outcome = Outcome::NotApplicable { reason };
        return Line { name: "descent", detail: "a step along the direction lowers F".to_string(), outcome };
    }
    let energy = parts.energy();
    // Against the gradient, or with it: as the optimizer goes.
    let goes_up = parts.derivation.update.step_size.as_ref().is_some_and(|e| e.sign() == Sign::Negative);
    let direction = if goes_up { tied(&parts.direction()).neg() } else { tied(&parts.direction()) };
    let in_q = steps(parts, energy, &direction, &inputs::q());
    // Σ_e W1[e,c] direction_e
    let back = Expr::sum(Axis::E, &Expr::leaf(inputs::w1()).times(&through_z(&direction)));
    let in_z = steps(parts, &through_z(energy), &back, &inputs::z());
    let tally = in_q.join(in_z);
    let what = format!("a step along the direction, in q and through W1ᵀ in z, lowers {}", parts.energy_name());
    let samples = tally.samples;
    let outcome = tally.outcome(0.0);
    match (parts.recipe().values, outcome) {
        (Values::Free, Outcome::Pass { .. }) => Line {
            name: "descent",
            detail: format!("with k in the place of v, {what}: so it does; {samples} samples"),
            outcome: Outcome::NotApplicable {
                reason: "values are free: W_O = (η/H) W1ᵀ and W_V = W2 make it the tied step".to_string(),
            },
        },
        (values, outcome) => {
            let tied = if values == Values::Free { "with k in the place of v, " } else { "" };
            Line { name: "descent", detail: format!("{tied}{what}; {samples} samples"), outcome }
        }
    }
}

fn steps(parts: &Parts, energy: &Expr, direction: &Expr, input: &Leaf) -> Tally {
    let terms = vec![energy.clone(), direction.clone(), Expr::leaf(input.clone())];
    let source = Source::new(terms, parts.norms()).avoiding(kinks(energy));
    run(&source, |sample| lowers(energy, direction, input, &sample.env).map(Some))
}

/// For every query there is a step size down to [`SMALLEST_STEP`] at which its F is lower.
fn lowers(energy: &Expr, direction: &Expr, input: &Leaf, env: &Env) -> Result<Gap, String> {
    let along = slopes::value(direction, &input.axes, env)?;
    let width = (along.data.len() / env.sizes.queries.max(1)).max(1);
    let squares: Vec<f64> = along.data.chunks(width).map(|row| row.iter().map(|x| x * x).sum()).collect();
    let before = per_query(energy, env)?;
    let mut rise = vec![f64::INFINITY; before.len()];
    let mut step = 1.0;
    while step > 0.9 * SMALLEST_STEP {
        // η d / (1 + ‖d‖²), row by row: next to a pole the direction is long, and the step must not be.
        let add = |x: &mut Tensor| {
            let entries = x.data.iter_mut().zip(&along.data).enumerate();
            entries.for_each(|(at, (x, d))| *x += step * d / (1.0 + squares[at / width]));
        };
        let after = per_query(energy, &moved(env, input, add))?;
        for ((rise, after), before) in rise.iter_mut().zip(&after).zip(&before) {
            *rise = rise.min(after - before);
        }
        step *= 0.1;
    }
    let worst = squares.iter().zip(&rise).enumerate().map(|(t, (&square, &rise))| {
        let is_lower = rise < 0.0 || square < STILL;
        let place = || format!("F of query {t} does not fall: it changes by {rise:.1e} at best along {}", input.name);
        // No change at all is a failure too, so the error is never 0 there.
        if is_lower { Gap::NONE } else { Gap { error: rise.max(f64::MIN_POSITIVE), place: place() } }
    });
    Ok(worst.fold(Gap::NONE, Gap::or))
}

/// F, a number a query.
fn per_query(energy: &Expr, env: &Env) -> Result<Vec<f64>, String> {
    Ok(slopes::value(energy, &[Axis::T], env)?.data)
}
