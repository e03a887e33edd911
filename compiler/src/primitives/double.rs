//! Functions of lanes in double precision. What kernels call for every pair runs in registers; the rest goes lane by lane
//! through [`super::real`].

use super::lanes::Lanes;
use super::real::Real;
use pulp::Simd;

/// Adding 1.5 * 2^52 rounds a small number to an integer and leaves it in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
const LOG2_E: f64 = std::f64::consts::LOG2_E;
/// ln 2 rounded to `f64`.
const LN_2: f64 = std::f64::consts::LN_2;
/// ln 2 - [`LN_2`].
const LN_2_LOW: f64 = 2.319_046_813_846_299_6e-17;
/// The largest x with a finite e^x.
const EXP_LARGEST: f64 = 709.782_712_893_383_9;
/// The smallest x with a normal e^x.
const EXP_SMALLEST: f64 = -708.396_418_532_264_1;
/// 1/n!, from 13 down to 2: the series of e^r to 4e-18 for |r| <= ln(2)/2.
const INVERSE_FACTORIALS: [f64; 12] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
];

/// e^x: within 2 ulp where the result is normal, 0 below, infinity above; NaN stays NaN.
#[inline(always)]
pub fn exponential<S: Simd>(x: Lanes<S, f64>) -> Lanes<S, f64> {
    // x = n ln 2 + r with |r| <= ln(2)/2, so e^x = 2^n e^r; n is added to the exponent bits of e^r.
    let shifted = x.times_plus(x.like(LOG2_E), x.like(ROUND));
    let n = shifted - ROUND;
    let r = n.times_plus(x.like(-LN_2_LOW), n.times_plus(x.like(-LN_2), x));
    let [first, others @ ..] = INVERSE_FACTORIALS;
    let series = others.into_iter().fold(x.like(first), |series, c| series.times_plus(r, x.like(c)));
    let y = (series.times_plus(r * r, r) + 1.0).raised(shifted);
    // Outside: infinity + x is infinite for a large x and NaN for NaN.
    let y = x.at_most(x.like(EXP_LARGEST), y, x + f64::INFINITY);
    x.below(x.like(EXP_SMALLEST), x.like(0.0), y)
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub fn sigmoid<S: Simd>(x: Lanes<S, f64>) -> Lanes<S, f64> {
    let u = exponential(-x.absolute());
    x.below(x.like(0.0), u, x.like(1.0)) / (u + 1.0)
}

/// 1 - tanh^2 x = (2u / (1 + u^2))^2 with u = e^-|x|.
#[inline(always)]
pub fn tangent_slope<S: Simd>(x: Lanes<S, f64>) -> Lanes<S, f64> {
    let u = exponential(-x.absolute());
    let root = (u + u) / u.times_plus(u, x.like(1.0));
    root * root
}

/// The total power x^r of [`Real::power`]: small integers and half-integers in registers, other exponents lane by lane.
#[inline(always)]
pub fn power<S: Simd>(x: Lanes<S, f64>, r: f64) -> Lanes<S, f64> {
    let (zero, one) = (x.like(0.0), x.like(1.0));
    let is_whole = r == r.trunc();
    let is_half = 2.0 * r == (2.0 * r).trunc();
    if r == 0.0 || !is_half || r.abs() > 64.0 {
        return x.each(|x| Real::power(x, r));
    }
    let mut y = one;
    for bit in (0..7).rev() {
        y = y * y;
        if (r.abs() as u32 >> bit) & 1 == 1 {
            y = y * x;
        }
    }
    if !is_whole {
        y = y * x.root();
    }
    let y = if r < 0.0 { one / y } else { y };
    match is_whole {
        true => x.absolute().at_most(zero, zero, y),
        false => x.at_most(zero, zero, y),
    }
}
