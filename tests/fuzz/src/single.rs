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
use crate::tally::Tally;
use crate::tree;
use energyc::primitives::visible::Visible;
use std::fmt;

const POINTS: usize = 6;

/// How large the tokens of a point are, and what is special about them.
#[derive(Clone, Copy, Debug)]
struct Spot {
    scale: f64,
    place: Place,
}

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

impl Spot {
    fn draw(random: &mut Random) -> Spot {
        Spot { scale: random.pick(&SCALES), place: random.pick(&PLACES) }
    }

    fn put(self, point: &mut Point) {
        let width = point.sizes.head;
        [&mut point.q, &mut point.k, &mut point.v].into_iter().flatten().for_each(|x| *x *= self.scale);
        match self.place {
            Place::Ordinary => {}
            Place::AllTokensEqual => [&mut point.k, &mut point.v].into_iter().for_each(|x| make_equal(x, width)),
            Place::OneHugeToken => make_huge(&mut point.k, width),
            Place::ZeroQuery => point.q.fill(0.0),
            Place::ZeroTokens => point.k.fill(0.0),
        }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "scale {:e}, {:?}", self.scale, self.place)
    }
}

fn make_equal(tokens: &mut [f64], width: usize) {
    let first = tokens[..width].to_vec();
    tokens.chunks_exact_mut(width).for_each(|token| token.copy_from_slice(&first));
}

/// The last token a hundred times as large.
fn make_huge(tokens: &mut [f64], width: usize) {
    let last = tokens.len() - width;
    tokens[last..].iter_mut().for_each(|x| *x *= 100.0);
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
    let got = catching("single", || planned::<f32>(compiled, passes, point, &visible))?;
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

/// What is right at a point of one head.
fn expected(meaning: &Meaning, point: &Point, random: &mut Random) -> Result<Expected, Skip> {
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
