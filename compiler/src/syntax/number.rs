//! Number literals as exact rationals, with the bounds that keep later arithmetic small.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, Zero, pow};

/// Longer literals are refused before any arithmetic.
const MAX_CHARACTERS: usize = 100;

/// Nonzero values lie between 10^-300 and 10^300, well inside what a double holds.
const MAX_EXPONENT: usize = 300;

/// The value of a decimal literal, or what is wrong with it.
pub fn parse_number(text: &str) -> Result<BigRational, String> {
    if text.len() > MAX_CHARACTERS {
        return Err(format!("a number may have at most {MAX_CHARACTERS} characters"));
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction: String = digits(fraction)?;
    let all = digits(whole)? + &fraction;
    let integer: BigInt = all.parse().map_err(|_| "a number starts with a digit".to_string())?;
    let value = scale(integer, exponent - fraction.len() as i64);
    in_range(&value)
        .then_some(value)
        .ok_or_else(|| format!("numbers lie between 1e-{MAX_EXPONENT} and 1e{MAX_EXPONENT}"))
}

/// The digits without `_`; a suffix or another base ends up here.
fn digits(text: &str) -> Result<String, String> {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    if digits.chars().all(|c| c.is_ascii_digit()) {
        Ok(digits)
    } else {
        Err("numbers are decimal and have no suffix".to_string())
    }
}

fn parse_exponent(text: &str) -> Result<i64, String> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits(rest)?;
    if digits.is_empty() {
        return Err("the exponent has no digits".to_string());
    }
    let size: i64 = digits
        .parse()
        .ok()
        .filter(|size| *size <= MAX_EXPONENT as i64)
        .ok_or_else(|| format!("exponents go from -{MAX_EXPONENT} to {MAX_EXPONENT}"))?;
    Ok(if negative { -size } else { size })
}

fn power_of_ten(exponent: usize) -> BigInt {
    pow(BigInt::from(10), exponent)
}

fn scale(integer: BigInt, exponent: i64) -> BigRational {
    let size = exponent.unsigned_abs() as usize;
    if exponent < 0 {
        BigRational::new(integer, power_of_ten(size))
    } else {
        BigRational::from_integer(integer * power_of_ten(size))
    }
}

fn in_range(value: &BigRational) -> bool {
    let largest = BigRational::from_integer(power_of_ten(MAX_EXPONENT));
    value.is_zero() || (value.abs() <= largest && value.abs() >= largest.recip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<(i64, i64), &str>) {
        let expect = expect.map(|(top, bottom)| BigRational::new(top.into(), bottom.into())).map_err(str::to_string);
        assert_eq!(parse_number(text), expect, "{text}");
    }

    #[test]
    fn values_are_exact() {
        check("1", Ok((1, 1)));
        check("1_000", Ok((1000, 1)));
        check("0.1", Ok((1, 10)));
        check("2.", Ok((2, 1)));
        check("1.5e-3", Ok((3, 2000)));
        check("1E+2", Ok((100, 1)));
        check("0e300", Ok((0, 1)));
    }

    #[test]
    fn the_rest_is_refused() {
        let suffix = Err("numbers are decimal and have no suffix");
        check("1f32", suffix);
        check("0x10", suffix);
        check("1u8", suffix);
        check("1e", Err("the exponent has no digits"));
        check("1e301", Err("exponents go from -300 to 300"));
        check("1e99999999999999999999", Err("exponents go from -300 to 300"));
        check("11e300", Err("numbers lie between 1e-300 and 1e300"));
        check(&"1".repeat(101), Err("a number may have at most 100 characters"));
    }
}
