//! e^x, ln x and x^r in single precision, written once: for one number and for as many as a register holds.
//!
//! They are straight lines of arithmetic, shifts of bits and selects, and lean on fused multiply-add: compile them where
//! FMA is enabled (without it they are still correct, but slow).

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number in single precision, or several side by side.
pub trait Single:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// x in every lane.
    fn like(self, x: f32) -> Self;

    /// self * factor + term, rounded once.
    fn times_plus(self, factor: Self, term: Self) -> Self;

    /// `yes` where self <= limit, else `no`.
    fn at_most(self, limit: Self, yes: Self, no: Self) -> Self;

    /// `yes` where self < limit, else `no`.
    fn below(self, limit: Self, yes: Self, no: Self) -> Self;

    /// The square root, correctly rounded; NaN below 0.
    fn root(self) -> Self;

    /// 2^n self, for n in the low bits of `shifted` = n + [`ROUND`].
    fn raised(self, shifted: Self) -> Self;

    /// (e, m) with self = 2^e m and m in [2/3, 4/3), for a normal number above 0; anything for others.
    fn split(self) -> (Self, Self);
}

impl Single for f32 {
    #[inline(always)]
    fn like(self, x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn times_plus(self, factor: f32, term: f32) -> f32 {
        self.mul_add(factor, term)
    }

    #[inline(always)]
    fn at_most(self, limit: f32, yes: f32, no: f32) -> f32 {
        if self <= limit { yes } else { no }
    }

    #[inline(always)]
    fn below(self, limit: f32, yes: f32, no: f32) -> f32 {
        if self < limit { yes } else { no }
    }

    #[inline(always)]
    fn root(self) -> f32 {
        self.sqrt()
    }

    #[inline(always)]
    fn raised(self, shifted: f32) -> f32 {
        f32::from_bits(self.to_bits().wrapping_add(shifted.to_bits() << MANTISSA_BITS))
    }

    #[inline(always)]
    fn split(self) -> (f32, f32) {
        let bits = self.to_bits();
        let biased = bits.wrapping_add(TO_BIASED) >> MANTISSA_BITS;
        let m = f32::from_bits(bits.wrapping_add(ONE_BITS).wrapping_sub(biased << MANTISSA_BITS));
        (f32::from_bits(biased | ROUND_BITS) - (ROUND + 127.0), m)
    }
}

/// Adding 1.5 * 2^23 rounds a small number to an integer and leaves it in the low bits.
pub const ROUND: f32 = 12_582_912.0;
/// The bits of [`ROUND`].
pub const ROUND_BITS: u32 = 0x4b40_0000;
/// The bits of 1.
pub const ONE_BITS: u32 = 0x3f80_0000;
/// Behind these bits lies the exponent.
pub const MANTISSA_BITS: u32 = 23;
/// Added to the bits of x, it leaves e + 127 in the exponent, where x = 2^e m and m in [2/3, 4/3).
pub const TO_BIASED: u32 = ONE_BITS.wrapping_sub(0x3f2a_aaab);

/// 1 / ln 2.
pub const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 rounded to `f32`.
pub const LN_2: f32 = std::f32::consts::LN_2;
/// ln 2 - [`LN_2`].
pub const LN_2_LOW: f32 = -1.904_654_2e-9;
/// The largest x with a finite e^x.
const EXP_LARGEST: f32 = 88.722_83;
/// The smallest x with a normal e^x.
const EXP_SMALLEST: f32 = -87.336_54;

/// e^x: within 1.01 ulp where the result is normal, 0 below ln 2^-126 = -87.34 (denormal results are flushed), infinity
/// above 88.72; NaN stays NaN.
#[inline(always)]
pub fn exponential<T: Single>(x: T) -> T {
    // x = n ln 2 + r with |r| <= ln(2)/2, so e^x = 2^n e^r; n is added to the exponent bits of e^r.
    let shifted = x.times_plus(x.like(LOG2_E), x.like(ROUND));
    let n = shifted - x.like(ROUND);
    let r = n.times_plus(x.like(-LN_2_LOW), n.times_plus(x.like(-LN_2), x));
    let y = exp_near_0(r).raised(shifted);
    // Outside: infinity + x is infinite for a large x and NaN for NaN.
    let y = x.at_most(x.like(EXP_LARGEST), y, x.like(f32::INFINITY) + x);
    x.below(x.like(EXP_SMALLEST), x.like(0.0), y)
}

/// ln x: within 1 ulp, denormal arguments included; ln 0 = -infinity, NaN below 0.
#[inline(always)]
pub fn logarithm<T: Single>(x: T) -> T {
    let (e, ln_m) = split_logarithm(x);
    let y = e.times_plus(x.like(LN_2), ln_m);
    // Infinity and NaN stay what they are.
    let y = x.below(x.like(f32::INFINITY), y, x);
    let y = x.below(x.like(0.0), x.like(f32::NAN), y);
    // Zero, of either sign.
    absolute(x).at_most(x.like(0.0), x.like(f32::NEG_INFINITY), y)
}

/// |x|.
#[inline(always)]
pub fn absolute<T: Single>(x: T) -> T {
    // -0 becomes 0 as well.
    x.at_most(x.like(0.0), x.like(0.0) - x, x)
}

/// x^r for x > 0 and any finite r that is not 0, without a branch on x: 0 at and below 0, NaN at NaN.
///
/// The relative error stays below 4e-7 for |r| <= 4 and below 1e-5 wherever |r ln x| < 80; results below 2^-126 lose
/// digits and then become 0.
#[inline(always)]
pub fn positive_power<T: Single>(x: T, r: f64) -> T {
    // x = 2^e m: x^r = 2^n e^g with n = round(r log2 x) and g = (r e - n) ln 2 + r ln m. The product r e is carried in
    // two parts (head + tail), so that the large part of the exponent costs no accuracy.
    let (r_head, r_tail) = (x.like(r as f32), x.like((r - f64::from(r as f32)) as f32));
    let (e, ln_m) = split_logarithm(x);
    let head = e * r_head;
    let tail = e.times_plus(r_tail, e.times_plus(r_head, -head));
    let rest = r_head * ln_m;
    let log2 = rest.times_plus(x.like(LOG2_E), head);
    // Far outside, where the result is 0 or infinite anyhow, n must still be an exponent.
    let bounded = log2.below(x.like(-160.0), x.like(-160.0), log2.at_most(x.like(160.0), log2, x.like(160.0)));
    let n = (bounded + x.like(ROUND)) - x.like(ROUND);
    let g = ((head - n) + tail).times_plus(x.like(LN_2), rest);
    // 2^n in two factors: n reaches from -151 to 128, beyond the exponents of one number.
    let shifted_half = n.times_plus(x.like(0.5), x.like(ROUND));
    let half = shifted_half - x.like(ROUND);
    let one = x.like(1.0);
    let y = exp_near_0(g) * one.raised(shifted_half) * one.raised((n - half) + x.like(ROUND));
    let y = log2.at_most(x.like(128.5), y, x.like(f32::INFINITY));
    let y = log2.below(x.like(-150.5), x.like(0.0), y);
    // At infinity and NaN x^r behaves like x or 1/x.
    let limit = if r > 0.0 { x } else { one / x };
    let y = x.below(x.like(f32::INFINITY), y, limit);
    x.at_most(x.like(0.0), x.like(0.0), y)
}

/// The total power x^r for a finite r: 0^r = 0 for every r != 0, x^0 = 1, and a fractional power of a negative number
/// is 0. An integer power of a negative number keeps its sign.
///
/// Integers and half-integers up to 64 are products (and one square root), other exponents are [`positive_power`]. The
/// relative error stays below 4e-7 for |r| <= 4, below 4e-6 for the products, and below 1e-5 for the rest wherever
/// |r ln x| < 80.
#[inline(always)]
pub fn power<T: Single>(x: T, r: f64) -> T {
    let (zero, one) = (x.like(0.0), x.like(1.0));
    let is_whole = r == r.trunc();
    if r == 0.0 {
        one
    } else if is_whole && r.abs() <= 64.0 {
        let y = product(x, r.abs() as u32);
        if r > 0.0 { y } else { absolute(x).at_most(zero, zero, one / y) }
    } else if 2.0 * r == (2.0 * r).trunc() && r.abs() <= 64.0 {
        // x^(n + 1/2) = x^n sqrt(x)
        let y = product(x, r.abs() as u32) * x.root();
        x.at_most(zero, zero, if r < 0.0 { one / y } else { y })
    } else if is_whole {
        // x^r = (sign x)^r |x|^r
        let y = positive_power(absolute(x), r);
        if r % 2.0 == 0.0 { y } else { x.below(zero, -y, y) }
    } else {
        positive_power(x, r)
    }
}

/// x^n by repeated squaring, one rounding per product.
#[inline(always)]
fn product<T: Single>(x: T, n: u32) -> T {
    let (mut product, mut square) = (None, x);
    for bit in 0..7 {
        if (n >> bit) & 1 == 1 {
            product = Some(product.map_or(square, |p: T| p * square));
        }
        if n >> bit <= 1 {
            break;
        }
        square = square * square;
    }
    product.unwrap_or(x.like(1.0))
}

/// e^r for |r| <= ln(2)/2.
#[inline(always)]
fn exp_near_0<T: Single>(r: T) -> T {
    exp_near_0_minus_1(r) + r.like(1.0)
}

/// e^r - 1 for |r| <= ln(2)/2 as r + r^2 q(r), with q of degree 4 fitted to an error of 4e-9 e^r.
#[inline(always)]
pub fn exp_near_0_minus_1<T: Single>(r: T) -> T {
    let q = r.like(0.001_381_454_4).times_plus(r, r.like(0.008_368_722));
    let q = q.times_plus(r, r.like(0.041_668_39));
    let q = q.times_plus(r, r.like(0.166_665_21));
    let q = q.times_plus(r, r.like(0.499_999_94));
    q.times_plus(r * r, r)
}

/// (e, ln m) with x = 2^e m and m in [2/3, 4/3), for a finite x > 0; anything for other x.
#[inline(always)]
fn split_logarithm<T: Single>(x: T) -> (T, T) {
    // A denormal x is scaled by 2^24 first.
    let smallest = x.like(f32::MIN_POSITIVE);
    let (e, m) = x.below(smallest, x * x.like(16_777_216.0), x).split();
    (x.below(smallest, e - x.like(24.0), e), log_near_1(m))
}

/// ln m for m in [2/3, 4/3] as f - f^2/2 + f^3 q(f) with f = m - 1, q of degree 7 fitted to a relative error of 7e-9.
#[inline(always)]
fn log_near_1<T: Single>(m: T) -> T {
    let f = m - m.like(1.0);
    let s = f * f;
    // Two half-length chains in f^2: q = even + f odd.
    let even = m.like(0.139_907_6).times_plus(s, m.like(0.140_043_9));
    let even = even.times_plus(s, m.like(0.200_105_15));
    let odd = m.like(-0.128_631_55).times_plus(s, m.like(-0.121_911_444));
    let odd = odd.times_plus(s, m.like(-0.166_799_59));
    let odd = odd.times_plus(s, m.like(-0.249_998_1));
    let q = odd.times_plus(f, even.times_plus(s, m.like(0.333_332_12)));
    q.times_plus(f, m.like(-0.5)).times_plus(s, f)
}
