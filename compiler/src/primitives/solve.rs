//! Small dense linear systems inside a kernel: LU with partial pivoting that reports a singular matrix instead of
//! dividing by a rounding error.

use super::real::Real;

/// The lanes of a sum or a maximum over a row: independent parts, so that it vectorizes.
const LANES: usize = 8;

/// Solves `matrix` x = `right` in place: the row-major n×n `matrix` is destroyed and x replaces `right`.
///
/// The system counts as singular when a pivot is at most 8 n EPSILON times the largest absolute entry of the matrix,
/// and also when that entry is 0 or an entry is not finite. Then `right` is set to 0 and the result is false.
///
/// Panics if `matrix` has fewer than n² or `right` fewer than n entries.
#[inline(always)]
pub fn solve<T: Real>(matrix: &mut [T], right: &mut [T], n: usize) -> bool {
    let matrix = &mut matrix[..n * n];
    let right = &mut right[..n];
    let solved = eliminate(matrix, right, n);
    if solved {
        substitute(matrix, right, n);
    } else {
        right.fill(T::ZERO);
    }
    solved
}

/// Forward elimination to an upper triangle with the pivots on the diagonal; false if the matrix is singular.
#[inline(always)]
fn eliminate<T: Real>(matrix: &mut [T], right: &mut [T], n: usize) -> bool {
    let largest = largest_absolute(matrix);
    let least_pivot = T::of(8.0 * n as f64) * T::EPSILON * largest;
    for k in 0..n {
        let p = pivot_row(matrix, n, k);
        let pivot_size = size(matrix[p * n + k]);
        // An infinite bound or an infinite pivot refuses a matrix that is not finite.
        if pivot_size <= least_pivot || pivot_size == T::INFINITY {
            return false;
        }
        let (above, below) = matrix.split_at_mut((k + 1) * n);
        let pivot = &mut above[k * n + k..];
        if p != k {
            let start = (p - k - 1) * n + k;
            pivot.swap_with_slice(&mut below[start..start + n - k]);
            right.swap(k, p);
        }
        let inverse = T::ONE / pivot[0];
        let head = right[k];
        for (row, value) in below.chunks_exact_mut(n).zip(&mut right[k + 1..]) {
            // row_i -= (a_ik / a_kk) row_k
            let factor = -(row[k] * inverse);
            add_row(&mut row[k + 1..], &pivot[1..], factor);
            *value = factor.fused(head, *value);
        }
    }
    true
}

/// Back substitution: x_i = (b_i - sum_{j > i} u_ij x_j) / u_ii.
#[inline(always)]
fn substitute<T: Real>(matrix: &[T], right: &mut [T], n: usize) {
    for i in (0..n).rev() {
        let row = &matrix[i * n..(i + 1) * n];
        let known = dot(&row[i + 1..], &right[i + 1..]);
        right[i] = (right[i] - known) / row[i];
    }
}

/// The largest absolute entry, or infinity if an entry is not finite.
#[inline(always)]
fn largest_absolute<T: Real>(matrix: &[T]) -> T {
    let blocks = matrix.chunks_exact(LANES);
    let tail = blocks.remainder().iter().fold(T::ZERO, |largest, &x| size(x).larger(largest));
    let mut lanes = [T::ZERO; LANES];
    for block in blocks {
        for i in 0..LANES {
            lanes[i] = size(block[i]).larger(lanes[i]);
        }
    }
    lanes.iter().fold(tail, |largest, &x| x.larger(largest))
}

/// |x|, or infinity if x is not finite.
#[inline(always)]
fn size<T: Real>(x: T) -> T {
    x.absolute().smaller(T::INFINITY)
}

/// The row at or below k with the largest absolute entry in column k.
#[inline(always)]
fn pivot_row<T: Real>(matrix: &[T], n: usize, k: usize) -> usize {
    (k + 1..n).fold(k, |best, i| if matrix[i * n + k].absolute() > matrix[best * n + k].absolute() { i } else { best })
}

/// row += factor * pivot, entry by entry.
#[inline(always)]
fn add_row<T: Real>(row: &mut [T], pivot: &[T], factor: T) {
    for (x, &p) in row.iter_mut().zip(pivot) {
        *x = factor.fused(p, *x);
    }
}

/// sum_j a_j b_j.
#[inline(always)]
fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    let (a_lanes, b_lanes) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail = a_lanes.remainder().iter().zip(b_lanes.remainder());
    let mut sum = tail.fold(T::ZERO, |sum, (&x, &y)| x.fused(y, sum));
    let mut sums = [T::ZERO; LANES];
    for (x, y) in a_lanes.zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] = x[lane].fused(y[lane], sums[lane]);
        }
    }
    for lane in sums {
        sum += lane;
    }
    sum
}
