//! What a term costs: to read, and to compute.
//!
//! *Reading* counts the symbols a person would see, as a tree. *Computing* counts floating-point operations for one
//! head over all queries: a node costs as many operations as it has entries, its axes' lengths multiplied; a value
//! that does not extend along the query axis is computed once. Equal values are computed once. The unit of a
//! transcendental function is [`TRANSCENDENTAL`] operations.

use super::extract::NodeCost;
use super::language::{Facts, Graph, Term};
use super::polynomial::Polynomial;
use crate::ir::{Axis, AxisSet, Entropy, Expr, Func, Op, Rational, Role, Space, traverse};
use num_traits::{One, Signed};

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
    pub objective: Objective,
    pub given: &'a [Expr],
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

impl Costs<'_> {
    /// The whole cost of a term.
    pub fn of(&self, e: &Expr) -> f64 {
        match self.objective {
            Objective::Readable => readability(e, self.given),
            Objective::Cheapest(sizes) => operations_given(std::slice::from_ref(e), self.given).evaluate(sizes),
        }
    }

    fn reading(&self, node: &Term, graph: &Graph) -> f64 {
        match node {
            Term::Atom(name) => readability(&graph.analysis.atoms[name.0], self.given),
            Term::Number(c) => reading_number(c),
            Term::Axis(_) | Term::Kind(_) => 0.0,
            Term::Mul(_) => 1.0,
            Term::Add(_) => 2.0,
            Term::Pow(_) => 1.0,
            Term::Sum([_, x]) if is_mean(graph, *x) => 0.0,
            Term::Sum(_) => 3.0,
            Term::Log([x]) if is_sum_of_exponentials(graph, *x) => f64::INFINITY,
            Term::Exp(_) | Term::Log(_) | Term::Abs(_) | Term::Sign(_) => 2.0,
            Term::Select(_) => 5.0,
            Term::SmoothMax(_) | Term::Weights(_) => 2.0,
        }
    }

    fn computing(&self, node: &Term, facts: &Facts, graph: &Graph, sizes: ReferenceSizes) -> f64 {
        let entries = |axes: AxisSet| entries(axes).evaluate(sizes);
        match node {
            Term::Atom(name) => {
                let atom = &graph.analysis.atoms[name.0];
                if self.given.contains(atom) {
                    0.0
                } else {
                    operations_given(std::slice::from_ref(atom), self.given).evaluate(sizes)
                }
            }
            Term::Number(_) | Term::Axis(_) | Term::Kind(_) => 0.0,
            Term::Mul([a, b]) if [a, b].iter().any(|x| is_unit(graph, **x) || is_mask(graph, **x)) => 0.0,
            Term::Mul(_) | Term::Add(_) | Term::Pow(_) | Term::Abs(_) | Term::Sign(_) => entries(facts.axes),
            Term::Select(_) => 2.0 * entries(facts.axes),
            Term::Sum([_, x]) => entries(graph[*x].data.axes),
            Term::Log([x]) if is_sum_of_exponentials(graph, *x) => f64::INFINITY,
            Term::Exp(_) | Term::Log(_) => TRANSCENDENTAL as f64 * entries(facts.axes),
            Term::SmoothMax([_, _, s]) => (TRANSCENDENTAL + 2) as f64 * entries(graph[*s].data.axes),
            Term::Weights(_) => (TRANSCENDENTAL + 3) as f64 * entries(facts.axes),
        }
    }
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
        Term::Sum([_, x]) => graph[*x].nodes.iter().any(|n| matches!(n, Term::Exp(_))),
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
fn readability(e: &Expr, given: &[Expr]) -> f64 {
    if given.contains(e) {
        return 1.0;
    }
    let inside = |xs: &[Expr]| xs.iter().map(|x| readability(x, given)).sum::<f64>();
    match e.op() {
        Op::Const(c) => reading_number(c),
        Op::Leaf(leaf) if leaf.role == Role::Visible => 0.0,
        Op::Leaf(_) | Op::Weights(..) => 1.0,
        Op::Pow(x, r) => 1.0 + reading_number(r) + readability(x, given),
        Op::Call(_, x) | Op::SmoothMax(_, _, x) => 2.0 + readability(x, given),
        Op::Select(p) => 5.0 + inside(&p[..]),
        Op::Solve(s) => 3.0 + readability(&s.matrix, given) + readability(&s.right, given),
        Op::Sum(axis, x) if is_mean_body(*axis, x) => readability(x, given),
        Op::Sum(_, x) => 3.0 + readability(x, given),
        Op::Mul(xs) => (xs.len() - 1) as f64 + inside(xs),
        Op::Add(xs) => 2.0 * (xs.len() - 1) as f64 + inside(xs),
    }
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
    let mut seen: Vec<Expr> = Vec::new();
    let mut known: std::collections::HashSet<Expr> = Default::default();
    for root in roots {
        collect(root, given, &mut known, &mut seen);
    }
    seen.iter().fold(Polynomial::default(), |total, e| total.plus(&own_operations(e)))
}

fn collect(e: &Expr, given: &[Expr], known: &mut std::collections::HashSet<Expr>, out: &mut Vec<Expr>) {
    if given.contains(e) || !known.insert(canonical(e)) {
        return;
    }
    e.children().into_iter().for_each(|x| collect(x, given, known, out));
    out.push(e.clone());
}

/// The term with its only token axis and its only component axis at index 0: g·v_i and g·v_j are one computation.
fn canonical(e: &Expr) -> Expr {
    [Space::Token, Space::Head].into_iter().fold(e.clone(), |e, space| {
        let axes = e.axes();
        let mut own = axes.iter().filter(|a| a.space == space);
        match (own.next(), own.next()) {
            (Some(axis), None) => traverse::rename(&e, axis, Axis::new(space, 0)),
            _ => e,
        }
    })
}

/// The operations a node performs on its finished operands.
fn own_operations(e: &Expr) -> Polynomial {
    let per_entry = |n: i64, axes: AxisSet| entries(axes).scale(n);
    match e.op() {
        Op::Const(_) | Op::Leaf(_) => Polynomial::default(),
        Op::Pow(..) => per_entry(1, e.axes()),
        Op::Call(Func::Exp | Func::Log, _) => per_entry(TRANSCENDENTAL, e.axes()),
        Op::Call(..) => per_entry(1, e.axes()),
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
        Op::Mul(xs) => chain(xs, |x| is_visibility(x) || x.as_const().is_some_and(|c| c.abs().is_one())),
        Op::Add(xs) => chain(xs, |_| false),
    }
}

/// A chain of binary operations; of all pairs, the one with the smallest result is formed first.
fn chain(xs: &[Expr], is_free: impl Fn(&Expr) -> bool) -> Polynomial {
    let size = |axes: AxisSet| entries(axes).evaluate(ReferenceSizes::default());
    let mut operands: Vec<AxisSet> = xs.iter().filter(|x| !is_free(x)).map(|x| x.axes()).collect();
    let mut total = Polynomial::default();
    while operands.len() > 1 {
        let pairs = (0..operands.len()).flat_map(|i| (i + 1..operands.len()).map(move |j| (i, j)));
        let union = |(i, j): &(usize, usize)| size(operands[*i].union(operands[*j]));
        let Some((i, j)) = pairs.min_by(|a, b| union(a).total_cmp(&union(b))) else { break };
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
