//! One matrix product less: Σ_e g Σ_n a v = Σ_n a (g·v).
//!
//! The gradient of a number is a sum over components of g and of sums over tokens, each of which is a matrix product. Where the
//! numbers g·v of all pairs are computed anyway, as they are wherever the weights have a gradient, they take the product's
//! place: what is left is work per pair.

use super::graph::{Built, Fold, Graph, Id, Map, Misfit, Op};
use super::schedule::reachable;
use crate::ir::Axis;
use std::collections::{BTreeMap, BTreeSet};

/// The same values with fewer matrix products. What is `given` is not computed and stays as it is.
pub fn with_fewer_products(graph: &mut Graph, roots: &[Id], given: &BTreeSet<Id>) -> Result<Vec<Id>, Misfit> {
    let computed = reachable(graph, &roots.iter().copied().collect(), given);
    let mut uses: BTreeMap<Id, usize> = roots.iter().map(|root| (*root, 1)).collect();
    for id in computed.iter().filter(|id| !given.contains(id)) {
        graph[*id].op.operands().into_iter().for_each(|o| *uses.entry(o).or_default() += 1);
    }
    let is_dot = |id: &&Id| matches!(graph[**id].op, Op::Dot { .. });
    let dots = computed.iter().filter(is_dot).copied().collect();
    let mut pass = Pass { graph, given, uses, dots, done: BTreeMap::new() };
    roots.iter().map(|root| pass.rewritten(*root)).collect()
}

struct Pass<'a> {
    graph: &'a mut Graph,
    given: &'a BTreeSet<Id>,
    uses: BTreeMap<Id, usize>,
    /// The numbers x·y per pair that are computed anyway.
    dots: BTreeSet<Id>,
    done: BTreeMap<Id, Id>,
}

impl Pass<'_> {
    fn rewritten(&mut self, id: Id) -> Built {
        if self.given.contains(&id) {
            return Ok(id);
        }
        if let Some(done) = self.done.get(&id) {
            return Ok(*done);
        }
        let new = match self.graph[id].op.clone() {
            Op::Fold(Fold::Sum, Axis::E, body) if self.has_product_to_spare(body) => self.sum(body)?,
            op => {
                let operands = op.operands();
                let new: Result<Vec<Id>, Misfit> = operands.iter().map(|id| self.rewritten(*id)).collect();
                let new = new?;
                if new == operands { id } else { self.graph.with_operands(&op, &new)? }
            }
        };
        self.done.insert(id, new);
        Ok(new)
    }

    fn is_private(&self, id: Id) -> bool {
        self.uses.get(&id) == Some(&1) && !self.given.contains(&id)
    }

    fn has_product_to_spare(&mut self, body: Id) -> bool {
        let terms = self.terms(body);
        terms.iter().any(|factors| self.spare(factors).is_some())
    }

    /// The body of a sum as a sum of products.
    fn terms(&self, body: Id) -> Vec<Vec<Id>> {
        let mut terms = vec![];
        self.expand(body, vec![], &mut terms);
        terms
    }

    fn expand(&self, id: Id, factors: Vec<Id>, terms: &mut Vec<Vec<Id>>) {
        match &self.graph[id].op {
            Op::Map(Map::Add, parts) => parts.iter().for_each(|part| self.expand(*part, factors.clone(), terms)),
            Op::Map(Map::Mul, parts) => {
                let is_sum = |id: &Id| matches!(self.graph[*id].op, Op::Map(Map::Add, _)) && self.is_private(*id);
                let at = parts.iter().position(is_sum);
                let others = parts.iter().enumerate().filter(|(i, _)| Some(*i) != at).map(|(_, part)| *part);
                let all = factors.into_iter().chain(others).collect();
                match at {
                    Some(at) => self.expand(parts[at], all, terms),
                    None => terms.push(all),
                }
            }
            _ => terms.push([factors, vec![id]].concat()),
        }
    }

    /// A product that nobody else looks at among factors, by its place, and the numbers per pair that take its place.
    fn spare(&mut self, factors: &[Id]) -> Option<(usize, Id)> {
        factors.iter().enumerate().find_map(|(at, &product)| {
            let Op::Apply { key, .. } = self.graph[product].op else { return None };
            let others = factors.iter().enumerate().filter(|(i, f)| *i != at && self.graph[**f].has(Axis::E));
            let others: Vec<Id> = others.map(|(_, f)| *f).collect();
            let row = self.graph.mul(&others);
            let dot = Op::Dot { row, key };
            let dot = self.dots.iter().copied().find(|id| self.graph[*id].op == dot)?;
            self.is_private(product).then_some((at, dot))
        })
    }

    fn sum(&mut self, body: Id) -> Built {
        let mut sum = vec![];
        for factors in self.terms(body) {
            let spare = self.spare(&factors);
            let (along, outside): (Vec<(usize, Id)>, Vec<(usize, Id)>) =
                factors.into_iter().enumerate().partition(|(_, f)| self.graph[*f].has(Axis::E));
            let inner = match spare {
                Some((at, dot)) => {
                    let product = along.iter().find(|(i, _)| *i == at).map_or(dot, |(_, f)| *f);
                    let tile = self.graph[product].op.operands()[0];
                    let (tile, dot) = (self.rewritten(tile)?, self.rewritten(dot)?);
                    let pairs = self.graph.mul(&[tile, dot]);
                    self.graph.fold(Fold::Sum, Axis::N, pairs)
                }
                None => {
                    let along = self.all(along)?;
                    let product = self.graph.mul(&along);
                    self.graph.fold(Fold::Sum, Axis::E, product)
                }
            };
            let outside = self.all(outside)?;
            sum.push(self.graph.mul(&[outside, vec![inner]].concat()));
        }
        Ok(self.graph.add(&sum))
    }

    fn all(&mut self, factors: Vec<(usize, Id)>) -> Result<Vec<Id>, Misfit> {
        factors.into_iter().map(|(_, id)| self.rewritten(id)).collect()
    }
}
