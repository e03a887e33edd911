//! Which tokens a query sees: for every mask there is, an interval of tokens.
//!
//! Queries are the last tokens of the sequence: with fewer queries than tokens, query t stands at position
//! t + (tokens − queries), as in decoding with a cache.

use std::ops::Range;

/// The tokens each query sees; an empty interval is a query that sees nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visible {
    intervals: Vec<Range<usize>>,
    tokens: usize,
}

impl Visible {
    /// Any intervals of `tokens` tokens, one per query.
    pub fn new(intervals: Vec<Range<usize>>, tokens: usize) -> Visible {
        let inside = |i: Range<usize>| i.start.min(tokens)..i.end.min(tokens);
        Visible { intervals: intervals.into_iter().map(inside).collect(), tokens }
    }

    /// Every token.
    pub fn full(queries: usize, tokens: usize) -> Visible {
        Visible { intervals: vec![0..tokens; queries], tokens }
    }

    /// Tokens up to the query's own position.
    pub fn causal(queries: usize, tokens: usize) -> Visible {
        Visible::window(queries, tokens, usize::MAX)
    }

    /// The query's own position and the `width` − 1 before it.
    pub fn window(queries: usize, tokens: usize, width: usize) -> Visible {
        let interval = |t: usize| {
            let end = (t + 1 + tokens).saturating_sub(queries);
            end.saturating_sub(width)..end
        };
        Visible { intervals: (0..queries).map(interval).collect(), tokens }
    }

    /// Positions from `length` on are absent, as tokens and as queries.
    pub fn with_length(mut self, length: usize) -> Visible {
        let queries = self.intervals.len();
        for (t, interval) in self.intervals.iter_mut().enumerate() {
            let is_absent = t + self.tokens >= length.saturating_add(queries);
            interval.end = interval.end.min(if is_absent { 0 } else { length });
            interval.start = interval.start.min(interval.end);
        }
        self
    }

    /// A query sees tokens of its own document only: `documents` numbers every position, equal numbers side by side.
    pub fn within_documents(mut self, documents: &[u32]) -> Visible {
        let queries = self.intervals.len();
        for (t, interval) in self.intervals.iter_mut().enumerate() {
            let Some(&own) = documents.get((t + self.tokens).saturating_sub(queries)) else { continue };
            let is_own = |n: &usize| documents.get(*n) == Some(&own);
            let start = interval.clone().find(is_own).unwrap_or(interval.end);
            let end = (start..interval.end).find(|n| !is_own(n)).unwrap_or(interval.end);
            *interval = start..end;
        }
        self
    }

    pub fn queries(&self) -> usize {
        self.intervals.len()
    }

    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// What every query sees.
    pub fn intervals(&self) -> &[Range<usize>] {
        &self.intervals
    }

    /// The tokens query `t` sees.
    #[inline(always)]
    pub fn of(&self, t: usize) -> Range<usize> {
        self.intervals[t].clone()
    }

    /// The position of query `t` in the sequence.
    pub fn position(&self, t: usize) -> usize {
        (t + self.tokens).saturating_sub(self.intervals.len())
    }
}
