//! Cumulative decay: γ_{t,i} = Π_{i < j ≤ t} d_j, without logarithms and without dividing by small products.

use super::real::Real;
use std::ops::Range;

/// Writes γ for one query at `position` and the tokens of a range; tokens after the query get 0.
pub fn first_row<T: Real>(steps: &[T], position: usize, tokens: Range<usize>, out: &mut [T]) {
    out[..tokens.len()].fill(T::ZERO);
    let mut product = T::ONE;
    for i in (0..=position).rev() {
        if i < tokens.start {
            break;
        }
        if tokens.contains(&i) {
            out[i - tokens.start] = product;
        }
        product = product * steps[i];
    }
}

/// γ of the next query from that of the one before: γ_{t,i} = γ_{t−1,i} d_t, and γ_{t,t} = 1.
pub fn next_row<T: Real>(steps: &[T], position: usize, tokens: Range<usize>, before: &[T], out: &mut [T]) {
    let width = tokens.len();
    let step = steps[position];
    for (y, x) in out[..width].iter_mut().zip(&before[..width]) {
        *y = *x * step;
    }
    if tokens.contains(&position) {
        out[position - tokens.start] = T::ONE;
    }
}

/// ∂d from ρ_t = Σ_i γ ∂γ and κ_i = Σ_t γ ∂γ: d_j stands in every γ_{t,i} with i < j ≤ t, so d_j ∂d_j is the sum of ρ
/// from j on without that of κ from j on. Nothing is before the first token.
pub fn gradient<T: Real>(steps: &[T], offset: usize, rows: &[T], columns: &[T], out: &mut [T]) {
    let mut sum = 0.0;
    if let Some(first) = out.first_mut() {
        *first = T::ZERO;
    }
    for j in (1..steps.len()).rev() {
        if let Some(row) = j.checked_sub(offset).and_then(|t| rows.get(t)) {
            sum += row.to_f64();
        }
        sum -= columns[j].to_f64();
        let step = steps[j].to_f64();
        out[j] = T::of(if step == 0.0 { 0.0 } else { sum / step });
    }
}
