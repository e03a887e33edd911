//! How the optimizer turns directions into a new token.

use crate::check::inputs;
use crate::check::recipe::Recipe;
use crate::ir::{Expr, traverse};

/// The optimizer's step with the gradient opened.
#[derive(Clone, Debug)]
pub struct UpdateRule {
    /// η when the whole step is z − η·∇F(z), preconditioned or not; otherwise the program stands as it is.
    pub step_size: Option<Expr>,
}

/// Reads the step off the optimizer's program.
pub fn update_rule(recipe: &Recipe) -> UpdateRule {
    UpdateRule { step_size: plain_step(recipe) }
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
