//! The kernels that are compiled in: the shipped recipes, as the build script emitted them.

use super::gradients::over_batch;
use super::{Engine, Forward, Gradients};
use crate::problem::{GRAD_ENERGY, GRAD_OUT, Problem};
use energyc::check::Recipe;
use energyc::kernel::recipe_hash;

/// The emitted modules, one per recipe, exactly as `energyc compile` prints them.
#[allow(unsafe_code)]
pub mod kernels {
    include!(concat!(env!("OUT_DIR"), "/recipes.rs"));
}

/// The compiled kernel of a recipe, if there is one.
pub fn find(recipe: &Recipe) -> Option<Box<dyn Engine>> {
    by_hash(&recipe_hash(recipe))
}

// An engine around every module, and `by_hash`.
include!(concat!(env!("OUT_DIR"), "/engines.rs"));
