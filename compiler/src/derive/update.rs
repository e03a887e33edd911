//! How the optimizer turns directions into a new token, and what the free matrices absorb.

use crate::check::inputs;
use crate::check::recipe::{Recipe, Values};
use crate::ir::{Expr, traverse};

/// What brings a head's direction back to the token's space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WriteBack {
    /// W1ᵀ: a true descent step on F.
    Transposed,
    /// A free W_O.
    Free,
}

/// The optimizer's step with the gradient opened.
#[derive(Clone, Debug)]
pub struct UpdateRule {
    pub write_back: WriteBack,
    /// η when the whole step is z − η·∇F(z); otherwise the program stands as it is.
    pub step_size: Option<Expr>,
}

/// Reads the step off the optimizer's program.
pub fn update_rule(recipe: &Recipe) -> UpdateRule {
    let write_back = match recipe.values {
        Values::Tied => WriteBack::Transposed,
        Values::Free => WriteBack::Free,
    };
    UpdateRule { write_back, step_size: plain_step(recipe) }
}

fn plain_step(recipe: &Recipe) -> Option<Expr> {
    let program = &recipe.program;
    let z = Expr::leaf(inputs::z());
    let gradient = Expr::leaf(inputs::gradient(0));
    if !program.states.is_empty() || program.gradients != [z.clone()] {
        return None;
    }
    let moved = program.z.minus(&z).neg();
    let factors = moved.factors();
    let at = factors.iter().position(|f| *f == gradient)?;
    let size = Expr::mul(factors.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, f)| f.clone()));
    (!traverse::mentions(&size, &inputs::z()) && size.axes().is_empty()).then_some(size)
}
