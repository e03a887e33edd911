//! The recipes whose kernels are compiled in.

use crate::engine::Engine;
use energyc::check::Recipe;

/// The compiled kernel of a recipe, if there is one.
pub fn find(_recipe: &Recipe) -> Option<Box<dyn Engine>> {
    None
}
