//! One matrix product instead of two: Σ_n a k + c Σ_n b k = Σ_n (a + c b) k.
//!
//! Gradients arrive as sums of chain-rule terms, and several of them reduce over the same tokens with the same vectors.
//! Work per pair of a query and a token is cheap, a product with d_h components per pair is not: so the terms are added
//! before they are reduced, and not after. Factors that do not change along the reduction move inside with them, but for
//! those that all terms share.

use super::graph::{Built, Fold, Graph, Id, Map, Misfit, Op};
use super::schedule::reachable;
use crate::ir::{Axis, AxisSet};
use std::collections::{BTreeMap, BTreeSet};

/// The same values with fewer reductions. What is `given` is not computed and stays as it is.
pub fn merge(graph: &mut Graph, roots: &[Id], given: &BTreeSet<Id>) -> Result<Vec<Id>, Misfit> {
    let mut uses: BTreeMap<Id, usize> = roots.iter().map(|root| (*root, 1)).collect();
    for id in reachable(graph, &roots.iter().copied().collect(), given) {
        if !given.contains(&id) {
            graph[id].op.operands().into_iter().for_each(|o| *uses.entry(o).or_default() += 1);
        }
    }
    let mut merging = Merging { graph, given, uses, done: BTreeMap::new() };
    roots.iter().map(|root| merging.merged(*root)).collect()
}

/// A sum over tokens or over queries of numbers per pair, alone or times a vector.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reduction {
    Apply(Id),
    Gather(Id),
    Sum(Axis),
}

/// A term of a sum: factors, and perhaps one reduction of a tile.
struct Term {
    factors: Vec<Id>,
    reduced: Option<(Reduction, Id)>,
}

struct Merging<'a> {
    graph: &'a mut Graph,
    given: &'a BTreeSet<Id>,
    uses: BTreeMap<Id, usize>,
    done: BTreeMap<Id, Id>,
}

impl Merging<'_> {
    fn merged(&mut self, id: Id) -> Built {
        if self.given.contains(&id) {
            return Ok(id);
        }
        if let Some(done) = self.done.get(&id) {
            return Ok(*done);
        }
        let new = match self.terms(id) {
            Some(terms) => self.sum(terms)?,
            None => {
                let op = self.graph[id].op.clone();
                let operands = op.operands();
                let new = self.all(&operands)?;
                if new == operands { id } else { self.graph.with_operands(&op, &new)? }
            }
        };
        self.done.insert(id, new);
        Ok(new)
    }

    fn all(&mut self, ids: &[Id]) -> Result<Vec<Id>, Misfit> {
        ids.iter().map(|&id| self.merged(id)).collect()
    }

    /// The terms of a sum, if two of them belong together.
    fn terms(&self, id: Id) -> Option<Vec<Term>> {
        if !matches!(self.graph[id].op, Op::Map(Map::Add, _)) {
            return None;
        }
        let mut terms = Vec::new();
        self.expand(id, Vec::new(), &mut terms, true);
        let keys: Vec<_> = terms.iter().filter_map(|term| self.key(term)).collect();
        let distinct: BTreeSet<_> = keys.iter().collect();
        (distinct.len() < keys.len()).then_some(terms)
    }

    /// Whether nobody else looks at a value.
    fn is_private(&self, id: Id) -> bool {
        self.uses.get(&id) == Some(&1) && !self.given.contains(&id)
    }

    fn expand(&self, id: Id, factors: Vec<Id>, terms: &mut Vec<Term>, is_whole: bool) {
        let is_open = is_whole || self.is_private(id);
        match (&self.graph[id].op, self.reduction(id)) {
            (Op::Map(Map::Add, parts), _) if is_open => {
                parts.iter().for_each(|&part| self.expand(part, factors.clone(), terms, false));
            }
            (Op::Map(Map::Mul, parts), _) if is_open => {
                let is_sum = |id: &Id| {
                    let is_add = matches!(self.graph[*id].op, Op::Map(Map::Add, _));
                    self.is_private(*id) && (is_add || self.reduction(*id).is_some())
                };
                match parts.iter().position(is_sum) {
                    Some(i) => {
                        let others = parts.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, part)| *part);
                        self.expand(parts[i], factors.into_iter().chain(others).collect(), terms, false);
                    }
                    None => terms.push(Term { factors: [factors, parts.clone()].concat(), reduced: None }),
                }
            }
            (_, Some(reduced)) if self.is_private(id) => terms.push(Term { factors, reduced: Some(reduced) }),
            _ => terms.push(Term { factors: [factors, vec![id]].concat(), reduced: None }),
        }
    }

    fn reduction(&self, id: Id) -> Option<(Reduction, Id)> {
        let pairs = AxisSet::of(&[Axis::T, Axis::N]);
        match self.graph[id].op {
            Op::Apply { tile, key } => Some((Reduction::Apply(key), tile)),
            Op::Gather { tile, row } => Some((Reduction::Gather(row), tile)),
            Op::Fold(Fold::Sum, axis, tile) if self.graph.axes(tile) == pairs => Some((Reduction::Sum(axis), tile)),
            _ => None,
        }
    }

    /// Whether a factor does not change along a reduction, and not along components either.
    fn moves_inside(&self, factor: Id, reduction: Reduction) -> bool {
        let along = match reduction {
            Reduction::Apply(_) => Axis::N,
            Reduction::Gather(_) => Axis::T,
            Reduction::Sum(axis) => axis,
        };
        let axes = self.graph.axes(factor);
        !axes.contains(along) && !axes.contains(Axis::E)
    }

    /// Terms with the same key can be added before they are reduced.
    fn key(&self, term: &Term) -> Option<(Reduction, Vec<Id>)> {
        let (reduction, _) = term.reduced?;
        let mut outside: Vec<Id> = term.factors.iter().copied().filter(|f| !self.moves_inside(*f, reduction)).collect();
        outside.sort();
        Some((reduction, outside))
    }

    fn sum(&mut self, terms: Vec<Term>) -> Built {
        let mut groups: BTreeMap<(Reduction, Vec<Id>), Vec<Term>> = BTreeMap::new();
        let mut sum = Vec::new();
        for term in terms {
            match self.key(&term) {
                Some(key) => groups.entry(key).or_default().push(term),
                None => {
                    let factors = self.all(&term.factors)?;
                    sum.push(self.graph.mul(&factors));
                }
            }
        }
        for ((reduction, outside), members) in groups {
            let inside =
                |term: &Term| -> Vec<Id> { term.factors.iter().copied().filter(|f| !outside.contains(f)).collect() };
            // −1 moves inside, so that signs meet there.
            let is_shared =
                |f: &Id| members.iter().all(|m| m.factors.contains(f)) && !matches!(self.graph[*f].op, Op::Number(_));
            let shared: BTreeSet<Id> = inside(&members[0]).into_iter().filter(is_shared).collect();
            let mut tiles = Vec::new();
            for member in &members {
                let mut own = inside(member);
                for factor in &shared {
                    if let Some(at) = own.iter().position(|f| f == factor) {
                        own.remove(at);
                    }
                }
                own.extend(member.reduced.map(|(_, tile)| tile));
                let own = self.all(&own)?;
                tiles.push(self.graph.mul(&own));
            }
            let tile = self.graph.add(&tiles);
            let reduced = match reduction {
                Reduction::Apply(key) => {
                    let key = self.merged(key)?;
                    self.graph.apply(tile, key)?
                }
                Reduction::Gather(row) => {
                    let row = self.merged(row)?;
                    self.graph.gather(tile, row)?
                }
                Reduction::Sum(axis) => self.graph.fold(Fold::Sum, axis, tile),
            };
            let mut factors = self.all(&outside.into_iter().chain(shared).collect::<Vec<Id>>())?;
            factors.push(reduced);
            sum.push(self.graph.mul(&factors));
        }
        Ok(self.graph.add(&sum))
    }
}
