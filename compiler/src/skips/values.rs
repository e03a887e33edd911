//! Numbers for the parameters of an optimizer: those a user gives, and for the rest those of the recipe.

use super::polynomial::Polynomial;
use super::series::{self, Spacing};
use crate::check::inputs;
use crate::check::recipe::{Param, ParamValue, Program, Recipe};
use crate::diagnostic::nearest;
use crate::ir::{Expr, Leaf, Op, Rational, Role, traverse};
use crate::notation::math::Math;
use crate::notation::text;
use std::collections::BTreeMap;

/// Terms without inputs that stand for parameters and sizes, by name; empty when the weights stay symbolic.
pub type Values = BTreeMap<String, Expr>;

/// A value for every parameter and size that occurs in the optimizer: the one given, or else the one that the recipe
/// fixes or starts with, if that is a plain number.
pub fn values(recipe: &Recipe, given: &[(String, Rational)]) -> Result<Values, String> {
    let known = known(recipe);
    let given: Values = given.iter().map(|(name, value)| (name.clone(), Expr::constant(value.clone()))).collect();
    if let Some(name) = given.keys().find(|name| !known.contains(*name)) {
        return Err(unknown(name, recipe, &known));
    }
    let occurring = occurring(&recipe.program).into_iter();
    occurring.map(|leaf| Ok((leaf.name.to_string(), value(&leaf, recipe, &given)?))).collect()
}

/// ` at β = 0.8, η = 0.5`, or nothing.
pub fn described(values: Option<&Values>) -> String {
    let one = |(name, term): (&String, &Expr)| {
        let value = Polynomial::constant_of(term).map(|value| series::shown(&value, true, Spacing::Wide));
        format!("{} = {}", text::print(&Math::symbol(name)), value.unwrap_or_default())
    };
    match values {
        Some(values) if !values.is_empty() => format!(" at {}", values.iter().map(one).collect::<Vec<_>>().join(", ")),
        _ => String::new(),
    }
}

fn value(leaf: &Leaf, recipe: &Recipe, given: &Values) -> Result<Expr, String> {
    let name = &*leaf.name;
    if let Some(value) = given.get(name) {
        return Ok(value.clone());
    }
    let Some(own) = recipe.param(name).and_then(own_value) else {
        return Err(format!("`{name}` needs a value, as in `{name}=1`"));
    };
    let value = traverse::substitute_leaves(own, &mut |size| given.get(&*size.name).cloned());
    let missing: Vec<String> = traverse::inputs(&value).iter().map(|size| format!("`{}`", size.name)).collect();
    match missing.as_slice() {
        [] => Ok(value),
        [first, ..] => {
            let own = text::plain(own);
            Err(format!("`{name}` needs a value: the recipe has {own}, which is no number without {first}"))
        }
    }
}

/// What the recipe fixes a parameter to, or lets it start with.
fn own_value(param: &Param) -> Option<&Expr> {
    match &param.value {
        ParamValue::Fixed(value) | ParamValue::Learn { init: value, .. } => Some(value),
        ParamValue::Gate(..) | ParamValue::Decay(_) => None,
    }
}

/// The parameters and sizes in the optimizer's terms; a sum over components brings the size d.
fn occurring(program: &Program) -> Vec<Leaf> {
    let starts = program.states.iter().map(|state| &state.init);
    let terms = program.gradients.iter().chain(&program.next_states).chain([&program.z]).chain(starts);
    let leaves = terms.flat_map(traverse::subterms).filter_map(|e| match e.op() {
        Op::Sum(..) => Some(inputs::sizes()[1].clone()),
        Op::Leaf(leaf) => Some(leaf.clone()),
        _ => None,
    });
    let mut leaves: Vec<Leaf> = leaves.filter(|leaf| matches!(leaf.role, Role::Param | Role::Size)).collect();
    leaves.sort();
    leaves.dedup();
    leaves
}

/// Every name that makes a difference: what occurs, and the sizes it is computed from.
fn known(recipe: &Recipe) -> Vec<String> {
    let occurring = occurring(&recipe.program);
    let own = occurring.iter().filter_map(|leaf| own_value(recipe.param(&leaf.name)?));
    let sizes = own.flat_map(traverse::inputs);
    let mut leaves: Vec<Leaf> = occurring.iter().cloned().chain(sizes).collect();
    leaves.sort_by_key(|leaf| (leaf.role != Role::Param, leaf.ordinal));
    leaves.dedup();
    leaves.iter().map(|leaf| leaf.name.to_string()).collect()
}

fn unknown(name: &str, recipe: &Recipe, known: &[String]) -> String {
    let there_are = match known {
        [] => "it has no parameters".to_string(),
        known => format!("it has {}", known.join(", ")),
    };
    if recipe.param(name).is_some() {
        return format!("`{name}` is no parameter of the optimizer; {there_are}");
    }
    match nearest(name, known.iter().map(String::as_str)) {
        Some(known) => format!("the optimizer has no parameter called `{name}`; did you mean `{known}`?"),
        None => format!("the optimizer has no parameter called `{name}`; {there_are}"),
    }
}
