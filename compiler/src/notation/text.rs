//! Formulas in Unicode, on one line.

use super::math::{Math, Symbol};
use super::symbol;
use super::write::Writer;
use crate::ir::Expr;

/// A term by itself, every token index written.
pub fn plain(e: &Expr) -> String {
    print(&Writer::default().write(e))
}

/// How tightly a piece holds together; a looser piece inside a tighter place gets parentheses.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Bind {
    Sum,
    Over,
    Product,
    Inner,
    Power,
    Atom,
}

/// The formula as text.
pub fn print(m: &Math) -> String {
    go(m).0
}

fn at(m: &Math, least: Bind) -> String {
    let (text, bind) = go(m);
    if bind < least { format!("({text})") } else { text }
}

fn go(m: &Math) -> (String, Bind) {
    match m {
        Math::Number(r) if r.is_integer() => (r.to_string(), Bind::Atom),
        Math::Number(r) if r.to_string() == "1/2" => ("½".into(), Bind::Atom),
        Math::Number(r) => (r.to_string(), Bind::Product),
        Math::Symbol(s) => (print_symbol(s), Bind::Atom),
        Math::Sum(terms) => (print_terms(terms), Bind::Sum),
        Math::Product(factors) => (print_factors(factors), Bind::Product),
        Math::Fraction(a, b) => {
            if let (Math::Over(..), Math::Over(..)) = (&**a, &**b) {
                return (format!("({})/({})", print(a), print(b)), Bind::Product);
            }
            let below = match &**b {
                Math::Product(_) | Math::Inner(..) => format!("({})", print(b)),
                b => at(b, Bind::Power),
            };
            let above = match &**a {
                Math::Inner(..) => print(a),
                a => at(a, Bind::Product),
            };
            (format!("{above}/{below}"), Bind::Product)
        }
        Math::Power(base, exponent) => {
            let text = print(exponent);
            // tanh²(x)
            if let (Math::Call(name @ "tanh", x), Some(raised)) = (&**base, symbol::superscript(&text)) {
                return (format!("{name}{raised}({})", print(x)), Bind::Atom);
            }
            let base = at(base, Bind::Atom);
            let text = match symbol::superscript(&text) {
                Some(raised) => format!("{base}{raised}"),
                None if text.chars().count() == 1 => format!("{base}^{text}"),
                None => format!("{base}^({text})"),
            };
            (text, Bind::Power)
        }
        Math::Inner(a, b) => (format!("{}·{}", at(a, Bind::Power), at(b, Bind::Power)), Bind::Inner),
        Math::Outer(a, b) => (format!("{} {}ᵀ", at(a, Bind::Power), at(b, Bind::Atom)), Bind::Product),
        Math::Elementwise(xs) => {
            let parts: Vec<String> = xs.iter().map(|x| at(x, Bind::Inner)).collect();
            (parts.join(" ⊙ "), Bind::Product)
        }
        Math::Norm(x, None) => (format!("‖{}‖", print(x)), Bind::Atom),
        Math::Norm(x, Some(p)) => {
            let p = p.to_string();
            (format!("‖{}‖{}", print(x), symbol::subscript(&p).unwrap_or(format!("_{{{p}}}"))), Bind::Atom)
        }
        Math::Abs(x) => (format!("|{}|", print(x)), Bind::Atom),
        Math::Root(x) => (format!("√{}", at(x, Bind::Atom)), Bind::Power),
        Math::Exp(x) => (format!("exp({})", print(x)), Bind::Atom),
        Math::Call("log", x) => match &**x {
            Math::Over(..) => (format!("log {}", print(x)), Bind::Over),
            x => (format!("log({})", print(x)), Bind::Atom),
        },
        Math::Call(name, x) => (format!("{name}({})", print(x)), Bind::Atom),
        Math::Over(symbol, index, body) => {
            let body = at(body, Bind::Over);
            (format!("{symbol}_{index} {body}"), Bind::Over)
        }
        Math::Cases { left, right, then, otherwise } => {
            let text = format!("{} if {} ≤ {}, else {}", print(then), print(left), print(right), print(otherwise));
            (format!("{{ {text} }}"), Bind::Atom)
        }
        Math::Positive(x) => (format!("[{}]₊", print(x)), Bind::Atom),
        Math::Pseudoinverse(x) => (format!("{}⁺", at(x, Bind::Atom)), Bind::Power),
        Math::Transposed(x) => (format!("{}ᵀ", at(x, Bind::Atom)), Bind::Power),
        Math::Entry(x, index) => (format!("{}_{index}", at(x, Bind::Atom)), Bind::Atom),
    }
}

fn print_terms(terms: &[(bool, Math)]) -> String {
    let mut out = String::new();
    for (j, (minus, term)) in terms.iter().enumerate() {
        out.push_str(match (j, minus) {
            (0, false) => "",
            (0, true) => "−",
            (_, false) => " + ",
            (_, true) => " − ",
        });
        // A Σ swallows what follows it, so it needs parentheses unless it comes last.
        let is_last = j + 1 == terms.len();
        out.push_str(&match (ends_open(term), is_last) {
            (true, false) => format!("({})", print(term)),
            _ => at(term, Bind::Over),
        });
    }
    out
}

/// Whether a formula ends in a Σ (or log Σ) whose body is a sum of its own reach.
fn ends_open(m: &Math) -> bool {
    match m {
        Math::Over(_, _, body) => ends_open(body),
        Math::Product(factors) => factors.last().is_some_and(ends_open),
        _ => false,
    }
}

/// Whether a factor is sure to be a matrix: what it is multiplied by has to be told apart from what comes after that.
fn is_matrix(m: &Math) -> bool {
    match m {
        Math::Transposed(_) | Math::Pseudoinverse(_) | Math::Outer(..) => true,
        Math::Sum(terms) => terms.iter().any(|(_, term)| is_matrix(term)),
        Math::Over(_, _, body) => is_matrix(body),
        Math::Product(factors) => factors.last().is_some_and(is_matrix),
        // Numbers are divided by.
        Math::Power(_, exponent) => matches!(&**exponent, Math::Sum(terms) if matches!(terms.as_slice(), [(true, _)])),
        _ => false,
    }
}

fn print_factors(factors: &[Math]) -> String {
    let parts: Vec<String> = factors
        .iter()
        .enumerate()
        .map(|(j, f)| {
            let is_last = j + 1 == factors.len();
            match f {
                Math::Over(..) | Math::Call("log", _) if is_last => at(f, Bind::Over),
                Math::Fraction(..) if factors.len() > 1 => format!("({})", print(f)),
                Math::Number(r) if !r.is_integer() && r.to_string() != "1/2" => format!("({r})"),
                Math::Elementwise(_) | Math::Outer(..) if is_last && !(j > 0 && is_matrix(&factors[j - 1])) => {
                    at(f, Bind::Product)
                }
                Math::Elementwise(_) | Math::Outer(..) => format!("({})", print(f)),
                Math::Inner(..) => format!("({})", print(f)),
                f => at(f, Bind::Power),
            }
        })
        .collect();
    let mut out = String::new();
    for (j, part) in parts.iter().enumerate() {
        // A number sits close to what it multiplies.
        let follows = |c: char| c.is_ascii_digit() || c == 'Σ' || c == '(';
        let is_call = matches!(factors[j], Math::Call(..));
        let tight = j > 0 && matches!(factors[j - 1], Math::Number(_)) && !is_call && !part.starts_with(follows);
        if j > 0 && !tight {
            out.push(' ');
        }
        out.push_str(part);
    }
    out
}

fn print_symbol(s: &Symbol) -> String {
    let (base, own) = symbol::unicode(&s.name);
    let mut text = base;
    if s.bar {
        text.push('\u{304}');
    }
    if s.hat {
        text.push('\u{302}');
    }
    let mut indices: Vec<String> = s.indices.clone();
    if let Some(own) = own {
        match symbol::subscript(&own) {
            Some(digits) => text.push_str(&digits),
            None => indices.insert(0, own),
        }
    }
    match indices.len() {
        0 => text,
        1 if indices[0].chars().count() <= 2 => format!("{text}_{}", indices[0]),
        _ => format!("{text}_{{{}}}", indices.join(",")),
    }
}
