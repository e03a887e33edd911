//! Dense f64 arrays whose dimensions are named axes; the storage of the reference interpreter.

use super::axis::{Axis, AxisSet};

/// Row-major values over `axes`, in the order of [`AxisSet::iter`].
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub axes: Vec<Axis>,
    pub shape: Vec<usize>,
    pub data: Vec<f64>,
}

impl Tensor {
    pub fn scalar(x: f64) -> Tensor {
        Tensor { axes: vec![], shape: vec![], data: vec![x] }
    }

    /// Builds a tensor entry by entry; `f` sees the position along each of `axes`.
    pub fn build(axes: &[Axis], length: impl Fn(Axis) -> usize, mut f: impl FnMut(&[usize]) -> f64) -> Tensor {
        let shape: Vec<usize> = axes.iter().map(|&a| length(a)).collect();
        let mut data = Vec::with_capacity(shape.iter().product());
        for_each_index(&shape, |index| data.push(f(index)));
        Tensor { axes: axes.to_vec(), shape, data }
    }

    /// The stride of each of `axes` in this tensor, 0 for one it does not have.
    pub fn strides_for(&self, axes: &[Axis]) -> Vec<usize> {
        axes.iter()
            .map(|a| match self.axes.iter().position(|b| a == b) {
                Some(i) => self.shape[i + 1..].iter().product(),
                None => 0,
            })
            .collect()
    }

    pub fn map(&self, f: impl Fn(f64) -> f64) -> Tensor {
        Tensor { data: self.data.iter().map(|&x| f(x)).collect(), ..self.clone() }
    }

    /// The same values with the axes called (and ordered) otherwise.
    pub fn with_axes(&self, axes: Vec<Axis>) -> Tensor {
        Tensor { axes, ..self.clone() }
    }
}

/// Combines tensors entry by entry over the union of their axes.
pub fn broadcast(parts: &[&Tensor], length: impl Fn(Axis) -> usize, f: impl Fn(&[f64]) -> f64) -> Tensor {
    let all = parts.iter().fold(AxisSet::EMPTY, |s, p| s.union(AxisSet::of(&p.axes)));
    let axes: Vec<Axis> = all.iter().collect();
    let strides: Vec<Vec<usize>> = parts.iter().map(|p| p.strides_for(&axes)).collect();
    let mut values = vec![0.0; parts.len()];
    Tensor::build(&axes, length, |index| {
        for ((value, part), stride) in values.iter_mut().zip(parts).zip(&strides) {
            let offset: usize = index.iter().zip(stride).map(|(i, s)| i * s).sum();
            *value = part.data[offset];
        }
        f(&values)
    })
}

/// Visits every index of a shape in row-major order.
pub fn for_each_index(shape: &[usize], mut f: impl FnMut(&[usize])) {
    let mut index = vec![0; shape.len()];
    if shape.contains(&0) {
        return;
    }
    loop {
        f(&index);
        let Some(axis) = (0..shape.len()).rev().find(|&i| index[i] + 1 < shape[i]) else { return };
        index[axis] += 1;
        index[axis + 1..].fill(0);
    }
}
