//! Products with weight matrices, and the inverse of a matrix as a differentiable operation.

use candle_core::{CpuStorage, CustomOp1, D, Device, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

/// W x for every token: `[B, N, in]` and `[out, in]` give `[B, N, out]`.
pub fn project(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let (batch, n, width) = x.dims3()?;
    x.reshape((batch * n, width))?.matmul(&w.t()?)?.reshape((batch, n, w.dim(0)?))
}

/// Products of matrices, the last two axes of both; the axes before them broadcast.
pub fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let outer: Vec<usize> = a.dims().iter().zip(b.dims()).map(|(x, y)| *x.max(y)).take(a.rank() - 2).collect();
    // Candle multiplies stacks of matrices along one axis.
    let stacked = |x: &Tensor| {
        let inner = &x.dims()[x.rank() - 2..];
        let whole = x.broadcast_as([&outer, inner].concat())?.contiguous()?;
        whole.reshape((outer.iter().product::<usize>(), inner[0], inner[1]))
    };
    let product = stacked(a)?.matmul(&stacked(b)?)?;
    product.reshape([&outer[..], &product.dims()[1..]].concat())
}

/// The numbers of a contiguous tensor in memory.
pub fn floats<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let CpuStorage::F32(all) = storage else { bail!("this kernel computes in f32; convert its inputs with to_dtype") };
    contiguous(all, layout)
}

fn contiguous<'a, T>(all: &'a [T], layout: &Layout) -> Result<&'a [T]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&all[start..end]),
        None => bail!("this kernel needs contiguous inputs"),
    }
}

/// W⁺ = Wᵀ(W Wᵀ)⁻¹ for every head: `[H, d_h, d]` gives `[H, d, d_h]`.
pub fn pseudo_inverse(w: &Tensor) -> Result<Tensor> {
    let transposed = w.transpose(1, 2)?;
    product(&transposed, &inverse(&product(w, &transposed)?)?)
}

/// The inverses of `[…, n, n]`; that of a singular matrix is 0, as 1/0 is 0. It is computed on the CPU.
pub fn inverse(x: &Tensor) -> Result<Tensor> {
    x.to_device(&Device::Cpu)?.contiguous()?.apply_op1(Inverse)?.to_device(x.device())
}

struct Inverse;

impl CustomOp1 for Inverse {
    fn name(&self) -> &'static str {
        "inverse"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let n = layout.dims().last().copied().unwrap_or(1).max(1);
        let inverses = match storage {
            CpuStorage::F32(all) => {
                let mut out: Vec<f64> = contiguous(all, layout)?.iter().map(|x| f64::from(*x)).collect();
                out.par_chunks_mut(n * n).for_each(|matrix| invert(matrix, n, f64::from(f32::EPSILON)));
                CpuStorage::F32(out.into_iter().map(|x| x as f32).collect())
            }
            CpuStorage::F64(all) => {
                let mut out = contiguous(all, layout)?.to_vec();
                out.par_chunks_mut(n * n).for_each(|matrix| invert(matrix, n, f64::EPSILON));
                CpuStorage::F64(out)
            }
            _ => bail!("matrices are inverted in f32 or f64; convert them with to_dtype"),
        };
        Ok((inverses, layout.shape().clone()))
    }

    /// d(A⁻¹) = −A⁻¹ dA A⁻¹, so ∂A = −A⁻ᵀ ∂(A⁻¹) A⁻ᵀ.
    fn bwd(&self, _: &Tensor, inverse: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let transposed = inverse.transpose(D::Minus2, D::Minus1)?;
        Ok(Some(product(&product(&transposed, grad)?, &transposed)?.neg()?))
    }
}

/// Gauss and Jordan's elimination with partial pivoting; 0 if a pivot is no more than rounding of entries that are known to
/// `epsilon`.
fn invert(a: &mut [f64], n: usize, epsilon: f64) {
    let mut b: Vec<f64> = (0..n * n).map(|i| if i / n == i % n { 1.0 } else { 0.0 }).collect();
    let largest = a.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    let least = n as f64 * epsilon * largest;
    for column in 0..n {
        let size = |row: &usize| a[row * n + column].abs();
        let best = (column..n).max_by(|i, j| size(i).total_cmp(&size(j))).unwrap_or(column);
        let pivot = a[best * n + column];
        if !pivot.is_finite() || pivot.abs() <= least {
            return a.fill(0.0);
        }
        for side in [&mut *a, &mut b] {
            for j in 0..n {
                side.swap(column * n + j, best * n + j);
                side[column * n + j] /= pivot;
            }
        }
        for row in (0..n).filter(|row| *row != column) {
            let factor = a[row * n + column];
            for side in [&mut *a, &mut b] {
                for j in 0..n {
                    side[row * n + j] -= factor * side[column * n + j];
                }
            }
        }
    }
    a.copy_from_slice(&b);
}
