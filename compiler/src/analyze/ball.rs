//! The energy with its norms at the edge of a ball: F_ρ is F_h with ‖q‖ = ‖k_i‖ = ρ put in.
//!
//! Where norms only ever raise the energy, F_h ≤ F_ρ for all ‖q‖, ‖k_i‖ ≤ ρ: half a squared distance becomes ρ² − q·k_i, and
//! what was neither convex nor concave becomes concave. Whether the bound holds is tried on many draws, the edge of the
//! ball and 0 among them.

use super::draws::{self, Ball, SHAPES};
use crate::check::inputs;
use crate::check::recipe::{Constraint, Each, Origin, Param, ParamValue, Recipe};
use crate::derive::unused;
use crate::ir::eval::{Env, Sizes, evaluate};
use crate::ir::sample::{Random, sample};
use crate::ir::{Budget, Expr, Leaf, Role, Sign};
use crate::verify::samples;

/// Radii to try, where the radius can be chosen.
const RADII: [f64; 5] = [0.1, 0.5, 1.0, 3.0, 10.0];
/// Draws of one radius and shape.
const SEEDS: u64 = 40;
/// Nodes that all draws may look at together.
const WORK: usize = 3_000_000;
/// Rounding, relative to the values compared.
const ROUNDING: f64 = 1e-9;

/// The recipe with both norms put in; those it fixes itself keep their radius.
pub fn on_the_sphere(recipe: &Recipe) -> (Recipe, Ball) {
    let fixed = |vector: &Leaf| recipe.constraints.iter().find(|c| c.vector.same_input(vector)).cloned();
    let mut params = recipe.params.clone();
    let constraints: Vec<Constraint> = match [inputs::q(), inputs::k()].map(|v| (fixed(&v), v)) {
        [(Some(q), _), (Some(k), _)] => vec![q, k],
        given => {
            let leaf = radius(recipe);
            // Any radius will do.
            let value = ParamValue::Learn { init: Expr::one(), each: Each::default() };
            let name = leaf.name.to_string();
            params.push(Param { name, value, leaf: leaf.clone(), origin: Origin::Recipe });
            let free = |vector| Constraint { vector, radius: Expr::leaf(leaf.clone()) };
            given.into_iter().map(|(fixed, vector)| fixed.unwrap_or_else(|| free(vector))).collect()
        }
    };
    let ball = Ball { query: constraints[0].radius.clone(), key: constraints[1].radius.clone() };
    (Recipe { constraints, params, ..recipe.clone() }, ball)
}

/// A new positive parameter ρ.
fn radius(recipe: &Recipe) -> Leaf {
    let ordinal = recipe.params.iter().map(|p| p.leaf.ordinal.saturating_add(1)).max().unwrap_or(0);
    Leaf::new(Role::Param, ordinal, &unused("rho", recipe), &[], Sign::Positive)
}

/// What the draws came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    Holds { draws: usize },
    Fails { energy: f64, bound: f64, place: String },
}

/// Compares an energy with its bound all over the ball.
pub fn try_bound(energy: &Expr, bound: &Expr, ball: &Ball, recipe: &Recipe) -> Bound {
    let mut draws = 0;
    let work = Budget::of(WORK);
    for (tokens, head) in SHAPES {
        for radius in RADII {
            for seed in 0..SEEDS {
                let sizes = Sizes { queries: 1, tokens, head, model: 2, heads: 2 };
                if work.is_spent() {
                    return Bound::Holds { draws };
                }
                let mut env = draw(&[energy.clone(), bound.clone()], sizes, radius, seed, ball, recipe);
                env.work = work.clone();
                let value = |e: &Expr| evaluate(e, &env).ok().and_then(|x| x.data.first().copied());
                let (Some(below), Some(above)) = (value(energy), value(bound)) else { continue };
                if !below.is_finite() || !above.is_finite() {
                    continue;
                }
                draws += 1;
                if below - above > ROUNDING * (1.0 + below.abs() + above.abs()) {
                    let q = env.values.get(&*inputs::q().name).map_or(String::new(), |q| draws::vector(&q.data));
                    let place = format!("{}, q = {q}", draws::describe(&env, recipe));
                    return Bound::Fails { energy: below, bound: above, place };
                }
            }
        }
    }
    Bound::Holds { draws }
}

/// Inputs in the ball: tokens at 0, at the edge and in between; what is learned at its start every other time.
fn draw(terms: &[Expr], sizes: Sizes, radius: f64, seed: u64, ball: &Ball, recipe: &Recipe) -> Env {
    let mut random = Random::new(seed);
    let tokens = [Expr::leaf(inputs::q()), Expr::leaf(inputs::k())];
    let radii = [ball.query.clone(), ball.key.clone()];
    let terms: Vec<Expr> = terms.iter().cloned().chain(tokens).chain(radii).collect();
    let mut env = sample(&terms, sizes, &[], &mut random);
    if seed.is_multiple_of(2) {
        samples::start(&mut env, recipe);
    } else {
        samples::within(&mut env, recipe, &mut random);
    }
    for leaf in [&ball.query, &ball.key].into_iter().filter_map(Expr::as_leaf) {
        env.values.get_mut(&*leaf.name).into_iter().for_each(|x| x.data.fill(radius));
    }
    for (vector, radius) in [(inputs::q(), &ball.query), (inputs::k(), &ball.key)] {
        let radius = samples::number(radius, &env);
        let rows = env.values.get_mut(&*vector.name).into_iter().flat_map(|x| x.data.chunks_mut(sizes.head));
        for row in rows {
            let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            let wanted = match random.uniform() {
                u if u < 0.3 => radius,
                u if u < 0.4 => 0.0,
                _ => radius * random.uniform(),
            };
            row.iter_mut().for_each(|x| *x *= wanted / length.max(f64::MIN_POSITIVE));
        }
    }
    env
}
