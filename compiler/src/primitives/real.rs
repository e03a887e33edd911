//! The arithmetic of one kernel element, so that every kernel is written once for `f32` and `f64`.
//!
//! The method names differ from those of the standard library on purpose: inherent methods win on a concrete `f32`, so
//! a trait method called `exp` would silently become a call to the C library and stop the loop from vectorizing.

use super::{functions, smooth};
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

    /// 1 / (1 + e^-x). For `f32`: within 3 ulp where the result is normal, as all of the following.
    fn sigmoid(self) -> Self;

    /// log(1 + e^x). For `f32`: within 3 ulp.
    fn softplus(self) -> Self;

    /// The hyperbolic tangent. For `f32`: within 4 ulp.
    fn tangent(self) -> Self;

    /// 1 - tanh^2 x. For `f32`: within 5 ulp.
    fn tangent_slope(self) -> Self;

    /// log cosh x. For `f32`: within 6 ulp.
    fn log_cosh(self) -> Self;

    /// log(1 + x). For `f32`: within 3 ulp; -infinity at -1, NaN below.
    fn log_1_plus(self) -> Self;

    /// e^x - 1. For `f32`: within 3 ulp.
    fn exp_minus_1(self) -> Self;

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
    fn sigmoid(self) -> f64 {
        let u = (-self.abs()).exp();
        if self < 0.0 { u / (1.0 + u) } else { 1.0 / (1.0 + u) }
    }

    #[inline(always)]
    fn softplus(self) -> f64 {
        let positive = if self <= 0.0 { 0.0 } else { self };
        positive + (-self.abs()).exp().ln_1p()
    }

    #[inline(always)]
    fn tangent(self) -> f64 {
        self.tanh()
    }

    #[inline(always)]
    fn tangent_slope(self) -> f64 {
        let u = (-2.0 * self.abs()).exp();
        4.0 * u / ((1.0 + u) * (1.0 + u))
    }

    #[inline(always)]
    fn log_cosh(self) -> f64 {
        // The two forms of the same in `smooth`.
        let size = self.abs();
        if size <= 1.0 {
            let k = size.exp_m1();
            (0.5 * k * (k / (1.0 + k))).ln_1p()
        } else {
            size + (0.5 * (-2.0 * size).exp_m1()).ln_1p()
        }
    }

    #[inline(always)]
    fn log_1_plus(self) -> f64 {
        self.ln_1p()
    }

    #[inline(always)]
    fn exp_minus_1(self) -> f64 {
        self.exp_m1()
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
        functions::exponential(self)
    }

    #[inline(always)]
    fn logarithm(self) -> f32 {
        functions::logarithm(self)
    }

    #[inline(always)]
    fn sigmoid(self) -> f32 {
        smooth::sigmoid(self)
    }

    #[inline(always)]
    fn softplus(self) -> f32 {
        smooth::softplus(self)
    }

    #[inline(always)]
    fn tangent(self) -> f32 {
        smooth::tangent(self)
    }

    #[inline(always)]
    fn tangent_slope(self) -> f32 {
        smooth::tangent_slope(self)
    }

    #[inline(always)]
    fn log_cosh(self) -> f32 {
        smooth::log_cosh(self)
    }

    #[inline(always)]
    fn log_1_plus(self) -> f32 {
        smooth::log_1_plus(self)
    }

    #[inline(always)]
    fn exp_minus_1(self) -> f32 {
        smooth::exp_minus_1(self)
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
        functions::positive_power(self, r)
    }
}
