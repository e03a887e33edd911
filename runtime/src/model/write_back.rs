//! What brings the heads' directions back to the token: M `[d, H·d_h]`, one block of columns per head.
//!
//! | write-back | M of a head |
//! |---|---|
//! | free | W_O |
//! | transpose | (1/H) W₁ᵀ |
//! | pinv | (1/H) W₁⁺ |
//! | free_pinv | W_O W_V W₁⁺ |
//!
//! with W₁⁺ = W₁ᵀ(W₁W₁ᵀ)⁻¹.

use super::matrix::{Into, Matrix, multiply, rows, transposed};
use super::weights::Place;
use energyc::check::recipe::WriteBack;

/// The matrices M is made of.
#[derive(Clone, Debug)]
pub struct Parts {
    pub how: WriteBack,
    pub d: usize,
    pub heads: usize,
    pub w1: Option<Place>,
    pub wv: Option<Place>,
    pub wo: Option<Place>,
}

/// M, where it is not W_O itself, and what its backward pass reads again.
#[derive(Clone, Debug, Default)]
pub struct Made {
    pub matrix: Vec<f32>,
    heads: Vec<Inverse>,
}

/// W₁⁺ of a head `[d, d_h]`, and (W₁W₁ᵀ)⁻¹.
#[derive(Clone, Debug, Default)]
struct Inverse {
    pseudo: Vec<f32>,
    gram: Vec<f32>,
}

fn product(shape: [usize; 3], a: Matrix, b: Matrix) -> Vec<f32> {
    let mut out = vec![0.0; shape[0] * shape[1]];
    multiply(shape, &mut out, Into::Replace, 1.0, a, b);
    out
}

impl Parts {
    fn head(&self) -> usize {
        self.d / self.heads
    }

    /// Rows of W₁ or W_V that belong to a head.
    fn of_head<'a>(&self, weights: &'a [f32], place: &Option<Place>, h: usize) -> &'a [f32] {
        let start = place.as_ref().map_or(0, |place| place.start) + h * self.head() * self.d;
        &weights[start..start + self.head() * self.d]
    }

    /// Columns of W_O, or of any `[d, H·d_h]`, that belong to a head, as rows `[d, d_h]`.
    fn columns(&self, matrix: &[f32], h: usize) -> Vec<f32> {
        let n = self.head();
        matrix.chunks_exact(self.d).flat_map(|row| row[h * n..(h + 1) * n].iter().copied()).collect()
    }

    /// Adds rows `[d, d_h]` to the columns of a head.
    fn add_columns(&self, matrix: &mut [f32], h: usize, part: &[f32], scale: f32) {
        let n = self.head();
        for (row, part) in matrix.chunks_exact_mut(self.d).zip(part.chunks_exact(n)) {
            row[h * n..(h + 1) * n].iter_mut().zip(part).for_each(|(x, y)| *x += scale * y);
        }
    }

    /// M of these weights.
    pub fn make(&self, weights: &[f32], made: &mut Made) {
        let (d, n) = (self.d, self.head());
        let share = 1.0 / self.heads as f32;
        made.heads.clear();
        made.matrix.clear();
        made.matrix.resize(if self.how == WriteBack::Free { 0 } else { d * d }, 0.0);
        for h in 0..self.heads {
            match self.how {
                WriteBack::Free => {}
                WriteBack::Transpose => {
                    let w1 = self.of_head(weights, &self.w1, h);
                    for (c, row) in made.matrix.chunks_exact_mut(d).enumerate() {
                        row[h * n..(h + 1) * n].iter_mut().enumerate().for_each(|(e, x)| *x = share * w1[e * d + c]);
                    }
                }
                WriteBack::Pinv => {
                    let inverse = self.inverse(weights, h);
                    self.add_columns(&mut made.matrix, h, &inverse.pseudo, share);
                    made.heads.push(inverse);
                }
                WriteBack::FreePinv => {
                    let inverse = self.inverse(weights, h);
                    let wo = self.columns(&weights[self.wo.clone().unwrap_or_default()], h);
                    let inner = self.inner(weights, &inverse, h);
                    let part = product([d, n, n], rows(&wo, n), rows(&inner, n));
                    self.add_columns(&mut made.matrix, h, &part, 1.0);
                    made.heads.push(inverse);
                }
            }
        }
    }

    /// W_V W₁⁺ of a head.
    fn inner(&self, weights: &[f32], inverse: &Inverse, h: usize) -> Vec<f32> {
        let (d, n) = (self.d, self.head());
        product([n, n, d], rows(self.of_head(weights, &self.wv, h), d), rows(&inverse.pseudo, n))
    }

    fn inverse(&self, weights: &[f32], h: usize) -> Inverse {
        let (d, n) = (self.d, self.head());
        let w = self.of_head(weights, &self.w1, h);
        let mut gram = product([n, n, d], rows(w, d), transposed(w, d));
        invert(&mut gram, n);
        Inverse { pseudo: product([d, n, n], transposed(w, d), rows(&gram, n)), gram }
    }

    /// Adds to the gradients of the weights what ∂M is to them; a free M is W_O itself and needs none of this.
    ///
    /// With P = WᵀA and A = (WWᵀ)⁻¹: ∂A = W ∂P, ∂G = −A ∂A A, ∂W = A ∂Pᵀ + (∂G + ∂Gᵀ) W.
    pub fn backward(&self, weights: &[f32], made: &Made, given: &[f32], gradient: &mut [f32]) {
        let (d, n) = (self.d, self.head());
        let share = 1.0 / self.heads as f32;
        let place = |place: &Option<Place>| place.as_ref().map_or(0, |p| p.start);
        for h in 0..self.heads {
            let of_matrix = self.columns(given, h);
            let w1_at = place(&self.w1) + h * n * d;
            let of_pseudo = match self.how {
                WriteBack::Free => continue,
                WriteBack::Transpose => {
                    let of_w1 = &mut gradient[w1_at..w1_at + n * d];
                    for (c, row) in of_matrix.chunks_exact(n).enumerate() {
                        row.iter().enumerate().for_each(|(e, x)| of_w1[e * d + c] += share * x);
                    }
                    continue;
                }
                WriteBack::Pinv => of_matrix.iter().map(|x| share * x).collect(),
                WriteBack::FreePinv => {
                    let wo_place = self.wo.clone().unwrap_or_default();
                    let wo = self.columns(&weights[wo_place.clone()], h);
                    let inner = self.inner(weights, &made.heads[h], h);
                    let of_wo = product([d, n, n], rows(&of_matrix, n), transposed(&inner, n));
                    self.add_columns(&mut gradient[wo_place], h, &of_wo, 1.0);
                    let of_inner = product([n, n, d], transposed(&wo, n), rows(&of_matrix, n));
                    let pseudo = &made.heads[h].pseudo;
                    let wv_at = place(&self.wv) + h * n * d;
                    let of_wv = &mut gradient[wv_at..wv_at + n * d];
                    multiply([n, d, n], of_wv, Into::Add, 1.0, rows(&of_inner, n), transposed(pseudo, n));
                    product([d, n, n], transposed(self.of_head(weights, &self.wv, h), d), rows(&of_inner, n))
                }
            };
            let (w, gram) = (self.of_head(weights, &self.w1, h), &made.heads[h].gram);
            let of_gram = product([n, n, d], rows(w, d), rows(&of_pseudo, n));
            let left = product([n, n, n], rows(gram, n), rows(&of_gram, n));
            let of_product = product([n, n, n], rows(&left, n), rows(gram, n));
            let both: Vec<f32> = (0..n * n).map(|i| -(of_product[i] + of_product[(i % n) * n + i / n])).collect();
            let of_w1 = &mut gradient[w1_at..w1_at + n * d];
            multiply([n, d, n], of_w1, Into::Add, 1.0, rows(gram, n), transposed(&of_pseudo, n));
            multiply([n, d, n], of_w1, Into::Add, 1.0, rows(&both, n), rows(w, d));
        }
    }
}

/// Gauss and Jordan's elimination with partial pivoting, in f64; 0 if a pivot is no more than rounding.
fn invert(matrix: &mut [f32], n: usize) {
    let mut a: Vec<f64> = matrix.iter().map(|x| f64::from(*x)).collect();
    let mut b: Vec<f64> = (0..n * n).map(|i| if i / n == i % n { 1.0 } else { 0.0 }).collect();
    let largest = a.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    let least = n as f64 * f64::from(f32::EPSILON) * largest;
    for column in 0..n {
        let size = |row: &usize| a[row * n + column].abs();
        let best = (column..n).max_by(|i, j| size(i).total_cmp(&size(j))).unwrap_or(column);
        let pivot = a[best * n + column];
        if !pivot.is_finite() || pivot.abs() <= least {
            return matrix.fill(0.0);
        }
        for side in [&mut a, &mut b] {
            for j in 0..n {
                side.swap(column * n + j, best * n + j);
                side[column * n + j] /= pivot;
            }
        }
        for row in (0..n).filter(|row| *row != column) {
            let factor = a[row * n + column];
            for side in [&mut a, &mut b] {
                let (upper, lower) = side.split_at_mut(row.max(column) * n);
                let (own, of_pivot) = match row < column {
                    true => (&mut upper[row * n..(row + 1) * n], &lower[..n]),
                    false => (&mut lower[..n], &upper[column * n..(column + 1) * n]),
                };
                own.iter_mut().zip(of_pivot).for_each(|(x, y)| *x -= factor * y);
            }
        }
    }
    matrix.iter_mut().zip(b).for_each(|(y, x)| *y = x as f32);
}
