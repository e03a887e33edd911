//! One recipe, read twice: first to find out what its parameters are, then to write down the terms.

use std::collections::{BTreeMap, BTreeSet};

use super::ParamValue;
use super::definition::{check_head, collect_names, defined_twice, unused};
use super::energy::{reserved, result_name};
use super::inputs;
use super::library::{Entry, Key, Library, value_of};
use super::params::Findings;
use super::recipe::{Ingredients, Origin, Program, Recipe, Tokens, Used, Values, WriteBack};
use super::recognize::recognized;
use super::section::{Part, Sections};
use super::term::{Bindings, Checker, Place, Scope, Value, is_over_sizes};
use super::value::{Given, Purpose};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Axis, Expr, Leaf, Sign, traverse};
use crate::syntax::ast::{self, Arg, Ident, Kind};
use crate::syntax::print_expr;

/// The recipe, if nothing is wrong, and the ingredients that were looked into.
pub fn read(
    recipe: &ast::Recipe,
    library: &Library,
    budget: &mut usize,
    diagnostics: &mut Vec<Diagnostic>,
) -> (Option<Recipe>, BTreeSet<Key>) {
    let sections = Sections::of(recipe, library, diagnostics);
    diagnostics.extend(own_params(&sections));
    let mut first = Checker::new(library, Findings::default(), *budget);
    let outcome = first.recipe(recipe, &sections);
    *budget = first.budget;
    if outcome.is_none() || first.diagnostics.iter().any(Diagnostic::is_error) {
        diagnostics.extend(first.diagnostics);
        return (None, first.visited);
    }
    let mut second = Checker::new(library, first.params.findings(), *budget);
    let outcome = second.recipe(recipe, &sections);
    *budget = second.budget;
    diagnostics.extend(second.diagnostics);
    (outcome, second.visited)
}

/// Checks the file's ingredients: the heads of all, and the bodies of those no recipe looked into.
pub fn review(library: &Library, visited: &BTreeSet<Key>, budget: &mut usize, diagnostics: &mut Vec<Diagnostic>) {
    for entry in library.own() {
        diagnostics.extend(check_head(entry.ingredient));
        if visited.contains(&entry.key()) || library.is_endless(&entry) {
            continue;
        }
        // Nothing is known of the energies it will be given: it has to be right for some sign of theirs.
        let of_any_sign = reviewed(library, &entry, Sign::Unknown, *budget);
        let checker = match of_any_sign.diagnostics.is_empty() {
            true => of_any_sign,
            false => reviewed(library, &entry, Sign::Positive, *budget),
        };
        *budget = checker.budget;
        diagnostics.extend(checker.diagnostics);
    }
}

/// An ingredient looked into by itself, with energies of a sign.
fn reviewed<'a>(library: &'a Library<'a>, entry: &Entry<'a>, sign: Sign, budget: usize) -> Checker<'a> {
    let mut checker = Checker::new(library, Findings::default(), budget);
    checker.energy = inputs::energy(&[Axis::T, Axis::N], sign);
    let site = entry.ingredient.name.span;
    let mut scope = Scope::new(Place::Value);
    let bindings = checker.bind(entry, &[], site, &mut scope, Purpose::Review);
    let part = Part { name: &entry.ingredient.name, args: &[], defined: None };
    match entry.ingredient.kind {
        Kind::Optimizer => drop(checker.program_of(entry, &bindings, &Bindings::new(), site)),
        Kind::Local | Kind::Global => drop(checker.whole_energy(entry, &bindings, &Bindings::new(), part)),
    }
    checker
}

impl<'a> Checker<'a> {
    /// Everything in the order of a reader: the recipe's own parameters, energies, optimizer, constraints.
    fn recipe(&mut self, recipe: &ast::Recipe, sections: &Sections) -> Option<Recipe> {
        let outer = self.outer_params(&sections.params);
        let local = sections.local.and_then(|part| self.used_energy(Kind::Local, part, &outer));
        if let Some(local) = &local {
            let axes: Vec<Axis> = local.axes().iter().collect();
            self.energy = inputs::energy(&axes, local.sign());
        }
        let global = sections.global.and_then(|part| self.used_energy(Kind::Global, part, &outer));
        let program = sections.optimizer.and_then(|part| self.used_program(part, &outer));
        if let (Some(part), Some(program)) = (sections.optimizer, &program) {
            self.one_step_for_all(part, program);
        }
        let constraints = self.constraints(sections.constraints, &outer);
        let (local, global, program) = (local?, global?, program?);
        let values = sections.values.unwrap_or(Values::Free);
        let energy = recognized(&put_in(&global, &self.energy, &local));
        let size = traverse::tree_size(&energy);
        let energy = self.keep(energy, size, recipe.name.span)?.expr;
        Some(Recipe {
            name: recipe.name.text.clone(),
            local,
            global,
            energy,
            params: self.params.symbolic(),
            conditions: std::mem::take(&mut self.conditions),
            structural: self.params.structural(),
            constraints,
            values,
            write_back: sections.write_back.unwrap_or_else(|| usual_write_back(values, &program)),
            steps: sections.steps.unwrap_or(1),
            tokens: sections.tokens.unwrap_or(Tokens::Evolve),
            program,
            ingredients: Ingredients {
                local: self.used(Kind::Local, sections.local?),
                global: self.used(Kind::Global, sections.global?),
                optimizer: self.used(Kind::Optimizer, sections.optimizer?),
            },
        })
    }

    /// The optimizer moves the whole token: what it does outside of heads cannot differ from head to head, and nothing
    /// in it from token to token.
    fn one_step_for_all(&mut self, part: Part, program: &Program) {
        for param in self.params.symbolic() {
            let kind = match param.value {
                ref value if value.is_of_query() => "a number per query",
                ParamValue::Gate(..) | ParamValue::Decay(_) => "a number per attended token",
                ParamValue::Learn { each, .. } if each.component => "a number per component",
                ParamValue::Learn { each, .. } if each.head && program.mentions(&param.leaf) => "a number per head",
                _ => continue,
            };
            let is_own = param.origin == Origin::Ingredient(Kind::Optimizer);
            if is_own || program.mentions(&param.leaf) {
                let message = format!("`{}` of the optimizer is {kind}", param.name);
                let diagnostic = Diagnostic::new(Code::BadValue, message)
                    .at(part.name.span, "moves the whole token, all heads at once")
                    .help("give it a number, an expression over sizes, or `learn(…)`");
                self.report(diagnostic);
            }
        }
    }

    /// The recipe's own parameters, each seeing those before it.
    fn outer_params(&mut self, params: &[(&Ident, &ast::Expr)]) -> Bindings {
        let mut scope = Scope::new(Place::Value);
        let mut bindings = Bindings::new();
        for (place, (name, value)) in params.iter().enumerate() {
            let mut mentioned = BTreeSet::new();
            collect_names(value, &mut mentioned);
            let later = params[place..].iter().find(|(later, _)| mentioned.contains(later.text.as_str()));
            let value = match later {
                Some((later, _)) => {
                    let unknown = !scope.knows(&later.text);
                    if unknown {
                        self.report(defined_later(name, later, value));
                    }
                    None
                }
                None => self.given(value, &mut scope).and_then(|given| match given {
                    Given::Term(term) if !is_over_sizes(&term.expr) => Some(term),
                    Given::Term(term) => self.declare_own(name, ParamValue::Fixed(term.expr)),
                    Given::Param(param) => self.declare_own(name, param),
                }),
            };
            scope.define(&name.text, value.clone());
            bindings.insert(name.text.clone(), value);
        }
        bindings
    }

    fn declare_own(&mut self, name: &Ident, value: ParamValue) -> Option<Value> {
        // A name that is taken is reported once, with the section.
        if self.params.get(&name.text).is_some() {
            return None;
        }
        self.declare(&name.text, value, None, Origin::Recipe, name.span)
    }

    fn find(&mut self, kind: Kind, part: Part) -> Option<Entry<'a>> {
        match self.library.find(kind, part.name) {
            Ok(entry) => Some(entry),
            Err(diagnostic) => {
                self.report(diagnostic);
                None
            }
        }
    }

    /// The ingredient of a section, bound to the section's arguments.
    fn used_bindings(&mut self, kind: Kind, part: Part, outer: &Bindings) -> Option<(Entry<'a>, Bindings)> {
        let entry = self.find(kind, part)?;
        let mut scope = Scope::new(Place::Value);
        scope.extend(outer);
        let bindings = self.bind(&entry, part.args, part.name.span, &mut scope, Purpose::Use);
        Some((entry, bindings))
    }

    fn used_energy(&mut self, kind: Kind, part: Part, outer: &Bindings) -> Option<Expr> {
        let (entry, bindings) = self.used_bindings(kind, part, outer)?;
        let none = Bindings::new();
        let outer = if part.defined.is_some() { outer } else { &none };
        self.whole_energy(&entry, &bindings, outer, part)
    }

    fn used_program(&mut self, part: Part, outer: &Bindings) -> Option<Program> {
        let (entry, bindings) = self.used_bindings(Kind::Optimizer, part, outer)?;
        let none = Bindings::new();
        let outer = if part.defined.is_some() { outer } else { &none };
        self.program_of(&entry, &bindings, outer, part.name.span)
    }

    /// An energy that is used for itself must depend on what it is the energy of.
    fn whole_energy(&mut self, entry: &Entry<'a>, bindings: &Bindings, outer: &Bindings, part: Part) -> Option<Expr> {
        let site = part.name.span;
        let energy = recognized(&self.energy_of(entry, bindings, outer, site)?.expr);
        let kind = entry.ingredient.kind;
        let input = if kind == Kind::Local { inputs::q() } else { self.energy.clone() };
        if traverse::mentions(&energy, &input) {
            return Some(energy);
        }
        let result = result_name(kind);
        let message = format!("`{result}` of `{}` does not depend on `{}`", entry.ingredient.name.text, input.name);
        let diagnostic = Diagnostic::new(Code::BadValue, message)
            .at(site, "the same wherever the token is")
            .help("an energy moves a token only if it depends on it");
        self.report(diagnostic);
        None
    }

    fn used(&self, kind: Kind, part: Part) -> Used {
        let name = part.name.text.clone();
        let params = self.library.get(kind, &name).map(|entry| entry.ingredient.params.as_slice()).unwrap_or_default();
        let mut given: BTreeMap<&str, &ast::Expr> = BTreeMap::new();
        for (param, arg) in params.iter().zip(part.args) {
            if let Arg::Value(value) = arg {
                given.insert(&param.name.text, value);
            }
        }
        for arg in part.args {
            if let Arg::Named { name, value } = arg {
                given.insert(&name.text, value);
            }
        }
        let value = |param: &ast::Param| {
            let value = given.get(param.name.text.as_str()).copied().or(param.default.as_ref())?;
            Some((param.name.text.clone(), print_expr(value)))
        };
        let values = params.iter().filter_map(value).collect();
        Used { name, values }
    }
}

/// A gradient goes back through W1ᵀ, a Newton step through W1⁺; free values have a matrix of their own.
fn usual_write_back(values: Values, program: &Program) -> WriteBack {
    match (values, &program.preconditioner) {
        (Values::Free, _) => WriteBack::Free,
        (Values::Tied, None) => WriteBack::Transpose,
        (Values::Tied, Some(_)) => WriteBack::Pinv,
    }
}

/// F with the local energy in the place of its name.
fn put_in(global: &Expr, name: &Leaf, local: &Expr) -> Expr {
    traverse::substitute_leaves(global, &mut |leaf| {
        if !leaf.same_input(name) {
            return None;
        }
        let token = leaf.axes.iter().copied().find(|axis| axis.space == Axis::N.space);
        Some(token.map_or_else(|| local.clone(), |token| traverse::rename(local, Axis::N, token)))
    })
}

/// What is wrong with the names of a recipe's own parameters.
fn own_params(sections: &Sections) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let used = names_in_sections(sections);
    for (place, (name, _)) in sections.params.iter().enumerate() {
        let earlier = sections.params[..place].iter().find(|(earlier, _)| earlier.text == name.text);
        if let Some((earlier, _)) = earlier {
            diagnostics.push(defined_twice(earlier, name));
        } else if inputs::RESERVED.contains(&name.text.as_str()) {
            diagnostics.push(reserved(name));
        } else if !used.contains(name.text.as_str()) {
            diagnostics.push(unused(name, "the recipe"));
        }
    }
    diagnostics
}

fn names_in_sections<'e>(sections: &Sections<'e>) -> BTreeSet<&'e str> {
    let mut used = BTreeSet::new();
    for (_, value) in &sections.params {
        collect_names(value, &mut used);
    }
    for comparison in sections.constraints {
        collect_names(&comparison.right, &mut used);
    }
    for part in Kind::ALL.into_iter().filter_map(|kind| sections.part(kind)) {
        part.args.iter().filter_map(value_of).for_each(|value| collect_names(value, &mut used));
        let body = part.defined.map(|ingredient| ingredient.body.as_slice()).unwrap_or_default();
        body.iter().for_each(|stmt| collect_names(&stmt.value, &mut used));
    }
    used
}

fn defined_later(name: &Ident, later: &Ident, value: &ast::Expr) -> Diagnostic {
    let message = if name.text == later.text {
        format!("`{}` is defined by itself", name.text)
    } else {
        format!("`{}` uses `{}` before it is defined", name.text, later.text)
    };
    let diagnostic =
        Diagnostic::new(Code::RecursiveDefinition, message).at(value.span, format!("needs `{}`", later.text));
    if name.text == later.text { diagnostic } else { diagnostic.also(later.span, "defined here") }
}
