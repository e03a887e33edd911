//! Small dense linear algebra for the reference interpreter and for numeric checks.

use nalgebra::{DMatrix, DVector};

/// Pivots below this, relative to the largest entry, count as 0.
const SINGULAR: f64 = 1e-13;

pub fn matrix(n: usize, entry: impl Fn(usize, usize) -> f64) -> DMatrix<f64> {
    DMatrix::from_fn(n, n, entry)
}

pub fn vector(n: usize, entry: impl Fn(usize) -> f64) -> DVector<f64> {
    DVector::from_fn(n, |i, _| entry(i))
}

/// Whether the matrix has no inverse, to rounding.
pub fn is_singular(matrix: &DMatrix<f64>) -> bool {
    let largest = matrix.amax();
    let pivots = matrix.clone().full_piv_lu().u().diagonal();
    largest == 0.0 || !pivots.iter().all(|pivot| pivot.abs() > SINGULAR * largest)
}

/// matrix⁻¹ right; 0 where there is no inverse.
pub fn solve(matrix: &DMatrix<f64>, right: &DVector<f64>) -> DVector<f64> {
    let none = || DVector::zeros(right.len());
    if is_singular(matrix) { none() } else { matrix.clone().full_piv_lu().solve(right).unwrap_or_else(none) }
}

/// The eigenvalues of a symmetric matrix, in no order.
pub fn eigenvalues(matrix: &DMatrix<f64>) -> DVector<f64> {
    let symmetric = (matrix + matrix.transpose()) * 0.5;
    symmetric.symmetric_eigenvalues()
}
