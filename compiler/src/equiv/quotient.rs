//! Quotients of polynomials in exponentials and in terms nobody looks into.
//!
//! exp(c₁ t₁ + c₂ t₂ + …) is the monomial u₁^c₁ u₂^c₂ … in the variables u_j = exp(t_j) > 0. What is no exponential is kept
//! as a product of the algebra, which knows that x·x⁻¹ need not be 1.

use crate::ir::{Expr, Op, Rational, Sign, rational};
use num_traits::{One, Signed, Zero};
use std::collections::BTreeMap;

/// A polynomial with more terms is not looked at.
const MAX_TERMS: usize = 400;

/// Exponents by the t of exp(t).
pub type Exponents = BTreeMap<Expr, Rational>;

/// A product of exponentials and of other factors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Monomial {
    pub other: Expr,
    pub exponents: Exponents,
}

impl Monomial {
    pub fn one() -> Monomial {
        Monomial { other: Expr::one(), exponents: Exponents::new() }
    }

    /// A power of the exponential of a sum.
    pub fn exponential(exponents: Exponents) -> Monomial {
        Monomial { other: Expr::one(), exponents: exponents.into_iter().filter(|(_, c)| !c.is_zero()).collect() }
    }

    fn times(&self, more: &Monomial) -> (Rational, Monomial) {
        let (c, other) = self.other.times(&more.other).split_coefficient();
        let mut exponents = self.exponents.clone();
        for (t, c) in &more.exponents {
            *exponents.entry(t.clone()).or_insert_with(Rational::zero) += c;
        }
        (c, Monomial { other, ..Monomial::exponential(exponents) })
    }

    pub fn term(&self) -> Expr {
        let sum = Expr::add(self.exponents.iter().map(|(t, c)| t.scale(c)));
        self.other.times(&sum.exp())
    }
}

/// Monomials with their coefficients, none of them 0.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Polynomial(pub BTreeMap<Monomial, Rational>);

impl Polynomial {
    pub fn of(monomial: Monomial, c: Rational) -> Polynomial {
        let mut sum = Polynomial::default();
        sum.add(monomial, &c);
        sum
    }
    pub fn one() -> Polynomial {
        Polynomial::of(Monomial::one(), Rational::one())
    }
    /// A term that is looked at no further.
    pub fn opaque(e: &Expr) -> Polynomial {
        let (c, other) = e.split_coefficient();
        Polynomial::of(Monomial { other, ..Monomial::one() }, c)
    }
    pub fn is_zero(&self) -> bool {
        self.0.is_empty()
    }
    pub fn add(&mut self, monomial: Monomial, c: &Rational) {
        let entry = self.0.entry(monomial.clone()).or_insert_with(Rational::zero);
        *entry += c;
        if entry.is_zero() {
            self.0.remove(&monomial);
        }
    }
    pub fn plus(&self, other: &Polynomial) -> Polynomial {
        let mut sum = self.clone();
        other.0.iter().for_each(|(monomial, c)| sum.add(monomial.clone(), c));
        sum
    }
    /// Nothing when it is too long.
    pub fn times(&self, other: &Polynomial) -> Option<Polynomial> {
        if self.0.len() * other.0.len() > MAX_TERMS {
            return None;
        }
        let mut product = Polynomial::default();
        for (a, c) in &self.0 {
            for (b, d) in &other.0 {
                let (more, monomial) = a.times(b);
                product.add(monomial, &(c * d * more));
            }
        }
        Some(product)
    }
    /// Whether every term is above 0, whatever the inputs.
    pub fn is_positive(&self) -> bool {
        let positive =
            |(monomial, c): (&Monomial, &Rational)| c.is_positive() && monomial.other.sign() == Sign::Positive;
        !self.is_zero() && self.0.iter().all(positive)
    }
    pub fn term(&self) -> Expr {
        Expr::add(self.0.iter().map(|(monomial, c)| monomial.term().scale(c)))
    }

    /// (c, m, P) with the polynomial c·m·P: the common number, the lowest exponents, and what is left, which has none of
    /// either.
    pub fn split(&self) -> (Rational, Monomial, Polynomial) {
        let coefficients: Vec<Rational> = self.0.values().cloned().collect();
        let content = rational::content(&coefficients);
        let mut lowest = Exponents::new();
        for t in self.0.keys().flat_map(|monomial| monomial.exponents.keys()) {
            let of = |monomial: &Monomial| monomial.exponents.get(t).cloned().unwrap_or_else(Rational::zero);
            lowest.insert(t.clone(), self.0.keys().map(of).min().unwrap_or_else(Rational::zero));
        }
        let mut shared = Monomial::exponential(lowest);
        let others: Vec<Vec<Expr>> = self.0.keys().map(|monomial| monomial.other.factors()).collect();
        let is_shared = |f: &&Expr| f.sign() == Sign::Positive && others.iter().all(|other| other.contains(f));
        shared.other = Expr::mul(others.first().into_iter().flatten().filter(is_shared).cloned());
        let down: Exponents = shared.exponents.iter().map(|(t, c)| (t.clone(), -c)).collect();
        let inverse = Monomial { other: shared.other.pow(&rational::int(-1)), exponents: down };
        let mut rest = Polynomial::default();
        for (monomial, c) in &self.0 {
            let (more, monomial) = monomial.times(&inverse);
            rest.add(monomial, &(c * more / &content));
        }
        (content, shared, rest)
    }
}

/// over/under, where `under` is above 0.
#[derive(Clone, Debug)]
pub struct Quotient {
    pub over: Polynomial,
    pub under: Polynomial,
}

impl Quotient {
    pub fn whole(over: Polynomial) -> Quotient {
        Quotient { over, under: Polynomial::one() }
    }
    pub fn plus(&self, other: &Quotient) -> Option<Quotient> {
        if self.under == other.under {
            return Some(Quotient { over: self.over.plus(&other.over), under: self.under.clone() });
        }
        let over = self.over.times(&other.under)?.plus(&other.over.times(&self.under)?);
        Some(Quotient { over, under: self.under.times(&other.under)? })
    }
    pub fn times(&self, other: &Quotient) -> Option<Quotient> {
        Some(Quotient { over: self.over.times(&other.over)?, under: self.under.times(&other.under)? })
    }
    /// 1/x of what is known to be above 0.
    pub fn inverse(&self) -> Quotient {
        Quotient { over: self.under.clone(), under: self.over.clone() }
    }
    pub fn power(&self, n: usize) -> Option<Quotient> {
        (0..n).try_fold(Quotient::whole(Polynomial::one()), |product, _| product.times(self))
    }
    /// The polynomial, where there is nothing under it.
    pub fn as_polynomial(&self) -> Option<&Polynomial> {
        (self.under == Polynomial::one()).then_some(&self.over)
    }
    /// The same with nothing common left in `under`: no number, no exponential.
    pub fn tidy(self) -> Quotient {
        if self.over.is_zero() {
            return Quotient::whole(Polynomial::default());
        }
        let (c, monomial, under) = self.under.split();
        let up = monomial.exponents.iter().map(|(t, c)| (t.clone(), -c)).collect();
        let inverse = Monomial { other: monomial.other.pow(&rational::int(-1)), exponents: up };
        let mut over = Polynomial::default();
        for (monomial, d) in &self.over.0 {
            let (more, monomial) = monomial.times(&inverse);
            over.add(monomial, &(d * more / &c));
        }
        Quotient { over, under }
    }
    pub fn term(&self) -> Expr {
        let over = self.over.term();
        if self.as_polynomial().is_some() { over } else { over.over(&self.under.term()) }
    }
}

/// Whether a factor is Σ over something, to the first power.
pub fn is_sum(e: &Expr) -> bool {
    matches!(e.op(), Op::Sum(..))
}
