//! Work: what something may spend, counted in nodes looked at and never in time, so that the same input gives the same
//! result everywhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// A number of nodes that may be looked at; clones spend the same.
#[derive(Clone, Debug)]
pub struct Budget {
    work: usize,
    spent: Arc<AtomicUsize>,
    /// Whether something was left undone, of this budget or of one it has in common with.
    refused: Arc<AtomicBool>,
}

impl Budget {
    pub fn of(work: usize) -> Budget {
        Budget { work, spent: Arc::default(), refused: Arc::default() }
    }
    pub fn unlimited() -> Budget {
        Budget::of(usize::MAX)
    }
    /// As much again, for something else that belongs to the same whole.
    pub fn again(&self) -> Budget {
        Budget { refused: self.refused.clone(), ..Budget::of(self.work) }
    }
    pub fn spend(&self, work: usize) {
        self.spent.store(self.spent().saturating_add(work), Relaxed);
    }
    pub fn spent(&self) -> usize {
        self.spent.load(Relaxed)
    }
    /// Whether nothing is left; whoever asks leaves undone what it asks for.
    pub fn is_spent(&self) -> bool {
        let is_spent = self.spent() >= self.work;
        if is_spent {
            self.refuse();
        }
        is_spent
    }
    /// Something is left undone, whatever is left.
    pub fn refuse(&self) {
        self.refused.store(true, Relaxed);
    }
    /// Whether anything was left undone.
    pub fn has_refused(&self) -> bool {
        self.refused.load(Relaxed)
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
        assert!(!budget.has_refused());
        let other = budget.again();
        assert!(budget.is_spent() && !other.is_spent() && other.has_refused());
    }
}
