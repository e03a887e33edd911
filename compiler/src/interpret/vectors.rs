//! The loops of the interpreter over the numbers of its registers, each one operation, on registers as wide as the
//! machine's.

use crate::ir::{Func, rational::to_f64};
use crate::plan::graph::{Id, Map, Op};
use crate::primitives::product::{Strides, distances};
use crate::primitives::real::Real;
use crate::primitives::solve;

/// Runs `$run` with `$f` for the function that `$function` is: which one, is looked at once and not for every number.
macro_rules! with_function {
    ($function:expr, $f:ident => $run:expr) => {{
        macro_rules! run {
            ($name:ident) => {{
                let $f = |x: T| Function::$name.of(x);
                $run
            }};
        }
        match $function {
            Function::Absolute => run!(Absolute),
            Function::Sign => run!(Sign),
            Function::Square => run!(Square),
            Function::Cube => run!(Cube),
            Function::AbsoluteCube => run!(AbsoluteCube),
            Function::SignedSquare => run!(SignedSquare),
        }
    }};
}

/// An operand inside of a loop.
#[derive(Clone, Copy)]
pub enum Operand<'a, T> {
    Number(T),
    Vector(&'a [T]),
}

/// Runs a loop on registers as wide as the machine's. It is a structure and no closure, because all it calls has to
/// be inlined into it.
pub fn in_lanes<R>(run: impl pulp::WithSimd<Output = R>) -> R {
    pulp::Arch::new().dispatch(run)
}

/// Σ x.
pub struct Total<'a, T>(pub &'a [T]);

impl<T: Real> pulp::WithSimd for Total<'_, T> {
    type Output = T;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> T {
        sum(self.0)
    }
}

/// The solution of `matrix` x = `right`, which replaces `right`.
pub struct Solved<'a, T> {
    pub matrix: &'a mut [T],
    pub right: &'a mut [T],
}

impl<T: Real> pulp::WithSimd for Solved<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        solve::solve(self.matrix, self.right, self.right.len());
    }
}

/// |x − y|² of every row of x with every row of y.
pub struct Distances<'a, T> {
    pub counts: [usize; 2],
    pub head: usize,
    pub x: &'a [T],
    pub y: &'a [T],
    pub out: &'a mut [T],
    /// Entries from one row of `out` to the next.
    pub pitch: usize,
}

impl<T: Real> pulp::WithSimd for Distances<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Distances { counts: [rows, tokens], head, x, y, out, pitch } = self;
        distances([rows, tokens, head], x, (y, (y, Strides::columns(head))), (out, pitch));
    }
}

/// The sum of every stretch of `length` numbers, one after the other.
pub struct Totals<'a, T> {
    pub of: &'a [T],
    pub length: usize,
    pub out: &'a mut [T],
}

impl<T: Real> pulp::WithSimd for Totals<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for (y, xs) in self.out.iter_mut().zip(self.of.chunks_exact(self.length)) {
            *y = sum(xs);
        }
    }
}

/// Every number `length` times.
pub struct Stretched<'a, T> {
    pub of: &'a [T],
    pub length: usize,
    pub out: &'a mut [T],
}

impl<T: Real> pulp::WithSimd for Stretched<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for (own, x) in self.out.chunks_exact_mut(self.length).zip(self.of) {
            for y in own {
                *y = *x;
            }
        }
    }
}

/// Adds vectors, one after the other, to `out`.
pub struct Added<'a, T> {
    pub vectors: &'a [T],
    pub out: &'a mut [T],
}

impl<T: Real> pulp::WithSimd for Added<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Added { vectors, out } = self;
        let length = out.len().max(1);
        // A stretch of the sum stays in registers while all vectors pass.
        let (chunks, rest) = out.as_chunks_mut::<STRETCH>();
        for (i, sums) in chunks.iter_mut().enumerate() {
            let mut own = *sums;
            for vector in vectors.chunks_exact(length) {
                let Some(xs) = vector[i * STRETCH..].first_chunk::<STRETCH>() else { continue };
                for j in 0..STRETCH {
                    own[j] += xs[j];
                }
            }
            *sums = own;
        }
        let done = length / STRETCH * STRETCH;
        for vector in vectors.chunks_exact(length) {
            for (y, x) in rest.iter_mut().zip(&vector[done..]) {
                *y += *x;
            }
        }
    }
}

/// Numbers of a sum that stay in registers.
const STRETCH: usize = 32;

/// Every stretch of `length` numbers of a vector, or of what is there, times a number of its own.
pub struct Scaled<'a, T> {
    pub of: Option<Operand<'a, T>>,
    pub by: Operand<'a, T>,
    pub length: usize,
    pub out: &'a mut [T],
}

impl<T: Real> pulp::WithSimd for Scaled<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Scaled { of, by, length, out } = self;
        for (i, own) in out.chunks_exact_mut(length).enumerate() {
            let by = Operand::Number(by.at(i));
            match of {
                Some(Operand::Vector(xs)) => pairs(Operand::Vector(&xs[i * length..]), by, own, |x, y| x * y),
                Some(x) => pairs(x, by, own, |x, y| x * y),
                None => next(own, by, |x, y| x * y),
            }
        }
    }
}

/// One more factor.
pub struct Multiplied<'a, T> {
    pub by: Operand<'a, T>,
    pub out: &'a mut [T],
}

impl<T: Real> pulp::WithSimd for Multiplied<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        next(self.out, self.by, |product, x| product * x);
    }
}

/// What a sum of products runs over, where several tokens lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Components: one number per token.
    Components,
    /// Tokens: one vector.
    Tokens,
    /// Queries: every entry is added to what is there.
    Queries,
}

/// f(x − y) or f(y − x) of a query's vector x and the vectors y of several tokens, side by side.
#[derive(Clone, Copy)]
pub struct RowDifference<'a, T> {
    pub function: Function,
    /// 1, or −1 for y − x.
    pub sign: T,
    pub row: &'a [T],
    pub tokens: &'a [T],
}

/// A vector for every token: side by side, or of the query and the same for all, or a function of both.
#[derive(Clone, Copy)]
pub enum Vectors<'a, T> {
    Tokens(&'a [T]),
    Row(&'a [T]),
    Difference(RowDifference<'a, T>),
}

/// All entries of a difference.
pub struct RowDifferences<'a, T> {
    pub of: RowDifference<'a, T>,
    pub out: &'a mut [T],
}

impl<T: Real> pulp::WithSimd for RowDifferences<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let RowDifference { function, sign, row, tokens } = self.of;
        let out = self.out;
        with_function!(function, f => differences(row, tokens, out, |x, y| f(sign * (x - y))));
    }
}

#[inline(always)]
fn differences<T: Real>(row: &[T], tokens: &[T], out: &mut [T], f: impl Fn(T, T) -> T) {
    let length = row.len().max(1);
    let (row, row_rest) = row.as_chunks::<16>();
    for (out, own) in out.chunks_exact_mut(length).zip(tokens.chunks_exact(length)) {
        let ((out, out_rest), (own, own_rest)) = (out.as_chunks_mut::<16>(), own.as_chunks::<16>());
        for ((out, x), y) in out.iter_mut().zip(row).zip(own) {
            for i in 0..16 {
                out[i] = f(x[i], y[i]);
            }
        }
        for ((out, x), y) in out_rest.iter_mut().zip(row_rest).zip(own_rest) {
            *out = f(*x, *y);
        }
    }
}

/// Σ c·x·y with a number c per token and vectors x and y; none of it is stored in between.
pub struct Products<'a, T> {
    pub over: Over,
    pub by: Operand<'a, T>,
    pub factor: T,
    /// What differs from token to token.
    pub x: Vectors<'a, T>,
    /// No difference.
    pub y: Vectors<'a, T>,
    pub length: usize,
    pub out: &'a mut [T],
}

impl<T: Real> pulp::WithSimd for Products<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Products { over, by, factor, x, y, length, out } = self;
        let by = |token: usize| factor * by.at(token);
        let (y, step) = match y {
            Vectors::Tokens(y) => (y, length),
            Vectors::Row(y) | Vectors::Difference(RowDifference { row: y, .. }) => (y, 0),
        };
        match x {
            Vectors::Tokens(x) => Sums { over, row: y, tokens: x, y, step, length }.to(out, by, |_, x| x),
            Vectors::Row(x) => Sums { over, row: x, tokens: y, y, step, length }.to(out, by, |x, _| x),
            Vectors::Difference(RowDifference { function, sign, row, tokens }) => {
                let sums = Sums { over, row, tokens, y, step, length };
                with_function!(function, f => sums.to(out, by, |x, y| f(sign * (x - y))));
            }
        }
    }
}

/// Σ c·f(row, tokens)·y; y goes on by `step` numbers from token to token.
struct Sums<'a, T> {
    over: Over,
    row: &'a [T],
    tokens: &'a [T],
    y: &'a [T],
    step: usize,
    length: usize,
}

impl<T: Real> Sums<'_, T> {
    /// The vectors of a token: of the query, its own, and y.
    #[inline(always)]
    fn of_token(&self, token: usize) -> [&[T]; 3] {
        let own = &self.tokens[token * self.length..(token + 1) * self.length];
        [&self.row[..self.length], own, &self.y[token * self.step..token * self.step + self.length]]
    }

    #[inline(always)]
    fn to(&self, out: &mut [T], by: impl Fn(usize) -> T, f: impl Fn(T, T) -> T) {
        let length = self.length.max(1);
        let count = self.tokens.len() / length;
        match self.over {
            Over::Components => {
                for (token, out) in out.iter_mut().enumerate().take(count) {
                    let [a, b, c] = self.of_token(token);
                    let ((a, a_rest), (b, b_rest), (c, c_rest)) =
                        (a.as_chunks::<16>(), b.as_chunks::<16>(), c.as_chunks::<16>());
                    let mut strands = [T::ZERO; 16];
                    for ((a, b), c) in a.iter().zip(b).zip(c) {
                        for i in 0..16 {
                            strands[i] += f(a[i], b[i]) * c[i];
                        }
                    }
                    let rest = a_rest.iter().zip(b_rest).zip(c_rest);
                    *out = by(token) * rest.fold(folded(strands), |sum, ((a, b), c)| sum + f(*a, *b) * *c);
                }
            }
            Over::Tokens => {
                // A stretch of the sum stays in registers while all tokens pass.
                let (chunks, rest) = out[..length].as_chunks_mut::<16>();
                let done = 16 * chunks.len();
                for (at, sums) in chunks.iter_mut().enumerate() {
                    let mut own = *sums;
                    for token in 0..count {
                        let by = by(token);
                        let [a, b, c] = self.of_token(token);
                        let (a, b, c) =
                            (&a.as_chunks::<16>().0[at], &b.as_chunks::<16>().0[at], &c.as_chunks::<16>().0[at]);
                        for i in 0..16 {
                            own[i] += by * c[i] * f(a[i], b[i]);
                        }
                    }
                    *sums = own;
                }
                for token in 0..count {
                    let (by, [a, b, c]) = (by(token), self.of_token(token));
                    for (i, out) in rest.iter_mut().enumerate() {
                        *out += by * c[done + i] * f(a[done + i], b[done + i]);
                    }
                }
            }
            Over::Queries => {
                for (token, out) in out.chunks_exact_mut(length).enumerate().take(count) {
                    let (by, [a, b, c]) = (by(token), self.of_token(token));
                    let ((a, a_rest), (b, b_rest), (c, c_rest)) =
                        (a.as_chunks::<16>(), b.as_chunks::<16>(), c.as_chunks::<16>());
                    let (out, out_rest) = out.as_chunks_mut::<16>();
                    for (((out, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
                        let mut own = *out;
                        for i in 0..16 {
                            own[i] += by * c[i] * f(a[i], b[i]);
                        }
                        *out = own;
                    }
                    for (((out, a), b), c) in out_rest.iter_mut().zip(a_rest).zip(b_rest).zip(c_rest) {
                        *out += by * *c * f(*a, *b);
                    }
                }
            }
        }
    }
}

/// Sixteen entries from the i-th on.
#[inline(always)]
fn sixteen<T: Real>(xs: &[T], i: usize) -> [T; 16] {
    *xs[i..].first_chunk().unwrap_or(&[T::ZERO; 16])
}

/// Σ x in sixteen strands, which are added by halves: one after the other they would wait for each other.
#[inline(always)]
pub fn sum<T: Real>(xs: &[T]) -> T {
    let mut strands = [T::ZERO; 16];
    let (chunks, rest) = xs.as_chunks::<16>();
    for chunk in chunks {
        for i in 0..16 {
            strands[i] += chunk[i];
        }
    }
    rest.iter().fold(folded(strands), |sum, x| sum + *x)
}

/// The sum of sixteen strands, by halves.
///
/// They pass through memory: seen together with the loop that makes them, the halves would decide how wide that runs.
#[inline(always)]
fn folded<T: Real>(strands: [T; 16]) -> T {
    let strands = std::hint::black_box(strands);
    let eight: [T; 8] = std::array::from_fn(|i| strands[i] + strands[i + 8]);
    let four: [T; 4] = std::array::from_fn(|i| eight[i] + eight[i + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

pub fn add_number<T: Real>(out: &mut [T], x: T) {
    out.iter_mut().for_each(|y| *y += x);
}

/// Functions of one number that cost less than to store it in between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Function {
    Absolute,
    Sign,
    Square,
    Cube,
    AbsoluteCube,
    /// x·|x|.
    SignedSquare,
}

/// The function and the argument of a node that is one of these.
pub fn unary(op: &Op) -> Option<(Function, Id)> {
    let Op::Map(map, of) = op else { return None };
    let function = match map {
        Map::Call(Func::Abs) => Function::Absolute,
        Map::Call(Func::Sign) => Function::Sign,
        Map::Pow(r) if to_f64(r) == 2.0 => Function::Square,
        Map::Pow(r) if to_f64(r) == 3.0 => Function::Cube,
        _ => return None,
    };
    Some((function, of[0]))
}

impl Function {
    /// `outer` of this function, if that is one of them too.
    pub fn then(self, outer: Function) -> Option<Function> {
        match (self, outer) {
            (Function::Absolute, Function::Square) => Some(Function::Square),
            (Function::Absolute, Function::Cube) => Some(Function::AbsoluteCube),
            _ => None,
        }
    }

    #[inline(always)]
    pub fn of<T: Real>(self, x: T) -> T {
        match self {
            Function::Absolute => x.absolute(),
            Function::Sign => x.signum0(),
            Function::Square => x * x,
            Function::Cube => x * (x * x),
            Function::AbsoluteCube => x.absolute() * (x * x),
            Function::SignedSquare => x * x.absolute(),
        }
    }
}

/// f(a − b) of all entries, a or b of which is a vector.
pub struct Differences<'a, T> {
    pub function: Function,
    pub a: Operand<'a, T>,
    pub b: Operand<'a, T>,
    pub out: &'a mut [T],
}

impl<T: Real> pulp::WithSimd for Differences<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Differences { function, a, b, out } = self;
        with_function!(function, f => pairs(a, b, out, |x, y| f(x - y)));
    }
}

/// Operands that need no allocation.
pub const FEW: usize = 6;

/// An operand of a map; a sum may subtract it.
#[derive(Clone, Copy)]
pub struct Term<'a, T> {
    pub value: Operand<'a, T>,
    pub is_subtracted: bool,
}

impl<'a, T: Real> Term<'a, T> {
    pub fn added(value: Operand<'a, T>) -> Term<'a, T> {
        Term { value, is_subtracted: false }
    }

    /// What a sum has after this term.
    #[inline(always)]
    fn after(&self, sum: T) -> T {
        let x = self.value.at(0);
        if self.is_subtracted { sum - x } else { sum + x }
    }
}

/// A map of numbers.
pub fn apply<T: Real>(map: &Map, exponent: f64, values: &[Term<T>]) -> T {
    let x = |i: usize| values[i].value.at(0);
    match map {
        Map::Add => values.iter().fold(T::ZERO, |sum, term| term.after(sum)),
        Map::Mul => (0..values.len()).fold(T::ONE, |product, i| product * x(i)),
        Map::Pow(_) => x(0).power(exponent),
        Map::Call(Func::Exp) => x(0).exponential(),
        Map::Call(Func::Log) => x(0).logarithm(),
        Map::Call(Func::Abs) => x(0).absolute(),
        Map::Call(Func::Sign) => x(0).signum0(),
        Map::Call(Func::Sigmoid) => x(0).sigmoid(),
        Map::Call(Func::Softplus) => x(0).softplus(),
        Map::Call(Func::Tanh) => x(0).tangent(),
        Map::Call(Func::TanhSlope) => x(0).tangent_slope(),
        Map::Call(Func::LogCosh) => x(0).log_cosh(),
        Map::Log1p => x(0).log_1_plus(),
        Map::Expm1 => x(0).exp_minus_1(),
        Map::Select if x(0) <= x(1) => x(2),
        Map::Select => x(3),
        Map::Spread(_) => x(0),
        Map::Positive => x(0).larger(T::ZERO),
    }
}

/// All entries of a map, some operand of which is a vector.
pub struct All<'a, 'v, T> {
    pub map: &'a Map,
    pub exponent: f64,
    pub values: &'a [Term<'v, T>],
    pub out: &'a mut [T],
}

impl<T: Real> pulp::WithSimd for All<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let All { map, exponent, values, out } = self;
        let each = Each { of: values[0].value };
        match map {
            Map::Add => added(values, out),
            Map::Mul => multiplied(values, out),
            Map::Pow(_) => powers(values[0].value, exponent, out),
            Map::Call(Func::Exp) => each.to(out, |x| x.exponential()),
            Map::Call(Func::Log) => each.to(out, |x| x.logarithm()),
            Map::Call(Func::Abs) => each.to(out, |x| x.absolute()),
            Map::Call(Func::Sign) => each.to(out, |x| x.signum0()),
            Map::Call(Func::Sigmoid) => each.to(out, |x| x.sigmoid()),
            Map::Call(Func::Softplus) => each.to(out, |x| x.softplus()),
            Map::Call(Func::Tanh) => each.to(out, |x| x.tangent()),
            Map::Call(Func::TanhSlope) => each.to(out, |x| x.tangent_slope()),
            Map::Call(Func::LogCosh) => each.to(out, |x| x.log_cosh()),
            Map::Log1p => each.to(out, |x| x.log_1_plus()),
            Map::Expm1 => each.to(out, |x| x.exp_minus_1()),
            Map::Spread(_) => each.to(out, |x| x),
            Map::Positive => each.to(out, |x| x.larger(T::ZERO)),
            Map::Select => selected([values[0].value, values[1].value, values[2].value, values[3].value], out),
        }
    }
}

/// An operand of which every entry is mapped.
struct Each<'a, T> {
    of: Operand<'a, T>,
}

impl<T: Real> Each<'_, T> {
    #[inline(always)]
    fn to(&self, out: &mut [T], f: impl Fn(T) -> T) {
        match self.of {
            Operand::Number(x) => out.fill(f(x)),
            Operand::Vector(xs) => {
                for (y, x) in out.iter_mut().zip(xs) {
                    *y = f(*x);
                }
            }
        }
    }
}

/// The first two terms at once, then one more at a time.
#[inline(always)]
fn added<T: Real>(values: &[Term<T>], out: &mut [T]) {
    match values {
        [a, b, rest @ ..] => {
            match (a.is_subtracted, b.is_subtracted) {
                (false, false) => pairs(a.value, b.value, out, |x, y| x + y),
                (false, true) => pairs(a.value, b.value, out, |x, y| x - y),
                (true, false) => pairs(b.value, a.value, out, |x, y| x - y),
                (true, true) => pairs(a.value, b.value, out, |x, y| -x - y),
            }
            for term in rest {
                match term.is_subtracted {
                    false => next(out, term.value, |sum, x| sum + x),
                    true => next(out, term.value, |sum, x| sum - x),
                }
            }
        }
        _ => {
            let sign = if values[0].is_subtracted { -T::ONE } else { T::ONE };
            Each { of: values[0].value }.to(out, |x| sign * x);
        }
    }
}

/// All numbers among the factors as one, with up to three vectors at once, then one more vector at a time.
#[inline(always)]
fn multiplied<T: Real>(values: &[Term<T>], out: &mut [T]) {
    let number = values.iter().fold(T::ONE, |product, factor| match factor.value {
        Operand::Number(x) => product * x,
        Operand::Vector(_) => product,
    });
    let mut vectors = values.iter().filter_map(|factor| match factor.value {
        Operand::Vector(xs) => Some(xs),
        Operand::Number(_) => None,
    });
    match (vectors.next(), vectors.next(), vectors.next()) {
        (Some(a), Some(b), Some(c)) => {
            for (((y, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
                *y = number * *a * *b * *c;
            }
        }
        (Some(a), Some(b), None) => pairs(Operand::Vector(a), Operand::Vector(b), out, |a, b| number * a * b),
        (Some(a), ..) => Each { of: Operand::Vector(a) }.to(out, |a| number * a),
        (None, ..) => out.fill(number),
    }
    vectors.for_each(|xs| next(out, Operand::Vector(xs), |product, x| product * x));
}

/// y = f(a, b).
#[inline(always)]
fn pairs<T: Real>(a: Operand<T>, b: Operand<T>, out: &mut [T], f: impl Fn(T, T) -> T) {
    match (a, b) {
        (Operand::Number(a), Operand::Number(b)) => out.fill(f(a, b)),
        (Operand::Number(a), Operand::Vector(b)) => Each { of: Operand::Vector(b) }.to(out, |b| f(a, b)),
        (Operand::Vector(a), Operand::Number(b)) => Each { of: Operand::Vector(a) }.to(out, |a| f(a, b)),
        (Operand::Vector(a), Operand::Vector(b)) => {
            for ((y, a), b) in out.iter_mut().zip(a).zip(b) {
                *y = f(*a, *b);
            }
        }
    }
}

/// y = f(y, x).
#[inline(always)]
fn next<T: Real>(out: &mut [T], x: Operand<T>, f: impl Fn(T, T) -> T) {
    match x {
        Operand::Number(x) => {
            for y in out {
                *y = f(*y, x);
            }
        }
        Operand::Vector(xs) => {
            for (y, x) in out.iter_mut().zip(xs) {
                *y = f(*y, *x);
            }
        }
    }
}

/// y = x where a ≤ b, else z.
#[inline(always)]
fn selected<T: Real>([a, b, x, z]: [Operand<T>; 4], out: &mut [T]) {
    let (chunks, rest) = out.as_chunks_mut::<16>();
    let done = 16 * chunks.len();
    for (i, y) in chunks.iter_mut().enumerate() {
        let (a, b, x, z) = (a.sixteen(16 * i), b.sixteen(16 * i), x.sixteen(16 * i), z.sixteen(16 * i));
        for j in 0..16 {
            y[j] = if a[j] <= b[j] { x[j] } else { z[j] };
        }
    }
    for (i, y) in rest.iter_mut().enumerate() {
        let at = done + i;
        *y = if a.at(at) <= b.at(at) { x.at(at) } else { z.at(at) };
    }
}

impl<T: Real> Operand<'_, T> {
    #[inline(always)]
    pub fn at(&self, i: usize) -> T {
        match self {
            Operand::Number(x) => *x,
            Operand::Vector(xs) => xs[i],
        }
    }

    /// Sixteen entries from the i-th on.
    #[inline(always)]
    fn sixteen(&self, i: usize) -> [T; 16] {
        match self {
            Operand::Number(x) => [*x; 16],
            Operand::Vector(xs) => sixteen(xs, i),
        }
    }
}

/// y = x^r. Which power it is, is looked at once for the common ones.
#[inline(always)]
fn powers<T: Real>(of: Operand<T>, r: f64, out: &mut [T]) {
    let each = Each { of };
    if r == 2.0 {
        return each.to(out, |x| x * x);
    } else if r == 3.0 {
        return each.to(out, |x| x * (x * x));
    }
    let Operand::Vector(xs) = of else {
        return Each { of }.to(out, |x| x.power(r));
    };
    let (chunks, rest) = xs.as_chunks::<16>();
    let (out_chunks, out_rest) = out.as_chunks_mut::<16>();
    for (y, x) in out_chunks.iter_mut().zip(chunks) {
        *y = T::powers(*x, r);
    }
    for (y, x) in out_rest.iter_mut().zip(rest) {
        *y = x.power(r);
    }
}
