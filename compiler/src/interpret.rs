//! The plan interpreter: any plan on plain buffers, with no code generation.
//!
//! It follows the schedule that emitted kernels follow, step by step: matrix products are the same calls, and a fused
//! loop runs operation by operation over one row (or several tokens of one) at a time, in the fastest cache and on
//! registers as wide as the machine's. It is the second oracle (in f64, against the
//! reference interpreter of the algebra) and the engine for recipes that were not compiled in.

mod aligned;
mod fusion;
mod loops;
mod sources;
mod vectors;

use crate::ir::{Entropy, Leaf, Role, rational::to_f64};
use crate::plan::graph::{Entry, Graph, Id, Op};
use crate::plan::schedule::{Domain, Pass, Place, Step};
use crate::primitives::blocks::{next_block, seen_by};
use crate::primitives::dropout::Dropout;
use crate::primitives::product::{Strides, multiply};
use crate::primitives::real::Real;
use crate::primitives::scan::{Course, Scan};
use crate::primitives::visible::Visible;
use crate::primitives::{decay, threshold};
use fusion::Fusion;
use loops::{Prepared, Register};
use sources::Sources;
use std::collections::BTreeSet;
use std::ops::Range;
use vectors::{Distances, Solved, in_lanes, sum};

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
            Domain::Vector => head,
            Domain::Key => tokens,
            Domain::KeyVector => tokens * head,
            Domain::Row => queries,
            Domain::RowVector => queries * head,
            Domain::Tile => queries * tokens,
            Domain::Triple => queries * tokens * head,
        }
    }
}

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

/// A kind of numbers that plans are run in. The machine is compiled once for each, here, and not wherever it is used.
pub trait Number: Real {
    /// Runs a pass over one head.
    ///
    /// `input` finds an input by its leaf: arrays of the head, one number for parameters and sizes, the per-step factors
    /// for a decay. `saved` and `outputs` have the lengths their values have over all queries and tokens.
    fn run_head<'a>(
        graph: &Graph,
        pass: &Pass,
        head: Head,
        input: &dyn Fn(&Leaf) -> &'a [Self],
        saved: &mut [Vec<Self>],
        outputs: &mut [Vec<Self>],
    );
}

macro_rules! number {
    ($number:ty) => {
        impl Number for $number {
            fn run_head<'a>(
                graph: &Graph,
                pass: &Pass,
                head: Head,
                input: &dyn Fn(&Leaf) -> &'a [$number],
                saved: &mut [Vec<$number>],
                outputs: &mut [Vec<$number>],
            ) {
                run(graph, pass, head, input, saved, outputs);
            }
        }
    };
}
number!(f32);
number!(f64);

fn run<'a, T: Real>(
    graph: &Graph,
    pass: &Pass,
    head: Head,
    input: &dyn Fn(&Leaf) -> &'a [T],
    saved: &mut [Vec<T>],
    outputs: &mut [Vec<T>],
) {
    let Head { size, visible, .. } = head;
    let intervals = visible.intervals();
    let blocks = if pass.is_scan { std::iter::once(0..size.queries).collect() } else { blocks(visible) };
    let rows = blocks.iter().map(|b| b.len()).max().unwrap_or(0);
    let widest = blocks.iter().map(|b| seen_by(&intervals[b.clone()]).len()).max().unwrap_or(0);
    let width = if pass.is_scan { 0 } else { widest };
    let mut machine = Machine::new(graph, pass, head, input, (rows, width));
    let given = saved.iter_mut().enumerate().map(|(i, x)| (Place::Saved(i), x));
    let wanted = outputs.iter_mut().enumerate().map(|(i, x)| (Place::Output(i), x));
    let mut outside: Vec<(Place, &mut Vec<T>)> = given.chain(wanted).collect();
    for (place, values) in &mut outside {
        if matches!(place, Place::Output(_)) {
            values.fill(T::ZERO);
        }
        machine.lend(*place, std::mem::take(values));
    }
    let [before, each, after] = [&pass.before, &pass.rows, &pass.after].map(|steps| machine.tasks(steps));
    before.iter().for_each(|task| machine.run(task));
    for rows in blocks {
        machine.block = Block { keys: seen_by(&intervals[rows.clone()]), rows, pitch: width.max(1) };
        if !pass.is_scan {
            machine.fill_decays();
            machine.fill_kept();
        }
        each.iter().for_each(|task| machine.run(task));
    }
    after.iter().for_each(|task| machine.run(task));
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

/// A step of a pass, ready to run.
enum Task<T> {
    Node(Id),
    Loop(Prepared<T>),
}

struct Machine<'p, 'a, T> {
    graph: &'p Graph,
    pass: &'p Pass,
    size: HeadSize,
    visible: &'p Visible,
    inputs: Vec<&'a [T]>,
    sources: Sources<'p>,
    /// One per place.
    stores: Vec<Vec<T>>,
    /// The tiles of decays.
    decays: Vec<Vec<T>>,
    /// What dropout multiplies the pairs of the block by.
    kept: Vec<T>,
    dropout: Option<HeadDropout>,
    block: Block,
    /// One per node.
    registers: Vec<Register<T>>,
    /// A vector of ones.
    ones: Vec<T>,
    scratch: Vec<T>,
    course: Option<Course>,
}

impl<'p, 'a, T: Real> Machine<'p, 'a, T> {
    /// A machine for blocks of at most so many rows that see at most so many tokens.
    fn new(
        graph: &'p Graph,
        pass: &'p Pass,
        Head { size, visible, dropout }: Head<'p>,
        input: &dyn Fn(&Leaf) -> &'a [T],
        (rows, width): (usize, usize),
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
        // An output that is an input is read where it comes from.
        let is_computed = |id: &Id| !matches!(graph[*id].op, Op::Input(_) | Op::Number(_));
        for (id, place) in pass.places.iter().filter(|(id, _)| is_computed(id)) {
            store_of[id.index()] = places.binary_search(place).ok();
        }
        let decays = decay_nodes(graph);
        let (has_dropout, pitch) = (dropout.is_some(), width.max(1));
        Machine {
            graph,
            pass,
            size,
            visible,
            inputs,
            decays: vec![vec![]; decays.len()],
            sources: Sources { graph, places, store_of, decays, has_dropout, head: size.head, pitch },
            stores,
            kept: vec![],
            dropout,
            block: Block { rows: 0..0, keys: 0..0, pitch },
            registers: graph.nodes.iter().map(|_| Register::empty()).collect(),
            ones: vec![T::ONE; size.head],
            scratch: vec![],
            course: if pass.is_scan { Course::of(visible.intervals(), size.tokens, graph.has_decay()) } else { None },
        }
    }

    fn lend(&mut self, place: Place, values: Vec<T>) {
        match self.sources.places.iter().position(|p| *p == place) {
            Some(i) => self.stores[i] = values,
            None => {
                // Nothing computes it; it goes back as it came.
                self.sources.places.push(place);
                self.stores.push(values);
            }
        }
    }

    fn take_back(&mut self, place: Place) -> Vec<T> {
        let at = self.sources.places.iter().position(|p| *p == place);
        at.map(|i| std::mem::take(&mut self.stores[i])).unwrap_or_default()
    }

    /// Outputs that no step computes: inputs and numbers, and values another output has already.
    fn constant_outputs(&mut self) {
        for (i, output) in self.pass.outputs.iter().enumerate() {
            let own = self.sources.places.iter().position(|p| *p == Place::Output(i));
            let source = match (&self.graph[output.id].op, self.sources.store_of[output.id.index()]) {
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

    /// The stored values of a node, and the row of them at which the block starts.
    fn stored(&self, id: Id) -> (&[T], usize) {
        match self.sources.store_of[id.index()] {
            Some(store) => {
                let is_local = self.sources.is_local(store);
                (&self.stores[store], if is_local { 0 } else { self.block.rows.start })
            }
            None => (self.inputs[id.index()], self.block.rows.start),
        }
    }

    // Steps.

    fn tasks(&self, steps: &[Step]) -> Vec<Task<T>> {
        let task = |step: &Step| match step {
            Step::Loop(l) => Task::Loop(self.prepared(&Fusion::of(self.graph, &self.sources.store_of, l))),
            Step::Node(id) => Task::Node(*id),
        };
        steps.iter().map(task).collect()
    }

    fn run(&mut self, task: &Task<T>) {
        match task {
            Task::Loop(l) => self.run_loop(l),
            Task::Node(id) => self.node(*id),
        }
    }

    fn node(&mut self, id: Id) {
        let Some(store) = self.sources.store_of[id.index()] else { return };
        let mut out = std::mem::take(&mut self.stores[store]);
        let (rows, keys) = (self.block.rows.len(), self.block.keys.clone());
        let (head, width, pitch) = (self.size.head, keys.len(), self.block.pitch);
        let is_local = self.sources.is_local(store);
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
                in_lanes(Distances { counts: [rows, width], head, x, y, out: &mut out, pitch });
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
            Op::Scan(linear) | Op::ScanBack(linear) | Op::ScanSteps { linear, .. } => {
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
                    Op::ScanSteps { row, .. } => scan.steps(value, self.stored(row).0, &mut out),
                    _ => scan.backward(value, &mut out),
                }
            }
            Op::Steps { tile, decay } => {
                let mut sums = std::mem::take(&mut self.scratch);
                let (tile, steps) = (self.tile(*tile), self.inputs[decay.index()]);
                for r in 0..rows {
                    let position = self.visible.position(self.block.rows.start + r);
                    let slopes = &tile[r * pitch..r * pitch + width];
                    decay::add_gradient(steps, position, keys.clone(), slopes, &mut sums, &mut out);
                }
                self.scratch = sums;
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
        if self.sources.is_decay(id) {
            return self.decay(id).into();
        }
        if !self.sources.is_visibility(id) {
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
        self.sources.decays.iter().position(|known| *known == id).map_or(&[], |i| &self.decays[i])
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
        for (id, tile) in self.sources.decays.iter().zip(&mut self.decays) {
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
        let at = self.at(row, 0, head);
        if self.seen(row).is_empty() {
            return vec![T::ZERO; head];
        }
        let mut solution = self.vector(&self.unstored(right), &at);
        let mut dense = vec![T::ZERO; head * head];
        for entry in matrix {
            match entry {
                Entry::Diagonal(x) => {
                    let x = self.vector(&self.unstored(*x), &at);
                    (0..head).for_each(|i| dense[i * head + i] += x[i]);
                }
                Entry::Outer(x, y) => {
                    let (x, y) = (self.unstored(*x), self.unstored(*y));
                    let (x, y) = (self.vector(&x, &at), self.vector(&y, &at));
                    for (row, x) in dense.chunks_mut(head).zip(&x) {
                        row.iter_mut().zip(&y).for_each(|(m, y)| *m += *x * *y);
                    }
                }
                Entry::Moment(w, x, y) => self.add_moment(*w, *x, *y, row, &mut dense),
            }
        }
        in_lanes(Solved { matrix: &mut dense, right: &mut solution });
        solution
    }

    /// Adds Σ_n w x yᵀ.
    fn add_moment(&mut self, w: Id, x: Id, y: Id, row: usize, dense: &mut [T]) {
        let head = self.size.head;
        let seen = self.seen(row);
        let mut left = Vec::with_capacity(seen.len() * head);
        let mut right = Vec::with_capacity(seen.len() * head);
        let weight = self.sources.stored(w, Domain::Triple);
        let (x, y) = (self.unstored(x), self.unstored(y));
        for token in seen.clone() {
            let at = self.at(row, token, head);
            let weight = self.fetch(&weight, &at).at(0);
            left.extend(self.vector(&x, &at).into_iter().map(|v| weight * v));
            right.extend(self.vector(&y, &at));
        }
        let sides = ((&left[..], Strides::columns(head)), (&right[..], Strides::rows(head)));
        multiply([head, head, seen.len()], (dense, Strides::rows(head)), true, sides.0, sides.1);
    }

    /// The maps that have to be computed for a value along the components, which is the last of them.
    fn unstored(&self, id: Id) -> (Prepared<T>, Id) {
        let mut maps: BTreeSet<Id> = BTreeSet::new();
        let mut open = vec![id];
        while let Some(o) = open.pop() {
            let is_map = matches!(self.graph[o].op, Op::Map(..)) && self.sources.store_of[o.index()].is_none();
            if is_map && maps.insert(o) {
                open.extend(self.graph[o].op.operands());
            }
        }
        let maps: Vec<Id> = maps.into_iter().collect();
        (self.prepared(&Fusion::plain(self.graph, &self.sources.store_of, maps)), id)
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
