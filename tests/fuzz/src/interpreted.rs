//! A recipe by the compiler's plan interpreter in double precision, all five passes, over tiles and by scans, beside the
//! evaluator.

use crate::catching::catching;
use crate::compare::{self, Arrays, Tolerance, differs};
use crate::evaluate::{Limits, Skip, evaluate, rounded};
use crate::expansion;
use crate::failure::Failure;
use crate::meaning::Meaning;
use crate::point::Point;
use crate::random::Random;
use crate::samples::{self, LARGE, Mask, SMALL};
use crate::sphere;
use crate::tally::Tally;
use crate::tree;
use energyc::check::Recipe;
use energyc::derive::{self, Derivation};
use energyc::interpret::{Head, HeadSize, Number};
use energyc::ir::{Leaf, Role};
use energyc::plan::schedule::{Domain, Pass};
use energyc::plan::{Passes, Unsupported, Valid};
use energyc::primitives::visible::Visible;
use energyc::simplify::Options;
use std::collections::BTreeMap;

const TOLERANCE: Tolerance = Tolerance { relative: 1e-8, absolute: 1e-11, movement: 100.0 };
/// How coarse an arithmetic shows what a result's condition is.
const ROUNDING: f64 = 1e-13;
/// A tolerance above this share of an array's largest entry would not see much.
const VAGUE: f64 = 1e-4;
/// Draws in the place of a point that had to be skipped.
const DRAWS: usize = 3;

/// What the compiler makes of a recipe.
pub struct Compiled {
    pub recipe: Recipe,
    pub derivation: Derivation,
    pub plan: Valid,
}

/// The recipe, the codes it is refused with, or the panic.
pub fn checked(text: &str) -> Result<Result<Recipe, Vec<String>>, Failure> {
    let (recipe, diagnostics) = catching("check", || energyc::pipeline::front(text))?;
    Ok(recipe.ok_or_else(|| {
        diagnostics.iter().filter(|d| d.is_error()).map(|d| format!("{:?}", d.code)).collect::<Vec<_>>()
    }))
}

/// How a plan is made.
pub type Planner = fn(&Derivation, &Options) -> Result<Valid, Unsupported>;

/// The plan, or why there is none.
pub fn compiled(recipe: Recipe, planner: Planner) -> Result<Result<Compiled, String>, Failure> {
    let options = Options::default();
    let derivation = catching("derive", || derive::derive(&recipe, &options))?;
    match catching("plan", || planner(&derivation, &options))? {
        Ok(plan) => Ok(Ok(Compiled { recipe, derivation, plan })),
        Err(why) if why.is_fault() => Err(Failure::Broken { command: "plan".to_string(), detail: why.to_string() }),
        Err(why) => Ok(Err(why.to_string())),
    }
}

/// Compares at several points; the seed decides which.
pub fn compare(tree: &tree::Recipe, compiled: &Compiled, seed: u64, tally: &mut Tally) -> Result<(), Failure> {
    let Some(meaning) = expansion::meaning(tree, &compiled.derivation, tally) else { return Ok(()) };
    let mut random = Random::new(seed);
    let mut shapes = vec![SMALL[0], SMALL[1]];
    shapes.push(SMALL[2 + random.below(SMALL.len() - 2)]);
    if random.one_in(6) {
        shapes.push(LARGE);
    }
    for shape in shapes {
        let mask = random.pick(&Mask::ALL);
        for _ in 0..DRAWS {
            let point = samples::draw(&meaning, shape, mask, &mut random);
            match at_point(&meaning, compiled, &point, &mut random) {
                Err(failure) => return Err(at_place(failure, &point, mask)),
                Ok(Some(skip)) => tally.skip(&format!("{skip:?}")),
                Ok(None) => {
                    tally.compared += 1;
                    break;
                }
            }
        }
    }
    Ok(())
}

pub fn at_place(failure: Failure, point: &Point, mask: Mask) -> Failure {
    let sizes = point.sizes;
    let place = format!(
        "{} queries, N = {}, d_h = {}, d = {}, H = {}, mask {mask:?}, {:?}, {:?}",
        sizes.queries, sizes.tokens, sizes.head, sizes.model, sizes.heads, point.numbers, point.vectors
    );
    match failure {
        Failure::Wrong { engine, output, detail } => {
            Failure::Wrong { engine, output, detail: format!("{detail}\n    at {place}") }
        }
        Failure::Panic { stage, message, location } => {
            Failure::Panic { stage, location, message: format!("{message}\n    at {place}") }
        }
        other => other,
    }
}

fn at_point(
    meaning: &Meaning,
    compiled: &Compiled,
    point: &Point,
    random: &mut Random,
) -> Result<Option<Skip>, Failure> {
    let outcome = match evaluate(meaning, point, Limits::DOUBLE) {
        Ok(outcome) => outcome,
        Err(skip) => return Ok(Some(skip)),
    };
    let mut repeated = vec![];
    for _ in 0..2 {
        match rounded(meaning, point, Limits::DOUBLE, ROUNDING, random) {
            Ok(outcome) => repeated.push(compare::arrays(&outcome)),
            Err(skip) => return Ok(Some(skip)),
        }
    }
    let mut expected = compare::arrays(&outcome);
    // Numbers that shape the formulas have no gradient.
    for (name, _) in &compiled.recipe.structural {
        expected.remove(&format!("∂{name}"));
        expected.remove(&format!("energy ∂{name}"));
    }
    let movement = compare::movement(&expected, &repeated);
    if compare::is_vague(&expected, &movement, TOLERANCE, VAGUE) {
        return Ok(Some(Skip::IllConditioned));
    }
    let visible = Visible::new(point.visible.clone(), point.sizes.tokens);
    let tiles = &compiled.plan.tiles;
    let chosen = compiled.plan.passes_for(std::slice::from_ref(&visible), false);
    let mut engines = vec![("interpreted", tiles)];
    if !std::ptr::eq(tiles, chosen) {
        engines.push(("interpreted by scans", chosen));
    }
    for (engine, passes) in engines {
        let run = |point: &Point| catching(engine, || planned::<f64>(compiled, passes, point, &visible));
        let got = run(point)?;
        let Some(difference) = differs(&expected, &movement, &got, TOLERANCE) else { continue };
        let detail = match meaning.radius_of_query {
            None => difference.describe(),
            Some(_) => match sphere::disagreement(meaning, point, &expected, &movement, &got, &run)? {
                None => continue,
                Some(detail) => detail,
            },
        };
        return Err(Failure::Wrong { engine: engine.to_string(), output: difference.name, detail });
    }
    Ok(None)
}

/// All passes on a point.
pub fn planned<T: Number>(compiled: &Compiled, passes: &Passes, point: &Point, visible: &Visible) -> Arrays {
    let plan = &compiled.plan;
    let sizes = point.sizes;
    let array = |values: &[f64]| -> Vec<T> { values.iter().map(|x| T::of(*x)).collect() };
    let arrays = |all: &BTreeMap<String, Vec<f64>>| -> BTreeMap<String, Vec<T>> {
        all.iter().map(|(name, values)| (name.clone(), array(values))).collect()
    };
    let [q, k, v, g, u] = [&point.q, &point.k, &point.v, &point.g, &point.u].map(|x| array(x));
    let [gates, query_gates, decays, vectors] =
        [&point.gates, &point.query_gates, &point.decays, &point.vectors].map(&arrays);
    let size = HeadSize { queries: sizes.queries, tokens: sizes.tokens, head: sizes.head };
    let numbers: BTreeMap<&str, Vec<T>> = point.numbers.iter().map(|(name, x)| (name.as_str(), array(&[*x]))).collect();
    let lengths = [("N", sizes.tokens), ("d", sizes.model), ("d_h", sizes.head), ("H", sizes.heads)];
    let lengths: BTreeMap<&str, Vec<T>> = lengths.into_iter().map(|(name, n)| (name, array(&[n as f64]))).collect();
    let find = |leaf: &Leaf| -> &[T] {
        let name = &*leaf.name;
        match leaf.role {
            Role::Size => &lengths[name],
            Role::Param if vectors.contains_key(name) => &vectors[name],
            Role::Param => &numbers[name],
            Role::Gate if query_gates.contains_key(name) => &query_gates[name],
            Role::Gate => &gates[name],
            Role::Decay => &decays[name],
            Role::Query => &q,
            Role::Key => &k,
            Role::Value => &v,
            Role::Probe if leaf.same_input(&plan.cotangents[0]) => &g,
            Role::Probe => &u,
            _ => panic!("a plan asks for the input {leaf:?}"),
        }
    };
    let Passes { forward, energy, backward, constants, energy_backward, energy_constants } = passes;
    let length = |id| size.entries(Domain::of(plan.graph.axes(id)));
    let zeros = |length: usize| vec![T::ZERO; length];
    let mut saved: Vec<Vec<T>> = forward.saved.iter().map(|id| zeros(length(*id))).collect();
    let mut all: BTreeMap<String, Vec<T>> = BTreeMap::new();
    let mut run = |pass: &Pass, prefix: &str, saved: &mut [Vec<T>]| {
        let mut outputs: Vec<Vec<T>> = pass.outputs.iter().map(|o| zeros(size.entries(o.domain))).collect();
        T::run_head(&plan.graph, pass, Head { size, visible, dropout: None }, &find, saved, &mut outputs);
        if pass.is_saving {
            for (saved, id) in saved.iter_mut().zip(&pass.saved) {
                if let Some(i) = pass.outputs.iter().position(|o| o.id == *id) {
                    saved.clone_from(&outputs[i]);
                }
            }
        }
        for (output, values) in pass.outputs.iter().zip(outputs) {
            all.insert(format!("{prefix}{}", output.name), values);
        }
    };
    run(forward, "", &mut saved);
    run(energy, "", &mut []);
    run(backward, "∂", &mut saved);
    run(constants, "∂", &mut saved);
    run(energy_backward, "energy ∂", &mut saved);
    run(energy_constants, "energy ∂", &mut saved);
    all.into_iter().map(|(name, values)| (name, values.into_iter().map(T::to_f64).collect())).collect()
}
