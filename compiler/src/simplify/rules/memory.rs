//! What a rule set remembers: the outcome of regions it has seen.

use crate::ir::Expr;
use crate::simplify::{Limits, Objective, proof::Lemma};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What an outcome depends on, besides the rules.
#[derive(Clone, PartialEq)]
pub struct Key {
    pub region: Expr,
    pub given: Vec<Expr>,
    pub objective: Objective,
    pub limits: Limits,
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<S: Hasher>(&self, state: &mut S) {
        self.region.hash(state)
    }
}

/// What became of a region.
#[derive(Clone, Debug)]
pub struct Found {
    pub lemma: Arc<Lemma>,
    pub hit_limit: bool,
    pub rejected: Vec<String>,
    /// What it took to find out.
    pub work: usize,
}
