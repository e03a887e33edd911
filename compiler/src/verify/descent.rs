//! Descent: does the optimizer's step lower F_h, if only it is small enough?
//!
//! The program itself is run, once, from its first states: ẑ − z with the force −M o at every point it asks for, tied
//! values, M = W1ᵀ (or W1⁺ where the recipe writes back so). A direction may descend and a program that uses it climb, so
//! nothing is said of the direction alone. What counts is the slope of F_h at z along ẑ − z, from finite differences,
//! query by query on many draws.
//!
//! | program | answer |
//! |---|---|
//! | the slope is below 0 on every draw | it descends |
//! | some slope is not | it fails, and the line says on how many draws F rises |
//! | it solves a system, asks for no gradient, or for one elsewhere than at z, or also moves where ∇F = 0 | no claim: it is not meant to follow −∇F at z |

use nalgebra::DMatrix;

use super::parts::{Parts, through_z, tied};
use super::report::{Line, Outcome};
use super::samples::{self, SHAPES, Sample, Source};
use super::slopes::{self, value};
use super::trials;
use crate::check::inputs;
use crate::check::recipe::{ParamValue, Program, Recipe, Values, WriteBack};
use crate::derive::{Kink, kinks};
use crate::ir::eval::Env;
use crate::ir::sample::{Random, obey};
use crate::ir::tensor::Tensor;
use crate::ir::{Axis, Expr, Leaf, Role, Sign, traverse};

/// Draws of every shape, and draws after which a usable one is given up.
const DRAWS: usize = 16;
const ATTEMPTS: u64 = 1000;
/// Rows with a shorter step stand still; with a shorter gradient they are at a stationary point.
const STILL: f64 = 1e-6;
/// A slope along the step that is a smaller part of the gradient than this is none.
const FLAT: f64 = 1e-6;

/// Names no parameter can have: M, and ẑ − z at length one.
const BACK: &str = "matrix of the write-back";
const ALONG: &str = "step of length one";

/// The slope of F along the step.
pub fn descent(parts: &Parts) -> Line {
    let recipe = parts.recipe();
    let detail = format!("a small step of the optimizer, in z, lowers {}", parts.energy_name());
    let no_claim =
        |reason: String| Line { name: "descent", detail: detail.clone(), outcome: Outcome::NotApplicable { reason } };
    if parts.derivation.preconditioned.is_some() {
        return no_claim("a solved step goes where A⁻¹ sends it: A may be indefinite".to_string());
    }
    let program = at_first_states(recipe);
    if let Some(reason) = not_meant(&program) {
        return no_claim(reason.to_string());
    }
    let seen = match try_steps(parts, &program) {
        Ok(seen) => seen,
        Err(Stop::Problem(where_)) => {
            let outcome = Outcome::Fail { error: f64::INFINITY, tolerance: 0.0, where_ };
            return Line { name: "descent", detail, outcome };
        }
        Err(Stop::NoDraw(reason)) => {
            return Line { name: "descent", detail, outcome: Outcome::Inconclusive { reason } };
        }
    };
    let with_keys = if recipe.values == Values::Free { "with k in the place of v, " } else { "" };
    let detail = format!("{with_keys}{detail}; {} draws", seen.draws);
    let line = |outcome| Line { name: "descent", detail: detail.clone(), outcome };
    match &seen.worst {
        _ if seen.draws == 0 => no_claim(trials::TOO_LONG.to_string()),
        _ if seen.judged == 0 => no_claim("the step is 0 on every draw".to_string()),
        Some(worst) => line(Outcome::Fail {
            error: worst.slope.max(f64::MIN_POSITIVE),
            tolerance: 0.0,
            where_: format!("{}: {}", seen.summary(), worst.place),
        }),
        None if recipe.values == Values::Free => Line {
            detail: format!("{detail}: so it does"),
            ..no_claim("values are free: W_O = (η/H) W1ᵀ and W_V = W2 make it the tied step".to_string())
        },
        None => line(Outcome::Pass { error: 0.0, tolerance: 0.0 }),
    }
}

/// The program with the states' first values put in.
fn at_first_states(recipe: &Recipe) -> Program {
    let put_in = |e: &Expr| {
        traverse::substitute_leaves(e, &mut |leaf| {
            recipe.program.states.iter().find(|state| state.leaf.same_input(leaf)).map(|state| state.init.clone())
        })
    };
    let Program { gradients, z, .. } = &recipe.program;
    Program { gradients: gradients.iter().map(put_in).collect(), z: put_in(z), ..recipe.program.clone() }
}

/// Why a program is not one that follows −∇F at z.
fn not_meant(program: &Program) -> Option<&'static str> {
    let z = Expr::leaf(inputs::z());
    let is_gradient = |leaf: &Leaf| (0..program.gradients.len()).any(|i| leaf.same_input(&inputs::gradient(i)));
    if !traverse::inputs(&program.z).iter().any(is_gradient) {
        return Some("the step does not use ∇F");
    }
    if program.gradients.iter().any(|point| *point != z) {
        return Some("the optimizer takes ∇F at another point than z, also from its first states");
    }
    let at_rest = traverse::substitute_leaves(&program.z, &mut |leaf| is_gradient(leaf).then(Expr::zero));
    (at_rest != z).then_some("the optimizer also moves z where ∇F = 0: its step follows more than F")
}

/// What all draws came to.
#[derive(Default)]
struct Seen {
    draws: usize,
    /// Draws on which something moved, and those on which F did not fall.
    judged: usize,
    rising: usize,
    worst: Option<Worst>,
}

/// The steepest rise, or a step along which F stays.
struct Worst {
    slope: f64,
    place: String,
}

impl Seen {
    fn summary(&self) -> String {
        match self.rising == self.judged {
            true => format!("the step goes up: it raises F on all {} draws", self.judged),
            false => format!("the step does not lower F on {} of {} draws", self.rising, self.judged),
        }
    }
}

/// Why nothing was seen.
enum Stop {
    Problem(String),
    NoDraw(String),
}

impl From<String> for Stop {
    fn from(problem: String) -> Stop {
        Stop::Problem(problem)
    }
}

fn try_steps(parts: &Parts, program: &Program) -> Result<Seen, Stop> {
    let trial = Trial::new(parts, program);
    let params = parts.recipe().params.iter().map(|param| Expr::leaf(param.leaf.clone()));
    let tokens = [inputs::z(), inputs::w1()].map(Expr::leaf);
    let terms = tokens.into_iter().chain(params).chain([trial.energy.clone(), trial.direction.clone()]).collect();
    let source = Source::new(terms, parts.norms());
    let mut seen = Seen::default();
    for shape in SHAPES {
        let mut missing = DRAWS;
        for seed in 0..ATTEMPTS {
            if missing == 0 || source.work.is_spent() {
                break;
            }
            let Some(sample) = source.draw(shape, seed) else { continue };
            let Some(slopes) = trial.slopes(&sample)? else { continue };
            missing -= 1;
            seen.add(&slopes, &sample);
        }
        if missing == DRAWS && !source.work.is_spent() {
            let sizes = format!("N = {}, d_h = {}", shape.1, shape.2);
            return Err(Stop::NoDraw(format!("no draw with a reliable slope in {ATTEMPTS} ({sizes})")));
        }
    }
    Ok(seen)
}

/// The slope along the step of a query and the length of its gradient; nothing where the query stands still.
type Slope = Option<(f64, f64)>;

impl Seen {
    fn add(&mut self, slopes: &[Slope], sample: &Sample) {
        self.draws += 1;
        let moving = slopes.iter().enumerate().filter_map(|(t, slope)| slope.map(|(slope, size)| (t, slope, size)));
        let moving: Vec<(usize, f64, f64)> = moving.collect();
        self.judged += usize::from(!moving.is_empty());
        let up: Vec<_> = moving.into_iter().filter(|(_, slope, size)| *slope > -FLAT * size).collect();
        self.rising += usize::from(!up.is_empty());
        for (t, slope, _) in up {
            if self.worst.as_ref().is_none_or(|worst| slope > worst.slope) {
                let place = format!("F of query {t} has the slope {slope:.1e} along it ({})", sample.describe());
                self.worst = Some(Worst { slope, place });
            }
        }
    }
}

/// One step on one draw.
struct Trial<'a> {
    parts: &'a Parts,
    program: &'a Program,
    /// F_h and −∇F_h with k in the place of v, through q = W1 z.
    energy: Expr,
    direction: Expr,
    kinks: Vec<Kink>,
}

const TOKEN: [Axis; 2] = [Axis::T, Axis::C];

impl Trial<'_> {
    fn new<'a>(parts: &'a Parts, program: &'a Program) -> Trial<'a> {
        let energy = through_z(parts.energy());
        let direction = through_z(&tied(&parts.direction()));
        Trial { parts, program, kinks: kinks(&energy), energy, direction }
    }

    /// The slope of F along the step of every query; nothing where it cannot be trusted.
    fn slopes(&self, sample: &Sample) -> Result<Option<Vec<Slope>>, String> {
        let mut env = sample.env.clone();
        self.give_values(&mut env, sample.seed);
        if self.kinks.iter().any(|kink| samples::near(kink, &env)) {
            return Ok(None);
        }
        let z = value(&Expr::leaf(inputs::z()), &TOKEN, &env)?;
        let mut step = self.moved(&env)?;
        step.data.iter_mut().zip(&z.data).for_each(|(x, z)| *x -= z);
        let width = env.sizes.model;
        let lengths: Vec<f64> = step.data.chunks(width).map(length).collect();
        if !lengths.iter().all(|length| length.is_finite()) {
            return Ok(None);
        }
        for (row, length) in step.data.chunks_mut(width).zip(&lengths) {
            row.iter_mut().for_each(|x| *x /= length.max(f64::MIN_POSITIVE));
        }
        let along = Leaf::new(Role::Probe, 3, ALONG, &TOKEN, Sign::Unknown);
        env.values.insert(ALONG.to_string(), step);
        let Some(slopes) = slopes::directional(&self.energy, &inputs::z(), &along, &env)? else { return Ok(None) };
        let slopes = slopes::along(&slopes, &[Axis::T], &env);
        let gradient = value(&self.parts.gradient_in_z, &TOKEN, &env)?;
        let sizes = gradient.data.chunks(width).map(length);
        let rows = slopes.data.iter().zip(sizes).zip(&lengths).map(|((&slope, size), &length)| {
            let stands_still = length < STILL || size < STILL;
            (!stands_still).then_some((slope, size))
        });
        Ok(Some(rows.collect()))
    }

    /// Parameters have values the recipe can have, those of the optimizer the ones it starts with; M follows from W1.
    fn give_values(&self, env: &mut Env, seed: u64) {
        let recipe = self.parts.recipe();
        samples::within(env, recipe, &mut Random::new(seed));
        for param in recipe.params.iter().filter(|param| recipe.program.mentions(&param.leaf)) {
            if let ParamValue::Fixed(start) | ParamValue::Learn { init: start, .. } = &param.value {
                let start = samples::number(start, env);
                env.values.get_mut(&*param.leaf.name).into_iter().for_each(|x| x.data.fill(start));
            }
        }
        let norms = self.parts.norms();
        obey(env, &[], &norms);
        samples::constrain_token(env, &norms);
        let (rows, columns) = (env.sizes.head, env.sizes.model);
        let w1 = DMatrix::from_row_slice(rows, columns, &env.values[&*inputs::w1().name].data);
        let back = match recipe.write_back {
            WriteBack::Transpose | WriteBack::Free => w1.transpose(),
            WriteBack::Pinv | WriteBack::FreePinv => {
                w1.clone().pseudo_inverse(f64::EPSILON).unwrap_or_else(|_| w1.transpose())
            }
        };
        let axes = [Axis::C, Axis::E];
        let stored = Tensor::build(&axes, |a| env.sizes.length(a), |at| back[(at[0], at[1])]);
        env.values.insert(BACK.to_string(), stored);
    }

    /// ẑ: every gradient the program asks for is −M o at its point.
    fn moved(&self, env: &Env) -> Result<Tensor, String> {
        let back = Leaf::new(Role::Matrix, 50, BACK, &[Axis::C, Axis::E], Sign::Unknown);
        let force = Expr::sum(Axis::E, &Expr::leaf(back).times(&self.direction)).neg();
        let mut now = env.clone();
        for (i, point) in self.program.gradients.iter().enumerate() {
            let mut at = now.clone();
            at.values.insert(inputs::z().name.to_string(), value(point, &TOKEN, &now)?);
            now.values.insert(inputs::gradient(i).name.to_string(), value(&force, &TOKEN, &at)?);
        }
        value(&self.program.z, &TOKEN, &now)
    }
}

fn length(row: &[f64]) -> f64 {
    row.iter().map(|x| x * x).sum::<f64>().sqrt()
}
