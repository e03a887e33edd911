//! Random inputs to verify on: sizes with an edge each, seeds, masks, distance from the kinks of the energy, and points
//! on them.

use super::slopes::moved;
use super::steady::is_finite;
use crate::check::recipe::{Condition, ParamValue, Recipe};
use crate::check::{domain, inputs};
use crate::derive::{Kink, kinks};
use crate::ir::eval::{Env, Sizes, evaluate, evaluate_all};
use crate::ir::memo::Memo;
use crate::ir::sample::{Norm, Random, sample};
use crate::ir::tensor::Tensor;
use crate::ir::{Budget, Expr, Func, Op, traverse};

/// (queries, tokens, d_h, d): an ordinary one, a single token, a single component, a larger one.
pub const SHAPES: [(usize, usize, usize, usize); 4] = [(2, 3, 2, 3), (2, 1, 3, 2), (3, 4, 1, 2), (2, 5, 3, 4)];

/// Halvings on the way to a kink.
const HALVINGS: usize = 60;

/// Times learned parameters are drawn again to meet their conditions.
const REDRAWS: usize = 100;

/// Closer to a kink than this, a finite difference says nothing.
const NEAR: f64 = 1e-3;

/// Which tokens the queries see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mask {
    /// Everything.
    None,
    /// A random part, never empty.
    Partial,
    /// A random part; the first query sees nothing.
    BlindRow,
}

/// One draw.
#[derive(Clone, Debug)]
pub struct Sample {
    pub env: Env,
    pub seed: u64,
}

impl Sample {
    pub fn describe(&self) -> String {
        let Sizes { queries, tokens, head, model, .. } = self.env.sizes;
        let masked = if self.env.visible.is_some() { ", masked" } else { "" };
        let seed = self.seed;
        format!("{queries} queries, N = {tokens}, d_h = {head}, d = {model}, seed {seed}{masked}")
    }
}

/// What to draw.
#[derive(Clone, Debug)]
pub struct Source {
    /// Their inputs get values.
    pub terms: Vec<Expr>,
    pub norms: Vec<Norm>,
    /// Stay away from these.
    pub kinks: Vec<Kink>,
    /// Where this is too large for f64, nothing is said of what is made of it.
    pub energy: Option<Expr>,
    pub mask: Mask,
    /// As many tokens as queries.
    pub square: bool,
    /// At least as many components of the model as of a head.
    pub wide: bool,
    /// What evaluations on the draws may spend together.
    pub work: Budget,
}

/// The cube of this is a number still.
const LARGEST: f64 = 1e100;

/// Nodes that one claim's samples may evaluate together.
const WORK: usize = 800_000;

impl Source {
    pub fn new(terms: Vec<Expr>, norms: Vec<Norm>) -> Source {
        Source {
            terms,
            norms,
            kinks: vec![],
            energy: None,
            mask: Mask::None,
            square: false,
            wide: false,
            work: Budget::of(WORK),
        }
    }
    /// For what is made of an energy: away from its kinks.
    pub fn of(self, energy: &Expr) -> Source {
        Source { kinks: kinks(energy), energy: Some(energy.clone()), ..self }
    }
    pub fn masked(&self, mask: Mask) -> Source {
        Source { mask, work: self.work.again(), ..self.clone() }
    }

    /// Whether the energy is beyond what f64 leaves room for.
    pub fn overflows(&self, env: &Env) -> bool {
        self.energy.as_ref().is_some_and(|energy| overflows(energy, env))
    }

    /// A draw, unless it is too near a kink.
    pub fn draw(&self, shape: (usize, usize, usize, usize), seed: u64) -> Option<Sample> {
        let (queries, tokens, head, model) = shape;
        let tokens = if self.square { queries } else { tokens };
        let model = if self.wide { model.max(head) } else { model };
        let sizes = Sizes { queries, tokens, head, model, heads: 2 };
        let mut random = Random::new(seed);
        let mut env = sample(&self.terms, sizes, &self.norms, &mut random);
        env.work = self.work.clone();
        env.visible = visibility(self.mask, queries, tokens, &mut random);
        constrain_token(&mut env, &self.norms);
        let is_near = self.kinks.iter().any(|kink| near(kink, &env));
        (!is_near).then_some(Sample { env, seed })
    }
}

/// Whether something in a term is too large for squares and products of it, though all it is made of is finite. The
/// logarithm of 0 is not meant.
pub fn overflows(e: &Expr, env: &Env) -> bool {
    let terms = traverse::subterms(e);
    let Ok(values) = evaluate_all(&terms, env) else { return false };
    let known: Memo<&Tensor> = terms.iter().cloned().zip(&values).collect();
    let is_large = |e: &Expr| known[e].data.iter().any(|x| x.is_nan() || x.abs() > LARGEST);
    let is_made =
        |e: &Expr| !matches!(e.op(), Op::Call(Func::Log, _)) && e.children().iter().all(|x| is_finite(known[*x]));
    terms.iter().any(|e| is_large(e) && is_made(e))
}

/// Gives the parameters the values a recipe starts them with; gates stay random.
pub fn start(env: &mut Env, recipe: &Recipe) {
    for param in &recipe.params {
        if let ParamValue::Fixed(value) | ParamValue::Learn { init: value, .. } = &param.value {
            let value = number(value, env);
            if let Some(stored) = env.values.get_mut(&*param.leaf.name) {
                stored.data.fill(value);
            }
        }
    }
}

/// Gives every component of a vector a value of its own around the start, unless a condition would not hold of it: where
/// all are the same, nobody sees which is which.
pub fn spread(env: &mut Env, recipe: &Recipe, random: &mut Random) {
    let at_start = env.clone();
    for param in recipe.params.iter().filter(|param| !param.leaf.axes.is_empty()) {
        let Some(start) = param.value.start().map(|value| number(value, &at_start)) else { continue };
        let Some(stored) = env.values.get_mut(&*param.leaf.name) else { continue };
        for x in &mut stored.data {
            let drawn = 0.4 * random.normal();
            *x = if start == 0.0 { drawn } else { start * drawn.exp() };
        }
    }
    if !are_met(&recipe.conditions, env) {
        *env = at_start;
    }
}

/// Gives the parameters values the recipe can have. A fixed one has its own; a learned one stays as it was drawn where
/// the recipe's conditions hold, and is drawn again where they do not, from around its start every other time; where no
/// draw will do, everything stands at its start.
pub fn within(env: &mut Env, recipe: &Recipe, random: &mut Random) {
    for attempt in 0..REDRAWS {
        for param in &recipe.params {
            let Some(stored) = env.values.get(&*param.leaf.name) else { continue };
            let shape = stored.data.len();
            let data = match &param.value {
                ParamValue::Fixed(value) => vec![number(value, env); shape],
                ParamValue::Learn { init, .. } if attempt % 2 == 1 => {
                    let start = number(init, env);
                    (0..shape).map(|_| start * (0.4 * random.normal()).exp()).collect()
                }
                ParamValue::Learn { .. } if attempt > 0 => {
                    let drawn = sample(&[Expr::leaf(param.leaf.clone())], env.sizes, &[], random);
                    drawn.values[&*param.leaf.name].data.clone()
                }
                _ => continue,
            };
            env.values.entry(param.leaf.name.to_string()).and_modify(|stored| stored.data = data);
        }
        if are_met(&recipe.conditions, env) {
            return;
        }
    }
    start(env, recipe);
}

/// Whether conditions hold of the drawn parameters; one about what was not drawn does.
fn are_met(conditions: &[Condition], env: &Env) -> bool {
    let holds = |c: &Condition| match evaluate(&c.difference, env) {
        Ok(x) => x.data.iter().all(|x| domain::holds_of(c.op, *x)),
        Err(_) => true,
    };
    conditions.iter().all(holds)
}

/// The value of a term without axes.
pub fn number(e: &Expr, env: &Env) -> f64 {
    evaluate(e, env).ok().and_then(|x| x.data.first().copied()).unwrap_or(f64::NAN)
}

/// Scales every row of q that a norm is given for.
pub fn constrain_query(env: &mut Env, norms: &[Norm]) {
    let Some(radius) = radius_of_query(env, norms) else { return };
    let width = env.sizes.head;
    let Some(q) = env.values.get_mut(&*inputs::q().name) else { return };
    for row in q.data.chunks_mut(width) {
        scale_to(row, radius, length(row));
    }
}

/// Scales every row of z so that q = W1 z has the norm that is given for q.
pub fn constrain_token(env: &mut Env, norms: &[Norm]) {
    let Some(radius) = radius_of_query(env, norms) else { return };
    let Some(w1) = env.values.get(&*inputs::w1().name).cloned() else { return };
    let width = env.sizes.model;
    let Some(z) = env.values.get_mut(&*inputs::z().name) else { return };
    for row in z.data.chunks_mut(width) {
        let component = |w: &[f64]| w.iter().zip(&*row).map(|(w, z)| w * z).sum::<f64>();
        let q: Vec<f64> = w1.data.chunks(width).map(component).collect();
        scale_to(row, radius, length(&q));
    }
}

fn radius_of_query(env: &Env, norms: &[Norm]) -> Option<f64> {
    let (_, radius) = norms.iter().find(|(vector, _)| vector.same_input(&inputs::q()))?;
    evaluate(radius, env).ok()?.data.first().copied()
}

fn length(row: &[f64]) -> f64 {
    row.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Scales a row that is `now` long; 0 stays 0.
fn scale_to(row: &mut [f64], radius: f64, now: f64) {
    if now > 0.0 {
        row.iter_mut().for_each(|x| *x *= radius / now);
    }
}

fn visibility(mask: Mask, queries: usize, tokens: usize, random: &mut Random) -> Option<Vec<bool>> {
    if mask == Mask::None {
        return None;
    }
    let mut visible: Vec<bool> = (0..queries * tokens).map(|_| random.uniform() < 0.6).collect();
    for (t, row) in visible.chunks_mut(tokens).enumerate() {
        row[random.below(tokens)] = true;
        if mask == Mask::BlindRow && t == 0 {
            row.fill(false);
        }
    }
    Some(visible)
}

/// Whether some entry is about to cross a kink. A weight that is exactly 0 is off the support, not near its edge.
pub fn near(kink: &Kink, env: &Env) -> bool {
    let is_support = matches!(kink.place.0.op(), Op::Weights(..));
    let visible = env.visible.clone().filter(|_| is_support);
    let env = Env { visible, ..env.clone() };
    let close = |x: &f64| x.abs() < NEAR && !(is_support && *x == 0.0);
    evaluate(&kink.place.0.minus(&kink.place.1), &env).is_ok_and(|place| place.data.iter().any(close))
}

/// The inputs with q moved from its value toward (or past) the one of another draw.
pub fn toward(env: &Env, other: &Env, s: f64) -> Env {
    let q = inputs::q();
    let goal = other.values.get(&*q.name).map_or(&[][..], |goal| &goal.data);
    moved(env, &q, |q| q.data.iter_mut().zip(goal).for_each(|(x, y)| *x += s * (y - *x)))
}

/// The point between two draws, all on the given norms, at which some entry of a kink's place changes sign; by halving.
pub fn crossing(kink: &Kink, start: &Env, end: &Env, norms: &[Norm]) -> Option<Env> {
    let place = kink.place.0.minus(&kink.place.1);
    let at = |s: f64| {
        let mut env = toward(start, end, s);
        constrain_query(&mut env, norms);
        env
    };
    let side = |s: f64| Some(evaluate(&place, &at(s)).ok()?.data.iter().map(|x| *x > 0.0).collect::<Vec<_>>());
    let (first, last) = (side(0.0)?, side(1.0)?);
    let entry = first.iter().zip(&last).position(|(a, b)| a != b)?;
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if side(middle)?.get(entry) == first.get(entry) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(at(high))
}
