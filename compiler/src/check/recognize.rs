//! Smooth functions that a recipe writes out in exponentials, by their names.
//!
//! As written they overflow, and their derivatives are long; as functions they do neither, and a recipe means the same
//! whichever way it is written. Each case holds for all real arguments:
//!
//! | written | is |
//! |---|---|
//! | log(1 + eᵃ), log(eᵃ + eᵇ) | softplus(a), a + softplus(b − a) |
//! | log(eᵃ + e⁻ᵃ) | log cosh(a) + log 2 |
//! | softplus(a) − a/2 | log cosh(a/2) + log 2 |
//! | softplus(a) − softplus(−a) | a |
//! | 1/(1 + eᵃ) | σ(−a) |
//! | eᵃ/(eᵃ + eᵇ) | σ(a − b) |
//! | (eᵃ − eᵇ)/(eᵃ + eᵇ) | tanh((a − b)/2) |
//! | 4/(eᵃ + e⁻ᵃ)² | 1 − tanh²(a), one operation |
//! | 1 − σ(a), 2σ(a) − 1 | σ(−a), tanh(a/2) |
//! | 1 − tanh²(a) | one operation |

use crate::ir::{Expr, Func, Op, Rational, rational, traverse};
use num_traits::{One, Signed, ToPrimitive};

/// The term with its smooth functions by name.
pub fn recognized(e: &Expr) -> Expr {
    traverse::rewrite_bottom_up(e, &mut |x| {
        let mut x = x;
        while let Some(shorter) = step(&x) {
            x = shorter;
        }
        x
    })
}

fn step(e: &Expr) -> Option<Expr> {
    match e.op() {
        Op::Call(Func::Log, x) => logarithm(x),
        Op::Pow(x, r) => power(x, r),
        Op::Mul(factors) => product(factors),
        Op::Add(terms) => sum(terms),
        _ => None,
    }
}

/// c eᵃ + d eᵇ, where an exponent may be 0.
struct Pair {
    c: Rational,
    d: Rational,
    a: Expr,
    b: Expr,
}

impl Pair {
    fn of(e: &Expr) -> Option<Pair> {
        let Op::Add(terms) = e.op() else { return None };
        let [first, second] = terms.as_slice() else { return None };
        let exponent = |term: &Expr| {
            let (c, rest) = term.split_coefficient();
            match rest.op() {
                Op::Call(Func::Exp, x) => Some((c, x.clone())),
                Op::Const(_) => Some((c, Expr::zero())),
                _ => None,
            }
        };
        let ((c, a), (d, b)) = (exponent(first)?, exponent(second)?);
        Some(Pair { c, d, a, b })
    }

    /// c (eᵃ + eᵇ).
    fn sum(e: &Expr) -> Option<Pair> {
        Pair::of(e).filter(|pair| pair.c == pair.d && pair.c.is_positive())
    }

    /// c (eᵃ − eᵇ).
    fn difference(e: &Expr) -> Option<Pair> {
        Pair::of(e).filter(|pair| pair.c == -&pair.d)
    }

    fn is_symmetric(&self) -> bool {
        self.a == self.b.neg()
    }
}

/// log(c (eᵃ + eᵇ)).
fn logarithm(x: &Expr) -> Option<Expr> {
    let pair = Pair::sum(x)?;
    let log = |c: &Rational| Expr::constant(c.clone()).log();
    if pair.is_symmetric() {
        return Some(pair.a.log_cosh().plus(&log(&(pair.c * rational::int(2)))));
    }
    let (outside, inside) = if pair.b.is_zero() { (&pair.b, &pair.a) } else { (&pair.a, &pair.b) };
    Some(Expr::add([log(&pair.c), outside.clone(), inside.minus(outside).softplus()]))
}

/// (c (eᵃ + eᵇ))^r for r < 0.
fn power(x: &Expr, r: &Rational) -> Option<Expr> {
    let pair = Pair::sum(x).filter(|_| r.is_negative())?;
    let number = |c: Rational| Expr::constant(c).pow(r);
    if pair.is_symmetric() && rational::is_even_integer(r) {
        let half = r / rational::int(2);
        return Some(number(pair.c * rational::int(2)).times(&pair.a.tanh_slope().pow(&-half)));
    }
    let a = if pair.b.is_zero() { pair.a } else { Some(pair.b).filter(|_| pair.a.is_zero())? };
    Some(number(pair.c).times(&a.neg().sigmoid().pow(&-r)))
}

/// A factor 1/(eᵃ + eᵇ)ⁿ, n ≥ 1: σ(y) is one with the exponents 0 and −y.
struct Under {
    a: Expr,
    b: Expr,
    /// 1/(eᵃ + eᵇ).
    one: Expr,
    /// The whole part of n.
    times: i64,
}

impl Under {
    fn of(factor: &Expr) -> Option<Under> {
        let (base, n) = match factor.op() {
            Op::Pow(base, n) => (base.clone(), n.clone()),
            _ => (factor.clone(), Rational::one()),
        };
        let times = n.abs().to_integer().to_i64()?;
        match base.op() {
            Op::Call(Func::Sigmoid, y) if n >= Rational::one() => {
                Some(Under { a: y.neg(), b: Expr::zero(), one: base.clone(), times })
            }
            _ if n <= -Rational::one() => {
                let Pair { a, b, .. } = Pair::sum(&base).filter(|pair| pair.c.is_one())?;
                Some(Under { a, b, one: base.pow(&rational::int(-1)), times })
            }
            _ => None,
        }
    }
}

/// Powers of eᵃ + eᵇ that are looked through at the most.
const MOST_POWERS: i64 = 16;

/// What a sum over eᵃ + eᵇ becomes.
fn product(factors: &[Expr]) -> Option<Expr> {
    let rest = |places: &[usize]| {
        Expr::mul(factors.iter().enumerate().filter(|(i, _)| !places.contains(i)).map(|(_, f)| f.clone()))
    };
    factors.iter().enumerate().find_map(|(under_at, factor)| {
        let under = Under::of(factor)?;
        // What is left of the power: without those that are used.
        let left = |used: i64| factor.over(&under.one.pow(&rational::int(used)));
        factors.iter().enumerate().filter(|(at, _)| *at != under_at).find_map(|(at, over)| {
            let function = match (over.op(), Pair::difference(over)) {
                (_, Some(Pair { c, a, b, .. })) => {
                    let half = rational::ratio(1, 2);
                    let is_same = (&a, &b) == (&under.a, &under.b) || (&a, &b) == (&under.b, &under.a);
                    is_same.then(|| a.minus(&b).scale(&half).tanh().scale(&c).times(&left(1)))?
                }
                (Op::Call(Func::Exp, exponent), None) => {
                    // e^(m a + x)/(eᵃ + eᵇ)ᵐ = σ(a − b)ᵐ eˣ
                    let over = |a: &Expr, b: &Expr| {
                        let used = (1..=under.times.min(MOST_POWERS)).rev().filter(|_| !a.is_zero());
                        used.map(|m| (m, exponent.minus(&a.scale(&rational::int(m))))).find_map(|(m, more)| {
                            let function = || a.minus(b).sigmoid().pow(&rational::int(m)).times(&more.exp());
                            (length(&more) < length(exponent)).then(|| function().times(&left(m)))
                        })
                    };
                    over(&under.a, &under.b).or_else(|| over(&under.b, &under.a))?
                }
                _ => return None,
            };
            Some(Expr::mul([function, rest(&[at, under_at])]))
        })
    })
}

/// How many terms a sum has.
fn length(e: &Expr) -> usize {
    if e.is_zero() { 0 } else { e.terms().len() }
}

/// Differences that are functions.
fn sum(terms: &[Expr]) -> Option<Expr> {
    terms.iter().enumerate().find_map(|(at, term)| {
        let others = || Expr::add(terms.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, t)| t.clone()));
        let (func, x, c) = single(term)?;
        // c f(x) and what stands against it become something shorter.
        let against = |other: Expr, function: Expr| {
            let place = terms.iter().position(|t| *t == other)?;
            let rest = terms.iter().enumerate().filter(|(i, _)| *i != at && *i != place).map(|(_, t)| t.clone());
            Some(Expr::add(rest.chain([function])))
        };
        match func {
            // c σ(x) − c = −c σ(−x), and c σ(x) − c/2 = (c/2) tanh(x/2)
            Shape::Sigmoid => {
                let half = c.scale(&rational::ratio(1, 2));
                against(c.neg(), c.times(&x.neg().sigmoid()).neg())
                    .or_else(|| against(half.neg(), half.times(&x.scale(&rational::ratio(1, 2)).tanh())))
            }
            // c tanh²(x) − c = −c (1 − tanh²(x))
            Shape::TanhSquare => against(c.neg(), c.times(&x.tanh_slope()).neg()),
            // c softplus(x) − c softplus(−x) = c x, and c softplus(x) = c (x/2 + log cosh(x/2) + log 2)
            Shape::Softplus => against(c.times(&x.neg().softplus()).neg(), c.times(&x)).or_else(|| {
                let half = x.scale(&rational::ratio(1, 2));
                let (before, after) = (others(), others().plus(&c.times(&half)));
                let even = half.log_cosh().plus(&Expr::int(2).log());
                (length(&after) < length(&before)).then(|| after.plus(&c.times(&even)))
            }),
        }
    })
}

enum Shape {
    Sigmoid,
    TanhSquare,
    Softplus,
}

/// (f, x, c) of a term c f(x).
fn single(term: &Expr) -> Option<(Shape, Expr, Expr)> {
    let factors = term.factors();
    let (at, shape, x) = factors.iter().enumerate().find_map(|(at, factor)| {
        let (base, r) = match factor.op() {
            Op::Pow(base, r) => (base, r.clone()),
            _ => (factor, Rational::one()),
        };
        match base.op() {
            Op::Call(Func::Sigmoid, x) if r.is_one() => Some((at, Shape::Sigmoid, x.clone())),
            Op::Call(Func::Softplus, x) if r.is_one() => Some((at, Shape::Softplus, x.clone())),
            Op::Call(Func::Tanh, x) if r == rational::int(2) => Some((at, Shape::TanhSquare, x.clone())),
            _ => None,
        }
    })?;
    let others = factors.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, f)| f.clone());
    Some((shape, x, Expr::mul(others)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::inputs;
    use crate::ir::sample;

    fn x() -> Expr {
        Expr::leaf(inputs::q()).minus(&Expr::leaf(inputs::k()))
    }

    /// The form that is expected, which has the same value.
    fn becomes(written: &Expr, expected: &Expr) {
        assert_eq!(recognized(written), *expected, "{written}");
        let error = sample::compare(written, expected, &[], 3).expect("both have values");
        assert!(error < 1e-9, "{written} is not {expected}: {error}");
    }

    fn half(e: &Expr) -> Expr {
        e.scale(&rational::ratio(1, 2))
    }

    #[test]
    fn logarithms() {
        let (x, one, log_2) = (x(), Expr::one(), Expr::int(2).log());
        let cosh = x.exp().plus(&x.neg().exp());
        becomes(&one.plus(&x.exp()).log(), &x.softplus());
        becomes(&cosh.log(), &x.log_cosh().plus(&log_2));
        becomes(&half(&cosh).log(), &x.log_cosh());
        let q = Expr::leaf(inputs::q());
        becomes(&q.exp().plus(&x.exp()).log(), &recognized(&q.exp().plus(&x.exp()).log()));
        let double = x.scale(&rational::int(2));
        becomes(&one.plus(&double.exp()).log().minus(&x).minus(&log_2), &x.log_cosh());
        becomes(&x.softplus().minus(&x.neg().softplus()), &x);
    }

    #[test]
    fn quotients() {
        let (x, one) = (x(), Expr::one());
        let (up, down) = (x.exp(), x.neg().exp());
        let sigma = x.sigmoid();
        becomes(&one.over(&one.plus(&down)), &sigma);
        becomes(&up.over(&one.plus(&up)), &sigma);
        becomes(&up.over(&up.plus(&down)), &x.scale(&rational::int(2)).sigmoid());
        becomes(&up.minus(&down).over(&up.plus(&down)), &x.tanh());
        becomes(&one.minus(&up).over(&one.plus(&up)), &half(&x).tanh().neg());
        becomes(&one.minus(&Expr::int(2).over(&one.plus(&x.scale(&rational::int(2)).exp()))), &x.tanh());
        becomes(&Expr::int(4).over(&up.plus(&down).square()), &x.tanh_slope());
        becomes(&up.over(&one.plus(&up).square()), &sigma.times(&x.neg().sigmoid()));
        let q = Expr::leaf(inputs::q());
        becomes(&x.plus(&q).exp().over(&one.plus(&up)), &recognized(&sigma.times(&q.exp())));
    }

    #[test]
    fn differences() {
        let (x, one) = (x(), Expr::one());
        let q = Expr::leaf(inputs::q());
        becomes(&one.minus(&x.sigmoid()), &x.neg().sigmoid());
        becomes(&q.minus(&q.times(&x.sigmoid())), &q.times(&x.neg().sigmoid()));
        becomes(&one.minus(&x.tanh().square()), &x.tanh_slope());
        // What is no function stays.
        for kept in [one.plus(&x.sigmoid()), one.plus(&x.exp().scale(&rational::int(2))).log(), one.plus(&x.exp())] {
            assert_eq!(recognized(&kept), kept);
        }
    }
}
