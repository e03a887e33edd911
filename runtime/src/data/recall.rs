//! Multi-query associative recall: a task that is generated, needs no files and can be learned in a minute.
//!
//! ```text
//! k₁ v₁ k₂ v₂ … k_K v_K   ·  k₂  ·  ·  k_K  k₁  ·
//!                            v₂        v_K  v₁        targets; nowhere else does the loss count
//! ```
//!
//! A sequence begins with pairs of a key and its value. Behind them, keys come back in random order and at random places,
//! and the model must say their values; what lies between is filler. No key comes back twice.
//!
//! Token 0 is the filler; of the others, the first half are keys and the second half values.

use super::batch::{Batch, Examples};
use super::order::{below, shuffled};
use crate::model::random::Stream;

/// Keeps this use of a seed apart from others.
const RECALL: u64 = 0x7265_6361_6c6c;

pub const FILLER: u16 = 0;

/// How hard the task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pairs of a key and a value.
    pub pairs: usize,
    /// Keys that come back; at most as many as there are pairs.
    pub queries: usize,
    /// Positions of a sequence, at least 2·pairs + queries.
    pub length: usize,
    /// Tokens: the filler, keys and values.
    pub vocabulary: usize,
}

impl Default for Shape {
    /// Eight pairs, all of them asked for, in 32 positions.
    fn default() -> Shape {
        Shape { pairs: 8, queries: 8, length: 32, vocabulary: 64 }
    }
}

impl Shape {
    fn keys(&self) -> usize {
        (self.vocabulary - 1) / 2
    }
}

/// The task; example i depends on the seed and on i alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recall {
    shape: Shape,
    count: usize,
    stream: Stream,
}

impl Recall {
    pub fn new(shape: Shape, count: usize, seed: u64) -> Result<Recall, String> {
        let Shape { pairs, queries, length, vocabulary } = shape;
        let needed = pairs.saturating_mul(2).saturating_add(queries);
        if pairs == 0 || queries == 0 {
            return Err("recall needs at least one pair and one query".to_string());
        }
        if queries > pairs {
            return Err(format!("recall asks for every pair at most once: {queries} queries are too many for {pairs}"));
        }
        if needed > length {
            return Err(format!("{pairs} pairs and {queries} queries need {needed} positions and not {length}"));
        }
        if !(3..=1 << 16).contains(&vocabulary) || shape.keys() < pairs {
            let least = pairs.saturating_mul(2).saturating_add(1);
            return Err(format!("{pairs} pairs need a vocabulary of {least} to 65536 tokens and not {vocabulary}"));
        }
        Ok(Recall { shape, count, stream: Stream::new(seed).stream(RECALL) })
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Writes example `i`; the targets are there already and say that no position counts.
    fn write(&self, i: usize, tokens: &mut [u16], targets: &mut [i32]) {
        let Shape { pairs, queries, length, vocabulary } = self.shape;
        let stream = self.stream.stream(i as u64);
        let (keys, first_value) = (self.shape.keys(), 1 + self.shape.keys());
        let keys: Vec<u16> = shuffled(keys, stream.stream(0))[..pairs].iter().map(|key| 1 + *key as u16).collect();
        let value = |pair: usize| first_value + below(stream.stream(1), pair as u64, vocabulary - first_value);
        for (pair, key) in keys.iter().enumerate() {
            tokens[2 * pair] = *key;
            tokens[2 * pair + 1] = value(pair) as u16;
        }
        // Both are in random order, so any pair may come first.
        let asked = shuffled(pairs, stream.stream(2));
        let places = shuffled(length - 2 * pairs, stream.stream(3));
        for (pair, place) in asked.into_iter().zip(places).take(queries) {
            let (pair, place) = (pair as usize, 2 * pairs + place as usize);
            tokens[place] = keys[pair];
            targets[place] = value(pair) as i32;
        }
    }
}

impl Examples for Recall {
    fn count(&self) -> usize {
        self.count
    }

    fn vocabulary(&self) -> usize {
        self.shape.vocabulary
    }

    fn fill(&self, which: &[usize], batch: &mut Batch) -> Result<(), String> {
        batch.reset(which.len(), self.shape.length, FILLER);
        let length = self.shape.length;
        let rows = batch.tokens.chunks_mut(length).zip(batch.targets.chunks_mut(length));
        for (i, (tokens, targets)) in which.iter().zip(rows) {
            self.check(*i)?;
            self.write(*i, tokens, targets);
        }
        Ok(())
    }
}
