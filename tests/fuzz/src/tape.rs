//! Automatic differentiation: a tape of scalar operations whose reverse pass writes its own operations on the tape.
//!
//! There are five operations, x + y, x·y, x^r, exp and log, and three curves that these would compute badly; all else is
//! made of them, with the branches of a case distinction chosen as it is recorded. Since a gradient is on the tape like anything else, it can be differentiated
//! again: gradients, Hessians and the backward pass of a direction all come from [`Tape::gradient`].
//!
//! The tape keeps an eye on what makes a comparison meaningless: how near a value came to a kink, and how large
//! numbers grew, and remembers what was chosen on the way. A tape that rounds shows what can be asked of an arithmetic of
//! fewer digits: leaves and results of all operations are off by a random part of themselves. One that nudges shows what the
//! problem itself allows: only what is said to be nudged is, by a part of the sum of its absolute terms.

use crate::random::Random;
use crate::wide::Wide;

/// A number on the tape.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Var(u32);

#[derive(Clone, Copy, Debug)]
enum Op {
    Constant,
    Leaf,
    Add(Var, Var),
    Multiply(Var, Var),
    /// x^r with 0^r = 0 for every r ≠ 0.
    Power(Var, f64),
    Exp(Var),
    Log(Var),
    Curve(Curve, Var),
    /// The number itself, nudged; so is what a gradient brings back to it.
    Nudged(Var),
}

/// A function that overflows or cancels where it is made of exponentials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Curve {
    /// 1/(1 + e⁻ˣ), with the slope σ(x) σ(−x).
    Sigmoid,
    /// log(1 + eˣ), with the slope σ(x).
    Softplus,
    /// (eˣ − e⁻ˣ)/(eˣ + e⁻ˣ), with the slope 4 σ(2x) σ(−2x).
    Tanh,
}

impl Curve {
    fn of(self, x: Wide) -> Wide {
        let value = x.value();
        let one = Wide::of(1.0);
        match self {
            // eˣ/(1 + eˣ) where eˣ is small.
            Curve::Sigmoid if value < 0.0 => x.exp() * (one + x.exp()).power(-1.0),
            Curve::Sigmoid => (one + (-x).exp()).power(-1.0),
            // log(1 + y) is y for a y that is less than a rounding, and eˣ may be smaller than any number.
            Curve::Softplus if value < -40.0 => x.exp(),
            Curve::Softplus if value < 0.0 => Wide::of(value.exp().ln_1p()),
            // x + log(1 + e⁻ˣ) where eˣ is large.
            Curve::Softplus => x + Wide::of((-value).exp().ln_1p()),
            Curve::Tanh => Wide::of(value.tanh()),
        }
    }
}

#[derive(Debug)]
pub struct Tape {
    ops: Vec<Op>,
    values: Vec<Wide>,
    /// The sum of every value's absolute terms, on a tape that nudges.
    sizes: Vec<Wide>,
    nudging: Option<Rounding>,
    /// A number that differs where a comparison came out differently.
    pub choices: u64,
    /// The smallest distance of anything to the place where a formula changes.
    pub nearest_kink: Option<f64>,
    /// The largest number there was; infinite also where something is not a number.
    pub largest: f64,
    /// Whether everything is a number, however large.
    pub is_finite: bool,
    rounding: Option<Rounding>,
}

/// Errors of an arithmetic: everything is multiplied by 1 ± `by`, at random.
#[derive(Clone, Debug)]
pub struct Rounding {
    by: f64,
    random: Random,
}

impl Rounding {
    pub fn new(by: f64, random: &mut Random) -> Rounding {
        Rounding { by, random: random.split() }
    }

    /// Another that goes on by itself.
    pub fn split(&mut self) -> Rounding {
        Rounding { by: self.by, random: self.random.split() }
    }

    /// A number that was computed from numbers as large as `size`.
    fn of(&mut self, x: Wide, size: Wide) -> Wide {
        x + size * Wide::of(self.by * self.random.between(-1.0, 1.0))
    }
}

impl Default for Tape {
    fn default() -> Tape {
        Tape::new()
    }
}

impl Tape {
    pub fn new() -> Tape {
        Tape::with(None)
    }

    /// A tape that rounds, or one that is as exact as can be.
    pub fn with(rounding: Option<Rounding>) -> Tape {
        Tape {
            ops: vec![],
            values: vec![],
            sizes: vec![],
            nudging: None,
            choices: 0,
            nearest_kink: None,
            largest: 0.0,
            is_finite: true,
            rounding,
        }
    }

    /// A tape that nudges; without a rounding, one that does not.
    pub fn nudging(rounding: Option<Rounding>) -> Tape {
        Tape { nudging: rounding, ..Tape::new() }
    }

    /// The sum of a value's absolute terms: (|q| + |k|)² of (q − k)², Σ |q k| of q·k. A function other than a power has one
    /// term.
    fn size_of(&self, op: Op, value: Wide) -> Wide {
        let size = |x: Var| self.sizes[x.0 as usize];
        match op {
            Op::Add(a, b) => size(a) + size(b),
            Op::Multiply(a, b) => size(a) * size(b),
            Op::Power(a, r) if r > 0.0 => size(a).power(r),
            Op::Nudged(a) => size(a),
            _ => value.abs(),
        }
    }

    /// Signs at random for so many numbers, by which they are nudged; 0 on a tape that does not nudge.
    pub fn signs(&mut self, count: usize) -> Vec<f64> {
        let nudging = &mut self.nudging;
        let mut sign = || nudging.as_mut().map_or(0.0, |nudging| if nudging.random.chance(0.5) { 1.0 } else { -1.0 });
        (0..count).map(|_| sign()).collect()
    }

    /// A value off by a rounding of the sum of its absolute terms; so is its cotangent in every gradient.
    pub fn nudged(&mut self, x: Var, sign: f64) -> Var {
        match &self.nudging {
            Some(nudging) if !self.is_constant(x) => {
                let by = self.sizes[x.0 as usize] * Wide::of(nudging.by * sign);
                self.push(Op::Nudged(x), self.wide(x) + by)
            }
            _ => x,
        }
    }

    /// A value off by a rounding of itself.
    pub fn rounded(&mut self, x: Var, sign: f64) -> Var {
        let by = self.nudging.as_ref().map_or(0.0, |nudging| nudging.by * sign);
        let by = self.settled(self.wide(x) * Wide::of(by));
        self.add(x, by)
    }

    /// The same for a cotangent, which is no longer nudged if it goes on.
    fn nudged_cotangent(&mut self, x: Var) -> Var {
        let sign = self.signs(1)[0];
        let by = self.nudging.as_ref().map_or(0.0, |nudging| nudging.by * sign);
        let by = self.settled(self.sizes[x.0 as usize] * Wide::of(by));
        self.add(x, by)
    }

    /// Notes how something was chosen.
    pub fn choose(&mut self, choice: u64) {
        self.choices = self.choices.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(choice + 1);
    }

    fn push(&mut self, op: Op, value: Wide) -> Var {
        // A sum is rounded by its terms, not by what is left of them: (q − k)·g may be computed as q·g − k·g.
        let made_of = match op {
            Op::Add(a, b) => self.wide(a).abs() + self.wide(b).abs(),
            _ => value.abs(),
        };
        let value = match (&mut self.rounding, op) {
            (None, _) | (_, Op::Constant) => value,
            (Some(rounding), _) => rounding.of(value, made_of),
        };
        let size = if value.is_nan() { f64::INFINITY } else { value.abs().value() };
        self.largest = self.largest.max(size);
        self.is_finite &= value.is_finite();
        if self.nudging.is_some() {
            self.sizes.push(self.size_of(op, value));
        }
        self.ops.push(op);
        self.values.push(value);
        Var(u32::try_from(self.ops.len() - 1).expect("a tape of moderate length"))
    }

    pub fn value(&self, x: Var) -> f64 {
        self.wide(x).value()
    }

    fn wide(&self, x: Var) -> Wide {
        self.values[x.0 as usize]
    }

    pub fn values(&self, xs: &[Var]) -> Vec<f64> {
        xs.iter().map(|x| self.value(*x)).collect()
    }

    pub fn constant(&mut self, value: f64) -> Var {
        self.push(Op::Constant, Wide::of(value))
    }

    /// A result that is the same whatever the leaves are.
    fn settled(&mut self, value: Wide) -> Var {
        self.push(Op::Constant, value)
    }

    pub fn leaf(&mut self, value: f64) -> Var {
        self.push(Op::Leaf, Wide::of(value))
    }

    pub fn leaves(&mut self, values: &[f64]) -> Vec<Var> {
        values.iter().map(|value| self.leaf(*value)).collect()
    }

    /// The number something is whatever the leaves are.
    fn known(&self, x: Var) -> Option<f64> {
        matches!(self.ops[x.0 as usize], Op::Constant).then(|| self.value(x))
    }

    /// Whether it is the same whatever the leaves are.
    pub fn is_constant(&self, x: Var) -> bool {
        self.known(x).is_some()
    }

    pub fn add(&mut self, a: Var, b: Var) -> Var {
        let value = self.wide(a) + self.wide(b);
        match (self.known(a), self.known(b)) {
            (Some(_), Some(_)) => self.settled(value),
            (Some(0.0), _) => b,
            (_, Some(0.0)) => a,
            _ => self.push(Op::Add(a, b), value),
        }
    }

    /// The small x of a sum 1 + x, in which it loses its digits.
    fn above_one(&self, sum: Var) -> Option<f64> {
        let Op::Add(a, b) = self.ops[sum.0 as usize] else { return None };
        let x = match (self.known(a), self.known(b)) {
            (Some(1.0), _) => b,
            (_, Some(1.0)) => a,
            _ => return None,
        };
        Some(self.value(x)).filter(|x| x.abs() < 0.5)
    }

    pub fn multiply(&mut self, a: Var, b: Var) -> Var {
        let value = self.wide(a) * self.wide(b);
        match (self.known(a), self.known(b)) {
            (Some(_), Some(_)) => self.settled(value),
            (Some(0.0), _) | (_, Some(0.0)) => self.constant(0.0),
            (Some(1.0), _) => b,
            (_, Some(1.0)) => a,
            _ => self.push(Op::Multiply(a, b), value),
        }
    }

    pub fn scale(&mut self, a: Var, factor: f64) -> Var {
        let factor = self.constant(factor);
        self.multiply(a, factor)
    }

    pub fn negate(&mut self, a: Var) -> Var {
        self.scale(a, -1.0)
    }

    pub fn subtract(&mut self, a: Var, b: Var) -> Var {
        let b = self.negate(b);
        self.add(a, b)
    }

    pub fn divide(&mut self, a: Var, b: Var) -> Var {
        let b = self.power(b, -1.0);
        self.multiply(a, b)
    }

    pub fn power(&mut self, a: Var, r: f64) -> Var {
        let value = self.wide(a).power(r);
        match self.known(a) {
            Some(_) => self.settled(value),
            None if r == 0.0 => self.constant(1.0),
            None if r == 1.0 => a,
            None => self.push(Op::Power(a, r), value),
        }
    }

    pub fn exp(&mut self, a: Var) -> Var {
        let value = self.wide(a).exp();
        if self.is_constant(a) { self.settled(value) } else { self.push(Op::Exp(a), value) }
    }

    pub fn log(&mut self, a: Var) -> Var {
        let value = match self.above_one(a) {
            Some(x) => Wide::of(x.ln_1p()),
            None => self.wide(a).ln(),
        };
        if self.is_constant(a) { self.settled(value) } else { self.push(Op::Log(a), value) }
    }

    pub fn curve(&mut self, curve: Curve, a: Var) -> Var {
        let value = curve.of(self.wide(a));
        if self.is_constant(a) { self.settled(value) } else { self.push(Op::Curve(curve, a), value) }
    }

    /// σ(x) σ(−x).
    fn sigmoid_slope(&mut self, x: Var) -> Var {
        let minus = self.negate(x);
        let (here, there) = (self.curve(Curve::Sigmoid, x), self.curve(Curve::Sigmoid, minus));
        self.multiply(here, there)
    }

    /// max(x, 0).
    pub fn positive(&mut self, x: Var) -> Var {
        let zero = self.constant(0.0);
        if self.at_most(x, zero) { zero } else { x }
    }

    /// (eˣ + e⁻ˣ)/2.
    pub fn cosh(&mut self, x: Var) -> Var {
        let minus = self.negate(x);
        let (up, down) = (self.exp(x), self.exp(minus));
        let sum = self.add(up, down);
        self.scale(sum, 0.5)
    }

    /// log(1 + x).
    pub fn log_1_plus(&mut self, x: Var) -> Var {
        let one = self.constant(1.0);
        let sum = self.add(one, x);
        self.kink(sum);
        self.log(sum)
    }

    pub fn sum(&mut self, xs: impl IntoIterator<Item = Var>) -> Var {
        let mut total = self.constant(0.0);
        for x in xs {
            total = self.add(total, x);
        }
        total
    }

    pub fn dot(&mut self, xs: &[Var], ys: &[Var]) -> Var {
        let products: Vec<Var> = xs.iter().zip(ys).map(|(x, y)| self.multiply(*x, *y)).collect();
        self.sum(products)
    }

    /// Notes that a formula changes where this number is 0.
    pub fn kink(&mut self, x: Var) {
        if self.is_constant(x) {
            return;
        }
        let distance = self.value(x).abs();
        self.nearest_kink = Some(self.nearest_kink.map_or(distance, |nearest| nearest.min(distance)));
    }

    /// Whether a ≤ b, which may change where they are equal.
    pub fn at_most(&mut self, a: Var, b: Var) -> bool {
        let difference = self.subtract(a, b);
        self.kink(difference);
        let is_at_most = self.wide(a) <= self.wide(b);
        self.choose(u64::from(is_at_most));
        is_at_most
    }

    /// −1, 0 or 1.
    pub fn sign_of(&mut self, x: Var) -> f64 {
        self.kink(x);
        let sign = self.wide(x).sign();
        self.choose((sign + 1.0) as u64);
        sign
    }

    /// ∂y/∂x for every x, on the tape.
    pub fn gradient(&mut self, y: Var, xs: &[Var]) -> Vec<Var> {
        // Nothing before the first x depends on any.
        let first = xs.iter().map(|x| x.0).min().unwrap_or(0).min(y.0) as usize;
        let length = y.0 as usize + 1 - first;
        let at = |x: Var| (x.0 as usize).checked_sub(first).filter(|at| *at < length);
        let mut depends = vec![false; length];
        for at in xs.iter().filter_map(|x| at(*x)) {
            depends[at] = true;
        }
        for i in 0..length {
            let is_moved = |x: Var| at(x).is_some_and(|at| depends[at]);
            let moves = match self.ops[first + i] {
                Op::Constant | Op::Leaf => false,
                Op::Add(a, b) | Op::Multiply(a, b) => is_moved(a) || is_moved(b),
                Op::Power(a, _) | Op::Exp(a) | Op::Log(a) | Op::Curve(_, a) | Op::Nudged(a) => is_moved(a),
            };
            depends[i] |= moves;
        }
        let mut adjoints: Vec<Option<Var>> = vec![None; length];
        adjoints[length - 1] = Some(self.constant(1.0));
        for i in (0..length).rev().filter(|i| depends[*i]) {
            let Some(adjoint) = adjoints[i] else { continue };
            let mut send = |tape: &mut Tape, to: Var, slope: Option<Var>| {
                let Some(to) = at(to).filter(|to| depends[*to]) else { return };
                let part = slope.map_or(adjoint, |slope| tape.multiply(adjoint, slope));
                adjoints[to] = Some(adjoints[to].map_or(part, |sum| tape.add(sum, part)));
            };
            match self.ops[first + i] {
                Op::Constant | Op::Leaf => {}
                Op::Add(a, b) => {
                    send(self, a, None);
                    send(self, b, None);
                }
                Op::Multiply(a, b) => {
                    send(self, a, Some(b));
                    send(self, b, Some(a));
                }
                Op::Power(a, r) => {
                    let power = self.power(a, r - 1.0);
                    let slope = self.scale(power, r);
                    send(self, a, Some(slope));
                }
                Op::Nudged(a) => {
                    let nudged = self.nudged_cotangent(adjoint);
                    let Some(to) = at(a).filter(|to| depends[*to]) else { continue };
                    adjoints[to] = Some(adjoints[to].map_or(nudged, |sum| self.add(sum, nudged)));
                }
                Op::Exp(a) => send(self, a, Some(Var((first + i) as u32))),
                Op::Log(a) => {
                    let slope = self.power(a, -1.0);
                    send(self, a, Some(slope));
                }
                Op::Curve(curve, a) => {
                    let slope = match curve {
                        Curve::Sigmoid => self.sigmoid_slope(a),
                        Curve::Softplus => self.curve(Curve::Sigmoid, a),
                        Curve::Tanh => {
                            let twice = self.scale(a, 2.0);
                            let slope = self.sigmoid_slope(twice);
                            self.scale(slope, 4.0)
                        }
                    };
                    send(self, a, Some(slope));
                }
            }
        }
        xs.iter().map(|x| at(*x).and_then(|at| adjoints[at]).unwrap_or_else(|| self.constant(0.0))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function of two numbers with everything in it.
    fn function(tape: &mut Tape, x: Var, y: Var) -> Var {
        let product = tape.multiply(x, y);
        let exp = tape.exp(product);
        let square = tape.power(y, 2.0);
        let sum = tape.add(exp, square);
        let log = tape.log(sum);
        let root = tape.power(x, 1.5);
        let quotient = tape.divide(root, sum);
        let curves = [Curve::Sigmoid, Curve::Softplus, Curve::Tanh].map(|curve| tape.curve(curve, product));
        let product = tape.dot(&curves[..2], &curves[1..]);
        let rest = tape.add(log, product);
        tape.add(rest, quotient)
    }

    fn at(x: f64, y: f64) -> f64 {
        let mut tape = Tape::new();
        let [x, y] = [x, y].map(|x| tape.leaf(x));
        let f = function(&mut tape, x, y);
        tape.value(f)
    }

    #[test]
    fn gradients_and_their_gradients_are_slopes() {
        let (x0, y0, h) = (0.7, -1.3, 1e-4);
        let mut tape = Tape::new();
        let [x, y] = [x0, y0].map(|x| tape.leaf(x));
        let f = function(&mut tape, x, y);
        let first = tape.gradient(f, &[x, y]);
        let second = tape.gradient(first[0], &[x, y]);
        let third = tape.gradient(second[1], &[y]);
        let near = |a: f64, b: f64, tolerance: f64| assert!((a - b).abs() < tolerance, "{a} and {b}");
        near(tape.value(first[0]), (at(x0 + h, y0) - at(x0 - h, y0)) / (2.0 * h), 1e-6);
        near(tape.value(first[1]), (at(x0, y0 + h) - at(x0, y0 - h)) / (2.0 * h), 1e-6);
        near(tape.value(second[0]), (at(x0 + h, y0) - 2.0 * at(x0, y0) + at(x0 - h, y0)) / (h * h), 1e-5);
        let slope = |y: f64| (at(x0 + h, y) - at(x0 - h, y)) / (2.0 * h);
        near(tape.value(second[1]), (slope(y0 + h) - slope(y0 - h)) / (2.0 * h), 1e-5);
        let h = 1e-3;
        near(tape.value(third[0]), (slope(y0 + h) - 2.0 * slope(y0) + slope(y0 - h)) / (h * h), 1e-3);
    }

    #[test]
    fn curves_are_tame() {
        for curve in [Curve::Sigmoid, Curve::Softplus, Curve::Tanh] {
            for x in [-1e3, -30.0, -1e-9, 0.0, 1e-9, 30.0, 1e3] {
                let mut tape = Tape::new();
                let x = tape.leaf(x);
                let y = tape.curve(curve, x);
                let slope = tape.gradient(y, &[x])[0];
                assert!(tape.value(y).is_finite() && tape.value(slope).is_finite());
            }
        }
    }

    #[test]
    fn the_power_is_total() {
        let mut tape = Tape::new();
        let x = tape.leaf(0.0);
        let root = tape.power(x, 0.5);
        let slope = tape.gradient(root, &[x])[0];
        assert_eq!((tape.value(root), tape.value(slope)), (0.0, 0.0));
        let inverse = tape.power(x, -1.0);
        assert_eq!(tape.value(inverse), 0.0);
    }
}
