//! From what the heads hand back to gradients of the inputs: a parameter is shared by the batch, and a decay's gradient
//! is made of two sums.

use super::Gradients;
use crate::problem::Problem;
use energyc::plan::decay_sums;
use energyc::plan::schedule::{Domain, Output};
use energyc::primitives::decay;

/// The outputs of a backward pass, head after head, as gradients of the inputs.
pub fn gathered(problem: &Problem, outputs: &[Output], values: Vec<Vec<f32>>) -> Gradients {
    let by_name = outputs.iter().zip(values).map(|(output, values)| match output.domain {
        Domain::Scalar | Domain::Vector => (output.name.clone(), over_batch(&values, problem.size.batch)),
        _ => (output.name.clone(), values),
    });
    let mut gradients: Gradients = by_name.collect();
    for name in problem.tensors.keys() {
        let [rows, columns] = decay_sums(name);
        if let (Some(rows), Some(columns)) = (gradients.remove(&rows), gradients.remove(&columns)) {
            gradients.insert(name.clone(), of_decay(problem, name, &rows, &columns));
        }
    }
    gradients
}

/// `[B,…]` summed into `[…]`.
pub(super) fn over_batch(values: &[f32], batch: usize) -> Vec<f32> {
    let own = values.len() / batch;
    let sum = |at: usize| values.iter().skip(at).step_by(own).map(|x| f64::from(*x)).sum::<f64>() as f32;
    (0..own).map(sum).collect()
}

/// The gradient of per-step factors from the sums by query and by token.
fn of_decay(problem: &Problem, name: &str, rows: &[f32], columns: &[f32]) -> Vec<f32> {
    let size = problem.size;
    let mut gradient = vec![0.0; columns.len()];
    for (head, out) in gradient.chunks_mut(size.tokens).enumerate() {
        let rows = &rows[head * size.queries..(head + 1) * size.queries];
        let columns = &columns[head * size.tokens..(head + 1) * size.tokens];
        decay::gradient(problem.of_head(name, head), size.tokens - size.queries, rows, columns, out);
    }
    gradient
}
