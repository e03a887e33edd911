//! Weights in the syntax of the recipe language, multiplied out and sorted: what another program reads.

use super::polynomial::Polynomial;
use crate::ir::{Expr, Func, Op, Rational, rational};
use num_traits::{One, Signed};

/// The polynomial as an expression of the language, such as `eta + beta*eta`.
pub fn print(polynomial: &Polynomial) -> String {
    let terms: Vec<(Rational, Expr)> =
        polynomial.sorted().into_iter().map(|term| (term.coefficient, term.monomial)).collect();
    sum(&terms)
}

fn sum(terms: &[(Rational, Expr)]) -> String {
    let mut out = String::new();
    for (j, (c, monomial)) in terms.iter().enumerate() {
        out.push_str(match (j, c.is_negative()) {
            (0, false) => "",
            (0, true) => "-",
            (_, false) => " + ",
            (_, true) => " - ",
        });
        out.push_str(&term(&c.abs(), monomial));
    }
    if out.is_empty() { "0".to_string() } else { out }
}

fn term(c: &Rational, monomial: &Expr) -> String {
    match (c.is_one(), monomial.is_one()) {
        (_, true) => c.to_string(),
        (true, _) => product(monomial),
        _ => format!("{c}*{}", product(monomial)),
    }
}

fn product(monomial: &Expr) -> String {
    let factors: Vec<String> = in_order(monomial).iter().map(factor).collect();
    factors.join("*")
}

/// The factors by what is raised, not by the power.
pub fn in_order(monomial: &Expr) -> Vec<Expr> {
    let mut factors = monomial.factors();
    factors.sort_by_key(|factor| match factor.op() {
        Op::Pow(base, _) => base.clone(),
        _ => factor.clone(),
    });
    factors
}

fn factor(e: &Expr) -> String {
    match e.op() {
        Op::Pow(base, r) if *r == rational::ratio(1, 2) => format!("sqrt({})", any(base)),
        Op::Pow(base, r) if r.is_integer() && r.is_positive() => format!("{}^{r}", tight(base)),
        Op::Pow(base, r) => format!("{}^({r})", tight(base)),
        _ => tight(e),
    }
}

/// What can be raised to a power or multiplied.
fn tight(e: &Expr) -> String {
    match e.op() {
        Op::Leaf(leaf) => leaf.name.to_string(),
        Op::Call(Func::TanhSlope, x) => format!("(1 - tanh({})^2)", any(x)),
        Op::Call(Func::LogCosh, x) => format!("log(cosh({}))", any(x)),
        Op::Call(func, x) => format!("{}({})", func.name(), any(x)),
        Op::Const(c) if c.is_integer() && !c.is_negative() => c.to_string(),
        _ => format!("({})", any(e)),
    }
}

/// Any term without axes.
fn any(e: &Expr) -> String {
    match e.op() {
        Op::Add(terms) => sum(&terms.iter().map(Expr::split_coefficient).collect::<Vec<_>>()),
        Op::Select(parts) => {
            let [a, b, x, y] = [0, 1, 2, 3].map(|j| any(&parts[j]));
            format!("if {a} <= {b} {{ {x} }} else {{ {y} }}")
        }
        Op::Const(_) | Op::Mul(_) => sum(&[e.split_coefficient()]),
        Op::Pow(..) => factor(e),
        Op::Leaf(_) | Op::Call(..) => tight(e),
        // The language has no such numbers.
        Op::Weights(..) | Op::SmoothMax(..) | Op::Solve(_) | Op::Sum(..) => e.to_string(),
    }
}
