//! From what the heads hand back to gradients of the inputs: a parameter is shared by the batch.

use super::Gradients;
use crate::problem::Problem;
use energyc::plan::schedule::{Domain, Output};

/// The outputs of a backward pass, head after head, as gradients of the inputs.
pub fn gathered(problem: &Problem, outputs: &[Output], values: Vec<Vec<f32>>) -> Gradients {
    let by_name = outputs.iter().zip(values).map(|(output, values)| match output.domain {
        Domain::Scalar => (output.name.clone(), over_batch(&values, problem.size.heads)),
        _ => (output.name.clone(), values),
    });
    by_name.collect()
}

/// `[B,H]` summed into `[H]`.
pub(super) fn over_batch(values: &[f32], heads: usize) -> Vec<f32> {
    let sum = |head: usize| values.iter().skip(head).step_by(heads).map(|x| f64::from(*x)).sum::<f64>() as f32;
    (0..heads).map(sum).collect()
}
