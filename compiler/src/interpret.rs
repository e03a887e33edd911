//! The plan interpreter: any plan on plain buffers, with no code generation.
//!
//! It follows the schedule that emitted kernels follow, step by step: matrix products are the same calls, and a fused
//! loop runs operation by operation over one row (or several tokens of one) at a time, in the fastest cache and on
//! registers as wide as the machine's. It is the second oracle (in f64, against the
//! reference interpreter of the algebra) and the engine for recipes that were not compiled in.

mod aligned;
mod vectors;

use crate::ir::{Axis, Entropy, Leaf, Role, rational::to_f64};
use crate::plan::graph::{Entry, Fold, Graph, Id, Map, Node, Op};
use crate::plan::schedule::{Domain, Loop, Pass, Place, Step};
use crate::primitives::blocks::{next_block, seen_by};
use crate::primitives::dropout::Dropout;
use crate::primitives::product::{Strides, distances, multiply};
use crate::primitives::real::Real;
use crate::primitives::scan::{Course, Scan};
use crate::primitives::visible::Visible;
use crate::primitives::{decay, solve, threshold};
use aligned::Aligned;
use std::ops::Range;
use vectors::{
    Added, All, Differences, FEW, Function, Multiplied, OfDifference, Operand, Over, Products, RowDifference,
    RowDifferences, Scaled, Stretched, Term, Total, Totals, Vectors, add_number, apply, in_lanes, sum, unary,
};

/// The lengths of one head's arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadSize {
    pub queries: usize,
    pub tokens: usize,
    pub head: usize,
}

impl HeadSize {
    /// The number of entries of a value of a domain, over all queries and tokens.
    pub fn entries(&self, domain: Domain) -> usize {
        let HeadSize { queries, tokens, head } = *self;
        match domain {
            Domain::Scalar => 1,
            Domain::Key => tokens,
            Domain::KeyVector => tokens * head,
            Domain::Row => queries,
            Domain::RowVector => queries * head,
            Domain::Tile => queries * tokens,
            Domain::Triple => queries * tokens * head,
        }
    }
}

/// Numbers of a loop over pairs and components that are worked on together.
const GROUP_ENTRIES: usize = 2048;

/// The attention dropout of one head, which is this one of all heads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadDropout {
    pub dropout: Dropout,
    pub head: u32,
}

/// A head: how long its arrays are, who sees whom, and what is dropped of that.
#[derive(Clone, Copy, Debug)]
pub struct Head<'v> {
    pub size: HeadSize,
    pub visible: &'v Visible,
    pub dropout: Option<HeadDropout>,
}

/// Runs a pass over one head.
///
/// `input` finds an input by its leaf: arrays of the head, one number for parameters and sizes, the per-step factors
/// for a decay. `saved` and `outputs` have the lengths their values have over all queries and tokens.
pub fn run_head<'a, T: Real>(
    graph: &Graph,
    pass: &Pass,
    Head { size, visible, dropout }: Head,
    input: &dyn Fn(&Leaf) -> &'a [T],
    saved: &mut [Vec<T>],
    outputs: &mut [Vec<T>],
) {
    let intervals = visible.intervals();
    let blocks = if pass.is_scan { std::iter::once(0..size.queries).collect() } else { blocks(visible) };
    let rows = blocks.iter().map(|b| b.len()).max().unwrap_or(0);
    let widest = blocks.iter().map(|b| seen_by(&intervals[b.clone()]).len()).max().unwrap_or(0);
    let width = if pass.is_scan { 0 } else { widest };
    let mut machine = Machine::new(graph, pass, size, visible, input, rows, width);
    machine.dropout = dropout;
    let given = saved.iter_mut().enumerate().map(|(i, x)| (Place::Saved(i), x));
    let wanted = outputs.iter_mut().enumerate().map(|(i, x)| (Place::Output(i), x));
    let mut outside: Vec<(Place, &mut Vec<T>)> = given.chain(wanted).collect();
    for (place, values) in &mut outside {
        if matches!(place, Place::Output(_)) {
            values.fill(T::ZERO);
        }
        machine.lend(*place, std::mem::take(values));
    }
    pass.before.iter().for_each(|step| machine.step(step));
    for rows in blocks {
        machine.block = Block { keys: seen_by(&intervals[rows.clone()]), rows, pitch: width.max(1) };
        if !pass.is_scan {
            machine.fill_decays();
            machine.fill_kept();
        }
        pass.rows.iter().for_each(|step| machine.step(step));
    }
    pass.after.iter().for_each(|step| machine.step(step));
    machine.constant_outputs();
    for (place, values) in &mut outside {
        **values = machine.take_back(*place);
    }
}

/// The blocks of queries that go together.
fn blocks(visible: &Visible) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    while let Some(start) = Some(blocks.last().map_or(0, |b| b.end)).filter(|start| *start < visible.queries()) {
        blocks.push(next_block(visible.intervals(), start));
    }
    blocks
}

/// The queries of a block and the tokens any of them sees.
#[derive(Clone, Debug)]
struct Block {
    rows: Range<usize>,
    keys: Range<usize>,
    /// Entries from one row of a tile to the next.
    pitch: usize,
}

/// A value inside of a loop: a number, or a vector; the vector's room stays when it is a number.
#[derive(Debug)]
struct Register<T> {
    number: Option<T>,
    vector: Aligned<T>,
}

impl<T: Real> Register<T> {
    fn empty() -> Register<T> {
        Register { number: Some(T::ZERO), vector: Aligned::new() }
    }

    fn of(vector: Aligned<T>) -> Register<T> {
        Register { number: None, vector }
    }
}

/// Where a loop stands: the row of the block, the token, and the stretch its inner direction runs over.
#[derive(Clone, Debug)]
struct At {
    domain: Domain,
    row: usize,
    token: usize,
    inner: Range<usize>,
}

impl At {
    /// The same place, for a vector of the query alone.
    fn of_row(&self, head: usize) -> At {
        At { domain: Domain::RowVector, inner: 0..head, ..self.clone() }
    }
}

/// The parts of a difference: a vector of the query, and vectors of tokens.
#[derive(Clone, Copy, Debug)]
struct ByRow {
    row: Id,
    tokens: Id,
    /// Whether the query's is subtracted.
    is_flipped: bool,
}

struct Machine<'p, 'a, T> {
    graph: &'p Graph,
    pass: &'p Pass,
    size: HeadSize,
    visible: &'p Visible,
    inputs: Vec<&'a [T]>,
    /// One store per place, and the store of every node that has one.
    stores: Vec<Vec<T>>,
    places: Vec<Place>,
    store_of: Vec<Option<usize>>,
    /// The tiles of decays, by node.
    decays: Vec<(Id, Vec<T>)>,
    /// What dropout multiplies the pairs of the block by.
    kept: Vec<T>,
    dropout: Option<HeadDropout>,
    block: Block,
    registers: Vec<Register<T>>,
    /// Which nodes the loop that runs has in registers.
    is_register: Vec<bool>,
    /// Of every node the number it is, or the exponent of the power it is.
    constants: Vec<f64>,
    /// What a node is the negative of, if a loop that adds it can subtract that.
    negated: Vec<Option<Id>>,
    /// Numbers per pair that only products of the loop that runs look at: they are not repeated for every component.
    scales: Vec<bool>,
    /// The nodes of the loop that runs which are computed in one go with the difference below them.
    of_difference: Vec<Option<OfDifference>>,
    /// Factors that another factor of the same product brings along.
    is_omitted: Vec<bool>,
    /// Those that compare a vector of the query with vectors of tokens.
    by_row: Vec<Option<ByRow>>,
    /// The factors of products that only sums of the loop that runs look at: they are added up as they are made.
    summed: Vec<Option<Vec<Id>>>,
    /// A vector of ones.
    ones: Vec<T>,
    scratch: Vec<T>,
    course: Option<Course>,
}

impl<'p, 'a, T: Real> Machine<'p, 'a, T> {
    fn new(
        graph: &'p Graph,
        pass: &'p Pass,
        size: HeadSize,
        visible: &'p Visible,
        input: &dyn Fn(&Leaf) -> &'a [T],
        rows: usize,
        width: usize,
    ) -> Machine<'p, 'a, T> {
        let needed = needed_inputs(graph, pass);
        let inputs = (graph.nodes.iter().enumerate())
            .map(|(i, node)| match &node.op {
                Op::Input(leaf) if !matches!(leaf.role, Role::Visible | Role::Kept) && needed[i] => input(leaf),
                _ => &[],
            })
            .collect();
        let mut places: Vec<Place> = pass.places.values().copied().collect();
        places.sort();
        places.dedup();
        let length = |place: &Place| match place {
            Place::Buffer(Domain::Row, _) => rows,
            Place::Buffer(Domain::RowVector, _) => rows * size.head,
            Place::Buffer(Domain::Tile, _) => rows * width.max(1),
            Place::Buffer(domain, _) => size.entries(*domain),
            Place::Output(_) | Place::Saved(_) => 0,
        };
        let stores = places.iter().map(|place| vec![T::ZERO; length(place)]).collect();
        let mut store_of = vec![None; graph.nodes.len()];
        for (id, place) in &pass.places {
            store_of[id.index()] = places.binary_search(place).ok();
        }
        let constant = |op: &Op| match op {
            Op::Number(x) | Op::Map(Map::Pow(x), _) => to_f64(x),
            _ => 0.0,
        };
        let negated = |(node, store): (&Node, &Option<usize>)| match &node.op {
            Op::Map(Map::Mul, of) if of.len() == 2 && graph.is_int(of[0], -1) && store.is_none() => Some(of[1]),
            _ => None,
        };
        Machine {
            graph,
            pass,
            size,
            visible,
            inputs,
            stores,
            places,
            decays: decay_nodes(graph).into_iter().map(|id| (id, vec![])).collect(),
            kept: vec![],
            dropout: None,
            block: Block { rows: 0..0, keys: 0..0, pitch: width.max(1) },
            registers: graph.nodes.iter().map(|_| Register::empty()).collect(),
            is_register: vec![false; graph.nodes.len()],
            scales: vec![false; graph.nodes.len()],
            of_difference: vec![None; graph.nodes.len()],
            is_omitted: vec![false; graph.nodes.len()],
            by_row: vec![None; graph.nodes.len()],
            summed: vec![None; graph.nodes.len()],
            ones: vec![T::ONE; size.head],
            constants: graph.nodes.iter().map(|node| constant(&node.op)).collect(),
            negated: graph.nodes.iter().zip(&store_of).map(negated).collect(),
            store_of,
            scratch: vec![],
            course: if pass.is_scan { Course::of(visible.intervals(), size.tokens) } else { None },
        }
    }

    fn lend(&mut self, place: Place, values: Vec<T>) {
        match self.places.binary_search(&place) {
            Ok(i) => self.stores[i] = values,
            Err(_) => {
                // Nothing computes it; it goes back as it came.
                self.places.push(place);
                self.stores.push(values);
            }
        }
    }

    fn take_back(&mut self, place: Place) -> Vec<T> {
        let at = self.places.iter().position(|p| *p == place);
        at.map(|i| std::mem::take(&mut self.stores[i])).unwrap_or_default()
    }

    /// Outputs that no step computes: inputs and numbers, and values another output has already.
    fn constant_outputs(&mut self) {
        for (i, output) in self.pass.outputs.iter().enumerate() {
            let own = self.places.iter().position(|p| *p == Place::Output(i));
            let source = match (&self.graph[output.id].op, self.store_of[output.id.index()]) {
                (Op::Number(c), _) => vec![T::of(to_f64(c))],
                (Op::Input(_), _) => self.inputs[output.id.index()].to_vec(),
                (_, Some(store)) if Some(store) != own => self.stores[store].clone(),
                _ => continue,
            };
            let Some(own) = own else { continue };
            let length = self.stores[own].len();
            self.stores[own] = if source.len() == 1 { vec![source[0]; length] } else { source };
        }
    }

    // Where values lie.

    /// The stored values of a node, and the row of them at which the block starts.
    fn stored(&self, id: Id) -> (&[T], usize) {
        match self.store_of[id.index()] {
            Some(store) => {
                let is_local = matches!(self.places[store], Place::Buffer(..));
                (&self.stores[store], if is_local { 0 } else { self.block.rows.start })
            }
            None => (self.inputs[id.index()], self.block.rows.start),
        }
    }

    fn is_visibility(&self, id: Id) -> bool {
        matches!(&self.graph[id].op, Op::Input(leaf) if leaf.role == Role::Visible)
    }

    fn is_kept(&self, id: Id) -> bool {
        matches!(&self.graph[id].op, Op::Input(leaf) if leaf.role == Role::Kept)
    }

    fn is_decay(&self, id: Id) -> bool {
        matches!(&self.graph[id].op, Op::Input(leaf) if leaf.role == Role::Decay)
    }

    /// An operand of a loop: a register of this loop, or what is stored.
    fn operand(&self, id: Id, at: &At) -> Operand<'_, T> {
        if self.is_register[id.index()] {
            return match &self.registers[id.index()] {
                Register { number: Some(x), .. } => Operand::Number(*x),
                // A register may hold more tokens than are left.
                Register { vector: xs, .. } => Operand::Vector(&xs[..at.inner.len().min(xs.len())]),
            };
        }
        if matches!(self.graph[id].op, Op::Number(_)) {
            return Operand::Number(T::of(self.constants[id.index()]));
        }
        if self.is_visibility(id) {
            return Operand::Number(T::ONE);
        }
        if self.is_kept(id) && self.dropout.is_none() {
            return Operand::Number(T::ONE);
        }
        let (values, origin) = match (self.is_decay(id), self.is_kept(id)) {
            (true, _) => (self.decay(id), 0),
            (_, true) => (&self.kept[..], 0),
            _ => self.stored(id),
        };
        let head = self.size.head;
        let keys = self.block.keys.start;
        match Domain::of(self.graph.axes(id)) {
            Domain::Scalar => Operand::Number(values[0]),
            Domain::Row if at.domain == Domain::Row => {
                Operand::Vector(&values[origin + at.inner.start..origin + at.inner.end])
            }
            Domain::Row => Operand::Number(values[origin + at.row]),
            Domain::RowVector => {
                let row = (origin + at.row) * head;
                Operand::Vector(&values[row + at.inner.start..row + at.inner.end])
            }
            Domain::Key if matches!(at.domain, Domain::Key | Domain::Tile) => {
                Operand::Vector(&values[at.inner.clone()])
            }
            Domain::Key => Operand::Number(values[at.token]),
            Domain::KeyVector => {
                let row = at.token * head;
                Operand::Vector(&values[row + at.inner.start..row + at.inner.end])
            }
            Domain::Tile if at.domain == Domain::Tile => {
                let row = at.row * self.block.pitch;
                Operand::Vector(&values[row + at.inner.start - keys..row + at.inner.end - keys])
            }
            Domain::Tile | Domain::Triple => Operand::Number(values[at.row * self.block.pitch + at.token - keys]),
        }
    }

    // Steps.

    fn step(&mut self, step: &Step) {
        match step {
            Step::Loop(l) => self.run_loop(l),
            Step::Node(id) => self.node(*id),
        }
    }

    fn node(&mut self, id: Id) {
        let Some(store) = self.store_of[id.index()] else { return };
        let mut out = std::mem::take(&mut self.stores[store]);
        let (rows, keys) = (self.block.rows.len(), self.block.keys.clone());
        let (head, width, pitch) = (self.size.head, keys.len(), self.block.pitch);
        let is_local = matches!(self.places[store], Place::Buffer(..));
        let row_start = if is_local { 0 } else { self.block.rows.start };
        let from_keys = |values: &'_ [T]| -> Range<usize> {
            let start = (keys.start * head).min(values.len());
            start..values.len()
        };
        let tile_strides = Strides::rows(pitch);
        match &self.graph[id].op {
            Op::Dot { row, key } => {
                let (x, x0) = self.stored(*row);
                let (y, _) = self.stored(*key);
                let (x, y) = (&x[x0 * head..], &y[from_keys(y)]);
                let sides = ((x, Strides::rows(head)), (y, Strides::columns(head)));
                multiply([rows, width, head], (&mut out, tile_strides), false, sides.0, sides.1);
            }
            Op::Apply { tile, key } => {
                let tile = self.tile(*tile);
                let (y, _) = self.stored(*key);
                let y = &y[from_keys(y)];
                let out = &mut out[row_start * head..];
                let sides = ((&tile[..], tile_strides), (y, Strides::rows(head)));
                multiply([rows, head, width], (out, Strides::rows(head)), false, sides.0, sides.1);
            }
            Op::Gather { tile, row } => {
                let tile = self.tile(*tile);
                let (x, x0) = self.stored(*row);
                let range = from_keys(&out);
                let out = &mut out[range];
                let sides = ((&tile[..], Strides::columns(pitch)), (&x[x0 * head..], Strides::rows(head)));
                multiply([width, head, rows], (out, Strides::rows(head)), true, sides.0, sides.1);
            }
            Op::Distance { row, key } => {
                let (x, x0) = self.stored(*row);
                let (y, _) = self.stored(*key);
                let (x, y) = (&x[x0 * head..], &y[from_keys(y)]);
                distances([rows, width, head], x, (y, (y, Strides::columns(head))), (&mut out, pitch));
            }
            Op::Threshold(kind, scores) => {
                let mut scratch = std::mem::take(&mut self.scratch);
                let tile = self.tile(*scores);
                for r in 0..rows {
                    let seen = self.seen(r);
                    let row = r * pitch;
                    let scores = &tile[row + seen.start - keys.start..row + seen.end - keys.start];
                    out[row_start + r] = match kind {
                        Entropy::Tsallis(alpha) => threshold::tsallis(scores, to_f64(alpha), &mut scratch),
                        Entropy::Norm(gamma) => threshold::norm(scores, to_f64(gamma), &mut scratch),
                        Entropy::Shannon => T::ZERO,
                    };
                }
                self.scratch = scratch;
            }
            Op::Solve { matrix, right } => {
                for r in 0..rows {
                    let solution = self.solution(matrix, *right, r);
                    let row = (row_start + r) * head;
                    out[row..row + head].copy_from_slice(&solution);
                }
            }
            Op::Scan(linear) | Op::ScanBack(linear) => {
                let HeadSize { queries, tokens, .. } = self.size;
                let Some(course) = &self.course else { return };
                let ones = vec![T::ONE; queries.max(tokens)];
                let (rank, x, y) = match linear.pair {
                    Some((x, y)) => (head, self.stored(x).0, self.stored(y).0),
                    None => (1, &ones[..queries], &ones[..tokens]),
                };
                let decay = linear.decay.map(|id| self.inputs[id.index()]);
                let scan = Scan { course, rank, width: head, x, y, decay };
                let value = self.stored(linear.value).0;
                match self.graph[id].op {
                    Op::Scan(_) => scan.forward(value, &mut out),
                    _ => scan.backward(value, &mut out),
                }
            }
            Op::Total(x) => out[0] = sum(self.stored(*x).0),
            Op::Input(_) | Op::Number(_) | Op::Map(..) | Op::Fold(..) => {}
        }
        self.stores[store] = out;
    }

    /// The tokens of the block that a row sees; an empty interval lies inside of the block too.
    fn seen(&self, row: usize) -> Range<usize> {
        let seen = self.visible.of(self.block.rows.start + row);
        if seen.is_empty() { self.block.keys.start..self.block.keys.start } else { seen }
    }

    /// A stored tile; visibility is written out.
    fn tile(&self, id: Id) -> std::borrow::Cow<'_, [T]> {
        if self.is_decay(id) {
            return self.decay(id).into();
        }
        if !self.is_visibility(id) {
            return self.stored(id).0.into();
        }
        let pitch = self.block.pitch;
        let mut tile = vec![T::ZERO; self.block.rows.len() * pitch];
        for r in 0..self.block.rows.len() {
            let seen = self.seen(r);
            let start = r * pitch + seen.start - self.block.keys.start;
            tile[start..start + seen.len()].fill(T::ONE);
        }
        tile.into()
    }

    /// The tile of a decay.
    fn decay(&self, id: Id) -> &[T] {
        self.decays.iter().find(|(known, _)| *known == id).map_or(&[], |(_, tile)| tile)
    }

    fn fill_kept(&mut self) {
        let Some(HeadDropout { dropout, head }) = self.dropout else { return };
        let Block { rows, keys, pitch } = self.block.clone();
        self.kept.resize(rows.len() * pitch, T::ZERO);
        for (row, own) in rows.zip(self.kept.chunks_mut(pitch)) {
            dropout.row(head, row, keys.clone(), own);
        }
    }

    fn fill_decays(&mut self) {
        let Block { rows, keys, pitch } = self.block.clone();
        for (id, tile) in &mut self.decays {
            let steps = self.inputs[id.index()];
            if steps.is_empty() {
                continue;
            }
            tile.resize(rows.len() * pitch, T::ZERO);
            for r in 0..rows.len() {
                let position = self.visible.position(rows.start + r);
                let (before, own) = tile.split_at_mut(r * pitch);
                match r.checked_sub(1) {
                    None => decay::first_row(steps, position, keys.clone(), own),
                    Some(last) => decay::next_row(steps, position, keys.clone(), &before[last * pitch..], own),
                }
            }
        }
    }

    /// The solution of the system of one row.
    fn solution(&mut self, matrix: &[Entry], right: Id, row: usize) -> Vec<T> {
        let head = self.size.head;
        let at = At { domain: Domain::RowVector, row, token: 0, inner: 0..head };
        let mut solution = self.vector(right, &at);
        if self.seen(row).is_empty() {
            return vec![T::ZERO; head];
        }
        let mut dense = vec![T::ZERO; head * head];
        for entry in matrix {
            match entry {
                Entry::Diagonal(x) => {
                    let x = self.vector(*x, &at);
                    (0..head).for_each(|i| dense[i * head + i] += x[i]);
                }
                Entry::Outer(x, y) => {
                    let (x, y) = (self.vector(*x, &at), self.vector(*y, &at));
                    for (row, x) in dense.chunks_mut(head).zip(&x) {
                        row.iter_mut().zip(&y).for_each(|(m, y)| *m += *x * *y);
                    }
                }
                Entry::Moment(w, x, y) => self.add_moment(*w, *x, *y, row, &mut dense),
            }
        }
        solve::solve(&mut dense, &mut solution, head);
        solution
    }

    /// Adds Σ_n w x yᵀ.
    fn add_moment(&mut self, w: Id, x: Id, y: Id, row: usize, dense: &mut [T]) {
        let head = self.size.head;
        let seen = self.seen(row);
        let mut left = Vec::with_capacity(seen.len() * head);
        let mut right = Vec::with_capacity(seen.len() * head);
        for token in seen.clone() {
            let at = At { domain: Domain::Triple, row, token, inner: 0..head };
            let weight = match self.operand(w, &at) {
                Operand::Number(weight) => weight,
                Operand::Vector(weights) => weights[0],
            };
            left.extend(self.vector(x, &at).into_iter().map(|v| weight * v));
            right.extend(self.vector(y, &at));
        }
        let sides = ((&left[..], Strides::columns(head)), (&right[..], Strides::rows(head)));
        multiply([head, head, seen.len()], (dense, Strides::rows(head)), true, sides.0, sides.1);
    }

    /// A value along the components, computed if it is not stored.
    fn vector(&mut self, id: Id, at: &At) -> Vec<T> {
        let mut maps: Vec<Id> = Vec::new();
        let mut open = vec![id];
        while let Some(o) = open.pop() {
            let is_map = matches!(self.graph[o].op, Op::Map(..)) && self.store_of[o.index()].is_none();
            if is_map && !maps.contains(&o) {
                maps.push(o);
                open.extend(self.graph[o].op.operands());
            }
        }
        maps.sort();
        self.hold(&maps, true);
        for &map in &maps {
            self.compute(map, at);
        }
        let vector = match self.operand(id, at) {
            Operand::Number(x) => vec![x; at.inner.len()],
            Operand::Vector(xs) => xs.to_vec(),
        };
        self.hold(&maps, false);
        vector
    }

    /// Says of some nodes that they are in registers, or no longer.
    fn hold(&mut self, ids: &[Id], is_register: bool) {
        ids.iter().for_each(|id| self.is_register[id.index()] = is_register);
    }

    // Loops.

    fn run_loop(&mut self, l: &Loop) {
        let l = &self.pruned(l);
        let l = &self.fused(l);
        let mut spread = vec![];
        let mut l = l.clone();
        if l.domain == Domain::Triple {
            l.maps.iter().for_each(|id| self.by_row[id.index()] = self.row_difference(*id, &l));
            let scales: Vec<Id> = self.spread(&l).into_iter().filter(|id| self.only_scales(*id, &l)).collect();
            scales.iter().for_each(|id| self.scales[id.index()] = true);
            l = self.with_sums(&l);
            spread = self.spread(&l).into_iter().filter(|id| !self.scales[id.index()]).collect();
        }
        let l = &l;
        self.start_folds(l);
        self.hold(&l.maps, true);
        self.run_over(l, &spread);
        self.hold(&l.maps, false);
        self.hold(&spread, false);
        self.of_difference.fill(None);
        self.is_omitted.fill(false);
        self.by_row.fill(None);
        self.summed.fill(None);
        self.scales.fill(false);
    }

    /// How often the nodes of a loop read each node, or store it.
    fn uses(&self, l: &Loop) -> Vec<usize> {
        let read = l.maps.iter().chain(&l.folds).flat_map(|&id| self.mentioned(id)).chain(l.stores.iter().copied());
        let mut uses = vec![0; self.graph.nodes.len()];
        read.for_each(|id| uses[id.index()] += 1);
        uses
    }

    /// A loop over pairs and components without the products that only sums look at, and without the differences that only
    /// such products look at: to compute them again costs less than to store them.
    fn with_sums(&mut self, l: &Loop) -> Loop {
        let uses = self.uses(l);
        let mut maps = l.maps.clone();
        let summand = |fold: &Id| match self.graph[*fold].op {
            Op::Fold(Fold::Sum, _, x) => Some(x),
            _ => None,
        };
        let summands: Vec<Id> = l.folds.iter().filter_map(summand).collect();
        for &x in &summands {
            let is_only_summed = uses[x.index()] == summands.iter().filter(|y| **y == x).count();
            let is_difference = self.by_row[x.index()].is_some();
            if maps.contains(&x) && is_only_summed && (is_difference || self.is_simple_product(x)) {
                self.summed[x.index()] = Some(if is_difference { vec![x] } else { self.mentioned(x) });
                maps.retain(|map| *map != x);
            }
        }
        // One difference of a product is computed as it is added up; a second one has a register.
        let mut has_difference = vec![false; self.graph.nodes.len()];
        for &id in l.maps.iter().filter(|id| self.by_row[id.index()].is_some()) {
            let looks = |product: &Id| self.summed[product.index()].as_ref().is_some_and(|of| of.contains(&id));
            let products: Vec<Id> = l.maps.iter().copied().filter(looks).collect();
            if products.len() == uses[id.index()] && products.iter().all(|p| !has_difference[p.index()]) {
                products.iter().for_each(|p| has_difference[p.index()] = true);
                maps.retain(|map| *map != id);
            }
        }
        Loop { maps, ..l.clone() }
    }

    /// Whether a node is a product of one or two vectors, of which one at least is not the query's alone, at most one
    /// number per pair, and numbers of the query.
    fn is_simple_product(&self, id: Id) -> bool {
        if !matches!(self.graph[id].op, Op::Map(Map::Mul, _)) || self.of_difference[id.index()].is_some() {
            return false;
        }
        let factors = self.mentioned(id);
        let (vectors, numbers): (Vec<Id>, Vec<Id>) = factors.into_iter().partition(|f| self.graph[*f].has(Axis::E));
        let per_pair: Vec<Id> = numbers.into_iter().filter(|f| self.graph[*f].has(Axis::N)).collect();
        let differs = vectors.iter().any(|f| self.graph[*f].has(Axis::N));
        let is_scaled = per_pair.len() <= 1 && per_pair.iter().all(|f| self.scales[f.index()]);
        (1..=2).contains(&vectors.len()) && differs && is_scaled
    }

    /// The parts of a node of a loop over pairs and components that is a function of a difference.
    fn row_difference(&self, id: Id, l: &Loop) -> Option<ByRow> {
        let OfDifference { a, b, .. } = self.of_difference[id.index()].clone()?;
        let is_row = |id: Id| Domain::of(self.graph.axes(id)) == Domain::RowVector && !l.maps.contains(&id);
        let differs = |id: Id| self.graph[id].has(Axis::N) && self.graph[id].has(Axis::E);
        match (is_row(a) && differs(b), is_row(b) && differs(a)) {
            (true, _) => Some(ByRow { row: a, tokens: b, is_flipped: false }),
            (_, true) => Some(ByRow { row: b, tokens: a, is_flipped: true }),
            _ => None,
        }
    }

    /// Whether a number per pair is a factor of vectors, and nothing else, in a loop over pairs and components.
    fn only_scales(&self, id: Id, l: &Loop) -> bool {
        let is_number = self.graph[id].has(Axis::N) && !self.graph[id].has(Axis::E);
        let is_vector = |o: &Id| self.graph[*o].has(Axis::E);
        let scales = |m: &Id| {
            let count = self.mentioned(*m).iter().filter(|o| **o == id).count();
            let is_product = matches!(&self.graph[*m].op, Op::Map(Map::Mul, of) if of.iter().any(is_vector));
            count == 0 || count == 1 && is_product && self.of_difference[m.index()].is_none()
        };
        is_number && l.maps.iter().all(scales) && !l.folds.iter().any(|f| self.mentioned(*f).contains(&id))
    }

    /// A loop without the differences that only one function looks at: it is computed of both numbers at once.
    fn fused(&mut self, l: &Loop) -> Loop {
        let uses = self.uses(l);
        let is_inside = |id: Id| uses[id.index()] == 1 && l.maps.contains(&id) && !l.stores.contains(&id);
        let mut maps = l.maps.clone();
        for &id in &l.maps {
            let Some((outer, of)) = unary(&self.graph[id].op).filter(|(_, of)| is_inside(*of)) else { continue };
            let found = match (self.of_difference[of.index()].clone(), self.difference(of)) {
                (Some(inner), _) => inner.function.then(outer).map(|function| OfDifference { function, ..inner }),
                (None, Some((a, b))) => Some(OfDifference { function: outer, a, b }),
                (None, None) => None,
            };
            if found.is_some() {
                self.of_difference[of.index()] = None;
                self.of_difference[id.index()] = found;
                maps.retain(|map| *map != of);
            }
        }
        self.fuse_signed_squares(l, &uses, &mut maps);
        Loop { maps, ..l.clone() }
    }

    /// x·|x| of a difference x that nothing else looks at is one function of it.
    fn fuse_signed_squares(&mut self, l: &Loop, uses: &[usize], maps: &mut Vec<Id>) {
        let is_free = |id: Id| l.maps.contains(&id) && !l.stores.contains(&id);
        for &product in &l.maps {
            let Op::Map(Map::Mul, factors) = &self.graph[product].op else { continue };
            for &absolute in factors {
                let Some((Function::Absolute, x)) = unary(&self.graph[absolute].op) else { continue };
                let is_theirs = uses[x.index()] == 2 && uses[absolute.index()] == 1 && factors.contains(&x);
                let Some((a, b)) = self.difference(x).filter(|_| is_theirs && is_free(x) && is_free(absolute)) else {
                    continue;
                };
                self.of_difference[absolute.index()] = Some(OfDifference { function: Function::SignedSquare, a, b });
                self.is_omitted[x.index()] = true;
                maps.retain(|map| *map != x);
            }
        }
    }

    /// (a, b) of a node a − b.
    fn difference(&self, id: Id) -> Option<(Id, Id)> {
        let Op::Map(Map::Add, of) = &self.graph[id].op else { return None };
        match of[..] {
            [x, y] => match (self.negated[x.index()], self.negated[y.index()]) {
                (None, Some(b)) => Some((x, b)),
                (Some(b), None) => Some((y, b)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The values that a node of a loop reads: sums subtract where they would add a negative.
    fn mentioned(&self, id: Id) -> Vec<Id> {
        if let Some(OfDifference { a, b, .. }) = self.of_difference[id.index()] {
            return vec![a, b];
        }
        let operands = self.graph[id].op.operands();
        match &self.graph[id].op {
            Op::Map(Map::Add, _) => operands.into_iter().map(|o| self.negated[o.index()].unwrap_or(o)).collect(),
            Op::Map(Map::Mul, _) => operands.into_iter().filter(|o| !self.is_omitted[o.index()]).collect(),
            _ => operands,
        }
    }

    /// A loop without the maps that nothing in it looks at: sums subtract where they would add a negative.
    fn pruned(&self, l: &Loop) -> Loop {
        let mut open: Vec<Id> = l.folds.iter().flat_map(|&f| self.graph[f].op.operands()).collect();
        open.extend(&l.stores);
        let mut is_needed = vec![false; self.graph.nodes.len()];
        while let Some(id) = open.pop() {
            if l.maps.binary_search(&id).is_err() || std::mem::replace(&mut is_needed[id.index()], true) {
                continue;
            }
            open.extend(self.mentioned(id));
        }
        let maps = l.maps.iter().copied().filter(|id| is_needed[id.index()]).collect();
        Loop { maps, ..l.clone() }
    }

    fn run_over(&mut self, l: &Loop, spread: &[Id]) {
        let size = self.size;
        let rows = self.block.rows.len();
        let at = |row, token, inner| At { domain: l.domain, row, token, inner };
        match l.domain {
            Domain::Scalar => self.stretch(l, &at(0, 0, 0..1)),
            Domain::Key => self.stretch(l, &at(0, 0, 0..size.tokens)),
            Domain::KeyVector => (0..size.tokens).for_each(|n| self.stretch(l, &at(0, n, 0..size.head))),
            Domain::Row => {
                // Queries that see nothing do not take part.
                for r in 0..rows {
                    match self.seen(r).is_empty() {
                        true => self.blank(l, r),
                        false => self.stretch(l, &at(r, 0, r..r + 1)),
                    }
                }
            }
            Domain::RowVector => {
                for r in 0..rows {
                    match self.seen(r).is_empty() {
                        true => self.blank(l, r),
                        false => self.stretch(l, &at(r, 0, 0..size.head)),
                    }
                }
            }
            Domain::Tile => {
                for r in 0..rows {
                    let seen = self.seen(r);
                    match seen.is_empty() {
                        true => self.blank(l, r),
                        false => self.stretch(l, &at(r, 0, seen)),
                    }
                }
            }
            Domain::Triple => {
                let (of_tokens, of_row): (Vec<Id>, Vec<Id>) =
                    spread.iter().partition(|id| self.graph[**id].has(Axis::N));
                // Where nothing is stored in between, all tokens are one group.
                let group = match l.maps.is_empty() && spread.is_empty() {
                    true => size.tokens.max(1),
                    false => (GROUP_ENTRIES / size.head.max(1)).max(1),
                };
                for r in 0..rows {
                    let seen = self.seen(r);
                    self.hold(spread, false);
                    of_row.iter().for_each(|&id| self.repeat(id, &at(r, seen.start, 0..size.head), group));
                    for start in seen.clone().step_by(group) {
                        let count = group.min(seen.end - start);
                        self.hold(&of_tokens, false);
                        of_tokens.iter().for_each(|&id| self.stretch_numbers(id, r, start..start + count));
                        self.hold(spread, true);
                        self.stretch(l, &at(r, start, 0..count * size.head));
                    }
                }
            }
        }
    }

    /// The stored operands of a loop over pairs and components that several tokens do not have side by side: vectors of
    /// the query, and numbers per token.
    fn spread(&self, l: &Loop) -> Vec<Id> {
        let is_summed = |fold: &&Id| self.graph[**fold].op.operands().iter().any(|x| self.summed[x.index()].is_some());
        let folds = l.folds.iter().filter(|fold| !is_summed(fold));
        let operands = l.maps.iter().chain(folds).flat_map(|&id| match self.by_row[id.index()] {
            Some(ByRow { tokens, .. }) => vec![tokens],
            None => self.mentioned(id),
        });
        let is_spread = |id: &Id| {
            let is_stored =
                !l.maps.contains(id) && !self.is_visibility(*id) && !matches!(self.graph[*id].op, Op::Number(_));
            let domain = Domain::of(self.graph.axes(*id));
            is_stored && matches!(domain, Domain::RowVector | Domain::Tile | Domain::Key)
        };
        let mut spread: Vec<Id> = operands.filter(is_spread).collect();
        spread.sort();
        spread.dedup();
        spread
    }

    /// Puts a vector of the query into its register, once for every token of a group.
    fn repeat(&mut self, id: Id, at: &At, group: usize) {
        let mut out = self.taken(id, group * at.inner.len());
        match self.operand(id, at) {
            Operand::Vector(xs) => out.chunks_exact_mut(xs.len().max(1)).for_each(|own| own.copy_from_slice(xs)),
            Operand::Number(x) => out.fill(x),
        }
        self.registers[id.index()] = Register::of(out);
    }

    /// Puts the numbers of some tokens into their register, each once for every component.
    fn stretch_numbers(&mut self, id: Id, row: usize, tokens: Range<usize>) {
        let mut out = self.taken(id, tokens.len() * self.size.head);
        // The numbers themselves lie side by side as in a loop over pairs.
        let at = At { domain: Domain::Tile, row, token: tokens.start, inner: tokens };
        match self.operand(id, &at) {
            Operand::Number(x) => out.fill(x),
            Operand::Vector(xs) => in_lanes(Stretched { of: xs, length: self.size.head, out: &mut out }),
        }
        self.registers[id.index()] = Register::of(out);
    }

    /// The vector of a register, as long as is wanted; what is in it is to be overwritten.
    fn taken(&mut self, id: Id, length: usize) -> Aligned<T> {
        let mut out = std::mem::replace(&mut self.registers[id.index()], Register::empty()).vector;
        out.resize(length);
        out
    }

    /// Folds inside of a block start at 0; those over queries go on.
    fn start_folds(&mut self, l: &Loop) {
        for &fold in &l.folds {
            let Op::Fold(_, axis, _) = self.graph[fold].op else { continue };
            let Some(store) = self.store_of[fold.index()] else { continue };
            if axis == Axis::T {
                continue;
            }
            let per_row = match Domain::of(self.graph.axes(fold)) {
                Domain::Row => 1,
                Domain::RowVector => self.size.head,
                Domain::Tile => self.block.pitch,
                _ => continue,
            };
            let is_local = matches!(self.places[store], Place::Buffer(..));
            let start = if is_local { 0 } else { self.block.rows.start } * per_row;
            let length = self.block.rows.len() * per_row;
            self.stores[store][start..start + length].fill(T::ZERO);
        }
    }

    /// What a query that sees nothing has: 0 everywhere.
    fn blank(&mut self, l: &Loop, row: usize) {
        for &id in &l.stores {
            let Some(store) = self.store_of[id.index()] else { continue };
            let per_row = match Domain::of(self.graph.axes(id)) {
                Domain::Row => 1,
                Domain::RowVector => self.size.head,
                Domain::Tile => self.block.pitch,
                _ => continue,
            };
            let is_local = matches!(self.places[store], Place::Buffer(..));
            let start = (if is_local { 0 } else { self.block.rows.start } + row) * per_row;
            self.stores[store][start..start + per_row].fill(T::ZERO);
        }
    }

    /// One run along the inner direction of a loop.
    fn stretch(&mut self, l: &Loop, at: &At) {
        for &map in &l.maps {
            self.compute(map, at);
        }
        for &fold in &l.folds {
            self.fold(fold, at);
        }
        for &id in &l.stores {
            self.store(id, at);
        }
    }

    fn compute(&mut self, id: Id, at: &At) {
        let Op::Map(map, operands) = &self.graph[id].op else { return };
        let exponent = self.constants[id.index()];
        let mut out = self.taken(id, at.inner.len());
        if let Some(of) = self.difference_by_row(id, at) {
            in_lanes(RowDifferences { of, out: &mut out });
            self.registers[id.index()] = Register::of(out);
            return;
        }
        if let Some(OfDifference { function, a, b }) = self.of_difference[id.index()].clone() {
            let (a, b) = (self.operand(a, at), self.operand(b, at));
            let result = match (a, b) {
                (Operand::Number(a), Operand::Number(b)) => Register { number: Some(function.of(a - b)), vector: out },
                _ => {
                    in_lanes(Differences { function, a, b, out: &mut out });
                    Register::of(out)
                }
            };
            self.registers[id.index()] = result;
            return;
        }
        let mut few = [Term::added(Operand::Number(T::ZERO)); FEW];
        let mut many = vec![];
        let is_scaled = at.domain == Domain::Triple && operands.iter().any(|o| self.scales[o.index()]);
        if is_scaled {
            return self.compute_scaled(id, out, at);
        }
        let operands = operands.iter().filter(|o| !self.is_omitted[o.index()]);
        let count = operands.clone().count();
        let values = match few.get_mut(..count) {
            Some(few) => few,
            None => {
                many.resize(count, Term::added(Operand::Number(T::ZERO)));
                &mut many[..]
            }
        };
        for (value, &o) in values.iter_mut().zip(operands) {
            *value = match self.negated[o.index()] {
                Some(x) if matches!(map, Map::Add) => Term { value: self.operand(x, at), is_subtracted: true },
                _ => Term::added(self.operand(o, at)),
            };
        }
        let result = match values.iter().any(|v| matches!(v.value, Operand::Vector(_))) {
            false => Register { number: Some(apply(map, exponent, values)), vector: out },
            true => {
                in_lanes(All { map, exponent, values, out: &mut out });
                Register::of(out)
            }
        };
        self.registers[id.index()] = result;
    }

    /// A product of vectors and of numbers per pair: the first two together, then one more at a time.
    fn compute_scaled(&mut self, id: Id, mut out: Aligned<T>, at: &At) {
        let Op::Map(_, operands) = &self.graph[id].op else { return };
        let length = self.size.head.max(1);
        let tokens = at.token..at.token + at.inner.len() / length;
        let of_pairs = At { domain: Domain::Tile, row: at.row, token: at.token, inner: tokens };
        let is_scale = |o: &&Id| self.scales[o.index()];
        let is_vector = |o: &&Id| !is_scale(o) && !self.is_omitted[o.index()];
        let mut vectors = operands.iter().filter(is_vector).map(|o| self.operand(*o, at));
        let first = vectors.next().unwrap_or(Operand::Number(T::ONE));
        for (i, scale) in operands.iter().filter(is_scale).enumerate() {
            let by = self.operand(*scale, &of_pairs);
            in_lanes(Scaled { of: (i == 0).then_some(first), by, length, out: &mut out });
        }
        vectors.for_each(|x| in_lanes(Multiplied { by: x, out: &mut out }));
        self.registers[id.index()] = Register::of(out);
    }

    fn fold(&mut self, id: Id, at: &At) {
        let Op::Fold(fold, axis, x) = self.graph[id].op else { return };
        let Some(store) = self.store_of[id.index()] else { return };
        let mut out = std::mem::take(&mut self.stores[store]);
        let is_local = matches!(self.places[store], Place::Buffer(..));
        let row = if is_local { 0 } else { self.block.rows.start } + at.row;
        let head = self.size.head;
        if let Some(factors) = &self.summed[x.index()] {
            self.sum_products(factors, axis, at, &mut out, row);
            self.stores[store] = out;
            return;
        }
        let value = self.operand(x, at);
        let length = at.inner.len();
        // Along the inner direction the fold is a number; across it, entries are added to what is there.
        let is_along = match at.domain {
            Domain::Key | Domain::Tile => axis == Axis::N,
            Domain::KeyVector | Domain::RowVector | Domain::Triple => axis == Axis::E,
            Domain::Row => axis == Axis::T,
            Domain::Scalar => true,
        };
        if at.domain == Domain::Triple && axis != Axis::T {
            // Several tokens side by side.
            let pairs = at.row * self.block.pitch + at.token - self.block.keys.start;
            let count = length / head.max(1);
            let (pairs, row) = (pairs..pairs + count, row * head..(row + 1) * head);
            match (is_along, value) {
                (true, Operand::Number(x)) => out[pairs].fill(x * T::of(head as f64)),
                (true, Operand::Vector(xs)) => in_lanes(Totals { of: xs, length: head, out: &mut out[pairs] }),
                (false, Operand::Number(x)) => add_number(&mut out[row], x * T::of(count as f64)),
                (false, Operand::Vector(xs)) => in_lanes(Added { vectors: xs, out: &mut out[row] }),
            }
        } else if is_along {
            let total = match (fold, value) {
                (Fold::Sum, Operand::Vector(xs)) => in_lanes(Total(xs)),
                (Fold::Sum, Operand::Number(x)) => x * T::of(length as f64),
                (Fold::Max, Operand::Vector(xs)) => xs.iter().fold(-T::INFINITY, |m, x| m.larger(*x)),
                (Fold::Max, Operand::Number(x)) => x,
            };
            match Domain::of(self.graph.axes(id)) {
                Domain::Scalar => out[0] += total,
                Domain::Key => out[at.token] = total,
                _ => out[row] = total,
            }
        } else {
            let start = match (at.domain, axis) {
                (Domain::Tile, _) => at.inner.start,
                (Domain::Triple, _) => at.token * head,
                _ => 0,
            };
            let out = &mut out[start..start + length];
            match value {
                Operand::Number(x) => add_number(out, x),
                Operand::Vector(xs) => in_lanes(Added { vectors: xs, out }),
            }
        }
        self.stores[store] = out;
    }

    /// A difference of a vector of the query and those of several tokens side by side, if a node is a function of one.
    fn difference_by_row(&self, id: Id, at: &At) -> Option<RowDifference<'_, T>> {
        let ByRow { row, tokens, is_flipped } = self.by_row[id.index()]?;
        let OfDifference { function, .. } = self.of_difference[id.index()].as_ref()?;
        let sign = if is_flipped { -T::ONE } else { T::ONE };
        match (self.operand(row, &at.of_row(self.size.head)), self.operand(tokens, at)) {
            (Operand::Vector(row), Operand::Vector(tokens)) => {
                Some(RowDifference { function: *function, sign, row, tokens })
            }
            _ => None,
        }
    }

    /// A sum of products over several tokens side by side, into the store of the sum.
    fn sum_products(&self, factors: &[Id], axis: Axis, at: &At, out: &mut [T], row: usize) {
        let head = self.size.head;
        let count = at.inner.len() / head.max(1);
        let of_pairs = At { domain: Domain::Tile, row: at.row, token: at.token, inner: at.token..at.token + count };
        let (mut by, mut factor) = (Operand::Number(T::ONE), T::ONE);
        let (mut x, mut y) = (None, Vectors::Row(&self.ones[..]));
        for &id in factors {
            if !self.graph[id].has(Axis::E) {
                match self.operand(id, if self.scales[id.index()] { &of_pairs } else { at }) {
                    Operand::Number(number) => factor = factor * number,
                    scale => by = scale,
                }
                continue;
            }
            let difference = if self.is_register[id.index()] { None } else { self.difference_by_row(id, at) };
            let is_row = Domain::of(self.graph.axes(id)) == Domain::RowVector;
            let vector = match (difference, is_row) {
                (Some(difference), _) => Vectors::Difference(difference),
                (None, true) => Vectors::Row(self.entries(id, &at.of_row(head))),
                (None, false) => Vectors::Tokens(self.entries(id, at)),
            };
            // What is no difference, or the query's, is the second factor.
            match (x, vector) {
                (None, Vectors::Tokens(_) | Vectors::Difference(_)) => x = Some(vector),
                (Some(Vectors::Tokens(_)), Vectors::Difference(_)) => y = x.replace(vector).unwrap_or(y),
                _ => y = vector,
            }
        }
        let Some(x) = x else { return };
        let pairs = at.row * self.block.pitch + at.token - self.block.keys.start;
        let (over, out) = match axis {
            Axis::E => (Over::Components, &mut out[pairs..pairs + count]),
            Axis::N => (Over::Tokens, &mut out[row * head..(row + 1) * head]),
            _ => (Over::Queries, &mut out[at.token * head..(at.token + count) * head]),
        };
        in_lanes(Products { over, by, factor, x, y, length: head, out });
    }

    /// The numbers of an operand that is a vector.
    fn entries(&self, id: Id, at: &At) -> &[T] {
        match self.operand(id, at) {
            Operand::Vector(xs) => xs,
            Operand::Number(_) => &[],
        }
    }

    fn store(&mut self, id: Id, at: &At) {
        let Some(store) = self.store_of[id.index()] else { return };
        let mut out = std::mem::take(&mut self.stores[store]);
        let is_local = matches!(self.places[store], Place::Buffer(..));
        let row = if is_local { 0 } else { self.block.rows.start } + at.row;
        let head = self.size.head;
        let start = match Domain::of(self.graph.axes(id)) {
            Domain::Scalar => 0,
            Domain::Row => row,
            Domain::RowVector => row * head,
            Domain::Key => at.inner.start,
            Domain::KeyVector => at.token * head,
            Domain::Tile | Domain::Triple => {
                let (pitch, keys) = (self.block.pitch, self.block.keys.clone());
                out[at.row * pitch..at.row * pitch + keys.len()].fill(T::ZERO);
                at.row * pitch + at.inner.start - keys.start
            }
        };
        let out_part = &mut out[start..start + at.inner.len()];
        match &self.registers[id.index()] {
            Register { number: Some(x), .. } => out_part.fill(*x),
            Register { vector: xs, .. } => out_part.copy_from_slice(xs),
        }
        self.stores[store] = out;
    }
}

/// The decays of a graph.
fn decay_nodes(graph: &Graph) -> Vec<Id> {
    let is_decay = |id: &Id| matches!(&graph[*id].op, Op::Input(leaf) if leaf.role == Role::Decay);
    (0..graph.nodes.len()).map(|i| Id(i as u32)).filter(is_decay).collect()
}

/// Which inputs a pass reads.
fn needed_inputs(graph: &Graph, pass: &Pass) -> Vec<bool> {
    let mut needed = vec![false; graph.nodes.len()];
    let mut open: Vec<Id> = pass.outputs.iter().map(|o| o.id).collect();
    open.extend(pass.saved.iter().filter(|_| pass.is_saving));
    while let Some(id) = open.pop() {
        let is_new = !std::mem::replace(&mut needed[id.index()], true);
        if is_new && (pass.is_saving || !pass.saved.contains(&id)) {
            open.extend(graph[id].op.operands());
        }
    }
    needed
}
