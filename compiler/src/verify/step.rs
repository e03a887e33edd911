//! The whole layer: every step of the optimizer with its states, points, heads and write-back, forward and backward.
//!
//! Forward runs the program; backward runs the derived backward pass of the program and of the direction, step by step
//! in reverse. What comes back is compared with finite differences of ⟨cotangents, results⟩. One head, any matrix M in
//! the place of the write-back. A vector x with a constraint is brought to its length, as in the layer: the heads see
//! ρ x/‖x‖, and what they send back goes through that.

use std::collections::HashMap;

use super::parts::Parts;
use super::report::Line;
use super::samples::{Sample, Source, near};
use super::slopes::{self, value};
use super::steady::beyond_rounding;
use super::trials::{Gap, gap, run};
use crate::calculus;
use crate::check::inputs;
use crate::check::recipe::{Constraint, Tokens};
use crate::derive::{Kink, kinks};
use crate::ir::eval::Env;
use crate::ir::tensor::Tensor;
use crate::ir::{Axis, Expr, Leaf, Role, Sign, rational, traverse};

const TOLERANCE: f64 = 1e-5;
/// Values beyond this leave too few digits for differences.
const LARGEST: f64 = 100.0;
/// More steps than this show nothing new.
const MAX_STEPS: u32 = 4;

/// The backward pass through states and steps.
pub fn step(parts: &Parts) -> Line {
    let recipe = parts.recipe();
    let heads = parts.inputs().into_iter().map(|leaf| (leaf.clone(), parts.cotangent(&leaf)));
    let mut layer = Layer {
        parts,
        steps: recipe.steps.min(MAX_STEPS),
        evolves: recipe.steps > 1 && recipe.tokens == Tokens::Evolve,
        direction: parts.direction(),
        heads: heads.filter(|(_, formula)| !formula.is_zero()).collect(),
        kinks: kinks(parts.energy()),
    };
    let sources = layer.sources();
    let params = recipe.params.iter().map(|param| &param.leaf);
    let leaves =
        sources.iter().chain(&parts.step.results).chain(params).cloned().chain(matrices()).chain([inputs::h()]);
    let source = Source::new(leaves.map(Expr::leaf).collect(), vec![]);
    // Tokens that move along are the queries.
    let source = Source { square: layer.evolves, ..source };
    let mut tally = run(&source, |sample| layer.against_slopes(&sources, sample));
    // Many steps can lead where differences say nothing; then one has to do.
    if layer.steps > 1 && tally.is_without_sample() {
        layer.steps = 1;
        tally = run(&source, |sample| layer.against_slopes(&sources, sample));
    }
    let names: Vec<&str> = sources.iter().map(|leaf| &*leaf.name).collect();
    let times = if layer.steps == 1 { "one step".to_string() } else { format!("{} steps", layer.steps) };
    let detail = format!(
        "{times} of the layer with write-back: cotangents of {} against finite differences; {} samples",
        names.join(", "),
        tally.samples
    );
    Line { name: "step", detail, outcome: tally.outcome(TOLERANCE) }
}

/// The layer of a recipe.
struct Layer<'a> {
    parts: &'a Parts,
    steps: u32,
    /// Whether the attended tokens are the points themselves.
    evolves: bool,
    direction: Expr,
    /// What the heads send back to q, k, v and the parameters.
    heads: Vec<(Leaf, Expr)>,
    kinks: Vec<Kink>,
}

/// Names no parameter can have.
const OUTPUT: &str = "output of the head";
const POINT: &str = "point of the force";
const FORCE: &str = "cotangent of the force";

/// Cotangents under the names of their inputs.
type Cotangents = HashMap<String, Tensor>;

fn write_back() -> Leaf {
    Leaf::new(Role::Matrix, 50, "matrix of the write-back", &[Axis::C, Axis::E], Sign::Unknown)
}

fn w_v() -> Leaf {
    Leaf::new(Role::Matrix, 51, "matrix of the values", &[Axis::E, Axis::C], Sign::Unknown)
}

fn matrices() -> [Leaf; 4] {
    [inputs::w1(), inputs::w2(), w_v(), write_back()]
}

/// A vector under a name, along the axes of z or of q.
fn vector(name: &str, axes: &[Axis]) -> Leaf {
    Leaf::new(Role::Named, 90, name, axes, Sign::Unknown)
}

const TOKEN: [Axis; 2] = [Axis::T, Axis::C];
const HEAD: [Axis; 2] = [Axis::T, Axis::E];
const OTHER: [Axis; 2] = [Axis::N, Axis::C];

/// Σ_axis matrix·x.
fn applied(matrix: Leaf, axis: Axis, x: Leaf) -> Expr {
    Expr::sum(axis, &Expr::leaf(matrix).times(&Expr::leaf(x)))
}

impl Layer<'_> {
    /// What may change: the token, the attended tokens, the states, the parameters, and the matrix of the queries.
    fn sources(&self) -> Vec<Leaf> {
        let recipe = self.parts.recipe();
        let states = recipe.program.states.iter().map(|state| state.leaf.clone());
        let params = recipe.params.iter().map(|param| param.leaf.clone());
        let tokens = if self.evolves { None } else { Some(inputs::h()) };
        std::iter::once(inputs::z()).chain(tokens).chain(states).chain(params).chain([inputs::w1()]).collect()
    }

    fn against_slopes(&self, sources: &[Leaf], sample: &Sample) -> Result<Option<Gap>, String> {
        let Some(env) = self.calmed(&sample.env)? else { return Ok(None) };
        let runs = self.forward(&env)?;
        let points = runs.iter().flatten().filter(|at| at.values.contains_key(POINT));
        if points.into_iter().any(|at| self.kinks.iter().any(|kink| near(kink, at))) {
            return Ok(None);
        }
        let got = self.backward(&env, &runs)?;
        let mut worst = Gap::NONE;
        for source in sources {
            if env.work.is_spent() {
                return Ok(None);
            }
            let Some(expected) = slopes::entrywise(|env| self.loss(env), source, &env)? else { return Ok(None) };
            let zero = Tensor::scalar(0.0);
            let got = slopes::along(got.get(&*source.name).unwrap_or(&zero), &source.axes, &env);
            worst = worst.or(gap(&format!("∂{}", source.name), &got, &expected, env.sizes));
        }
        beyond_rounding(worst, TOLERANCE, &env, |env| {
            let got = self.backward(env, &self.forward(env)?)?;
            Ok(sources.iter().filter_map(|source| got.get(&*source.name).cloned()).collect())
        })
    }

    /// The inputs with tokens and states small enough for steps not to explode: differences of large numbers say nothing.
    fn calmed(&self, env: &Env) -> Result<Option<Env>, String> {
        let program = &self.parts.recipe().program;
        let states = program.states.iter().map(|state| state.leaf.name.to_string());
        let moving: Vec<String> =
            [inputs::z(), inputs::h()].map(|leaf| leaf.name.to_string()).into_iter().chain(states).collect();
        for scale in [1.0, 0.3, 0.1, 0.03] {
            let mut env = env.clone();
            for name in &moving {
                env.values.get_mut(name).into_iter().for_each(|x| x.data.iter_mut().for_each(|x| *x *= scale));
            }
            let runs = self.forward(&env)?;
            let values = runs.iter().flatten().flat_map(|env| env.values.values()).flat_map(|x| &x.data);
            if values.into_iter().all(|x| x.abs() <= LARGEST) {
                return Ok(Some(env));
            }
        }
        Ok(None)
    }

    /// For every step, what is known at each point; at the end of a step, with its forces.
    fn forward(&self, env: &Env) -> Result<Vec<Vec<Env>>, String> {
        let program = &self.parts.recipe().program;
        let mut now = env.clone();
        let mut runs = Vec::new();
        for _ in 0..self.steps {
            let mut points = Vec::new();
            for (i, point) in program.gradients.iter().enumerate() {
                let at = self.at_point(&now, value(point, &TOKEN, &now)?)?;
                let force = value(&applied(write_back(), Axis::E, vector(OUTPUT, &HEAD)).neg(), &TOKEN, &at)?;
                now.values.insert(inputs::gradient(i).name.to_string(), force);
                points.push(at);
            }
            let mut next = now.clone();
            next.values.insert(inputs::z().name.to_string(), value(&program.z, &TOKEN, &now)?);
            for (state, term) in program.states.iter().zip(&program.next_states) {
                next.values.insert(state.leaf.name.to_string(), value(term, &TOKEN, &now)?);
            }
            points.push(std::mem::replace(&mut now, next));
            runs.push(points);
        }
        runs.push(vec![now]);
        Ok(runs)
    }

    /// y, q, k, v and the direction at a point.
    fn at_point(&self, env: &Env, y: Tensor) -> Result<Env, String> {
        let mut at = env.clone();
        if self.evolves {
            at.values.insert(inputs::h().name.to_string(), y.with_axes(OTHER.to_vec()));
        }
        at.values.insert(POINT.into(), y);
        for (name, matrix, from, axes) in [
            (inputs::q(), inputs::w1(), vector(POINT, &TOKEN), inputs::q().axes),
            (inputs::k(), inputs::w2(), inputs::h(), inputs::k().axes),
            (inputs::v(), w_v(), inputs::h(), inputs::v().axes),
        ] {
            let projected = value(&applied(matrix, Axis::C, from), &axes, &at)?;
            at.values.insert(name.name.to_string(), projected);
        }
        for constraint in &self.parts.recipe().constraints {
            let vector = &constraint.vector;
            let free = at.values[&*vector.name].clone();
            at.values.insert(of_any_length(vector).name.to_string(), free);
            let brought = value(&at_length(constraint), &vector.axes, &at)?;
            at.values.insert(vector.name.to_string(), brought);
        }
        let direction = value(&self.direction, &HEAD, &at)?;
        at.values.insert(OUTPUT.into(), direction);
        Ok(at)
    }

    /// The steps in reverse.
    fn backward(&self, env: &Env, runs: &[Vec<Env>]) -> Result<Cotangents, String> {
        let step = &self.parts.step;
        let mut total = Cotangents::new();
        let mut results: Vec<Tensor> = step.results.iter().map(|leaf| env.values[&*leaf.name].clone()).collect();
        for points in runs.iter().rev().skip(1) {
            let Some((end, points)) = points.split_last() else { continue };
            let mut known = end.clone();
            for (leaf, result) in step.results.iter().zip(&results) {
                known.values.insert(leaf.name.to_string(), result.clone());
            }
            for (i, at) in points.iter().enumerate().rev() {
                let force = value(&step.forces[i].value.term, &TOKEN, &known)?;
                let back = self.through_heads(at, force, &mut total)?;
                known.values.insert(step.points[i].name.to_string(), back);
            }
            results = Vec::new();
            for (leaf, definition) in &step.inputs {
                let cotangent = value(&definition.value.term, &leaf.axes, &known)?;
                if results.len() < step.results.len() {
                    results.push(cotangent);
                } else {
                    add(&mut total, &leaf.name, cotangent);
                }
            }
        }
        let carried = step.inputs.iter().map(|(leaf, _)| leaf.name.to_string()).zip(results);
        carried.for_each(|(name, cotangent)| add(&mut total, &name, cotangent));
        Ok(total)
    }

    /// From the cotangent of a force to that of its point; everybody else's is added up.
    fn through_heads(&self, at: &Env, force: Tensor, total: &mut Cotangents) -> Result<Tensor, String> {
        let mut at = at.clone();
        at.values.insert(FORCE.into(), force);
        let cotangent = &self.parts.backward.cotangent;
        let back = applied(write_back(), Axis::C, vector(FORCE, &TOKEN)).neg();
        at.values.insert(cotangent.name.to_string(), value(&back, &HEAD, &at)?);
        for leaf in [inputs::q(), inputs::k(), inputs::v()] {
            let zero = Tensor::build(&leaf.axes, |a| at.sizes.length(a), |_| 0.0);
            at.values.insert(cotangent_of(&leaf).name.to_string(), zero);
        }
        for (leaf, formula) in &self.heads {
            let cotangent = value(formula, &leaf.axes, &at)?;
            match leaf.role {
                Role::Query | Role::Key | Role::Value => {
                    at.values.insert(cotangent_of(leaf).name.to_string(), cotangent);
                }
                _ => add(total, &leaf.name, cotangent),
            }
        }
        for constraint in &self.parts.recipe().constraints {
            through_length(constraint, &mut at, total)?;
        }
        let [q, k, v] = [inputs::q(), inputs::k(), inputs::v()].map(|leaf| cotangent_of(&leaf));
        let outer = Expr::sum(Axis::T, &Expr::leaf(q.clone()).times(&Expr::leaf(vector(POINT, &TOKEN))));
        add(total, &inputs::w1().name, value(&outer, &inputs::w1().axes, &at)?);
        let others = applied(inputs::w2(), Axis::E, k).plus(&applied(w_v(), Axis::E, v));
        let others = value(&others, &OTHER, &at)?;
        let mut point = value(&applied(inputs::w1(), Axis::E, q), &TOKEN, &at)?;
        if self.evolves {
            point.data.iter_mut().zip(&others.data).for_each(|(x, y)| *x += y);
        } else {
            add(total, &inputs::h().name, others);
        }
        Ok(point)
    }

    /// ⟨cotangents, results⟩.
    fn loss(&self, env: &Env) -> Result<f64, String> {
        let runs = self.forward(env)?;
        let end = runs.last().and_then(|run| run.first()).ok_or("no steps")?;
        let states = self.parts.recipe().program.states.iter().map(|state| state.leaf.name.to_string());
        let outputs = std::iter::once(inputs::z().name.to_string()).chain(states);
        let pairs = self.parts.step.results.iter().zip(outputs);
        let inner = |a: &Tensor, b: &Tensor| a.data.iter().zip(&b.data).map(|(a, b)| a * b).sum::<f64>();
        Ok(pairs.map(|(leaf, name)| inner(&env.values[&*leaf.name], &end.values[&name])).sum())
    }
}

/// What comes back to a vector of the head.
fn cotangent_of(leaf: &Leaf) -> Leaf {
    vector(&format!("∂{}", leaf.name), &leaf.axes)
}

/// The vector before its constraint brings it to its length.
fn of_any_length(leaf: &Leaf) -> Leaf {
    vector(&format!("{} of any length", leaf.name), &leaf.axes)
}

/// 1/‖x‖, and 0 where x = 0.
fn inverse_length(x: &Expr) -> Expr {
    Expr::sum(Axis::E, &x.square()).pow(&rational::ratio(-1, 2))
}

/// ρ x/‖x‖.
fn at_length(constraint: &Constraint) -> Expr {
    let x = Expr::leaf(of_any_length(&constraint.vector));
    Expr::mul([constraint.radius.clone(), inverse_length(&x), x])
}

/// The cotangent y of ρ x/‖x‖ becomes that of x, ρ/‖x‖ (y − n (n·y)) with n = x/‖x‖; Σ n·y is the radius's.
fn through_length(constraint: &Constraint, at: &mut Env, total: &mut Cotangents) -> Result<(), String> {
    let (x, back) = (Expr::leaf(of_any_length(&constraint.vector)), cotangent_of(&constraint.vector));
    let y = Expr::leaf(back.clone());
    let unit = inverse_length(&x).times(&x);
    let radial = Expr::sum(Axis::E, &unit.times(&y));
    let across = Expr::mul([constraint.radius.clone(), inverse_length(&x), y.minus(&unit.times(&radial))]);
    let of_radius: f64 = value(&radial, &constraint.vector.axes[..1], at)?.data.iter().sum();
    for param in traverse::inputs(&constraint.radius).into_iter().filter(|leaf| leaf.role == Role::Param) {
        let slope = value(&calculus::gradient(&constraint.radius, &param), &[], at)?;
        add(total, &param.name, slope.map(|slope| slope * of_radius));
    }
    let across = value(&across, &constraint.vector.axes, at)?;
    at.values.insert(back.name.to_string(), across);
    Ok(())
}

fn add(total: &mut Cotangents, name: &str, cotangent: Tensor) {
    match total.get_mut(name) {
        Some(sum) => sum.data.iter_mut().zip(&cotangent.data).for_each(|(x, y)| *x += y),
        None => drop(total.insert(name.to_string(), cotangent)),
    }
}
