//! Matrix products over slices: the one door to the matrix multiplication library.

use super::real::Real;

/// A matrix inside of a slice: entry (i, j) lies at `i * row + j * column`.
#[derive(Clone, Copy, Debug)]
pub struct Strides {
    pub row: usize,
    pub column: usize,
}

impl Strides {
    /// Rows one after another, `pitch` apart.
    pub fn rows(pitch: usize) -> Strides {
        Strides { row: pitch, column: 1 }
    }

    /// The transpose of rows that lie `pitch` apart.
    pub fn columns(pitch: usize) -> Strides {
        Strides { row: 1, column: pitch }
    }

    fn reach(self, rows: usize, columns: usize) -> usize {
        (rows - 1) * self.row + (columns - 1) * self.column
    }
}

/// out = a b, or out += a b, for an m × k and a k × n matrix.
pub fn multiply<T: Real>(
    [m, n, k]: [usize; 3],
    (out, out_strides): (&mut [T], Strides),
    accumulate: bool,
    (a, a_strides): (&[T], Strides),
    (b, b_strides): (&[T], Strides),
) {
    if m == 0 || n == 0 {
        return;
    }
    assert!(out_strides.reach(m, n) < out.len(), "the product fits into its slice");
    assert!(k == 0 || a_strides.reach(m, k) < a.len(), "the left factor lies in its slice");
    assert!(k == 0 || b_strides.reach(k, n) < b.len(), "the right factor lies in its slice");
    let stride = |s: usize| s as isize;
    // SAFETY: every index the product touches lies inside of the slices, as was just asserted, and `out` is borrowed
    // mutably, so nothing overlaps it.
    #[allow(unsafe_code)]
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            stride(out_strides.column),
            stride(out_strides.row),
            accumulate,
            a.as_ptr(),
            stride(a_strides.column),
            stride(a_strides.row),
            b.as_ptr(),
            stride(b_strides.column),
            stride(b_strides.row),
            T::ONE,
            T::ONE,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// Pairs closer than this, relative to |x|² + |y|², are computed again: a difference loses a factor 1/CLOSE of its
/// digits, where rounded x and y lose its root, and the two must not be far apart.
const CLOSE: f64 = 0.125;

/// Vectors as rows, and the same vectors as the columns of a matrix.
pub type Vectors<'a, T> = (&'a [T], (&'a [T], Strides));

/// |x − y|² of every row of x with every row of y: |x|² + |y|² − 2 x·y as a matrix product, and entry by entry where
/// that has cancelled.
#[inline(always)]
pub fn distances<T: Real>(
    [m, n, width]: [usize; 3],
    x: &[T],
    (y, columns): Vectors<T>,
    (out, pitch): (&mut [T], usize),
) {
    multiply([m, n, width], (out, Strides::rows(pitch)), false, (x, Strides::rows(width)), columns);
    // A loop and no `collect`, which would not be compiled for registers as wide as the caller's.
    let mut of_y = vec![T::ZERO; n];
    for (of_y, y) in of_y.iter_mut().zip(y.chunks_exact(width)) {
        *of_y = square(y);
    }
    let (two, close) = (T::of(2.0), T::of(CLOSE));
    for (i, x) in x.chunks(width).take(m).enumerate() {
        let of_x = square(x);
        let row = &mut out[i * pitch..i * pitch + n];
        let mut are_close = false;
        for (d, of_y) in row.iter_mut().zip(&of_y) {
            let sum = of_x + *of_y;
            *d = sum - two * *d;
            are_close |= *d <= close * sum;
        }
        if are_close {
            for (j, d) in row.iter_mut().enumerate() {
                if *d <= close * (of_x + of_y[j]) {
                    *d = distance(x, &y[j * width..(j + 1) * width]);
                }
            }
        }
    }
}

/// |v|², in as many sums as a register holds numbers.
#[inline(always)]
fn square<T: Real>(v: &[T]) -> T {
    let (chunks, rest) = v.as_chunks::<16>();
    let mut sums = [T::ZERO; 16];
    for chunk in chunks {
        for i in 0..16 {
            sums[i] += chunk[i] * chunk[i];
        }
    }
    let sum = rest.iter().fold(T::ZERO, |sum, x| sum + *x * *x);
    sums.iter().fold(sum, |sum, x| sum + *x)
}

/// |x − y|², in as many sums.
#[inline(always)]
fn distance<T: Real>(x: &[T], y: &[T]) -> T {
    let ((x_chunks, x_rest), (y_chunks, y_rest)) = (x.as_chunks::<16>(), y.as_chunks::<16>());
    let mut sums = [T::ZERO; 16];
    for (x, y) in x_chunks.iter().zip(y_chunks) {
        for i in 0..16 {
            sums[i] += (x[i] - y[i]) * (x[i] - y[i]);
        }
    }
    let sum = x_rest.iter().zip(y_rest).fold(T::ZERO, |sum, (x, y)| sum + (*x - *y) * (*x - *y));
    sums.iter().fold(sum, |sum, x| sum + *x)
}
