//! Second derivatives: the Hessian–vector product against the slope of the gradient, and the matrix against it.

use super::parts::{Parts, stable};
use super::report::Line;
use super::samples::Source;
use super::slopes;
use super::steady::{beyond_rounding, is_finite};
use super::trials::{gap, run};
use crate::calculus;
use crate::check::inputs;
use crate::ir::eval::{Env, evaluate, evaluate_all};
use crate::ir::{Axis, Expr, Leaf, Space, traverse};

const TOLERANCE: f64 = 1e-5;
const MATRIX_TOLERANCE: f64 = 1e-8;

/// C·u against the slope, along u, of the gradient nobody has simplified.
pub fn product(parts: &Parts) -> Line {
    let (energy, probe) = (parts.energy(), &parts.hessian.probe);
    let gradient = calculus::gradient(&stable(energy), &inputs::q());
    let derived = parts.reveal(&parts.hessian.product);
    let terms = vec![derived.clone(), gradient.clone(), q(), Expr::leaf(probe.clone())];
    let source = Source::new(terms, parts.norms()).of(energy);
    let almost = if source.kinks.is_empty() { "" } else { ", almost everywhere (away from kinks)" };
    let tally = run(&source, |sample| {
        let Some(expected) = slopes::directional(&gradient, &inputs::q(), probe, &sample.env)? else {
            return Ok(None);
        };
        let gap = gap("C·u at ", &evaluate(&derived, &sample.env)?, &expected, sample.env.sizes);
        beyond_rounding(gap, TOLERANCE, &sample.env, |env| Ok(vec![evaluate(&derived, env)?]))
    });
    let detail = format!(
        "C·u against finite differences of the unsimplified gradient along u, of {}{almost}; {} samples",
        parts.energy_name(),
        tally.samples
    );
    Line { name: "hessian", detail, outcome: tally.outcome(TOLERANCE) }
}

/// Σ_f C[e,f] u[f] against C·u.
pub fn matrix(parts: &Parts) -> Line {
    let name = "hessian matrix";
    let matrix = &parts.hessian.matrix;
    let product = parts.reveal(&parts.hessian.product);
    let applied = parts.reveal(&apply(matrix, &parts.hessian.probe));
    let terms = vec![product.clone(), applied.clone(), parts.energy().clone()];
    let source = Source::new(terms, parts.norms()).of(parts.energy());
    let tally = run(&source, |sample| {
        let values = |env: &Env| evaluate_all(&[applied.clone(), product.clone()], env);
        let both = values(&sample.env)?;
        if !is_finite(&both[1]) {
            return Ok(None);
        }
        let gap = gap("Σ_f C[e,f]·u[f] at ", &both[0], &both[1], sample.env.sizes);
        beyond_rounding(gap, MATRIX_TOLERANCE, &sample.env, values)
    });
    let detail = format!("C as a matrix, applied to u, against C·u; {} samples", tally.samples);
    Line { name, detail, outcome: tally.outcome(MATRIX_TOLERANCE) }
}

fn q() -> Expr {
    Expr::leaf(inputs::q())
}

/// Σ_f C[e,f] u[f], f the component axis of the matrix that is not the row's.
fn apply(matrix: &Expr, probe: &Leaf) -> Expr {
    let column = matrix.axes().iter().find(|a| a.space == Space::Head && *a != Axis::E);
    let column = column.unwrap_or(Axis::new(Space::Head, 1));
    let probe = traverse::rename(&Expr::leaf(probe.clone()), Axis::E, column);
    Expr::sum(column, &matrix.times(&probe))
}
