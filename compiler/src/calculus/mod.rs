//! Differentiation: one tangent rule per operation, and the transpose of a linear map.
//!
//! `tangent` pushes a small change of one input through a term (forward mode). The result is linear in the change, and
//! `transpose` reads the gradient off it. Everything else is a composition of the two:
//!
//! | wanted | is |
//! |---|---|
//! | gradient of F | transpose of the tangent of F |
//! | Hessian–vector product | tangent of the gradient |
//! | VJP of an update rule | transpose of the tangent of ⟨cotangent, rule⟩ |

mod shares;
mod tangent;
mod transpose;

pub use shares::{Shares, log_of_product, parts_of, whole};
pub use tangent::{Meaning, Tangent, tangent, weights_jacobian, weights_jacobian_naming};
pub use transpose::{coefficients, transpose};

use crate::ir::{Axis, Expr, Leaf, Role, Sign};

/// A fresh direction in which `input` changes; its axes are the input's.
fn direction(input: &Leaf) -> Leaf {
    Leaf { role: Role::Probe, ordinal: u16::MAX, name: "direction".into(), sign: Sign::Unknown, ..input.clone() }
}

/// ∂f/∂input for a scalar f (or one number a query): entry by entry along the input's own axes.
pub fn gradient(f: &Expr, input: &Leaf) -> Expr {
    gradient_naming(f, input, &[])
}

/// The same, with what has a name written by it.
pub fn gradient_naming(f: &Expr, input: &Leaf, names: &[(Leaf, Meaning)]) -> Expr {
    let direction = direction(input);
    transpose(&tangent(f, input, &direction, names), &direction)
}

/// The derivative of the gradient `g` along `probe`: the Hessian times the probe.
pub fn hessian_vector(g: &Expr, input: &Leaf, probe: &Leaf, names: &[(Leaf, Meaning)]) -> Expr {
    tangent(g, input, probe, names)
}

/// What a cotangent of `rule` sends back to `input`: ∂⟨cotangent, rule⟩/∂input, summed over queries.
pub fn vjp(rule: &Expr, cotangent: &Expr, input: &Leaf) -> Expr {
    let inner = cotangent.times(rule);
    let loss = inner.axes().iter().fold(inner.clone(), |x, axis| match axis {
        Axis::T => x,
        axis => Expr::sum(axis, &x),
    });
    gradient(&Expr::sum(Axis::T, &loss), input)
}
