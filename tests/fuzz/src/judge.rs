//! What single precision promises, and how the promises are measured.
//!
//! 1. Where the true results and every E_i are numbers of f32, what is computed is finite.
//! 2. The error of every entry of an array is at most [`ALLOWED`] times
//!    - how far the entries of the array move in double precision when all inputs are off by 2⁻²⁴ of themselves, every sum over
//!      components in an E_i by 2⁻²⁴ of itself, and every E_i and every cotangent of an E_i by 2⁻²⁴ of the sum of its absolute
//!      terms, up or down at random; the largest of [`NUDGES`] draws and of the array's entries, which share their sums,
//!    - and the rounding of the result itself, 2⁻²⁴ of the array's largest entry.
//!
//! The absolute terms of q·k are Σ |q_e k_e|, those of |q − k|² are Σ (|q_e| + |k_e|)²; a function other than a power is one
//! term. Cotangents are there because of the weights p of a row of which one, the first, is nearly 1: its share of the
//! gradient is p₁ (∂p₁ − Σ p ∂p), a difference of nearly equal numbers, which are rounded; inputs and energies alone would
//! move it by far less, and a kernel would have to go through every row once more. Sums over components are there because of
//! one component: |x| has no curvature, and the formula for any number of components finds that as |x|⁻¹ − x² |x|⁻³, in which
//! |x| and x² are rounded.
//!
//! Results below [`SMALLEST`] are as good as 0: what is on the way to them is no number of f32 any more. Nor can anything be held
//! against the evaluator more closely than it knows itself: a gradient that is 0 because two large terms cancel is not quite 0 in
//! double precision. How far its results move when each of its own operations is off by 2⁻⁵² is allowed [`ALLOWED`] times as well.
//!
//! What is not compared, and counted as skipped: where a nudge changes what is chosen in a case distinction, an absolute value or
//! the support of a minimum (then there are two results, and both are right); where what is allowed is more than [`VAGUE`] of
//! the array, but for promise 1; systems that are nearly singular.

use crate::compare::{self, Arrays, Difference, Tolerance, differs};
use crate::evaluate::Skip;
use crate::random::Random;
use crate::tape::Rounding;

/// Half the distance of two numbers of single precision around 1.
pub const ROUNDING: f64 = 1.0 / (1 << 24) as f64;
/// How often what the problem allows may go into an error: sums have several terms, and formulas several steps.
pub const ALLOWED: f64 = 128.0;
pub const SMALLEST: f64 = 1e-30;
pub const VAGUE: f64 = 0.25;
pub const NUDGES: usize = 4;
/// A rounding of the evaluator's own, and how often it is asked for.
const OWN_ROUNDING: f64 = f64::EPSILON;
const OWN_ROUNDINGS: usize = 3;

const TOLERANCE: Tolerance = Tolerance { relative: ALLOWED * ROUNDING, absolute: SMALLEST, movement: ALLOWED };

/// What is right at a point, and how far it may be missed.
#[derive(Clone, Debug)]
pub struct Expected {
    pub arrays: Arrays,
    movement: Arrays,
    /// Whether only finiteness can be asked for.
    is_vague: bool,
}

/// What came of a comparison.
pub enum Verdict {
    Kept,
    /// Finite, where nothing more can be said.
    Vague,
    Broken {
        is_finite: bool,
        difference: Difference,
    },
}

/// How an evaluation is to be.
pub enum Way<'a> {
    Exact,
    /// Off by what the problem allows.
    Nudged(Rounding, &'a mut Random),
    /// Off by what the evaluator's arithmetic loses.
    Rounded(Rounding),
}

/// What comes of one: the arrays, and a number for how things were chosen.
pub type Evaluated = Result<(Arrays, u64), Skip>;

impl Expected {
    /// The arrays at a point, evaluated as it is, nudged and rounded, each with how things were chosen.
    pub fn of(random: &mut Random, evaluate: &mut dyn FnMut(Way) -> Evaluated) -> Result<Expected, Skip> {
        let (arrays, chosen) = evaluate(Way::Exact)?;
        let mut moved = vec![];
        for draw in 0..NUDGES + OWN_ROUNDINGS {
            let way = match draw < NUDGES {
                true => Way::Nudged(Rounding::new(ROUNDING, random), random),
                false => Way::Rounded(Rounding::new(OWN_ROUNDING, random)),
            };
            let (other, choices) = evaluate(way)?;
            if choices != chosen {
                return Err(Skip::Kink);
            }
            moved.push(other);
        }
        let movement = compare::movement(&arrays, &moved);
        let is_vague = compare::is_vague(&arrays, &movement, TOLERANCE, VAGUE);
        Ok(Expected { arrays, movement, is_vague })
    }

    /// The same for the arrays that are wanted.
    pub fn of_arrays(&self, is_wanted: impl Fn(&str) -> bool) -> Expected {
        let mut chosen = self.clone();
        chosen.arrays.retain(|name, _| is_wanted(name));
        chosen.movement.retain(|name, _| is_wanted(name));
        chosen
    }

    /// Holds what was computed against it.
    pub fn judge(&self, got: &Arrays) -> Verdict {
        let is_finite = got.values().flatten().all(|x| x.is_finite());
        if self.is_vague && is_finite {
            return Verdict::Vague;
        }
        match differs(&self.arrays, &self.movement, got, TOLERANCE) {
            None => Verdict::Kept,
            Some(difference) => Verdict::Broken { is_finite, difference },
        }
    }
}
