//! What a term costs: to read, and to compute.
//!
//! *Reading* counts the symbols a person would see, as a tree; what has no notation but indices is dear. *Computing* counts floating-point operations for one
//! head over all queries: a node costs as many operations as it has entries, its axes' lengths multiplied; a value
//! that does not extend along the query axis is computed once. Equal values are computed once. The unit of a
//! transcendental function is [`TRANSCENDENTAL`] operations.

use super::extract::NodeCost;
use super::language::{Facts, Graph, Term};
use super::polynomial::Polynomial;
use crate::ir::memo::{Memo, Seen};
use crate::ir::traverse::Renaming;
use crate::ir::{Axis, AxisSet, Entropy, Expr, Func, Op, Rational, Role, Space, traverse};
use num_traits::{One, Signed};
use std::cell::RefCell;
use std::collections::HashMap;

/// Operations that one exp or log stands for.
pub const TRANSCENDENTAL: i64 = 10;

/// The lengths at which computing costs are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReferenceSizes {
    pub tokens: f64,
    pub model: f64,
    pub head: f64,
    pub heads: f64,
}

impl Default for ReferenceSizes {
    fn default() -> ReferenceSizes {
        ReferenceSizes { tokens: 512.0, model: 512.0, head: 64.0, heads: 8.0 }
    }
}

/// What to aim for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// The form a mathematician would print.
    Readable,
    /// The fewest operations at these sizes.
    Cheapest(ReferenceSizes),
}

/// An objective together with the values that are at hand for nothing.
pub struct Costs<'a> {
    objective: Objective,
    given: &'a [Expr],
    /// Terms that were asked for before.
    known: RefCell<Memo<f64>>,
}

impl NodeCost for Costs<'_> {
    fn cost(&self, node: &Term, facts: &Facts, graph: &Graph) -> f64 {
        match self.objective {
            Objective::Readable => self.reading(node, graph),
            Objective::Cheapest(sizes) => self.computing(node, facts, graph, sizes),
        }
    }
    fn shares(&self) -> bool {
        matches!(self.objective, Objective::Cheapest(_))
    }
}

impl<'a> Costs<'a> {
    pub fn new(objective: Objective, given: &'a [Expr]) -> Costs<'a> {
        Costs { objective, given, known: RefCell::default() }
    }

    /// The whole cost of a term.
    pub fn of(&self, e: &Expr) -> f64 {
        match self.objective {
            Objective::Readable => readability(e, self.given, &mut self.known.borrow_mut()),
            Objective::Cheapest(sizes) => {
                let known = self.known.borrow().get(e).copied();
                known.unwrap_or_else(|| {
                    let cost = operations_given(std::slice::from_ref(e), self.given).evaluate(sizes);
                    self.known.borrow_mut().insert(e.clone(), cost);
                    cost
                })
            }
        }
    }

    fn reading(&self, node: &Term, graph: &Graph) -> f64 {
        match node {
            Term::Atom(name) => self.of(&graph.analysis.atoms[name.0]),
            Term::Number(c) => reading_number(c),
            Term::Axis(_) | Term::Kind(_) => 0.0,
            Term::Mul(_) => 1.0,
            Term::Add(_) => 2.0,
            Term::Pow(_) => 1.0,
            Term::Sum([_, x]) if is_mean(graph, *x) => 0.0,
            Term::Sum([i, x]) => {
                let is_component = graph[*i].data.axis.is_some_and(is_component);
                let is_factored = graph[*x].nodes.iter().any(|n| !matches!(n, Term::Add(_) | Term::Sum(_)));
                if is_component && !is_factored { UNWRITABLE } else { 3.0 }
            }
            Term::Call(Func::Log, [x]) if is_sum_of_exponentials(graph, *x) => f64::INFINITY,
            Term::Call(..) => 2.0,
            Term::Select(_) => 5.0,
            Term::SmoothMax(_) | Term::Weights(_) => 2.0,
        }
    }

    fn computing(&self, node: &Term, facts: &Facts, graph: &Graph, sizes: ReferenceSizes) -> f64 {
        let entries = |axes: AxisSet| entries(axes).evaluate(sizes);
        match node {
            Term::Atom(name) => {
                let atom = &graph.analysis.atoms[name.0];
                if self.given.contains(atom) { 0.0 } else { self.of(atom) }
            }
            Term::Number(_) | Term::Axis(_) | Term::Kind(_) => 0.0,
            Term::Mul([a, b]) if [a, b].iter().any(|x| is_unit(graph, **x) || is_mask(graph, **x)) => 0.0,
            Term::Mul(_) | Term::Add(_) | Term::Pow(_) => entries(facts.axes),
            Term::Select(_) => 2.0 * entries(facts.axes),
            Term::Sum([_, x]) => entries(graph[*x].data.axes),
            Term::Call(Func::Log, [x]) if is_sum_of_exponentials(graph, *x) => f64::INFINITY,
            Term::Call(func, _) if func.is_cheap() => entries(facts.axes),
            Term::Call(..) => TRANSCENDENTAL as f64 * entries(facts.axes),
            Term::SmoothMax([_, _, s]) => (TRANSCENDENTAL + 2) as f64 * entries(graph[*s].data.axes),
            Term::Weights(_) => (TRANSCENDENTAL + 3) as f64 * entries(facts.axes),
        }
    }
}

/// What Σ over components costs that is no inner product and no norm: nobody writes the sum of a vector's entries.
const UNWRITABLE: f64 = 15.0;

fn is_component(axis: Axis) -> bool {
    matches!(axis.space, Space::Head | Space::Model)
}

/// Multiplying by ±1 is a matter of signs elsewhere.
fn is_unit(graph: &Graph, id: egg::Id) -> bool {
    graph[id].data.constant.as_ref().is_some_and(|c| c.abs().is_one())
}

/// Visibility bounds a loop; nothing is multiplied.
fn is_mask(graph: &Graph, id: egg::Id) -> bool {
    graph[id].nodes.iter().any(|n| matches!(n, Term::Atom(name) if is_visibility(&graph.analysis.atoms[name.0])))
}

fn is_visibility(e: &Expr) -> bool {
    e.as_leaf().is_some_and(|leaf| leaf.role == Role::Visible)
}

/// Σ_i p_i x_i has a name, x̄.
fn is_mean(graph: &Graph, body: egg::Id) -> bool {
    let atom = |id: egg::Id| {
        graph[id].nodes.iter().find_map(|n| match n {
            Term::Atom(name) => Some(&graph.analysis.atoms[name.0]),
            _ => None,
        })
    };
    graph[body].nodes.iter().any(|n| match n {
        Term::Mul([a, b]) => match (atom(*a), atom(*b)) {
            (Some(a), Some(b)) => is_mean_of(a, b) || is_mean_of(b, a),
            _ => false,
        },
        _ => false,
    })
}

fn is_mean_of(weights: &Expr, x: &Expr) -> bool {
    let is_weights =
        matches!(weights.op(), Op::Weights(..)) || weights.as_leaf().is_some_and(|l| l.role == Role::Weights);
    is_weights && x.as_leaf().is_some_and(|l| matches!(l.role, Role::Key | Role::Value))
}

fn is_mean_body(axis: Axis, body: &Expr) -> bool {
    match body.op() {
        Op::Mul(xs) if xs.len() == 2 && axis.space == Space::Token => {
            is_mean_of(&xs[0], &xs[1]) || is_mean_of(&xs[1], &xs[0])
        }
        _ => false,
    }
}

/// log Σ exp overflows; `smoothmax` is the stable way to say it.
fn is_sum_of_exponentials(graph: &Graph, id: egg::Id) -> bool {
    graph[id].nodes.iter().any(|n| match n {
        Term::Sum([_, x]) => graph[*x].nodes.iter().any(|n| matches!(n, Term::Call(Func::Exp, _))),
        _ => false,
    })
}

fn reading_number(c: &Rational) -> f64 {
    match (c.is_integer(), c.abs().is_one()) {
        (_, true) => 0.5,
        (true, _) => 1.0,
        _ => 1.5,
    }
}

/// Symbols a reader sees. Weights have a name, so have values at hand.
fn readability(e: &Expr, given: &[Expr], known: &mut Memo<f64>) -> f64 {
    if given.contains(e) {
        return 1.0;
    }
    if let Some(&cost) = known.get(e) {
        return cost;
    }
    let mut of = |x: &Expr| readability(x, given, known);
    let cost = match e.op() {
        Op::Const(c) => reading_number(c),
        Op::Leaf(leaf) if leaf.role == Role::Visible => 0.0,
        Op::Leaf(_) | Op::Weights(..) => 1.0,
        Op::Pow(x, r) => 1.0 + reading_number(r) + of(x),
        Op::Call(_, x) | Op::SmoothMax(_, _, x) => 2.0 + of(x),
        Op::Select(p) => 5.0 + p.iter().map(of).sum::<f64>(),
        Op::Solve(s) => 3.0 + of(&s.matrix) + of(&s.right),
        Op::Sum(axis, x) if is_mean_body(*axis, x) => of(x),
        Op::Sum(axis, x) if is_component(*axis) && matches!(x.op(), Op::Add(_) | Op::Sum(..)) => UNWRITABLE + of(x),
        Op::Sum(_, x) => 3.0 + of(x),
        Op::Mul(xs) => (xs.len() - 1) as f64 + xs.iter().map(of).sum::<f64>(),
        Op::Add(xs) => 2.0 * (xs.len() - 1) as f64 + xs.iter().map(of).sum::<f64>(),
    };
    known.insert(e.clone(), cost);
    cost
}

/// How many entries a value along these axes has.
fn entries(axes: AxisSet) -> Polynomial {
    axes.iter().fold(Polynomial::constant(1), |p, axis| p.times(&length(axis)))
}

fn length(axis: Axis) -> Polynomial {
    match axis.space {
        Space::Query | Space::Token => Polynomial::symbol("N"),
        Space::Head => Polynomial::symbol("d_h"),
        Space::Model => Polynomial::symbol("d"),
    }
}

/// Floating-point operations of several values together, one head, all queries; equal subterms count once.
pub fn operations(roots: &[Expr]) -> Polynomial {
    operations_given(roots, &[])
}

/// The same when some values are already there.
pub fn operations_given(roots: &[Expr], given: &[Expr]) -> Polynomial {
    let mut count = Count {
        given: given.iter().cloned().collect(),
        known: Seen::default(),
        renamings: HashMap::new(),
        chains: HashMap::new(),
        total: Polynomial::default(),
    };
    roots.iter().for_each(|root| count.add(root));
    count.total
}

/// A count under way.
struct Count {
    given: Seen,
    known: Seen,
    /// What terms are called along other axes.
    renamings: HashMap<Axis, Renaming>,
    /// Chains of operands along the same axes cost the same.
    chains: HashMap<Vec<AxisSet>, Polynomial>,
    total: Polynomial,
}

impl Count {
    fn add(&mut self, e: &Expr) {
        if self.given.contains(e) {
            return;
        }
        let canonical = self.canonical(e);
        if !self.known.insert(canonical) {
            return;
        }
        e.children().into_iter().for_each(|x| self.add(x));
        let own = self.own_operations(e);
        self.total = self.total.plus(&own);
    }

    /// The term with its only token axis and its only component axis at index 0: g·v_i and g·v_j are one computation.
    fn canonical(&mut self, e: &Expr) -> Expr {
        [Space::Token, Space::Head].into_iter().fold(e.clone(), |e, space| {
            let axes = e.axes();
            let mut own = axes.iter().filter(|a| a.space == space);
            match (own.next(), own.next()) {
                (Some(axis), None) => {
                    let renaming = || Renaming::new(axis, Axis::new(space, 0));
                    self.renamings.entry(axis).or_insert_with(renaming).of(&e)
                }
                _ => e,
            }
        })
    }
    /// The operations a node performs on its finished operands.
    fn own_operations(&mut self, e: &Expr) -> Polynomial {
        let per_entry = |n: i64, axes: AxisSet| entries(axes).scale(n);
        match e.op() {
            Op::Const(_) | Op::Leaf(_) => Polynomial::default(),
            Op::Pow(..) => per_entry(1, e.axes()),
            Op::Call(func, _) => per_entry(if func.is_cheap() { 1 } else { TRANSCENDENTAL }, e.axes()),
            Op::Select(_) => per_entry(2, e.axes()),
            // ⅔n³ + 2n² for a matrix of n × n, once for every right side.
            Op::Solve(s) => {
                let system = e.axes().without(s.column);
                let n = length(s.column);
                let (square, cube) = (n.times(&n), n.times(&n).times(&n));
                entries(system).times(&cube.plus(&square.scale(2)))
            }
            Op::Sum(_, x) => per_entry(1, x.axes()),
            Op::SmoothMax(_, _, s) => per_entry(TRANSCENDENTAL + 2, s.axes()),
            Op::Weights(Entropy::Shannon, ..) => per_entry(TRANSCENDENTAL + 3, e.axes()),
            // A threshold search looks at each score a few dozen times at most; a transcendental's worth on average.
            Op::Weights(..) => per_entry(2 * TRANSCENDENTAL, e.axes()),
            Op::Mul(xs) => self.chain(xs, |x| is_visibility(x) || x.as_const().is_some_and(|c| c.abs().is_one())),
            Op::Add(xs) => self.chain(xs, |_| false),
        }
    }

    fn chain(&mut self, xs: &[Expr], is_free: impl Fn(&Expr) -> bool) -> Polynomial {
        let operands: Vec<AxisSet> = xs.iter().filter(|x| !is_free(x)).map(|x| x.axes()).collect();
        self.chains.entry(operands).or_insert_with_key(|operands| chain(operands.clone())).clone()
    }
}

/// A chain of binary operations; of all pairs, the one with the smallest result is formed first, and of those the first.
fn chain(mut operands: Vec<AxisSet>) -> Polynomial {
    let mut sizes: HashMap<AxisSet, f64> = HashMap::new();
    let mut size =
        |axes: AxisSet| *sizes.entry(axes).or_insert_with(|| entries(axes).evaluate(ReferenceSizes::default()));
    let mut total = Polynomial::default();
    while operands.len() > 1 {
        // Operands along the same axes are alike: the first two of each kind are enough to look at.
        let mut first: Vec<usize> = Vec::new();
        for (at, axes) in operands.iter().enumerate() {
            if first.iter().filter(|&&i| operands[i] == *axes).count() < 2 {
                first.push(at);
            }
        }
        let pairs = (0..first.len()).flat_map(|i| (i + 1..first.len()).map(move |j| (i, j)));
        let pairs = pairs.map(|(i, j)| (first[i], first[j]));
        let sized: Vec<(f64, usize, usize)> =
            pairs.map(|(i, j)| (size(operands[i].union(operands[j])), i, j)).collect();
        let Some(&(_, i, j)) = sized.iter().min_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        let both = operands[i].union(operands.remove(j));
        operands[i] = both;
        total = total.plus(&entries(both));
    }
    total
}

/// How many times a term runs over the tokens.
pub fn token_passes(e: &Expr) -> usize {
    traverse::subterms(e).iter().filter(|x| matches!(x.op(), Op::Sum(a, _) if a.space == Space::Token)).count()
}
