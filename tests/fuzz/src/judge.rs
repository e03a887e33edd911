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
//! Results below [`SMALLEST`] are as good as 0: what is on the way to them is no number of f32 any more.
//!
//! The second promise is not kept everywhere yet: what is left are results that vanish or nearly do, by a cancellation that the
//! plan does not know of: sums that are 0 where all tokens are equal, second derivatives in one dimension, second-order steps by
//! exact solutions. `tests/single.rs` says how many of its recipes they are.
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

/// How an evaluation is to be off, if at all.
pub type Nudge<'a> = Option<(Rounding, &'a mut Random)>;

/// What comes of one: the arrays, and a number for how things were chosen.
pub type Evaluated = Result<(Arrays, u64), Skip>;

impl Expected {
    /// The arrays at a point, evaluated as it is and nudged, each with how things were chosen. The evaluation is given what it
    /// nudges by.
    pub fn of(random: &mut Random, evaluate: &mut dyn FnMut(Nudge) -> Evaluated) -> Result<Expected, Skip> {
        let (arrays, chosen) = evaluate(None)?;
        let mut nudged = vec![];
        for _ in 0..NUDGES {
            let rounding = Rounding::new(ROUNDING, random);
            let (other, choices) = evaluate(Some((rounding, random)))?;
            if choices != chosen {
                return Err(Skip::Kink);
            }
            nudged.push(other);
        }
        let movement = compare::movement(&arrays, &nudged);
        let is_vague = compare::is_vague(&arrays, &movement, TOLERANCE, VAGUE);
        Ok(Expected { arrays, movement, is_vague })
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
