//! The engine that runs every recipe: its plan, interpreted, the heads of the batch side by side.

use super::{Engine, Forward, Gradients, gathered};
use crate::problem::{GRAD_ENERGY, GRAD_OUT, Problem, of_head, symbols};
use energyc::interpret::{Head, HeadDropout, Precision};
use energyc::ir::{Leaf, Role};
use energyc::plan::schedule::{Domain, Pass};
use energyc::plan::{Passes, Valid};
use energyc::primitives::dropout::Dropout;
use rayon::prelude::*;

/// A plan and nothing more.
#[derive(Clone, Debug)]
pub struct Interpreted {
    plan: Valid,
}

/// The outputs and the saved values of a pass: over one head, or over all of them one after the other.
struct Values {
    outputs: Vec<Vec<f32>>,
    saved: Vec<Vec<f32>>,
}

impl Interpreted {
    pub fn new(plan: Valid) -> Interpreted {
        Interpreted { plan }
    }

    /// The passes for the problem's masks.
    fn passes(&self, problem: &Problem) -> &Passes {
        self.plan.passes_for(&problem.visible, problem.dropout.is_some())
    }

    /// A pass over all heads; `saved` is what the forward pass left, if this is a later one.
    fn run(&self, problem: &Problem, pass: &Pass, saved: &[Vec<f32>]) -> Values {
        let heads = problem.size.all_heads();
        let each: Vec<Values> = (0..heads).into_par_iter().map(|i| self.run_one(problem, pass, saved, i)).collect();
        let joined = |part: fn(&Values) -> &[Vec<f32>], count: usize| {
            (0..count).map(|i| each.iter().flat_map(|head| part(head)[i].iter().copied()).collect()).collect()
        };
        Values {
            outputs: joined(|v| &v.outputs, pass.outputs.len()),
            saved: joined(|v| &v.saved, if pass.is_saving { pass.saved.len() } else { 0 }),
        }
    }

    fn run_one(&self, problem: &Problem, pass: &Pass, saved: &[Vec<f32>], head: usize) -> Values {
        let graph = &self.plan.graph;
        let size = of_head(problem.size);
        let length = |id| size.entries(Domain::of(graph.axes(id)));
        let mut saved: Vec<Vec<f32>> = match pass.is_saving {
            true => pass.saved.iter().map(|id| vec![0.0; length(*id)]).collect(),
            false => saved.iter().map(|x| part(x, problem.size.all_heads(), head).to_vec()).collect(),
        };
        let mut outputs: Vec<Vec<f32>> = pass.outputs.iter().map(|o| vec![0.0; size.entries(o.domain)]).collect();
        let sizes = sizes(problem);
        let input = |leaf: &Leaf| match leaf.role {
            Role::Size => &sizes[usize::from(leaf.ordinal)][..],
            Role::Query => problem.of_head("q", head),
            Role::Key => problem.of_head("k", head),
            Role::Value => problem.of_head("v", head),
            Role::Probe if leaf.same_input(&self.plan.cotangents[0]) => problem.of_head(GRAD_OUT, head),
            Role::Probe => problem.of_head(GRAD_ENERGY, head),
            Role::Param => problem.parameter(&leaf.name, head),
            _ => problem.of_head(&leaf.name, head),
        };
        let dropout =
            problem.dropout.map(|(seed, rate)| HeadDropout { dropout: Dropout::new(seed, rate), head: head as u32 });
        f32::run_head(
            graph,
            pass,
            Head { size, visible: problem.visible_to(head), dropout },
            &input,
            &mut saved,
            &mut outputs,
        );
        if pass.is_saving {
            // What is an output as well was written there.
            for (saved, id) in saved.iter_mut().zip(&pass.saved) {
                if let Some(i) = pass.outputs.iter().position(|output| output.id == *id) {
                    saved.clone_from(&outputs[i]);
                }
            }
        }
        Values { outputs, saved }
    }

    fn gradients(&self, problem: &Problem, pass: &Pass, forward: &Forward) -> Gradients {
        let saved = forward.saved::<Vec<Vec<f32>>>();
        gathered(problem, &pass.outputs, self.run(problem, pass, saved).outputs)
    }
}

impl Engine for Interpreted {
    fn forward(&self, problem: &Problem) -> Forward {
        let Values { mut outputs, saved } = self.run(problem, &self.passes(problem).forward, &[]);
        Forward { out: outputs.swap_remove(0), saved: Box::new(saved) }
    }

    fn energy(&self, problem: &Problem) -> Vec<f32> {
        self.run(problem, &self.passes(problem).energy, &[]).outputs.swap_remove(0)
    }

    fn backward(&self, problem: &Problem, forward: &Forward) -> Gradients {
        self.gradients(problem, &self.passes(problem).backward, forward)
    }

    fn constants(&self, problem: &Problem, forward: &Forward) -> Gradients {
        self.gradients(problem, &self.passes(problem).constants, forward)
    }

    fn energy_backward(&self, problem: &Problem, forward: &Forward) -> Gradients {
        self.gradients(problem, &self.passes(problem).energy_backward, forward)
    }

    fn energy_constants(&self, problem: &Problem, forward: &Forward) -> Gradients {
        self.gradients(problem, &self.passes(problem).energy_constants, forward)
    }
}

/// The i-th of equal parts.
fn part(values: &[f32], parts: usize, i: usize) -> &[f32] {
    let length = values.len() / parts;
    &values[i * length..(i + 1) * length]
}

/// The sizes as inputs, in the order they are declared in.
fn sizes(problem: &Problem) -> [[f32; 1]; 4] {
    let known = symbols(problem.size);
    energyc::check::inputs::sizes().map(|leaf| [known.symbol(&leaf.name).unwrap_or(f64::NAN) as f32])
}
