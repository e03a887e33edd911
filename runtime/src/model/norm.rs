//! Layer normalization: y = w ⊙ (x − μ)/σ + b with σ² = Var x + ε, row by row.

use super::blocks::{self, ROWS, block, wide};
use rayon::prelude::*;

/// ε.
pub const EPSILON: f32 = 1e-5;

/// μ and 1/σ of every row.
#[derive(Clone, Debug, Default)]
pub struct Moments {
    of_rows: Vec<[f32; 2]>,
}

/// The weight and the bias.
#[derive(Clone, Copy, Debug)]
pub struct Affine<'a> {
    pub weight: &'a [f32],
    pub bias: &'a [f32],
}

/// y of every row of x; the moments are for the backward pass.
pub fn forward(x: &[f32], affine: Affine, moments: &mut Moments, y: &mut [f32]) {
    let d = affine.weight.len();
    moments.of_rows.resize(x.len() / d, [0.0; 2]);
    let of_blocks = moments.of_rows.par_chunks_mut(ROWS);
    y[..x.len()].par_chunks_mut(ROWS * d).zip(of_blocks).zip(x.par_chunks(ROWS * d)).for_each(|((y, moments), x)| {
        wide(
            #[inline(always)]
            || {
                for ((y, moments), x) in y.chunks_exact_mut(d).zip(moments).zip(x.chunks_exact(d)) {
                    *moments = moments_of(x);
                    normalize(x, *moments, affine, y);
                }
            },
        );
    });
}

/// y again, from the moments.
pub fn again(x: &[f32], affine: Affine, moments: &Moments, y: &mut [f32]) {
    let d = affine.weight.len();
    blocks::each_block(
        &mut y[..x.len()],
        d,
        #[inline(always)]
        |i, y| {
            let rows = y.chunks_exact_mut(d).zip(block(x, d, i).chunks_exact(d)).zip(&moments.of_rows[i * ROWS..]);
            for ((y, x), moments) in rows {
                normalize(x, *moments, affine, y);
            }
        },
    );
}

/// ∂x from ∂y, added to what is in `of_x` or put there; ∂w and ∂b are added.
///
/// With x̂ = (x − μ)/σ and g = w ⊙ ∂y: ∂x = (g − mean g − x̂ mean(g x̂))/σ, ∂w = Σ ∂y ⊙ x̂, ∂b = Σ ∂y.
pub fn backward(
    x: &[f32],
    affine: Affine,
    moments: &Moments,
    given: &[f32],
    (of_weight, of_bias): (&mut [f32], &mut [f32]),
    (of_x, adds): (&mut [f32], bool),
) {
    let d = affine.weight.len();
    blocks::each_block(
        &mut of_x[..x.len()],
        d,
        #[inline(always)]
        |i, of_x| {
            let rows =
                of_x.chunks_exact_mut(d).zip(block(x, d, i).chunks_exact(d)).zip(block(given, d, i).chunks_exact(d));
            for (((of_x, x), given), [mean, inverse]) in rows.zip(&moments.of_rows[i * ROWS..]) {
                let (mut sum, mut product) = ([0.0f32; LANES], [0.0f32; LANES]);
                each_lane(x, given, affine.weight, |lane, x, given, weight| {
                    let g = weight * given;
                    sum[lane] += g;
                    product[lane] += g * (x - mean) * inverse;
                });
                let (sum, product) = (sum.iter().sum::<f32>() / d as f32, product.iter().sum::<f32>() / d as f32);
                for (((out, x), given), weight) in of_x.iter_mut().zip(x).zip(given).zip(affine.weight) {
                    let normal = (x - mean) * inverse;
                    let gradient = (weight * given - sum - normal * product) * inverse;
                    *out = if adds { *out + gradient } else { gradient };
                }
            }
        },
    );
    let mut sums = vec![0.0; 2 * d];
    blocks::add_up(
        blocks::count(x.len(), d),
        2 * d,
        &mut sums,
        #[inline(always)]
        |i, sums| {
            let (of_weight, of_bias) = sums.split_at_mut(d);
            let rows = block(x, d, i).chunks_exact(d).zip(block(given, d, i).chunks_exact(d));
            for ((x, given), [mean, inverse]) in rows.zip(&moments.of_rows[i * ROWS..]) {
                for (((w, b), x), given) in of_weight.iter_mut().zip(of_bias.iter_mut()).zip(x).zip(given) {
                    *w += given * (x - mean) * inverse;
                    *b += given;
                }
            }
        },
    );
    of_weight.iter_mut().zip(&sums[..d]).for_each(|(x, y)| *x += y);
    of_bias.iter_mut().zip(&sums[d..]).for_each(|(x, y)| *x += y);
}

/// Sums run in this many lanes, so that they can run in registers.
const LANES: usize = 16;

#[inline(always)]
fn each_lane(a: &[f32], b: &[f32], c: &[f32], mut f: impl FnMut(usize, f32, f32, f32)) {
    for ((a, b), c) in a.chunks(LANES).zip(b.chunks(LANES)).zip(c.chunks(LANES)) {
        for (lane, ((a, b), c)) in a.iter().zip(b).zip(c).enumerate() {
            f(lane, *a, *b, *c);
        }
    }
}

#[inline(always)]
fn moments_of(x: &[f32]) -> [f32; 2] {
    let n = x.len() as f32;
    let mut sum = [0.0f32; LANES];
    each_lane(x, x, x, |lane, x, _, _| sum[lane] += x);
    let mean = sum.iter().sum::<f32>() / n;
    let mut squares = [0.0f32; LANES];
    each_lane(x, x, x, |lane, x, _, _| squares[lane] += (x - mean) * (x - mean));
    [mean, 1.0 / (squares.iter().sum::<f32>() / n + EPSILON).sqrt()]
}

#[inline(always)]
fn normalize(x: &[f32], [mean, inverse]: [f32; 2], affine: Affine, y: &mut [f32]) {
    for (((y, x), w), b) in y.iter_mut().zip(x).zip(affine.weight).zip(affine.bias) {
        *y = w * ((x - mean) * inverse) + b;
    }
}
