//! The Hessian of F_h: as a product with a probe, and as a matrix with the probe peeled off.

use super::naming::unused;
use super::{Derivation, Kink, hide, kinks, options_for};
use crate::calculus;
use crate::check::inputs;
use crate::ir::{Axis, Expr, Leaf, Op, Role, Sign, Space, traverse};
use crate::simplify::{Options, Simplified, simplify};

/// The second derivative of a head's energy.
#[derive(Clone, Debug)]
pub struct Hessian {
    /// u.
    pub probe: Leaf,
    /// C·u for a probe u.
    pub product: Simplified,
    /// C itself, along the axes e and f, where the probe could be peeled off.
    pub matrix: Option<Expr>,
    /// Where it does not exist; elsewhere it is the Hessian.
    pub kinks: Vec<Kink>,
}

/// The column axis of the matrix.
pub const COLUMN: Axis = Axis::new(Space::Head, 9);

/// The Hessian of the derived energy.
pub fn hessian(derivation: &Derivation, options: &Options) -> Hessian {
    let options = options_for(&derivation.recipe, options);
    let probe = Leaf::new(Role::Probe, 0, &unused("u", &derivation.recipe), &[Axis::T, Axis::E], Sign::Unknown);
    let names: Vec<_> = derivation.names.iter().map(|n| (n.leaf.clone(), n.meaning.clone())).collect();
    let raw = calculus::hessian_vector(&derivation.gradient.term, &inputs::q(), &probe, &names);
    let mut product = simplify(&raw, &options);
    product.term = hide(&product.term, &derivation.names);
    let matrix = peel(&product.term, &probe);
    Hessian { probe, matrix, kinks: kinks(&derivation.energy.term), product }
}

/// C from C·u: u_e becomes the identity, Σ_f y_f u_f becomes y_f.
pub fn peel(e: &Expr, probe: &Leaf) -> Option<Expr> {
    let is_probe = |x: &Expr| x.as_leaf().is_some_and(|l| l.same_input(probe));
    if !traverse::mentions(e, probe) {
        return None;
    }
    match e.op() {
        Op::Leaf(leaf) => leaf.axes.contains(&Axis::E).then(|| Expr::leaf(Leaf::identity(Axis::E, COLUMN))),
        Op::Add(xs) => Some(Expr::add(xs.iter().map(|x| peel(x, probe)).collect::<Option<Vec<_>>>()?)),
        Op::Mul(xs) => {
            let at = xs.iter().position(|x| traverse::mentions(x, probe))?;
            let others = xs.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, x)| x.clone());
            Some(Expr::mul(others.chain([peel(&xs[at], probe)?])))
        }
        Op::Sum(axis, body) if axis.space == Space::Head => {
            let factors = body.factors();
            let at = factors.iter().position(|f| is_probe(f) && f.has_axis(*axis))?;
            let others = Expr::mul(factors.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, x)| x.clone()));
            Some(traverse::rename(&others, *axis, COLUMN))
        }
        Op::Sum(axis, body) => Some(Expr::sum(*axis, &peel(body, probe)?)),
        Op::Select(p) => {
            let branch = |x: &Expr| if x.is_zero() { Some(x.clone()) } else { peel(x, probe) };
            Some(Expr::select(&p[0], &p[1], &branch(&p[2])?, &branch(&p[3])?))
        }
        _ => None,
    }
}
