//! Optimizers: the statements are run once on symbols, in order, which leaves the new token and the new states as
//! terms over the old ones and the gradients.

use super::axes;
use super::energy::never_assigned;
use super::inputs;
use super::library::Entry;
use super::recipe::{Program, State};
use super::term::{Bindings, Checker, Place, Scope, Value};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Axis, Expr};
use crate::span::Span;
use crate::syntax::ast::{self, Ident, Stmt, StmtKind};

/// Gradients and states an optimizer may have.
const MAX_GRADIENTS: usize = 16;
const MAX_STATES: usize = 16;

impl<'a> Checker<'a> {
    /// The program of an optimizer, with its parameters put in.
    pub fn program_of(
        &mut self,
        entry: &Entry<'a>,
        bindings: &Bindings,
        outer: &Bindings,
        site: Span,
    ) -> Option<Program> {
        self.visited.insert(entry.key());
        if self.library.is_endless(entry) {
            return None;
        }
        let mut constants = outer.clone();
        constants.extend(bindings.iter().map(|(name, value)| (name.clone(), value.clone())));
        self.inside(entry, site, |checker| checker.run(entry, &constants))
    }

    fn run(&mut self, entry: &Entry<'a>, constants: &Bindings) -> Option<Program> {
        let mut scope = Scope::new(Place::Optimizer);
        scope.define_leaf(inputs::z());
        scope.extend(constants);
        let mut states: Vec<State> = Vec::new();
        let mut lets: Vec<&str> = Vec::new();
        let mut moved = false;
        for stmt in &entry.ingredient.body {
            match stmt.kind {
                StmtKind::Let => {
                    lets.push(&stmt.name.text);
                    self.define_let(stmt, &mut scope);
                }
                StmtKind::State => self.define_state(stmt, constants, &mut scope, &mut states),
                StmtKind::Assign => {
                    moved |= stmt.name.text == "z";
                    self.assign(stmt, &mut scope, &states, &lets);
                }
            }
        }
        if !moved {
            self.report(never_assigned(&entry.ingredient.name, "z"));
        } else if scope.gradients.is_empty() && scope.value("z").is_some() {
            let message = format!("`{}` never takes a gradient", entry.ingredient.name.text);
            let diagnostic = Diagnostic::new(Code::UnsupportedOptimizer, message)
                .at(entry.ingredient.name.span, "moves the token without looking at the energy")
                .help("`grad(z)` is the gradient of F at z");
            self.report(diagnostic);
            return None;
        }
        let z = scope.value("z")?.expr.clone();
        let now = |state: &State| scope.value(&state.leaf.name).map(|value| value.expr.clone());
        let next_states = states.iter().map(now).collect::<Option<Vec<Expr>>>()?;
        moved.then_some(Program { next_states, states, gradients: scope.gradients, z })
    }

    fn define_state(&mut self, stmt: &Stmt, constants: &Bindings, scope: &mut Scope, states: &mut Vec<State>) {
        let mut outside = Scope::new(Place::Value);
        outside.extend(constants);
        let init = self.term(&stmt.value, &mut outside);
        if !self.name_is_free(&stmt.name, scope) {
            return;
        }
        if states.len() >= MAX_STATES {
            let message = format!("an optimizer has at most {MAX_STATES} states");
            self.report(Diagnostic::new(Code::UnsupportedOptimizer, message).at(stmt.name.span, "one too many"));
            return scope.define(&stmt.name.text, None);
        }
        let leaf = inputs::state(states.len(), &stmt.name.text);
        let Some(init) = init else {
            return scope.define(&stmt.name.text, None);
        };
        if !init.expr.axes().is_empty() {
            let diagnostic = Diagnostic::new(Code::BadValue, "a state starts as a plain number")
                .at(stmt.value.span, axes::describe_this(init.expr.axes()));
            self.report(diagnostic);
        }
        states.push(State { leaf: leaf.clone(), init: init.expr });
        scope.define_leaf(leaf);
    }

    fn assign(&mut self, stmt: &Stmt, scope: &mut Scope, states: &[State], lets: &[&str]) {
        let name = stmt.name.text.as_str();
        let value = self.term(&stmt.value, scope);
        let is_state = states.iter().any(|state| &*state.leaf.name == name);
        if name != "z" && !is_state {
            // A name whose definition failed has been talked about.
            let failed = scope.knows(name) && scope.value(name).is_none();
            if lets.contains(&name) || !failed {
                self.report(not_assignable(&stmt.name, lets.contains(&name), scope.knows(name)));
            }
            return;
        }
        let value = value.filter(|value| {
            let has = value.expr.axes();
            let fits = has.contains(Axis::C) || has.is_empty() && is_state;
            if !fits {
                let diagnostic =
                    Diagnostic::new(Code::AxisMismatch, format!("`{name}` holds the components of a token"))
                        .at(stmt.value.span, axes::describe_this(has));
                self.report(diagnostic);
            }
            fits
        });
        scope.define(name, value);
    }

    /// `grad(point)`: the gradient of F at a point, under a name of its own.
    pub fn gradient(&mut self, name: &Ident, point: &ast::Expr, scope: &mut Scope) -> Option<Value> {
        if scope.place() != Place::Optimizer {
            let diagnostic = Diagnostic::new(Code::UnknownFunction, "`grad` can only be used in an optimizer")
                .at(name.span, "there is no gradient here");
            self.report(diagnostic);
            return None;
        }
        let at = self.term(point, scope)?;
        if !at.expr.has_axis(Axis::C) {
            let diagnostic =
                Diagnostic::new(Code::AxisMismatch, "`grad` takes the point at which the gradient is wanted")
                    .at(point.span, axes::describe_this(at.expr.axes()))
                    .help("as in `grad(z)`");
            self.report(diagnostic);
            return None;
        }
        let known = scope.gradients.iter().position(|taken| *taken == at.expr);
        let i = known.unwrap_or(scope.gradients.len());
        if i >= MAX_GRADIENTS {
            let message = format!("an optimizer takes at most {MAX_GRADIENTS} gradients");
            self.report(Diagnostic::new(Code::UnsupportedOptimizer, message).at(name.span, "one too many"));
            return None;
        }
        if known.is_none() {
            scope.gradients.push(at.expr);
        }
        Some(Value::leaf(inputs::gradient(i)))
    }
}

fn not_assignable(name: &Ident, is_let: bool, is_known: bool) -> Diagnostic {
    let text = &name.text;
    if is_let {
        return Diagnostic::new(Code::BadValue, format!("`{text}` is a `let` and keeps its value"))
            .at(name.span, "cannot be assigned")
            .help(format!("write `state {text} = 0;` for something that changes"));
    }
    if is_known {
        return Diagnostic::new(Code::BadValue, format!("`{text}` cannot be assigned"))
            .at(name.span, "an optimizer assigns `z` and its states");
    }
    Diagnostic::new(Code::UnknownName, format!("there is no state called `{text}`"))
        .at(name.span, "not known")
        .help(format!("write `state {text} = 0;` before, or `let {text} = …;` for the name of a value"))
}
