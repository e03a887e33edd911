//! Expressions of the language become terms of the algebra; names, axes and domains are checked on the way.
//!
//! A wrong subexpression is reported once and has no value; whatever depends on it stays silent.
//!
//! No input may take long: every value has a *weight*, an upper bound on its size written out as a tree, which is
//! limited, and everything built is paid for from one budget.

use std::collections::{BTreeSet, HashMap};

use num_traits::{Signed, ToPrimitive};

use super::axes::{self, Side};
use super::inputs;
use super::library::{Key, Library};
use super::params::{Findings, Params};
use super::recipe::{Condition, ParamValue};
use super::solve::{Force, Way};
use super::{function, library};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Axis, Expr, Leaf, Op, Rational, Role, Sign, rational, traverse};
use crate::span::Span;
use crate::syntax::ast::{self, BinaryOp, CompareOp, ExprKind, Ident, Kind};

/// Where an expression stands decides which names and reductions it may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Local,
    Global,
    Optimizer,
    /// The value of a parameter, a condition or a radius: no tokens in sight.
    Value,
}

impl Place {
    pub fn kind(self) -> Option<Kind> {
        match self {
            Place::Local => Some(Kind::Local),
            Place::Global => Some(Kind::Global),
            Place::Optimizer => Some(Kind::Optimizer),
            Place::Value => None,
        }
    }
}

/// A term and an upper bound on its size.
#[derive(Clone, Debug)]
pub struct Value {
    pub expr: Expr,
    pub weight: usize,
    /// Whether it may stand beside components, though it has none: a mean of components.
    pub is_mean: bool,
}

impl Value {
    pub fn of(expr: Expr, weight: usize) -> Value {
        Value { expr, weight, is_mean: false }
    }
    pub fn leaf(leaf: Leaf) -> Value {
        Value::of(Expr::leaf(leaf), 1)
    }
}

/// The names in reach. A name whose definition failed is known but has no value.
#[derive(Clone)]
pub struct Scope {
    place: Place,
    names: HashMap<String, Option<Value>>,
    /// The forces an optimizer takes.
    pub forces: Vec<Force>,
    /// The points at which it asks for a Hessian.
    pub hessians: Vec<Expr>,
}

impl Scope {
    /// Just the sizes.
    pub fn new(place: Place) -> Scope {
        let mut scope = Scope { place, names: HashMap::new(), forces: Vec::new(), hessians: Vec::new() };
        for leaf in inputs::sizes() {
            scope.define_leaf(leaf);
        }
        scope
    }

    pub fn place(&self) -> Place {
        self.place
    }

    pub fn define(&mut self, name: &str, value: Option<Value>) {
        self.names.insert(name.to_string(), value);
    }

    pub fn define_leaf(&mut self, leaf: Leaf) {
        let name = leaf.name.to_string();
        self.define(&name, Some(Value::leaf(leaf)));
    }

    pub fn knows(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    pub fn value(&self, name: &str) -> Option<&Value> {
        self.names.get(name)?.as_ref()
    }

    pub fn extend(&mut self, bindings: &Bindings) {
        self.names.extend(bindings.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
}

/// What the parameters of an ingredient stand for.
pub type Bindings = HashMap<String, Option<Value>>;

/// Terms beyond this size are refused.
const MAX_WEIGHT: usize = 4000;
/// Exponents beyond this, or with a larger denominator, are refused.
const MAX_EXPONENT: i64 = 64;
/// Numbers of more bits are refused.
const MAX_BITS: u64 = 4096;
/// What one check may build, counted in nodes (large terms cost more).
pub const BUDGET: usize = 400_000;
/// How many terms of a sum are collected at once.
const CHUNK: usize = 16;

/// The state of one reading: what was found, and what there is to say about it.
pub struct Checker<'a> {
    pub library: &'a Library<'a>,
    pub params: Params,
    pub diagnostics: Vec<Diagnostic>,
    /// The energy of one attended token, as a global energy sees it.
    pub energy: Leaf,
    /// Where the file uses the prelude's ingredient that is being looked into; its own spans are elsewhere.
    pub foreign: Option<Span>,
    pub call_depth: usize,
    /// The ingredients whose bodies were looked at.
    pub visited: BTreeSet<Key>,
    /// What may still be built.
    pub budget: usize,
    /// The ways to solve that were given.
    pub ways: Vec<Way>,
    /// What the ingredients ask of their parameters.
    pub conditions: Vec<Condition>,
}

impl<'a> Checker<'a> {
    pub fn new(library: &'a Library<'a>, findings: Findings, budget: usize) -> Checker<'a> {
        Checker {
            library,
            params: Params::new(findings),
            diagnostics: Vec::new(),
            energy: inputs::energy(&[Axis::T, Axis::N], Sign::Positive),
            foreign: None,
            call_depth: 0,
            visited: BTreeSet::new(),
            budget,
            ways: Vec::new(),
            conditions: Vec::new(),
        }
    }

    /// Adds a diagnostic. One that points into the prelude is pointed at the use instead.
    pub fn report(&mut self, mut diagnostic: Diagnostic) {
        if let Some(site) = self.foreign {
            diagnostic.labels.clear();
            diagnostic = diagnostic.at(site, "with these arguments");
        }
        self.diagnostics.push(diagnostic);
    }

    /// Pays for something. Whoever cannot pay any more says so once; after that everything is silent.
    pub fn spend(&mut self, cost: usize, span: Span) -> Option<()> {
        let had = self.budget;
        self.budget = had.saturating_sub(cost);
        if had > 0 && self.budget == 0 {
            let diagnostic = Diagnostic::new(Code::NestingTooDeep, "the expression is too large once written out")
                .at(span, "too many terms")
                .help("a `let` or an ingredient that is used often counts every time");
            self.report(diagnostic);
        }
        (self.budget > 0).then_some(())
    }

    /// The value, if it is within the limits.
    pub fn keep(&mut self, expr: Expr, weight: usize, span: Span) -> Option<Value> {
        self.spend(weight / CHUNK, span)?;
        if weight > MAX_WEIGHT {
            self.budget = 1;
            self.spend(1, span)?;
        }
        if !coefficients_fit(&expr) {
            self.report(Diagnostic::new(Code::BadNumber, "a number gets out of range").at(span, "beyond 1e±300"));
            return None;
        }
        if let Some(exponent) = exponent_beyond(&expr) {
            self.report(exponent_out_of_range(&exponent, span));
            return None;
        }
        Some(Value::of(expr, weight))
    }

    /// The term an expression stands for.
    pub fn term(&mut self, expr: &ast::Expr, scope: &mut Scope) -> Option<Value> {
        self.spend(1, expr.span)?;
        match &expr.node {
            ExprKind::Number { value, .. } => self.keep(Expr::constant(value.clone()), 1, expr.span),
            ExprKind::Name(name) => self.name(name, expr.span, scope),
            ExprKind::Negate(x) => {
                let value = self.term(x, scope)?;
                let negated = self.keep(value.expr.neg(), value.weight.saturating_add(1), expr.span)?;
                Some(Value { is_mean: value.is_mean, ..negated })
            }
            ExprKind::Binary { op: BinaryOp::Add | BinaryOp::Subtract, .. } => self.addition(expr, scope),
            ExprKind::Binary { op: BinaryOp::Multiply | BinaryOp::Divide, .. } => self.product(expr, scope),
            ExprKind::Binary { op: BinaryOp::Power, left, right } => {
                let base = self.term(left, scope);
                let exponent = self.structural(right, scope, "an exponent");
                let (base, exponent) = (base?, exponent?);
                self.exponent_in_range(&exponent, right.span)?;
                let power = self.power(&base.expr, &exponent, left.span)?;
                self.keep(power, base.weight.saturating_add(1), expr.span)
            }
            ExprKind::Call { name, args } => self.call(name, args, expr.span, scope),
            ExprKind::If { condition, then, otherwise } => self.choice(condition, then, otherwise, expr.span, scope),
        }
    }

    fn name(&mut self, name: &str, span: Span, scope: &Scope) -> Option<Value> {
        match scope.names.get(name) {
            Some(Some(value)) if scope.place == Place::Optimizer && value.expr.has_axis(Axis::E) => {
                self.refuse_vector(name, value, span);
                None
            }
            Some(value) => value.clone(),
            None => {
                self.report(unknown_name(name, span, scope));
                None
            }
        }
    }

    /// An optimizer moves the whole token, which has other components than a head.
    fn refuse_vector(&mut self, name: &str, value: &Value, span: Span) {
        let message = format!("an optimizer cannot use `{name}`, a number per component of a head");
        let diagnostic = Diagnostic::new(Code::AxisMismatch, message);
        let help = "leave out `per component`; a local energy is about the components of a head";
        // It is the fault of the value, which stands in the file even if the optimizer does not.
        match self.params.vector_in(&value.expr) {
            Some(entry) if self.foreign.is_some() => {
                self.diagnostics.push(diagnostic.at(entry.site, "these are components").help(help));
            }
            Some(entry) => {
                let diagnostic = diagnostic.also(entry.site, "these are components");
                self.diagnostics.push(diagnostic.at(span, "moves the whole token, all heads at once").help(help));
            }
            None => self.report(diagnostic.at(span, "these are components").help(help)),
        }
    }

    /// A chain of `+` and `-`, which the parser nests to the left.
    fn addition(&mut self, expr: &ast::Expr, scope: &mut Scope) -> Option<Value> {
        let operands = chain(expr, |op| matches!(op, BinaryOp::Add | BinaryOp::Subtract));
        let mut widest: Option<Side> = None;
        let mut failed = false;
        let mut total = Value::of(Expr::zero(), 0);
        for group in operands.chunks(CHUNK) {
            let mut terms = vec![total.expr.clone()];
            let mut weight = total.weight.saturating_add(1);
            for (op, operand) in group {
                let Some(value) = self.term(operand, scope) else {
                    failed = true;
                    continue;
                };
                let side = Side { axes: value.expr.axes(), span: operand.span };
                match widest {
                    // A mean is subtracted from every component.
                    _ if value.is_mean && operands.len() > 1 => {}
                    Some(other) if !axes::fit(other.axes, side.axes) => {
                        let doing = if *op == BinaryOp::Add { "add" } else { "subtract" };
                        self.report(axes::mismatch(doing, other, side));
                        failed = true;
                    }
                    Some(other) if !other.axes.is_empty() => {}
                    _ => widest = Some(side),
                }
                weight = weight.saturating_add(value.weight);
                terms.push(if *op == BinaryOp::Add { value.expr } else { value.expr.neg() });
            }
            if !failed {
                total = self.keep(Expr::add(terms), weight, expr.span)?;
            }
        }
        (!failed).then_some(total)
    }

    /// A chain of `*` and `/`.
    fn product(&mut self, expr: &ast::Expr, scope: &mut Scope) -> Option<Value> {
        let operands = chain(expr, |op| matches!(op, BinaryOp::Multiply | BinaryOp::Divide));
        let mut total = Some(Value::of(Expr::one(), 0));
        for (op, operand) in operands {
            let value = self.term(operand, scope);
            let (Some(left), Some(right)) = (total, value) else {
                total = None;
                continue;
            };
            let weight = left.weight.saturating_add(right.weight).saturating_add(1);
            // A multiple of a mean is one.
            let is_number = |value: &Value| value.expr.axes().is_empty();
            let is_mean =
                left.is_mean && is_number(&right) || right.is_mean && is_number(&left) && op == BinaryOp::Multiply;
            let result = match op {
                BinaryOp::Divide => self.power(&right.expr, &rational::int(-1), operand.span),
                _ => Some(right.expr),
            };
            let product = result.and_then(|right| self.keep(left.expr.times(&right), weight, expr.span));
            total = product.map(|product| Value { is_mean, ..product });
        }
        total
    }

    /// x^r where it is real.
    pub fn power(&mut self, x: &Expr, r: &Rational, span: Span) -> Option<Expr> {
        if x.is_zero() && r.is_negative() {
            self.report(Diagnostic::new(Code::DivisionByZero, "division by zero").at(span, "this is always zero"));
            return None;
        }
        let is_nonnegative = || x.sign().is_nonnegative() || self.params.at_start(x).sign().is_nonnegative();
        if !r.is_integer() && !is_nonnegative() {
            let root =
                if *r == rational::ratio(1, 2) { "the square root".to_string() } else { format!("the power {r}") };
            let diagnostic = Diagnostic::new(Code::PowerDomain, format!("{root} of a value that may be negative"))
                .at(span, "negative for some inputs")
                .help("`abs(…)`, `norm(…)` and squares are never negative");
            self.report(diagnostic);
            return None;
        }
        Some(x.pow(r))
    }

    pub fn exponent_in_range(&mut self, r: &Rational, span: Span) -> Option<()> {
        let fits = exponent_fits(r);
        if !fits {
            self.report(exponent_out_of_range(r, span));
        }
        fits.then_some(())
    }

    /// A number known at compile time; parameters it needs become structural.
    pub fn structural(&mut self, expr: &ast::Expr, scope: &mut Scope, what: &str) -> Option<Rational> {
        let value = self.term(expr, scope)?;
        let number = self.params.make_structural(&value.expr);
        if let Some(number) = number.as_const() {
            return Some(number.clone());
        }
        let diagnostic = self.not_structural(&number, expr.span, what);
        // A learned exponent is the fault of the value, which stands in the file even if the exponent does not.
        if diagnostic.0 {
            self.diagnostics.push(diagnostic.1)
        } else {
            self.report(diagnostic.1)
        }
        None
    }

    /// The diagnostic, and whether it already points into the file.
    fn not_structural(&self, number: &Expr, span: Span, what: &str) -> (bool, Diagnostic) {
        let new = |why: String| {
            Diagnostic::new(Code::NotStructural, format!("{what} must be a number known at compile time, but {why}"))
        };
        let inputs = traverse::inputs(number);
        let param = inputs.iter().find_map(|leaf| self.params.of_leaf(leaf));
        if let Some(entry) = param {
            let name = &entry.param.name;
            let is = match &entry.param.value {
                ParamValue::Fixed(_) => "depends on a size",
                ParamValue::Learn { .. } => "is learned",
                value if value.is_of_query() => "is different for every query",
                ParamValue::Gate(..) | ParamValue::Decay(_) => "is different for every token",
            };
            let mut diagnostic = new(format!("`{name}` {is}")).at(entry.site, format!("this {is}"));
            if self.foreign.is_none() {
                diagnostic = diagnostic.also(span, "and is needed as a number here");
            }
            return (true, diagnostic.help(format!("give `{name}` a number, such as 2 or 3/2")));
        }
        let why = match inputs.iter().find(|leaf| leaf.role == Role::Size) {
            Some(size) => format!("`{}` is a size", size.name),
            None if inputs.is_empty() => "this has no exact value".to_string(),
            None => format!("`{}` is an input", inputs[0].name),
        };
        (false, new(why).at(span, "not a known number"))
    }

    fn choice(
        &mut self,
        condition: &ast::Comparison,
        then: &ast::Expr,
        otherwise: &ast::Expr,
        span: Span,
        scope: &mut Scope,
    ) -> Option<Value> {
        let parts = [&condition.left, &condition.right, then, otherwise];
        let values = parts.map(|part| self.term(part, scope));
        let [Some(a), Some(b), Some(x), Some(y)] = values else {
            return None;
        };
        let side = |value: &Value, span: Span| Side { axes: value.expr.axes(), span };
        let pairs = [
            ("compare", side(&a, condition.left.span), side(&b, condition.right.span)),
            ("choose between", side(&x, then.span), side(&y, otherwise.span)),
        ];
        let mut fits = true;
        for (doing, left, right) in pairs {
            if !axes::fit(left.axes, right.axes) {
                self.report(axes::mismatch(doing, left, right));
                fits = false;
            }
        }
        let total = [&a, &b, &x, &y].iter().fold(2usize, |sum, value| sum.saturating_add(value.weight));
        let (a, b, x, y) = (&a.expr, &b.expr, &x.expr, &y.expr);
        let result = fits.then(|| match condition.op {
            CompareOp::LessEqual => Expr::select(a, b, x, y),
            CompareOp::GreaterEqual => Expr::select(b, a, x, y),
            CompareOp::Less => Expr::select(b, a, y, x),
            CompareOp::Greater => Expr::select(a, b, y, x),
            CompareOp::Equal => Expr::select(a, b, &Expr::select(b, a, x, y), y),
        })?;
        let weight = if condition.op == CompareOp::Equal { total.saturating_mul(2) } else { total };
        self.keep(result, weight, span)
    }

    fn call(&mut self, name: &Ident, args: &[ast::Arg], span: Span, scope: &mut Scope) -> Option<Value> {
        if function::accepts(&name.text, args) {
            return self.function(name, args, span, scope);
        }
        if let Some(kind) = scope.place.kind() {
            let entry = self.library.get(kind, &name.text);
            // A function with too many arguments for the ingredient of its name is still meant as the function.
            let meant = |entry: &library::Entry| {
                !function::is_function(&name.text) || args.len() <= entry.ingredient.params.len()
            };
            if let Some(entry) = entry.filter(meant) {
                return self.nested(&entry, name, args, span, scope);
            }
            if let Some(other) =
                self.library.other_kind(kind, &name.text).filter(|_| !function::is_function(&name.text))
            {
                self.report(library::wrong_kind(kind, other, name));
                return None;
            }
        }
        let diagnostic = match name.text.as_str() {
            "learn" | "gate" | "decay" | "taylor" | "exact" => only_as_value(name),
            known if function::is_function(known) => function::wrong_arguments(name, args, span),
            _ => self.unknown_function(name, scope),
        };
        self.report(diagnostic);
        None
    }

    fn unknown_function(&self, name: &Ident, scope: &Scope) -> Diagnostic {
        let mut known: Vec<&str> = function::names().collect();
        if let Some(kind) = scope.place.kind() {
            known.extend(self.library.names(kind));
        }
        Diagnostic::new(Code::UnknownFunction, format!("there is no function called `{}`", name.text))
            .at(name.span, "not found")
            .did_you_mean(&name.text, known)
    }
}

fn only_as_value(name: &Ident) -> Diagnostic {
    let message = format!("`{}(…)` can only be the value of a parameter", name.text);
    Diagnostic::new(Code::BadValue, message)
        .at(name.span, "not inside an expression")
        .help(format!("make it a parameter: `(a = {}(…))` after the ingredient's name", name.text))
}

fn unknown_name(name: &str, span: Span, scope: &Scope) -> Diagnostic {
    let message = match scope.place.kind() {
        Some(kind) => format!("`{name}` has no meaning in {}", library::describe_with_article(kind)),
        None => format!("`{name}` has no meaning here"),
    };
    let diagnostic = Diagnostic::new(Code::UnknownName, message).at(span, "not known");
    match (scope.place, name) {
        (Place::Local, "z" | "h") => diagnostic.help("use q = W1 z and k = W2 h"),
        (Place::Global, "q" | "k" | "z" | "h") => {
            diagnostic.help("a global energy sees the attended tokens only through `E`")
        }
        (Place::Optimizer, "E" | "F") => diagnostic.help("`grad(z)` is the gradient of F at z"),
        (Place::Value, "q" | "k" | "z" | "h" | "E" | "F") => {
            diagnostic.help("only numbers, parameters and sizes are known here")
        }
        _ if function::is_function(name) => diagnostic.help(format!("`{name}` is a function: write `{name}(…)`")),
        _ => diagnostic.did_you_mean(name, scope.names.keys().map(String::as_str)),
    }
}

/// The operands of a chain of operators of one precedence, each with the operator before it.
fn chain(expr: &ast::Expr, same: fn(BinaryOp) -> bool) -> Vec<(BinaryOp, &ast::Expr)> {
    let mut operands = Vec::new();
    let mut rest = expr;
    let first = loop {
        match &rest.node {
            ExprKind::Binary { op, left, right } if same(*op) => {
                operands.push((*op, &**right));
                rest = left;
            }
            _ => break rest,
        }
    };
    let neutral = if same(BinaryOp::Add) { BinaryOp::Add } else { BinaryOp::Multiply };
    operands.push((neutral, first));
    operands.reverse();
    operands
}

fn exponent_fits(r: &Rational) -> bool {
    let limit = num_bigint::BigInt::from(MAX_EXPONENT);
    r.abs() <= Rational::from_integer(limit.clone()) && *r.denom() <= limit
}

fn exponent_out_of_range(r: &Rational, span: Span) -> Diagnostic {
    let shown = if r.numer().bits().max(r.denom().bits()) <= 64 {
        format!("the exponent {r}")
    } else {
        "the exponent".to_string()
    };
    Diagnostic::new(Code::PowerDomain, format!("{shown} is out of range")).at(span, "").note(format!(
        "exponents lie between -{MAX_EXPONENT} and {MAX_EXPONENT}, with denominators up to {MAX_EXPONENT}"
    ))
}

/// An exponent in the term's top layers that is out of range.
fn exponent_beyond(e: &Expr) -> Option<Rational> {
    let exponent = |x: &Expr| match x.op() {
        Op::Pow(_, r) if !exponent_fits(r) => Some(r.clone()),
        _ => None,
    };
    match e.op() {
        Op::Mul(factors) => factors.iter().find_map(exponent),
        Op::Sum(_, body) => exponent(body),
        _ => exponent(e),
    }
}

/// Whether the rational numbers in the term's top layers stay of reasonable size.
fn coefficients_fit(e: &Expr) -> bool {
    let fits = |c: &Rational| {
        let bits = c.numer().bits().max(c.denom().bits());
        let is_moderate = || c.to_f64().is_some_and(|x| x == 0.0 && c.numer().bits() == 0 || x.is_normal());
        bits <= 900 || bits <= MAX_BITS && is_moderate()
    };
    let constant = |x: &Expr| match x.op() {
        Op::Const(c) => fits(c),
        Op::Mul(factors) => factors[0].as_const().is_none_or(fits),
        _ => true,
    };
    match e.op() {
        Op::Add(terms) => terms.iter().all(constant),
        _ => constant(e),
    }
}

/// Whether the term is made of numbers and sizes alone.
pub fn is_over_sizes(e: &Expr) -> bool {
    e.axes().is_empty() && traverse::inputs(e).iter().all(|leaf| leaf.role == Role::Size)
}

impl Value {
    /// A number as a value.
    pub fn number(number: Rational) -> Value {
        Value::of(Expr::constant(number), 1)
    }
}
