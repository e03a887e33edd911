//! All tokens in a row, cut into windows.
//!
//! A window may hold several documents. They are numbered, so that a mask can keep them apart, and the last token of each
//! has no target: what follows belongs to another. The last window is padded unless it is full, so every token of the
//! corpus is asked for once, except the first of every document.

use super::batch::{Batch, Examples};
use super::corpus::Corpus;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Packed {
    corpus: Arc<Corpus>,
    window: usize,
}

impl Packed {
    pub fn new(corpus: Arc<Corpus>, window: usize) -> Result<Packed, String> {
        match window {
            0 => Err("a window needs at least one position".to_string()),
            _ => Ok(Packed { corpus, window }),
        }
    }

    /// Writes a window; the number of its positions.
    fn write(&self, i: usize, tokens: &mut [u16], targets: &mut [i32], documents: &mut [u32]) -> Result<usize, String> {
        let start = i * self.window;
        let length = self.window.min(self.corpus.len() - start);
        let seen = (length + 1).min(self.corpus.len() - start);
        let first = self.corpus.document_at(start);
        let mut document = first;
        let mut end = self.corpus.document(document).end;
        for (n, token) in self.corpus.tokens(start..start + seen)?.enumerate() {
            let is_first = start + n == end;
            if is_first {
                document += 1;
                end = self.corpus.document(document).end;
            }
            if n < length {
                tokens[n] = token;
                documents[n] = (document - first) as u32;
            }
            if n > 0 && !is_first {
                targets[n - 1] = i32::from(token);
            }
        }
        // Padding is a document of its own.
        documents[length..].fill((document - first) as u32 + 1);
        Ok(length)
    }
}

impl Examples for Packed {
    /// The last token of all has no target and needs no window of its own.
    fn count(&self) -> usize {
        self.corpus.len().saturating_sub(1).div_ceil(self.window)
    }

    fn vocabulary(&self) -> usize {
        self.corpus.vocabulary()
    }

    fn fill(&self, which: &[usize], batch: &mut Batch) -> Result<(), String> {
        batch.reset(which.len(), self.window, self.corpus.meta().end_of_text);
        batch.documents.resize(which.len() * self.window, 0);
        let rows = batch.tokens.chunks_mut(self.window).zip(batch.targets.chunks_mut(self.window));
        let rows = rows.zip(batch.documents.chunks_mut(self.window));
        for (i, ((tokens, targets), documents)) in which.iter().zip(rows) {
            self.check(*i)?;
            batch.lengths.push(self.write(*i, tokens, targets, documents)?);
        }
        if batch.lengths.iter().all(|length| *length == self.window) {
            batch.lengths.clear();
        }
        Ok(())
    }
}
