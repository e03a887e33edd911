//! Exponentials as variables: a decision where the rules do not lead from one term to the other.
//!
//! A term that +, · and division by what is above 0 make from exponentials is a quotient of polynomials in variables u =
//! exp(t) > 0 ([`super::quotient`]); two of them are equal when they agree crosswise, and log(c u^m P) is
//! log c + m t + log P. Around that:
//!
//! - sums over one axis are added up before they are looked into, Σ_i a_i − Σ_i b_i = Σ_i (a_i − b_i);
//! - weights do not change when all scores change by the same number;
//! - where |x| and sign(x) occur, x > 0, x < 0 and x = 0 are looked at one by one; if all three say the same, it is said
//!   without them;
//! - anything else is a variable, and one variable with another if its parts are.
//!
//! Nothing is searched for, so the answer is yes or no answer at all; a yes says which substitutions it rests on.

use super::quotient::{Exponents, Monomial, Polynomial, Quotient, is_sum};
use crate::ir::{Axis, AxisSet, Expr, Func, Op, Rational, Role, Sign, Space, rational, traverse};
use crate::notation::{Writer, text};
use num_traits::{One, Signed, ToPrimitive, Zero};

/// Powers of sums beyond this are not multiplied out.
const MAX_POWER: u32 = 8;
/// A number with a larger prime factor stays under its logarithm.
const MAX_PRIME: u32 = 1000;

/// What an equality rests on, in words; nothing when the terms were not found to be equal.
pub fn decide(a: &Expr, b: &Expr) -> Option<Vec<String>> {
    let mut decision = Decision::default();
    // The first term's quantities are the ones the second's are compared with.
    decision.reduced(a)?;
    let difference = decision.reduced(&a.minus(b))?;
    difference.is_zero().then(|| decision.said())
}

#[derive(Default)]
struct Decision {
    /// Terms that are variables: as they stand in results, and in the form that is compared.
    variables: Vec<(Expr, Expr)>,
    /// The t of u = exp(t), lowest terms.
    substituted: Vec<Expr>,
    cases: Vec<Expr>,
    shifts: Vec<Expr>,
}

impl Decision {
    fn said(&self) -> Vec<String> {
        let show = |e: &Expr| text::print(&Writer::default().write(e));
        let name = |j: usize| if self.substituted.len() == 1 { "u".to_string() } else { format!("u{}", j + 1) };
        let substituted = self.substituted.iter().enumerate();
        let mut said: Vec<String> =
            substituted.map(|(j, t)| format!("{} = exp({}): both are rational in it", name(j), show(t))).collect();
        said.extend(self.cases.iter().map(|x| {
            let x = show(x);
            format!("|{x}|: {x} > 0, {x} < 0 and {x} = 0 say the same")
        }));
        said.extend(
            self.shifts.iter().map(|c| {
                format!("the scores differ by {}, the same for every token, and have the same weights", show(c))
            }),
        );
        said
    }

    /// The term in its reduced form; nothing when it grows too large on the way.
    fn reduced(&mut self, e: &Expr) -> Option<Expr> {
        if let Some(smooth) = self.without_cases(e) {
            return Some(smooth);
        }
        let quotient = self.quotient(e)?.tidy();
        let over = self.with_sums_added(&quotient.over)?;
        let quotient = Quotient { over, ..quotient };
        Some(if quotient.over.is_zero() { Expr::zero() } else { quotient.term() })
    }

    fn are_equal(&mut self, a: &Expr, b: &Expr) -> bool {
        a == b || self.reduced(&a.minus(b)).is_some_and(|e| e.is_zero())
    }

    fn quotient(&mut self, e: &Expr) -> Option<Quotient> {
        let whole = |p: Polynomial| Some(Quotient::whole(p));
        match e.op() {
            Op::Const(_) | Op::Leaf(_) => whole(Polynomial::opaque(e)),
            Op::Add(xs) => {
                let mut sum = Quotient::whole(Polynomial::default());
                for x in xs {
                    sum = sum.plus(&self.quotient(x)?)?;
                }
                Some(sum)
            }
            Op::Mul(xs) => {
                let mut product = Quotient::whole(Polynomial::one());
                for x in xs {
                    product = product.times(&self.quotient(x)?)?;
                }
                Some(product)
            }
            Op::Pow(x, r) => self.power(x, r),
            Op::Call(Func::Exp, x) => self.exponential(x),
            Op::Call(Func::Log, x) => self.logarithm(x),
            Op::Call(func, x) if is_smooth(e) => self.quotient(&written_out(*func, x)?),
            Op::Sum(axis, x) => {
                let body = self.reduced(x)?;
                whole(Polynomial::opaque(&Expr::sum(*axis, &body)))
            }
            Op::Weights(kind, axis, s) => {
                let at = Axis::new(axis.space, VARIABLE);
                let term = traverse::rename(&Expr::weights(kind, *axis, s), *axis, at);
                let scores = self.reduced(&traverse::rename(s, *axis, at))?;
                let known = self.variable(&term, &Expr::weights(kind, at, &scores));
                whole(Polynomial::opaque(&traverse::rename(&known, at, *axis)))
            }
            Op::SmoothMax(kind, axis, s) => {
                let scores = self.reduced(s)?;
                let form = Expr::smoothmax(kind, *axis, &scores);
                whole(Polynomial::opaque(&self.variable(&form, &form)))
            }
            Op::Call(func, x) => {
                let x = self.reduced(x)?;
                let form = Expr::call(*func, &x);
                whole(Polynomial::opaque(&self.variable(&form, &form)))
            }
            Op::Select(parts) => {
                let mut reduced = Vec::new();
                for part in parts.iter() {
                    reduced.push(self.reduced(part)?);
                }
                let form = Expr::select(&reduced[0], &reduced[1], &reduced[2], &reduced[3]);
                whole(Polynomial::opaque(&self.variable(&form, &form)))
            }
            Op::Solve(_) => whole(Polynomial::opaque(e)),
        }
    }

    /// x^r: multiplied out, or turned around where x > 0; otherwise a variable.
    fn power(&mut self, x: &Expr, r: &Rational) -> Option<Quotient> {
        let count = r.abs().to_integer().to_u32().filter(|n| r.is_integer() && *n <= MAX_POWER);
        match count {
            Some(n) if r.is_positive() && (matches!(x.op(), Op::Add(_)) || is_smooth(x)) => {
                self.quotient(x)?.power(n as usize)
            }
            Some(n) if r.is_negative() && x.sign() == Sign::Positive => {
                let x = self.quotient(x)?.tidy();
                if !x.over.is_positive() {
                    return Some(Quotient::whole(Polynomial::opaque(&x.term().pow(r))));
                }
                self.substitute(&x.over);
                x.inverse().power(n as usize)
            }
            _ => {
                let form = self.reduced(x)?.pow(r);
                let known = if matches!(form.op(), Op::Pow(..)) { self.variable(&form, &form) } else { form };
                Some(Quotient::whole(Polynomial::opaque(&known)))
            }
        }
    }

    /// exp(Σ c t) = Π u^c, and exp(n log P) = P^n.
    fn exponential(&mut self, x: &Expr) -> Option<Quotient> {
        let exponent = self.quotient(x)?.tidy();
        let over = self.with_sums_added(&exponent.over)?;
        let exponent = Quotient { over, ..exponent };
        let Some(sum) = exponent.as_polynomial().cloned() else {
            let whole = Exponents::from([(exponent.term(), Rational::one())]);
            return Some(Quotient::whole(Polynomial::of(Monomial::exponential(whole), Rational::one())));
        };
        let mut product = Quotient::whole(Polynomial::one());
        let mut exponents = Exponents::new();
        for (monomial, c) in &sum.0 {
            let t = monomial.term();
            match (
                t.op(),
                c.to_integer().to_i64().filter(|n| c.is_integer() && n.unsigned_abs() <= u64::from(MAX_POWER)),
            ) {
                (Op::Call(Func::Log, inner), Some(n)) => {
                    let inner = self.quotient(inner)?;
                    let inner = if n < 0 { inner.inverse() } else { inner };
                    product = product.times(&inner.power(n.unsigned_abs() as usize)?)?;
                }
                _ => {
                    exponents.insert(t, c.clone());
                }
            }
        }
        let monomial = Polynomial::of(Monomial::exponential(exponents), Rational::one());
        product.times(&Quotient::whole(monomial))
    }

    /// log(N/D) = log N − log D of what is above 0.
    fn logarithm(&mut self, x: &Expr) -> Option<Quotient> {
        let x = self.quotient(x)?.tidy();
        if !x.over.is_positive() || !x.under.is_positive() {
            let form = x.term().log();
            return Some(Quotient::whole(Polynomial::opaque(&self.variable(&form, &form))));
        }
        let minus = Quotient::whole(Polynomial::opaque(&Expr::int(-1)));
        let under = self.log_of_polynomial(&x.under)?.times(&minus)?;
        self.log_of_polynomial(&x.over)?.plus(&under)
    }

    /// log(c u^m x P) = log c + m t + log x + log P.
    fn log_of_polynomial(&mut self, p: &Polynomial) -> Option<Quotient> {
        self.substitute(p);
        let (c, monomial, rest) = p.split();
        let numbers = log_of_number(&c).terms();
        let numbers = numbers.iter().map(Polynomial::opaque).fold(Polynomial::default(), |sum, x| sum.plus(&x));
        let mut total = Quotient::whole(numbers);
        for (t, c) in &monomial.exponents {
            let t = self.quotient(t)?;
            total = total.plus(&t.times(&Quotient::whole(Polynomial::opaque(&Expr::constant(c.clone()))))?)?;
        }
        for factor in monomial.other.factors().into_iter().filter(|f| !f.is_one()) {
            let (base, r) = match factor.op() {
                Op::Pow(base, r) => (base.clone(), r.clone()),
                _ => (factor.clone(), Rational::one()),
            };
            total = total.plus(&Quotient::whole(Polynomial::opaque(&base.log().scale(&r))))?;
        }
        if rest == Polynomial::one() {
            return Some(total);
        }
        let form = rest.term().log();
        total.plus(&Quotient::whole(Polynomial::opaque(&self.variable(&form, &form))))
    }

    /// Notes which exponentials a polynomial of several terms is made of.
    fn substitute(&mut self, p: &Polynomial) {
        let (_, _, rest) = p.split();
        for monomial in rest.0.keys().filter(|monomial| !monomial.exponents.is_empty()) {
            let base = rest.0.keys().next().map(|first| first.exponents.clone()).unwrap_or_default();
            let mut exponents = monomial.exponents.clone();
            base.iter().for_each(|(t, c)| *exponents.entry(t.clone()).or_insert_with(Rational::zero) -= c);
            let sum = Expr::add(exponents.iter().map(|(t, c)| t.scale(c)));
            let (_, t) = sum.split_content();
            let t = at_first_indices(&t);
            if !sum.is_zero() && !self.substituted.contains(&t) {
                self.substituted.push(t);
            }
        }
    }

    /// The variable that a term is: one that was seen before, if their parts are equal.
    fn variable(&mut self, term: &Expr, form: &Expr) -> Expr {
        let known: Vec<(Expr, Expr)> =
            self.variables.iter().filter(|(_, other)| other.axes() == form.axes()).cloned().collect();
        for (other, same) in known {
            if self.same_variable(form, &same) {
                return other;
            }
        }
        self.variables.push((term.clone(), form.clone()));
        term.clone()
    }

    fn same_variable(&mut self, a: &Expr, b: &Expr) -> bool {
        match (a.op(), b.op()) {
            _ if a == b => true,
            (Op::Weights(kind, axis, s), Op::Weights(other, along, t)) if kind == other && axis == along => {
                let Some(shift) = self.reduced(&t.minus(s)) else { return false };
                let is_shared = !shift.has_axis(*axis);
                if is_shared && !shift.is_zero() && !self.shifts.contains(&shift) {
                    self.shifts.push(shift);
                }
                is_shared
            }
            (Op::SmoothMax(kind, i, s), Op::SmoothMax(other, j, t)) if kind == other && i == j => self.are_equal(s, t),
            (Op::Pow(x, r), Op::Pow(y, s)) if r == s => self.are_equal(x, y),
            (Op::Call(f, x), Op::Call(g, y)) if f == g => self.are_equal(x, y),
            (Op::Select(p), Op::Select(q)) => p.iter().zip(q.iter()).all(|(x, y)| self.are_equal(x, y)),
            _ => false,
        }
    }

    /// Σ_i a_i + c Σ_j b_j as one sum: what cancels inside is seen.
    fn with_sums_added(&mut self, p: &Polynomial) -> Option<Polynomial> {
        let mut rest = Polynomial::default();
        let mut bodies: Vec<(Space, Vec<Expr>)> = Vec::new();
        let taken = p.0.keys().map(|monomial| monomial.term().axes()).fold(AxisSet::EMPTY, AxisSet::union);
        for (monomial, c) in &p.0 {
            let factors = monomial.other.factors();
            let Some(at) = factors.iter().position(is_sum) else {
                rest.add(monomial.clone(), c);
                continue;
            };
            let Op::Sum(axis, body) = factors[at].op() else { continue };
            let others = Expr::mul(factors.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, f)| f.clone()));
            let outside = Monomial { other: others, exponents: monomial.exponents.clone() }.term();
            let inside = traverse::rename(body, *axis, taken.fresh(axis.space));
            let body = Expr::mul([Expr::constant(c.clone()), outside, inside]);
            match bodies.iter_mut().find(|(space, _)| *space == axis.space) {
                Some((_, all)) => all.push(body),
                None => bodies.push((axis.space, vec![body])),
            }
        }
        for (space, all) in bodies {
            let axis = taken.fresh(space);
            let body = Expr::add(all);
            let body = self.reduced(&body)?;
            if !body.is_zero() {
                rest = rest.plus(&Polynomial::opaque(&Expr::sum(axis, &body)));
            }
        }
        Some(rest)
    }

    /// The term without some |x| and sign(x), if x > 0, x < 0 and x = 0 say the same.
    fn without_cases(&mut self, e: &Expr) -> Option<Expr> {
        let x = kinked(e)?;
        let put = |e: &Expr, size: &Expr, sign: i64| {
            outside_of_binders(e, &|node| match node.op() {
                Op::Call(Func::Abs, y) if *y == x => Some(size.clone()),
                Op::Call(Func::Sign, y) if *y == x => Some(Expr::int(sign)),
                _ => None,
            })
        };
        let at_zero = vanishing(&x)?;
        let above = self.reduced(&put(e, &x, 1))?;
        let below = self.reduced(&put(e, &x.neg(), -1))?;
        if !self.are_equal(&above, &below) {
            return None;
        }
        let there = |e: &Expr| outside_of_binders(e, &|node| (*node == at_zero.0).then(|| at_zero.1.clone()));
        let between = there(&put(e, &Expr::zero(), 0));
        if !self.are_equal(&between, &there(&above)) {
            return None;
        }
        let shown = at_first_indices(&x);
        if !self.cases.contains(&shown) {
            self.cases.push(shown);
        }
        Some(above)
    }
}

fn is_smooth(e: &Expr) -> bool {
    matches!(e.op(), Op::Call(func, x) if written_out(*func, x).is_some())
}

/// The smooth functions as quotients and logarithms of exponentials.
fn written_out(func: Func, x: &Expr) -> Option<Expr> {
    let (up, down, one) = (|| x.exp(), || x.neg().exp(), Expr::one);
    match func {
        Func::Exp | Func::Log | Func::Abs | Func::Sign => None,
        Func::Sigmoid => Some(one().over(&one().plus(&down()))),
        Func::Softplus => Some(one().plus(&up()).log()),
        Func::Tanh => Some(up().minus(&down()).over(&up().plus(&down()))),
        Func::TanhSlope => Some(Expr::int(4).over(&up().plus(&down()).square())),
        Func::LogCosh => Some(up().plus(&down()).scale(&rational::ratio(1, 2)).log()),
    }
}

/// The index that weights have along their tokens while they are compared.
const VARIABLE: u8 = 14;

/// The first x of an |x| or a sign(x) outside of all binders.
fn kinked(e: &Expr) -> Option<Expr> {
    match e.op() {
        Op::Call(Func::Abs | Func::Sign, x) => kinked(x).or(Some(x.clone())),
        Op::Sum(..) | Op::Weights(..) | Op::SmoothMax(..) | Op::Solve(_) => None,
        _ => e.children().into_iter().find_map(kinked),
    }
}

/// Replaces terms outside of all binders.
fn outside_of_binders(e: &Expr, f: &impl Fn(&Expr) -> Option<Expr>) -> Expr {
    match e.op() {
        _ if f(e).is_some() => f(e).unwrap_or_else(|| e.clone()),
        Op::Sum(..) | Op::Weights(..) | Op::SmoothMax(..) | Op::Solve(_) => e.clone(),
        _ => traverse::map_children(e, |x| outside_of_binders(x, f)),
    }
}

/// (t, y) with t = y exactly where x = c t + rest is 0, for an input t that the rest does not have.
fn vanishing(x: &Expr) -> Option<(Expr, Expr)> {
    let terms = x.terms();
    let is_alone = |t: &Expr| {
        let rest = Expr::add(terms.iter().filter(|term| term.split_coefficient().1 != *t).cloned());
        !traverse::subterms(&rest).contains(t)
    };
    let (c, t) = terms.iter().map(Expr::split_coefficient).find(|(_, t)| {
        t.as_leaf().is_some_and(|leaf| leaf.role != Role::Size && AxisSet::of(&leaf.axes).union(x.axes()) == x.axes())
            && is_alone(t)
    })?;
    let rest = x.minus(&t.scale(&c));
    Some((t, rest.scale(&-c.recip())))
}

/// log c as a sum over the primes of c.
fn log_of_number(c: &Rational) -> Expr {
    let mut terms = Vec::new();
    for (number, sign) in [(c.numer().clone(), 1), (c.denom().clone(), -1)] {
        let Some(mut left) = number.to_u64() else { return Expr::constant(c.clone()).log() };
        for prime in 2..=u64::from(MAX_PRIME) {
            let mut count = 0;
            while left % prime == 0 && left > 1 {
                left /= prime;
                count += sign;
            }
            if count != 0 {
                terms.push(Expr::int(prime as i64).log().scale(&rational::int(count)));
            }
        }
        if left > 1 {
            terms.push(Expr::constant(Rational::from_integer(left.into())).log().scale(&rational::int(sign)));
        }
    }
    Expr::add(terms)
}

/// The term with its axes called as a reader would: the first of every space.
fn at_first_indices(e: &Expr) -> Expr {
    e.axes().iter().fold(e.clone(), |e, axis| {
        let first = Axis::new(axis.space, 0);
        if e.has_axis(first) { e } else { traverse::rename(&e, axis, first) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::inputs;

    fn x() -> Expr {
        Expr::leaf(inputs::q()).minus(&Expr::leaf(inputs::k()))
    }

    fn e(x: &Expr) -> Expr {
        x.exp()
    }

    fn equal(a: &Expr, b: &Expr) -> Option<Vec<String>> {
        decide(a, b)
    }

    #[test]
    fn quotients_of_exponentials() {
        let (two, one) = (x().scale(&rational::int(2)), Expr::one());
        let tanh = e(&x()).minus(&e(&x().neg())).over(&e(&x()).plus(&e(&x().neg())));
        let other = one.minus(&Expr::int(2).over(&one.plus(&e(&two))));
        let said = equal(&tanh, &other).expect("they are equal");
        assert_eq!(said, ["u = exp(q − k_i): both are rational in it"]);
        assert!(equal(&tanh, &other.scale(&rational::int(2))).is_none());
        assert!(equal(&tanh, &other.neg()).is_none());
        // The function by its name is the same.
        assert!(equal(&tanh, &x().tanh()).is_some());
        assert!(equal(&one.minus(&x().tanh().square()), &x().tanh_slope()).is_some());
        assert!(equal(&two.sigmoid().scale(&rational::int(2)).minus(&one), &x().tanh()).is_some());
        // 1/(1 + u) + 1/(1 + 1/u) = 1
        let sigmoid = |x: &Expr| one.over(&one.plus(&e(&x.neg())));
        assert!(equal(&sigmoid(&x()).plus(&sigmoid(&x().neg())), &one).is_some());
    }

    #[test]
    fn logarithms_of_exponentials() {
        let cosh = e(&x()).plus(&e(&x().neg())).log();
        let softplus = Expr::one().plus(&e(&x().scale(&rational::int(2)))).log();
        assert!(equal(&cosh, &softplus.minus(&x())).is_some());
        assert!(equal(&cosh, &softplus.plus(&x())).is_none());
        assert!(equal(&softplus, &x().scale(&rational::int(2)).softplus()).is_some());
        assert!(equal(&cosh, &x().log_cosh().plus(&Expr::int(2).log())).is_some());
        let half = e(&x()).plus(&e(&x().neg())).scale(&rational::ratio(1, 2)).log();
        assert!(equal(&half, &softplus.minus(&x()).minus(&Expr::int(2).log())).is_some());
        assert!(
            equal(&Expr::int(12).log(), &Expr::int(2).log().scale(&rational::int(2)).plus(&Expr::int(3).log()))
                .is_some()
        );
    }

    #[test]
    fn cases_that_say_the_same() {
        let size = x().abs();
        let smooth = Expr::one().plus(&e(&size.scale(&rational::int(-2)))).log().plus(&size);
        let cosh = e(&x()).plus(&e(&x().neg())).log();
        let said = equal(&smooth, &cosh).expect("they are equal");
        assert!(said.iter().any(|line| line.contains("q − k_i = 0 say the same")), "{said:?}");
        assert!(equal(&size, &x()).is_none());
        assert!(equal(&x().signum().square(), &Expr::one()).is_none(), "not where x = 0");
        assert!(equal(&x().signum().times(&x()), &size).is_some());
    }

    #[test]
    fn sums_are_added_up() {
        let body = e(&x()).over(&Expr::one().plus(&e(&x())));
        let sum = |b: &Expr| Expr::sum(Axis::N, b);
        assert!(
            equal(&sum(&body), &sum(&Expr::one()).minus(&sum(&Expr::one().over(&Expr::one().plus(&e(&x()))))))
                .is_some()
        );
        assert!(equal(&sum(&body), &body).is_none());
    }
}
