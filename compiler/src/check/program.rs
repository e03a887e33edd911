//! Optimizers: the statements are run once on symbols, in order, which leaves the new token and the new states as
//! terms over the old ones and the gradients.

use std::collections::BTreeSet;

use super::axes;
use super::definition::collect_names;
use super::energy::never_assigned;
use super::inputs;
use super::library::Entry;
use super::recipe::{Assigned, Program, State, Written};
use super::recognize::recognized;
use super::solve::{Force, is_no_vector};
use super::term::{Bindings, Checker, Place, Scope, Value};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Axis, Expr, Leaf, Sign, traverse};
use crate::span::Span;
use crate::syntax::ast::{self, Ident, Stmt, StmtKind};

/// Gradients and states an optimizer may have.
const MAX_GRADIENTS: usize = 16;
const MAX_STATES: usize = 16;

/// What a run of the statements leaves, the gradients still numbered as they were met.
struct Steps {
    states: Vec<State>,
    z: Expr,
    next_states: Vec<Expr>,
}

/// What a run does with the names of values.
#[derive(Clone, Copy, PartialEq)]
enum Names {
    /// The value stands wherever the name does.
    PutIn,
    /// The name stands, and the value on a line of its own.
    Kept,
}

/// What the statements leave behind.
struct Run {
    scope: Scope,
    states: Vec<State>,
    lines: Vec<Assigned>,
}

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

    /// Runs the program under the assumption that states which start nonnegative stay so, and without the assumption
    /// for those that do not.
    fn run(&mut self, entry: &Entry<'a>, constants: &Bindings) -> Option<Program> {
        let said = self.diagnostics.len();
        let mut any_sign: Vec<String> = Vec::new();
        loop {
            self.diagnostics.truncate(said);
            let program = self.run_assuming(entry, constants, &any_sign);
            let broken = program.iter().flat_map(|program| self.broken_promises(program));
            let broken: Vec<String> = broken.filter(|name| !any_sign.contains(name)).collect();
            if broken.is_empty() {
                let program = program?;
                let written = self.written(entry, constants, &any_sign, &program);
                return Some(Program { written, ..program });
            }
            any_sign.extend(broken);
        }
    }

    /// The states that were assumed to be nonnegative and do not stay so, at the values parameters start with.
    fn broken_promises(&self, program: &Program) -> Vec<String> {
        let states = program.states.iter().zip(&program.next_states);
        let broken = states.filter(|(state, next)| {
            state.leaf.sign.is_nonnegative() && !self.params.at_start(next).sign().is_nonnegative()
        });
        broken.map(|(state, _)| state.leaf.name.to_string()).collect()
    }

    fn run_assuming(&mut self, entry: &Entry<'a>, constants: &Bindings, any_sign: &[String]) -> Option<Program> {
        let Run { scope, states, .. } = self.statements(entry, constants, any_sign, Names::PutIn)?;
        let z = scope.value("z")?.expr.clone();
        let now = |state: &State| scope.value(&state.leaf.name).map(|value| value.expr.clone());
        let next_states = states.iter().map(now).collect::<Option<Vec<Expr>>>()?;
        self.with_forces(entry, scope.forces, Steps { z, next_states, states })
    }

    /// The program line by line; nothing where a name has two meanings or a force is not used.
    fn written(
        &mut self,
        entry: &Entry<'a>,
        constants: &Bindings,
        any_sign: &[String],
        program: &Program,
    ) -> Option<Written> {
        let said = self.diagnostics.len();
        let run = self.statements(entry, constants, any_sign, Names::Kept);
        self.diagnostics.truncate(said);
        let Run { scope, states, mut lines } = run?;
        let z = scope.value("z")?.expr.clone();
        for state in states {
            if !lines.iter().any(|line| line.leaf.name == state.leaf.name) {
                let value = Expr::leaf(state.leaf.clone());
                lines.push(Assigned {
                    leaf: inputs::line(lines.len(), &state.leaf.name, &value, state.leaf.sign),
                    value,
                    is_state: true,
                });
            }
        }
        let names: BTreeSet<&str> = lines.iter().map(|line| &*line.leaf.name).collect();
        let is_faithful = names.len() == lines.len() && scope.forces.len() == program.gradients.len();
        // What nobody looks at is not written; later lines go first.
        let mut used: Vec<Assigned> = Vec::new();
        for line in lines.into_iter().rev() {
            let looked_at =
                used.iter().map(|later| &later.value).chain([&z]).any(|e| traverse::mentions(e, &line.leaf));
            if looked_at || line.is_state {
                used.insert(0, line);
            }
        }
        is_faithful.then_some(Written { lines: used, z })
    }

    /// Puts a value on a line of its own, and its name there in the place of the value, unless that is as short.
    fn write_down(&mut self, name: &str, is_state: bool, scope: &mut Scope, lines: &mut Vec<Assigned>) {
        let Some(value) = scope.value(name).cloned() else { return };
        if is_no_vector(&value.expr) {
            return;
        }
        let sign = self.params.at_start(&value.expr).sign();
        let leaf = inputs::line(lines.len(), name, &value.expr, sign);
        let is_short = value.expr.as_leaf().is_some() || value.expr.as_const().is_some();
        lines.push(Assigned { leaf: leaf.clone(), value: value.expr.clone(), is_state });
        if !is_short {
            scope.define(name, Some(Value { expr: Expr::leaf(leaf), weight: 1, ..value }));
        }
    }

    /// Runs the statements in order; nothing when they do not move the token.
    fn statements(
        &mut self,
        entry: &Entry<'a>,
        constants: &Bindings,
        any_sign: &[String],
        names: Names,
    ) -> Option<Run> {
        let mut scope = Scope::new(Place::Optimizer);
        scope.define_leaf(inputs::z());
        scope.extend(constants);
        let mut states: Vec<State> = Vec::new();
        let mut lets: Vec<&str> = Vec::new();
        let mut lines: Vec<Assigned> = Vec::new();
        let (mut moved, mut complete) = (false, true);
        let body = &entry.ingredient.body;
        for (place, stmt) in body.iter().enumerate() {
            let name = stmt.name.text.as_str();
            moved |= stmt.kind == StmtKind::Assign && name == "z";
            if self.uses_what_is_not_yet(stmt, &body[place..], &scope) {
                complete = false;
                if stmt.kind != StmtKind::Assign {
                    scope.define(name, None);
                }
                continue;
            }
            match stmt.kind {
                StmtKind::Let => {
                    lets.push(name);
                    self.define_let(stmt, &mut scope);
                }
                StmtKind::State => self.define_state(stmt, constants, any_sign, &mut scope, &mut states),
                StmtKind::Assign => self.assign(stmt, &mut scope, &states, &lets),
            }
            if names == Names::Kept && stmt.kind != StmtKind::State && name != "z" {
                self.write_down(name, stmt.kind == StmtKind::Assign, &mut scope, &mut lines);
            }
        }
        if !moved {
            self.report(never_assigned(&entry.ingredient.name, "z"));
            return None;
        }
        complete.then_some(Run { scope, states, lines })
    }

    /// Whether a statement needs a name that a later one brings.
    fn uses_what_is_not_yet(&mut self, stmt: &Stmt, rest: &[Stmt], scope: &Scope) -> bool {
        let mut used = BTreeSet::new();
        collect_names(&stmt.value, &mut used);
        let brings = |other: &&Stmt| other.kind != StmtKind::Assign && used.contains(other.name.text.as_str());
        let Some(later) = rest.iter().filter(brings).find(|later| !scope.knows(&later.name.text)) else {
            return false;
        };
        let name = &later.name.text;
        if later.name == stmt.name {
            let diagnostic = Diagnostic::new(Code::RecursiveDefinition, format!("`{name}` is defined by itself"))
                .at(stmt.value.span, format!("needs `{name}`"));
            self.report(diagnostic);
            return true;
        }
        let diagnostic = Diagnostic::new(Code::RecursiveDefinition, format!("`{name}` is used before it exists"))
            .at(stmt.value.span, format!("needs `{name}`"))
            .also(later.name.span, "which begins here")
            .help(format!("move `{} {name} = …;` up", if later.kind == StmtKind::State { "state" } else { "let" }));
        self.report(diagnostic);
        true
    }

    /// The program with the forces it really uses, numbered in order.
    fn with_forces(&mut self, entry: &Entry<'a>, forces: Vec<Force>, steps: Steps) -> Option<Program> {
        let name = &entry.ingredient.name;
        let mut terms: Vec<&Expr> = steps.next_states.iter().chain([&steps.z]).collect();
        let mut used: Vec<usize> = Vec::new();
        for (i, force) in forces.iter().enumerate().rev() {
            if terms.iter().any(|e| traverse::mentions(e, &inputs::gradient(i))) {
                used.insert(0, i);
                terms.push(&force.point);
            }
        }
        let Some(first) = used.first() else {
            let diagnostic =
                Diagnostic::new(Code::UnsupportedOptimizer, format!("`{}` never takes a gradient", name.text))
                    .at(name.span, "moves the token without looking at the energy")
                    .help("`grad(z)` is the gradient of F at z");
            self.report(diagnostic);
            return None;
        };
        let preconditioner = forces[*first].preconditioner.clone();
        if used.iter().any(|i| forces[*i].preconditioner != preconditioner) {
            let diagnostic = Diagnostic::new(
                Code::UnsupportedOptimizer,
                format!("`{}` uses gradients of different kinds", name.text),
            )
            .at(name.span, "solves a system for one, and none or another for the next")
            .help("let every gradient go through the same `solve(…)`, or none of them");
            self.report(diagnostic);
            return None;
        }
        let renumbered = |e: &Expr| {
            traverse::substitute_leaves(e, &mut |leaf| {
                let at = used.iter().position(|i| leaf.same_input(&inputs::gradient(*i)))?;
                Some(Expr::leaf(Leaf { axes: leaf.axes.clone(), ..inputs::gradient(at) }))
            })
        };
        Some(Program {
            gradients: used.iter().map(|i| renumbered(&forces[*i].point)).collect(),
            z: renumbered(&steps.z),
            next_states: steps.next_states.iter().map(renumbered).collect(),
            states: steps.states,
            preconditioner,
            written: None,
        })
    }

    fn define_state(
        &mut self,
        stmt: &Stmt,
        constants: &Bindings,
        any_sign: &[String],
        scope: &mut Scope,
        states: &mut Vec<State>,
    ) {
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
        let Some(init) = init else {
            return scope.define(&stmt.name.text, None);
        };
        let starts_nonnegative = self.params.at_start(&init.expr).sign().is_nonnegative();
        let assumed = starts_nonnegative && !any_sign.contains(&stmt.name.text);
        let sign = if assumed { Sign::NonNegative } else { Sign::Unknown };
        let leaf = Leaf { sign, ..inputs::state(states.len(), &stmt.name.text) };
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
        let value = self.term(&stmt.value, scope).map(|value| Value { expr: recognized(&value.expr), ..value });
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
            if is_no_vector(&value.expr) {
                let diagnostic = Diagnostic::new(Code::UnsupportedOptimizer, "a Hessian can only be solved with")
                    .at(stmt.value.span, "holds a Hessian, or a way to solve, outside of `solve(…)`")
                    .help("write `solve(hess(z), grad(z))`");
                self.report(diagnostic);
                return false;
            }
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
        let point = self.point(name, point, scope)?;
        self.force(Force { point, preconditioner: None }, name.span, scope).map(Value::leaf)
    }

    /// The name of a force, the same one for the same force.
    pub fn force(&mut self, force: Force, span: Span, scope: &mut Scope) -> Option<Leaf> {
        let known = scope.forces.iter().position(|taken| *taken == force);
        let i = known.unwrap_or(scope.forces.len());
        if i >= MAX_GRADIENTS {
            let message = format!("an optimizer takes at most {MAX_GRADIENTS} gradients");
            self.report(Diagnostic::new(Code::UnsupportedOptimizer, message).at(span, "one too many"));
            return None;
        }
        if known.is_none() {
            scope.forces.push(force);
        }
        Some(inputs::gradient(i))
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
