//! Second-order steps in numbers: does the series converge, and how far is it from the exact solution?
//!
//! With A = αI − B the series Σ (B/α)^j converges to αA⁻¹ exactly when the spectral radius of B/α is below 1. Both are
//! looked at on random queries and tokens with unit components, parameters at the values they start with.

use nalgebra::{DMatrix, DVector};

use super::draws;
use crate::check::inputs;
use crate::check::recipe::{Method, Preconditioner};
use crate::derive::{COLUMN, Derivation, Preconditioned, reveal};
use crate::emit::document::Line;
use crate::ir::eval::{Effort, Sizes, effort};
use crate::ir::sample::{Random, sample};
use crate::ir::{Axis, Expr, linear};
use crate::notation::Math;
use crate::verify::{samples, slopes};

/// (N, d_h): one token, few, as many as components, many.
const SHAPES: [(usize, usize); 5] = [(1, 8), (4, 8), (8, 8), (64, 8), (32, 32)];
/// Queries of one shape.
const QUERIES: usize = 16;
/// Numbers that the evaluation of one shape may keep and read.
const MOST_KEPT: usize = 60_000_000;
const MOST_READ: usize = 400_000_000;

/// What is seen of one shape.
struct Seen {
    radii: Vec<f64>,
    errors: Vec<f64>,
    lowest: f64,
    highest: f64,
}

/// The system of a recipe's optimizer, shape by shape.
pub fn lines(derivation: &Derivation, done: &Preconditioned, how: &Preconditioner) -> Vec<Line> {
    let (a, b) = (Math::symbol("A"), Math::symbol("B"));
    let sentence = format!("On {QUERIES} random queries a line, components of size 1, parameters at their start:");
    let mut lines = vec![Line::note(&sentence, &[])];
    let mut all_converge = true;
    let mut any_converges = false;
    let mut left_out = false;
    for (tokens, head) in SHAPES {
        if takes_too_much(derivation, done, tokens, head) {
            left_out = true;
            continue;
        }
        let Some(seen) = look(derivation, done, how, tokens, head) else { continue };
        let range = |values: &[f64]| {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            (least, most)
        };
        let place = format!("N = {tokens}, d_h = {head}");
        let (lowest, highest) = (draws::short(seen.lowest), draws::short(seen.highest));
        match how.method {
            Method::Exact => {
                let sentence = format!("{place}: the eigenvalues of {{}} lie between {lowest} and {highest}.");
                lines.push(Line::note(&sentence, std::slice::from_ref(&a)));
            }
            Method::Taylor { order, .. } => {
                let ((least, most), (_, worst)) = (range(&seen.radii), range(&seen.errors));
                all_converge &= most < 1.0;
                any_converges |= least < 1.0;
                let sentence = format!(
                    "{place}: the spectral radius of {{}} is {} to {}; order {order} is off the exact solution by {} of \
                     its length, at most {}.",
                    draws::short(least),
                    draws::short(most),
                    draws::short(median(&seen.errors)),
                    draws::short(worst)
                );
                let ratio = if done.alpha.is_one() { b.clone() } else { ratio(&done.alpha) };
                lines.push(Line::note(&sentence, &[ratio]));
            }
        }
    }
    if left_out {
        lines.push(Line::note("Other sizes are left out: formulas this long take too much work.", &[]));
    }
    lines.extend(verdict(how, all_converge, any_converges));
    lines
}

fn ratio(alpha: &Expr) -> Math {
    Math::fraction(Math::symbol("B"), crate::notation::Writer::default().write(alpha))
}

fn verdict(how: &Preconditioner, all_converge: bool, any_converges: bool) -> Option<Line> {
    if how.method == Method::Exact {
        return None;
    }
    Some(Line::note(
        match (all_converge, any_converges) {
            (true, _) => {
                "The series converges on all of these draws: more terms bring it nearer to the exact solution."
            }
            (false, true) => {
                "The series converges on some of these draws only: elsewhere more terms lead away from the exact solution."
            }
            (false, false) => {
                "The series converges on none of these draws: more terms lead away from the exact solution."
            }
        },
        &[],
    ))
}

fn sizes_of(tokens: usize, head: usize) -> Sizes {
    Sizes { queries: QUERIES, tokens, head, model: 2 * head, heads: 2 }
}

fn takes_too_much(derivation: &Derivation, done: &Preconditioned, tokens: usize, head: usize) -> bool {
    let terms = [&done.system, &done.right.term].map(|e| reveal(e, &derivation.names));
    let Effort { kept, read } = effort(terms, sizes_of(tokens, head));
    kept > MOST_KEPT || read > MOST_READ
}

fn look(
    derivation: &Derivation,
    done: &Preconditioned,
    how: &Preconditioner,
    tokens: usize,
    head: usize,
) -> Option<Seen> {
    let system = reveal(&done.system, &derivation.names);
    let right = reveal(&done.right.term, &derivation.names);
    let inputs = [inputs::q(), inputs::k(), inputs::v()].map(Expr::leaf);
    let terms: Vec<Expr> = [system.clone(), right.clone(), done.alpha.clone()].into_iter().chain(inputs).collect();
    let sizes = sizes_of(tokens, head);
    let norms: Vec<_> = derivation.recipe.constraints.iter().map(|c| (c.vector.clone(), c.radius.clone())).collect();
    let mut env = sample(&terms, sizes, &norms, &mut Random::new(tokens as u64));
    samples::start(&mut env, &derivation.recipe);
    let alpha = samples::number(&done.alpha, &env);
    let matrices = slopes::value(&system, &[Axis::T, Axis::E, COLUMN], &env).ok()?;
    let vectors = slopes::value(&right, &[Axis::T, Axis::E], &env).ok()?;
    let mut seen = Seen { radii: vec![], errors: vec![], lowest: f64::INFINITY, highest: f64::NEG_INFINITY };
    for (matrix, vector) in matrices.data.chunks(head * head).zip(vectors.data.chunks(head)) {
        let matrix = DMatrix::from_row_slice(head, head, matrix);
        let eigenvalues = linear::eigenvalues(&matrix);
        seen.lowest = seen.lowest.min(eigenvalues.min());
        seen.highest = seen.highest.max(eigenvalues.max());
        if let Method::Taylor { order, .. } = how.method {
            let step = DMatrix::identity(head, head) - &matrix / alpha;
            let right = DVector::from_column_slice(vector);
            seen.radii.push(eigenvalues.iter().map(|x| (1.0 - x / alpha).abs()).fold(0.0, f64::max));
            let terms = std::iter::successors(Some(right.clone()), |b| Some(&step * b)).take(order as usize + 1);
            let series = terms.fold(DVector::zeros(head), |sum, b| sum + b) / alpha;
            let exact = linear::solve(&matrix, &right);
            seen.errors.push((series - &exact).norm() / exact.norm().max(f64::MIN_POSITIVE));
        }
    }
    Some(seen)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
