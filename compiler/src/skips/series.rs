//! Weights for people: terms that differ only in the power of one symbol are brought together, so that the geometric
//! sums of a momentum show as what they are, `η(1 + β + β²)`.

use super::language;
use super::polynomial::{Polynomial, Term, symbols};
use crate::ir::{Expr, Op, Rational, rational};
use crate::notation::{Writer, latex, text};
use num_traits::{One, Signed};

/// coefficient · monomial · Σ c symbol^n, the content of the sum taken out.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    pub coefficient: Rational,
    pub monomial: Expr,
    pub symbol: Expr,
    /// The coefficients with the exponents, ascending, the first exponent 0.
    pub terms: Vec<(Rational, u32)>,
}

impl Series {
    /// Whether the sum is 1 + x + … + x^n.
    fn is_geometric(&self) -> bool {
        self.terms.iter().zip(0..).all(|((c, n), expected)| c.is_one() && *n == expected)
    }
}

/// The polynomial as a sum of series in the symbol that leaves the fewest of them.
pub fn series(polynomial: &Polynomial) -> Vec<Series> {
    let terms = polynomial.sorted();
    let groups = symbols(&terms).into_iter().map(|symbol| group(&terms, &symbol));
    let fewest = groups.reduce(|best, next| if next.len() < best.len() { next } else { best });
    fewest.unwrap_or_else(|| group(&terms, &Expr::one()))
}

/// The terms by what is left of them without the symbol, in the order of their first terms.
fn group(terms: &[Term], symbol: &Expr) -> Vec<Series> {
    let mut groups: Vec<(Expr, Vec<(Rational, u32)>)> = Vec::new();
    for term in terms {
        let rest = term.powers.iter().filter(|(known, _)| known != symbol);
        let rest = Expr::mul(rest.map(|(known, n)| power(known, *n)));
        let entry = (term.coefficient.clone(), term.exponent(symbol));
        match groups.iter_mut().find(|(known, _)| *known == rest) {
            Some((_, entries)) => entries.push(entry),
            None => groups.push((rest, vec![entry])),
        }
    }
    groups.into_iter().map(|(rest, entries)| taken_out(rest, symbol, entries)).collect()
}

fn taken_out(rest: Expr, symbol: &Expr, mut entries: Vec<(Rational, u32)>) -> Series {
    entries.sort_by_key(|(_, n)| *n);
    let coefficients: Vec<Rational> = entries.iter().map(|(c, _)| c.clone()).collect();
    let (sign, least) = entries.first().map_or((rational::int(1), 0), |(c, n)| (c.signum(), *n));
    let coefficient = rational::content(&coefficients) * sign;
    let terms = entries.into_iter().map(|(c, n)| (c / &coefficient, n - least)).collect();
    Series { coefficient, monomial: rest.times(&power(symbol, least)), symbol: symbol.clone(), terms }
}

fn power(symbol: &Expr, n: u32) -> Expr {
    symbol.pow(&rational::int(i64::from(n)))
}

/// Room for a weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spacing {
    /// A line of text.
    Wide,
    /// A label in a figure: no spaces, long sums cut.
    Narrow,
}

impl Spacing {
    /// A geometric sum of more terms shows its beginning and its end.
    fn most_terms(self) -> usize {
        match self {
            Spacing::Wide => 6,
            Spacing::Narrow => 4,
        }
    }

    fn sign(self, is_minus: bool) -> &'static str {
        match (self, is_minus) {
            (Spacing::Wide, false) => " + ",
            (Spacing::Wide, true) => " − ",
            (Spacing::Narrow, false) => "+",
            (Spacing::Narrow, true) => "−",
        }
    }
}

/// The weight in Unicode.
pub fn unicode(polynomial: &Polynomial, spacing: Spacing) -> String {
    let parts = series(polynomial).into_iter().map(|series| {
        let monomial = (!series.monomial.is_one()).then(|| product(&series.monomial));
        let is_bare = monomial.is_none() && series.coefficient.is_one();
        let body = (series.terms.len() > 1).then(|| match unicode_sum(&series, spacing) {
            sum if is_bare => sum,
            sum => format!("({sum})"),
        });
        let number = match (series.coefficient.abs(), monomial.is_some() || body.is_some()) {
            (c, true) if c.is_one() => String::new(),
            (c, true) if !c.is_integer() => format!("({c})"),
            (c, _) => c.to_string(),
        };
        let product = format!("{number}{}{}", monomial.unwrap_or_default(), body.unwrap_or_default());
        (series.coefficient.is_negative(), product)
    });
    joined(parts.collect(), "−", |is_minus| spacing.sign(is_minus))
}

/// The factors in the order of what is raised; a fraction as such.
fn product(monomial: &Expr) -> String {
    let is_power = |factor: &Expr| !matches!(factor.op(), Op::Pow(_, r) if r.is_negative());
    let factors = language::in_order(monomial);
    match factors.iter().all(is_power) {
        true => factors.iter().map(text::plain).collect::<Vec<_>>().join(" "),
        false => text::plain(monomial),
    }
}

fn unicode_sum(series: &Series, spacing: Spacing) -> String {
    let term = |(c, n): &(Rational, u32)| {
        let number = if c.abs().is_one() && *n > 0 { String::new() } else { c.abs().to_string() };
        let power = if *n > 0 { text::plain(&power(&series.symbol, *n)) } else { String::new() };
        (c.is_negative(), format!("{number}{power}"))
    };
    let mut parts: Vec<(bool, String)> = series.terms.iter().map(term).collect();
    if series.is_geometric() && parts.len() > spacing.most_terms() {
        parts.splice(2..parts.len() - 1, [(false, "…".to_string())]);
    }
    joined(parts, "−", |is_minus| spacing.sign(is_minus))
}

/// The weight in LaTeX.
pub fn in_latex(polynomial: &Polynomial) -> String {
    let parts = series(polynomial).into_iter().map(|series| {
        let monomial = (!series.monomial.is_one()).then(|| formula(&series.monomial));
        let body = (series.terms.len() > 1).then(|| latex_sum(&series));
        let number = match (series.coefficient.abs(), monomial.is_some() || body.is_some()) {
            (c, true) if c.is_one() => None,
            (c, _) => Some(formula(&Expr::constant(c))),
        };
        let factors: Vec<String> = [number, monomial, body].into_iter().flatten().collect();
        (series.coefficient.is_negative(), factors.join(r"\, "))
    });
    joined(parts.collect(), "-", |is_minus| if is_minus { " - " } else { " + " })
}

/// More terms of a geometric sum are a Σ.
const MOST_LATEX_TERMS: usize = 4;

fn latex_sum(series: &Series) -> String {
    if series.is_geometric() && series.terms.len() > MOST_LATEX_TERMS {
        let (symbol, last) = (formula(&series.symbol), series.terms.len() - 1);
        let symbol = if series.symbol.as_leaf().is_some() { symbol } else { format!(r"\left( {symbol} \right)") };
        return format!(r"\sum_{{n=0}}^{{{last}}} {symbol}^n");
    }
    let term = |(c, n): &(Rational, u32)| (c.is_negative(), formula(&power(&series.symbol, *n).scale(&c.abs())));
    let sum = joined(series.terms.iter().map(term).collect(), "-", |is_minus| if is_minus { " - " } else { " + " });
    format!(r"\left( {sum} \right)")
}

fn formula(e: &Expr) -> String {
    latex::print(&Writer::default().write(e))
}

/// Signed parts one after the other; nothing is 0.
fn joined(parts: Vec<(bool, String)>, minus: &str, sign: impl Fn(bool) -> &'static str) -> String {
    let mut out = String::new();
    for (j, (is_minus, part)) in parts.iter().enumerate() {
        match (j, is_minus) {
            (0, true) => out.push_str(minus),
            (0, false) => {}
            _ => out.push_str(sign(*is_minus)),
        }
        out.push_str(part);
    }
    if out.is_empty() { "0".to_string() } else { out }
}

/// The weight as a number where it is one and numbers are wanted, otherwise in Unicode.
pub fn shown(polynomial: &Polynomial, as_number: bool, spacing: Spacing) -> String {
    let value = as_number.then(|| polynomial.value()).flatten();
    value.map_or_else(|| unicode(polynomial, spacing), rounded)
}

/// A number with four significant digits.
pub fn rounded(value: f64) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    if !(1e-3..1e5).contains(&value.abs()) {
        return format!("{value:.3e}").replace('-', "−");
    }
    let decimals = (3 - value.abs().log10().floor() as i32).max(0) as usize;
    let digits = format!("{value:.decimals$}");
    let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
    digits.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::super::polynomial::Budget;
    use super::*;
    use crate::ir::{Leaf, Role, Sign};

    fn symbol(ordinal: u16, name: &str) -> Expr {
        Expr::leaf(Leaf::new(Role::Param, ordinal, name, &[], Sign::Positive))
    }

    #[track_caller]
    fn check(e: &Expr, wide: &str, narrow: &str, latex: &str) {
        let polynomial = Polynomial::of(e, &mut Budget::new(10_000)).expect("small");
        assert_eq!(unicode(&polynomial, Spacing::Wide), wide);
        assert_eq!(unicode(&polynomial, Spacing::Narrow), narrow);
        assert_eq!(in_latex(&polynomial), latex);
    }

    #[test]
    fn geometric_sums_are_recognized() {
        let (beta, eta) = (symbol(0, "beta"), symbol(1, "eta"));
        let sum = |n: i64| Expr::add((0..n).map(|j| beta.pow(&rational::int(j))));
        check(&eta.times(&sum(2)), "η(1 + β)", "η(1+β)", r"\eta\, \left( 1 + \beta \right)");
        let ahead = eta.times(&sum(3)).plus(&beta.pow(&rational::int(3)));
        let latex = r"\eta\, \left( 1 + \beta + \beta^{2} \right) + \beta^{3}";
        check(&ahead, "η(1 + β + β²) + β³", "η(1+β+β²)+β³", latex);
        let long = r"\eta\, \sum_{n=0}^{6} \beta^n";
        check(&eta.times(&sum(7)), "η(1 + β + … + β⁶)", "η(1+β+…+β⁶)", long);
    }

    #[test]
    fn other_sums_keep_their_signs_and_numbers() {
        let (beta, eta) = (symbol(0, "beta"), symbol(1, "eta"));
        let decay = eta.times(&Expr::one().minus(&beta).square());
        check(&decay, "η(1 − 2β + β²)", "η(1−2β+β²)", r"\eta\, \left( 1 - 2\, \beta + \beta^{2} \right)");
        let both = eta.times(&beta.square()).minus(&Expr::one());
        check(&both, "−1 + β² η", "−1+β² η", r"-1 + \eta\, \beta^{2}");
        check(&Expr::zero(), "0", "0", "0");
        check(&Expr::constant(rational::ratio(-3, 2)), "−3/2", "−3/2", r"-\tfrac{3}{2}");
    }

    #[test]
    fn numbers_have_four_digits() {
        let shown = [0.0, 1.0, 1.22, 2.0 / 3.0, -0.012345, 12345.6, 1e-9].map(rounded);
        assert_eq!(shown, ["0", "1", "1.22", "0.6667", "−0.01235", "12346", "1.000e−9"]);
    }
}
