//! The passes of a recipe for a network: a kernel if one is compiled in, the interpreter if not, with buffers that live
//! from step to step.

use super::compiled::by_name;
use super::{Engine, Forward, Gradients, Interpreted};
use crate::problem::{GRAD_ENERGY, GRAD_OUT, Problem};
use crate::refusal::Refusal;
use energy_kernels::{Call, Kernel, Session};
use energyc::check::Recipe;
use energyc::kernel::{Interface, interface, recipe_hash};
use energyc::primitives::visible::Visible;
use energyc::simplify::Options;
use energyc::{derive, pipeline, plan};
use std::sync::Arc;

/// The passes of one recipe, to be opened for every layer.
#[derive(Clone)]
pub struct Passes {
    kernel: Option<&'static dyn Kernel>,
    plan: Arc<Interpreted>,
    inputs: Vec<String>,
}

impl Passes {
    /// A compiled kernel if there is one.
    pub fn new(recipe: &Recipe) -> Result<Passes, Refusal> {
        let options = Options::default();
        let kernel = energy_kernels::find(&recipe_hash(recipe));
        let derivation = derive::derive(recipe, &options);
        // A kernel that is compiled in was checked when it was built.
        let plan = match kernel {
            Some(_) => plan::plan(&derivation, &options),
            None => pipeline::trusted_plan(&derivation, &options),
        };
        let plan = plan.map_err(|why| Refusal::NoPlan(recipe.name.clone(), why))?;
        let Interface { inputs, .. } = interface(&plan);
        if plan.tiles.backward.outputs.is_empty() {
            let why = "its direction depends on nothing that is learned";
            return Err(Refusal::Wrong(format!("`{}` cannot be trained: {why}", recipe.name)));
        }
        Ok(Passes {
            kernel,
            plan: Arc::new(Interpreted::new(plan)),
            inputs: inputs.into_iter().map(|(_, input)| input).collect(),
        })
    }

    /// Whether a kernel is compiled in.
    pub fn is_compiled(&self) -> bool {
        self.kernel.is_some()
    }

    /// The names of the inputs.
    pub fn inputs(&self) -> &[String] {
        &self.inputs
    }

    pub fn reads(&self, input: &str) -> bool {
        self.inputs.iter().any(|name| name == input)
    }

    /// Buffers for one layer.
    pub fn session(&self) -> Box<dyn Session> {
        match self.kernel {
            Some(kernel) => kernel.session(),
            None => Box::new(Interpreting { passes: self.clone(), ran: None, gradients: Gradients::new() }),
        }
    }

    /// F_h `[B,H,N]`.
    pub fn energy(&self, call: &Call) -> Vec<f32> {
        match self.kernel {
            Some(kernel) => kernel.energy(call),
            None => self.plan.energy(&self.problem(call, &[])),
        }
    }

    /// The gradients of q, k, v, of learned parameters and of gates, given `grad_energy`.
    pub fn energy_backward(&self, call: &Call) -> Gradients {
        match self.kernel {
            Some(kernel) => by_name(call.size.batch, kernel.energy_backward(call)),
            None => self.plan.energy_backward(&self.problem(call, &[GRAD_ENERGY])),
        }
    }

    /// A call with copies of its inputs.
    fn problem(&self, call: &Call, more: &[&str]) -> Problem {
        let energy_kernels::Size { batch, heads, queries, tokens, head } = call.size;
        let named = self.inputs.iter().map(String::as_str).chain(more.iter().copied());
        Problem {
            size: crate::problem::Size { batch, heads, queries, tokens, head },
            visible: call.visible.iter().map(|seen| Visible::new(seen.to_vec(), tokens)).collect(),
            tensors: named.map(|name| (name.to_string(), (call.tensor)(name).to_vec())).collect(),
            dropout: call.dropout,
        }
    }
}

/// A session without a kernel.
struct Interpreting {
    passes: Passes,
    ran: Option<Forward>,
    gradients: Gradients,
}

impl Session for Interpreting {
    fn forward(&mut self, call: &Call) -> &[f32] {
        let forward = self.passes.plan.forward(&self.passes.problem(call, &[]));
        &self.ran.insert(forward).out
    }

    fn backward<'a>(&'a mut self, call: &Call) -> Vec<(&'a str, &'a [f32], bool)> {
        let problem = self.passes.problem(call, &[GRAD_OUT]);
        let forward = self.ran.take().unwrap_or_else(|| self.passes.plan.forward(&problem));
        self.gradients = self.passes.plan.backward(&problem, &forward);
        self.ran = Some(forward);
        self.gradients.iter().map(|(name, values)| (name.as_str(), &values[..], false)).collect()
    }
}
