//! The arithmetic of one kernel element, so that every kernel is written once for `f32` and `f64`.
//!
//! The method names differ from those of the standard library on purpose: inherent methods win on a concrete `f32`, so
//! a trait method called `exp` would silently become a call to the C library and stop the loop from vectorizing. The
//! `f32` functions here are straight lines of arithmetic, integer shifts and selects. They lean on fused multiply-add:
//! compile them where FMA is enabled (without it `mul_add` is still correct, but slow).

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// A real number type of a kernel: `f32` or `f64`.
pub trait Real:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + Send
    + Sync
    + Default
    + Debug
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Positive infinity.
    const INFINITY: Self;
    /// The gap between 1 and the next larger number.
    const EPSILON: Self;

    /// The nearest number of this type.
    fn of(value: f64) -> Self;

    /// The same number in double precision.
    fn to_f64(self) -> f64;

    /// e^x. For `f32`: within 1.01 ulp where the result is normal, 0 below ln 2^-126 = -87.34 (denormal results are
    /// flushed), infinity above 88.72; NaN stays NaN.
    fn exponential(self) -> Self;

    /// ln x. For `f32`: within 1 ulp, denormal arguments included; ln 0 = -infinity, NaN below 0.
    fn logarithm(self) -> Self;

    /// The square root, correctly rounded; NaN below 0.
    fn square_root(self) -> Self;

    /// |x|.
    fn absolute(self) -> Self;

    /// -1, 0 or 1 by the sign of x: 0 at both zeros, NaN at NaN.
    fn signum0(self) -> Self;

    /// `self` if it is larger than `other`, else `other`. A NaN `self` is dropped, a NaN `other` is kept.
    fn larger(self, other: Self) -> Self;

    /// `self` if it is smaller than `other`, else `other`. A NaN `self` is dropped, a NaN `other` is kept.
    fn smaller(self, other: Self) -> Self;

    /// self * factor + term, rounded once.
    fn fused(self, factor: Self, term: Self) -> Self;

    /// x^r for x > 0 and any finite r that is not 0, without a branch on x: 0 at and below 0, NaN at NaN.
    ///
    /// For `f32` the relative error stays below 4e-7 for |r| <= 4 and below 1e-5 wherever |r ln x| < 80; results below
    /// 2^-126 lose digits and then become 0.
    fn positive_power(self, r: f64) -> Self;

    /// x^n by repeated squaring, one rounding per product; 0^n is infinite for n < 0.
    #[inline(always)]
    fn integer_power(self, n: i32) -> Self {
        let mut left = n.unsigned_abs();
        let (mut product, mut square) = (Self::ONE, self);
        while left != 0 {
            if left & 1 == 1 {
                product = product * square;
            }
            square = square * square;
            left >>= 1;
        }
        if n < 0 { Self::ONE / product } else { product }
    }

    /// The total power x^r for a finite r: 0^r = 0 for every r != 0, x^0 = 1, and a fractional power of a negative
    /// number is 0. An integer power of a negative number keeps its sign.
    ///
    /// Integers and half-integers up to 64 are products (and one square root), other exponents are
    /// [`positive_power`](Real::positive_power). For `f32` the relative error stays below 4e-7 for |r| <= 4, below 4e-6
    /// for the products, and below 1e-5 for the rest wherever |r ln x| < 80.
    #[inline(always)]
    fn power(self, r: f64) -> Self {
        let [y] = Self::powers([self], r);
        y
    }

    /// [`power`](Real::power) of every lane: it branches on r once and then runs over the lanes in straight lines.
    #[inline(always)]
    fn powers<const LANES: usize>(x: [Self; LANES], r: f64) -> [Self; LANES] {
        // Plain loops: a closure this large might be called instead of inlined.
        let mut y = x;
        if r == 0.0 {
            y = [Self::ONE; LANES];
        } else if is_whole(r) && r.abs() <= 64.0 {
            y = products(x, r.abs() as u32);
            for i in 0..LANES {
                let v = if r < 0.0 { Self::ONE / y[i] } else { y[i] };
                y[i] = if x[i] == Self::ZERO { Self::ZERO } else { v };
            }
        } else if is_whole(2.0 * r) && r.abs() <= 64.0 {
            // x^(n + 1/2) = x^n sqrt(x)
            y = products(x, r.abs() as u32);
            for i in 0..LANES {
                let v = y[i] * x[i].square_root();
                let v = if r < 0.0 { Self::ONE / v } else { v };
                y[i] = if x[i] <= Self::ZERO { Self::ZERO } else { v };
            }
        } else if is_whole(r) {
            // x^r = (sign x)^r |x|^r
            let negative = if r % 2.0 == 0.0 { Self::ONE } else { -Self::ONE };
            for i in 0..LANES {
                let v = x[i].absolute().positive_power(r);
                y[i] = if x[i] < Self::ZERO { negative * v } else { v };
            }
        } else {
            for v in &mut y {
                *v = v.positive_power(r);
            }
        }
        y
    }
}

/// Whether r is an integer.
#[inline(always)]
fn is_whole(r: f64) -> bool {
    r == r.trunc()
}

/// x^n of every lane by repeated squaring, for n <= 127: the lanes are the inner loop.
#[inline(always)]
fn products<T: Real, const LANES: usize>(x: [T; LANES], n: u32) -> [T; LANES] {
    let (mut product, mut square) = ([T::ONE; LANES], x);
    for bit in 0..7 {
        if (n >> bit) & 1 == 1 {
            for i in 0..LANES {
                product[i] = product[i] * square[i];
            }
        }
        if n >> bit <= 1 {
            break;
        }
        for v in &mut square {
            *v = *v * *v;
        }
    }
    product
}

impl Real for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const INFINITY: f64 = f64::INFINITY;
    const EPSILON: f64 = f64::EPSILON;

    #[inline(always)]
    fn of(value: f64) -> f64 {
        value
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline(always)]
    fn exponential(self) -> f64 {
        self.exp()
    }

    #[inline(always)]
    fn logarithm(self) -> f64 {
        self.ln()
    }

    #[inline(always)]
    fn square_root(self) -> f64 {
        self.sqrt()
    }

    #[inline(always)]
    fn absolute(self) -> f64 {
        self.abs()
    }

    #[inline(always)]
    fn signum0(self) -> f64 {
        if self > 0.0 {
            1.0
        } else if self < 0.0 {
            -1.0
        } else {
            self.abs() * 0.0
        }
    }

    #[inline(always)]
    fn larger(self, other: f64) -> f64 {
        if self > other { self } else { other }
    }

    #[inline(always)]
    fn smaller(self, other: f64) -> f64 {
        if self < other { self } else { other }
    }

    #[inline(always)]
    fn fused(self, factor: f64, term: f64) -> f64 {
        self.mul_add(factor, term)
    }

    #[inline(always)]
    fn positive_power(self, r: f64) -> f64 {
        if self <= 0.0 { 0.0 } else { self.powf(r) }
    }
}

impl Real for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const INFINITY: f32 = f32::INFINITY;
    const EPSILON: f32 = f32::EPSILON;

    #[inline(always)]
    fn of(value: f64) -> f32 {
        value as f32
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn exponential(self) -> f32 {
        // x = n ln 2 + r with |r| <= ln(2)/2, so e^x = 2^n e^r; n is added to the exponent bits of e^r.
        let shifted = self.mul_add(LOG2_E, ROUND);
        let n = shifted - ROUND;
        let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2, self));
        let y = f32::from_bits(exp_near_0(r).to_bits().wrapping_add(shifted.to_bits() << 23));
        // Outside: infinity + x is infinite for a large x and NaN for NaN.
        let y = if self <= EXP_LARGEST { y } else { f32::INFINITY + self };
        if self < EXP_SMALLEST { 0.0 } else { y }
    }

    #[inline(always)]
    fn logarithm(self) -> f32 {
        let (e, ln_m) = split_logarithm(self);
        let y = e.mul_add(LN_2, ln_m);
        // Infinity and NaN stay what they are.
        let y = if self < f32::INFINITY { y } else { self };
        let y = if self < 0.0 { f32::NAN } else { y };
        if self == 0.0 { f32::NEG_INFINITY } else { y }
    }

    #[inline(always)]
    fn square_root(self) -> f32 {
        self.sqrt()
    }

    #[inline(always)]
    fn absolute(self) -> f32 {
        self.abs()
    }

    #[inline(always)]
    fn signum0(self) -> f32 {
        let below = if self < 0.0 { -1.0 } else { self.abs() * 0.0 };
        if self > 0.0 { 1.0 } else { below }
    }

    #[inline(always)]
    fn larger(self, other: f32) -> f32 {
        if self > other { self } else { other }
    }

    #[inline(always)]
    fn smaller(self, other: f32) -> f32 {
        if self < other { self } else { other }
    }

    #[inline(always)]
    fn fused(self, factor: f32, term: f32) -> f32 {
        self.mul_add(factor, term)
    }

    #[inline(always)]
    fn positive_power(self, r: f64) -> f32 {
        // x = 2^e m: x^r = 2^n e^g with n = round(r log2 x) and g = (r e - n) ln 2 + r ln m. The product r e is carried
        // in two parts (head + tail), so that the large part of the exponent costs no accuracy.
        let r_head = r as f32;
        let r_tail = (r - f64::from(r_head)) as f32;
        let (e, ln_m) = split_logarithm(self);
        let head = e * r_head;
        let tail = e.mul_add(r_tail, e.mul_add(r_head, -head));
        let rest = r_head * ln_m;
        let log2 = rest.mul_add(LOG2_E, head);
        let shifted = log2 + ROUND;
        let n = shifted - ROUND;
        let g = ((head - n) + tail).mul_add(LN_2, rest);
        // 2^n in two factors: n reaches from -151 to 128, beyond the exponents of one number.
        let whole = (shifted.to_bits().wrapping_sub(ROUND.to_bits())) as i32;
        let half = whole >> 1;
        let y = exp_near_0(g) * two_to(half) * two_to(whole.wrapping_sub(half));
        let y = if log2 > 128.5 { f32::INFINITY } else { y };
        let y = if log2 < -150.5 { 0.0 } else { y };
        // At infinity and NaN x^r behaves like x or 1/x.
        let limit = if r > 0.0 { self } else { 1.0 / self };
        let y = if self < f32::INFINITY { y } else { limit };
        if self <= 0.0 { 0.0 } else { y }
    }
}

/// Adding 1.5 * 2^23 rounds a small number to an integer and leaves it in the low bits.
const ROUND: f32 = 12_582_912.0;
/// 1 / ln 2.
const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 rounded to `f32`.
const LN_2: f32 = std::f32::consts::LN_2;
/// ln 2 - [`LN_2`].
const LN_2_LOW: f32 = -1.904_654_2e-9;
/// The largest x with a finite e^x.
const EXP_LARGEST: f32 = 88.722_83;
/// The smallest x with a normal e^x.
const EXP_SMALLEST: f32 = -87.336_54;

/// e^r for |r| <= ln(2)/2 as 1 + r + r^2 q(r), with q of degree 4 fitted to a relative error of 4e-9.
#[inline(always)]
fn exp_near_0(r: f32) -> f32 {
    let q = 0.001_381_454_4_f32.mul_add(r, 0.008_368_722);
    let q = q.mul_add(r, 0.041_668_39);
    let q = q.mul_add(r, 0.166_665_21);
    let q = q.mul_add(r, 0.499_999_94);
    q.mul_add(r * r, r) + 1.0
}

/// (e, ln m) with x = 2^e m and m in [2/3, 4/3), for a finite x > 0; anything for other x.
#[inline(always)]
fn split_logarithm(x: f32) -> (f32, f32) {
    // A denormal x is scaled by 2^24 first.
    let tiny = x < f32::MIN_POSITIVE;
    let bits = if tiny { x * 16_777_216.0 } else { x }.to_bits();
    let exponent = bits.wrapping_sub(0x3f2a_aaab) & 0xff80_0000;
    let m = f32::from_bits(bits.wrapping_sub(exponent));
    let e = ((exponent as i32) >> 23) as f32 - if tiny { 24.0 } else { 0.0 };
    (e, log_near_1(m))
}

/// ln m for m in [2/3, 4/3] as f - f^2/2 + f^3 q(f) with f = m - 1, q of degree 7 fitted to a relative error of 7e-9.
#[inline(always)]
fn log_near_1(m: f32) -> f32 {
    let f = m - 1.0;
    let s = f * f;
    // Two half-length chains in f^2: q = even + f odd.
    let even = 0.139_907_6_f32.mul_add(s, 0.140_043_9);
    let even = even.mul_add(s, 0.200_105_15);
    let odd = (-0.128_631_55_f32).mul_add(s, -0.121_911_444);
    let odd = odd.mul_add(s, -0.166_799_59);
    let odd = odd.mul_add(s, -0.249_998_1);
    let q = odd.mul_add(f, even.mul_add(s, 0.333_332_12));
    q.mul_add(f, -0.5).mul_add(s, f)
}

/// 2^n for n in -126..=127.
#[inline(always)]
fn two_to(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}
