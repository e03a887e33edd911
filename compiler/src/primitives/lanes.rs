//! Two registers full of numbers, side by side: what a fused loop loads, computes and stores at a time.
//!
//! Two, so that one computes while the other waits for its result. A row need not be a multiple of them: loads fill up
//! with 0, stores leave out what is too much. Nothing here calls a function: a call inside of a loop would cost every
//! register that is alive in it.

use super::functions::{self, MANTISSA_BITS, ONE_BITS, ROUND, ROUND_BITS, Single, TO_BIASED};
use super::smooth;
use pulp::Simd;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// No machine has more lanes than this; rows of a tile are padded to a multiple of it.
pub const MOST_LANES: usize = 32;

/// The bit of the sign.
const SIGN: u32 = 1 << 31;

/// Numbers that are worked on together.
#[derive(Clone, Copy)]
pub struct Lanes<S: Simd> {
    simd: S,
    x: [S::f32s; 2],
}

/// Which lanes count.
#[derive(Clone, Copy)]
pub struct Keep<S: Simd>([S::m32s; 2]);

/// How many there are.
#[inline(always)]
fn count<S: Simd>() -> usize {
    2 * S::F32_LANES
}

/// Where the lanes begin that cover `from..to`.
#[inline(always)]
pub fn starts<S: Simd>(_: S, from: usize, to: usize) -> impl Iterator<Item = usize> {
    (from / count::<S>() * count::<S>()..to).step_by(count::<S>())
}

/// Those of the lanes at `at` that lie in `from..to`.
#[inline(always)]
pub fn within<S: Simd>(simd: S, at: usize, from: usize, to: usize) -> Keep<S> {
    // Far more often than not it is all of them.
    if at >= from && at + count::<S>() <= to {
        let all = simd.mask_between_m32s(0, S::F32_LANES as u32).mask();
        return Keep([all, all]);
    }
    Keep([at, at + S::F32_LANES].map(|at| {
        let (first, last) = (from.saturating_sub(at), to.saturating_sub(at).min(S::F32_LANES));
        // The library's tables have no entry for what is empty and lies at the end.
        let (first, last) = if first < last { (first, last) } else { (0, 0) };
        simd.mask_between_m32s(first as u32, last as u32).mask()
    }))
}

impl<S: Simd> Lanes<S> {
    /// x in every lane.
    #[inline(always)]
    pub fn all(simd: S, x: f32) -> Self {
        Lanes { simd, x: [simd.splat_f32s(x); 2] }
    }

    /// The numbers of a row from `at` on.
    #[inline(always)]
    pub fn load(simd: S, row: &[f32], at: usize) -> Self {
        let whole = |lanes: &[f32]| {
            let registers = S::as_simd_f32s(lanes).0;
            Lanes { simd, x: [registers[0], registers[1]] }
        };
        match row.get(at..at + count::<S>()) {
            Some(lanes) => whole(lanes),
            None => {
                let (first, second) = row.get(at..).unwrap_or_default().split_at(ends(row.len(), at, S::F32_LANES));
                Lanes { simd, x: [simd.partial_load_f32s(first), simd.partial_load_f32s(second)] }
            }
        }
    }

    /// Writes the numbers to a row from `at` on.
    #[inline(always)]
    pub fn store(self, row: &mut [f32], at: usize) {
        let whole = |lanes: &mut [f32]| {
            let registers = S::as_mut_simd_f32s(lanes).0;
            registers[0] = self.x[0];
            registers[1] = self.x[1];
        };
        match row.get_mut(at..at + count::<S>()) {
            Some(lanes) => whole(lanes),
            None => {
                let middle = ends(row.len(), at, S::F32_LANES);
                let (first, second) = row.get_mut(at..).unwrap_or_default().split_at_mut(middle);
                self.simd.partial_store_f32s(first, self.x[0]);
                self.simd.partial_store_f32s(second, self.x[1]);
            }
        }
    }

    /// Adds the numbers to a row from `at` on.
    #[inline(always)]
    pub fn add_to(self, row: &mut [f32], at: usize) {
        (Self::load(self.simd, row, at) + self).store(row, at);
    }

    /// self + a b, rounded once.
    #[inline(always)]
    pub fn plus(self, a: Self, b: Self) -> Self {
        a.times_plus(b, self)
    }

    /// The same operation on both registers.
    #[inline(always)]
    fn both(self, f: impl Fn(S, S::f32s) -> S::f32s) -> Self {
        Lanes { x: [f(self.simd, self.x[0]), f(self.simd, self.x[1])], ..self }
    }

    /// The same operation on both registers and those of `other`.
    #[inline(always)]
    fn with(self, other: Self, f: impl Fn(S, S::f32s, S::f32s) -> S::f32s) -> Self {
        Lanes { x: [f(self.simd, self.x[0], other.x[0]), f(self.simd, self.x[1], other.x[1])], ..self }
    }

    /// `yes` where the mask is set, else `no`.
    #[inline(always)]
    fn choose(self, is_so: [S::m32s; 2], yes: Self, no: Self) -> Self {
        let simd = self.simd;
        let x = [simd.select_f32s(is_so[0], yes.x[0], no.x[0]), simd.select_f32s(is_so[1], yes.x[1], no.x[1])];
        Lanes { x, ..self }
    }

    /// 0 where a lane does not count.
    #[inline(always)]
    pub fn only(self, keep: Keep<S>) -> Self {
        self.or(keep, 0.0)
    }

    /// `other` where a lane does not count.
    #[inline(always)]
    pub fn or(self, keep: Keep<S>, other: f32) -> Self {
        self.choose(keep.0, self, self.like(other))
    }

    /// The sum of all lanes.
    #[inline(always)]
    pub fn sum(self) -> f32 {
        self.simd.reduce_sum_f32s(self.simd.add_f32s(self.x[0], self.x[1]))
    }

    /// The largest of all lanes.
    #[inline(always)]
    pub fn largest(self) -> f32 {
        self.simd.reduce_max_f32s(self.simd.max_f32s(self.x[0], self.x[1]))
    }

    /// The larger of two; a NaN `self` is dropped, a NaN `other` is kept.
    #[inline(always)]
    pub fn larger(self, other: Self) -> Self {
        other.below(self, self, other)
    }

    /// max(x, 0).
    #[inline(always)]
    pub fn positive(self) -> Self {
        self.larger(self.like(0.0))
    }

    /// |x|.
    #[inline(always)]
    pub fn absolute(self) -> Self {
        self.both(|simd, x| {
            simd.transmute_f32s_u32s(simd.and_u32s(simd.transmute_u32s_f32s(x), simd.splat_u32s(!SIGN)))
        })
    }

    /// -1, 0 or 1 by the sign of x: 0 at both zeros, NaN at NaN.
    #[inline(always)]
    pub fn signum0(self) -> Self {
        // 1 with the sign of x, but where x is 0 or no number.
        let signed = self.both(|simd, x| {
            let sign = simd.and_u32s(simd.transmute_u32s_f32s(x), simd.splat_u32s(SIGN));
            simd.transmute_f32s_u32s(simd.or_u32s(sign, simd.splat_u32s(ONE_BITS)))
        });
        self.like(0.0).below(self.absolute(), signed, self)
    }

    /// 1/x, and 0 at 0.
    #[inline(always)]
    pub fn reciprocal(self) -> Self {
        functions::power(self, -1.0)
    }

    /// The square root, and 0 below 0.
    #[inline(always)]
    pub fn square_root(self) -> Self {
        self.positive().root()
    }

    /// e^x.
    #[inline(always)]
    pub fn exponential(self) -> Self {
        functions::exponential(self)
    }

    /// ln x.
    #[inline(always)]
    pub fn logarithm(self) -> Self {
        functions::logarithm(self)
    }

    /// 1 / (1 + e^-x).
    #[inline(always)]
    pub fn sigmoid(self) -> Self {
        smooth::sigmoid(self)
    }

    /// log(1 + e^x).
    #[inline(always)]
    pub fn softplus(self) -> Self {
        smooth::softplus(self)
    }

    /// The hyperbolic tangent.
    #[inline(always)]
    pub fn tangent(self) -> Self {
        smooth::tangent(self)
    }

    /// 1 - tanh^2 x.
    #[inline(always)]
    pub fn tangent_slope(self) -> Self {
        smooth::tangent_slope(self)
    }

    /// log cosh x.
    #[inline(always)]
    pub fn log_cosh(self) -> Self {
        smooth::log_cosh(self)
    }

    /// log(1 + x).
    #[inline(always)]
    pub fn log_1_plus(self) -> Self {
        smooth::log_1_plus(self)
    }

    /// e^x - 1.
    #[inline(always)]
    pub fn exp_minus_1(self) -> Self {
        smooth::exp_minus_1(self)
    }

    /// The total power x^r.
    #[inline(always)]
    pub fn power(self, r: f64) -> Self {
        functions::power(self, r)
    }

    /// `yes` where self <= limit, else `no`.
    #[inline(always)]
    pub fn select(self, limit: Self, yes: Self, no: Self) -> Self {
        self.at_most(limit, yes, no)
    }
}

/// Where the first register ends in what is left of a row of `length` from `at` on.
#[inline(always)]
fn ends(length: usize, at: usize, lanes: usize) -> usize {
    length.saturating_sub(at).min(lanes)
}

impl<S: Simd> Single for Lanes<S> {
    #[inline(always)]
    fn like(self, x: f32) -> Self {
        Lanes::all(self.simd, x)
    }

    #[inline(always)]
    fn times_plus(self, factor: Self, term: Self) -> Self {
        let (simd, [a, b], [c, d]) = (self.simd, factor.x, term.x);
        Lanes { x: [simd.mul_add_f32s(self.x[0], a, c), simd.mul_add_f32s(self.x[1], b, d)], ..self }
    }

    #[inline(always)]
    fn at_most(self, limit: Self, yes: Self, no: Self) -> Self {
        let is_so = |i: usize| self.simd.less_than_or_equal_f32s(self.x[i], limit.x[i]);
        self.choose([is_so(0), is_so(1)], yes, no)
    }

    #[inline(always)]
    fn below(self, limit: Self, yes: Self, no: Self) -> Self {
        let is_so = |i: usize| self.simd.less_than_f32s(self.x[i], limit.x[i]);
        self.choose([is_so(0), is_so(1)], yes, no)
    }

    #[inline(always)]
    fn root(self) -> Self {
        self.both(|simd, x| simd.sqrt_f32s(x))
    }

    #[inline(always)]
    fn raised(self, shifted: Self) -> Self {
        self.with(shifted, |simd, x, shifted| {
            let bits = simd.splat_u32s(MANTISSA_BITS);
            let exponent = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), bits);
            simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(x), exponent))
        })
    }

    #[inline(always)]
    fn split(self) -> (Self, Self) {
        let biased = |simd: S, x: S::f32s| {
            let bits = simd.add_u32s(simd.transmute_u32s_f32s(x), simd.splat_u32s(TO_BIASED));
            simd.wrapping_dyn_shr_u32s(bits, simd.splat_u32s(MANTISSA_BITS))
        };
        let e =
            self.both(|simd, x| simd.transmute_f32s_u32s(simd.or_u32s(biased(simd, x), simd.splat_u32s(ROUND_BITS))));
        let m = self.both(|simd, x| {
            let exponent = simd.wrapping_dyn_shl_u32s(biased(simd, x), simd.splat_u32s(MANTISSA_BITS));
            let bits = simd.add_u32s(simd.transmute_u32s_f32s(x), simd.splat_u32s(ONE_BITS));
            simd.transmute_f32s_u32s(simd.sub_u32s(bits, exponent))
        });
        (e - self.like(ROUND + 127.0), m)
    }
}

/// An operator between lanes, and between lanes and one number for all of them.
macro_rules! operator {
    ($name:ident, $method:ident, $of_simd:ident) => {
        impl<S: Simd> $name for Lanes<S> {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                self.with(other, |simd, x, y| simd.$of_simd(x, y))
            }
        }

        impl<S: Simd> $name<f32> for Lanes<S> {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: f32) -> Self {
                self.$method(self.like(other))
            }
        }

        impl<S: Simd> $name<Lanes<S>> for f32 {
            type Output = Lanes<S>;

            #[inline(always)]
            fn $method(self, other: Lanes<S>) -> Lanes<S> {
                other.like(self).$method(other)
            }
        }
    };
}

operator!(Add, add, add_f32s);
operator!(Sub, sub, sub_f32s);
operator!(Mul, mul, mul_f32s);
operator!(Div, div, div_f32s);

impl<S: Simd> Neg for Lanes<S> {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        self.both(|simd, x| simd.transmute_f32s_u32s(simd.xor_u32s(simd.transmute_u32s_f32s(x), simd.splat_u32s(SIGN))))
    }
}

impl<S: Simd> AddAssign for Lanes<S> {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
