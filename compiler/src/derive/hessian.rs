//! The Hessian of F_h: as a quadratic form of a probe, as a product with it, and as a matrix with the probe peeled off.

use super::naming::unused;
use super::{Derivation, Kink, Named, hide, kinks, options_for, reveal};
use crate::calculus::{self, Meaning};
use crate::check::inputs;
use crate::check::recipe::Recipe;
use crate::ir::{Axis, Expr, Leaf, Op, Role, Sign, Space, rational, traverse};
use crate::simplify::cost::Costs;
use crate::simplify::expand::{Extent, expand};
use crate::simplify::proof::{Lemma, Proof};
use crate::simplify::{Objective, Options, Simplified, simplify};

/// The second derivative of a head's energy.
#[derive(Clone, Debug)]
pub struct Hessian {
    /// u.
    pub probe: Leaf,
    /// x_i, how a score changes along u.
    pub slopes: Vec<Named>,
    /// u·C·u for a probe u, a sum of parts, some written with x_i.
    pub form: Vec<Simplified>,
    /// C·u, half the gradient of u·C·u: C is symmetric, and so is the way it is written.
    pub product: Expr,
    /// C itself, along the axes e and f.
    pub matrix: Expr,
    /// Where it does not exist; elsewhere it is the Hessian.
    pub kinks: Vec<Kink>,
}

/// The column axis of the matrix.
pub const COLUMN: Axis = Axis::new(Space::Head, 9);

/// The Hessian of the derived energy.
pub fn hessian(derivation: &Derivation, options: &Options) -> Hessian {
    let options = options_for(&derivation.recipe, options);
    second_derivative(&derivation.recipe, &derivation.energy.term, &derivation.names, &options)
}

/// The Hessian of an energy: its slope along u, differentiated along u once more.
///
/// All of it is made of numbers such as u·k_i, never of vectors, so that what the weights add comes out as what it is,
/// a covariance: of the k_i, or of the slopes x_i of the scores along u where those are too long to multiply out.
pub fn second_derivative(recipe: &Recipe, energy: &Expr, names: &[Named], options: &Options) -> Hessian {
    let probe = Leaf::new(Role::Probe, 0, &unused("u", recipe), &[Axis::T, Axis::E], Sign::Unknown);
    let meanings: Vec<_> = names.iter().map(|n| (n.leaf.clone(), n.meaning.clone())).collect();
    let along = |e: &Expr| calculus::tangent(e, &inputs::q(), &probe, &meanings);
    let raw = along(&hide(&along(energy), names));
    let slopes: Vec<Named> = names.iter().filter_map(|named| score_slope(recipe, named, &along)).collect();
    let tidy = |part: &Expr| {
        let mut part = simplify(part, options);
        part.term = hide(&part.term, names);
        part
    };
    let costs = Costs { objective: Objective::Readable, given: &[] };
    let form = split(&raw).into_iter().map(|part| {
        let plain = tidy(&part);
        let named = multiplied_out(&with_slopes(&part, &slopes), options);
        match named.filter(|named| costs.of(&reveal(&named.term, &slopes)) < costs.of(&plain.term)) {
            Some(named) => named,
            None => plain,
        }
    });
    let form: Vec<Simplified> = form.collect();
    let whole = reveal(&Expr::add(form.iter().map(|part| part.term.clone())), &slopes);
    let product = calculus::gradient(&whole, &probe).scale(&rational::ratio(1, 2));
    let matrix = matrix_of(&product, &probe);
    Hessian { probe, slopes, form, product, matrix, kinks: kinks(energy) }
}

/// x_i, the part of a score's slope along u that its token changes.
fn score_slope(recipe: &Recipe, named: &Named, along: &impl Fn(&Expr) -> Expr) -> Option<Named> {
    let Meaning::Weights { scores, .. } = &named.meaning else { return None };
    let mut moving = along(scores).factors().into_iter().filter(|f| !f.axes().is_empty());
    let (value, None) = (moving.next()?, moving.next()) else { return None };
    let name = named.leaf.name.replacen('p', "x", 1);
    let leaf = Leaf::new(Role::Named, named.leaf.ordinal + 100, &unused(&name, recipe), &[Axis::T, Axis::N], Sign::Unknown);
    Some(Named { leaf, meaning: Meaning::Formula(value) })
}

/// The term multiplied out, unless that makes it too large.
fn multiplied_out(e: &Expr, options: &Options) -> Option<Simplified> {
    let (end, steps) = expand(e, &options.rules, Extent::Expand)?;
    let proof = Proof::from_lemmas(e, vec![Lemma { start: e.clone(), steps, end }]);
    Some(Simplified { term: proof.end.clone(), proof, hit_limit: false, rejected: vec![] })
}

/// The term with slopes under their names, at whatever token.
fn with_slopes(e: &Expr, slopes: &[Named]) -> Expr {
    traverse::rewrite_bottom_up(e, &mut |x| {
        let axes = x.axes();
        let mut tokens = axes.iter().filter(|a| a.space == Space::Token);
        let (Some(token), None) = (tokens.next(), tokens.next()) else { return x };
        let slope = slopes.iter().find(|slope| traverse::rename(&slope.value(), Axis::N, token) == x);
        slope.map_or(x, |slope| traverse::rename(&Expr::leaf(slope.leaf.clone()), Axis::N, token))
    })
}

/// The terms of a sum, those under Σ and behind numbers too: the curvature of the E_i, and what the weights add.
fn split(e: &Expr) -> Vec<Expr> {
    match e.op() {
        Op::Add(terms) => terms.iter().flat_map(split).collect(),
        Op::Sum(axis, body) => split(body).iter().map(|part| Expr::sum(*axis, part)).collect(),
        Op::Mul(factors) => {
            let (numbers, rest): (Vec<Expr>, Vec<Expr>) = factors.iter().cloned().partition(|f| f.axes().is_empty());
            match rest.as_slice() {
                [rest] => split(rest).iter().map(|part| Expr::mul(numbers.iter().cloned().chain([part.clone()]))).collect(),
                _ => vec![e.clone()],
            }
        }
        _ => vec![e.clone()],
    }
}

/// C from C·u: where u stands bare it becomes the identity, where a sum over f contracts it the sum disappears.
pub fn matrix_of(product: &Expr, probe: &Leaf) -> Expr {
    let column = Leaf { axes: vec![Axis::T, COLUMN], ..probe.clone() };
    let parts = calculus::coefficients(product, &column).into_iter().map(|(axes, c)| match axes.contains(&COLUMN) {
        true => c,
        false => c.times(&Expr::leaf(Leaf::identity(Axis::E, COLUMN))),
    });
    Expr::add(parts)
}
