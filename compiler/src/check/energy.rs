//! The bodies of local and global energies: what they assign to `E` or `F`, and that it is one number.

use super::axes;
use super::inputs;
use super::library::Entry;
use super::term::{Bindings, Checker, Place, Scope, Value};
use super::value::Purpose;
use crate::diagnostic::{Code, Diagnostic};
use crate::span::Span;
use crate::syntax::ast::{Arg, Ident, Kind, Stmt, StmtKind};

/// How deep ingredients may call one another.
const MAX_CALL_DEPTH: usize = 32;

const ONE_NUMBER: &str = "`norm(x)`, `dot(x, y)` and `sum(x)` turn components into one number";

/// What an ingredient assigns.
pub fn result_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Local => "E",
        Kind::Global => "F",
        Kind::Optimizer => "z",
    }
}

impl<'a> Checker<'a> {
    /// An ingredient called in the body of another.
    pub fn nested(
        &mut self,
        entry: &Entry<'a>,
        name: &Ident,
        args: &[Arg],
        span: Span,
        scope: &mut Scope,
    ) -> Option<Value> {
        if entry.ingredient.kind == Kind::Optimizer {
            let message = format!("the optimizer `{}` cannot be called inside another", name.text);
            let diagnostic = Diagnostic::new(Code::UnsupportedOptimizer, message)
                .at(name.span, "an optimizer is a program, not a value");
            self.report(diagnostic);
            return None;
        }
        if self.library.is_endless(entry) {
            return None;
        }
        if self.call_depth >= MAX_CALL_DEPTH {
            let message = format!("more than {MAX_CALL_DEPTH} ingredients call one another");
            self.report(Diagnostic::new(Code::NestingTooDeep, message).at(span, "one call too deep"));
            return None;
        }
        let bindings = self.bind(entry, args, name.span, scope, Purpose::Call);
        let value = self.energy_of(entry, &bindings, &Bindings::new(), name.span)?;
        self.keep(value.expr, value.weight, span)
    }

    /// The energy an ingredient assigns, with its parameters put in.
    pub fn energy_of(&mut self, entry: &Entry<'a>, bindings: &Bindings, outer: &Bindings, site: Span) -> Option<Value> {
        self.visited.insert(entry.key());
        if self.library.is_endless(entry) {
            return None;
        }
        let mut scope = self.energy_scope(entry.ingredient.kind);
        scope.extend(outer);
        scope.extend(bindings);
        self.call_depth += 1;
        let value = self.inside(entry, site, |checker| checker.energy_body(entry, &mut scope));
        self.call_depth -= 1;
        value
    }

    fn energy_scope(&self, kind: Kind) -> Scope {
        let (place, leaves) = match kind {
            Kind::Global => (Place::Global, vec![self.energy.clone()]),
            _ => (Place::Local, vec![inputs::q(), inputs::k()]),
        };
        let mut scope = Scope::new(place);
        leaves.into_iter().for_each(|leaf| scope.define_leaf(leaf));
        scope
    }

    fn energy_body(&mut self, entry: &Entry<'a>, scope: &mut Scope) -> Option<Value> {
        let ingredient = entry.ingredient;
        let result = result_name(ingredient.kind);
        let mut misplaced = false;
        let mut assigned: Option<(Span, Option<Value>)> = None;
        for stmt in &ingredient.body {
            match stmt.kind {
                StmtKind::Let => self.define_let(stmt, scope),
                StmtKind::State => self.report(
                    Diagnostic::new(Code::BadValue, "an energy has no state")
                        .at(stmt.name.span, "only an optimizer carries something from step to step")
                        .help("write `let` for a name of a value"),
                ),
                StmtKind::Assign if stmt.name.text != result => {
                    self.report(wrong_target(stmt, ingredient.kind, scope));
                    misplaced = true;
                }
                StmtKind::Assign => {
                    let value = self.term(&stmt.value, scope);
                    let value = value.and_then(|value| self.scalar(value, ingredient.kind, stmt));
                    if let Some((before, _)) = assigned {
                        let message = format!("`{result}` is assigned twice");
                        let twice = Diagnostic::new(Code::DuplicateParameter, message);
                        self.report(twice.also(before, "first here").at(stmt.name.span, "again here"));
                    }
                    assigned = Some((stmt.name.span, value));
                }
            }
        }
        if assigned.is_none() && !misplaced {
            self.report(never_assigned(&ingredient.name, result));
        }
        assigned?.1
    }

    /// `let name = value;` in any body.
    pub fn define_let(&mut self, stmt: &Stmt, scope: &mut Scope) {
        let value = self.term(&stmt.value, scope);
        if self.name_is_free(&stmt.name, scope) {
            scope.define(&stmt.name.text, value);
        }
    }

    pub fn name_is_free(&mut self, name: &Ident, scope: &Scope) -> bool {
        let diagnostic = if inputs::RESERVED.contains(&name.text.as_str()) {
            reserved(name)
        } else if scope.knows(&name.text) {
            Diagnostic::new(Code::DuplicateParameter, format!("`{}` is defined twice", name.text))
                .at(name.span, "has a meaning already")
        } else {
            return true;
        };
        self.report(diagnostic);
        false
    }

    fn scalar(&mut self, value: Value, kind: Kind, stmt: &Stmt) -> Option<Value> {
        let (has, result) = (value.expr.axes(), &stmt.name.text);
        let per_token = axes::has_tokens(has) && kind == Kind::Global;
        if !axes::has_components(has) && !per_token {
            return Some(value);
        }
        let needs = if kind == Kind::Global { "one number per query" } else { "one number per attended token" };
        // Only a parameter brings components into a global energy; it stands in the file even if the energy does not.
        if kind == Kind::Global
            && let Some(entry) = self.params.vector_in(&value.expr)
        {
            let message = format!("`{result}` must be {needs}, but `{}` is a number per component", entry.param.name);
            let mut diagnostic = Diagnostic::new(Code::EnergyNotScalar, message).at(entry.site, "components");
            if self.foreign.is_none() {
                diagnostic = diagnostic.also(stmt.value.span, axes::describe_this(has));
            }
            self.diagnostics.push(diagnostic.help(ONE_NUMBER));
            return None;
        }
        let help = if per_token { "wrap it in sum(...)" } else { ONE_NUMBER };
        let diagnostic = Diagnostic::new(Code::EnergyNotScalar, format!("`{result}` must be {needs}"))
            .at(stmt.value.span, axes::describe_this(has))
            .help(help);
        self.report(diagnostic);
        None
    }
}

pub fn reserved(name: &Ident) -> Diagnostic {
    Diagnostic::new(Code::ReservedName, format!("`{}` has a meaning of its own", name.text))
        .at(name.span, "choose another name")
        .note(format!("names with a meaning: {}", inputs::RESERVED.join(", ")))
}

pub fn never_assigned(name: &Ident, result: &str) -> Diagnostic {
    Diagnostic::new(Code::MissingAssignment, format!("`{}` never assigns `{result}`", name.text))
        .at(name.span, format!("needs `{result} = …`"))
}

fn wrong_target(stmt: &Stmt, kind: Kind, scope: &Scope) -> Diagnostic {
    let (name, result) = (&stmt.name.text, result_name(kind));
    let diagnostic = Diagnostic::new(Code::BadValue, format!("`{name}` cannot be assigned here"))
        .at(stmt.name.span, format!("{} assigns `{result}`", super::library::describe_with_article(kind)));
    if scope.knows(name) || inputs::RESERVED.contains(&name.as_str()) {
        diagnostic
    } else {
        diagnostic.help(format!("to name a value, write `let {name} = …;`"))
    }
}
