//! The engine of a recipe whose kernel is compiled in. What training never asks for, the gradients of constants, is left
//! to the interpreter.

use super::gradients::over_batch;
use super::{Engine, Forward, Gradients, Interpreted};
use crate::problem::Problem;
use energy_kernels::{Call, Gradient, Kernel, Session, Size};
use energyc::check::Recipe;
use energyc::kernel::recipe_hash;
use energyc::plan::Valid;

/// An emitted kernel, and the plan it was emitted from.
struct Compiled {
    kernel: &'static dyn Kernel,
    plan: Interpreted,
}

/// The compiled kernel of a recipe, if there is one.
pub fn find(recipe: &Recipe, plan: &Valid) -> Option<Box<dyn Engine>> {
    let kernel = energy_kernels::find(&recipe_hash(recipe))?;
    Some(Box::new(Compiled { kernel, plan: Interpreted::new(plan.clone()) }))
}

/// The passes of a compiled kernel, with buffers that live from step to step.
pub struct CompiledSession(Box<dyn Session>);

/// A session of the compiled kernel of a recipe, if there is one.
pub fn session(recipe: &Recipe) -> Option<CompiledSession> {
    energy_kernels::find(&recipe_hash(recipe)).map(|kernel| CompiledSession(kernel.session()))
}

impl CompiledSession {
    /// One forward and backward pass.
    pub fn step(&mut self, problem: &Problem) {
        with_call(problem, |call| {
            std::hint::black_box(self.0.forward(call));
            std::hint::black_box(self.0.backward(call));
        });
    }
}

/// Calls a kernel with a problem.
fn with_call<R>(problem: &Problem, run: impl FnOnce(&Call) -> R) -> R {
    let crate::problem::Size { batch, heads, queries, tokens, head } = problem.size;
    let visible: Vec<_> = problem.visible.iter().map(|v| v.intervals()).collect();
    let size = Size { batch, heads, queries, tokens, head };
    run(&Call { size, visible: &visible, tensor: &|name| problem.tensor(name), dropout: problem.dropout })
}

/// The gradients a kernel hands back, those of parameters summed over the batch.
pub(super) fn by_name(batch: usize, gradients: Vec<Gradient>) -> Gradients {
    let values = |g: Gradient| if g.is_shared { over_batch(&g.values, batch) } else { g.values };
    gradients.into_iter().map(|g| (g.name.to_string(), values(g))).collect()
}

impl Engine for Compiled {
    fn forward(&self, problem: &Problem) -> Forward {
        let (out, saved) = with_call(problem, |call| self.kernel.forward(call));
        Forward { out, saved }
    }

    fn energy(&self, problem: &Problem) -> Vec<f32> {
        with_call(problem, |call| self.kernel.energy(call))
    }

    fn backward(&self, problem: &Problem, forward: &Forward) -> Gradients {
        by_name(problem.size.batch, with_call(problem, |call| self.kernel.backward(call, &forward.saved)))
    }

    fn constants(&self, problem: &Problem) -> Gradients {
        self.plan.constants(problem)
    }

    fn energy_backward(&self, problem: &Problem) -> Gradients {
        by_name(problem.size.batch, with_call(problem, |call| self.kernel.energy_backward(call)))
    }

    fn energy_constants(&self, problem: &Problem) -> Gradients {
        self.plan.energy_constants(problem)
    }
}
