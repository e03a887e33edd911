//! What a loop of a plan becomes before it is interpreted: the same values with fewer runs over the registers.
//!
//! A sum subtracts what it would add the negative of; a function of a difference is computed of both numbers at once;
//! and in a loop over pairs and components, a product that only sums look at is added up as it is made.

use super::vectors::{Function, unary};
use crate::ir::{Axis, Role};
use crate::plan::graph::{Fold, Graph, Id, Map, Op};
use crate::plan::schedule::{Domain, Loop};

/// f(a − b).
#[derive(Clone, Copy, Debug)]
pub struct OfDifference {
    pub function: Function,
    pub a: Id,
    pub b: Id,
}

/// f(row − tokens), or f(tokens − row), of a vector of the query and vectors of tokens.
#[derive(Clone, Copy, Debug)]
pub struct ByRow {
    pub function: Function,
    pub row: Id,
    pub tokens: Id,
    /// Whether the query's is subtracted.
    pub is_flipped: bool,
}

/// A loop, and what is known of its nodes.
#[derive(Debug)]
pub struct Fusion<'g> {
    graph: &'g Graph,
    store_of: &'g [Option<usize>],
    pub domain: Domain,
    pub maps: Vec<Id>,
    pub folds: Vec<Id>,
    pub stores: Vec<Id>,
    /// The stored operands of a loop over pairs and components that several tokens do not have side by side: vectors of
    /// the query, and numbers per token.
    pub spread: Vec<Id>,
    nodes: Vec<Known>,
}

/// What is known of a node.
#[derive(Clone, Debug, Default)]
struct Known {
    /// It is computed in one go with the difference below it.
    of_difference: Option<OfDifference>,
    /// And that compares a vector of the query with vectors of tokens.
    by_row: Option<ByRow>,
    /// Another factor of the same product brings it along.
    is_omitted: bool,
    /// A number per pair that only products look at: it is not repeated for every component.
    is_scale: bool,
    /// The factors of a product that only sums look at.
    summed: Option<Vec<Id>>,
}

impl<'g> Fusion<'g> {
    pub fn of(graph: &'g Graph, store_of: &'g [Option<usize>], l: &Loop) -> Fusion<'g> {
        let Loop { domain, maps, folds, stores } = l.clone();
        let nodes = vec![Known::default(); graph.nodes.len()];
        let mut fusion = Fusion { graph, store_of, domain, maps, folds, stores, spread: vec![], nodes };
        fusion.prune();
        fusion.fuse_functions();
        fusion.fuse_signed_squares();
        if domain == Domain::Triple {
            fusion.find_row_differences();
            fusion.find_scales();
            fusion.sum_products();
            fusion.spread = fusion.spread_operands().into_iter().filter(|id| !fusion.is_scale(*id)).collect();
        }
        fusion
    }

    /// Maps alone, each by itself.
    pub fn plain(graph: &'g Graph, store_of: &'g [Option<usize>], maps: Vec<Id>) -> Fusion<'g> {
        let nodes = vec![Known::default(); graph.nodes.len()];
        let (folds, stores, spread) = (vec![], vec![], vec![]);
        Fusion { graph, store_of, domain: Domain::RowVector, maps, folds, stores, spread, nodes }
    }

    pub fn of_difference(&self, id: Id) -> Option<OfDifference> {
        self.nodes[id.index()].of_difference
    }

    pub fn by_row(&self, id: Id) -> Option<ByRow> {
        self.nodes[id.index()].by_row
    }

    pub fn is_scale(&self, id: Id) -> bool {
        self.nodes[id.index()].is_scale
    }

    pub fn summed(&self, id: Id) -> Option<&[Id]> {
        self.nodes[id.index()].summed.as_deref()
    }

    pub fn is_map(&self, id: Id) -> bool {
        self.maps.binary_search(&id).is_ok()
    }

    /// Whether a node of the loop is computed into a register, or a stored one is repeated in one.
    pub fn is_register(&self, id: Id) -> bool {
        self.is_map(id) || self.spread.contains(&id)
    }

    fn has(&self, id: Id, axis: Axis) -> bool {
        self.graph[id].has(axis)
    }

    /// What a node is the negative of, if a loop that adds it can subtract that.
    fn negated(&self, id: Id) -> Option<Id> {
        match &self.graph[id].op {
            Op::Map(Map::Mul, of)
                if of.len() == 2 && self.graph.is_int(of[0], -1) && self.store_of[id.index()].is_none() =>
            {
                Some(of[1])
            }
            _ => None,
        }
    }

    /// The terms of a map, and whether a sum subtracts them.
    pub fn terms(&self, id: Id) -> Vec<(Id, bool)> {
        let operands = self.graph[id].op.operands().into_iter();
        match &self.graph[id].op {
            Op::Map(Map::Add, _) => operands.map(|o| self.negated(o).map_or((o, false), |x| (x, true))).collect(),
            Op::Map(Map::Mul, _) => {
                operands.filter(|o| !self.nodes[o.index()].is_omitted).map(|o| (o, false)).collect()
            }
            _ => operands.map(|o| (o, false)).collect(),
        }
    }

    /// The values that a node of the loop reads.
    fn mentioned(&self, id: Id) -> Vec<Id> {
        match self.of_difference(id) {
            Some(OfDifference { a, b, .. }) => vec![a, b],
            None => self.terms(id).into_iter().map(|(o, _)| o).collect(),
        }
    }

    /// How often the nodes of the loop read each node, or store it.
    fn uses(&self) -> Vec<usize> {
        let read = self.maps.iter().chain(&self.folds).flat_map(|&id| self.mentioned(id));
        let mut uses = vec![0; self.graph.nodes.len()];
        read.chain(self.stores.iter().copied()).for_each(|id| uses[id.index()] += 1);
        uses
    }

    /// Leaves out the maps that nothing in the loop looks at.
    fn prune(&mut self) {
        let mut open: Vec<Id> = self.folds.iter().flat_map(|&f| self.graph[f].op.operands()).collect();
        open.extend(&self.stores);
        let mut is_needed = vec![false; self.graph.nodes.len()];
        while let Some(id) = open.pop() {
            if self.is_map(id) && !std::mem::replace(&mut is_needed[id.index()], true) {
                open.extend(self.mentioned(id));
            }
        }
        self.maps.retain(|id| is_needed[id.index()]);
    }

    /// (a, b) of a node a − b.
    fn difference(&self, id: Id) -> Option<(Id, Id)> {
        if !matches!(self.graph[id].op, Op::Map(Map::Add, _)) {
            return None;
        }
        match self.terms(id)[..] {
            [(a, false), (b, true)] | [(b, true), (a, false)] => Some((a, b)),
            _ => None,
        }
    }

    /// A difference that only one function looks at is computed with it.
    fn fuse_functions(&mut self) {
        let uses = self.uses();
        for id in self.maps.clone() {
            let is_inside = |id: Id| uses[id.index()] == 1 && self.is_map(id) && !self.stores.contains(&id);
            let Some((outer, of)) = unary(&self.graph[id].op).filter(|(_, of)| is_inside(*of)) else { continue };
            let found = match (self.of_difference(of), self.difference(of)) {
                (Some(inner), _) => inner.function.then(outer).map(|function| OfDifference { function, ..inner }),
                (None, Some((a, b))) => Some(OfDifference { function: outer, a, b }),
                (None, None) => None,
            };
            if found.is_some() {
                self.nodes[of.index()].of_difference = None;
                self.nodes[id.index()].of_difference = found;
                self.maps.retain(|map| *map != of);
            }
        }
    }

    /// x·|x| of a difference x that nothing else looks at is one function of it.
    fn fuse_signed_squares(&mut self) {
        let uses = self.uses();
        for product in self.maps.clone() {
            let Op::Map(Map::Mul, factors) = &self.graph[product].op else { continue };
            for &absolute in factors {
                let Some((Function::Absolute, x)) = unary(&self.graph[absolute].op) else { continue };
                let is_free = |id: Id| self.is_map(id) && !self.stores.contains(&id);
                let is_theirs = uses[x.index()] == 2 && uses[absolute.index()] == 1 && factors.contains(&x);
                let Some((a, b)) = self.difference(x).filter(|_| is_theirs && is_free(x) && is_free(absolute)) else {
                    continue;
                };
                let function = Function::SignedSquare;
                self.nodes[absolute.index()].of_difference = Some(OfDifference { function, a, b });
                self.nodes[x.index()].is_omitted = true;
                self.maps.retain(|map| *map != x);
            }
        }
    }

    /// Functions of a difference of the query's vector and those of tokens.
    fn find_row_differences(&mut self) {
        for &id in &self.maps {
            let Some(OfDifference { function, a, b }) = self.of_difference(id) else { continue };
            let is_row = |id: Id| self.has(id, Axis::E) && !self.has(id, Axis::N) && !self.is_map(id);
            let differs = |id: Id| self.has(id, Axis::N) && self.has(id, Axis::E);
            self.nodes[id.index()].by_row = match (is_row(a) && differs(b), is_row(b) && differs(a)) {
                (true, _) => Some(ByRow { function, row: a, tokens: b, is_flipped: false }),
                (_, true) => Some(ByRow { function, row: b, tokens: a, is_flipped: true }),
                _ => None,
            };
        }
    }

    /// Numbers per pair that are factors of vectors, and nothing else.
    fn find_scales(&mut self) {
        let is_vector = |o: &Id| self.has(*o, Axis::E);
        let only_scales = |id: &Id| {
            let is_number = self.has(*id, Axis::N) && !self.has(*id, Axis::E);
            let scales = |m: &Id| {
                let count = self.mentioned(*m).iter().filter(|o| *o == id).count();
                let is_product = matches!(&self.graph[*m].op, Op::Map(Map::Mul, of) if of.iter().any(is_vector));
                count == 0 || count == 1 && is_product && self.of_difference(*m).is_none()
            };
            is_number && self.maps.iter().all(scales) && !self.folds.iter().any(|f| self.mentioned(*f).contains(id))
        };
        let scales: Vec<Id> = self.spread_operands().into_iter().filter(only_scales).collect();
        scales.iter().for_each(|id| self.nodes[id.index()].is_scale = true);
    }

    /// Leaves out the products that only sums look at, and the differences that only such products look at: to compute
    /// them again costs less than to store them.
    fn sum_products(&mut self) {
        let uses = self.uses();
        let all = self.maps.clone();
        let summand = |fold: &Id| match self.graph[*fold].op {
            Op::Fold(Fold::Sum, _, x) => Some(x),
            _ => None,
        };
        let summands: Vec<Id> = self.folds.iter().filter_map(summand).collect();
        for &x in &summands {
            let is_only_summed = uses[x.index()] == summands.iter().filter(|y| **y == x).count();
            let is_difference = self.by_row(x).is_some();
            if self.is_map(x) && is_only_summed && (is_difference || self.is_simple_product(x)) {
                self.nodes[x.index()].summed = Some(if is_difference { vec![x] } else { self.mentioned(x) });
                self.maps.retain(|map| *map != x);
            }
        }
        // One difference of a product is computed as it is added up; a second one has a register.
        let mut has_difference = vec![false; self.graph.nodes.len()];
        let differences: Vec<Id> = all.iter().copied().filter(|id| self.by_row(*id).is_some()).collect();
        for id in differences {
            let looks = |product: &Id| self.summed(*product).is_some_and(|of| of.contains(&id));
            let products: Vec<Id> = all.iter().copied().filter(looks).collect();
            if products.len() == uses[id.index()] && products.iter().all(|p| !has_difference[p.index()]) {
                products.iter().for_each(|p| has_difference[p.index()] = true);
                self.maps.retain(|map| *map != id);
            }
        }
    }

    /// Whether a node is a product of one or two vectors, of which one at least is not the query's alone, at most one
    /// number per pair, and numbers of the query.
    fn is_simple_product(&self, id: Id) -> bool {
        if !matches!(self.graph[id].op, Op::Map(Map::Mul, _)) || self.of_difference(id).is_some() {
            return false;
        }
        let (vectors, numbers): (Vec<Id>, Vec<Id>) =
            self.mentioned(id).into_iter().partition(|f| self.has(*f, Axis::E));
        let per_pair: Vec<Id> = numbers.into_iter().filter(|f| self.has(*f, Axis::N)).collect();
        let differs = vectors.iter().any(|f| self.has(*f, Axis::N));
        let is_scaled = per_pair.len() <= 1 && per_pair.iter().all(|f| self.is_scale(*f));
        (1..=2).contains(&vectors.len()) && differs && is_scaled
    }

    /// What is in [`Fusion::spread`], and the numbers that only scale.
    fn spread_operands(&self) -> Vec<Id> {
        let is_summed = |fold: &&Id| self.graph[**fold].op.operands().iter().any(|x| self.summed(*x).is_some());
        let folds = self.folds.iter().filter(|fold| !is_summed(fold));
        let operands = self.maps.iter().chain(folds).flat_map(|&id| match self.by_row(id) {
            Some(ByRow { tokens, .. }) => vec![tokens],
            None => self.mentioned(id),
        });
        let is_spread = |id: &Id| {
            let is_one = match &self.graph[*id].op {
                Op::Number(_) => true,
                Op::Input(leaf) => leaf.role == Role::Visible,
                _ => false,
            };
            let domain = Domain::of(self.graph.axes(*id));
            let is_apart = matches!(domain, Domain::Vector | Domain::RowVector | Domain::Tile | Domain::Key);
            !self.is_map(*id) && !is_one && is_apart
        };
        let mut spread: Vec<Id> = operands.filter(is_spread).collect();
        spread.sort();
        spread.dedup();
        spread
    }
}
