//! Whether a second-order step can be taken at all: the energy must have a Hessian, and its system a solution.
//!
//! Formulas cannot tell a kink from a smooth join of two cases, so this looks at numbers: the gradient and the
//! Hessian on both sides of every place where the energy might break, and the system of a query that sees one token,
//! as the first query of a causal layer does. Fixed seeds; parameters at the values they start with.

use nalgebra::DMatrix;

use crate::check::inputs;
use crate::check::recipe::{Method, Preconditioner, Recipe};
use crate::derive::{self, COLUMN, Derivation, Preconditioned, kinks, reveal};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::eval::{Env, Sizes, evaluate};
use crate::ir::sample::{Random, sample};
use crate::ir::tensor::Tensor;
use crate::ir::{Axis, Budget, Expr, linear};
use crate::simplify::Options;
use crate::verify::samples::{self, crossing, toward};
use crate::verify::slopes::{self, moved};

/// Draws for every question.
const SEEDS: u64 = 6;
/// Distances to a kink at which the two sides are compared.
const DISTANCES: [f64; 3] = [1e-3, 1e-5, 1e-7];
/// A jump of the gradient, and a growth of the Hessian from one distance to the next, that is no rounding.
const JUMP: f64 = 1e-3;
const GROWTH: f64 = 4.0;
/// Nodes that may be evaluated around kinks.
const WORK: usize = 2_000_000;

/// What stands in the way of the recipe's second-order step.
pub fn obstacles(recipe: &Recipe, options: &Options) -> Vec<Diagnostic> {
    let Some(how) = &recipe.program.preconditioner else { return vec![] };
    let derivation = derive::derive(recipe, options);
    let Some(done) = &derivation.preconditioned else { return vec![] };
    let broken = not_twice_differentiable(&derivation, done, how);
    broken.map_or_else(|| unsolvable(&derivation, done, how).into_iter().collect(), |diagnostic| vec![diagnostic])
}

/// The first place at which the gradient jumps or the Hessian is unbounded.
fn not_twice_differentiable(
    derivation: &Derivation,
    done: &Preconditioned,
    how: &Preconditioner,
) -> Option<Diagnostic> {
    let energy = &derivation.energy.term;
    let gradient = reveal(&derivation.gradient.term, &derivation.names);
    let product = reveal(&done.hessian.product, &derivation.names);
    let terms = [energy.clone(), gradient.clone(), product.clone()];
    let sizes = Sizes { queries: 1, tokens: 2, head: 2, model: 4, heads: 2 };
    let places = kinks(energy);
    if places.is_empty() {
        return None;
    }
    let work = Budget::of(WORK);
    for seed in 0..SEEDS {
        let [start, end] = [2 * seed, 2 * seed + 1].map(|seed| {
            let drawn = draw(derivation, &terms, sizes, seed);
            Env { work: work.clone(), ..drawn }
        });
        let crossings = places.iter().filter_map(|kink| crossing(kink, &start, &end, &[]));
        let points = crossings.chain(coincidences(&start));
        for point in points.take_while(|_| !work.is_spent()) {
            if let Some(what) = breaks(&gradient, &product, &point, &end) {
                let name = &derivation.recipe.name;
                let diagnostic = Diagnostic::new(Code::NotDifferentiable, format!("`{name}` asks for a Hessian, but {what}"))
                    .at(how.span, "needs a second derivative")
                    .help("take an energy with a smooth kink, such as a squared or Huber-like distance, or an optimizer over `grad` alone");
                return Some(diagnostic);
            }
        }
    }
    None
}

/// Inputs at random, parameters at their start.
fn draw(derivation: &Derivation, terms: &[Expr], sizes: Sizes, seed: u64) -> Env {
    let recipe = &derivation.recipe;
    let norms: Vec<_> = recipe.constraints.iter().map(|c| (c.vector.clone(), c.radius.clone())).collect();
    let mut terms = terms.to_vec();
    terms.extend([inputs::q(), inputs::k(), inputs::v()].map(Expr::leaf));
    let mut env = sample(&terms, sizes, &norms, &mut Random::new(seed));
    samples::start(&mut env, recipe);
    env
}

/// Points a distance or a norm vanishes at: q = k_i and q = 0.
fn coincidences(env: &Env) -> Vec<Env> {
    let width = env.sizes.head;
    let at = |row: Vec<f64>| moved(env, &inputs::q(), |q| q.data = row);
    let keys = env.values.get(&*inputs::k().name).map(|k| k.data[..width].to_vec());
    keys.into_iter().chain([vec![0.0; width]]).map(at).collect()
}

/// What breaks at a point, in words.
fn breaks(gradient: &Expr, product: &Expr, point: &Env, other: &Env) -> Option<&'static str> {
    let largest = |x: &Tensor| x.data.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let mut sizes = Vec::new();
    let mut jumps = Vec::new();
    for distance in DISTANCES {
        let sides = [distance, -distance].map(|s| toward(point, other, s));
        let values = |e: &Expr| sides.iter().map(|side| evaluate(e, side).ok()).collect::<Option<Vec<Tensor>>>();
        let (slopes, curved) = (values(gradient)?, values(product)?);
        let jump = slopes[0].data.iter().zip(&slopes[1].data).map(|(a, b)| (a - b).abs()).fold(0.0f64, f64::max);
        jumps.push(jump / (1.0 + largest(&slopes[0])));
        sizes.push(curved.iter().map(largest).fold(0.0f64, f64::max));
    }
    let [.., last] = jumps.as_slice() else { return None };
    if *last > JUMP {
        return Some("the gradient of its energy jumps");
    }
    let grows = sizes.windows(2).all(|pair| pair[1] > GROWTH * pair[0]);
    grows.then_some("the second derivative of its energy is unbounded")
}

/// A series without a point to expand around, or a system that is singular whatever the inputs.
fn unsolvable(derivation: &Derivation, done: &Preconditioned, how: &Preconditioner) -> Option<Diagnostic> {
    let name = &derivation.recipe.name;
    let sizes = Sizes { queries: 1, tokens: 1, head: 3, model: 4, heads: 2 };
    let system = reveal(&done.system, &derivation.names);
    let terms = [system.clone(), done.alpha.clone()];
    if let Method::Taylor { alpha, .. } = &how.method {
        let env = draw(derivation, &terms, sizes, 0);
        let vanishes = evaluate(&done.alpha, &env).is_ok_and(|alpha| alpha.data[0] == 0.0);
        let message = format!("the series of `{name}` has nothing to expand around");
        let diagnostic = Diagnostic::new(Code::NoExpansion, message)
            .at(
                how.span,
                if alpha.is_some() { "alpha is 0" } else { "the Hessian has no constant part along the identity" },
            )
            .help("give the size it has about, as in `taylor(1, alpha = 1)`, or damp it, as in `eps = 1`");
        return vanishes.then_some(diagnostic);
    }
    let singular = (0..SEEDS).filter(|seed| {
        let env = draw(derivation, &terms, sizes, *seed);
        let matrix = slopes::value(&system, &[Axis::E, COLUMN], &env);
        matrix.ok().is_none_or(|x| linear::is_singular(&DMatrix::from_row_slice(sizes.head, sizes.head, &x.data)))
    });
    let count = singular.count() as u64;
    let damp = "damp it: `eps = 1` where the optimizer has it, or `solve(hess(z) + 1, grad(z))` in one of your own";
    if count == SEEDS {
        let message = format!("the Hessian of `{name}` is singular for a query that sees one token");
        return Some(Diagnostic::new(Code::SingularHessian, message).at(how.span, "has no solution there").help(damp));
    }
    (count > 0).then(|| {
        let message = format!("the Hessian of `{name}` is singular for some queries that see one token");
        Diagnostic::new(Code::MaybeSingular, message).at(how.span, "no step is taken there").help(damp)
    })
}
