//! The Hessian of F_h: as a quadratic form of a probe, as a product with it, and as a matrix with the probe peeled off.

use super::naming::{in_shares, meanings, unused};
use super::{Derivation, Kink, Named, hide, kinks, options_for, reveal};
use crate::calculus::{self, Meaning};
use crate::check::inputs;
use crate::check::recipe::Recipe;
use crate::ir::memo::Memo;
use crate::ir::{Axis, Expr, Leaf, Op, Role, Sign, Space, rational, traverse};
use crate::simplify::cost::Costs;
use crate::simplify::expand::{Extent, expand};
use crate::simplify::proof::{Lemma, Proof};
use crate::simplify::{Objective, Options, Simplified, simplify};
use std::collections::HashMap;

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
    let options = options_for(&derivation.recipe, options).afresh();
    second_derivative(&derivation.recipe, &derivation.energy.term, &derivation.names, &options)
}

/// The Hessian of an energy: its slope along u, differentiated along u once more.
///
/// All of it is made of numbers such as u·k_i, never of vectors, so that what the weights add comes out as what it is,
/// a covariance: of the k_i, or of the slopes x_i of the scores along u where those are too long to multiply out.
pub fn second_derivative(recipe: &Recipe, energy: &Expr, names: &[Named], options: &Options) -> Hessian {
    let probe = Leaf::new(Role::Probe, 0, &unused("u", recipe), &[Axis::T, Axis::E], Sign::Unknown);
    let meanings = meanings(names);
    let along = |e: &Expr| calculus::tangent(e, &inputs::q(), &probe, &meanings);
    let raw = along(&hide(&along(&in_shares(energy, names)), names));
    let tidy = |part: &Expr| {
        let mut part = simplify(part, options);
        part.term = hide(&part.term, names);
        part
    };
    let scores = names.iter().filter(|named| matches!(named.meaning, Meaning::Weights { .. } | Meaning::Share(_)));
    let slopes = scores.filter_map(|named| score_slope(recipe, named, &along(named.depends_on()), &tidy));
    let slopes: Vec<Slope> = slopes.collect();
    let known: Vec<Named> = slopes.iter().map(|slope| slope.named.clone()).collect();
    let costs = Costs::new(Objective::Readable, &[]);
    let form = split(&raw).into_iter().map(|part| {
        let plain = tidy(&part);
        let named = multiplied_out(&with_slopes(&part, &slopes), options);
        match named.filter(|named| costs.of(&reveal(&named.term, &known)) < costs.of(&plain.term)) {
            Some(named) => named,
            None => plain,
        }
    });
    let form: Vec<Simplified> = form.collect();
    let whole = reveal(&Expr::add(form.iter().map(|part| part.term.clone())), &known);
    let gradient = calculus::gradient(&whole, &probe);
    let product = half(&gradient).unwrap_or_else(|| gradient.scale(&rational::ratio(1, 2)));
    let matrix = matrix_of(&product, &probe);
    Hessian { probe, slopes: known, form, product, matrix, kinks: kinks(energy) }
}

/// How a score changes along u: as differentiation gives it, numbers in front left out, and under a name.
struct Slope {
    raw: Expr,
    named: Named,
}

fn score_slope(recipe: &Recipe, named: &Named, raw: &Expr, tidy: &impl Fn(&Expr) -> Simplified) -> Option<Slope> {
    let raw = Expr::mul(raw.factors().into_iter().filter(|f| !f.axes().is_empty()));
    let name = unused(&named.leaf.name.replacen('p', "x", 1), recipe);
    let leaf = Leaf::new(Role::Named, named.leaf.ordinal + 100, &name, &[Axis::T, Axis::N], Sign::Unknown);
    let meaning = Meaning::Formula(tidy(&raw).term);
    raw.has_axis(Axis::N).then_some(Slope { raw, named: Named { leaf, meaning } })
}

/// The term multiplied out, unless that makes it too large.
fn multiplied_out(e: &Expr, options: &Options) -> Option<Simplified> {
    if options.budget.is_spent() {
        return None;
    }
    let (end, steps) = expand(e, &options.rules, Extent::Expand, &options.budget)?;
    let lemma = Lemma { start: e.clone(), steps, end };
    Simplified::proven(Proof::from_lemmas(e, [&lemma]), options)
}

/// The term with slopes under their names, at whatever token.
fn with_slopes(e: &Expr, slopes: &[Slope]) -> Expr {
    let mut at_token: HashMap<(usize, Axis), (Vec<Expr>, Expr)> = HashMap::new();
    traverse::rewrite_bottom_up(e, &mut |x| {
        slopes.iter().enumerate().fold(x, |x, (number, slope)| {
            let tokens: Vec<Axis> = x.axes().iter().filter(|a| a.space == Space::Token).collect();
            tokens.into_iter().fold(x, |x, token| {
                let known = at_token.entry((number, token)).or_insert_with(|| slope.at(token));
                with_slope(x, &known.0, &known.1)
            })
        })
    })
}

impl Slope {
    /// The factors it has at a token, and its name there.
    fn at(&self, token: Axis) -> (Vec<Expr>, Expr) {
        let name = Expr::leaf(self.named.leaf.clone());
        (traverse::rename(&self.raw, Axis::N, token).factors(), traverse::rename(&name, Axis::N, token))
    }
}

fn with_slope(x: Expr, parts: &[Expr], name: &Expr) -> Expr {
    let factors = x.factors();
    if parts.len() > factors.len() || !parts.iter().all(|part| factors.contains(part)) {
        return x;
    }
    Expr::mul(factors.into_iter().filter(|f| !parts.contains(f)).chain([name.clone()]))
}

/// The terms of a sum, those under Σ and behind numbers too: the curvature of the E_i, and what the weights add.
fn split(e: &Expr) -> Vec<Expr> {
    match e.op() {
        Op::Add(terms) => terms.iter().flat_map(split).collect(),
        Op::Sum(axis, body) => split(body).iter().map(|part| Expr::sum(*axis, part)).collect(),
        Op::Mul(factors) => {
            let (numbers, rest): (Vec<Expr>, Vec<Expr>) = factors.iter().cloned().partition(|f| f.axes().is_empty());
            match rest.as_slice() {
                [rest] => {
                    split(rest).iter().map(|part| Expr::mul(numbers.iter().cloned().chain([part.clone()]))).collect()
                }
                _ => vec![e.clone()],
            }
        }
        _ => vec![e.clone()],
    }
}

/// e/2 without a fraction, where every term (and every case) has a 2 to give.
fn half(e: &Expr) -> Option<Expr> {
    half_of(e, &mut Memo::default())
}

fn half_of(e: &Expr, known: &mut Memo<Option<Expr>>) -> Option<Expr> {
    let (c, rest) = e.split_coefficient();
    let halved = &c * rational::ratio(1, 2);
    if e.is_zero() || halved.is_integer() {
        return Some(rest.scale(&halved));
    }
    if let Some(found) = known.get(e) {
        return found.clone();
    }
    let mut half = |x: &Expr| half_of(x, known);
    let found = match e.op() {
        Op::Add(terms) => terms.iter().map(half).collect::<Option<Vec<Expr>>>().map(Expr::add),
        Op::Sum(axis, body) => half(body).map(|body| Expr::sum(*axis, &body)),
        Op::Select(p) => half(&p[2]).zip(half(&p[3])).map(|(x, y)| Expr::select(&p[0], &p[1], &x, &y)),
        Op::Mul(factors) => factors.iter().enumerate().find_map(|(j, f)| Some((j, half(f)?))).map(|(at, factor)| {
            Expr::mul(factors.iter().enumerate().map(|(j, f)| if j == at { factor.clone() } else { f.clone() }))
        }),
        _ => None,
    };
    known.insert(e.clone(), found.clone());
    found
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
