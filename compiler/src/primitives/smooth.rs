//! Smooth functions in single precision, for one number and for as many as a register holds: everything goes through
//! e^-|x|, which never overflows, and nothing subtracts what is nearly equal.
//!
//! The errors are in units in the last place (ulp) of the exact result, wherever that is a normal number.

use super::functions::{LN_2, LN_2_LOW, LOG2_E, ROUND};
use super::functions::{Single, absolute, exp_near_0_minus_1, exponential, logarithm};

/// 1 / (1 + e^-x): within 3 ulp.
#[inline(always)]
pub fn sigmoid<T: Single>(x: T) -> T {
    let (zero, one) = (x.like(0.0), x.like(1.0));
    let u = exponential(-absolute(x));
    // 1/(1 + u) above 0, u/(1 + u) below.
    x.below(zero, u, one) / (one + u)
}

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|): within 3 ulp.
#[inline(always)]
pub fn softplus<T: Single>(x: T) -> T {
    // NaN stays NaN.
    x.at_most(x.like(0.0), x.like(0.0), x) + log_1_plus(exponential(-absolute(x)))
}

/// The hyperbolic tangent: within 4 ulp, tiny arguments included.
#[inline(always)]
pub fn tangent<T: Single>(x: T) -> T {
    // m = e^-2|x| - 1, and tanh |x| = -m / (2 + m).
    let m = bounded_exp_minus_1(absolute(x) * x.like(-2.0));
    let y = -m / (x.like(2.0) + m);
    x.below(x.like(0.0), -y, y)
}

/// 1 - tanh^2 x = (2u / (1 + u^2))^2 with u = e^-|x|: within 5 ulp.
#[inline(always)]
pub fn tangent_slope<T: Single>(x: T) -> T {
    let u = exponential(-absolute(x));
    let root = (u + u) / u.times_plus(u, x.like(1.0));
    root * root
}

/// log cosh x: within 6 ulp, tiny arguments included.
#[inline(always)]
pub fn log_cosh<T: Single>(x: T) -> T {
    let (size, one, half) = (absolute(x), x.like(1.0), x.like(0.5));
    // Near 0 it is log(1 + k^2 / (2 (1 + k))) with k = e^|x| - 1, elsewhere |x| + log(1 + m/2) with m = e^-2|x| - 1.
    let k = bounded_exp_minus_1(size.at_most(one, size, size * x.like(-2.0)));
    let more = size.at_most(one, half * k * (k / (one + k)), half * k);
    size.at_most(one, x.like(0.0), size) + log_1_plus(more)
}

/// log(1 + x): within 3 ulp, tiny arguments included; -infinity at -1, NaN below.
#[inline(always)]
pub fn log_1_plus<T: Single>(x: T) -> T {
    // What is lost in w = 1 + x is c, and log(w + c) = log w + c/w.
    let one = x.like(1.0);
    let w = one + x;
    let log = logarithm(w);
    let y = log + (x - (w - one)) / w;
    let y = w.at_most(x.like(0.0), log, y);
    x.below(x.like(f32::INFINITY), y, x)
}

/// e^x - 1: within 3 ulp, tiny arguments included.
#[inline(always)]
pub fn exp_minus_1<T: Single>(x: T) -> T {
    // From here on the 1 does not count.
    let large = x.like(LARGE);
    x.at_most(large, bounded_exp_minus_1(x), exponential(x))
}

/// e^20 is so large, and e^-20 so small, that 1 is not seen beside them.
const LARGE: f32 = 20.0;

/// e^x - 1 for x <= 20, and something finite above.
#[inline(always)]
fn bounded_exp_minus_1<T: Single>(x: T) -> T {
    // x = n ln 2 + r, so e^x - 1 = 2^n (e^r - 1) + (2^n - 1).
    let x = x.below(x.like(-LARGE), x.like(-LARGE), x);
    let x = x.like(LARGE).below(x, x.like(LARGE), x);
    let shifted = x.times_plus(x.like(LOG2_E), x.like(ROUND));
    let n = shifted - x.like(ROUND);
    let r = n.times_plus(x.like(-LN_2_LOW), n.times_plus(x.like(-LN_2), x));
    let one = x.like(1.0);
    let power = one.raised(shifted);
    power.times_plus(exp_near_0_minus_1(r), power - one)
}
