//! Formulas in LaTeX (amsmath).

use super::math::{Math, Symbol};
use super::symbol;

/// The formula as LaTeX, without dollar signs.
pub fn print(m: &Math) -> String {
    match m {
        Math::Number(r) if r.is_integer() => r.to_string(),
        Math::Number(r) => format!(r"\tfrac{{{}}}{{{}}}", r.numer(), r.denom()),
        Math::Symbol(s) => print_symbol(s),
        Math::Sum(terms) => print_terms(terms),
        Math::Product(factors) => {
            let last = factors.len().saturating_sub(1);
            let parts = factors.iter().enumerate().map(|(j, f)| match f {
                // A Σ reaches as far as the product goes.
                Math::Over(..) | Math::Call("log", _) if j < last => parenthesized(f),
                f => factor(f),
            });
            parts.collect::<Vec<_>>().join(r"\, ")
        }
        Math::Fraction(a, b) => format!(r"\frac{{{}}}{{{}}}", print(a), print(b)),
        Math::Power(base, exponent) => match &**base {
            Math::Call(name @ "tanh", x) => {
                format!(r"{}^{{{}}}\left( {} \right)", function(name), print(exponent), print(x))
            }
            base => format!("{}^{{{}}}", tight(base), print(exponent)),
        },
        Math::Inner(a, b) => format!(r"{}^\top {}", tight(a), tight(b)),
        Math::Outer(a, b) => format!(r"{} {}^\top", tight(a), tight(b)),
        Math::Elementwise(xs) => xs.iter().map(factor).collect::<Vec<_>>().join(r" \odot "),
        Math::Norm(x, None) => format!(r"\lVert {} \rVert", print(x)),
        Math::Norm(x, Some(p)) => format!(r"\lVert {} \rVert_{{{p}}}", print(x)),
        Math::Abs(x) => format!(r"\lvert {} \rvert", print(x)),
        Math::Root(x) => format!(r"\sqrt{{{}}}", print(x)),
        Math::Exp(x) => format!(r"e^{{{}}}", print(x)),
        Math::Call("log", x) => match &**x {
            Math::Over(..) => format!(r"\log {}", print(x)),
            x => format!(r"\log \left( {} \right)", print(x)),
        },
        Math::Call(name, x) => format!(r"{}\left( {} \right)", function(name), print(x)),
        Math::Over(symbol, index, body) => {
            let symbol = match *symbol {
                "Σ" => r"\sum",
                "max" => r"\max",
                "min" => r"\min",
                other => other,
            };
            let body = match &**body {
                Math::Sum(terms) if terms.len() > 1 => parenthesized(body),
                body => print(body),
            };
            format!("{symbol}_{{{index}}} {body}")
        }
        Math::Cases { left, right, then, otherwise } => format!(
            r"\begin{{cases}} {} & {} \le {} \\ {} & \text{{otherwise}} \end{{cases}}",
            print(then),
            print(left),
            print(right),
            print(otherwise)
        ),
        Math::Positive(x) => format!(r"\left[ {} \right]_+", print(x)),
        Math::Pseudoinverse(x) => format!("{}^+", tight(x)),
        Math::Transposed(x) => format!(r"{}^\top", tight(x)),
        Math::Entry(x, index) => format!("{}_{{{index}}}", tight(x)),
    }
}

/// A function by its command, or by its name.
fn function(name: &str) -> String {
    match name {
        "σ" => r"\sigma".to_string(),
        "tanh" => r"\tanh".to_string(),
        "log cosh" => r"\log\cosh".to_string(),
        name => format!(r"\operatorname{{{name}}}"),
    }
}

fn parenthesized(m: &Math) -> String {
    format!(r"\left( {} \right)", print(m))
}

/// A piece that takes a superscript or stands in an inner product.
fn tight(m: &Math) -> String {
    match m {
        Math::Symbol(_) | Math::Norm(..) | Math::Abs(_) | Math::Positive(_) => print(m),
        Math::Number(r) if r.is_integer() => print(m),
        _ => parenthesized(m),
    }
}

fn factor(m: &Math) -> String {
    match m {
        Math::Sum(_) | Math::Elementwise(_) | Math::Inner(..) => parenthesized(m),
        _ => print(m),
    }
}

fn print_terms(terms: &[(bool, Math)]) -> String {
    let mut out = String::new();
    for (j, (minus, term)) in terms.iter().enumerate() {
        out.push_str(match (j, minus) {
            (0, false) => "",
            (0, true) => "-",
            (_, false) => " + ",
            (_, true) => " - ",
        });
        out.push_str(&if matches!(term, Math::Sum(_)) { parenthesized(term) } else { print(term) });
    }
    out
}

fn print_symbol(s: &Symbol) -> String {
    let (base, own) = symbol::latex(&s.name);
    let base = match (s.bar, s.hat) {
        (true, _) => format!(r"\bar{{{base}}}"),
        (_, true) => format!(r"\hat{{{base}}}"),
        _ => base,
    };
    let index = |i: &String| if i.is_ascii() { i.clone() } else { symbol::latex(i).0 };
    let indices: Vec<String> = own.into_iter().chain(s.indices.iter().map(index)).collect();
    if indices.is_empty() { base } else { format!("{base}_{{{}}}", indices.join(",")) }
}
