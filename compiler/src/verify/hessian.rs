//! Second derivatives: the Hessian–vector product against the slope of the gradient, and the matrix against it.

use super::parts::{Parts, stable};
use super::report::{Line, Outcome};
use super::samples::Source;
use super::slopes;
use super::trials::{gap, run};
use crate::calculus;
use crate::check::inputs;
use crate::derive::kinks;
use crate::ir::eval::{Env, evaluate};
use crate::ir::tensor::Tensor;
use crate::ir::{Axis, Expr, Leaf, Role, Space, traverse};

const TOLERANCE: f64 = 1e-5;
const MATRIX_TOLERANCE: f64 = 1e-8;

/// C·u against the slope, along u, of the gradient nobody has simplified.
pub fn product(parts: &Parts) -> Line {
    let (energy, probe) = (parts.energy(), &parts.hessian.probe);
    let gradient = calculus::gradient(&stable(energy), &inputs::q());
    let derived = parts.reveal(&parts.hessian.product.term);
    let terms = vec![derived.clone(), gradient.clone(), q(), Expr::leaf(probe.clone())];
    let places = kinks(energy);
    let almost = if places.is_empty() { "" } else { ", almost everywhere (away from kinks)" };
    let tally = run(&Source::new(terms, parts.norms()).avoiding(places), |sample| {
        let Some(expected) = slopes::directional(&gradient, &inputs::q(), probe, &sample.env)? else {
            return Ok(None);
        };
        Ok(Some(gap("C·u at ", &evaluate(&derived, &sample.env)?, &expected, sample.env.sizes)))
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
    let Some(matrix) = &parts.hessian.matrix else {
        let reason = "the product has no matrix of its own form".to_string();
        return Line { name, detail: "C applied to u".into(), outcome: Outcome::NotApplicable { reason } };
    };
    let product = parts.reveal(&parts.hessian.product.term);
    let applied = parts.reveal(&apply(matrix, &parts.hessian.probe));
    let terms = vec![product.clone(), applied.clone(), parts.energy().clone()];
    let source = Source::new(terms, parts.norms()).avoiding(kinks(parts.energy()));
    let tally = run(&source, |sample| {
        let env = with_identity(&sample.env, matrix);
        let (got, expected) = (evaluate(&applied, &env)?, evaluate(&product, &env)?);
        Ok(Some(gap("Σ_f C[e,f]·u[f] at ", &got, &expected, env.sizes)))
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

/// The inputs with the identity matrix in its place; a Hessian has no other matrix.
fn with_identity(env: &Env, matrix: &Expr) -> Env {
    let mut env = env.clone();
    for leaf in traverse::inputs(matrix).iter().filter(|l| l.role == Role::Matrix) {
        let sizes = env.sizes;
        let value = Tensor::build(&leaf.axes, |a| sizes.length(a), |at| f64::from(u8::from(at[0] == at[1])));
        env.values.insert(leaf.name.to_string(), value);
    }
    env
}
