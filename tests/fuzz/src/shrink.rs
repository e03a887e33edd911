//! Smaller recipes that fail in the same way.
//!
//! A recipe has a fixed list of smaller neighbours: an ingredient replaced by a plain one, an expression by one of its
//! parts, a section left out, a number by 1. Neighbours need not be valid; whoever tries them finds out. The first that
//! fails in the same way takes the recipe's place, until none does.

use crate::tree::{
    Each, Exponent, Expr, Function, Ingredient, Kind, Method, Optimizer, Pairing, Param, Place, Ratio, Recipe,
    Statement, Value, Values, Way,
};
use crate::{generate, prelude};
use std::time::{Duration, Instant};

/// How many neighbours are tried, and for how long.
const TRIES: usize = 1500;
const TIME: Duration = Duration::from_secs(90);

/// The smallest recipe found for which `fails` still holds: rounds over the neighbours, each going on where it found one.
pub fn shrink(recipe: &Recipe, mut fails: impl FnMut(&Recipe) -> bool) -> Recipe {
    let mut smallest = recipe.clone();
    let (start, mut tries) = (Instant::now(), 0);
    loop {
        let (mut step, mut found_any) = (0, false);
        let mut all = neighbours(&smallest);
        while let Some(neighbour) = all.get(step) {
            tries += 1;
            if tries > TRIES || start.elapsed() > TIME {
                return smallest;
            }

            if fails(neighbour) {
                smallest = neighbour.clone();
                all = neighbours(&smallest);
                found_any = true;
            } else {
                step += 1;
            }
        }
        if !found_any {
            return smallest;
        }
    }
}

/// A recipe after steps from neighbour to neighbour; `None` where there are not so many.
pub fn along(recipe: &Recipe, path: &[usize]) -> Option<Recipe> {
    path.iter().try_fold(recipe.clone(), |recipe, step| neighbours(&recipe).into_iter().nth(*step))
}

/// Everything that is a little smaller, the largest steps first.
pub fn neighbours(recipe: &Recipe) -> Vec<Recipe> {
    let mut all = Vec::new();
    let mut offer = |change: &dyn Fn(&mut Recipe)| {
        let mut other = recipe.clone();
        change(&mut other);
        generate::tidy(&mut other);
        if measure(&other) < measure(recipe) && !all.contains(&other) {
            all.push(other);
        }
    };
    offer(&|r| r.optimizer = plain_descent());
    offer(&|r| r.constraints.clear());
    offer(&|r| (r.write_back, r.steps, r.tokens_evolve) = (None, None, None));
    offer(&|r| r.values = Values::Tied);
    offer(&|r| r.name = "r".to_string());
    for local in ["dot", "euclidean"] {
        offer(&|r| r.local = prelude::energy(Kind::Local, local));
    }
    offer(&|r| r.global = in_place(Kind::Global, Expr::Energy.apply(Function::Sum)));
    offer(&|r| r.global = prelude::energy(Kind::Global, "lse"));
    for index in 0..2 {
        // What the prelude has under a name can be made smaller once it stands in place.
        offer(&|r| {
            let ingredient = part(r, index);
            if ingredient.place != Place::Section {
                ingredient.place = Place::Section;
                ingredient.name = "a".to_string();
            }
        });
        for position in 0..part(&mut recipe.clone(), index).lets.len() {
            offer(&|r| {
                let ingredient = part(r, index);
                let (name, value) = ingredient.lets.remove(position);
                replace_name(&mut ingredient.body, &name, &value);
                ingredient.lets.iter_mut().for_each(|(_, other)| replace_name(other, &name, &value));
            });
        }
    }
    offer(&|r| {
        if r.optimizer.place != Place::Section {
            r.optimizer.place = Place::Section;
            r.optimizer.name = "a".to_string();
        }
    });
    for position in 0..recipe.optimizer.body.len() {
        offer(&|r| match r.optimizer.body.remove(position) {
            Statement::Let(name, value) => substitute_later(&mut r.optimizer.body, &name, &value),
            Statement::State(name, value) => {
                r.optimizer.body.retain(|s| !matches!(s, Statement::Assign(assigned, _) if *assigned == name));
                substitute_later(&mut r.optimizer.body, &name, &value);
            }
            Statement::Assign(..) => {}
        });
    }
    numbers_for_parameters(recipe, &mut offer);
    for root in 0..roots(&mut recipe.clone()).len() {
        let mut copy = recipe.clone();
        let count = roots(&mut copy)[root].size();
        for position in 0..count {
            let replacements = {
                let mut all = roots(&mut copy);
                let mut at = position;
                all[root].descend(&mut at).map(|node| smaller(node)).unwrap_or_default()
            };
            for replacement in replacements {
                offer(&|r| {
                    let mut at = position;
                    if let Some(node) = roots(r)[root].descend(&mut at) {
                        *node = replacement.clone();
                    }
                });
            }
        }
    }
    all
}

/// How large a recipe is. An ingredient of the prelude counts a little more than the same in place, where it can be made
/// smaller; what says less counts less.
fn measure(recipe: &Recipe) -> usize {
    let number = |ratio: &Ratio| usize::from(*ratio != Ratio::whole(1));
    fn weight(e: &Expr, number: &dyn Fn(&Ratio) -> usize) -> usize {
        let own = match e {
            Expr::Number(ratio) => 4 + number(ratio),
            Expr::Power(_, Exponent::Number(ratio)) => 5 + usize::from(*ratio != Ratio::whole(2)),
            Expr::Call(..) => 40,
            Expr::Solve(solve) => match &solve.way {
                Way::Here(method) => 20 + way(method),
                Way::Name(_) => 20,
            },
            Expr::Name(_) => 6,
            _ => 5,
        };
        own + e.children().into_iter().map(|child| weight(child, number)).sum::<usize>()
    }
    fn way(method: &Method) -> usize {
        let values = method.values().into_iter().flatten().map(|v| 5 + usize::from(matches!(v, Value::Learn { .. })));
        let order = match method {
            Method::Exact { .. } => 0,
            Method::Taylor { order, .. } => 5 + *order as usize,
        };
        order + values.sum::<usize>()
    }
    let weight = |e: &Expr| weight(e, &number);
    let param = |param: &Param| {
        let plain = matches!(param.name.as_str(), "a1" | "a2" | "a3" | "a4");
        let value = match &param.value {
            Value::Fixed(e) => weight(e),
            Value::Learn { init, each } => {
                5 + weight(init) + 2 * usize::from(each.head) + 6 * usize::from(each.component)
            }
            Value::Gate | Value::QueryGate => 10,
            Value::Decay => 12,
            Value::Term(e) => 3 + weight(e),
            Value::Way(method) => way(method),
        };
        3 + usize::from(!plain) + value
    };
    let place = |place: Place| match place {
        Place::Prelude => 3,
        Place::Section => 0,
        Place::File => 2,
    };
    let energy = |ingredient: &Ingredient| {
        let lets = ingredient.lets.iter().map(|(_, value)| 5 + weight(value)).sum::<usize>();
        lets + weight(&ingredient.body) + place(ingredient.place)
    };
    let statements = recipe.optimizer.body.iter().map(|statement| 5 + weight(statement.value())).sum::<usize>();
    let sections = [recipe.write_back.is_some(), recipe.steps.is_some(), recipe.tokens_evolve.is_some()];
    let constraints = recipe.constraints.iter().map(|c| 10 + weight(&c.radius)).sum::<usize>();
    energy(&recipe.local)
        + energy(&recipe.global)
        + statements
        + place(recipe.optimizer.place)
        + recipe.declared().map(param).sum::<usize>()
        + constraints
        + 10 * recipe.implied.len()
        + 5 * sections.into_iter().filter(|x| *x).count()
        + usize::from(recipe.values == Values::Free)
        + usize::from(recipe.name != "r")
}

fn plain_descent() -> Optimizer {
    prelude::optimizer("gd")
}

fn in_place(kind: Kind, body: Expr) -> Ingredient {
    Ingredient { kind, name: "a".to_string(), params: vec![], lets: vec![], body, place: Place::Section }
}

fn part(recipe: &mut Recipe, index: usize) -> &mut Ingredient {
    if index == 0 { &mut recipe.local } else { &mut recipe.global }
}

/// Takes a change of a recipe.
type Offer<'a> = dyn FnMut(&dyn Fn(&mut Recipe)) + 'a;

/// Parameters become numbers, and values simpler ones.
fn numbers_for_parameters(recipe: &Recipe, offer: &mut Offer) {
    let lists = 4;
    for list in 0..lists {
        for position in 0..params(&mut recipe.clone(), list).len() {
            let param = params(&mut recipe.clone(), list)[position].clone();
            let Param { name, value, .. } = &param;
            let number = match value {
                Value::Fixed(number) => number.clone(),
                Value::Learn { init, .. } => init.clone(),
                Value::Term(term) => term.clone(),
                _ => Expr::number(1),
            };
            let places = [recipe.local.place, recipe.global.place, recipe.optimizer.place];
            // What the prelude defines keeps its parameters.
            let is_own = places.get(list) != Some(&Place::Prelude);
            for value in [&Expr::number(1), &number].into_iter().filter(|_| is_own) {
                offer(&|r| {
                    if matches!(value, Expr::Number(_)) || list != 3 {
                        everywhere(r, &mut |e| replace_name(e, name, value));
                        params(r, list).retain(|p| p.name != *name);
                        r.local.place = in_section(r.local.place);
                        r.global.place = in_section(r.global.place);
                        r.optimizer.place = in_section(r.optimizer.place);
                    }
                });
            }
            if !matches!(value, Value::Way(_)) {
                offer(&|r| params(r, list)[position].value = Value::Fixed(Expr::number(1)));
                offer(&|r| params(r, list)[position].value = Value::Fixed(number.clone()));
                let component = value.is_vector();
                for each in [Each::default(), Each { head: false, component }] {
                    offer(&|r| params(r, list)[position].value = Value::Learn { init: number.clone(), each });
                }
                if *value == Value::Decay {
                    offer(&|r| params(r, list)[position].value = Value::Gate);
                }
            } else {
                for method in ways(value) {
                    offer(&|r| params(r, list)[position].value = Value::Way(Box::new(method.clone())));
                }
            }
            if is_own && !matches!(name.as_str(), "a1" | "a2" | "a3" | "a4") {
                let fresh = format!("a{}", list + 1);
                offer(&|r| {
                    let named = Expr::name(&fresh);
                    everywhere(r, &mut |e| replace_name(e, name, &named));
                    params(r, list)[position].name = fresh.clone();
                });
            }
        }
    }
    for position in 0..recipe.implied.len() {
        let name = &recipe.implied[position];
        offer(&|r| {
            r.constraints.iter_mut().for_each(|c| replace_name(&mut c.radius, name, &Expr::number(1)));
            r.implied.retain(|other| other != name);
        });
    }
    for position in 0..recipe.constraints.len() {
        offer(&|r| drop(r.constraints.remove(position)));
        offer(&|r| r.constraints[position].radius = Expr::number(1));
    }
}

/// An ingredient of the prelude that lost a parameter has to stand in place.
fn in_section(place: Place) -> Place {
    if place == Place::File { Place::Section } else { place }
}

fn ways(value: &Value) -> Vec<Method> {
    let Value::Way(method) = value else { return vec![] };
    let exact = Method::Exact { scale: None };
    match &**method {
        Method::Exact { scale: None } => vec![],
        Method::Exact { .. } => vec![exact],
        Method::Taylor { order, .. } => {
            let alpha = Some(Value::Fixed(Expr::number(2)));
            let lower = order.saturating_sub(1);
            vec![exact, Method::Taylor { order: lower, scale: None, alpha: alpha.clone() }]
        }
    }
}

fn params(recipe: &mut Recipe, list: usize) -> &mut Vec<Param> {
    match list {
        0 => &mut recipe.local.params,
        1 => &mut recipe.global.params,
        2 => &mut recipe.optimizer.params,
        _ => &mut recipe.params,
    }
}

/// Every expression of the recipe that can be made smaller.
fn roots(recipe: &mut Recipe) -> Vec<&mut Expr> {
    let mut all: Vec<&mut Expr> = Vec::new();
    for ingredient in [&mut recipe.local, &mut recipe.global] {
        if ingredient.place == Place::Prelude {
            continue;
        }
        all.push(&mut ingredient.body);
        all.extend(ingredient.lets.iter_mut().map(|(_, value)| value));
    }
    if recipe.optimizer.place != Place::Prelude {
        all.extend(recipe.optimizer.body.iter_mut().map(Statement::value_mut));
    }
    all
}

fn everywhere(recipe: &mut Recipe, change: &mut dyn FnMut(&mut Expr)) {
    roots(recipe).into_iter().for_each(&mut *change);
    recipe.constraints.iter_mut().for_each(|c| change(&mut c.radius));
}

fn substitute_later(body: &mut [Statement], name: &str, value: &Expr) {
    body.iter_mut().for_each(|statement| replace_name(statement.value_mut(), name, value));
}

/// Puts an expression in the place of a name; a number also where it is an exponent.
fn replace_name(e: &mut Expr, name: &str, value: &Expr) {
    if let Expr::Power(_, exponent) | Expr::PowerNorm(_, exponent) | Expr::Minimum(_, _, _, exponent) = e
        && exponent.mentions(name)
    {
        *exponent = match value {
            Expr::Number(number) => Exponent::Number(*number),
            Expr::Name(other) => Exponent::Name(other.clone()),
            _ => exponent.clone(),
        };
    }
    if let Expr::Solve(solve) = e
        && solve.way == Way::Name(name.to_string())
    {
        solve.way = match value {
            Expr::Name(other) => Way::Name(other.clone()),
            _ => Way::Here(Method::Exact { scale: None }),
        };
    }
    if matches!(e, Expr::Name(other) if other == name) {
        *e = value.clone();
        return;
    }
    e.children_mut().into_iter().for_each(|child| replace_name(child, name, value));
}

/// What may stand in the place of a node: its parts, and the plainest terms of every type.
fn smaller(e: &Expr) -> Vec<Expr> {
    let mut all: Vec<Expr> = Vec::new();
    let is_leaf = e.children().is_empty();
    if !is_leaf {
        let plain = [
            Expr::Query.pair(Pairing::Dot, Expr::Key),
            Expr::Query.minus(Expr::Key),
            Expr::Energy.apply(Function::Sum),
            Expr::Query,
            Expr::Key,
            Expr::Energy,
            Expr::Gradient(Box::new(Expr::Token)),
            Expr::Token,
            Expr::number(1),
            Expr::number(2),
        ];
        all.extend(plain.into_iter().filter(|other| other.size() < e.size()));
        all.extend(e.children().into_iter().cloned());
    }
    match e {
        Expr::Number(Ratio { numerator: 1, denominator: 1 }) => {}
        Expr::Number(_) => {
            all.push(Expr::number(1));
            all.push(Expr::number(2));
        }
        Expr::Size(_) => all.push(Expr::number(1)),
        Expr::Name(_) => {
            all.extend([Expr::number(1), Expr::Query, Expr::Energy]);
        }
        Expr::Power(x, exponent) if *exponent != Exponent::Number(Ratio::whole(2)) => {
            all.push(Expr::Power(x.clone(), Exponent::Number(Ratio::whole(2))));
        }
        Expr::Call(name, args) => {
            let mut body = prelude::energy(Kind::Local, name).body;
            args.iter().for_each(|(name, value)| replace_name(&mut body, name, value));
            all.push(body);
        }
        Expr::Solve(solve) => {
            all.push(Expr::Gradient(Box::new(solve.point.clone())));
            for way in ways_here(&solve.way) {
                let mut other = solve.clone();
                other.way = Way::Here(way);
                all.push(Expr::Solve(other));
            }
        }
        _ => {}
    }
    all.retain(|other| other != e);
    all
}

fn ways_here(way: &Way) -> Vec<Method> {
    match way {
        Way::Here(method) => ways(&Value::Way(Box::new(method.clone()))),
        Way::Name(_) => vec![],
    }
}

impl Expr {
    /// How many nodes there are.
    pub fn size(&self) -> usize {
        1 + self.children().into_iter().map(Expr::size).sum::<usize>()
    }

    /// The node at a place, counted from the root.
    fn descend(&mut self, at: &mut usize) -> Option<&mut Expr> {
        if *at == 0 {
            return Some(self);
        }
        *at -= 1;
        for child in self.children_mut() {
            let size = child.size();
            if *at < size {
                return child.descend(at);
            }
            *at -= size;
        }
        None
    }
}
