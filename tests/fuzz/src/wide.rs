//! Numbers with as many digits as double precision has and exponents without end: m · 2^e.
//!
//! The evaluator computes formulas as they are written, and exp(10⁴)/(1 + exp(10⁴)) is a number near 1. With these, it
//! is one on the tape too, and the evaluator needs none of the tricks it is there to check.

use std::cmp::Ordering;
use std::ops::{Add, Mul, Neg};

/// m · 2^e. The exponent is 0 for as long as m is of moderate size, so that ordinary numbers are ordinary work.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Wide {
    m: f64,
    e: i64,
}

/// |m| stays between these where it is not 0.
const SMALLEST: f64 = 1e-60;
const LARGEST: f64 = 1e60;

/// 2^e for a moderate e.
fn power_of_two(e: i64) -> f64 {
    (e as f64).exp2()
}

impl Wide {
    pub const ZERO: Wide = Wide { m: 0.0, e: 0 };

    pub fn of(x: f64) -> Wide {
        Wide { m: x, e: 0 }.settled()
    }

    /// The nearest number of double precision, which may be 0 or infinite.
    pub fn value(self) -> f64 {
        // In two steps, since 2^e may overflow where the product does not.
        let half = (self.e / 2).clamp(-2000, 2000);
        let rest = (self.e - self.e / 2).clamp(-2000, 2000);
        self.m * power_of_two(half) * power_of_two(rest)
    }

    pub fn is_nan(self) -> bool {
        self.m.is_nan()
    }

    pub fn is_finite(self) -> bool {
        self.m.is_finite()
    }

    pub fn is_zero(self) -> bool {
        self.m == 0.0
    }

    pub fn abs(self) -> Wide {
        Wide { m: self.m.abs(), e: self.e }
    }

    /// −1, 0 or 1.
    pub fn sign(self) -> f64 {
        if self.m == 0.0 { 0.0 } else { self.m.signum() }
    }

    fn settled(self) -> Wide {
        let Wide { m, e } = self;
        let size = m.abs();
        if size == 0.0 || !size.is_finite() {
            return Wide { m, e: 0 };
        }
        if e == 0 && (SMALLEST..=LARGEST).contains(&size) {
            return self;
        }
        let shift = size.log2().floor() as i64;
        let whole = e.saturating_add(shift);
        // Small numbers of double precision have fewer digits, and 2^−shift may be too large for one step.
        let m = m * power_of_two(-shift / 2) * power_of_two(-shift - (-shift / 2));
        match whole.abs() < 200 {
            true => Wide { m: m * power_of_two(whole), e: 0 },
            false => Wide { m, e: whole },
        }
    }

    /// x^r with 0^r = 0 for r ≠ 0.
    pub fn power(self, r: f64) -> Wide {
        if r == 0.0 {
            return Wide::of(1.0);
        }
        if self.m == 0.0 {
            return Wide::ZERO;
        }
        let plain = self.m.powf(r);
        if self.e == 0 && (plain.is_nan() || (SMALLEST..=LARGEST).contains(&plain.abs())) {
            return Wide { m: plain, e: 0 };
        }
        // A negative base has whole exponents.
        let sign = if self.m < 0.0 { (-1.0f64).powf(r) } else { 1.0 };
        // The two parts of the exponent keep their own digits.
        let (own, shared) = (r * self.m.abs().log2(), r * self.e as f64);
        let whole = shared.floor() + own.floor();
        let rest = (own - own.floor()) + (shared - shared.floor());
        Wide { m: sign * rest.exp2(), e: whole as i64 }.settled()
    }

    pub fn exp(self) -> Wide {
        let x = self.value();
        if x.abs() < 100.0 || x.is_nan() {
            return Wide { m: x.exp(), e: 0 };
        }
        let whole = (x / std::f64::consts::LN_2).floor();
        if whole.abs() > 1e17 {
            return if x > 0.0 { Wide { m: f64::INFINITY, e: 0 } } else { Wide::ZERO };
        }
        // x − whole·log 2, rounded once; the second part is what double precision lacks of log 2.
        const MORE_OF_LN_2: f64 = 2.319_046_813_846_299_6e-17;
        let rest = (-whole).mul_add(std::f64::consts::LN_2, x) - whole * MORE_OF_LN_2;
        Wide { m: rest.exp(), e: whole as i64 }.settled()
    }

    pub fn ln(self) -> Wide {
        Wide::of(self.m.ln() + self.e as f64 * std::f64::consts::LN_2)
    }
}

impl Neg for Wide {
    type Output = Wide;
    fn neg(self) -> Wide {
        Wide { m: -self.m, e: self.e }
    }
}

impl Mul for Wide {
    type Output = Wide;
    fn mul(self, other: Wide) -> Wide {
        Wide { m: self.m * other.m, e: self.e.saturating_add(other.e) }.settled()
    }
}

impl Add for Wide {
    type Output = Wide;
    fn add(self, other: Wide) -> Wide {
        if self.e == other.e {
            return Wide { m: self.m + other.m, e: self.e }.settled();
        }
        let (large, small) = if self.e > other.e { (self, other) } else { (other, self) };
        if large.is_zero() {
            return small;
        }
        let gap = large.e.saturating_sub(small.e);
        let small = if gap > 700 { 0.0 } else { small.m * power_of_two(-gap) };
        Wide { m: large.m + small, e: large.e }.settled()
    }
}

impl PartialOrd for Wide {
    fn partial_cmp(&self, other: &Wide) -> Option<Ordering> {
        let difference = *self + -*other;
        if difference.is_nan() && !self.is_nan() && !other.is_nan() {
            return self.m.partial_cmp(&other.m);
        }
        difference.m.partial_cmp(&0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(x: f64, y: f64) {
        assert!((x - y).abs() <= 1e-12 * y.abs(), "{x} and {y}");
    }

    #[test]
    fn ordinary_numbers_are_as_they_are() {
        let (x, y) = (Wide::of(1.25), Wide::of(-3.5));
        assert_eq!((x + y).value(), -2.25);
        assert_eq!((x * y).value(), -4.375);
        assert_eq!(x.power(3.0).value(), 1.25f64.powf(3.0));
        assert_eq!(x.exp().value(), 1.25f64.exp());
        assert_eq!(x.ln().value(), 1.25f64.ln());
        assert!(y < x && x <= x);
        for x in [0.0, 1e-300, -1e300, 5e-324, f64::MAX] {
            near(Wide::of(x).value(), x);
        }
    }

    #[test]
    fn large_exponents_meet() {
        for x in [800.0, 1e4, 1e8] {
            let one = Wide::of(1.0);
            let exp = Wide::of(x).exp();
            // eˣ/(1 + eˣ), and log(1 + eˣ).
            near((exp * (one + exp).power(-1.0)).value(), 1.0);
            near((one + exp).ln().value(), x);
            near((exp * Wide::of(-x).exp()).value(), 1.0);
            near((exp.power(0.5) * exp.power(-0.25) * exp.power(-0.25)).value(), 1.0);
            assert!(exp > one && -exp < one && Wide::of(-x).exp() < one);
            assert_eq!((exp + -exp).value(), 0.0);
            assert_eq!(exp.value(), f64::INFINITY);
        }
    }

    #[test]
    fn small_and_large_add_up() {
        let tiny = Wide::of(-1000.0).exp();
        near(((tiny + tiny) * Wide::of(1000.0).exp()).value(), 2.0);
        near((tiny + Wide::of(3.0)).value(), 3.0);
        near((Wide::of(1e-50) + Wide::of(90.0).exp()).value(), 90f64.exp());
    }
}
