//! Quotients: directed steps that leave fewer of them.
//!
//! In the total algebra both are rows of the table, at zeros of the divisor too: a sum of two quotients is `factor` with
//! a power of the divisor as the common factor, b^r·x + b^r·(b·y) = b^r·(x + b·y), and the normal form cancels what it
//! can in the numerator.

use super::expand::{apply, term, within};
use super::pattern::Binding;
use super::proof::Step;
use super::rules::RuleSet;
use crate::ir::{Expr, Op, Rational, Sign};
use num_traits::Signed;

/// Two quotients over powers of one sum, where they make one: x/(c + x)² − 1/(c + x) = −c/(c + x)².
pub fn merged(terms: &[Expr], rules: &RuleSet) -> Option<Step> {
    let divided: Vec<&Expr> = terms.iter().filter(|t| t.factors().iter().any(|f| divisor(f).is_some())).collect();
    let pairs = divided.iter().enumerate().flat_map(|(j, a)| divided[j + 1..].iter().map(move |b| (*a, *b)));
    pairs.into_iter().find_map(|(a, b)| {
        let step = merged_pair(a, b, rules)?;
        let others: Vec<Expr> = terms.iter().filter(|t| *t != a && *t != b).cloned().collect();
        if others.is_empty() {
            Some(step)
        } else {
            within(step, |hole| Expr::add(others.iter().cloned().chain([hole])))
        }
    })
}

/// a + b as one term, when they are divided by different powers of the same sum and the numerators add up to one term.
fn merged_pair(a: &Expr, b: &Expr, rules: &RuleSet) -> Option<Step> {
    let (left, right) = (a.factors(), b.factors());
    let power = |factors: &[Expr], base: &Expr| factors.iter().filter_map(divisor).find(|(x, _)| x == base);
    left.iter().filter_map(divisor).find_map(|(base, r)| {
        let (_, s) = power(&right, &base).filter(|(_, s)| *s != r)?;
        let lowest = r.min(s);
        let is_common = |f: &&Expr| f.as_const().is_none() && right.contains(f);
        let front: Vec<Expr> = left.iter().filter(is_common).cloned().chain([base.pow(&lowest)]).collect();
        // What is left of a term without the factors in front.
        let rest = |factors: &[Expr]| {
            Expr::mul(factors.iter().filter(|f| !front.contains(f)).map(|f| match divisor(f) {
                Some((x, r)) if x == base => x.pow(&(r - &lowest)),
                _ => f.clone(),
            }))
        };
        let (x, y) = (rest(&left), rest(&right));
        if x.plus(&y).terms().len() > 1 {
            return None;
        }
        let step = apply(rules, "factor", vec![term("?a", Expr::mul(front)), term("?b", x), term("?c", y)])?;
        (step.from == a.plus(b)).then_some(step)
    })
}

/// (b, r) when the factor is b^r, a sum to a negative power.
fn divisor(factor: &Expr) -> Option<(Expr, Rational)> {
    match factor.op() {
        Op::Pow(base, r) if r.is_negative() && matches!(base.op(), Op::Add(_)) => Some((base.clone(), r.clone())),
        _ => None,
    }
}

/// A quotient inside of a divisor that a factor beside it clears: c⁻¹ (a + b/c)⁻¹ = (a c + b)⁻¹ for c > 0.
pub fn cleared(factors: &[Expr], rules: &RuleSet) -> Option<Step> {
    factors.iter().find_map(|divided| {
        factors.iter().find_map(|factor| {
            let Clearing { unit, a, b, r } = clearing(divided, factor)?;
            let number = ("?r".to_string(), Binding::Number(r.clone()));
            let bindings = vec![term("?c", unit.clone()), term("?a", a), term("?b", b), number];
            let others = others(factors, &[divided, factor], &factor.times(&unit.pow(&-r)));
            beside(apply(rules, "clear-quotient", bindings)?, &others, factors)
        })
    })
}

/// The same with the divisor under a Σ, where the factor goes first: c⁻¹ Σ x = Σ c⁻¹ x.
pub fn brought_in(factors: &[Expr], rules: &RuleSet) -> Option<Step> {
    factors.iter().find_map(|sum| {
        let Op::Sum(i, body) = sum.op() else { return None };
        let inside = body.factors();
        factors.iter().find_map(|factor| {
            let Clearing { unit, r, .. } = inside.iter().find_map(|divided| clearing(divided, factor))?;
            let taken = unit.pow(&r);
            let axis = ("?i".to_string(), Binding::Axis(*i));
            let hoist = apply(rules, "sum-hoist", vec![axis, term("?a", taken.clone()), term("?b", body.clone())])?;
            let others = others(factors, &[sum, factor], &factor.times(&unit.pow(&-r)));
            beside(hoist.reversed(), &others, factors)
        })
    })
}

/// The factors but for two, and what is left of these.
fn others(factors: &[Expr], without: &[&Expr; 2], left: &Expr) -> Vec<Expr> {
    factors.iter().filter(|f| !without.contains(f)).cloned().chain([left.clone()]).collect()
}

/// A step on some factors of a product, as a step on the product.
fn beside(step: Step, others: &[Expr], factors: &[Expr]) -> Option<Step> {
    let step = within(step, |hole| Expr::mul(others.iter().cloned().chain([hole])))?;
    (step.from == Expr::mul(factors.iter().cloned())).then_some(step)
}

/// (a + b/c)^r for a negative r, beside a factor that holds c^r, c > 0.
struct Clearing {
    unit: Expr,
    a: Expr,
    b: Expr,
    r: Rational,
}

fn clearing(divided: &Expr, factor: &Expr) -> Option<Clearing> {
    let (base, r) = divisor(divided)?;
    let Op::Pow(c, s) = factor.op() else { return None };
    if c.sign() != Sign::Positive || !s.is_negative() {
        return None;
    }
    let (m, a, b) = split(&base, c)?;
    (*s <= &m * &r).then(|| Clearing { unit: c.pow(&m), a, b, r })
}

/// (m, a, b) with base = a + b/c^m, both parts there.
fn split(base: &Expr, c: &Expr) -> Option<(Rational, Expr, Expr)> {
    let power = |term: &Expr| {
        term.factors().iter().find_map(|f| match f.op() {
            Op::Pow(x, r) if x == c && r.is_negative() => Some(-r),
            _ => None,
        })
    };
    let terms = base.terms();
    let unit = terms.iter().find_map(power)?;
    let (over, apart): (Vec<Expr>, Vec<Expr>) = terms.into_iter().partition(|term| power(term).as_ref() == Some(&unit));
    let raised = c.pow(&unit);
    let is_whole = !apart.is_empty() && apart.iter().all(|term| power(term).is_none());
    is_whole.then(|| (unit, Expr::add(apart), Expr::add(over.iter().map(|term| term.times(&raised)))))
}
