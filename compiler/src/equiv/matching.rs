//! Matching parameters: by name, then by role and order; both recipes are rewritten over the shared inputs.

use crate::check::recipe::{Origin, Param, ParamValue, Program, Recipe, State, Whose};
use crate::ir::{Expr, Leaf, traverse};

/// Two recipes over the same inputs, and what the match assumed.
#[derive(Clone, Debug)]
pub struct Matched {
    pub a: Recipe,
    pub b: Recipe,
    pub notes: Vec<String>,
}

/// An input and the one that takes its place.
type Renaming = Vec<(Leaf, Leaf)>;

/// Matches the parameters of two recipes.
pub fn matched(a: &Recipe, b: &Recipe) -> Matched {
    let (a, b) = (&with_values(a, &b.params), &with_values(b, &a.params));
    let pairs = pairs(&a.params, &b.params);
    let (mut in_a, mut in_b): (Renaming, Renaming) = (vec![], vec![]);
    for (x, y) in &pairs {
        // What both promise of the sign holds of the shared input.
        let shared = Leaf { sign: x.leaf.sign.meet(y.leaf.sign), ..x.leaf.clone() };
        in_a.push((x.leaf.clone(), shared.clone()));
        in_b.push((y.leaf.clone(), shared));
    }
    let alone = |of: &Recipe, side: fn(&(&Param, &Param)) -> String| {
        let matched: Vec<String> = pairs.iter().map(side).collect();
        of.params.iter().filter(|p| !matched.contains(&p.name)).cloned().collect::<Vec<Param>>()
    };
    let (only_a, only_b) = (alone(a, |p| p.0.name.clone()), alone(b, |p| p.1.name.clone()));
    for param in &only_b {
        in_b.push((param.leaf.clone(), apart(&param.leaf, &a.params)));
    }
    let lone = |r: &Recipe, p: &Param| format!("{} is a parameter of `{}` only", p.name, r.name);
    let mut notes: Vec<String> = pairs.iter().filter_map(|(x, y)| value_note(a, x, b, y)).collect();
    notes.extend(only_a.iter().map(|p| lone(a, p)));
    notes.extend(only_b.iter().map(|p| lone(b, p)));
    Matched { a: renamed(a, &in_a), b: renamed(b, &in_b), notes }
}

/// The recipe with fixed parameters at their values, unless the other one has the same parameter at the same value or
/// learns it: what is learned can take any value, so there the rule is compared as a function of it.
fn with_values(recipe: &Recipe, others: &[Param]) -> Recipe {
    let counterpart =
        |p: &Param| pairs(&recipe.params, others).into_iter().find(|(x, _)| x.name == p.name).map(|(_, y)| y);
    let mut values: Vec<(Leaf, Expr)> = Vec::new();
    for param in &recipe.params {
        let ParamValue::Fixed(value) = &param.value else { continue };
        let is_shared = counterpart(param).is_some_and(|other| match &other.value {
            ParamValue::Fixed(theirs) => theirs == value,
            _ => true,
        });
        if !is_shared {
            values.push((param.leaf.clone(), value.clone()));
        }
    }
    let is_put_in = |p: &Param| values.iter().any(|(leaf, _)| leaf.same_input(&p.leaf));
    let params = recipe.params.iter().filter(|p| !is_put_in(p)).cloned().collect();
    let put_in = |e: &Expr| {
        traverse::substitute_leaves(e, &mut |leaf| {
            values.iter().find(|(from, _)| from.same_input(leaf)).map(|(_, value)| value.clone())
        })
    };
    Recipe { params, ..over(recipe, put_in) }
}

/// Same name and role first; the others of one role in their order.
fn pairs<'a>(a: &'a [Param], b: &'a [Param]) -> Vec<(&'a Param, &'a Param)> {
    let named = |x: &Param, y: &Param| x.name == y.name && x.leaf.role == y.leaf.role;
    let mut pairs: Vec<(&Param, &Param)> = Vec::new();
    for x in a {
        pairs.extend(b.iter().find(|y| named(x, y)).map(|y| (x, y)));
    }
    for x in a.iter().filter(|x| !b.iter().any(|y| named(x, y))) {
        let is_taken = |y: &Param| pairs.iter().any(|(_, other)| other.name == y.name);
        let like = |y: &Param| y.leaf.role == x.leaf.role && y.origin == x.origin;
        let free = b.iter().find(|y| like(y) && !is_taken(y) && !a.iter().any(|x| named(x, y)));
        pairs.extend(free.map(|y| (x, y)));
    }
    pairs
}

/// A one-sided parameter under a name and number the other side does not have.
fn apart(leaf: &Leaf, others: &[Param]) -> Leaf {
    let mut name = leaf.name.to_string();
    while others.iter().any(|p| p.name == name) {
        name.push('′');
    }
    Leaf { name: name.into(), ordinal: leaf.ordinal.saturating_add(500), ..leaf.clone() }
}

/// What a match of two parameters assumes, if anything.
fn value_note(a: &Recipe, x: &Param, b: &Recipe, y: &Param) -> Option<String> {
    let (x_value, y_value) = (value_text(a, x), value_text(b, y));
    let name = &x.name;
    if x.name != y.name {
        return Some(format!(
            "{} of `{}` ({x_value}) is taken for {} of `{}` ({y_value}): the rules agree for equal values",
            x.name, a.name, y.name, b.name
        ));
    }
    (x.value != y.value).then(|| {
        format!("{name} is {x_value} in `{}` and {y_value} in `{}`: the rules agree for equal {name}", a.name, b.name)
    })
}

/// The value as the recipe writes it.
fn value_text(recipe: &Recipe, param: &Param) -> String {
    let uses = [&recipe.ingredients.local, &recipe.ingredients.global, &recipe.ingredients.optimizer];
    let written = uses.iter().flat_map(|used| &used.values).find(|(name, _)| *name == param.name);
    match (written, &param.value) {
        (Some((_, text)), _) if param.origin != Origin::Recipe => text.clone(),
        (_, ParamValue::Fixed(e)) => e.to_string(),
        (_, ParamValue::Learn { init, each }) => format!("learn({init}{})", each.marks()),
        (_, ParamValue::Gate(squash, Whose::Token)) => format!("gate({})", squash.as_str()),
        (_, ParamValue::Gate(squash, Whose::Query)) => format!("gate({}, per query)", squash.as_str()),
        (_, ParamValue::Decay(squash)) => format!("decay({})", squash.as_str()),
    }
}

/// A recipe over other inputs.
fn renamed(recipe: &Recipe, renaming: &Renaming) -> Recipe {
    let mut recipe = over(recipe, |e| rename_inputs(e, renaming));
    for param in &mut recipe.params {
        if let Some((_, to)) = renaming.iter().find(|(from, _)| from.same_input(&param.leaf)) {
            param.leaf = to.clone();
            param.name = to.name.to_string();
        }
    }
    recipe
}

/// A recipe with every term rewritten.
fn over(recipe: &Recipe, term: impl Fn(&Expr) -> Expr) -> Recipe {
    let mut recipe = recipe.clone();
    recipe.local = term(&recipe.local);
    recipe.global = term(&recipe.global);
    recipe.energy = term(&recipe.energy);
    recipe.program = Program {
        states: recipe.program.states.iter().map(|s| State { init: term(&s.init), ..s.clone() }).collect(),
        gradients: recipe.program.gradients.iter().map(&term).collect(),
        z: term(&recipe.program.z),
        next_states: recipe.program.next_states.iter().map(&term).collect(),
        preconditioner: recipe.program.preconditioner.as_ref().map(|p| p.over(&term)),
        written: None,
    };
    for constraint in &mut recipe.constraints {
        constraint.radius = term(&constraint.radius);
    }
    for condition in &mut recipe.conditions {
        condition.difference = term(&condition.difference);
    }
    recipe
}

/// A term with inputs replaced, each at the axes it stands at.
pub fn rename_inputs(e: &Expr, renaming: &[(Leaf, Leaf)]) -> Expr {
    traverse::substitute_leaves(e, &mut |leaf| {
        let (_, to) = renaming.iter().find(|(from, _)| from.same_input(leaf))?;
        Some(Expr::leaf(Leaf { axes: leaf.axes.clone(), ..to.clone() }))
    })
}
