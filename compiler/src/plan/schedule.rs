//! Scheduling: which loop computes a value, and where it is stored.
//!
//! A pass runs head by head. Values without the query axis are computed once per head, *before* the rows; values with
//! it block by block of *rows*; what depends on a sum over queries *after* them. Within a phase every value has a
//! level: one more than the levels of what it must wait for. Elementwise values wait for nothing inside of their own
//! loop, so all maps and folds of one level over one domain become a single fused loop.
//!
//! One rule decides what is stored: a value that something outside of its own loop reads, unless it is cheap and the
//! reader's loop runs over the same domain; that loop computes it again. Numbers per query are always computed again, and
//! so are negatives.

use super::graph::{Fold, Graph, Id, Map, Op};
use super::lower::Unsupported;
use crate::ir::{Axis, AxisSet, rational};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a loop runs over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Domain {
    Scalar,
    /// `[e]`
    Vector,
    /// `[n]`
    Key,
    /// `[n,e]`
    KeyVector,
    /// `[t]`
    Row,
    /// `[t,e]`
    RowVector,
    /// `[t,n]`
    Tile,
    /// `[t,n,e]`
    Triple,
}

impl Domain {
    pub fn of(axes: AxisSet) -> Domain {
        let has = |axis| axes.contains(axis);
        match (has(Axis::T), has(Axis::N), has(Axis::E)) {
            (true, true, true) => Domain::Triple,
            (true, true, false) => Domain::Tile,
            (true, false, true) => Domain::RowVector,
            (true, false, false) => Domain::Row,
            (false, true, true) => Domain::KeyVector,
            (false, true, false) => Domain::Key,
            (false, false, true) => Domain::Vector,
            (false, false, false) => Domain::Scalar,
        }
    }

    /// The axes it has.
    pub fn axes(self) -> &'static [Axis] {
        match self {
            Domain::Scalar => &[],
            Domain::Vector => &[Axis::E],
            Domain::Key => &[Axis::N],
            Domain::KeyVector => &[Axis::N, Axis::E],
            Domain::Row => &[Axis::T],
            Domain::RowVector => &[Axis::T, Axis::E],
            Domain::Tile => &[Axis::T, Axis::N],
            Domain::Triple => &[Axis::T, Axis::N, Axis::E],
        }
    }

    pub fn describe(self) -> &'static str {
        match self {
            Domain::Scalar => "[]",
            Domain::Vector => "[e]",
            Domain::Key => "[n]",
            Domain::KeyVector => "[n,e]",
            Domain::Row => "[t]",
            Domain::RowVector => "[t,e]",
            Domain::Tile => "[t,n]",
            Domain::Triple => "[t,n,e]",
        }
    }
}

/// One fused loop: maps in the order they are computed, folds of them, and the maps that are stored, all in the order of
/// the graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Loop {
    pub domain: Domain,
    pub maps: Vec<Id>,
    pub folds: Vec<Id>,
    pub stores: Vec<Id>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// A matrix product, a threshold search or a system: the node says which.
    Node(Id),
    Loop(Loop),
}

/// Where a value lies that is stored between steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// A buffer of the pass, by the domain of what it holds.
    Buffer(Domain, usize),
    /// The i-th output.
    Output(usize),
    /// The i-th value the forward pass saves for later passes.
    Saved(usize),
}

/// A value a pass returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    pub name: String,
    pub id: Id,
    /// What it extends along, whatever the value itself does.
    pub domain: Domain,
}

/// What a pass computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassKind {
    /// The direction, and what later passes read again.
    Forward,
    /// F_h.
    Energy,
    /// The gradients of q, k, v, of learned parameters and of gates, given the cotangent of the direction.
    Backward,
    /// The gradients of parameters that are not learned, given the cotangent of the direction.
    Constants,
    /// The gradients of q, k, v, of learned parameters and of gates, given a cotangent of F_h.
    EnergyBackward,
    /// The gradients of parameters that are not learned, given a cotangent of F_h.
    EnergyConstants,
}

/// What the gradients of a pass start from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cotangent {
    OfDirection,
    OfEnergy,
}

impl PassKind {
    /// The cotangent a pass is given, if it computes gradients.
    pub fn cotangent(self) -> Option<Cotangent> {
        match self {
            PassKind::Forward | PassKind::Energy => None,
            PassKind::Backward | PassKind::Constants => Some(Cotangent::OfDirection),
            PassKind::EnergyBackward | PassKind::EnergyConstants => Some(Cotangent::OfEnergy),
        }
    }
}

impl fmt::Display for PassKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            PassKind::Forward => "forward",
            PassKind::Energy => "energy",
            PassKind::Backward => "backward",
            PassKind::Constants => "constants",
            PassKind::EnergyBackward => "energy backward",
            PassKind::EnergyConstants => "energy constants",
        })
    }
}

/// A program over one head.
#[derive(Clone, PartialEq, Debug)]
pub struct Pass {
    pub kind: PassKind,
    pub outputs: Vec<Output>,
    /// The values of other passes this one may read, and which of them it writes.
    pub saved: Vec<Id>,
    pub is_saving: bool,
    pub before: Vec<Step>,
    pub rows: Vec<Step>,
    pub after: Vec<Step>,
    pub places: BTreeMap<Id, Place>,
    /// Whether every sum over tokens is a scan: then all queries of a head are one block, and there are no tiles.
    pub is_scan: bool,
    /// How many buffers of each domain there are.
    pub buffers: BTreeMap<Domain, usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Phase {
    Before,
    Rows,
    After,
}

/// The order in which outputs are computed. `saved` values are read, or written if the pass `is_saving`.
pub fn schedule(
    graph: &Graph,
    kind: PassKind,
    outputs: Vec<Output>,
    saved: &[Id],
    is_saving: bool,
) -> Result<Pass, Unsupported> {
    let mut roots: BTreeSet<Id> = outputs.iter().map(|o| o.id).collect();
    if is_saving {
        roots.extend(saved);
    }
    let given: BTreeSet<Id> = if is_saving { BTreeSet::new() } else { saved.iter().copied().collect() };
    let needed = reachable(graph, &roots, &given);
    let planner = Planner { graph, given, roots, phases: BTreeMap::new(), levels: BTreeMap::new() };
    planner.run(kind, outputs, saved, is_saving, &needed)
}

/// What the roots need, without looking behind what is given.
pub fn reachable(graph: &Graph, roots: &BTreeSet<Id>, given: &BTreeSet<Id>) -> BTreeSet<Id> {
    let mut found = BTreeSet::new();
    let mut open: Vec<Id> = roots.iter().copied().collect();
    while let Some(id) = open.pop() {
        if found.insert(id) && !given.contains(&id) {
            open.extend(graph[id].op.operands());
        }
    }
    found
}

/// The domain of the loop that computes a node, for those that a loop computes.
pub fn loop_domain(graph: &Graph, id: Id) -> Option<Domain> {
    match &graph[id].op {
        Op::Map(..) => Some(Domain::of(graph.axes(id))),
        Op::Fold(_, axis, x) => {
            let body = graph.axes(*x).with(*axis);
            Some(Domain::of(if *axis == Axis::N { body.with(Axis::T) } else { body }))
        }
        _ => None,
    }
}

struct Planner<'a> {
    graph: &'a Graph,
    given: BTreeSet<Id>,
    roots: BTreeSet<Id>,
    phases: BTreeMap<Id, Phase>,
    levels: BTreeMap<Id, usize>,
}

impl Planner<'_> {
    fn run(
        mut self,
        kind: PassKind,
        outputs: Vec<Output>,
        saved: &[Id],
        is_saving: bool,
        needed: &BTreeSet<Id>,
    ) -> Result<Pass, Unsupported> {
        for &id in needed {
            let phase = self.phase(id)?;
            self.phases.insert(id, phase);
        }
        for &id in needed {
            let level = self.level(id);
            self.levels.insert(id, level);
        }
        let stored = self.stored(needed);
        let steps = |phase| self.steps(phase, needed, &stored);
        let (before, rows, after) = (steps(Phase::Before), steps(Phase::Rows), steps(Phase::After));
        let mut pass = Pass {
            kind,
            outputs,
            saved: saved.to_vec(),
            is_saving,
            before,
            rows,
            after,
            places: BTreeMap::new(),
            is_scan: needed
                .iter()
                .any(|id| matches!(self.graph[*id].op, Op::Scan(_) | Op::ScanBack(_) | Op::ScanSteps { .. })),
            buffers: BTreeMap::new(),
        };
        self.place(&mut pass, &stored);
        Ok(pass)
    }

    fn is_given(&self, id: Id) -> bool {
        self.given.contains(&id) || matches!(self.graph[id].op, Op::Input(_) | Op::Number(_))
    }

    /// A number per query computed from other numbers: every loop over rows can have it again.
    fn is_row_scalar(&self, id: Id) -> bool {
        let node = &self.graph[id];
        matches!(node.op, Op::Map(..)) && Domain::of(node.axes) == Domain::Row && !self.is_given(id)
    }

    /// The negative of a value that is there: every loop that reads it subtracts that value instead.
    fn is_negative(&self, id: Id) -> bool {
        match &self.graph[id].op {
            Op::Map(Map::Mul, of) if of.len() == 2 && self.graph.is_int(of[0], -1) && !self.is_given(id) => {
                self.is_given(of[1]) || !matches!(self.graph[of[1]].op, Op::Map(..))
            }
            _ => false,
        }
    }

    fn phase(&self, id: Id) -> Result<Phase, Unsupported> {
        if self.is_given(id) {
            return Ok(Phase::Before);
        }
        let node = &self.graph[id];
        let operands = node.op.operands();
        let latest = operands.iter().map(|o| self.after(*o)).max().unwrap_or(Phase::Before);
        match (node.has(Axis::T) || sums_queries(&node.op), latest) {
            (true, Phase::After) => Err(Unsupported::formula("a query would have to wait for a sum over all queries")),
            (true, _) => Ok(Phase::Rows),
            (false, phase) => Ok(phase),
        }
    }

    /// The phase from which a value without the query axis is complete.
    fn after(&self, id: Id) -> Phase {
        if sums_queries(&self.graph[id].op) && !self.is_given(id) { Phase::After } else { self.phases[&id] }
    }

    fn level(&self, id: Id) -> usize {
        if self.is_given(id) {
            return 0;
        }
        let domain = loop_domain(self.graph, id);
        let phase = self.phases[&id];
        let is_subtracted = |o: Id| domain.is_some() && self.is_negative(o);
        let ready = |o: Id| {
            if self.is_given(o) || self.phases[&o] != phase {
                return 0;
            }
            let is_inside = matches!(self.graph[o].op, Op::Map(..)) && loop_domain(self.graph, o) == domain;
            self.levels[&o] + usize::from(!(is_inside || self.is_row_scalar(o) || is_subtracted(o)))
        };
        self.graph[id].op.operands().into_iter().map(ready).max().unwrap_or(0)
    }

    /// What is stored between steps.
    fn stored(&self, needed: &BTreeSet<Id>) -> BTreeSet<Id> {
        let mut stored: BTreeSet<Id> = self.roots.iter().copied().filter(|id| !self.is_given(*id)).collect();
        for &id in needed.iter().filter(|id| !self.is_given(**id)) {
            match self.graph[id].op {
                Op::Map(..) => {}
                _ => {
                    stored.insert(id);
                }
            }
            let reader = loop_domain(self.graph, id);
            for o in self.graph[id].op.operands() {
                let is_subtracted = reader.is_some() && self.is_negative(o);
                if self.is_given(o) || self.is_row_scalar(o) || is_subtracted || self.graph[o].is_triple() {
                    continue;
                }
                let is_inside = loop_domain(self.graph, o) == reader && reader.is_some();
                let is_same_loop =
                    is_inside && self.levels[&o] == self.levels[&id] && self.phases[&o] == self.phases[&id];
                let again = is_inside && self.phases[&o] == self.phases[&id] && is_cheap(self.graph, o);
                if matches!(self.graph[o].op, Op::Map(..)) && !is_same_loop && !again {
                    stored.insert(o);
                }
            }
        }
        // A number per query that an operation other than a loop reads does not occur, but one may be an output.
        stored
    }

    fn steps(&self, phase: Phase, needed: &BTreeSet<Id>, stored: &BTreeSet<Id>) -> Vec<Step> {
        let here = |id: &Id| !self.is_given(*id) && self.phases[id] == phase;
        let mut by_level: BTreeMap<usize, (Vec<Id>, BTreeMap<Domain, Loop>)> = BTreeMap::new();
        for &id in needed.iter().filter(|id| here(id)) {
            let (nodes, loops) = by_level.entry(self.levels[&id]).or_default();
            match loop_domain(self.graph, id) {
                None => nodes.push(id),
                Some(domain) => {
                    let l = loops.entry(domain).or_insert(Loop { domain, maps: vec![], folds: vec![], stores: vec![] });
                    match self.graph[id].op {
                        Op::Map(..) if stored.contains(&id) => l.stores.push(id),
                        Op::Map(..) => {}
                        _ => l.folds.push(id),
                    }
                }
            }
        }
        let mut steps = Vec::new();
        for (level, (nodes, loops)) in by_level {
            steps.extend(nodes.into_iter().map(Step::Node));
            for mut l in loops.into_values() {
                l.maps = self.maps_of(&l, level, stored);
                if !(l.folds.is_empty() && l.stores.is_empty()) {
                    steps.push(Step::Loop(l));
                }
            }
        }
        steps
    }

    /// The maps a loop computes, operands first: everything its folds and stores need that is not stored elsewhere.
    fn maps_of(&self, l: &Loop, level: usize, stored: &BTreeSet<Id>) -> Vec<Id> {
        let mut found = BTreeSet::new();
        let folded = l.folds.iter().map(|&f| match &self.graph[f].op {
            Op::Fold(_, _, x) => *x,
            _ => f,
        });
        let mut open: Vec<Id> = folded.chain(l.stores.iter().copied()).collect();
        while let Some(id) = open.pop() {
            let is_map = matches!(self.graph[id].op, Op::Map(..)) && !self.is_given(id);
            let is_stored_here = || self.levels[&id] == level && l.stores.binary_search(&id).is_ok();
            let is_elsewhere = stored.contains(&id) && !is_stored_here();
            if is_map && !is_elsewhere && found.insert(id) {
                open.extend(self.graph[id].op.operands());
            }
        }
        found.into_iter().collect()
    }

    /// Gives every stored value its place; tiles share buffers where their lives do not overlap.
    fn place(&self, pass: &mut Pass, stored: &BTreeSet<Id>) {
        for (i, output) in pass.outputs.iter().enumerate() {
            pass.places.entry(output.id).or_insert(Place::Output(i));
        }
        for (i, &id) in pass.saved.iter().enumerate() {
            pass.places.entry(id).or_insert(Place::Saved(i));
        }
        let mut last_use: BTreeMap<Id, usize> = BTreeMap::new();
        for (at, step) in pass.rows.iter().enumerate() {
            last_use.extend(reads(self.graph, step, stored).into_iter().map(|id| (id, at)));
        }
        let mut tiles: Vec<usize> = Vec::new();
        let mut places = BTreeMap::new();
        for (at, step) in pass.rows.iter().enumerate() {
            let is_in_place = matches!(step, Step::Loop(l) if l.domain == Domain::Tile);
            for id in writes(step) {
                if pass.places.contains_key(&id) || !self.graph[id].is_tile() {
                    continue;
                }
                let end = last_use.get(&id).copied().unwrap_or(0);
                let free = tiles.iter().position(|&until| until < at || (is_in_place && until == at));
                let slot = free.unwrap_or(tiles.len());
                if slot == tiles.len() {
                    tiles.push(end);
                }
                tiles[slot] = end.max(at + 1);
                places.insert(id, Place::Buffer(Domain::Tile, slot));
            }
        }
        pass.buffers.insert(Domain::Tile, tiles.len());
        for &id in stored.iter().filter(|id| !self.graph[**id].is_tile()) {
            if pass.places.contains_key(&id) {
                continue;
            }
            let domain = Domain::of(self.graph.axes(id));
            let count = pass.buffers.entry(domain).or_insert(0);
            places.insert(id, Place::Buffer(domain, *count));
            *count += 1;
        }
        pass.places.extend(places);
    }
}

/// The values a step stores.
pub fn writes(step: &Step) -> Vec<Id> {
    match step {
        Step::Node(id) => vec![*id],
        Step::Loop(l) => l.folds.iter().chain(&l.stores).copied().collect(),
    }
}

/// The values a step reads from where they are stored, through what is made where it is read.
fn reads(graph: &Graph, step: &Step, stored: &BTreeSet<Id>) -> BTreeSet<Id> {
    let mut open = match step {
        Step::Node(id) => graph[*id].op.operands(),
        Step::Loop(l) => l.maps.iter().chain(&l.folds).flat_map(|id| graph[*id].op.operands()).collect(),
    };
    let is_own = |id: Id| matches!(step, Step::Loop(l) if l.maps.binary_search(&id).is_ok());
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !is_own(id) && found.insert(id) && matches!(graph[id].op, Op::Map(..)) && !stored.contains(&id) {
            open.extend(graph[id].op.operands());
        }
    }
    found
}

/// Operations that cost no more than storing a value and reading it again.
const CHEAP: usize = 4;

/// Whether computing a map again, with the maps it is made of in the same loop, costs less than storing its value.
fn is_cheap(graph: &Graph, id: Id) -> bool {
    let domain = loop_domain(graph, id);
    let mut open = vec![id];
    let mut operations = 0;
    while let Some(id) = open.pop() {
        let Op::Map(map, operands) = &graph[id].op else { continue };
        if loop_domain(graph, id) != domain {
            continue;
        }
        operations += match map {
            Map::Add | Map::Mul => operands.len() - 1,
            Map::Spread(_) => 0,
            Map::Call(func) if func.is_cheap() => 1,
            Map::Positive | Map::Select => 1,
            Map::Pow(r) if *r == rational::int(2) => 1,
            _ => return false,
        };
        if operations > CHEAP {
            return false;
        }
        open.extend(operands);
    }
    true
}

/// Whether a value is complete only behind all queries.
pub(super) fn sums_queries(op: &Op) -> bool {
    let is_sum = matches!(op, Op::Gather { .. } | Op::ScanBack(_) | Op::Fold(_, Axis::T, _));
    is_sum || matches!(op, Op::Steps { .. } | Op::ScanSteps { .. })
}

/// Whether a fold accumulates over blocks of queries.
pub fn is_accumulated(op: &Op) -> bool {
    matches!(op, Op::Gather { .. } | Op::Steps { .. } | Op::Fold(Fold::Sum, Axis::T, _))
}
