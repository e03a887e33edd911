//! The engine that runs every recipe: its plan, interpreted, the heads of the batch side by side.

use super::{Engine, Forward, Gradients, gathered};
use crate::problem::{GRAD_ENERGY, GRAD_OUT, Problem, of_head, symbols};
use energyc::interpret::{Head, HeadDropout, Number};
use energyc::ir::{Leaf, Role};
use energyc::plan::schedule::{Domain, Pass};
use energyc::plan::{Passes, Precision, Valid};
use energyc::primitives::dropout::Dropout;
use rayon::prelude::*;
use std::borrow::Cow;

/// A plan and nothing more.
#[derive(Clone, Debug)]
pub struct Interpreted {
    plan: Valid,
}

/// The outputs and the saved values of a pass: over one head, or over all of them one after the other.
struct Values<T> {
    outputs: Vec<Vec<T>>,
    saved: Vec<Vec<T>>,
}

/// What the forward pass leaves, in its precision.
enum Saved {
    Single(Vec<Vec<f32>>),
    Double(Vec<Vec<f64>>),
}

/// Numbers that can stand for those of a problem.
trait Held: Number {
    fn held(array: &[f32]) -> Cow<'_, [Self]>;
}

impl Held for f32 {
    fn held(array: &[f32]) -> Cow<'_, [f32]> {
        Cow::Borrowed(array)
    }
}

impl Held for f64 {
    fn held(array: &[f32]) -> Cow<'_, [f64]> {
        array.iter().map(|x| f64::from(*x)).collect()
    }
}

impl Interpreted {
    pub fn new(plan: Valid) -> Interpreted {
        Interpreted { plan }
    }

    /// The passes for the problem's masks.
    fn passes(&self, problem: &Problem) -> &Passes {
        self.plan.passes_for(&problem.visible, problem.dropout.is_some())
    }

    /// A pass over all heads; `saved` is what the forward pass left, if this one reads it.
    fn run<T: Held>(&self, problem: &Problem, pass: &Pass, saved: &[Vec<T>]) -> Values<T> {
        let heads = problem.size.all_heads();
        let each: Vec<Values<T>> = (0..heads).into_par_iter().map(|i| self.run_one(problem, pass, saved, i)).collect();
        let joined = |part: fn(&Values<T>) -> &[Vec<T>], count: usize| {
            (0..count).map(|i| each.iter().flat_map(|head| part(head)[i].iter().copied()).collect()).collect()
        };
        Values {
            outputs: joined(|v| &v.outputs, pass.outputs.len()),
            saved: joined(|v| &v.saved, if pass.is_saving { pass.saved.len() } else { 0 }),
        }
    }

    fn run_one<T: Held>(&self, problem: &Problem, pass: &Pass, saved: &[Vec<T>], head: usize) -> Values<T> {
        let graph = &self.plan.graph;
        let size = of_head(problem.size);
        let length = |id| size.entries(Domain::of(graph.axes(id)));
        let zeros = |length: usize| vec![T::ZERO; length];
        let mut saved: Vec<Vec<T>> = match pass.is_saving {
            true => pass.saved.iter().map(|id| zeros(length(*id))).collect(),
            false => saved.iter().map(|x| part(x, problem.size.all_heads(), head).to_vec()).collect(),
        };
        let mut outputs: Vec<Vec<T>> = pass.outputs.iter().map(|o| zeros(size.entries(o.domain))).collect();
        let sizes = sizes(problem);
        let given = |leaf: &Leaf| match leaf.role {
            Role::Size => &sizes[usize::from(leaf.ordinal)][..],
            Role::Query => problem.of_head("q", head),
            Role::Key => problem.of_head("k", head),
            Role::Value => problem.of_head("v", head),
            Role::Probe if leaf.same_input(&self.plan.cotangents[0]) => problem.of_head(GRAD_OUT, head),
            Role::Probe => problem.of_head(GRAD_ENERGY, head),
            Role::Param => problem.parameter(&leaf.name, head),
            _ => problem.of_head(&leaf.name, head),
        };
        let inputs: Vec<(&Leaf, Cow<[T]>)> =
            self.plan.inputs_of(pass).into_iter().map(|leaf| (leaf, T::held(given(leaf)))).collect();
        let input = |leaf: &Leaf| {
            let found = inputs.iter().find(|(known, _)| known.same_input(leaf));
            found.map(|(_, array)| &**array).expect("a pass reads what it is given")
        };
        let dropout =
            problem.dropout.map(|(seed, rate)| HeadDropout { dropout: Dropout::new(seed, rate), head: head as u32 });
        T::run_head(
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

    /// The outputs of a pass that reads nothing of another.
    fn alone(&self, problem: &Problem, pass: &Pass) -> Vec<Vec<f32>> {
        match self.plan.reach_of(pass.kind).precision_at(largest(problem)) {
            Precision::Single => self.run::<f32>(problem, pass, &[]).outputs,
            Precision::Double => narrowed(self.run::<f64>(problem, pass, &[]).outputs),
        }
    }
}

impl Engine for Interpreted {
    fn forward(&self, problem: &Problem) -> Forward {
        let pass = &self.passes(problem).forward;
        let (mut outputs, saved) = match self.plan.single.precision_at(largest(problem)) {
            Precision::Single => {
                let Values { outputs, saved } = self.run(problem, pass, &[]);
                (outputs, Saved::Single(saved))
            }
            Precision::Double => {
                let Values { outputs, saved } = self.run(problem, pass, &[]);
                (narrowed(outputs), Saved::Double(saved))
            }
        };
        Forward { out: outputs.swap_remove(0), saved: Box::new(saved) }
    }

    fn energy(&self, problem: &Problem) -> Vec<f32> {
        self.alone(problem, &self.passes(problem).energy).swap_remove(0)
    }

    fn backward(&self, problem: &Problem, forward: &Forward) -> Gradients {
        let pass = &self.passes(problem).backward;
        let outputs = match forward.saved::<Saved>() {
            Saved::Single(saved) => self.run(problem, pass, saved).outputs,
            Saved::Double(saved) => narrowed(self.run(problem, pass, saved).outputs),
        };
        gathered(problem, &pass.outputs, outputs)
    }

    fn constants(&self, problem: &Problem) -> Gradients {
        let pass = &self.passes(problem).constants;
        gathered(problem, &pass.outputs, self.alone(problem, pass))
    }

    fn energy_backward(&self, problem: &Problem) -> Gradients {
        let pass = &self.passes(problem).energy_backward;
        gathered(problem, &pass.outputs, self.alone(problem, pass))
    }

    fn energy_constants(&self, problem: &Problem) -> Gradients {
        let pass = &self.passes(problem).energy_constants;
        gathered(problem, &pass.outputs, self.alone(problem, pass))
    }
}

/// The largest entry of the vectors; infinite where one is not a number.
fn largest(problem: &Problem) -> f32 {
    let vectors = ["q", "k", "v"].into_iter().filter_map(|name| problem.tensors.get(name)).flatten();
    vectors.fold(0.0, |most, x| {
        if x.abs() <= most {
            most
        } else if x.is_nan() {
            f32::INFINITY
        } else {
            x.abs()
        }
    })
}

/// The i-th of equal parts.
fn part<T>(values: &[T], parts: usize, i: usize) -> &[T] {
    let length = values.len() / parts;
    &values[i * length..(i + 1) * length]
}

fn narrowed(arrays: Vec<Vec<f64>>) -> Vec<Vec<f32>> {
    arrays.iter().map(|array| array.iter().map(|x| *x as f32).collect()).collect()
}

/// The sizes as inputs, in the order they are declared in.
fn sizes(problem: &Problem) -> [[f32; 1]; 4] {
    let known = symbols(problem.size);
    energyc::check::inputs::sizes().map(|leaf| [known.symbol(&leaf.name).unwrap_or(f64::NAN) as f32])
}
