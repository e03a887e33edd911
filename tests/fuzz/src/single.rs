//! A recipe by the plan interpreter in single precision, at inputs from a thousandth to ten thousand and at awkward places,
//! beside the evaluator, whose numbers never overflow. What is promised there, and the measure, is in [`crate::judge`].

use crate::catching::catching;
use crate::compare;
use crate::evaluate::{Limits, Skip, nudged, roughly};
use crate::expansion;
use crate::failure::Failure;
use crate::interpreted::{Compiled, at_place, planned};
use crate::judge::{Expected, ROUNDING, Verdict, Way};
use crate::meaning::Meaning;
use crate::point::Point;
use crate::random::Random;
use crate::samples::{self, Mask, SMALL};
use crate::spot::Spot;
use crate::tally::Tally;
use crate::tree;
use energyc::plan::schedule::PassKind;
use energyc::plan::{Passes, Precision, Reach};
use energyc::primitives::visible::Visible;

const POINTS: usize = 6;

/// Compares at several points; the seed decides which.
pub fn compare(tree: &tree::Recipe, compiled: &Compiled, seed: u64, tally: &mut Tally) -> Result<(), Failure> {
    let Some(meaning) = expansion::meaning(tree, &compiled.derivation, tally) else { return Ok(()) };
    if meaning.radius_of_query.is_some() {
        // Only the compiler's way of writing the energy says what is along q.
        tally.skip("a direction along a query of fixed length");
        return Ok(());
    }
    if compiled.plan.single != Reach::Everywhere {
        tally.in_double += 1;
    }
    let mut random = Random::new(seed);
    for _ in 0..POINTS {
        let (mask, spot) = (random.pick(&Mask::ALL), Spot::draw(&mut random));
        let mut point = samples::draw(&meaning, random.pick(&SMALL), mask, &mut random);
        spot.put(&mut point);
        let point = point.rounded();
        match at_point(&meaning, compiled, &point, &mut random) {
            Ok(None) => tally.compared += 1,
            Ok(Some(why)) => tally.skip(&why),
            Err(failure) => {
                let failure = at_place(failure, &point, mask);
                return Err(match failure {
                    Failure::Wrong { engine, output, detail } => {
                        Failure::Wrong { engine, output, detail: format!("{detail}, {spot}") }
                    }
                    other => other,
                });
            }
        }
    }
    Ok(())
}

fn at_point(
    meaning: &Meaning,
    compiled: &Compiled,
    point: &Point,
    random: &mut Random,
) -> Result<Option<String>, Failure> {
    let mut expected = match expected(meaning, point, random) {
        Ok(expected) => expected,
        Err(skip) => return Ok(Some(format!("{skip:?}"))),
    };
    for (name, _) in &compiled.recipe.structural {
        expected.arrays.remove(&format!("∂{name}"));
        expected.arrays.remove(&format!("energy ∂{name}"));
    }
    let visible = Visible::new(point.visible.clone(), point.sizes.tokens);
    let passes = compiled.plan.passes_for(std::slice::from_ref(&visible), false);
    let got = catching("single", || {
        let double = planned::<f64>(compiled, passes, point, &visible);
        let largest =
            [&point.q, &point.k, &point.v].into_iter().flatten().fold(0.0f32, |most, x| most.max(x.abs() as f32));
        if compiled.plan.single.precision_at(largest) == Precision::Double {
            return double;
        }
        // Not all passes are in the plan's precision.
        let mut single = planned::<f32>(compiled, passes, point, &visible);
        for (name, pass) in arrays_of(passes) {
            if compiled.plan.reach_of(pass).precision_at(largest) == Precision::Double {
                single.insert(name.clone(), double[&name].clone());
            }
        }
        single
    })?;
    match expected.judge(&got) {
        Verdict::Kept => Ok(None),
        Verdict::Vague => Ok(Some("IllConditioned".to_string())),
        Verdict::Broken { is_finite, difference } => {
            let engine = if is_finite { "single" } else { "single, not finite" }.to_string();
            let detail = difference.describe();
            Err(Failure::Wrong { engine, output: difference.name, detail })
        }
    }
}

/// The arrays of all passes.
fn arrays_of(passes: &Passes) -> Vec<(String, PassKind)> {
    let Passes { forward, energy, backward, constants, energy_backward, energy_constants } = passes;
    let all = [("", forward), ("", energy), ("∂", backward), ("∂", constants)];
    let all = all.into_iter().chain([("energy ∂", energy_backward), ("energy ∂", energy_constants)]);
    all.flat_map(|(prefix, pass)| pass.outputs.iter().map(move |o| (format!("{prefix}{}", o.name), pass.kind)))
        .collect()
}

/// What is right at a point of one head.
pub fn expected(meaning: &Meaning, point: &Point, random: &mut Random) -> Result<Expected, Skip> {
    Expected::of(random, &mut |way| {
        let (outcome, choices) = match way {
            Way::Exact => nudged(meaning, point, Limits::SCALED, None)?,
            Way::Nudged(rounding, random) => {
                let point = point.nudged(ROUNDING, random);
                nudged(meaning, &point, Limits::NUDGED, Some(rounding))?
            }
            Way::Rounded(rounding) => roughly(meaning, point, Limits::NUDGED, rounding)?,
        };
        Ok((compare::arrays(&outcome), choices))
    })
}
