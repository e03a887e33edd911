//! What a training step is given: sequences of tokens, what follows each of them, and which positions are there.

use crate::model::Input;
use crate::model::loss::NONE;

/// Sequences of one length, one after another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Sequences.
    pub batch: usize,
    /// Positions of every sequence.
    pub length: usize,
    /// `[batch · length]`; positions behind a sequence's end hold any token.
    pub tokens: Vec<u16>,
    /// The token that follows each position, or [`NONE`] where the loss does not count.
    pub targets: Vec<i32>,
    /// How many positions of every sequence are there; empty if all are.
    pub lengths: Vec<usize>,
    /// The document of every position; empty if a sequence is one document.
    pub documents: Vec<u32>,
}

impl Batch {
    /// Room for sequences of one token over and over that count nowhere in the loss.
    pub fn reset(&mut self, batch: usize, length: usize, token: u16) {
        (self.batch, self.length) = (batch, length);
        self.tokens.clear();
        self.tokens.resize(batch * length, token);
        self.targets.clear();
        self.targets.resize(batch * length, NONE);
        self.lengths.clear();
        self.documents.clear();
    }

    /// The model's side of it.
    pub fn input(&self) -> Input<'_> {
        Input {
            batch: self.batch,
            length: self.length,
            tokens: &self.tokens,
            lengths: (!self.lengths.is_empty()).then_some(&self.lengths[..]),
            documents: (!self.documents.is_empty()).then_some(&self.documents[..]),
        }
    }

    /// Positions that are there.
    pub fn present(&self) -> usize {
        if self.lengths.is_empty() { self.tokens.len() } else { self.lengths.iter().sum() }
    }

    /// Positions that count in the loss.
    pub fn counted(&self) -> usize {
        self.targets.iter().filter(|target| **target != NONE).count()
    }
}

/// Examples that can be asked for in any order. The same number always gives the same example.
pub trait Examples: Send + Sync {
    /// How many there are.
    fn count(&self) -> usize;

    /// Tokens are smaller than this.
    fn vocabulary(&self) -> usize;

    /// Puts the examples of these numbers into a batch.
    fn fill(&self, which: &[usize], batch: &mut Batch) -> Result<(), String>;

    /// Whether there is an example of this number.
    fn check(&self, example: usize) -> Result<(), String> {
        match self.count() {
            count if example < count => Ok(()),
            count => Err(format!("there is no example {example}, only {count}")),
        }
    }
}
