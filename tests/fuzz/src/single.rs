//! A recipe by the plan interpreter in single precision, at inputs from a thousandth to ten thousand and at awkward places,
//! beside the evaluator, whose numbers never overflow.
//!
//! Two promises are held: where the true results and every E_i are numbers of single precision, what is computed is
//! finite; and it is as near to the truth as the problem allows. What the problem allows is measured: the evaluator's tape
//! knows how far its own values would be off if inputs and all operations were rounded as single precision rounds.

use crate::catching::catching;
use crate::compare::{self, Tolerance, differs};
use crate::evaluate::{Limits, evaluate_with_errors};
use crate::expansion;
use crate::failure::Failure;
use crate::interpreted::{Compiled, at_place, planned};
use crate::meaning::Meaning;
use crate::point::Point;
use crate::random::Random;
use crate::samples::{self, Mask, SMALL};
use crate::tally::Tally;
use crate::tree;
use energyc::primitives::visible::Visible;

/// Half the distance of two numbers of single precision around 1.
const ROUNDING: f64 = 1.0 / (1 << 24) as f64;
/// Below `absolute`, what is on the way to a result may be no number of single precision any more.
const TOLERANCE: Tolerance = Tolerance { relative: 64.0 * ROUNDING, absolute: 1e-14, movement: 8.0 };
/// A tolerance above this share of an array's largest entry would not see much.
const VAGUE: f64 = 0.25;
const POINTS: usize = 6;

/// What is special about a point, beside its scale.
#[derive(Clone, Copy, Debug)]
enum Place {
    Ordinary,
    AllTokensEqual,
    OneHugeToken,
    ZeroQuery,
    ZeroTokens,
}

const PLACES: [Place; 8] = [
    Place::Ordinary,
    Place::Ordinary,
    Place::Ordinary,
    Place::Ordinary,
    Place::AllTokensEqual,
    Place::OneHugeToken,
    Place::ZeroQuery,
    Place::ZeroTokens,
];

const SCALES: [f64; 8] = [1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4];

/// Compares at several points; the seed decides which.
pub fn compare(tree: &tree::Recipe, compiled: &Compiled, seed: u64, tally: &mut Tally) -> Result<(), Failure> {
    let Some(meaning) = expansion::meaning(tree, &compiled.derivation, tally) else { return Ok(()) };
    if meaning.radius_of_query.is_some() {
        // Only the compiler's way of writing the energy says what is along q.
        tally.skip("a direction along a query of fixed length");
        return Ok(());
    }
    let mut random = Random::new(seed);
    for _ in 0..POINTS {
        let (mask, scale, place) = (random.pick(&Mask::ALL), random.pick(&SCALES), random.pick(&PLACES));
        let mut point = samples::draw(&meaning, random.pick(&SMALL), mask, &mut random);
        put(&mut point, scale, place);
        let point = point.rounded();
        match at_point(&meaning, compiled, &point) {
            Ok(None) => tally.compared += 1,
            Ok(Some(why)) => tally.skip(&why),
            Err(failure) => {
                let failure = at_place(failure, &point, mask);
                return Err(match failure {
                    Failure::Wrong { engine, output, detail } => {
                        Failure::Wrong { engine, output, detail: format!("{detail}, scale {scale:e}, {place:?}") }
                    }
                    other => other,
                });
            }
        }
    }
    Ok(())
}

fn put(point: &mut Point, scale: f64, place: Place) {
    let width = point.sizes.head;
    [&mut point.q, &mut point.k, &mut point.v].into_iter().flatten().for_each(|x| *x *= scale);
    match place {
        Place::Ordinary => {}
        Place::AllTokensEqual => {
            for tokens in [&mut point.k, &mut point.v] {
                let first = tokens[..width].to_vec();
                tokens.chunks_exact_mut(width).for_each(|token| token.copy_from_slice(&first));
            }
        }
        Place::OneHugeToken => {
            let last = point.k.len() - width;
            point.k[last..].iter_mut().for_each(|x| *x *= 100.0);
        }
        Place::ZeroQuery => point.q.fill(0.0),
        Place::ZeroTokens => point.k.fill(0.0),
    }
}

fn at_point(meaning: &Meaning, compiled: &Compiled, point: &Point) -> Result<Option<String>, Failure> {
    let (outcome, errors) = match evaluate_with_errors(meaning, point, Limits::SCALED, ROUNDING) {
        Ok(both) => both,
        Err(skip) => return Ok(Some(format!("{skip:?}"))),
    };
    let mut expected = compare::arrays(&outcome);
    for (name, _) in &compiled.recipe.structural {
        expected.remove(&format!("∂{name}"));
        expected.remove(&format!("energy ∂{name}"));
    }
    let movement = compare::arrays(&errors);
    let is_vague = compare::is_vague(&expected, &movement, TOLERANCE, VAGUE);
    let visible = Visible::new(point.visible.clone(), point.sizes.tokens);
    let passes = compiled.plan.passes_for(std::slice::from_ref(&visible), false);
    let got = catching("single", || planned::<f32>(compiled, passes, point, &visible))?;
    let is_finite = got.values().flatten().all(|x| x.is_finite());
    if is_vague && is_finite {
        return Ok(Some("IllConditioned".to_string()));
    }
    match differs(&expected, &movement, &got, TOLERANCE) {
        None => Ok(None),
        Some(difference) => {
            let engine = if is_finite { "single" } else { "single, not finite" }.to_string();
            let detail = difference.describe();
            Err(Failure::Wrong { engine, output: difference.name, detail })
        }
    }
}
