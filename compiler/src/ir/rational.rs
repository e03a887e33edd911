//! Exact rational constants.

use num_integer::Integer;
pub use num_rational::BigRational as Rational;
use num_traits::{One, Signed, ToPrimitive, Zero};
use std::cmp::Ordering;

pub fn int(n: i64) -> Rational {
    Rational::from_integer(n.into())
}

pub fn ratio(n: i64, d: i64) -> Rational {
    Rational::new(n.into(), d.into())
}

pub fn to_f64(r: &Rational) -> f64 {
    r.to_f64().unwrap_or(f64::NAN)
}

/// Whether two numbers in lowest terms are the same, which takes no division.
pub fn same(a: &Rational, b: &Rational) -> bool {
    a.numer() == b.numer() && a.denom() == b.denom()
}

/// The order of two numbers, by products where those are small.
pub fn compare(a: &Rational, b: &Rational) -> Ordering {
    if a.denom() == b.denom() {
        return a.numer().cmp(b.numer());
    }
    let parts = [a.numer(), b.denom(), b.numer(), a.denom()].map(|part| part.to_i64().map(i128::from));
    match parts {
        [Some(p), Some(q), Some(r), Some(s)] => (p * q).cmp(&(r * s)),
        _ => a.cmp(b),
    }
}

pub fn is_even_integer(r: &Rational) -> bool {
    r.is_integer() && (r.numer() % num_bigint::BigInt::from(2)).is_zero()
}

/// Largest exponent a constant is raised to exactly.
const MAX_FOLDED_POWER: i32 = 64;

/// c^r when it is an exact rational of reasonable size; the total power's 0^r = 0 included.
pub fn exact_power(c: &Rational, r: &Rational) -> Option<Rational> {
    if c.is_zero() {
        return Some(Rational::zero());
    }
    if c.is_one() {
        return Some(Rational::one());
    }
    if r.is_integer() {
        let n = r.to_i32().filter(|n| n.abs() <= MAX_FOLDED_POWER)?;
        return (c.numer().bits().max(c.denom().bits()) <= 256).then(|| c.pow(n));
    }
    // A perfect power such as 4^(1/2).
    let (root, n) = (r.denom().to_u32()?, r.numer().to_i32()?);
    if c.is_negative() || root > 64 || n.abs() > MAX_FOLDED_POWER {
        return None;
    }
    let (num, den) = (c.numer().nth_root(root), c.denom().nth_root(root));
    let exact = num.pow(root) == *c.numer() && den.pow(root) == *c.denom();
    exact.then(|| Rational::new(num, den).pow(n))
}

/// Bits up to which a common denominator is looked for.
const MAX_DENOMINATOR: u64 = 64;

/// The positive rational g for which all c/g are integers without a common divisor; 1 where those would be so long that
/// they leave the range of floating-point numbers when sums are nested.
pub fn content(coefficients: &[Rational]) -> Rational {
    let mut denominator = num_bigint::BigInt::one();
    for c in coefficients {
        denominator = denominator.lcm(c.denom());
        if denominator.bits().max(c.numer().bits()) > MAX_DENOMINATOR {
            return Rational::one();
        }
    }
    let numerator = coefficients.iter().fold(num_bigint::BigInt::zero(), |g, c| g.gcd(c.numer()));
    if numerator.is_zero() { Rational::one() } else { Rational::new(numerator, denominator).abs() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_equality_are_those_of_the_numbers() {
        let huge = || int(i64::MAX).pow(3);
        let all =
            [huge().recip(), ratio(-7, 3), ratio(1, 2), ratio(2, 4), ratio(2, 3), int(0), int(5), huge(), -huge()];
        for a in &all {
            for b in &all {
                assert_eq!((compare(a, b), same(a, b)), (a.cmp(b), a == b), "{a} {b}");
            }
        }
    }

    #[test]
    fn long_numbers_have_no_content() {
        assert_eq!(content(&[ratio(2, 3), ratio(-4, 9)]), ratio(2, 9));
        let long = ratio(1, i64::MAX).pow(3);
        assert_eq!(content(&[long.clone(), ratio(2, 3)]), int(1));
        assert_eq!(content(&[long]), int(1));
    }
}
