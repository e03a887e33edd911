//! From what the heads hand back to gradients of the inputs: a parameter is shared by the batch.

use super::Gradients;
use crate::problem::Problem;
use energyc::plan::schedule::{Domain, Output};

/// The outputs of a backward pass, head after head, as gradients of the inputs.
pub fn gathered(problem: &Problem, outputs: &[Output], values: Vec<Vec<f32>>) -> Gradients {
    let by_name = outputs.iter().zip(values).map(|(output, values)| match output.domain {
        Domain::Scalar | Domain::Vector => (output.name.clone(), over_batch(&values, problem.size.batch)),
        _ => (output.name.clone(), values),
    });
    by_name.collect()
}

/// `[B,…]` summed into `[…]`.
pub(super) fn over_batch(values: &[f32], batch: usize) -> Vec<f32> {
    let own = values.len() / batch;
    let sum = |at: usize| values.iter().skip(at).step_by(own).map(|x| f64::from(*x)).sum::<f64>() as f32;
    (0..own).map(sum).collect()
}
