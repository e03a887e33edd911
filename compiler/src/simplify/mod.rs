//! Simplification: the same value, written better, with a proof.
//!
//! Two tiers. Tier A is the normal form every term is built in ([`crate::ir::expr`]). Tier B is this module: a term is
//! cut into *regions* — sums, products and Σ over atoms — from the inside out; each region is multiplied out by the
//! expanding rules ([`expand`]), saturated in an e-graph ([`saturate`]) and extracted for the objective
//! ([`extract`], [`cost`]). Every result carries its proof, replayed by a checker that trusts nothing
//! ([`proof`]), and is compared with the original on random values; should either fail, the original stands.

pub mod cost;
pub mod expand;
mod explain;
pub mod extract;
pub mod language;
pub mod pattern;
pub mod polynomial;
pub mod proof;
mod quotients;
pub mod rules;
pub mod saturate;

pub use cost::{Objective, ReferenceSizes};
pub use proof::Proof;
pub use rules::RuleSet;
use rules::memory::{Found, Key};
pub use saturate::Limits;

use crate::ir::memo::Memo;
use crate::ir::sample::{self, Norm};
use crate::ir::{Axis, Budget, Expr, Func, Leaf, Op, Space, rational, traverse};
use cost::Costs;
use expand::Extent;
use proof::{Lemma, Step};
use saturate::Saturated;
use std::collections::HashSet;
use std::sync::Arc;

/// How to simplify.
#[derive(Clone, Debug)]
pub struct Options {
    pub rules: RuleSet,
    pub objective: Objective,
    pub limits: Limits,
    /// What all simplifications with these options may spend together. A region that was seen before costs what it cost
    /// the first time, so that what a stage can afford does not depend on the stages before it.
    pub budget: Budget,
    /// Values that are already there and cost nothing.
    pub given: Vec<Expr>,
    /// Assumptions ‖x‖ = r: rules for the search, and a restriction on the values it is compared on.
    pub norms: Vec<Norm>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            rules: RuleSet::default(),
            objective: Objective::Readable,
            limits: Limits::default(),
            budget: Budget::of(WORK),
            given: vec![],
            norms: vec![],
        }
    }
}

/// A simplified term, its proof, and what happened on the way.
#[derive(Clone, Debug)]
pub struct Simplified {
    pub term: Expr,
    pub proof: Proof,
    /// A limit was reached or the budget spent: the term is right, but perhaps not the simplest.
    pub hit_limit: bool,
    /// Regions that were left alone because a proof or a comparison failed.
    pub rejected: Vec<String>,
}

impl Simplified {
    /// What a proof shows, if it holds and so do the numbers.
    pub fn proven(proof: Proof, options: &Options) -> Option<Simplified> {
        let holds = validate(&proof, options).is_ok();
        holds.then(|| Simplified { term: proof.end.clone(), proof, hit_limit: false, rejected: vec![] })
    }
    /// A term nothing is to be done about.
    pub fn as_it_is(e: &Expr) -> Simplified {
        Simplified { term: e.clone(), proof: Proof::trivial(e), hit_limit: false, rejected: vec![] }
    }
}

/// Nodes that the simplifications of one stage may look at together; about a second.
const WORK: usize = 1_000_000;

/// Rounds after which a term counts as settled.
const MAX_ROUNDS: usize = 4;

impl Options {
    /// The same, with a budget of its own.
    pub fn afresh(mut self) -> Options {
        self.budget = self.budget.again();
        self
    }
    /// The same, assuming ‖x‖ = r.
    pub fn assuming(mut self, norms: Vec<Norm>) -> Options {
        let more = norms.iter().flat_map(|(vector, radius)| rules::constraint_rules(vector, radius)).collect();
        self.rules = self.rules.with(more);
        self.norms = norms;
        self
    }
    /// The same, with values at hand (up to a number), wherever their component axis is bound too.
    pub fn given(mut self, given: Vec<Expr>) -> Options {
        let bound = |e: &Expr| traverse::rename(e, Axis::E, Axis::new(Space::Head, 1));
        let plain = |e: &Expr| e.split_coefficient().1;
        self.given = given.iter().flat_map(|e| [plain(e), bound(&plain(e))]).collect();
        self.given.dedup();
        self
    }
}

/// Two forms of one term may differ by this much in f64.
const TOLERANCE: f64 = 1e-8;

/// The best way to write `e` under the options.
pub fn simplify(e: &Expr, options: &Options) -> Simplified {
    let mut driver = Driver::new(options);
    driver.whole(e);
    // The result is what the lemmas make of the term, so that it is always what is proven.
    let proof = Proof::from_lemmas(e, driver.lemmas.iter().map(|lemma| &**lemma));
    let term = proof.end.clone();
    let mut result = Simplified { term, proof, hit_limit: driver.hit_limit, rejected: driver.rejected };
    if let Err(problem) = validate(&result.proof, options) {
        result.rejected.push(problem);
        result.term = e.clone();
        result.proof = Proof::trivial(e);
    }
    result
}

/// The best way to write a sum, part by part: what comes from different places is not mixed, and the time grows with
/// the number of parts.
pub fn simplify_sum(parts: &[Expr], options: &Options) -> Simplified {
    let each: Vec<Simplified> = parts.iter().map(|part| simplify(part, options)).collect();
    let start = Expr::add(parts.iter().cloned());
    let proof = Proof::from_lemmas(&start, each.iter().flat_map(|s| &s.proof.lemmas));
    let result = Simplified {
        term: proof.end.clone(),
        proof,
        hit_limit: each.iter().any(|s| s.hit_limit),
        rejected: each.iter().flat_map(|s| s.rejected.iter().cloned()).collect(),
    };
    let is_done = result.term == Expr::add(each.iter().map(|s| s.term.clone()));
    if is_done && validate(&result.proof, options).is_ok() { result } else { simplify(&start, options) }
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

/// One simplification under way.
struct Driver<'a> {
    options: &'a Options,
    /// The inputs of each value at hand.
    given: Vec<(&'a Expr, Vec<Leaf>)>,
    lemmas: Vec<Arc<Lemma>>,
    hit_limit: bool,
    rejected: Vec<String>,
    /// What became of whole terms, and of parts of regions.
    wholes: Memo<Done>,
    parts: Memo<Done>,
}

/// What became of a term, and by which lemmas.
#[derive(Clone)]
struct Done {
    end: Expr,
    lemmas: Vec<Arc<Lemma>>,
}

impl<'a> Driver<'a> {
    fn new(options: &'a Options) -> Driver<'a> {
        let given = options.given.iter().map(|value| (value, traverse::inputs(value))).collect();
        let (wholes, parts) = (Memo::default(), Memo::default());
        Driver { options, given, lemmas: vec![], hit_limit: false, rejected: vec![], wholes, parts }
    }

    /// The outcome for a term, with all lemmas since the given one.
    fn done(&self, end: &Expr, first: usize) -> Done {
        Done { end: end.clone(), lemmas: distinct(&self.lemmas[first..]) }
    }

    fn again(&mut self, done: Done) -> Expr {
        self.lemmas.extend(done.lemmas);
        done.end
    }

    /// Simplifies a whole term inside out, until nothing changes. A term that occurs often is simplified once.
    fn whole(&mut self, e: &Expr) -> Expr {
        if let Some(done) = self.wholes.get(e).cloned() {
            return self.again(done);
        }
        let first = self.lemmas.len();
        let mut current = e.clone();
        for _ in 0..MAX_ROUNDS {
            let inside = self.below(&current, true);
            let next = self.region(&inside);
            if next == current {
                break;
            }
            current = next;
        }
        self.wholes.insert(e.clone(), self.done(&current, first));
        current
    }

    /// What is below a part of a region. A part that occurs often is simplified once.
    fn part(&mut self, e: &Expr) -> Expr {
        if let Some(done) = self.parts.get(e).cloned() {
            return self.again(done);
        }
        let first = self.lemmas.len();
        let end = self.below(e, false);
        self.parts.insert(e.clone(), self.done(&end, first));
        end
    }

    /// Simplifies the parts a region does not open, each as a region of its own.
    fn below(&mut self, e: &Expr, is_root: bool) -> Expr {
        match e.op() {
            Op::Const(_) | Op::Leaf(_) => e.clone(),
            Op::Add(_) | Op::Mul(_) | Op::Sum(..) => traverse::map_children(e, |x| self.part(x)),
            Op::Pow(_, r) if r.is_integer() && r > &rational::int(0) && !is_root => {
                traverse::map_children(e, |x| self.part(x))
            }
            _ => {
                let inside = traverse::map_children(e, |x| self.whole(x));
                let is_opaque = !matches!(inside.op(), Op::Add(_) | Op::Mul(_) | Op::Sum(..));
                if is_root || !is_opaque { inside } else { self.region(&inside) }
            }
        }
    }

    /// The best form of a region whose atoms are settled.
    fn region(&mut self, e: &Expr) -> Expr {
        // No rule looks at these from outside.
        let is_settled = match e.op() {
            Op::Const(_) | Op::Leaf(_) => true,
            Op::Call(func, _) => *func != Func::Log,
            Op::Pow(_, r) => !r.is_integer() || r < &rational::int(0),
            _ => false,
        };
        if is_settled {
            return e.clone();
        }
        // Written out, it is far larger than a graph may get.
        if language::opened(e) > 4 * self.options.limits.nodes {
            self.options.budget.refuse();
            self.hit_limit = true;
            return e.clone();
        }
        let found = if self.options.budget.is_spent() { self.tidied(e) } else { self.found(e) };
        self.hit_limit |= found.hit_limit;
        self.rejected.extend(found.rejected);
        let end = found.lemma.end.clone();
        self.lemmas.extend((!found.lemma.steps.is_empty()).then_some(found.lemma));
        end
    }

    /// What is left when the budget is spent: assumptions are put in, and everything else stays.
    fn tidied(&self, e: &Expr) -> Found {
        let rules = &self.options.rules;
        let assumes = rules.rules.iter().any(|rule| rule.is_assumption());
        let tidied = assumes.then(|| expand::expand(e, rules, Extent::Tidy, &self.options.budget)).flatten();
        let (end, steps) = tidied.unwrap_or_else(|| (e.clone(), vec![]));
        let lemma = Arc::new(Lemma { start: e.clone(), steps, end });
        Found { lemma, hit_limit: true, rejected: vec![], work: 0 }
    }

    /// What the rules make of a region, from memory if they know it; either way it costs the same.
    fn found(&self, e: &Expr) -> Found {
        let Options { rules, objective, limits, budget, .. } = self.options;
        let given = self.relevant(e);
        let key = Key { region: e.clone(), given: given.clone(), objective: *objective, limits: *limits };
        if let Some(found) = rules.recall(&key) {
            budget.spend(found.work);
            return found;
        }
        let before = budget.spent();
        let mut found = self.search(e, given);
        found.work = budget.spent() - before;
        let end = found.lemma.end.clone();
        let settled = Arc::new(Lemma { start: end.clone(), steps: vec![], end: end.clone() });
        rules.remember(Key { region: end, ..key.clone() }, &Found { lemma: settled, ..found.clone() });
        rules.remember(key, &found);
        found
    }

    /// The values at hand that could occur in a region: all their inputs do.
    fn relevant(&self, e: &Expr) -> Vec<Expr> {
        let occurs = |(g, inputs): &&(&Expr, Vec<Leaf>)| *g != e && inputs.iter().all(|i| traverse::mentions(e, i));
        self.given.iter().filter(occurs).map(|(g, _)| (*g).clone()).collect()
    }

    /// The best form of a region: one e-graph run from the tidied form, one from the expanded.
    fn search(&self, e: &Expr, given: Vec<Expr>) -> Found {
        let Options { rules, objective, limits, budget, .. } = self.options;
        let costs = Costs::new(*objective, &given);
        let lemma = Arc::new(Lemma { start: e.clone(), steps: vec![], end: e.clone() });
        let mut found = Found { lemma, hit_limit: false, rejected: vec![], work: 0 };
        let mut candidates: Vec<Candidate> = Vec::new();
        for (start, before) in starts(e, rules, budget) {
            candidates.push(Candidate {
                cost: costs.of(&start),
                term: start.clone(),
                before: before.clone(),
                run: None,
            });
            let run = saturate::saturate(&start, &given, rules, *limits, budget);
            found.hit_limit |= run.hit_limit;
            let Some(best) = extract::extract(&run.graph, run.root, &costs, budget) else { continue };
            match run.decode(&best) {
                Ok(term) if term != start => {
                    candidates.push(Candidate { cost: costs.of(&term), term, before, run: Some((run, best)) })
                }
                Ok(_) => {}
                Err(problem) => found.rejected.push(problem),
            }
        }
        // Of equal costs, fewer passes over the tokens; then the earlier and simpler candidate (the sort is stable).
        candidates.sort_by(|a, b| {
            a.cost.total_cmp(&b.cost).then(cost::token_passes(&a.term).cmp(&cost::token_passes(&b.term)))
        });
        for candidate in candidates {
            match candidate.lemma(e, rules, budget) {
                Ok(Some(lemma)) => {
                    found.lemma = Arc::new(lemma);
                    break;
                }
                Ok(None) => found.hit_limit = true,
                Err(problem) => found.rejected.push(problem),
            }
        }
        found
    }
}

/// The lemmas without repetitions.
fn distinct(lemmas: &[Arc<Lemma>]) -> Vec<Arc<Lemma>> {
    let mut seen = HashSet::new();
    lemmas.iter().filter(|lemma| seen.insert(Arc::as_ptr(lemma))).cloned().collect()
}

/// A way to write a region: found by directed steps, and perhaps by an e-graph run after them.
struct Candidate {
    cost: f64,
    term: Expr,
    before: Vec<Step>,
    run: Option<(Saturated, egg::RecExpr<language::Term>)>,
}

impl Candidate {
    /// The proof that the region equals the candidate, tidied once more; nothing when it is too long.
    fn lemma(self, start: &Expr, rules: &RuleSet, budget: &Budget) -> Result<Option<Lemma>, String> {
        let mut steps = self.before;
        if let Some((mut run, best)) = self.run {
            let Some(explained) = run.explain(&best, rules, budget)? else { return Ok(None) };
            steps.extend(explained);
        }
        let (end, more) = expand::expand(&self.term, rules, Extent::Tidy, budget).unwrap_or((self.term, vec![]));
        steps.extend(more);
        Ok(Some(Lemma { start: start.clone(), steps, end }))
    }
}

/// The forms an e-graph starts from. An assumption that applies is put in, whatever it costs.
fn starts(e: &Expr, rules: &RuleSet, budget: &Budget) -> Vec<(Expr, Vec<Step>)> {
    let mut starts: Vec<(Expr, Vec<Step>)> = Vec::new();
    for extent in [Extent::Tidy, Extent::Expand] {
        // What is tidy already is multiplied out as it is: what a quotient has lost does not come back.
        let (from, before) = starts.first().cloned().unwrap_or_else(|| (e.clone(), vec![]));
        if let Some((term, steps)) = expand::expand(&from, rules, extent, budget)
            && !starts.iter().any(|(other, _)| *other == term)
        {
            starts.push((term, before.into_iter().chain(steps).collect()));
        }
    }
    let assumes = |steps: &[Step]| steps.iter().any(|s| rules.get(&s.rule).is_some_and(|r| r.is_assumption()));
    if starts.iter().any(|(_, steps)| assumes(steps)) {
        starts.retain(|(_, steps)| assumes(steps));
    }
    starts
}
