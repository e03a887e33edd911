//! All learned numbers of a model as one array, and which part of it is which weight.
//!
//! One array makes the gradient, the optimizer's moments, clipping and checkpoints one array each.

use super::random::Stream;
use rayon::prelude::*;
use std::ops::Range;

/// How a weight starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// Normal numbers with this standard deviation.
    Normal(f32),
    Constant(f32),
}

/// A weight: its name, its shape, its part of the array.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    pub name: String,
    pub shape: Vec<usize>,
    pub range: Range<usize>,
    pub start: Start,
    /// Whether weight decay applies: to matrices, as usual, not to biases, norms and numbers.
    pub decays: bool,
}

/// The part of the array a weight has.
pub type Place = Range<usize>;

/// The weights in the order of their places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    weights: Vec<Weight>,
    length: usize,
}

impl Layout {
    /// Adds a weight behind the others.
    pub fn add(&mut self, name: String, shape: &[usize], start: Start) -> Place {
        let range = self.length..self.length + shape.iter().product::<usize>();
        self.length = range.end;
        let decays = shape.len() > 1;
        self.weights.push(Weight { name, shape: shape.to_vec(), range: range.clone(), start, decays });
        range
    }

    pub fn weights(&self) -> &[Weight] {
        &self.weights
    }

    /// Numbers in all.
    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// All weights as they start: every weight has its own stream of the seed.
    pub fn start(&self, seed: u64) -> Vec<f32> {
        let mut values = vec![0.0; self.length];
        for (i, weight) in self.weights.iter().enumerate() {
            let own = &mut values[weight.range.clone()];
            match weight.start {
                Start::Constant(value) => own.fill(value),
                Start::Normal(deviation) => {
                    let stream = Stream::new(seed).stream(i as u64);
                    let number = |j: usize| (f64::from(deviation) * stream.normal(j as u64)) as f32;
                    own.par_iter_mut().with_min_len(1 << 12).enumerate().for_each(|(j, x)| *x = number(j));
                }
            }
        }
        values
    }

    /// The name of the weight this place of the array belongs to.
    pub fn owner(&self, place: usize) -> &str {
        self.weights.iter().find(|weight| weight.range.contains(&place)).map_or("", |weight| &weight.name)
    }
}
