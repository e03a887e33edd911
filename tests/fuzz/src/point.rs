//! Where a recipe is evaluated: one head's inputs, what its queries see, and the cotangents.

use crate::random::Random;
use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    pub queries: usize,
    pub tokens: usize,
    pub head: usize,
    pub model: usize,
    pub heads: usize,
}

/// Arrays are row by row: q, g are [queries, head], k and v [tokens, head].
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    pub sizes: Sizes,
    pub q: Vec<f64>,
    pub k: Vec<f64>,
    pub v: Vec<f64>,
    /// The cotangent of the direction.
    pub g: Vec<f64>,
    /// The cotangent of the energy, one per query.
    pub u: Vec<f64>,
    /// Parameters.
    pub numbers: BTreeMap<String, f64>,
    /// Parameters per component.
    pub vectors: BTreeMap<String, Vec<f64>>,
    /// A number per query.
    pub query_gates: BTreeMap<String, Vec<f64>>,
    /// A number per token.
    pub gates: BTreeMap<String, Vec<f64>>,
    /// A factor per step.
    pub decays: BTreeMap<String, Vec<f64>>,
    /// The tokens every query sees.
    pub visible: Vec<Range<usize>>,
}

impl Point {
    /// The place of a query in the sequence: queries are its last tokens.
    pub fn position(&self, query: usize) -> usize {
        query + self.sizes.tokens - self.sizes.queries
    }

    /// The same in single precision.
    pub fn rounded(&self) -> Point {
        let mut other = self.clone();
        other.each_input(&mut |x| *x = f64::from(*x as f32));
        other
    }

    /// The same with every number off by so much of itself, one way or the other.
    pub fn nudged(&self, by: f64, random: &mut Random) -> Point {
        let mut other = self.clone();
        other.each_input(&mut |x| *x *= if random.chance(0.5) { 1.0 + by } else { 1.0 - by });
        other
    }

    fn each_input(&mut self, change: &mut dyn FnMut(&mut f64)) {
        let Point { q, k, v, g, u, numbers, vectors, query_gates, gates, decays, .. } = self;
        [q, k, v, g, u].into_iter().flatten().for_each(&mut *change);
        numbers.values_mut().for_each(&mut *change);
        [vectors, query_gates, gates, decays]
            .into_iter()
            .flat_map(BTreeMap::values_mut)
            .flatten()
            .for_each(&mut *change);
    }
}
