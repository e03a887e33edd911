//! Exact polynomials in the parameters of an optimizer: Σ c·m with rational c.
//!
//! A monomial m is a product of powers as the algebra's normal form has it, without a constant factor. What is no
//! polynomial in a parameter, such as √η, 1/(1 + β) or a case distinction, is a symbol of its own, so that any term
//! without axes has a polynomial. Sums are always multiplied out; two polynomials are equal when their terms are.

use crate::ir::eval::{Env, Sizes, evaluate};
use crate::ir::{Expr, Op, Rational, rational, traverse};
use num_traits::{One, Signed, ToPrimitive, Zero};
use std::collections::BTreeMap;

/// Coefficients of more bits are not waited for.
const MAX_BITS: u64 = 1 << 14;

/// Arithmetic with numbers this much longer takes as long as an addition of short ones.
const BITS_A_UNIT: u64 = 64;

/// What one unrolling may still compute, counted in terms.
#[derive(Clone, Debug)]
pub struct Budget(usize);

/// There are more terms, or longer numbers, than anybody would read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge;

impl Budget {
    /// Seconds at most.
    pub const USUAL: usize = 4_000_000;
    /// A product of two monomials takes as long as this many additions.
    const PRODUCT: usize = 8;

    pub fn new(units: usize) -> Budget {
        Budget(units)
    }

    pub fn spend(&mut self, units: usize) -> Result<(), TooLarge> {
        self.0 = self.0.checked_sub(units).ok_or(TooLarge)?;
        Ok(())
    }
}

/// Numbers written out at more length than this are nobody's to read.
const MOST_NODES: usize = 5000;

/// Σ coefficient · monomial; no coefficient is 0.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Polynomial {
    terms: BTreeMap<Expr, Rational>,
}

impl Polynomial {
    pub fn constant(c: Rational) -> Polynomial {
        Polynomial::term(c, Expr::one())
    }

    pub fn one() -> Polynomial {
        Polynomial::constant(Rational::one())
    }

    /// The polynomial of a term without inputs, if it is small enough.
    pub fn constant_of(e: &Expr) -> Option<Polynomial> {
        Polynomial::of(e, &mut Budget::new(Budget::USUAL)).ok()
    }

    fn term(c: Rational, monomial: Expr) -> Polynomial {
        let term = (!c.is_zero()).then_some((monomial, c));
        Polynomial { terms: term.into_iter().collect() }
    }

    /// A term without axes, multiplied out.
    pub fn of(e: &Expr, budget: &mut Budget) -> Result<Polynomial, TooLarge> {
        if traverse::tree_size(e) > MOST_NODES {
            return Err(TooLarge);
        }
        match e.op() {
            Op::Const(c) => Ok(Polynomial::constant(c.clone())),
            Op::Add(terms) => terms.iter().try_fold(Polynomial::default(), |mut sum, term| {
                sum.add(Polynomial::of(term, budget)?, budget)?;
                Ok(sum)
            }),
            Op::Mul(factors) => {
                let mut factors = factors.iter();
                factors.try_fold(Polynomial::one(), |product, f| product.times(&Polynomial::of(f, budget)?, budget))
            }
            Op::Pow(base, r) => match (base.op(), r.to_u32().filter(|_| r.is_integer())) {
                (Op::Add(_), Some(n)) => {
                    let base = Polynomial::of(base, budget)?;
                    (0..n).try_fold(Polynomial::one(), |power, _| power.times(&base, budget))
                }
                _ => Ok(Polynomial::term(Rational::one(), e.clone())),
            },
            _ => Ok(Polynomial::term(Rational::one(), e.clone())),
        }
    }

    /// The polynomial as a term of the algebra.
    pub fn to_expr(&self) -> Expr {
        Expr::add(self.terms.iter().map(|(monomial, c)| monomial.scale(c)))
    }

    /// How many terms there are.
    pub fn count(&self) -> usize {
        self.terms.len()
    }

    pub fn is_zero(&self) -> bool {
        self.terms.is_empty()
    }

    pub fn is_one(&self) -> bool {
        self.as_constant().is_some_and(|c| c.is_one())
    }

    /// The number it is, if no symbol occurs in it.
    pub fn as_constant(&self) -> Option<Rational> {
        match self.terms.first_key_value() {
            None => Some(Rational::zero()),
            Some((monomial, c)) => (self.terms.len() == 1 && monomial.is_one()).then(|| c.clone()),
        }
    }

    /// The terms in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&Expr, &Rational)> {
        self.terms.iter()
    }

    pub fn negated(mut self) -> Polynomial {
        self.terms.values_mut().for_each(|c| *c = -std::mem::take(c));
        self
    }

    /// Adds the other to this one.
    pub fn add(&mut self, other: Polynomial, budget: &mut Budget) -> Result<(), TooLarge> {
        budget.spend(other.terms.len() + 1)?;
        if self.is_zero() {
            *self = other;
            return Ok(());
        }
        for (monomial, c) in other.terms {
            self.collect(monomial, c)?;
        }
        Ok(())
    }

    fn collect(&mut self, monomial: Expr, c: Rational) -> Result<(), TooLarge> {
        if bits(&c) > MAX_BITS {
            return Err(TooLarge);
        }
        let total = match self.terms.remove(&monomial) {
            Some(known) => known + c,
            None => c,
        };
        if !total.is_zero() {
            self.terms.insert(monomial, total);
        }
        Ok(())
    }

    pub fn times(&self, other: &Polynomial, budget: &mut Budget) -> Result<Polynomial, TooLarge> {
        let mut product = Polynomial::default();
        for (m, a) in &self.terms {
            for (n, b) in &other.terms {
                budget.spend(Budget::PRODUCT + (bits(a).max(bits(b)) / BITS_A_UNIT) as usize)?;
                let (c, monomial) = match (m.is_one(), n.is_one()) {
                    (true, _) => (Rational::one(), n.clone()),
                    (_, true) => (Rational::one(), m.clone()),
                    _ => m.times(n).split_coefficient(),
                };
                let c = c * a * b;
                if is_monomial(&monomial) {
                    product.collect(monomial, c)?;
                } else {
                    // √(1 + β)·√(1 + β) is a sum again.
                    let sum = Polynomial::of(&monomial, budget)?.times(&Polynomial::constant(c), budget)?;
                    product.add(sum, budget)?;
                }
            }
        }
        Ok(product)
    }

    /// Its value, if no symbol occurs in it but numbers such as √2.
    pub fn value(&self) -> Option<f64> {
        let sizes = Sizes { queries: 1, tokens: 1, head: 1, model: 1, heads: 1 };
        let value = evaluate(&self.to_expr(), &Env::new(sizes)).ok()?;
        value.data.first().copied().filter(|value| value.is_finite())
    }

    /// The terms by total degree, then by the powers of the first symbol, the second, …
    pub fn sorted(&self) -> Vec<Term> {
        let mut terms: Vec<Term> = self
            .terms
            .iter()
            .map(|(monomial, c)| Term { coefficient: c.clone(), powers: powers(monomial), monomial: monomial.clone() })
            .collect();
        let symbols = symbols(&terms);
        let degree = |term: &Term| term.powers.iter().map(|(_, n)| u64::from(*n)).sum::<u64>();
        let exponents = |term: &Term| symbols.iter().map(|symbol| term.exponent(symbol)).collect::<Vec<u32>>();
        terms.sort_by_cached_key(|term| (degree(term), exponents(term)));
        terms
    }
}

/// A term of a polynomial, taken apart.
#[derive(Clone, PartialEq, Debug)]
pub struct Term {
    pub coefficient: Rational,
    pub monomial: Expr,
    /// The symbols of the monomial with their exponents.
    pub powers: Vec<(Expr, u32)>,
}

impl Term {
    pub fn exponent(&self, symbol: &Expr) -> u32 {
        self.powers.iter().find(|(known, _)| known == symbol).map_or(0, |(_, n)| *n)
    }
}

/// The symbols of all terms, in the order of the algebra.
pub fn symbols(terms: &[Term]) -> Vec<Expr> {
    let mut symbols: Vec<Expr> = terms.iter().flat_map(|term| &term.powers).map(|(symbol, _)| symbol.clone()).collect();
    symbols.sort();
    symbols.dedup();
    symbols
}

/// x^(±n/d) is the n-th power of the symbol x^(±1/d).
fn powers(monomial: &Expr) -> Vec<(Expr, u32)> {
    let factors = monomial.factors().into_iter().filter(|factor| !factor.is_one());
    let power = |factor: Expr| match factor.op() {
        Op::Pow(base, r) => match r.numer().abs().to_u32() {
            Some(n) if n > 0 => (base.pow(&(r / rational::int(i64::from(n)))), n),
            _ => (factor, 1),
        },
        _ => (factor, 1),
    };
    factors.map(power).collect()
}

fn bits(c: &Rational) -> u64 {
    c.numer().bits().max(c.denom().bits())
}

/// Whether nothing is left to multiply out.
fn is_monomial(e: &Expr) -> bool {
    let is_sum = |factor: &Expr| match factor.op() {
        Op::Add(_) | Op::Const(_) => true,
        Op::Pow(base, r) => matches!(base.op(), Op::Add(_)) && r.is_integer() && r.is_positive(),
        _ => false,
    };
    match e.op() {
        Op::Mul(factors) => !factors.iter().any(is_sum),
        _ => e.is_one() || !is_sum(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Leaf, Role, Sign};

    fn symbol(ordinal: u16, name: &str) -> Expr {
        Expr::leaf(Leaf::new(Role::Param, ordinal, name, &[], Sign::Positive))
    }

    fn of(e: &Expr) -> Polynomial {
        Polynomial::of(e, &mut Budget::new(10_000)).expect("small")
    }

    #[test]
    fn sums_are_multiplied_out_and_like_terms_collected() {
        let (a, b) = (symbol(0, "a"), symbol(1, "b"));
        let square = a.plus(&b).square();
        let expanded = Expr::add([a.square(), a.times(&b).scale(&rational::int(2)), b.square()]);
        assert_eq!(of(&square), of(&expanded));
        assert_eq!(of(&square).to_expr(), expanded);
        let nothing = square.minus(&expanded);
        assert!(!nothing.is_zero() && of(&nothing).is_zero());
    }

    #[test]
    fn other_terms_are_symbols_until_they_meet() {
        let a = symbol(0, "a");
        let sum = a.plus(&Expr::one());
        let root = of(&sum.sqrt());
        assert_eq!(root.iter().count(), 1);
        let mut budget = Budget::new(1000);
        assert_eq!(root.times(&root, &mut budget), Ok(of(&sum)));
        let two = of(&Expr::int(2).sqrt());
        assert_eq!(two.times(&two, &mut budget), Ok(Polynomial::constant(rational::int(2))));
        assert_eq!(of(&a.over(&a)), Polynomial::one());
    }

    #[test]
    fn terms_are_sorted_by_degree() {
        let (a, b) = (symbol(0, "a"), symbol(1, "b"));
        let polynomial = of(&Expr::add([a.square().times(&b), b.clone(), a.pow(&rational::int(3)), Expr::one()]));
        let shown: Vec<String> = polynomial.sorted().iter().map(|term| term.monomial.to_string()).collect();
        assert_eq!(shown, ["1", "b", "(* b (pow a 2))", "(pow a 3)"]);
    }

    #[test]
    fn growth_is_bounded() {
        let many = Expr::add((0..8).map(|j| symbol(j, &format!("a{j}")))).pow(&rational::int(40));
        assert_eq!(Polynomial::of(&many, &mut Budget::new(100_000)), Err(TooLarge));
        let mut long = Polynomial::constant(rational::ratio(1, 3));
        let squared = (0..20).try_for_each(|_| {
            long = long.times(&long, &mut Budget::new(1000))?;
            Ok(())
        });
        assert_eq!(squared, Err(TooLarge));
    }
}
