//! What can be said about an ingredient's head without looking at any values: names twice, reserved or unused.

use std::collections::BTreeSet;

use super::energy::reserved;
use super::inputs;
use super::library::{describe, visit};
use crate::diagnostic::{Code, Diagnostic};
use crate::syntax::ast::{Expr, ExprKind, Ident, Ingredient};

/// Checks the parameter list of a definition.
pub fn check_head(ingredient: &Ingredient) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    let used = used_names(ingredient);
    for (place, param) in ingredient.params.iter().enumerate() {
        let name = &param.name;
        let earlier = ingredient.params[..place].iter().find(|other| other.name.text == name.text);
        if let Some(earlier) = earlier {
            diagnostics.push(defined_twice(&earlier.name, name));
        } else if inputs::RESERVED.contains(&name.text.as_str()) {
            diagnostics.push(reserved(name));
        } else if !used.contains(name.text.as_str()) {
            diagnostics.push(unused(name, &format!("the {} `{}`", describe(ingredient.kind), ingredient.name.text)));
        }
    }
    diagnostics
}

pub fn defined_twice(first: &Ident, second: &Ident) -> Diagnostic {
    Diagnostic::new(Code::DuplicateParameter, format!("the parameter `{}` is defined twice", second.text))
        .also(first.span, "first here")
        .at(second.span, "again here")
}

pub fn unused(name: &Ident, whose: &str) -> Diagnostic {
    Diagnostic::new(Code::UnusedParameter, format!("{whose} never uses its parameter `{}`", name.text))
        .at(name.span, "changes nothing")
        .help("use it or remove it")
}

fn used_names(ingredient: &Ingredient) -> BTreeSet<&str> {
    let mut used = BTreeSet::new();
    let defaults = ingredient.params.iter().filter_map(|param| param.default.as_ref());
    for expr in ingredient.body.iter().map(|stmt| &stmt.value).chain(defaults) {
        collect_names(expr, &mut used);
    }
    used
}

/// Adds every name the expression mentions.
pub fn collect_names<'e>(expr: &'e Expr, names: &mut BTreeSet<&'e str>) {
    visit(expr, &mut |expr| {
        if let ExprKind::Name(name) = &expr.node {
            names.insert(name);
        }
    });
}
