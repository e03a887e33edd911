//! Random tokens: what a step costs does not depend on them.

use super::batch::{Batch, Examples};
use crate::model::random::Stream;

/// As many sequences as anybody asks for.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    pub window: usize,
    pub vocabulary: usize,
}

impl Examples for Noise {
    fn count(&self) -> usize {
        1 << 16
    }

    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    fn fill(&self, which: &[usize], batch: &mut Batch) -> Result<(), String> {
        batch.reset(which.len(), self.window, 0);
        let stream = Stream::new(1);
        let token = |i: usize| stream.bits(i as u64) % self.vocabulary as u64;
        for (row, example) in which.iter().enumerate() {
            for t in 0..self.window {
                let at = example * (self.window + 1) + t;
                batch.tokens[row * self.window + t] = token(at) as u16;
                batch.targets[row * self.window + t] = token(at + 1) as i32;
            }
        }
        Ok(())
    }
}
