//! The functions of the language: what each takes and the term it stands for.

use super::axes::{self, Side};
use super::library::value_of;
use super::term::{Checker, Place, Scope, Value};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::rational::ratio;
use crate::ir::{Axis, Entropy, Expr, Rational, Sign};
use crate::span::Span;
use crate::syntax::ast::{self, Arg, Ident};
use num_traits::One;

/// Name, arguments, and how few of them may be given.
const TABLE: &[(&str, &[&str], usize)] = &[
    ("exp", &["x"], 1),
    ("log", &["x"], 1),
    ("sqrt", &["x"], 1),
    ("abs", &["x"], 1),
    ("sign", &["x"], 1),
    ("sigmoid", &["x"], 1),
    ("tanh", &["x"], 1),
    ("softplus", &["x"], 1),
    ("relu", &["x"], 1),
    ("cosh", &["x"], 1),
    ("log1p", &["x"], 1),
    ("square", &["x"], 1),
    ("mean", &["x"], 1),
    ("norm", &["x", "p"], 1),
    ("dot", &["a", "b"], 2),
    ("sum", &["x"], 1),
    ("max", &["a", "b"], 2),
    ("min", &["a", "b"], 2),
    ("tsallis_min", &["E", "T", "alpha"], 3),
    ("norm_min", &["E", "T", "gamma"], 3),
    ("grad", &["point"], 1),
    ("hess", &["point"], 1),
    ("solve", &["A", "b", "method"], 2),
];

pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, ..)| *name)
}

pub fn is_function(name: &str) -> bool {
    names().any(|known| known == name)
}

/// Whether the call is one of a function: an ingredient may share its name, but not its arguments.
pub fn accepts(name: &str, args: &[Arg]) -> bool {
    let row = TABLE.iter().find(|(known, ..)| *known == name);
    let positional = args.iter().all(|arg| matches!(arg, Arg::Value(_)));
    row.is_some_and(|(_, params, least)| positional && (*least..=params.len()).contains(&args.len()))
}

/// What to say when a function is called with the wrong arguments.
pub fn wrong_arguments(name: &Ident, args: &[Arg], span: Span) -> Diagnostic {
    if let Some(Arg::Named { name: given, .. }) = args.iter().find(|arg| matches!(arg, Arg::Named { .. })) {
        return Diagnostic::new(Code::UnknownArgument, format!("`{}` takes its arguments by place", name.text))
            .at(given.span, "a function has no named arguments");
    }
    let row = TABLE.iter().find(|(known, ..)| *known == name.text);
    let (params, least) = row.map_or((&[] as &[&str], 0), |(_, params, least)| (params, *least));
    let count = match (least, params.len()) {
        (1, 1) => "1 argument".to_string(),
        (least, most) if least == most => format!("{most} arguments"),
        (least, most) => format!("{least} or {most} arguments"),
    };
    let message = format!("`{}` takes {count}, but {} given", name.text, were(args.len()));
    Diagnostic::new(Code::WrongArity, message).at(span, "").help(format!(
        "write `{}({})`",
        name.text,
        params[..least.max(1).min(params.len())].join(", ")
    ))
}

fn were(count: usize) -> String {
    if count == 1 { "1 is".to_string() } else { format!("{count} are") }
}

impl Checker<'_> {
    /// The term of a call whose arguments fit the table.
    pub fn function(&mut self, name: &Ident, args: &[Arg], span: Span, scope: &mut Scope) -> Option<Value> {
        let args: Vec<&ast::Expr> = args.iter().filter_map(value_of).collect();
        match (name.text.as_str(), args.as_slice()) {
            ("grad", [point]) => self.gradient(name, point, scope),
            ("hess", [point]) => self.hessian(name, point, scope),
            ("solve", _) => self.solution(name, &args, scope),
            ("norm", [x, p]) => self.p_norm(x, p, span, scope),
            ("tsallis_min", [energy, temperature, alpha]) => {
                self.minimum(name, [energy, temperature, alpha], Entropy::Tsallis, span, scope)
            }
            ("norm_min", [energy, temperature, gamma]) => {
                self.minimum(name, [energy, temperature, gamma], Entropy::Norm, span, scope)
            }
            (_, [x]) => {
                let value = self.term(x, scope)?;
                let result = self.unary(name, &value, x.span, scope.place())?;
                let value = self.keep(result, value.weight.saturating_add(2), span)?;
                Some(Value { is_mean: name.text == "mean", ..value })
            }
            (_, [a, b]) => {
                let (left, right) = (self.term(a, scope), self.term(b, scope));
                let (left, right) = (left?, right?);
                let result = self.binary(name, (&left, a.span), (&right, b.span), scope.place())?;
                let weight = left.weight.saturating_add(right.weight).saturating_mul(2);
                self.keep(result, weight, span)
            }
            _ => None,
        }
    }

    fn unary(&mut self, name: &Ident, x: &Value, span: Span, place: Place) -> Option<Expr> {
        let x = &x.expr;
        Some(match name.text.as_str() {
            "exp" => x.exp(),
            "log" => self.logarithm(x, span)?,
            "sqrt" => self.power(x, &ratio(1, 2), span)?,
            "abs" => x.abs(),
            "sign" => x.signum(),
            "sigmoid" => x.sigmoid(),
            "tanh" => x.tanh(),
            "softplus" => x.softplus(),
            "relu" => Expr::select(x, &Expr::zero(), &Expr::zero(), x),
            // (eˣ + e⁻ˣ)/2
            "cosh" => x.exp().plus(&x.neg().exp()).scale(&ratio(1, 2)),
            "log1p" => self.logarithm(&Expr::one().plus(x), span)?,
            "square" => x.square(),
            "mean" => {
                self.needs_components(name, x, span, place)?;
                let axis = axes::component_axis(place);
                Expr::sum(axis, x).over(&Expr::sum(axis, &Expr::one()))
            }
            "norm" => {
                self.needs_components(name, x, span, place)?;
                Expr::sum(axes::component_axis(place), &x.square()).sqrt()
            }
            "sum" => self.sum(x, span, place)?,
            _ => return None,
        })
    }

    fn binary(&mut self, name: &Ident, a: (&Value, Span), b: (&Value, Span), place: Place) -> Option<Expr> {
        let (left, right) = (&a.0.expr, &b.0.expr);
        if name.text == "dot" {
            self.needs_components(name, left, a.1, place)?;
            self.needs_components(name, right, b.1, place)?;
            return Some(Expr::sum(axes::component_axis(place), &left.times(right)));
        }
        let sides = (Side { axes: left.axes(), span: a.1 }, Side { axes: right.axes(), span: b.1 });
        if !axes::fit(sides.0.axes, sides.1.axes) {
            self.report(axes::mismatch("compare", sides.0, sides.1));
            return None;
        }
        match name.text.as_str() {
            "max" => Some(Expr::select(left, right, right, left)),
            "min" => Some(Expr::select(left, right, left, right)),
            _ => None,
        }
    }

    /// log x of a positive x.
    fn logarithm(&mut self, x: &Expr, span: Span) -> Option<Expr> {
        if x.sign() != Sign::Positive {
            let diagnostic = Diagnostic::new(Code::LogNotPositive, "the logarithm of a value that may not be positive")
                .at(span, "zero or negative for some inputs")
                .help("add something positive, as in `log(1 + …)` for a value that is never negative");
            self.report(diagnostic);
            return None;
        }
        Some(x.log())
    }

    fn sum(&mut self, x: &Expr, span: Span, place: Place) -> Option<Expr> {
        let components = axes::component_axis(place);
        if x.has_axis(components) {
            return Some(Expr::sum(components, x));
        }
        match place {
            Place::Global => Some(Expr::sum(Axis::N, x)),
            Place::Local => {
                let diagnostic = Diagnostic::new(Code::AxisMismatch, "a local energy is about one attended token")
                    .at(span, format!("{}: no components to sum over", axes::describe(x.axes())))
                    .help("sums over attended tokens belong into a global energy");
                self.report(diagnostic);
                None
            }
            Place::Optimizer | Place::Value => {
                let diagnostic = Diagnostic::new(Code::AxisMismatch, "there is nothing to sum over")
                    .at(span, axes::describe(x.axes()));
                self.report(diagnostic);
                None
            }
        }
    }

    fn needs_components(&mut self, name: &Ident, x: &Expr, span: Span, place: Place) -> Option<()> {
        if x.has_axis(axes::component_axis(place)) {
            return Some(());
        }
        let mut diagnostic = Diagnostic::new(Code::AxisMismatch, format!("`{}` needs components", name.text))
            .at(span, axes::describe(x.axes()));
        if axes::has_tokens(x.axes()) && place == Place::Global {
            diagnostic = diagnostic.help("over attended tokens, write `sum(…)`");
        }
        self.report(diagnostic);
        None
    }

    /// (Σ |x|^p)^(1/p).
    fn p_norm(&mut self, x: &ast::Expr, p: &ast::Expr, span: Span, scope: &mut Scope) -> Option<Value> {
        let value = self.term(x, scope);
        let exponent = self.structural(p, scope, "the order of a norm");
        let (value, exponent) = (value?, exponent?);
        let name = Ident { text: "norm".to_string(), span };
        self.needs_components(&name, &value.expr, x.span, scope.place())?;
        self.exponent_in_range(&exponent, p.span)?;
        if exponent < Rational::one() {
            let diagnostic =
                Diagnostic::new(Code::ParameterDomain, format!("`norm` needs p >= 1, but p is {exponent}"))
                    .at(p.span, "below 1 this is not a norm");
            self.report(diagnostic);
            return None;
        }
        let powers = self.power(&value.expr.abs(), &exponent, x.span)?;
        let sum = Expr::sum(axes::component_axis(scope.place()), &powers);
        self.keep(sum.pow(&exponent.recip()), value.weight.saturating_add(4), span)
    }

    /// min over p on the simplex of Σ p E − T·H(p), which is −T·smoothmax(−E/T).
    fn minimum(
        &mut self,
        name: &Ident,
        [energy, temperature, shape]: [&ast::Expr; 3],
        entropy: fn(Rational) -> Entropy,
        span: Span,
        scope: &mut Scope,
    ) -> Option<Value> {
        let e = self.term(energy, scope);
        let t = self.term(temperature, scope);
        let shape_value = self.structural(shape, scope, "the shape of an entropy");
        let (e, t, shape_value) = (e?, t?, shape_value?);
        if scope.place() != Place::Global {
            let message = format!("`{}` runs over attended tokens", name.text);
            self.report(
                Diagnostic::new(Code::AxisMismatch, message).at(name.span, "only a global energy sees them all"),
            );
            return None;
        }
        if axes::has_components(e.expr.axes()) || !axes::has_tokens(e.expr.axes()) {
            let message = format!("`{}` takes a number per attended token", name.text);
            self.report(Diagnostic::new(Code::AxisMismatch, message).at(energy.span, axes::describe(e.expr.axes())));
            return None;
        }
        if axes::has_tokens(t.expr.axes()) || axes::has_components(t.expr.axes()) {
            let message = format!("`{}` takes one temperature for all attended tokens", name.text);
            self.report(
                Diagnostic::new(Code::AxisMismatch, message).at(temperature.span, axes::describe(t.expr.axes())),
            );
            return None;
        }
        if t.expr.sign() != Sign::Positive {
            let message = format!("`{}` needs a positive temperature", name.text);
            self.report(
                Diagnostic::new(Code::ParameterDomain, message).at(temperature.span, "not known to be positive"),
            );
            return None;
        }
        self.exponent_in_range(&shape_value, shape.span)?;
        if shape_value <= Rational::one() {
            let message = format!("`{}` needs a shape above 1, but it is {shape_value}", name.text);
            self.report(Diagnostic::new(Code::ParameterDomain, message).at(shape.span, "not above 1"));
            return None;
        }
        let scores = e.expr.neg().over(&t.expr);
        let result = t.expr.neg().times(&Expr::smoothmax(&entropy(shape_value), Axis::N, &scores));
        let weight = e.weight.saturating_add(t.weight.saturating_mul(2)).saturating_add(4);
        self.keep(result, weight, span)
    }
}
