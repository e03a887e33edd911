//! Products with weight matrices, on all threads. How the work is cut depends on the shapes and the number of threads
//! alone, so the same run gives the same numbers.

use energyc::primitives::product::Strides;

/// A matrix inside of a slice.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    values: &'a [f32],
    strides: Strides,
}

/// Rows one after another.
pub fn rows(values: &[f32], width: usize) -> Matrix<'_> {
    Matrix { values, strides: Strides::rows(width) }
}

/// The transpose of rows one after another.
pub fn transposed(values: &[f32], width: usize) -> Matrix<'_> {
    Matrix { values, strides: Strides::columns(width) }
}

/// What happens to the numbers that are there already.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Into {
    Replace,
    Add,
}

/// out = scale·a b, or out += scale·a b, for an m × k and a k × n matrix.
pub fn multiply([m, n, k]: [usize; 3], out: &mut [f32], into: Into, scale: f32, a: Matrix, b: Matrix) {
    if m == 0 || n == 0 {
        return;
    }
    let reach = |s: Strides, rows: usize, columns: usize| (rows - 1) * s.row + (columns - 1) * s.column;
    assert!(m * n <= out.len(), "the product fits into its slice");
    assert!(k == 0 || reach(a.strides, m, k) < a.values.len(), "the left factor lies in its slice");
    assert!(k == 0 || reach(b.strides, k, n) < b.values.len(), "the right factor lies in its slice");
    let is_small = m * n * k < 1 << 16;
    let threads = if is_small { gemm::Parallelism::None } else { gemm::Parallelism::Rayon(0) };
    // SAFETY: every index the product touches lies inside of the slices, as was just asserted, and `out` is borrowed
    // mutably, so nothing overlaps it.
    #[allow(unsafe_code)]
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            into == Into::Add,
            a.values.as_ptr(),
            a.strides.column as isize,
            a.strides.row as isize,
            b.values.as_ptr(),
            b.strides.column as isize,
            b.strides.row as isize,
            1.0f32,
            scale,
            false,
            false,
            false,
            threads,
        );
    }
}

/// W x for every row of x: `[rows, in]` and `[out, in]` give `[rows, out]`.
pub fn project(x: &[f32], weight: &[f32], [rows_of_x, inner, outer]: [usize; 3], out: &mut [f32]) {
    multiply([rows_of_x, outer, inner], out, Into::Replace, 1.0, rows(x, inner), transposed(weight, inner));
}

/// The gradients of [`project`]: ∂W += ∂yᵀ x and ∂x = ∂y W, or ∂x += ∂y W.
pub fn project_backward(
    x: &[f32],
    weight: &[f32],
    [rows_of_x, inner, outer]: [usize; 3],
    given: &[f32],
    of_weight: &mut [f32],
    (of_x, into): (&mut [f32], Into),
) {
    multiply([outer, inner, rows_of_x], of_weight, Into::Add, 1.0, transposed(given, outer), rows(x, inner));
    multiply([rows_of_x, inner, outer], of_x, into, 1.0, rows(given, outer), rows(weight, inner));
}
