//! Simplification: the same value, written better, with a proof.
//!
//! Two tiers. Tier A is the normal form every term is built in ([`crate::ir::expr`]). Tier B is this module: a term is
//! cut into *regions* — sums, products and Σ over atoms — from the inside out; each region is multiplied out by the
//! expanding rules ([`expand`]), saturated in an e-graph ([`saturate`]) and extracted for the objective
//! ([`extract`], [`cost`]). Every result carries its proof, replayed by a checker that trusts nothing
//! ([`proof`]), and is compared with the original on random values; should either fail, the original stands.

pub mod cost;
pub mod expand;
pub mod extract;
pub mod language;
pub mod pattern;
pub mod polynomial;
pub mod proof;
pub mod rules;
pub mod saturate;

pub use cost::{Objective, ReferenceSizes};
pub use proof::Proof;
pub use rules::RuleSet;
pub use saturate::Limits;

use crate::ir::sample::{self, Norm};
use crate::ir::{Expr, Op, rational, traverse};
use cost::Costs;
use expand::Extent;
use proof::Step;
use std::collections::HashMap;

/// How to simplify.
#[derive(Clone, Debug)]
pub struct Options {
    pub rules: RuleSet,
    pub objective: Objective,
    pub limits: Limits,
    /// Values that are already there and cost nothing.
    pub given: Vec<Expr>,
    /// Assumptions ‖x‖ = r: rules for the search, and a restriction on the values it is compared on.
    pub norms: Vec<Norm>,
}

impl Default for Options {
    fn default() -> Options {
        Options { rules: RuleSet::default(), objective: Objective::Readable, limits: Limits::default(), given: vec![], norms: vec![] }
    }
}

/// A simplified term, its proof, and what happened on the way.
#[derive(Clone, Debug)]
pub struct Simplified {
    pub term: Expr,
    pub proof: Proof,
    /// An e-graph hit its limits: the term is right, but perhaps not the simplest.
    pub hit_limit: bool,
    /// Regions that were left alone because a proof or a comparison failed.
    pub rejected: Vec<String>,
}

/// Rounds after which a term counts as settled.
const MAX_ROUNDS: usize = 4;

impl Options {
    /// The same, assuming ‖x‖ = r.
    pub fn assuming(mut self, norms: Vec<Norm>) -> Options {
        let more = norms.iter().flat_map(|(vector, radius)| rules::constraint_rules(vector, radius)).collect();
        self.rules = self.rules.with(more);
        self.norms = norms;
        self
    }
    pub fn given(mut self, given: Vec<Expr>) -> Options {
        self.given = given;
        self
    }
}

/// Two forms of one term may differ by this much in f64.
const TOLERANCE: f64 = 1e-8;

/// The best way to write `e` under the options.
pub fn simplify(e: &Expr, options: &Options) -> Simplified {
    let mut driver = Driver { options, regions: HashMap::new(), steps: Vec::new(), hit_limit: false, rejected: Vec::new() };
    let term = driver.whole(e);
    let proof = Proof { start: e.clone(), steps: driver.steps, end: term.clone() };
    let mut result = Simplified { term, proof, hit_limit: driver.hit_limit, rejected: driver.rejected };
    if let Err(problem) = validate(&result.proof, options) {
        result.rejected.push(problem);
        result.term = e.clone();
        result.proof = Proof { start: e.clone(), steps: vec![], end: e.clone() };
    }
    result
}

/// Replays the proof and compares its two ends on random values.
fn validate(proof: &Proof, options: &Options) -> Result<(), String> {
    proof::check(proof, &options.rules)?;
    if proof.start == proof.end {
        return Ok(());
    }
    match sample::compare(&proof.start, &proof.end, &options.norms, 1) {
        Ok(error) if error <= TOLERANCE => Ok(()),
        Ok(error) => Err(format!("the simplified form differs by {error:.1e} on random values")),
        Err(problem) => Err(problem),
    }
}

struct Driver<'a> {
    options: &'a Options,
    /// What each region became, and how; the steps are written again wherever the region turns up again.
    regions: HashMap<Expr, (Expr, Vec<Step>)>,
    steps: Vec<Step>,
    hit_limit: bool,
    rejected: Vec<String>,
}

impl Driver<'_> {
    /// Simplifies a whole term inside out, until nothing changes.
    fn whole(&mut self, e: &Expr) -> Expr {
        let mut current = e.clone();
        for _ in 0..MAX_ROUNDS {
            let inside = self.below(&current, true);
            let next = self.region(&inside);
            if next == current {
                break;
            }
            current = next;
        }
        current
    }

    /// Simplifies the parts a region does not open, each as a region of its own.
    fn below(&mut self, e: &Expr, is_root: bool) -> Expr {
        match e.op() {
            Op::Const(_) | Op::Leaf(_) => e.clone(),
            Op::Add(_) | Op::Mul(_) | Op::Sum(..) => traverse::map_children(e, |x| self.below(x, false)),
            Op::Pow(_, r) if r.is_integer() && r > &rational::int(0) && !is_root => {
                traverse::map_children(e, |x| self.below(x, false))
            }
            _ => {
                let inside = traverse::map_children(e, |x| self.whole(x));
                let is_opaque = !matches!(inside.op(), Op::Add(_) | Op::Mul(_) | Op::Sum(..));
                if is_root || !is_opaque { inside } else { self.region(&inside) }
            }
        }
    }

    /// The best form of a region whose atoms are settled: one e-graph run from the tidied form, one from the expanded.
    fn region(&mut self, e: &Expr) -> Expr {
        if traverse::tree_size(e) <= 2 {
            return e.clone();
        }
        if let Some((term, steps)) = self.regions.get(e) {
            self.steps.extend(steps.iter().cloned());
            return term.clone();
        }
        let rules = &self.options.rules;
        let given: Vec<Expr> = self.options.given.iter().filter(|g| *g != e).cloned().collect();
        let costs = Costs { objective: self.options.objective, given: &given };
        let mut best = (costs.of(e), e.clone(), vec![]);
        let mut starts: Vec<(Expr, Vec<Step>)> = Vec::new();
        for extent in [Extent::Tidy, Extent::Expand] {
            if let Some(start) = expand::expand(e, rules, extent)
                && !starts.iter().any(|(term, _)| *term == start.0)
            {
                starts.push(start);
            }
        }
        for (start, before) in starts {
            match self.run(&start, &costs) {
                Ok((term, after)) => {
                    let cost = costs.of(&term);
                    if cost < best.0 - 1e-9 * best.0.abs() {
                        best = (cost, term, before.into_iter().chain(after).collect());
                    }
                }
                Err(problem) => self.rejected.push(problem),
            }
        }
        let (_, term, steps) = best;
        self.regions.insert(term.clone(), (term.clone(), vec![]));
        self.regions.insert(e.clone(), (term.clone(), steps.clone()));
        self.steps.extend(steps);
        term
    }

    /// One e-graph run: the best member of the start's class, and the steps to it.
    fn run(&mut self, start: &Expr, costs: &Costs) -> Result<(Expr, Vec<Step>), String> {
        let mut run = saturate::saturate(start, costs.given, &self.options.rules, self.options.limits);
        self.hit_limit |= run.hit_limit;
        let best = extract::extract(&run.graph, run.root, costs).ok_or("nothing to extract")?;
        let term = run.decode(&best)?;
        if term == *start || costs.of(&term) >= costs.of(start) {
            return Ok((start.clone(), vec![]));
        }
        Ok((term, run.explain(&best, &self.options.rules)?))
    }
}
