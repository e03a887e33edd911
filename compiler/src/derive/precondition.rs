//! Preconditioning: the direction A⁻¹ applied to a head's gradient, A = a·∇²F_h + b·I in the space of q.
//!
//! ```text
//! A = αI − s·B₀      α the constant part of A along the identity, s the number in front that no token changes
//! exact              x  with  A x = r
//! a series           A⁻¹ r ≈ α⁻¹ Σ_{j ≤ k} (s/α)^j b_j,   b_0 = r,   b_j = B₀ b_{j−1}
//! ```
//! r is ∇_q F_h, or its negative when that has fewer minus signs; the direction has the sign of −A⁻¹ ∇_q F_h. A series of
//! order k takes k products with the Hessian and never a matrix. With free values both vector sides of the Hessian
//! become v first (parameterize, then precondition).

use super::Named;
use super::hessian::{COLUMN, Hessian, matrix_of};
use super::naming::vector_leaf;
use super::parameterize::free_values;
use crate::calculus::{self, Meaning};
use crate::check::inputs;
use crate::check::recipe::{Method, Preconditioner, Recipe, Values};
use crate::ir::{Axis, Expr, Leaf, Op, Space, rational, traverse};
use crate::simplify::{Options, Simplified, simplify};
use num_traits::Signed;

/// A and the solution of its system, in names.
#[derive(Clone, Debug)]
pub struct Preconditioned {
    pub hessian: Hessian,
    /// α: the identity part of A, or what the recipe gives for it.
    pub alpha: Expr,
    /// s as it was pulled out, and what takes its place in the rule.
    pub scale: Expr,
    pub scale_used: Expr,
    /// A along e and f.
    pub system: Expr,
    /// r.
    pub right: Simplified,
    /// Whether r is −∇_q F_h.
    pub is_negated: bool,
    /// r, b, b2, … or x, in the order they are computed.
    pub names: Vec<Named>,
}

/// The preconditioned direction before it is simplified, and how it came about.
pub fn precondition(
    recipe: &Recipe,
    how: &Preconditioner,
    gradient: &Expr,
    hessian: Hessian,
    options: &Options,
) -> (Expr, Preconditioned) {
    let probe = hessian.probe.clone();
    let u = Expr::leaf(probe.clone());
    let (gradient, curved) = match recipe.values {
        Values::Tied => (gradient.clone(), hessian.product.clone()),
        Values::Free => (free_values(gradient), free_sides(&hessian.product, &probe)),
    };
    let (identity, rest) = identity_part(&curved, &probe, options);
    let own_alpha = Expr::add([how.curvature.times(&identity), how.shift.clone()]);
    let alpha = match &how.method {
        Method::Taylor { alpha: Some(alpha), .. } => alpha.clone(),
        _ => own_alpha.clone(),
    };
    // B·u = αu − A·u, where what cancels is never written.
    let remainder = Expr::add([alpha.minus(&own_alpha).times(&u), how.curvature.times(&rest).neg()]);
    let (scale, product) = split_scale(&remainder);
    let scale_used = how.scale.clone().unwrap_or_else(|| scale.clone());
    let is_negated = gradient.split_content().0.is_negative();
    let right = simplify(&if is_negated { gradient.neg() } else { gradient }, options);
    let outward = Expr::int(if is_negated { 1 } else { -1 });

    let system_product = Expr::add([alpha.times(&u), scale_used.times(&product).neg()]);
    let system = matrix_of(&system_product, &probe);
    let (solution, names) = match &how.method {
        // A = αI needs no solving.
        Method::Exact if product.is_zero() => (right.term.over(&alpha), vec![]),
        Method::Exact => exact(recipe, &system, &system_product, &probe, &right.term),
        Method::Taylor { order, .. } => series(recipe, *order, &right.term, &product, &probe, &scale_used.over(&alpha)),
    };
    let direction = match &how.method {
        Method::Exact => outward.times(&solution),
        Method::Taylor { .. } => Expr::mul([outward, solution, alpha.pow(&rational::int(-1))]),
    };
    let done = Preconditioned { hessian, alpha, scale, scale_used, system, right, is_negated, names };
    (direction, done)
}

/// x with A x = r.
fn exact(recipe: &Recipe, matrix: &Expr, product: &Expr, probe: &Leaf, right: &Expr) -> (Expr, Vec<Named>) {
    let leaf = vector_leaf("x", 0, recipe);
    let system = Expr::solve(COLUMN, Axis::E, matrix, &traverse::rename(right, Axis::E, COLUMN));
    let meaning = Meaning::Solution { system, product: product.clone(), probe: probe.clone() };
    (Expr::leaf(leaf.clone()), vec![Named { leaf, meaning }])
}

/// Σ_j factor^j b_j with b_0 = r and b_j = B₀ b_{j−1}, each under a name of its own.
fn series(
    recipe: &Recipe,
    order: u32,
    right: &Expr,
    product: &Expr,
    probe: &Leaf,
    factor: &Expr,
) -> (Expr, Vec<Named>) {
    if order == 0 || product.is_zero() {
        return (right.clone(), vec![]);
    }
    let first = vector_leaf("r", 0, recipe);
    let mut names = vec![Named { leaf: first.clone(), meaning: Meaning::Formula(right.clone()) }];
    let mut terms = vec![Expr::leaf(first)];
    for j in 1..=order {
        let previous = names[names.len() - 1].leaf.clone();
        let leaf = vector_leaf("b", j as usize - 1, recipe);
        let value = applied(product, probe, &Expr::leaf(previous));
        names.push(Named { leaf: leaf.clone(), meaning: Meaning::Formula(value) });
        terms.push(Expr::leaf(leaf).times(&factor.pow(&rational::int(i64::from(j)))));
    }
    (Expr::add(terms), names)
}

/// The product with its probe replaced by a vector along e.
pub fn applied(product: &Expr, probe: &Leaf, vector: &Expr) -> Expr {
    traverse::substitute_leaves(product, &mut |leaf| {
        let component = leaf.axes.iter().copied().find(|a| a.space == Space::Head)?;
        leaf.same_input(probe).then(|| traverse::rename(vector, Axis::E, component))
    })
}

/// (c, x) with the product c·u + x and c a number no token changes; c is 0 when there is none.
fn identity_part(product: &Expr, probe: &Leaf, options: &Options) -> (Expr, Expr) {
    let column = Leaf { axes: vec![Axis::T, COLUMN], ..probe.clone() };
    let parts = calculus::coefficients(product, &column);
    let bare = parts.iter().filter(|(axes, _)| !axes.contains(&COLUMN)).map(|(_, c)| c.clone());
    let constant = simplify(&Expr::add(bare), options).term;
    if constant.is_zero() || !constant.axes().is_empty() {
        return (Expr::zero(), product.clone());
    }
    (constant, without_bare(product, probe))
}

/// The product without its bare multiples of u.
fn without_bare(e: &Expr, probe: &Leaf) -> Expr {
    let is_bare = |x: &Expr| *x == Expr::leaf(probe.clone());
    match e.op() {
        _ if is_bare(e) => Expr::zero(),
        Op::Add(terms) => Expr::add(terms.iter().map(|term| without_bare(term, probe))),
        Op::Mul(factors) => Expr::mul(factors.iter().map(|factor| without_bare(factor, probe))),
        Op::Sum(axis, body) if *axis != Axis::E => Expr::sum(*axis, &without_bare(body, probe)),
        _ => e.clone(),
    }
}

/// (s, x) with e = s·x and s made of a positive number and parameters: all that stands in front of every term. Nothing
/// stands in front of 0.
pub fn split_scale(e: &Expr) -> (Expr, Expr) {
    if e.is_zero() {
        return (Expr::one(), Expr::zero());
    }
    let terms = e.terms();
    let is_parameter = |f: &Expr| f.axes().is_empty() && f.as_const().is_none();
    let parameters = |term: &Expr| term.factors().into_iter().filter(is_parameter).collect::<Vec<Expr>>();
    let first = terms.first().map(parameters).unwrap_or_default();
    let common: Vec<Expr> = first.into_iter().filter(|f| terms.iter().all(|t| parameters(t).contains(f))).collect();
    let content = e.split_content().0.abs();
    let bare = |term: &Expr| Expr::mul(term.factors().into_iter().filter(|f| !common.contains(f)));
    let rest = Expr::add(terms.iter().map(bare)).scale(&content.recip());
    (Expr::mul(common).scale(&content), rest)
}

/// An index no sum has.
const ASIDE: Axis = Axis::new(Space::Head, 14);

/// The product with v on both vector sides: along e, and along the axis the probe is contracted on.
fn free_sides(product: &Expr, probe: &Leaf) -> Expr {
    let contracted = traverse::rewrite_bottom_up(product, &mut |x| match x.op() {
        Op::Sum(axis, body) if axis.space == Space::Head => {
            let (beside, apart) = beside_probe(&traverse::rename(body, *axis, ASIDE), probe);
            Expr::sum(*axis, &traverse::rename(&Expr::add([beside, apart]), ASIDE, *axis))
        }
        _ => x,
    });
    // Sums inside may use the index again for themselves: what is meant steps aside first.
    traverse::rename(&freed(&traverse::rename(&contracted, Axis::E, ASIDE)), ASIDE, Axis::E)
}

/// (a, b) with the term a + b: in a all that multiplies the probe where it has stepped aside, and v in the place of k
/// there; in b the rest, as it is.
fn beside_probe(e: &Expr, probe: &Leaf) -> (Expr, Expr) {
    let at = Expr::leaf(Leaf { axes: vec![Axis::T, ASIDE], ..probe.clone() });
    let has_probe = |x: &Expr| traverse::subterms(x).contains(&at);
    match e.op() {
        _ if *e == at => (e.clone(), Expr::zero()),
        _ if !has_probe(e) => (Expr::zero(), e.clone()),
        Op::Add(terms) => {
            let (beside, apart): (Vec<Expr>, Vec<Expr>) = terms.iter().map(|term| beside_probe(term, probe)).unzip();
            (Expr::add(beside), Expr::add(apart))
        }
        Op::Mul(factors) => {
            let (with, others): (Vec<Expr>, Vec<Expr>) = factors.iter().cloned().partition(has_probe);
            let (others, (beside, apart)) = (Expr::mul(others), beside_probe(&Expr::mul(with), probe));
            (beside.times(&freed(&others)), apart.times(&others))
        }
        Op::Sum(axis, body) => {
            let (beside, apart) = beside_probe(body, probe);
            (Expr::sum(*axis, &beside), Expr::sum(*axis, &apart))
        }
        Op::Select(parts) => {
            let [a, b, x, y] = &**parts;
            let ((x, other_x), (y, other_y)) = (beside_probe(x, probe), beside_probe(y, probe));
            (Expr::select(&freed(a), &freed(b), &x, &y), Expr::select(a, b, &other_x, &other_y))
        }
        _ => (freed(e), Expr::zero()),
    }
}

/// The term with v in the place of k where it has stepped aside.
fn freed(e: &Expr) -> Expr {
    let k = inputs::k();
    traverse::substitute_leaves(e, &mut |leaf: &Leaf| {
        let is_meant = leaf.same_input(&k) && leaf.axes.contains(&ASIDE);
        is_meant.then(|| Expr::leaf(Leaf { axes: leaf.axes.clone(), ..inputs::v() }))
    })
}
