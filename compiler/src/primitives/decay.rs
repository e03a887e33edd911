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

/// Adds what one query at `position` gives to ∂d, from its ∂γ over the tokens of a range.
///
/// With b_j = Σ_{i<j} γ_{j−1,i} ∂γ_{t,i}, which goes from step to step as γ does, ∂d_j = γ_{t,j} b_j: nothing is
/// subtracted and nothing divided by.
pub fn add_gradient<T: Real>(
    steps: &[T],
    position: usize,
    tokens: Range<usize>,
    slopes: &[T],
    sums: &mut Vec<T>,
    out: &mut [T],
) {
    if tokens.start <= position {
        let own = tokens.start..position + 1;
        add_share(&steps[own.clone()], slopes, T::ZERO, sums, &mut out[own]);
    }
}

/// The same for the steps up to the query, the last of which is its own; `before` is b of the first. The slope of the
/// last token does not count, and tokens without one have 0.
pub fn add_share<T: Real>(steps: &[T], slopes: &[T], before: T, sums: &mut Vec<T>, out: &mut [T]) {
    let mut sum = before;
    sums.clear();
    for (j, step) in steps.iter().enumerate() {
        sums.push(sum);
        sum = sum * *step + slopes.get(j).copied().unwrap_or(T::ZERO);
    }
    let mut product = T::ONE;
    for ((own, sum), step) in out.iter_mut().zip(&*sums).zip(steps).rev() {
        *own += product * *sum;
        product = product * *step;
    }
}
