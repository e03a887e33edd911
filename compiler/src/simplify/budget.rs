//! Work: what the simplifier may spend on one derivation.
//!
//! Work is counted in nodes looked at, never in time, so that the same input gives the same result everywhere. A region
//! that was seen before costs what it cost the first time: what a stage can afford does not depend on the stages before
//! it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Nodes that all simplifications of one stage may look at together; about a second.
const WORK: usize = 4_000_000;

/// A number of nodes that may be looked at; clones spend the same.
#[derive(Clone, Debug)]
pub struct Budget {
    work: usize,
    spent: Arc<AtomicUsize>,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::of(WORK)
    }
}

impl Budget {
    pub fn of(work: usize) -> Budget {
        Budget { work, spent: Arc::default() }
    }
    /// As much again, for something else.
    pub fn again(&self) -> Budget {
        Budget::of(self.work)
    }
    pub fn spend(&self, work: usize) {
        self.spent.store(self.spent().saturating_add(work), Relaxed);
    }
    pub fn spent(&self) -> usize {
        self.spent.load(Relaxed)
    }
    pub fn is_spent(&self) -> bool {
        self.spent() >= self.work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_and_another_does_not() {
        let budget = Budget::of(10);
        budget.clone().spend(9);
        assert!(!budget.is_spent());
        budget.clone().spend(usize::MAX);
        assert!(budget.is_spent() && !budget.again().is_spent());
    }
}
