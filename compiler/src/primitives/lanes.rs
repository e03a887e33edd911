//! Two registers full of numbers, side by side: what a fused loop loads, computes and stores at a time.
//!
//! Two, so that one computes while the other waits for its result. A row need not be a multiple of them: loads fill up
//! with 0, stores leave out what is too much. In single precision nothing here calls a function: a call inside of a loop
//! would cost every register that is alive in it.

use super::functions::{self, MANTISSA_BITS, ONE_BITS, ROUND, ROUND_BITS, Single, TO_BIASED};
use super::real::Real;
use super::{double, smooth};
use pulp::Simd;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// No machine has more lanes than this; rows of a tile are padded to a multiple of it.
pub const MOST_LANES: usize = 32;

/// A kind of numbers that registers hold several of.
pub trait Number: Real {
    type Register<S: Simd>: Copy;
    type Mask<S: Simd>: Copy;

    /// How many a register holds.
    fn count<S: Simd>() -> usize;
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Register<S>;
    /// A row as registers, as far as it fills them.
    fn registers<S: Simd>(row: &[Self]) -> &[Self::Register<S>];
    fn registers_mut<S: Simd>(row: &mut [Self]) -> &mut [Self::Register<S>];
    /// What there is of a register, filled up with 0.
    fn load_part<S: Simd>(simd: S, part: &[Self]) -> Self::Register<S>;
    fn store_part<S: Simd>(simd: S, part: &mut [Self], x: Self::Register<S>);
    /// The lanes in `from..to`.
    fn between<S: Simd>(simd: S, from: usize, to: usize) -> Self::Mask<S>;

    fn plus<S: Simd>(simd: S, x: Self::Register<S>, y: Self::Register<S>) -> Self::Register<S>;
    fn minus<S: Simd>(simd: S, x: Self::Register<S>, y: Self::Register<S>) -> Self::Register<S>;
    fn times<S: Simd>(simd: S, x: Self::Register<S>, y: Self::Register<S>) -> Self::Register<S>;
    fn over<S: Simd>(simd: S, x: Self::Register<S>, y: Self::Register<S>) -> Self::Register<S>;
    fn larger_of<S: Simd>(simd: S, x: Self::Register<S>, y: Self::Register<S>) -> Self::Register<S>;
    /// x y + z, rounded once.
    fn mul_add<S: Simd>(simd: S, x: Self::Register<S>, y: Self::Register<S>, z: Self::Register<S>)
    -> Self::Register<S>;
    fn root<S: Simd>(simd: S, x: Self::Register<S>) -> Self::Register<S>;
    fn negative<S: Simd>(simd: S, x: Self::Register<S>) -> Self::Register<S>;
    fn size<S: Simd>(simd: S, x: Self::Register<S>) -> Self::Register<S>;
    /// 1 with the sign of x.
    fn signed_one<S: Simd>(simd: S, x: Self::Register<S>) -> Self::Register<S>;
    fn less<S: Simd>(simd: S, x: Self::Register<S>, y: Self::Register<S>) -> Self::Mask<S>;
    fn at_most<S: Simd>(simd: S, x: Self::Register<S>, y: Self::Register<S>) -> Self::Mask<S>;
    fn choose<S: Simd>(
        simd: S,
        mask: Self::Mask<S>,
        yes: Self::Register<S>,
        no: Self::Register<S>,
    ) -> Self::Register<S>;
    fn sum<S: Simd>(simd: S, x: Self::Register<S>) -> Self;
    fn largest<S: Simd>(simd: S, x: Self::Register<S>) -> Self;

    // Functions, with the names and the meaning they have in `Real`.
    fn exponentials<S: Simd>(x: Lanes<S, Self>) -> Lanes<S, Self>;
    fn logarithms<S: Simd>(x: Lanes<S, Self>) -> Lanes<S, Self>;
    fn sigmoids<S: Simd>(x: Lanes<S, Self>) -> Lanes<S, Self>;
    fn softpluses<S: Simd>(x: Lanes<S, Self>) -> Lanes<S, Self>;
    fn tangents<S: Simd>(x: Lanes<S, Self>) -> Lanes<S, Self>;
    fn tangent_slopes<S: Simd>(x: Lanes<S, Self>) -> Lanes<S, Self>;
    fn log_coshs<S: Simd>(x: Lanes<S, Self>) -> Lanes<S, Self>;
    fn logs_1_plus<S: Simd>(x: Lanes<S, Self>) -> Lanes<S, Self>;
    fn exps_minus_1<S: Simd>(x: Lanes<S, Self>) -> Lanes<S, Self>;
    fn total_powers<S: Simd>(x: Lanes<S, Self>, r: f64) -> Lanes<S, Self>;
}

/// Numbers that are worked on together.
#[derive(Clone, Copy)]
pub struct Lanes<S: Simd, N: Number> {
    simd: S,
    x: [N::Register<S>; 2],
}

/// Which lanes count.
#[derive(Clone, Copy)]
pub struct Keep<S: Simd, N: Number>([N::Mask<S>; 2]);

impl<S: Simd, N: Number> Lanes<S, N> {
    /// How many there are.
    #[inline(always)]
    fn count() -> usize {
        2 * N::count::<S>()
    }

    /// Where the lanes begin that cover `from..to`.
    #[inline(always)]
    pub fn starts(_: S, from: usize, to: usize) -> impl Iterator<Item = usize> {
        (from / Self::count() * Self::count()..to).step_by(Self::count())
    }

    /// Those of the lanes at `at` that lie in `from..to`.
    #[inline(always)]
    pub fn within(simd: S, at: usize, from: usize, to: usize) -> Keep<S, N> {
        let lanes = N::count::<S>();
        // Far more often than not it is all of them.
        if at >= from && at + Self::count() <= to {
            let all = N::between(simd, 0, lanes);
            return Keep([all, all]);
        }
        Keep([at, at + lanes].map(|at| {
            let (first, last) = (from.saturating_sub(at), to.saturating_sub(at).min(lanes));
            // The library's tables have no entry for what is empty and lies at the end.
            let (first, last) = if first < last { (first, last) } else { (0, 0) };
            N::between(simd, first, last)
        }))
    }

    /// x in every lane.
    #[inline(always)]
    pub fn all(simd: S, x: N) -> Self {
        Lanes { simd, x: [N::splat(simd, x); 2] }
    }

    /// The numbers of a row from `at` on.
    #[inline(always)]
    pub fn load(simd: S, row: &[N], at: usize) -> Self {
        let whole = |lanes: &[N]| {
            let registers = N::registers::<S>(lanes);
            Lanes { simd, x: [registers[0], registers[1]] }
        };
        match row.get(at..at + Self::count()) {
            Some(lanes) => whole(lanes),
            None => {
                let (first, second) = row.get(at..).unwrap_or_default().split_at(ends(row.len(), at, N::count::<S>()));
                Lanes { simd, x: [N::load_part(simd, first), N::load_part(simd, second)] }
            }
        }
    }

    /// Writes the numbers to a row from `at` on.
    #[inline(always)]
    pub fn store(self, row: &mut [N], at: usize) {
        let whole = |lanes: &mut [N]| {
            let registers = N::registers_mut::<S>(lanes);
            registers[0] = self.x[0];
            registers[1] = self.x[1];
        };
        match row.get_mut(at..at + Self::count()) {
            Some(lanes) => whole(lanes),
            None => {
                let middle = ends(row.len(), at, N::count::<S>());
                let (first, second) = row.get_mut(at..).unwrap_or_default().split_at_mut(middle);
                N::store_part(self.simd, first, self.x[0]);
                N::store_part(self.simd, second, self.x[1]);
            }
        }
    }

    /// Adds the numbers to a row from `at` on.
    #[inline(always)]
    pub fn add_to(self, row: &mut [N], at: usize) {
        (Self::load(self.simd, row, at) + self).store(row, at);
    }

    /// self + a b, rounded once.
    #[inline(always)]
    pub fn plus(self, a: Self, b: Self) -> Self {
        a.times_plus(b, self)
    }

    /// The same operation on both registers.
    #[inline(always)]
    fn both(self, f: impl Fn(S, N::Register<S>) -> N::Register<S>) -> Self {
        Lanes { x: [f(self.simd, self.x[0]), f(self.simd, self.x[1])], ..self }
    }

    /// The same operation on both registers and those of `other`.
    #[inline(always)]
    fn with(self, other: Self, f: impl Fn(S, N::Register<S>, N::Register<S>) -> N::Register<S>) -> Self {
        Lanes { x: [f(self.simd, self.x[0], other.x[0]), f(self.simd, self.x[1], other.x[1])], ..self }
    }

    /// `yes` where the mask is set, else `no`.
    #[inline(always)]
    fn choose(self, is_so: [N::Mask<S>; 2], yes: Self, no: Self) -> Self {
        let side = |i: usize| N::choose(self.simd, is_so[i], yes.x[i], no.x[i]);
        Lanes { x: [side(0), side(1)], ..self }
    }

    /// x in every lane.
    #[inline(always)]
    pub(super) fn like(self, x: N) -> Self {
        Lanes::all(self.simd, x)
    }

    /// self * factor + term, rounded once.
    #[inline(always)]
    pub(super) fn times_plus(self, factor: Self, term: Self) -> Self {
        let side = |i: usize| N::mul_add(self.simd, self.x[i], factor.x[i], term.x[i]);
        Lanes { x: [side(0), side(1)], ..self }
    }

    /// `yes` where self <= limit, else `no`.
    #[inline(always)]
    pub(super) fn at_most(self, limit: Self, yes: Self, no: Self) -> Self {
        let is_so = |i: usize| N::at_most(self.simd, self.x[i], limit.x[i]);
        self.choose([is_so(0), is_so(1)], yes, no)
    }

    /// `yes` where self < limit, else `no`.
    #[inline(always)]
    pub(super) fn below(self, limit: Self, yes: Self, no: Self) -> Self {
        let is_so = |i: usize| N::less(self.simd, self.x[i], limit.x[i]);
        self.choose([is_so(0), is_so(1)], yes, no)
    }

    /// The square root, correctly rounded; NaN below 0.
    #[inline(always)]
    pub(super) fn root(self) -> Self {
        self.both(N::root)
    }

    /// A function of one number, lane by lane.
    #[inline(always)]
    pub(super) fn each(self, f: impl Fn(N) -> N) -> Self {
        let mut numbers = [N::ZERO; MOST_LANES];
        self.store(&mut numbers, 0);
        numbers[..Self::count()].iter_mut().for_each(|x| *x = f(*x));
        Lanes::load(self.simd, &numbers, 0)
    }

    /// 0 where a lane does not count.
    #[inline(always)]
    pub fn only(self, keep: Keep<S, N>) -> Self {
        self.or(keep, N::ZERO)
    }

    /// `other` where a lane does not count.
    #[inline(always)]
    pub fn or(self, keep: Keep<S, N>, other: N) -> Self {
        self.choose(keep.0, self, self.like(other))
    }

    /// The sum of all lanes.
    #[inline(always)]
    pub fn sum(self) -> N {
        N::sum(self.simd, N::plus(self.simd, self.x[0], self.x[1]))
    }

    /// The largest of all lanes.
    #[inline(always)]
    pub fn largest(self) -> N {
        N::largest(self.simd, N::larger_of(self.simd, self.x[0], self.x[1]))
    }

    /// The larger of two; a NaN `self` is dropped, a NaN `other` is kept.
    #[inline(always)]
    pub fn larger(self, other: Self) -> Self {
        other.below(self, self, other)
    }

    /// max(x, 0).
    #[inline(always)]
    pub fn positive(self) -> Self {
        self.larger(self.like(N::ZERO))
    }

    /// |x|.
    #[inline(always)]
    pub fn absolute(self) -> Self {
        self.both(N::size)
    }

    /// -1, 0 or 1 by the sign of x: 0 at both zeros, NaN at NaN.
    #[inline(always)]
    pub fn signum0(self) -> Self {
        // 1 with the sign of x, but where x is 0 or no number.
        self.like(N::ZERO).below(self.absolute(), self.both(N::signed_one), self)
    }

    /// 1/x, and 0 at 0.
    #[inline(always)]
    pub fn reciprocal(self) -> Self {
        N::total_powers(self, -1.0)
    }

    /// The square root, and 0 below 0.
    #[inline(always)]
    pub fn square_root(self) -> Self {
        self.positive().root()
    }

    /// e^x.
    #[inline(always)]
    pub fn exponential(self) -> Self {
        N::exponentials(self)
    }

    /// ln x.
    #[inline(always)]
    pub fn logarithm(self) -> Self {
        N::logarithms(self)
    }

    /// 1 / (1 + e^-x).
    #[inline(always)]
    pub fn sigmoid(self) -> Self {
        N::sigmoids(self)
    }

    /// log(1 + e^x).
    #[inline(always)]
    pub fn softplus(self) -> Self {
        N::softpluses(self)
    }

    /// The hyperbolic tangent.
    #[inline(always)]
    pub fn tangent(self) -> Self {
        N::tangents(self)
    }

    /// 1 - tanh^2 x.
    #[inline(always)]
    pub fn tangent_slope(self) -> Self {
        N::tangent_slopes(self)
    }

    /// log cosh x.
    #[inline(always)]
    pub fn log_cosh(self) -> Self {
        N::log_coshs(self)
    }

    /// log(1 + x).
    #[inline(always)]
    pub fn log_1_plus(self) -> Self {
        N::logs_1_plus(self)
    }

    /// e^x - 1.
    #[inline(always)]
    pub fn exp_minus_1(self) -> Self {
        N::exps_minus_1(self)
    }

    /// The total power x^r.
    #[inline(always)]
    pub fn power(self, r: f64) -> Self {
        N::total_powers(self, r)
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

impl<S: Simd> Lanes<S, f64> {
    /// 2^n self, for n in the low bits of `shifted` = n + 1.5 * 2^52.
    #[inline(always)]
    pub(super) fn raised(self, shifted: Self) -> Self {
        self.with(shifted, |simd, x, shifted| {
            // There is no shift of 64 bits, but a product.
            let exponent = simd.mul_u64s(simd.transmute_u64s_f64s(shifted), simd.splat_u64s(1 << 52));
            simd.transmute_f64s_u64s(simd.add_u64s(simd.transmute_u64s_f64s(x), exponent))
        })
    }
}

impl<S: Simd> Single for Lanes<S, f32> {
    #[inline(always)]
    fn like(self, x: f32) -> Self {
        Lanes::all(self.simd, x)
    }

    #[inline(always)]
    fn times_plus(self, factor: Self, term: Self) -> Self {
        Lanes::times_plus(self, factor, term)
    }

    #[inline(always)]
    fn at_most(self, limit: Self, yes: Self, no: Self) -> Self {
        Lanes::at_most(self, limit, yes, no)
    }

    #[inline(always)]
    fn below(self, limit: Self, yes: Self, no: Self) -> Self {
        Lanes::below(self, limit, yes, no)
    }

    #[inline(always)]
    fn root(self) -> Self {
        Lanes::root(self)
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
        (e - Lanes::like(self, ROUND + 127.0), m)
    }
}

/// An operator between lanes, and between lanes and one number for all of them.
macro_rules! operator {
    ($name:ident, $method:ident, $of_number:ident) => {
        impl<S: Simd, N: Number> $name for Lanes<S, N> {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                self.with(other, N::$of_number)
            }
        }

        impl<S: Simd, N: Number> $name<N> for Lanes<S, N> {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: N) -> Self {
                $name::$method(self, self.like(other))
            }
        }

        operator!($name, $method, for f32);
        operator!($name, $method, for f64);
    };
    ($name:ident, $method:ident, for $number:ty) => {
        impl<S: Simd> $name<Lanes<S, $number>> for $number {
            type Output = Lanes<S, $number>;

            #[inline(always)]
            fn $method(self, other: Lanes<S, $number>) -> Lanes<S, $number> {
                $name::$method(other.like(self), other)
            }
        }
    };
}

operator!(Add, add, plus);
operator!(Sub, sub, minus);
operator!(Mul, mul, times);
operator!(Div, div, over);

impl<S: Simd, N: Number> Neg for Lanes<S, N> {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        self.both(N::negative)
    }
}

impl<S: Simd, N: Number> AddAssign for Lanes<S, N> {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Numbers in the library's words for them.
macro_rules! number {
    (
        $number:ty, $register:ident, $mask:ident, $lanes:ident, $index:ty,
        $splat:ident, $registers:ident, $registers_mut:ident, $load:ident, $store:ident, $between:ident,
        $add:ident, $sub:ident, $mul:ident, $div:ident, $max:ident, $mul_add:ident, $root:ident, $negative:ident, $size:ident,
        $and:ident, $or:ident, $less:ident, $at_most:ident, $choose:ident, $sum:ident, $largest:ident,
        $($functions:tt)*
    ) => {
        impl Number for $number {
            type Register<S: Simd> = S::$register;
            type Mask<S: Simd> = S::$mask;

            #[inline(always)]
            fn count<S: Simd>() -> usize {
                S::$lanes
            }
            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: Self) -> S::$register {
                simd.$splat(x)
            }
            #[inline(always)]
            fn registers<S: Simd>(row: &[Self]) -> &[S::$register] {
                S::$registers(row).0
            }
            #[inline(always)]
            fn registers_mut<S: Simd>(row: &mut [Self]) -> &mut [S::$register] {
                S::$registers_mut(row).0
            }
            #[inline(always)]
            fn load_part<S: Simd>(simd: S, part: &[Self]) -> S::$register {
                simd.$load(part)
            }
            #[inline(always)]
            fn store_part<S: Simd>(simd: S, part: &mut [Self], x: S::$register) {
                simd.$store(part, x)
            }
            #[inline(always)]
            fn between<S: Simd>(simd: S, from: usize, to: usize) -> S::$mask {
                simd.$between(from as $index, to as $index).mask()
            }
            #[inline(always)]
            fn plus<S: Simd>(simd: S, x: S::$register, y: S::$register) -> S::$register {
                simd.$add(x, y)
            }
            #[inline(always)]
            fn minus<S: Simd>(simd: S, x: S::$register, y: S::$register) -> S::$register {
                simd.$sub(x, y)
            }
            #[inline(always)]
            fn times<S: Simd>(simd: S, x: S::$register, y: S::$register) -> S::$register {
                simd.$mul(x, y)
            }
            #[inline(always)]
            fn over<S: Simd>(simd: S, x: S::$register, y: S::$register) -> S::$register {
                simd.$div(x, y)
            }
            #[inline(always)]
            fn larger_of<S: Simd>(simd: S, x: S::$register, y: S::$register) -> S::$register {
                simd.$max(x, y)
            }
            #[inline(always)]
            fn mul_add<S: Simd>(simd: S, x: S::$register, y: S::$register, z: S::$register) -> S::$register {
                simd.$mul_add(x, y, z)
            }
            #[inline(always)]
            fn root<S: Simd>(simd: S, x: S::$register) -> S::$register {
                simd.$root(x)
            }
            #[inline(always)]
            fn negative<S: Simd>(simd: S, x: S::$register) -> S::$register {
                simd.$negative(x)
            }
            #[inline(always)]
            fn size<S: Simd>(simd: S, x: S::$register) -> S::$register {
                simd.$size(x)
            }
            #[inline(always)]
            fn signed_one<S: Simd>(simd: S, x: S::$register) -> S::$register {
                simd.$or(simd.$and(x, simd.$splat(-0.0)), simd.$splat(1.0))
            }
            #[inline(always)]
            fn less<S: Simd>(simd: S, x: S::$register, y: S::$register) -> S::$mask {
                simd.$less(x, y)
            }
            #[inline(always)]
            fn at_most<S: Simd>(simd: S, x: S::$register, y: S::$register) -> S::$mask {
                simd.$at_most(x, y)
            }
            #[inline(always)]
            fn choose<S: Simd>(simd: S, mask: S::$mask, yes: S::$register, no: S::$register) -> S::$register {
                simd.$choose(mask, yes, no)
            }
            #[inline(always)]
            fn sum<S: Simd>(simd: S, x: S::$register) -> Self {
                simd.$sum(x)
            }
            #[inline(always)]
            fn largest<S: Simd>(simd: S, x: S::$register) -> Self {
                simd.$largest(x)
            }
            $($functions)*
        }
    };
}

/// Functions of lanes by other names.
macro_rules! functions {
    ($number:ty, $($name:ident = $function:expr),*) => {
        $(
            #[inline(always)]
            fn $name<S: Simd>(x: Lanes<S, $number>) -> Lanes<S, $number> {
                $function(x)
            }
        )*
    };
}

number! {
    f32, f32s, m32s, F32_LANES, u32,
    splat_f32s, as_simd_f32s, as_mut_simd_f32s, partial_load_f32s, partial_store_f32s, mask_between_m32s,
    add_f32s, sub_f32s, mul_f32s, div_f32s, max_f32s, mul_add_f32s, sqrt_f32s, neg_f32s, abs_f32s,
    and_f32s, or_f32s, less_than_f32s, less_than_or_equal_f32s, select_f32s, reduce_sum_f32s, reduce_max_f32s,
    functions! {
        f32,
        exponentials = functions::exponential,
        logarithms = functions::logarithm,
        sigmoids = smooth::sigmoid,
        softpluses = smooth::softplus,
        tangents = smooth::tangent,
        tangent_slopes = smooth::tangent_slope,
        log_coshs = smooth::log_cosh,
        logs_1_plus = smooth::log_1_plus,
        exps_minus_1 = smooth::exp_minus_1
    }

    #[inline(always)]
    fn total_powers<S: Simd>(x: Lanes<S, f32>, r: f64) -> Lanes<S, f32> {
        functions::power(x, r)
    }
}

number! {
    f64, f64s, m64s, F64_LANES, u64,
    splat_f64s, as_simd_f64s, as_mut_simd_f64s, partial_load_f64s, partial_store_f64s, mask_between_m64s,
    add_f64s, sub_f64s, mul_f64s, div_f64s, max_f64s, mul_add_f64s, sqrt_f64s, neg_f64s, abs_f64s,
    and_f64s, or_f64s, less_than_f64s, less_than_or_equal_f64s, select_f64s, reduce_sum_f64s, reduce_max_f64s,
    functions! {
        f64,
        exponentials = double::exponential,
        logarithms = |x: Lanes<S, f64>| x.each(Real::logarithm),
        sigmoids = double::sigmoid,
        softpluses = |x: Lanes<S, f64>| x.each(Real::softplus),
        tangents = |x: Lanes<S, f64>| x.each(Real::tangent),
        tangent_slopes = double::tangent_slope,
        log_coshs = |x: Lanes<S, f64>| x.each(Real::log_cosh),
        logs_1_plus = |x: Lanes<S, f64>| x.each(Real::log_1_plus),
        exps_minus_1 = |x: Lanes<S, f64>| x.each(Real::exp_minus_1)
    }

    #[inline(always)]
    fn total_powers<S: Simd>(x: Lanes<S, f64>, r: f64) -> Lanes<S, f64> {
        double::power(x, r)
    }
}
