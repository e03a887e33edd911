//! Patterns: the two sides of a rewrite rule, as data.
//!
//! A pattern is an s-expression over the operations of the algebra with `?variables`. The same text serves the e-graph
//! (which matches it) and the proof checker (which only instantiates it), so neither trusts the other.

use crate::ir::{Axis, Entropy, Expr, Rational};
use num_traits::One;
use std::collections::BTreeMap;
use std::fmt;

/// One side of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    Variable(String),
    Number(Rational),
    Kind(Entropy),
    /// A term without variables, as assumptions about particular inputs have.
    Ground(Expr),
    Node(String, Vec<Pattern>),
}

/// What a variable stands for; which it is follows from where the variable occurs.
#[derive(Clone, Debug, PartialEq)]
pub enum Binding {
    Term(Expr),
    Axis(Axis),
    Kind(Entropy),
    Number(Rational),
}

pub type Bindings = BTreeMap<String, Binding>;

impl Pattern {
    /// Parses a pattern; the rule table is the only caller, so a mistake there is a failed test.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ");
        let mut tokens = spaced.split_whitespace().peekable();
        let pattern = parse_tokens(&mut tokens, 0)?;
        match tokens.next() {
            None => Ok(pattern),
            Some(extra) => Err(format!("unexpected `{extra}` after the pattern `{text}`")),
        }
    }

    /// The variables, in order of first occurrence.
    pub fn variables(&self) -> Vec<&str> {
        let mut found = Vec::new();
        self.visit_variables(&mut |v| {
            if !found.contains(&v) {
                found.push(v)
            }
        });
        found
    }

    fn visit_variables<'a>(&'a self, f: &mut impl FnMut(&'a str)) {
        match self {
            Pattern::Variable(v) => f(v),
            Pattern::Node(_, args) => args.iter().for_each(|a| a.visit_variables(f)),
            _ => {}
        }
    }

    /// The term the pattern becomes when its variables are bound.
    pub fn instantiate(&self, bindings: &Bindings) -> Result<Expr, String> {
        match self {
            Pattern::Variable(v) => match bindings.get(v) {
                Some(Binding::Term(e)) => Ok(e.clone()),
                Some(Binding::Number(r)) => Ok(Expr::constant(r.clone())),
                _ => Err(format!("variable {v} is not bound to a term")),
            },
            Pattern::Number(r) => Ok(Expr::constant(r.clone())),
            Pattern::Ground(e) => Ok(e.clone()),
            Pattern::Kind(_) => Err("an entropy is not a term".into()),
            Pattern::Node(head, args) => {
                let term = |i: usize| args[i].instantiate(bindings);
                let axis = |i: usize| args[i].axis(bindings);
                Ok(match head.as_str() {
                    "+" => Expr::add([term(0)?, term(1)?]),
                    "*" => Expr::mul([term(0)?, term(1)?]),
                    "pow" => term(0)?.pow(&args[1].number(bindings)?),
                    "select" => Expr::select(&term(0)?, &term(1)?, &term(2)?, &term(3)?),
                    "sum" => Expr::sum(axis(0)?, &term(1)?),
                    "smoothmax" => Expr::smoothmax(&args[0].kind(bindings)?, axis(1)?, &term(2)?),
                    "weights" => Expr::weights(&args[0].kind(bindings)?, axis(1)?, &term(2)?),
                    head => match head.parse() {
                        Ok(func) => Expr::call(func, &term(0)?),
                        Err(()) => return Err(format!("unknown operation `{head}`")),
                    },
                })
            }
        }
    }

    fn axis(&self, bindings: &Bindings) -> Result<Axis, String> {
        match self {
            Pattern::Variable(v) => match bindings.get(v) {
                Some(Binding::Axis(axis)) => Ok(*axis),
                _ => Err(format!("variable {v} is not bound to an axis")),
            },
            _ => Err("an axis position holds no axis".into()),
        }
    }
    fn kind(&self, bindings: &Bindings) -> Result<Entropy, String> {
        match self {
            Pattern::Kind(kind) => Ok(kind.clone()),
            Pattern::Variable(v) => match bindings.get(v) {
                Some(Binding::Kind(kind)) => Ok(kind.clone()),
                _ => Err(format!("variable {v} is not bound to an entropy")),
            },
            _ => Err("an entropy position holds no entropy".into()),
        }
    }
    fn number(&self, bindings: &Bindings) -> Result<Rational, String> {
        match self {
            Pattern::Number(r) => Ok(r.clone()),
            Pattern::Variable(v) => match bindings.get(v) {
                Some(Binding::Number(r)) => Ok(r.clone()),
                Some(Binding::Term(e)) => e.as_const().cloned().ok_or(format!("variable {v} is not a number")),
                _ => Err(format!("variable {v} is not bound to a number")),
            },
            _ => Err("an exponent holds no number".into()),
        }
    }
}

const DEPTH: usize = 32;

fn parse_tokens<'a>(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    depth: usize,
) -> Result<Pattern, String> {
    let token = tokens.next().ok_or("the pattern ends early")?;
    if depth > DEPTH {
        return Err("the pattern is nested too deeply".into());
    }
    if token == "(" {
        let head = tokens.next().ok_or("the pattern ends early")?.to_string();
        let mut args = Vec::new();
        while tokens.peek().is_some_and(|t| *t != ")") {
            args.push(parse_tokens(tokens, depth + 1)?);
        }
        tokens.next().ok_or("a parenthesis is not closed")?;
        return Ok(Pattern::Node(head, args));
    }
    if token.starts_with('?') {
        return Ok(Pattern::Variable(token.to_string()));
    }
    if token == "#shannon" {
        return Ok(Pattern::Kind(Entropy::Shannon));
    }
    token.parse::<Rational>().map(Pattern::Number).map_err(|_| format!("`{token}` is not a number"))
}

/// As a reader of the rule table would write it.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Pattern::Variable(v) => write!(f, "{}", &v[1..]),
            Pattern::Number(r) => write!(f, "{r}"),
            Pattern::Kind(k) => write!(f, "{k}"),
            Pattern::Ground(e) => write!(f, "{}", crate::notation::text::plain(e)),
            Pattern::Node(head, args) => match (head.as_str(), args.as_slice()) {
                ("+", [a, Pattern::Node(h, inner)]) if h == "*" && inner[0] == Pattern::Number(-Rational::one()) => {
                    write!(f, "{a} − {}", inner[1])
                }
                ("+", [a, b]) => write!(f, "{a} + {b}"),
                ("*", [a, b]) => write!(f, "{}·{}", Tight(a), Tight(b)),
                ("pow", [a, Pattern::Number(r)]) if *r == crate::ir::rational::int(2) => write!(f, "{}²", Tight(a)),
                ("pow", [a, r]) => write!(f, "{}^{}", Tight(a), Tight(r)),
                ("abs", [a]) => write!(f, "|{a}|"),
                ("sum", [i, a]) => write!(f, "Σ_{i} {}", Tight(a)),
                ("select", [a, b, x, y]) => write!(f, "({x} if {a} ≤ {b} else {y})"),
                ("smoothmax", [Pattern::Kind(_), i, s]) => write!(f, "lse_{i}({s})"),
                ("smoothmax", [_, i, s]) => write!(f, "smoothmax_{i}({s})"),
                ("weights", [_, i, s]) => write!(f, "weights_{i}({s})"),
                (head, args) => {
                    let args: Vec<String> = args.iter().map(|a| a.to_string()).collect();
                    write!(f, "{head}({})", args.join(", "))
                }
            },
        }
    }
}

/// A pattern in parentheses where it is a sum.
struct Tight<'a>(&'a Pattern);

impl fmt::Display for Tight<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            Pattern::Node(head, _) if head == "+" => write!(f, "({})", self.0),
            p => write!(f, "{p}"),
        }
    }
}
