//! What the parameters of an ingredient stand for: arguments are matched with parameters, values become declared
//! parameters or plain terms, and the ingredient's conditions are held against them.

use std::collections::HashMap;

use num_traits::Zero;

use super::domain;
use super::inputs;
use super::library::{Entry, visit};
use super::recipe::{Condition, Each, Origin, ParamValue, Squash, Whose};
use super::solve::{is_way, no_way};
use super::term::{Bindings, Checker, Place, Scope, Value, is_over_sizes};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Expr, Rational, Sign, rational};
use crate::span::Span;
use crate::syntax::ast::{self, Arg, CompareOp, ExprKind, Ident, Kind, Param, Per};
use crate::syntax::{print_comparison, print_expr};

/// Why an ingredient is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A recipe uses it: values become the recipe's parameters.
    Use,
    /// Another ingredient calls it: expressions are put in as they are.
    Call,
    /// For itself: parameters without a value get a stand-in.
    Review,
}

/// What a value in the text says.
pub enum Given {
    Param(ParamValue),
    Term(Value),
}

/// A value and where it was given.
struct Source<'e> {
    expr: &'e ast::Expr,
    site: Span,
    is_default: bool,
}

impl<'a> Checker<'a> {
    /// Runs `f` inside the text of an ingredient that is used at `site`.
    pub fn inside<R>(&mut self, entry: &Entry, site: Span, f: impl FnOnce(&mut Self) -> R) -> R {
        let saved = self.foreign;
        if entry.foreign && saved.is_none() {
            self.foreign = Some(site);
        }
        let result = f(self);
        self.foreign = saved;
        result
    }

    /// The ingredient's parameters with what they stand for.
    pub fn bind(&mut self, entry: &Entry, args: &[Arg], site: Span, scope: &mut Scope, purpose: Purpose) -> Bindings {
        let ingredient = entry.ingredient;
        let origin = Origin::Ingredient(ingredient.kind);
        let given = self.match_arguments(entry, args, site);
        let mut own = Scope::new(Place::Value);
        let mut bindings = Bindings::new();
        let mut sources: HashMap<&str, Source> = HashMap::new();
        for param in &ingredient.params {
            let name = param.name.text.as_str();
            // What is wrong with such names is said at the definition.
            if bindings.contains_key(name) || inputs::RESERVED.contains(&name) {
                bindings.entry(name.to_string()).or_insert(None);
                continue;
            }
            let value = match (given.get(name), &param.default) {
                (Some(expr), _) => {
                    let at = self.foreign.unwrap_or(expr.span);
                    sources.insert(name, Source { expr, site: at, is_default: false });
                    let given = self.given_to(ingredient.kind, param, expr, scope);
                    given.and_then(|given| self.settle(entry, param, given, origin, at, purpose))
                }
                (None, Some(default)) => {
                    let at = self.foreign.unwrap_or(if entry.foreign { site } else { default.span });
                    sources.insert(name, Source { expr: default, site: at, is_default: at == site });
                    let given =
                        self.inside(entry, site, |checker| checker.given_to(ingredient.kind, param, default, &mut own));
                    // A default belongs to the recipe, however deep the call.
                    let purpose = if purpose == Purpose::Call { Purpose::Use } else { purpose };
                    given.and_then(|given| self.settle(entry, param, given, origin, at, purpose))
                }
                (None, None) if purpose == Purpose::Review => self.stand_in(entry, param, origin),
                (None, None) => {
                    self.report(missing_argument(entry, &param.name, site));
                    None
                }
            };
            own.define(name, value.clone());
            bindings.insert(name.to_string(), value);
        }
        for failed in self.conditions(entry, &bindings, &sources, site) {
            bindings.insert(failed, None);
        }
        bindings
    }

    /// Arguments by parameter name; positional ones come first, in order.
    fn match_arguments<'e>(&mut self, entry: &Entry, args: &'e [Arg], site: Span) -> HashMap<String, &'e ast::Expr> {
        let (name, params) = (&entry.ingredient.name.text, &entry.ingredient.params);
        let mut given: HashMap<String, &ast::Expr> = HashMap::new();
        for (place, arg) in args.iter().enumerate() {
            let (param, value, span) = match arg {
                Arg::Per(per, span) => {
                    self.report(misplaced(*per, *span));
                    continue;
                }
                Arg::Named { name: param, value } => {
                    if !params.iter().any(|known| known.name.text == param.text) {
                        self.report(unknown_argument(name, param, params));
                        continue;
                    }
                    (param.text.clone(), value, param.span)
                }
                Arg::Value(value) => match params.get(place) {
                    Some(param) => (param.name.text.clone(), value, value.span),
                    None => {
                        let takes = count(params.len(), "argument");
                        let message = format!("`{name}` takes {takes}, but {} given", were(args.len()));
                        let spare = Diagnostic::new(Code::WrongArity, message).at(value.span, "one too many");
                        self.report(if params.is_empty() {
                            spare.also(site, "")
                        } else {
                            spare.help(signature(name, params))
                        });
                        break;
                    }
                },
            };
            if given.contains_key(&param) {
                let message = format!("`{param}` is given twice");
                self.report(Diagnostic::new(Code::DuplicateParameter, message).at(span, "given before"));
                continue;
            }
            given.insert(param, value);
        }
        given
    }

    /// What a value given to an ingredient says; an optimizer may be told how to solve.
    fn given_to(&mut self, kind: Kind, param: &Param, expr: &ast::Expr, scope: &mut Scope) -> Option<Given> {
        let way = if kind == Kind::Optimizer { self.way(expr, scope) } else { None };
        match way {
            Some(way) => way.map(Given::Term),
            None if param.default.as_ref().is_some_and(is_way) => {
                self.report(no_way(expr.span));
                None
            }
            None => self.given(expr, scope),
        }
    }

    /// What the text of a value says; `learn`, `gate` and `decay` are only known here.
    pub fn given(&mut self, expr: &ast::Expr, scope: &mut Scope) -> Option<Given> {
        let ExprKind::Call { name, args } = &expr.node else {
            return self.term(expr, scope).map(Given::Term);
        };
        match name.text.as_str() {
            "learn" => self.learned(args, expr.span).map(Given::Param),
            "gate" => {
                let is_of_query = matches!(args.last(), Some(Arg::Per(Per::Query, _)));
                let (whose, squash) = match is_of_query {
                    true => (Whose::Query, &args[..args.len() - 1]),
                    false => (Whose::Token, &args[..]),
                };
                let squash = self.squash(name, squash, expr.span)?;
                Some(Given::Param(ParamValue::Gate(squash, whose)))
            }
            "decay" => self.squash(name, args, expr.span).map(|squash| Given::Param(ParamValue::Decay(squash))),
            _ => self.term(expr, scope).map(Given::Term),
        }
    }

    fn learned(&mut self, args: &[Arg], span: Span) -> Option<ParamValue> {
        let [Arg::Value(init), marks @ ..] = args else {
            self.report(wrong_learn(span));
            return None;
        };
        let mut each = Each::default();
        for mark in marks {
            let (own, of, at) = match mark {
                Arg::Per(Per::Head, at) => (&mut each.head, Per::Head, at),
                Arg::Per(Per::Component, at) => (&mut each.component, Per::Component, at),
                Arg::Per(Per::Query, at) => {
                    self.report(misplaced(Per::Query, *at));
                    return None;
                }
                Arg::Value(_) | Arg::Named { .. } => {
                    self.report(wrong_learn(span));
                    return None;
                }
            };
            if std::mem::replace(own, true) {
                let message = format!("`per {}` is given twice", of.as_str());
                self.report(Diagnostic::new(Code::DuplicateParameter, message).at(*at, "given before"));
                return None;
            }
        }
        let value = self.term(init, &mut Scope::new(Place::Value))?;
        Some(ParamValue::Learn { init: value.expr, each })
    }

    fn squash(&mut self, name: &Ident, args: &[Arg], span: Span) -> Option<Squash> {
        if let Some(Arg::Per(per, at)) = args.iter().find(|arg| matches!(arg, Arg::Per(..))) {
            self.report(misplaced(*per, *at));
            return None;
        }
        let given = match args {
            [Arg::Value(ast::Expr { node: ExprKind::Name(given), .. })] => Some(given.as_str()),
            _ => None,
        };
        let known = Squash::ALL.into_iter().find(|squash| given == Some(squash.as_str()));
        if known.is_none() {
            let names: Vec<&str> = Squash::ALL.iter().map(|squash| squash.as_str()).collect();
            let message = format!("`{}` takes the function that brings it between 0 and 1", name.text);
            let at = args.first().map_or(span, Arg::span);
            let mut diagnostic = Diagnostic::new(Code::BadValue, message).at(at, "not one of them");
            diagnostic = diagnostic.help(format!("write `{}({})`", name.text, names.join("` or `")));
            self.report(diagnostic);
        }
        known
    }

    /// Turns what was given into the term the parameter stands for, declaring it if the recipe is to own it.
    fn settle(
        &mut self,
        entry: &Entry,
        param: &Param,
        given: Given,
        origin: Origin,
        site: Span,
        purpose: Purpose,
    ) -> Option<Value> {
        let value = match given {
            Given::Param(value) => value,
            Given::Term(value) if purpose == Purpose::Call => return Some(value),
            Given::Term(value) if is_over_sizes(&value.expr) => ParamValue::Fixed(value.expr),
            Given::Term(value) => return Some(value),
        };
        let promised = promised_sign(&param.name.text, &entry.ingredient.conditions);
        self.declare(&param.name.text, value, promised, origin, site)
    }

    pub fn declare(
        &mut self,
        name: &str,
        value: ParamValue,
        promised: Option<Sign>,
        origin: Origin,
        site: Span,
    ) -> Option<Value> {
        match self.params.declare(name, value, promised, origin, site) {
            Ok(expr) => Some(Value::of(expr, 1)),
            Err(clash) => {
                // Its spans are sites, which stand in the file.
                self.diagnostics.push(clash);
                None
            }
        }
    }

    /// A number that meets the conditions on a parameter nobody gave a value.
    fn stand_in(&mut self, entry: &Entry, param: &Param, origin: Origin) -> Option<Value> {
        let name = param.name.text.as_str();
        let candidates = [(1, 1), (2, 1), (3, 2), (3, 1), (1, 2), (10, 1), (0, 1), (-1, 1)];
        let candidates = candidates.map(|(n, d)| rational::ratio(n, d));
        let fits = |checker: &mut Self, number: &Rational| {
            let silent = checker.diagnostics.len();
            let mut scope = Scope::new(Place::Value);
            scope.define(name, Some(Value::number(number.clone())));
            let holds = entry.ingredient.conditions.iter().all(|condition| {
                !names_in(condition).contains(&name)
                    || checker
                        .difference(condition, &mut scope)
                        .is_none_or(|d| domain::holds(condition.op, &checker.params.at_start(&d)) == Some(true))
            });
            checker.diagnostics.truncate(silent);
            holds
        };
        let number = candidates.iter().find(|number| fits(self, number)).cloned().unwrap_or_else(|| rational::int(1));
        let promised = promised_sign(name, &entry.ingredient.conditions);
        self.declare(name, ParamValue::Fixed(Expr::constant(number)), promised, origin, param.name.span)
    }

    /// left − right.
    fn difference(&mut self, condition: &ast::Comparison, scope: &mut Scope) -> Option<Expr> {
        let left = self.term(&condition.left, scope);
        let right = self.term(&condition.right, scope);
        Some(left?.expr.minus(&right?.expr))
    }

    /// Holds the conditions against the values; gives the parameters that do not meet theirs.
    fn conditions(
        &mut self,
        entry: &Entry,
        bindings: &Bindings,
        sources: &HashMap<&str, Source>,
        site: Span,
    ) -> Vec<String> {
        let mut failed = Vec::new();
        for condition in &entry.ingredient.conditions {
            let mut scope = Scope::new(Place::Value);
            scope.extend(bindings);
            let difference = self.inside(entry, site, |checker| checker.difference(condition, &mut scope));
            let Some(difference) = difference else {
                continue;
            };
            self.conditions.push(Condition { op: condition.op, difference: difference.clone() });
            let difference = self.params.at_start(&difference);
            let verdict = domain::holds(condition.op, &difference);
            if verdict == Some(true) || verdict.is_none() && domain::has_gate(&difference) {
                continue;
            }
            let name = &entry.ingredient.name.text;
            let mut about: Vec<(&str, &Source)> = Vec::new();
            for used in names_in(condition) {
                if let Some(source) = sources.get(used)
                    && !about.iter().any(|(seen, _)| *seen == used)
                {
                    about.push((used, source));
                }
            }
            let is: Vec<String> = about.iter().map(|(name, source)| state_of(name, source)).collect();
            let needs = print_comparison(condition);
            let message = match verdict {
                Some(_) if is.is_empty() => format!("`{name}` needs {needs}, which does not hold"),
                Some(_) => format!("`{name}` needs {needs}, but {}", is.join(" and ")),
                None if is.is_empty() => format!("`{name}` needs {needs}, which is not sure"),
                None => format!("`{name}` needs {needs}, which is not sure: {}", is.join(" and ")),
            };
            let (at, label) = match about.first() {
                Some((param, source)) if source.is_default => {
                    (source.site, format!("by its default, {}", state_of(param, source)))
                }
                Some((_, source)) if verdict.is_none() => (source.site, "may be outside the domain".to_string()),
                Some((_, source)) => (source.site, "outside the domain".to_string()),
                None => (self.foreign.unwrap_or(site), "outside the domain".to_string()),
            };
            // The site stands in the file.
            self.diagnostics.push(Diagnostic::new(Code::ParameterDomain, message).at(at, label));
            failed.extend(about.iter().map(|(name, _)| name.to_string()));
        }
        failed
    }
}

/// `p is 1/2`, or `T starts at -1`.
fn state_of(name: &str, source: &Source) -> String {
    if let ExprKind::Call { name: call, args } = &source.expr.node
        && call.text == "learn"
        && let Some(Arg::Value(init)) = args.first()
    {
        return format!("{name} starts at {}", print_expr(init));
    }
    format!("{name} is {}", print_expr(source.expr))
}

fn names_in(condition: &ast::Comparison) -> Vec<&str> {
    let mut names = Vec::new();
    for side in [&condition.left, &condition.right] {
        visit(side, &mut |expr| {
            if let ExprKind::Name(name) = &expr.node {
                names.push(name.as_str());
            }
        });
    }
    names
}

/// The sign that conditions such as `T > 0` or `1 <= p` promise for a parameter.
fn promised_sign(name: &str, conditions: &[ast::Comparison]) -> Option<Sign> {
    let signs = conditions.iter().filter_map(|condition| {
        let (param, op, bound) = match (&condition.left.node, &condition.right.node) {
            (ExprKind::Name(param), ExprKind::Number { value, .. }) => (param, condition.op, value),
            (ExprKind::Number { value, .. }, ExprKind::Name(param)) => (param, domain::mirrored(condition.op), value),
            _ => return None,
        };
        // Number literals are never negative.
        match op {
            CompareOp::Greater if param == name => Some(Sign::Positive),
            CompareOp::GreaterEqual if param == name && bound.is_zero() => Some(Sign::NonNegative),
            CompareOp::GreaterEqual if param == name => Some(Sign::Positive),
            CompareOp::LessEqual if param == name && bound.is_zero() => Some(Sign::NonPositive),
            CompareOp::Less if param == name && bound.is_zero() => Some(Sign::Negative),
            _ => None,
        }
    });
    signs.reduce(Sign::meet)
}

fn wrong_learn(span: Span) -> Diagnostic {
    Diagnostic::new(Code::WrongArity, "`learn` takes the value to start from")
        .at(span, "")
        .help("write `learn(1)` or `learn(1, per head)`; `per component` may stand there too")
}

/// A mark where it marks nothing.
fn misplaced(per: Per, span: Span) -> Diagnostic {
    let (call, example) = match per {
        Per::Head => ("learn", "learn(1, per head)"),
        Per::Component => ("learn", "learn(1, per component)"),
        Per::Query => ("gate", "gate(sigmoid, per query)"),
    };
    Diagnostic::new(Code::BadValue, format!("`per {}` belongs inside `{call}(…)`", per.as_str()))
        .at(span, "")
        .help(format!("write `{example}`"))
}

fn missing_argument(entry: &Entry, param: &Ident, site: Span) -> Diagnostic {
    let name = &entry.ingredient.name.text;
    Diagnostic::new(Code::WrongArity, format!("`{name}` needs a value for `{}`", param.text))
        .at(site, format!("`{}` has no default", param.text))
        .help(format!("write `{name}({} = …)`", param.text))
}

fn unknown_argument(name: &str, given: &Ident, params: &[Param]) -> Diagnostic {
    let known = params.iter().map(|param| param.name.text.as_str());
    Diagnostic::new(Code::UnknownArgument, format!("`{name}` has no parameter called `{}`", given.text))
        .at(given.span, "not a parameter")
        .did_you_mean(&given.text, known)
        .note(signature(name, params))
}

fn signature(name: &str, params: &[Param]) -> String {
    let names: Vec<&str> = params.iter().map(|param| param.name.text.as_str()).collect();
    if names.is_empty() {
        format!("`{name}` has no parameters")
    } else {
        format!("its parameters: {}", names.join(", "))
    }
}

fn count(n: usize, what: &str) -> String {
    match n {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

fn were(n: usize) -> String {
    if n == 1 { "1 is".to_string() } else { format!("{n} are") }
}
