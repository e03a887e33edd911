//! Every document is an example, cut to the window.
//!
//! The inputs are a document's first tokens, and each position is asked for the token behind it, so a document that is
//! longer than the window has a target at every position. A shorter one is padded; its last token, which ends it, and
//! the padding have no target.

use super::batch::{Batch, Examples};
use super::corpus::Corpus;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Truncated {
    corpus: Arc<Corpus>,
    window: usize,
}

impl Truncated {
    pub fn new(corpus: Arc<Corpus>, window: usize) -> Result<Truncated, String> {
        match window {
            0 => Err("a window needs at least one position".to_string()),
            _ => Ok(Truncated { corpus, window }),
        }
    }
}

impl Examples for Truncated {
    fn count(&self) -> usize {
        self.corpus.documents()
    }

    fn vocabulary(&self) -> usize {
        self.corpus.vocabulary()
    }

    fn fill(&self, which: &[usize], batch: &mut Batch) -> Result<(), String> {
        batch.reset(which.len(), self.window, self.corpus.meta().end_of_text);
        let rows = batch.tokens.chunks_mut(self.window).zip(batch.targets.chunks_mut(self.window));
        for (i, (tokens, targets)) in which.iter().zip(rows) {
            self.check(*i)?;
            let document = self.corpus.document(*i);
            let seen = document.len().min(self.window + 1);
            for (n, token) in self.corpus.tokens(document.start..document.start + seen)?.enumerate() {
                if n < self.window {
                    tokens[n] = token;
                }
                if n > 0 {
                    targets[n - 1] = i32::from(token);
                }
            }
            batch.lengths.push(seen.min(self.window));
        }
        if batch.lengths.iter().all(|length| *length == self.window) {
            batch.lengths.clear();
        }
        Ok(())
    }
}
