//! Second-order steps: `hess(point)`, `solve(A, b)` and the ways to solve.
//!
//! A Hessian is a matrix, a value no other part of the language can use: it stands for itself as a leaf until `solve`
//! reads the term a·hess(y) + b around it. The same goes for a way to solve, which is the value of a parameter.

use num_traits::ToPrimitive;

use super::axes;
use super::inputs;
use super::library::value_of;
use super::recipe::{Method, Origin, ParamValue, Preconditioner};
use super::term::{Checker, Place, Scope, Value};
use super::value::Given;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Axis, Expr, Leaf, traverse};
use crate::span::Span;
use crate::syntax::ast::{self, Arg, ExprKind, Ident, Kind};

/// Longest series.
const MAX_ORDER: u32 = 64;
/// Hessians and ways to solve an optimizer may have.
const MAX_HESSIANS: usize = 16;

/// A force an optimizer takes: the gradient at a point, perhaps preconditioned.
#[derive(Clone, PartialEq, Debug)]
pub struct Force {
    pub point: Expr,
    pub preconditioner: Option<Preconditioner>,
}

/// A way to solve, and what takes the place of the scale.
pub type Way = (Method, Option<Expr>);

impl Checker<'_> {
    /// The point of `grad(point)` or `hess(point)`.
    pub fn point(&mut self, name: &Ident, point: &ast::Expr, scope: &mut Scope) -> Option<Expr> {
        let function = &name.text;
        if scope.place() != Place::Optimizer {
            let message = format!("`{function}` can only be used in an optimizer");
            self.report(Diagnostic::new(Code::UnknownFunction, message).at(name.span, "there is no gradient here"));
            return None;
        }
        let at = self.term(point, scope)?;
        if !at.expr.has_axis(Axis::C) || is_no_vector(&at.expr) {
            let message = format!("`{function}` takes the point at which it is wanted");
            let diagnostic = Diagnostic::new(Code::AxisMismatch, message)
                .at(point.span, axes::describe_this(at.expr.axes()))
                .help(format!("as in `{function}(z)`"));
            self.report(diagnostic);
            return None;
        }
        Some(at.expr)
    }

    /// `hess(point)`: the second derivative of F at a point.
    pub fn hessian(&mut self, name: &Ident, point: &ast::Expr, scope: &mut Scope) -> Option<Value> {
        let at = self.point(name, point, scope)?;
        let known = scope.hessians.iter().position(|taken| *taken == at);
        let i = known.unwrap_or(scope.hessians.len());
        if i >= MAX_HESSIANS {
            let message = format!("an optimizer has at most {MAX_HESSIANS} Hessians");
            self.report(Diagnostic::new(Code::UnsupportedOptimizer, message).at(name.span, "one too many"));
            return None;
        }
        if known.is_none() {
            scope.hessians.push(at);
        }
        Some(Value::leaf(inputs::hessian(i)))
    }

    /// `solve(A, b)`: A⁻¹ b for A = a·hess(y) + c and b a multiple of grad(y), head by head.
    pub fn solution(&mut self, name: &Ident, args: &[&ast::Expr], scope: &mut Scope) -> Option<Value> {
        if scope.place() != Place::Optimizer {
            let message = "`solve` can only be used in an optimizer";
            self.report(Diagnostic::new(Code::UnknownFunction, message).at(name.span, "there is no Hessian here"));
            return None;
        }
        let [matrix, right, rest @ ..] = args else { return None };
        let (operator, vector) = (self.term(matrix, scope), self.term(right, scope));
        let way = match rest.first() {
            Some(way) => match self.way(way, scope) {
                Some(way) => way,
                None => {
                    self.report(no_way(way.span));
                    return None;
                }
            },
            None => Some(self.remember((Method::Exact, None))),
        };
        let (operator, vector, way) = (operator?, vector?, way?);
        let Some((method, scale)) = self.way_of(&way.expr) else {
            self.report(no_way(name.span));
            return None;
        };
        let Some((point, curvature, shift)) = affine(&operator.expr, &scope.hessians) else {
            let diagnostic = Diagnostic::new(Code::UnsupportedOptimizer, "`solve` takes a Hessian")
                .at(matrix.span, "not of the form `a * hess(point) + b` with numbers a and b")
                .help("as in `solve(hess(z) + eps, grad(z))`");
            self.report(diagnostic);
            return None;
        };
        let Some((force, factor)) = multiple(&vector.expr, scope.forces.len()) else {
            let diagnostic = Diagnostic::new(Code::UnsupportedOptimizer, "`solve` takes a gradient")
                .at(right.span, "not a number times `grad(point)`")
                .note("a Hessian belongs to one head, so it can only meet what that head has: its own gradient")
                .help("as in `solve(hess(z), grad(z))`");
            self.report(diagnostic);
            return None;
        };
        let taken = &scope.forces[force];
        if taken.point != point || taken.preconditioner.is_some() {
            let what = if taken.point != point { "taken at another point" } else { "already the solution of a system" };
            let diagnostic =
                Diagnostic::new(Code::UnsupportedOptimizer, "`solve` takes the gradient at the point of the Hessian")
                    .also(matrix.span, "this Hessian")
                    .at(right.span, what);
            self.report(diagnostic);
            return None;
        }
        let shift = self.params.plain(&shift);
        let span = self.foreign.unwrap_or(name.span);
        let preconditioner = Preconditioner { curvature, shift, method, scale, span };
        let leaf = self.force(Force { point, preconditioner: Some(preconditioner) }, name.span, scope)?;
        self.keep(Expr::leaf(leaf).times(&factor), vector.weight.saturating_add(2), name.span)
    }

    /// The value of a parameter that says how to solve; nothing when the text says something else.
    pub fn way(&mut self, expr: &ast::Expr, scope: &mut Scope) -> Option<Option<Value>> {
        match &expr.node {
            ExprKind::Name(name) if name == "exact" && !scope.knows(name) => {
                Some(Some(self.remember((Method::Exact, None))))
            }
            // What is wrong with it has been said.
            ExprKind::Name(name) if scope.knows(name) && scope.value(name).is_none() => Some(None),
            ExprKind::Name(name) => {
                let value = scope.value(name)?;
                self.way_of(&value.expr).map(|_| Some(value.clone()))
            }
            ExprKind::Call { name, args } if name.text == "exact" || name.text == "taylor" => {
                let way = self.way_with(name, args, expr.span, scope);
                Some(way.map(|way| self.remember(way)))
            }
            _ => None,
        }
    }

    fn way_with(&mut self, name: &Ident, args: &[Arg], span: Span, scope: &mut Scope) -> Option<Way> {
        let is_series = name.text == "taylor";
        let positional: Vec<&ast::Expr> =
            args.iter().filter(|arg| !matches!(arg, Arg::Named { .. })).filter_map(value_of).collect();
        let order = match (is_series, positional.as_slice()) {
            (true, [order]) => Some(self.order(order, scope)?),
            (false, []) => None,
            _ => {
                let diagnostic = if is_series {
                    Diagnostic::new(Code::WrongArity, "`taylor` takes the order at which the series ends")
                        .at(span, "")
                        .help("write `taylor(1)` or `taylor(1, scale = tau)`")
                } else {
                    Diagnostic::new(Code::WrongArity, "`exact` takes no number").at(span, "").help("write `exact`")
                };
                self.report(diagnostic);
                return None;
            }
        };
        let (mut scale, mut alpha) = (None, None);
        for arg in args {
            let Arg::Named { name: given, value } = arg else { continue };
            let place = match (given.text.as_str(), is_series) {
                ("scale", _) => &mut scale,
                ("alpha", true) => &mut alpha,
                _ => {
                    let known: &[&str] = if is_series { &["scale", "alpha"] } else { &["scale"] };
                    let message = format!("`{}` has no argument called `{}`", name.text, given.text);
                    let diagnostic = Diagnostic::new(Code::UnknownArgument, message)
                        .at(given.span, "not an argument")
                        .did_you_mean(&given.text, known.iter().copied())
                        .note(format!("its arguments by name: {}", known.join(", ")));
                    self.report(diagnostic);
                    return None;
                }
            };
            if place.is_some() {
                let message = format!("`{}` is given twice", given.text);
                self.report(Diagnostic::new(Code::DuplicateParameter, message).at(given.span, "given before"));
                return None;
            }
            *place = Some(self.number(given, value, scope)?);
        }
        let method = order.map_or(Method::Exact, |order| Method::Taylor { order, alpha });
        Some((method, scale))
    }

    fn order(&mut self, expr: &ast::Expr, scope: &mut Scope) -> Option<u32> {
        let order = self.structural(expr, scope, "the order of a series")?;
        let whole = Some(&order).filter(|order| order.is_integer()).and_then(|order| order.to_u32());
        let fits = whole.filter(|order| *order <= MAX_ORDER);
        if fits.is_none() {
            let message = format!("a series ends at a whole number from 0 to {MAX_ORDER}, not at {order}");
            let diagnostic = Diagnostic::new(Code::ParameterDomain, message)
                .at(expr.span, "not such a number")
                .help("every order costs one product with the Hessian; `exact` solves the system itself");
            self.report(diagnostic);
        }
        fits
    }

    /// A number by name: a term over parameters and sizes, or a parameter declared in place.
    fn number(&mut self, name: &Ident, value: &ast::Expr, scope: &mut Scope) -> Option<Expr> {
        let number = match self.given(value, scope)? {
            Given::Term(term) => term.expr,
            Given::Param(param @ ParamValue::Learn { .. }) => {
                let site = self.foreign.unwrap_or(value.span);
                self.declare(&name.text, param, None, Origin::Ingredient(Kind::Optimizer), site)?.expr
            }
            Given::Param(param) => {
                let message = format!("`{}` cannot differ from token to token", name.text);
                let is = if param.is_of_query() { "a number per query" } else { "a number per attended token" };
                self.report(Diagnostic::new(Code::BadValue, message).at(value.span, is));
                return None;
            }
        };
        if number.is_zero() || !number.axes().is_empty() || is_no_vector(&number) {
            let message = format!("`{}` needs a number other than 0", name.text);
            let is = match number.axes().is_empty() {
                true => "not such a number".to_string(),
                false => axes::describe_this(number.axes()),
            };
            self.report(Diagnostic::new(Code::ParameterDomain, message).at(value.span, is));
            return None;
        }
        Some(number)
    }

    fn remember(&mut self, way: Way) -> Value {
        self.ways.push(way);
        Value::leaf(inputs::method(self.ways.len() - 1))
    }

    /// The way a value stands for.
    fn way_of(&self, e: &Expr) -> Option<Way> {
        let leaf = e.as_leaf()?;
        let at = (0..self.ways.len()).find(|i| leaf.same_input(&inputs::method(*i)))?;
        self.ways.get(at).cloned()
    }
}

/// Whether a default says how to solve.
pub fn is_way(expr: &ast::Expr) -> bool {
    match &expr.node {
        ExprKind::Name(name) => name == "exact",
        ExprKind::Call { name, .. } => name.text == "exact" || name.text == "taylor",
        _ => false,
    }
}

pub fn no_way(span: Span) -> Diagnostic {
    Diagnostic::new(Code::BadValue, "there is no such way to solve")
        .at(span, "not `exact` and not `taylor(…)`")
        .help("write `exact`, or `taylor(1)` for a series")
}

/// Whether the term holds a Hessian or a way to solve, which are values only for `solve`.
pub fn is_no_vector(e: &Expr) -> bool {
    let strange = |leaf: &Leaf| {
        let i = leaf.ordinal;
        leaf.same_input(&Leaf { ordinal: i, ..inputs::hessian(0) })
            || leaf.same_input(&Leaf { ordinal: i, ..inputs::method(0) })
    };
    traverse::inputs(e).iter().any(strange)
}

/// (y, a, b) when the term is a·hess(y) + b with numbers a and b.
fn affine(e: &Expr, points: &[Expr]) -> Option<(Expr, Expr, Expr)> {
    let (curved, plain): (Vec<Expr>, Vec<Expr>) = e.terms().into_iter().partition(is_no_vector);
    let [curved] = curved.as_slice() else { return None };
    let factors = curved.factors();
    let at = factors.iter().position(is_no_vector)?;
    let point = (0..points.len()).find(|i| factors[at] == Expr::leaf(inputs::hessian(*i)))?;
    let rest = Expr::mul(factors.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, f)| f.clone()));
    let shift = Expr::add(plain);
    let are_numbers = rest.axes().is_empty() && shift.axes().is_empty() && !is_no_vector(&rest);
    are_numbers.then(|| (points[point].clone(), rest, shift))
}

/// (i, c) when the term is c times the i-th force.
fn multiple(e: &Expr, forces: usize) -> Option<(usize, Expr)> {
    let factors = e.factors();
    let is_force = |f: &Expr| (0..forces).find(|i| *f == Expr::leaf(inputs::gradient(*i)));
    let at = factors.iter().position(|f| is_force(f).is_some())?;
    let force = is_force(&factors[at])?;
    let rest = Expr::mul(factors.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, f)| f.clone()));
    rest.axes().is_empty().then_some((force, rest))
}
