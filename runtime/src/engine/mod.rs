//! Engines: what can run the passes of a recipe. The interpreter runs any plan; a compiled kernel runs its own recipe.

mod compiled;
mod gradients;
mod interpreted;
mod passes;
pub mod verify;

pub use compiled::{CompiledSession, find, session};
pub use gradients::gathered;
pub use interpreted::Interpreted;
pub use passes::Passes;

use crate::problem::Problem;
use std::any::Any;
use std::collections::BTreeMap;

/// What the forward pass leaves.
#[derive(Debug)]
pub struct Forward {
    /// The direction `[B,H,N,d_h]`: what a head adds, before write-back.
    pub out: Vec<f32>,
    /// What the later passes of the same engine read again.
    saved: Box<dyn Any + Send + Sync>,
}

impl Forward {
    /// What the engine saved.
    ///
    /// # Panics
    ///
    /// If another engine ran the forward pass.
    fn saved<S: 'static>(&self) -> &S {
        self.saved.downcast_ref().expect("the forward pass is of the same engine")
    }
}

/// Gradients by the names of the inputs, with the lengths the inputs have. An input that is not here has none.
pub type Gradients = BTreeMap<String, Vec<f32>>;

/// The passes of one recipe over a whole batch.
pub trait Engine: Sync {
    fn forward(&self, problem: &Problem) -> Forward;

    /// F_h `[B,H,N]`.
    fn energy(&self, problem: &Problem) -> Vec<f32>;

    /// The gradients of q, k, v, of learned parameters and of gates, given `grad_out`.
    fn backward(&self, problem: &Problem, forward: &Forward) -> Gradients;

    /// The gradients of parameters that are not learned, given `grad_out`.
    fn constants(&self, problem: &Problem) -> Gradients;

    /// The gradients of q, k, v, of learned parameters and of gates, given `grad_energy`.
    fn energy_backward(&self, problem: &Problem) -> Gradients;

    /// The gradients of parameters that are not learned, given `grad_energy`.
    fn energy_constants(&self, problem: &Problem) -> Gradients;
}
