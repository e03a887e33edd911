//! A recipe ready to be evaluated: both energies written out in one graph, the constraints' lengths, and the system its
//! optimizer solves.

use crate::closed::{Graph, Id, Scope};
use crate::tree::{Expr, Kind, Method, Param, Recipe, Value, Values};

/// A parameter a gradient is taken of.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: String,
    pub value: Value,
}

/// A = curvature·∇²F + shift·I and how A x = ∇F is solved.
#[derive(Debug)]
pub struct System {
    pub curvature: Id,
    pub shift: Id,
    /// The series' order; an exact solution has none.
    pub order: Option<u32>,
    /// α, where it is given or was told.
    pub alpha: Option<Id>,
    /// What takes the place of s, and s as it was told.
    pub scale: Option<(Id, Id)>,
}

/// The point a series expands around and the number in front of its matrix. Which part of a Hessian is constant, and
/// which numbers stand in front of the rest, is a question about formulas that only the compiler can answer; A = αI − s·B₀
/// holds for any of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Expansion {
    pub alpha: Expr,
    pub scale: Expr,
}

#[derive(Debug)]
pub struct Meaning {
    pub graph: Graph,
    pub local: Id,
    pub global: Id,
    pub radius_of_query: Option<Id>,
    pub radius_of_key: Option<Id>,
    pub system: Option<System>,
    pub values: Values,
    pub parameters: Vec<Parameter>,
}

/// Whether a recipe's step depends on how the compiler writes the Hessian.
pub fn needs_expansion(recipe: &Recipe) -> bool {
    match recipe.method() {
        None | Some(Method::Exact { scale: None }) => false,
        Some(Method::Taylor { scale: None, alpha, .. }) => alpha.is_none(),
        Some(_) => true,
    }
}

impl Meaning {
    pub fn of(recipe: &Recipe, expansion: Option<&Expansion>) -> Meaning {
        let mut graph = Graph::default();
        let mut scope = Scope::default();
        let mut parameters = Vec::new();
        let implied = recipe.implied.iter().map(|name| Param {
            name: name.clone(),
            value: Value::Fixed(Expr::number(1)),
            is_positive: true,
        });
        let implied: Vec<Param> = implied.collect();
        for param in recipe.params.iter().chain(&implied) {
            declare(&mut scope, &mut graph, &mut parameters, param);
        }
        let own = scope.clone();
        let radius = |graph: &mut Graph, of_query: bool| {
            let constraint = recipe.constraints.iter().find(|c| c.of_query == of_query)?;
            Some(own.close(graph, &constraint.radius, Kind::Global))
        };
        let (radius_of_query, radius_of_key) = (radius(&mut graph, true), radius(&mut graph, false));
        // Every parameter, for what the compiler says about the whole.
        let mut all = own.clone();
        let [local, global] = [&recipe.local, &recipe.global].map(|ingredient| {
            let mut scope = own.clone();
            for param in &ingredient.params {
                declare(&mut scope, &mut graph, &mut parameters, param);
                all.declare(&mut graph, &param.name, &param.value);
            }
            scope.ingredient(&mut graph, ingredient)
        });
        let mut scope = own.clone();
        for param in &recipe.optimizer.params {
            match &param.value {
                Value::Way(method) => declare_numbers(&mut scope, &mut graph, &mut parameters, method),
                _ => declare(&mut scope, &mut graph, &mut parameters, param),
            }
        }
        let system = recipe.system().zip(recipe.method()).map(|(solve, method)| {
            declare_numbers(&mut scope, &mut graph, &mut parameters, method);
            let close = |graph: &mut Graph, e: &Expr| scope.close(graph, e, Kind::Global);
            let number = |graph: &mut Graph, name: &str, value: &Option<Value>| match value {
                None => None,
                Some(Value::Fixed(e) | Value::Term(e)) => Some(close(graph, e)),
                Some(_) => Some(close(graph, &Expr::name(name))),
            };
            let (order, alpha, scale) = match method {
                Method::Exact { scale } => (None, &None, scale),
                Method::Taylor { order, scale, alpha } => (Some(*order), alpha, scale),
            };
            let curvature = close(&mut graph, &solve.curvature);
            let shift = close(&mut graph, &solve.shift);
            all.extend(&scope);
            let told = expansion.map(|told| [&told.alpha, &told.scale].map(|e| all.close(&mut graph, e, Kind::Global)));
            let alpha = number(&mut graph, "alpha", alpha).or(told.map(|told| told[0]));
            let scale = number(&mut graph, "scale", scale).and_then(|scale| Some((scale, told?[1])));
            System { curvature, shift, order, alpha, scale }
        });
        let values = recipe.values;
        Meaning { graph, local, global, radius_of_query, radius_of_key, system, values, parameters }
    }
}

fn declare(scope: &mut Scope, graph: &mut Graph, parameters: &mut Vec<Parameter>, param: &Param) {
    scope.declare(graph, &param.name, &param.value);
    if !matches!(param.value, Value::Term(_)) {
        parameters.push(Parameter { name: param.name.clone(), value: param.value.clone() });
    }
}

/// `learn(…)` given to `scale` or `alpha` is a parameter of that name.
fn declare_numbers(scope: &mut Scope, graph: &mut Graph, parameters: &mut Vec<Parameter>, method: &Method) {
    for (name, value) in ["scale", "alpha"].into_iter().zip(method.values()) {
        if let Some(value @ Value::Learn { .. }) = value
            && !parameters.iter().any(|known| known.name == name)
        {
            let param = Param { name: name.to_string(), value: value.clone(), is_positive: false };
            declare(scope, graph, parameters, &param);
        }
    }
}
