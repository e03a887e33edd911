//! What runs a recipe here, held against its formulas: two heads with the same inputs, each of which has to agree.

use super::{Engine, Gradients, Interpreted, find};
use crate::problem::{GRAD_ENERGY, GRAD_OUT, Problem, Size};
use energyc::check::{Recipe, inputs};
use energyc::ir::eval::Env;
use energyc::ir::{Leaf, Role};
use energyc::plan::unconstrained;
use energyc::primitives::visible::Visible;
use energyc::simplify::Options;
use energyc::verify::chain::{Case, DIRECTION, ENERGY, OF_ENERGY, Values, steps_of};
use energyc::verify::{Line, kernel};
use std::collections::BTreeMap;

/// What a head is called in messages.
const HEADS: [&str; 2] = ["", ", second head"];

/// A line for every pass; none where the recipe has no plan, of which others tell.
pub fn lines(recipe: &Recipe) -> Vec<Line> {
    let Ok(case) = Case::new(recipe, &Options::default()) else { return Vec::new() };
    let (engine, what): (Box<dyn Engine>, &str) = match find(recipe, &case.plan) {
        Some(engine) => (engine, "the compiled kernel"),
        None => (Box::new(Interpreted::new(case.plan.clone())), "the interpreter, as no kernel is compiled in"),
    };
    kernel::lines(&case, what, &|env, visible| values(&case, &*engine, env, visible))
}

/// What an engine computes, head by head.
fn values(case: &Case, engine: &dyn Engine, env: &Env, visible: &Visible) -> Vec<(&'static str, Values)> {
    let problem = problem(case, env, visible);
    let forward = engine.forward(&problem);
    let mut arrays =
        BTreeMap::from([(DIRECTION.to_string(), forward.out.clone()), (ENERGY.to_string(), engine.energy(&problem))]);
    let mut add = |prefix: &str, gradients: Gradients| {
        arrays.extend(gradients.into_iter().map(|(name, x)| (format!("{prefix}{name}"), x)));
    };
    add("", engine.backward(&problem, &forward));
    add("", engine.constants(&problem));
    add(OF_ENERGY, engine.energy_backward(&problem));
    add(OF_ENERGY, engine.energy_constants(&problem));
    let of_head = |head: usize| -> Values {
        let part = |x: &Vec<f32>| {
            let length = x.len() / HEADS.len();
            x[head * length..(head + 1) * length].iter().map(|x| f64::from(*x)).collect()
        };
        arrays.iter().map(|(name, x)| (name.clone(), part(x))).collect()
    };
    HEADS.into_iter().enumerate().map(|(head, words)| (words, of_head(head))).collect()
}

/// One sequence with the same inputs for every head.
fn problem(case: &Case, env: &Env, visible: &Visible) -> Problem {
    let sizes = env.sizes;
    let size = Size { batch: 1, heads: HEADS.len(), queries: sizes.queries, tokens: sizes.tokens, head: sizes.head };
    let of_heads = |name: &str| -> Vec<f32> {
        let one: Vec<f32> = env.values[name].data.iter().map(|x| *x as f32).collect();
        one.repeat(HEADS.len())
    };
    let recipe = case.recipe();
    // Vectors with a constraint are given before they are brought to their length.
    let given = |leaf: Leaf| match recipe.constraints.iter().any(|constraint| constraint.vector.same_input(&leaf)) {
        true => unconstrained(&leaf),
        false => leaf,
    };
    let vectors = [("q", inputs::q()), ("k", inputs::k()), ("v", inputs::v())];
    let vectors = vectors.map(|(name, leaf)| (name.to_string(), of_heads(&given(leaf).name)));
    let [direction, energy] = &case.plan.cotangents;
    let cotangents = [(GRAD_OUT, direction), (GRAD_ENERGY, energy)];
    let cotangents = cotangents.map(|(name, leaf)| (name.to_string(), of_heads(&leaf.name)));
    let parameters = recipe.params.iter().map(|param| match param.leaf.role {
        Role::Decay => (param.name.clone(), of_heads(&steps_of(&param.leaf))),
        _ => (param.name.clone(), of_heads(&param.leaf.name)),
    });
    let tensors = vectors.into_iter().chain(cotangents).chain(parameters).collect();
    Problem { size, visible: vec![visible.clone()], tensors, dropout: None }
}
