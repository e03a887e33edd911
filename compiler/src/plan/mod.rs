//! Plans: the update rule as work on blocks of rows.
//!
//! ```text
//! Derivation ──lower──▶ Graph (values by axes) ──schedule──▶ Pass (loops, matrix products, buffers)
//! ```
//! All passes of a recipe share one graph. What a later pass has in common with the forward pass, and what is no
//! larger than a row, is saved by the forward pass; everything per pair of a query and a token is computed again. That
//! one rule is the whole checkpointing policy.

pub mod graph;
pub mod lower;
pub mod schedule;
mod separate;
pub mod text;

pub use lower::Unsupported;

use crate::calculus;
use crate::check::recipe::{ParamValue, Recipe};
use crate::derive::{self, Definition, Derivation};
use crate::ir::{Axis, AxisSet, Expr, Leaf, Role};
use crate::simplify::Options;
use graph::{Graph, Id, Op};
use lower::Lowering;
use schedule::{Domain, Output, Pass, reachable, schedule};
use std::collections::BTreeSet;

/// Everything a kernel computes for one recipe.
#[derive(Clone, Debug)]
pub struct Plan {
    pub name: String,
    pub graph: Graph,
    /// The direction, and what later passes read again.
    pub forward: Pass,
    /// F_h.
    pub energy: Pass,
    /// The gradients of q, k, v, of learned parameters and of gates, given the cotangent of the direction.
    pub backward: Pass,
    /// The gradients of parameters that are not learned.
    pub constants: Pass,
    /// The gradients of all inputs, given a cotangent of F_h.
    pub energy_backward: Pass,
    /// The cotangents of the direction and of the energy.
    pub cotangents: [Leaf; 2],
}

/// The name of the row and column sums a decay's gradient is made of.
pub fn decay_sums(name: &str) -> [String; 2] {
    [format!("{name}, by query"), format!("{name}, by token")]
}

impl Plan {
    /// All passes, in the order they are printed.
    pub fn passes(&self) -> [&Pass; 5] {
        [&self.forward, &self.energy, &self.backward, &self.constants, &self.energy_backward]
    }
}

/// The vector before a constraint brings it to its length.
pub fn unconstrained(vector: &Leaf) -> Leaf {
    Leaf { ordinal: 9, name: format!("{}₀", vector.name).into(), ..vector.clone() }
}

/// Derivation → plan.
pub fn plan(derivation: &Derivation, options: &Options) -> Result<Plan, Unsupported> {
    let recipe = &derivation.recipe;
    let backward = derive::backward(derivation, options);
    let energy_backward = derive::energy_backward(derivation, options);
    let mut lowering = Lowering::default();
    for constraint in &recipe.constraints {
        lowering.define(&constraint.vector, &at_length(&constraint.vector, &constraint.radius));
    }
    for named in &derivation.names {
        lowering.define(&named.leaf, &named.value());
    }
    for definition in &backward.definitions {
        lowering.define(&definition.leaf, &definition.value.term);
    }
    let roots = [&derivation.direction.term, &derivation.energy.term];
    let gradients = backward.gradients.iter().chain(&energy_backward.gradients).map(|d| &d.value.term);
    roots.into_iter().chain(gradients).for_each(|term| lowering.note_sharp(term));

    let output = |name: &str, id, domain| Output { name: name.to_string(), id, domain };
    let out = lowering.lower(&derivation.direction.term)?;
    let energy = lowering.lower(&derivation.energy.term)?;
    let all = gradient_outputs(&mut lowering, recipe, &backward.gradients)?;
    let is_fixed =
        |o: &Output| recipe.params.iter().any(|p| p.name == o.name && matches!(p.value, ParamValue::Fixed(_)));
    let (fixed, learned): (Vec<Output>, Vec<Output>) = all.into_iter().partition(is_fixed);
    let of_energy = gradient_outputs(&mut lowering, recipe, &energy_backward.gradients)?;
    let graph = lowering.graph;

    let later: BTreeSet<Id> = [&learned, &fixed, &of_energy].into_iter().flatten().map(|o| o.id).collect();
    let saved = saved(&graph, out, &later);
    Ok(Plan {
        name: recipe.name.clone(),
        forward: schedule(&graph, "forward", vec![output("out", out, Domain::RowVector)], &saved, true)?,
        energy: schedule(&graph, "energy", vec![output("energy", energy, Domain::Row)], &[], true)?,
        backward: schedule(&graph, "backward", learned, &saved, false)?,
        constants: schedule(&graph, "constants", fixed, &saved, false)?,
        energy_backward: schedule(&graph, "energy backward", of_energy, &saved, false)?,
        cotangents: [backward.cotangent, energy_backward.cotangent],
        graph,
    })
}

/// ρ x/|x|, 0 at 0.
fn at_length(vector: &Leaf, radius: &Expr) -> Expr {
    let x = Expr::leaf(unconstrained(vector));
    Expr::mul([radius.clone(), x.clone(), Expr::sum(Axis::E, &x.square()).sqrt().pow(&crate::ir::rational::int(-1))])
}

/// Row values of the forward pass that later passes need: sums and solutions, and the direction itself.
fn saved(graph: &Graph, out: Id, later: &BTreeSet<Id>) -> Vec<Id> {
    let forward = reachable(graph, &BTreeSet::from([out]), &BTreeSet::new());
    let is_row = |axes: AxisSet| axes.contains(Axis::T) && !axes.contains(Axis::N);
    let is_computed = |id: &Id| !matches!(graph[*id].op, Op::Map(..) | Op::Input(_) | Op::Number(_));
    let mut candidates: BTreeSet<Id> =
        forward.into_iter().filter(|id| is_row(graph.axes(*id)) && is_computed(id)).collect();
    candidates.insert(out);
    let needed = reachable(graph, later, &candidates);
    candidates.into_iter().filter(|id| needed.contains(id)).collect()
}

/// The gradients of a backward pass as outputs, by the names of the inputs.
fn gradient_outputs(
    lowering: &mut Lowering,
    recipe: &Recipe,
    gradients: &[Definition],
) -> Result<Vec<Output>, Unsupported> {
    let mut outputs = Vec::new();
    let mut lengths = Vec::new();
    for definition in gradients {
        let leaf = &definition.leaf;
        let name = leaf.name.trim_start_matches('∂').to_string();
        let term = &definition.value.term;
        let domain = Domain::of(AxisSet::of(&leaf.axes));
        let constraint = recipe.constraints.iter().find(|c| c.vector.role == leaf.role && *c.vector.name == *name);
        match (leaf.role, constraint) {
            (Role::Decay, _) => {
                // d_j stands in every γ between a token before it and a query after: two sums per decay are enough.
                let gamma = Expr::leaf(Leaf { name: name.as_str().into(), ..leaf.clone() });
                let visible = Expr::leaf(Leaf::visible(Axis::N));
                let product = gamma.times(term).times(&visible);
                let sums = [Expr::sum(Axis::N, &gamma.times(term)), Expr::sum(Axis::T, &product)];
                let domains = [Domain::Row, Domain::Key];
                for ((name, sum), domain) in decay_sums(&name).into_iter().zip(sums).zip(domains) {
                    outputs.push(Output { name, id: lowering.lower(&sum)?, domain });
                }
            }
            (_, Some(constraint)) => {
                let id = lowering.lower(term)?;
                let (gradient, length) = lowering.through_length(&constraint.vector, &constraint.radius, id)?;
                outputs.push(Output { name, id: gradient, domain });
                lengths.push((constraint.radius.clone(), length));
            }
            _ => outputs.push(Output { name, id: lowering.lower(term)?, domain }),
        }
    }
    // The lengths that constraints give are parameters too.
    for param in &recipe.params {
        for (radius, length) in &lengths {
            let slope = calculus::gradient(radius, &param.leaf);
            if slope.is_zero() {
                continue;
            }
            let slope = lowering.lower(&slope)?;
            let part = lowering.graph.mul(&[slope, *length]);
            match outputs.iter_mut().find(|o| o.name == param.name) {
                Some(output) => output.id = lowering.graph.add(&[output.id, part]),
                None => outputs.push(Output { name: param.name.clone(), id: part, domain: Domain::Scalar }),
            }
        }
    }
    Ok(outputs)
}
