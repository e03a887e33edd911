//! A formula as a tree of what is seen, independent of how it is typeset.

use crate::ir::Rational;
use std::cell::Cell;

/// A piece of a formula.
#[derive(Clone, Debug, PartialEq)]
pub enum Math {
    /// A nonnegative number.
    Number(Rational),
    Symbol(Symbol),
    /// Terms with their signs (`true` is minus).
    Sum(Vec<(bool, Math)>),
    /// Factors side by side.
    Product(Vec<Math>),
    Fraction(Box<Math>, Box<Math>),
    Power(Box<Math>, Box<Math>),
    /// a·b of two vectors.
    Inner(Box<Math>, Box<Math>),
    /// a bᵀ of two vectors.
    Outer(Box<Math>, Box<Math>),
    /// Entry by entry.
    Elementwise(Vec<Math>),
    /// ‖x‖, or ‖x‖_p.
    Norm(Box<Math>, Option<Rational>),
    Abs(Box<Math>),
    Root(Box<Math>),
    Exp(Box<Math>),
    Call(&'static str, Box<Math>),
    /// Σ_index body.
    Over(&'static str, String, Box<Math>),
    /// then if left ≤ right, otherwise.
    Cases {
        left: Box<Math>,
        right: Box<Math>,
        then: Box<Math>,
        otherwise: Box<Math>,
    },
    /// The positive part, `[x]₊`.
    Positive(Box<Math>),
    Transposed(Box<Math>),
    /// x⁺.
    Pseudoinverse(Box<Math>),
    /// x_index of a composite.
    Entry(Box<Math>, String),
}

/// What stands for something too long to write out.
pub const OMITTED: &str = "…";

/// A letter with its decorations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The name as the recipe has it; printers turn `delta` into δ.
    pub name: String,
    pub bar: bool,
    pub hat: bool,
    pub indices: Vec<String>,
}

impl Symbol {
    pub fn new(name: &str) -> Symbol {
        Symbol { name: name.into(), bar: false, hat: false, indices: vec![] }
    }
    pub fn indexed(name: &str, index: &str) -> Symbol {
        Symbol { indices: vec![index.into()], ..Symbol::new(name) }
    }
}

impl Math {
    pub fn symbol(name: &str) -> Math {
        Math::Symbol(Symbol::new(name))
    }
    pub fn indexed(name: &str, index: &str) -> Math {
        Math::Symbol(Symbol::indexed(name, index))
    }
    pub fn hat(name: &str) -> Math {
        Math::Symbol(Symbol { hat: true, ..Symbol::new(name) })
    }
    pub fn one() -> Math {
        Math::Number(crate::ir::rational::int(1))
    }
    /// The place of something too long to write out.
    pub fn omitted() -> Math {
        Math::symbol(OMITTED)
    }
    /// Whether something is left out.
    pub fn omits(&self) -> bool {
        let found = Cell::new(false);
        self.with_symbols(&|symbol| {
            found.set(found.get() || symbol.name == OMITTED);
            Math::one()
        });
        found.get()
    }
    pub fn is_one(&self) -> bool {
        *self == Math::one()
    }

    /// Factors side by side; ones vanish, nested products flatten.
    pub fn product(factors: Vec<Math>) -> Math {
        let mut flat = Vec::new();
        for factor in factors {
            match factor {
                Math::Product(inner) => flat.extend(inner),
                factor if factor.is_one() => {}
                factor => flat.push(factor),
            }
        }
        match flat.len() {
            0 => Math::one(),
            1 => flat.remove(0),
            _ => Math::Product(flat),
        }
    }
    pub fn fraction(above: Math, below: Math) -> Math {
        if below.is_one() { above } else { Math::Fraction(Box::new(above), Box::new(below)) }
    }
    /// Signed terms; a single positive term is itself.
    pub fn sum(mut terms: Vec<(bool, Math)>) -> Math {
        match terms.len() {
            1 if !terms[0].0 => terms.remove(0).1,
            _ => Math::Sum(terms),
        }
    }
    /// The formula with every symbol replaced.
    pub fn with_symbols(&self, f: &impl Fn(&Symbol) -> Math) -> Math {
        let go = |m: &Math| Box::new(m.with_symbols(f));
        let all = |xs: &[Math]| xs.iter().map(|x| x.with_symbols(f)).collect();
        match self {
            Math::Symbol(s) => f(s),
            Math::Number(_) => self.clone(),
            Math::Sum(terms) => Math::Sum(terms.iter().map(|(minus, x)| (*minus, x.with_symbols(f))).collect()),
            Math::Product(xs) => Math::Product(all(xs)),
            Math::Elementwise(xs) => Math::Elementwise(all(xs)),
            Math::Fraction(a, b) => Math::Fraction(go(a), go(b)),
            Math::Power(a, b) => Math::Power(go(a), go(b)),
            Math::Inner(a, b) => Math::Inner(go(a), go(b)),
            Math::Outer(a, b) => Math::Outer(go(a), go(b)),
            Math::Norm(x, p) => Math::Norm(go(x), p.clone()),
            Math::Abs(x) => Math::Abs(go(x)),
            Math::Root(x) => Math::Root(go(x)),
            Math::Exp(x) => Math::Exp(go(x)),
            Math::Call(name, x) => Math::Call(name, go(x)),
            Math::Over(symbol, index, x) => Math::Over(symbol, index.clone(), go(x)),
            Math::Cases { left, right, then, otherwise } => {
                Math::Cases { left: go(left), right: go(right), then: go(then), otherwise: go(otherwise) }
            }
            Math::Positive(x) => Math::Positive(go(x)),
            Math::Transposed(x) => Math::Transposed(go(x)),
            Math::Pseudoinverse(x) => Math::Pseudoinverse(go(x)),
            Math::Entry(x, index) => Math::Entry(go(x), index.clone()),
        }
    }
    pub fn negated(self) -> Math {
        match self {
            Math::Sum(terms) => Math::sum(terms.into_iter().map(|(minus, t)| (!minus, t)).collect()),
            other => Math::Sum(vec![(true, other)]),
        }
    }
}
