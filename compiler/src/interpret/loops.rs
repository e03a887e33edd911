//! The fused loops of a plan: prepared once, then run operation by operation along the inner direction.

use super::aligned::Aligned;
use super::fusion::{ByRow, Fusion, OfDifference};
use super::sources::{Array, At, Entries, Extent, Source};
use super::vectors::{
    Added, All, Differences, FEW, Function, Multiplied, Operand, Over, Products, RowDifference, RowDifferences, Scaled,
    Stretched, Term, Total, Totals, Vectors, add_number, apply, in_lanes,
};
use super::{HeadSize, Machine};
use crate::ir::{Axis, rational::to_f64};
use crate::plan::graph::{Fold, Id, Map, Op};
use crate::plan::schedule::Domain;
use crate::primitives::real::Real;

/// Numbers of a loop over pairs and components that are worked on together.
const GROUP_ENTRIES: usize = 2048;

/// A value inside of a loop: a number, or a vector; the vector's room stays when it is a number.
#[derive(Debug)]
pub struct Register<T> {
    number: Option<T>,
    vector: Aligned<T>,
}

impl<T: Real> Register<T> {
    pub fn empty() -> Register<T> {
        Register { number: Some(T::ZERO), vector: Aligned::new() }
    }
}

/// A loop whose operands are found.
pub struct Prepared<T> {
    domain: Domain,
    maps: Vec<Computed<T>>,
    folds: Vec<Folded<T>>,
    /// Registers, and where they are stored.
    stores: Vec<(usize, Entries)>,
    /// Vectors of the query, which are in their registers once for every token.
    repeated: Vec<(usize, Source<T>)>,
    /// Numbers of tokens, which are in their registers once for every component.
    stretched: Vec<(usize, Source<T>)>,
}

/// What a register becomes.
struct Computed<T> {
    register: usize,
    by: Operation<T>,
}

enum Operation<T> {
    /// A map of terms, which a sum may subtract.
    Map { map: Map, exponent: f64, terms: Vec<(Source<T>, bool)> },
    /// f(a − b).
    Difference { function: Function, a: Source<T>, b: Source<T> },
    /// The same of the query's vector and those of tokens.
    ByRow(Compared<T>),
    /// A product of vectors and of numbers per pair.
    Scaled { vectors: Vec<Source<T>>, scales: Vec<Source<T>> },
}

/// f(±(row − tokens)).
struct Compared<T> {
    function: Function,
    sign: T,
    row: Source<T>,
    tokens: Source<T>,
}

/// A fold, and where it goes.
struct Folded<T> {
    fold: Fold,
    axis: Axis,
    of: Summand<T>,
    to: Entries,
    /// Whether every run adds to the same number.
    is_total: bool,
}

enum Summand<T> {
    Value(Source<T>),
    /// A product of numbers, of at most one number per pair, and of one or two vectors.
    Product {
        numbers: Vec<Source<T>>,
        vectors: Vec<Factor<T>>,
    },
}

enum Factor<T> {
    Tokens(Source<T>),
    Row(Source<T>),
    Compared(Compared<T>),
}

impl<T: Real> Machine<'_, '_, T> {
    // Preparation.

    pub(super) fn prepared(&self, fusion: &Fusion) -> Prepared<T> {
        let (repeated, stretched): (Vec<Id>, Vec<Id>) =
            fusion.spread.iter().partition(|id| !self.graph[**id].has(Axis::N));
        let stored_of = |id: Id| self.sources.stored(id, fusion.domain);
        Prepared {
            domain: fusion.domain,
            maps: fusion.maps.iter().map(|&id| self.computed(id, fusion)).collect(),
            folds: fusion.folds.iter().filter_map(|&id| self.folded(id, fusion)).collect(),
            stores: fusion.stores.iter().map(|&id| (id.index(), self.sources.entries(id, fusion.domain))).collect(),
            repeated: repeated.into_iter().map(|id| (id.index(), stored_of(id))).collect(),
            stretched: stretched.into_iter().map(|id| (id.index(), self.sources.per_token(id))).collect(),
        }
    }

    fn source(&self, id: Id, fusion: &Fusion) -> Source<T> {
        match fusion.is_register(id) {
            true => Source::Register(id.index()),
            false => self.sources.stored(id, fusion.domain),
        }
    }

    fn computed(&self, id: Id, fusion: &Fusion) -> Computed<T> {
        let source = |id: Id| self.source(id, fusion);
        let by = if let Some(by_row) = fusion.by_row(id) {
            Operation::ByRow(self.compared(by_row, fusion))
        } else if let Some(OfDifference { function, a, b }) = fusion.of_difference(id) {
            Operation::Difference { function, a: source(a), b: source(b) }
        } else {
            let terms = fusion.terms(id);
            let (scales, vectors): (Vec<Id>, Vec<Id>) =
                terms.iter().map(|(o, _)| *o).partition(|o| fusion.is_scale(*o));
            match (&self.graph[id].op, scales.is_empty()) {
                (Op::Map(map, _), true) => {
                    let exponent = if let Map::Pow(r) = map { to_f64(r) } else { 0.0 };
                    let terms = terms.into_iter().map(|(o, is_subtracted)| (source(o), is_subtracted)).collect();
                    Operation::Map { map: map.clone(), exponent, terms }
                }
                _ => {
                    let scales = scales.into_iter().map(|o| self.sources.per_token(o)).collect();
                    Operation::Scaled { vectors: vectors.into_iter().map(source).collect(), scales }
                }
            }
        };
        Computed { register: id.index(), by }
    }

    fn compared(&self, ByRow { function, row, tokens, is_flipped }: ByRow, fusion: &Fusion) -> Compared<T> {
        let sign = if is_flipped { -T::ONE } else { T::ONE };
        let row = self.sources.stored(row, fusion.domain);
        Compared { function, sign, row, tokens: self.source(tokens, fusion) }
    }

    fn folded(&self, id: Id, fusion: &Fusion) -> Option<Folded<T>> {
        let Op::Fold(fold, axis, x) = self.graph[id].op else { return None };
        self.sources.store_of[id.index()]?;
        let of = match fusion.summed(x) {
            Some(factors) => self.product(factors, fusion),
            None => Summand::Value(self.source(x, fusion)),
        };
        let to = match (fusion.domain, axis) {
            (Domain::Triple, Axis::E) => self.sources.entries_per_token(id),
            _ => self.sources.entries(id, fusion.domain),
        };
        let is_total = Domain::of(self.graph.axes(id)) == Domain::Scalar;
        Some(Folded { fold, axis, of, to, is_total })
    }

    /// What is no difference, or the query's, is the second of two vectors.
    fn product(&self, factors: &[Id], fusion: &Fusion) -> Summand<T> {
        let (vectors, numbers): (Vec<Id>, Vec<Id>) = factors.iter().partition(|id| self.graph[**id].has(Axis::E));
        let number = |id: Id| match fusion.is_scale(id) {
            true => self.sources.per_token(id),
            false => self.source(id, fusion),
        };
        let factor = |id: Id| match fusion.by_row(id) {
            Some(by_row) if !fusion.is_register(id) => Factor::Compared(self.compared(by_row, fusion)),
            _ if !self.graph[id].has(Axis::N) => Factor::Row(self.source(id, fusion)),
            _ => Factor::Tokens(self.source(id, fusion)),
        };
        let mut vectors: Vec<Factor<T>> = vectors.into_iter().map(factor).collect();
        vectors.sort_by_key(|factor| match factor {
            Factor::Compared(_) => 0,
            Factor::Tokens(_) => 1,
            Factor::Row(_) => 2,
        });
        Summand::Product { numbers: numbers.into_iter().map(number).collect(), vectors }
    }

    // Runs.

    pub(super) fn at(&self, row: usize, token: usize, length: usize) -> At {
        At { row, query: self.block.rows.start + row, token, first: self.block.keys.start, length }
    }

    /// What a source has where a loop stands.
    #[inline(always)]
    pub(super) fn fetch(&self, source: &Source<T>, at: &At) -> Operand<'_, T> {
        match source {
            Source::Number(x) => Operand::Number(*x),
            Source::Register(i) => match &self.registers[*i] {
                Register { number: Some(x), .. } => Operand::Number(*x),
                // A register may hold more tokens than are left.
                Register { vector: xs, .. } => Operand::Vector(&xs[..at.length.min(xs.len())]),
            },
            Source::Stored(entries) => {
                let values = match entries.array {
                    Array::Input(i) => self.inputs[i],
                    Array::Store(i) => &self.stores[i],
                    Array::Decay(i) => &self.decays[i],
                    Array::Kept => &self.kept,
                };
                let start = entries.start(at);
                match entries.extent {
                    Extent::One => Operand::Number(values[start]),
                    _ => Operand::Vector(&values[start..start + entries.length(at, self.size.head)]),
                }
            }
        }
    }

    /// The numbers of a source that is a vector.
    fn entries(&self, source: &Source<T>, at: &At) -> &[T] {
        match self.fetch(source, at) {
            Operand::Vector(xs) => xs,
            Operand::Number(_) => &[],
        }
    }

    pub(super) fn run_loop(&mut self, l: &Prepared<T>) {
        self.start_folds(l);
        let HeadSize { tokens, head, .. } = self.size;
        match l.domain {
            Domain::Scalar => self.stretch(l, &self.at(0, 0, 1)),
            Domain::Vector => self.stretch(l, &self.at(0, 0, head)),
            Domain::Key => self.stretch(l, &self.at(0, 0, tokens)),
            Domain::KeyVector => (0..tokens).for_each(|n| self.stretch(l, &self.at(0, n, head))),
            Domain::Row | Domain::RowVector | Domain::Tile | Domain::Triple => {
                for row in 0..self.block.rows.len() {
                    let seen = self.seen(row);
                    match l.domain {
                        // Queries that see nothing do not take part.
                        _ if seen.is_empty() => self.blank(l, row),
                        Domain::Row => self.stretch(l, &self.at(row, 0, 1)),
                        Domain::RowVector => self.stretch(l, &self.at(row, 0, head)),
                        Domain::Tile => self.stretch(l, &self.at(row, seen.start, seen.len())),
                        _ => self.groups(l, row, seen),
                    }
                }
            }
        }
    }

    /// The tokens that a query sees, with all their components, in groups.
    fn groups(&mut self, l: &Prepared<T>, row: usize, seen: std::ops::Range<usize>) {
        let head = self.size.head;
        // Where nothing is stored in between, all tokens are one group.
        let group = match l.maps.is_empty() && l.repeated.is_empty() && l.stretched.is_empty() {
            true => seen.len(),
            false => (GROUP_ENTRIES / head.max(1)).max(1),
        };
        for (register, source) in &l.repeated {
            self.repeat(*register, source, &self.at(row, seen.start, group * head));
        }
        for start in seen.clone().step_by(group) {
            let at = self.at(row, start, group.min(seen.end - start) * head);
            for (register, source) in &l.stretched {
                self.stretch_numbers(*register, source, &at);
            }
            self.stretch(l, &at);
        }
    }

    /// Puts a vector of the query into a register, once for every token of a group.
    fn repeat(&mut self, register: usize, source: &Source<T>, at: &At) {
        let mut out = self.taken(register, at.length);
        match self.fetch(source, at) {
            Operand::Vector(xs) => out.chunks_exact_mut(xs.len().max(1)).for_each(|own| own.copy_from_slice(xs)),
            Operand::Number(x) => out.fill(x),
        }
        self.registers[register] = Register { number: None, vector: out };
    }

    /// Puts the numbers of some tokens into a register, each once for every component.
    fn stretch_numbers(&mut self, register: usize, source: &Source<T>, at: &At) {
        let mut out = self.taken(register, at.length);
        match self.fetch(source, at) {
            Operand::Number(x) => out.fill(x),
            Operand::Vector(xs) => in_lanes(Stretched { of: xs, length: self.size.head, out: &mut out }),
        }
        self.registers[register] = Register { number: None, vector: out };
    }

    /// The vector of a register, as long as is wanted; what is in it is to be overwritten.
    fn taken(&mut self, register: usize, length: usize) -> Aligned<T> {
        let mut out = std::mem::replace(&mut self.registers[register].vector, Aligned::new());
        out.resize(length);
        out
    }

    /// Folds inside of a block start with nothing; those over queries go on.
    fn start_folds(&mut self, l: &Prepared<T>) {
        for Folded { to, fold, .. } in l.folds.iter().filter(|fold| fold.axis != Axis::T) {
            let Array::Store(store) = to.array else { continue };
            let start = self.block.rows.start * to.per_query;
            let length = self.block.rows.len() * (to.per_row + to.per_query);
            let nothing = match fold {
                Fold::Sum => T::ZERO,
                Fold::Max => -T::INFINITY,
            };
            self.stores[store][start..start + length].fill(nothing);
        }
    }

    /// What a query that sees nothing has: 0 everywhere.
    fn blank(&mut self, l: &Prepared<T>, row: usize) {
        let folds = l.folds.iter().filter(|fold| fold.axis != Axis::T).map(|fold| &fold.to);
        for to in l.stores.iter().map(|(_, to)| to).chain(folds) {
            let Array::Store(store) = to.array else { continue };
            let start = row * to.per_row + (self.block.rows.start + row) * to.per_query;
            self.stores[store][start..start + to.per_row + to.per_query].fill(T::ZERO);
        }
    }

    /// One run along the inner direction of a loop.
    fn stretch(&mut self, l: &Prepared<T>, at: &At) {
        for map in &l.maps {
            self.compute(map, at);
        }
        for fold in &l.folds {
            self.fold(fold, l.domain, at);
        }
        for (register, to) in &l.stores {
            self.store(*register, to, l.domain, at);
        }
    }

    fn compute(&mut self, Computed { register, by }: &Computed<T>, at: &At) {
        let mut out = self.taken(*register, at.length);
        let number = match by {
            Operation::Map { map, exponent, terms } => self.map(map, *exponent, terms, at, &mut out),
            Operation::Difference { function, a, b } => match (self.fetch(a, at), self.fetch(b, at)) {
                (Operand::Number(a), Operand::Number(b)) => Some(function.of(a - b)),
                (a, b) => {
                    in_lanes(Differences { function: *function, a, b, out: &mut out });
                    None
                }
            },
            Operation::ByRow(compared) => {
                in_lanes(RowDifferences { of: self.row_difference(compared, at), out: &mut out });
                None
            }
            Operation::Scaled { vectors, scales } => {
                self.scaled(vectors, scales, at, &mut out);
                None
            }
        };
        self.registers[*register] = Register { number, vector: out };
    }

    /// A map into `out`, or as a number if all its terms are numbers.
    fn map(&self, map: &Map, exponent: f64, terms: &[(Source<T>, bool)], at: &At, out: &mut [T]) -> Option<T> {
        let mut few = [Term::added(Operand::Number(T::ZERO)); FEW];
        let mut many = vec![];
        let values = match few.get_mut(..terms.len()) {
            Some(few) => few,
            None => {
                many.resize(terms.len(), Term::added(Operand::Number(T::ZERO)));
                &mut many[..]
            }
        };
        let mut is_number = true;
        for (term, (source, is_subtracted)) in values.iter_mut().zip(terms) {
            let value = self.fetch(source, at);
            is_number &= matches!(value, Operand::Number(_));
            *term = Term { value, is_subtracted: *is_subtracted };
        }
        if is_number {
            return Some(apply(map, exponent, values));
        }
        in_lanes(All { map, exponent, values, out });
        None
    }

    /// A product of vectors and of numbers per pair: the first two together, then one more at a time.
    fn scaled(&self, vectors: &[Source<T>], scales: &[Source<T>], at: &At, out: &mut [T]) {
        let length = self.size.head.max(1);
        let mut vectors = vectors.iter().map(|x| self.fetch(x, at));
        let first = vectors.next().unwrap_or(Operand::Number(T::ONE));
        for (i, scale) in scales.iter().enumerate() {
            in_lanes(Scaled { of: (i == 0).then_some(first), by: self.fetch(scale, at), length, out });
        }
        vectors.for_each(|x| in_lanes(Multiplied { by: x, out }));
    }

    fn row_difference(&self, Compared { function, sign, row, tokens }: &Compared<T>, at: &At) -> RowDifference<'_, T> {
        let (row, tokens) = (self.entries(row, at), self.entries(tokens, at));
        RowDifference { function: *function, sign: *sign, row, tokens }
    }

    fn fold(&mut self, Folded { fold, axis, of, to, is_total }: &Folded<T>, domain: Domain, at: &At) {
        let Array::Store(store) = to.array else { return };
        let mut out = std::mem::take(&mut self.stores[store]);
        let start = to.start(at);
        let own = &mut out[start..start + to.length(at, self.size.head)];
        match of {
            Summand::Product { numbers, vectors } => self.sum_products(numbers, vectors, *axis, at, own),
            Summand::Value(x) if domain == Domain::Triple => self.fold_group(*fold, *axis, self.fetch(x, at), at, own),
            Summand::Value(x) if to.extent == Extent::One => {
                let along = along(*fold, self.fetch(x, at), at.length);
                own[0] = if *is_total { own[0] + along } else { along };
            }
            // Across the inner direction, entries are added to what is there.
            Summand::Value(x) => match self.fetch(x, at) {
                Operand::Number(x) => add_number(own, x),
                Operand::Vector(xs) => in_lanes(Added { vectors: xs, out: own }),
            },
        }
        self.stores[store] = out;
    }

    /// A fold of some of several tokens side by side.
    fn fold_group(&self, fold: Fold, axis: Axis, value: Operand<T>, at: &At, out: &mut [T]) {
        let head = self.size.head;
        match (fold, axis, value) {
            (Fold::Sum, Axis::E, Operand::Number(x)) => out.fill(x * T::of(head as f64)),
            (Fold::Sum, Axis::E, Operand::Vector(xs)) => in_lanes(Totals { of: xs, length: head, out }),
            (Fold::Sum, Axis::N, Operand::Number(x)) => {
                add_number(out, x * T::of((at.length / head.max(1)) as f64));
            }
            (Fold::Sum, _, Operand::Number(x)) => add_number(out, x),
            (Fold::Sum, _, Operand::Vector(xs)) => in_lanes(Added { vectors: xs, out }),
            (Fold::Max, Axis::E, Operand::Number(x)) => out.fill(x),
            (Fold::Max, _, Operand::Number(x)) => out.iter_mut().for_each(|own| *own = own.larger(x)),
            (Fold::Max, Axis::E, Operand::Vector(xs)) => {
                let tokens = out.iter_mut().zip(xs.chunks_exact(head.max(1)));
                tokens.for_each(|(own, x)| *own = along(Fold::Max, Operand::Vector(x), head));
            }
            (Fold::Max, _, Operand::Vector(xs)) => {
                for token in xs.chunks_exact(head.max(1)) {
                    out.iter_mut().zip(token).for_each(|(own, x)| *own = own.larger(*x));
                }
            }
        }
    }

    /// A sum of products over several tokens side by side.
    fn sum_products(&self, numbers: &[Source<T>], vectors: &[Factor<T>], axis: Axis, at: &At, out: &mut [T]) {
        let (mut by, mut factor) = (Operand::Number(T::ONE), T::ONE);
        for number in numbers {
            match self.fetch(number, at) {
                Operand::Number(number) => factor = factor * number,
                scale => by = scale,
            }
        }
        let found = |of: &Factor<T>| match of {
            Factor::Tokens(x) => Vectors::Tokens(self.entries(x, at)),
            Factor::Row(x) => Vectors::Row(self.entries(x, at)),
            Factor::Compared(of) => Vectors::Difference(self.row_difference(of, at)),
        };
        let (x, y) = match vectors {
            [x] => (found(x), Vectors::Row(&self.ones[..])),
            [x, y] => (found(x), found(y)),
            _ => return,
        };
        let over = match axis {
            Axis::E => Over::Components,
            Axis::N => Over::Tokens,
            _ => Over::Queries,
        };
        in_lanes(Products { over, by, factor, x, y, length: self.size.head, out });
    }

    fn store(&mut self, register: usize, to: &Entries, domain: Domain, at: &At) {
        let Array::Store(store) = to.array else { return };
        let out = &mut self.stores[store];
        let (start, length) = (to.start(at), to.length(at, self.size.head));
        if domain == Domain::Tile {
            // What the query does not see of the block is 0.
            let row = at.row * self.block.pitch;
            out[row..start].fill(T::ZERO);
            out[start + length..row + self.block.keys.len()].fill(T::ZERO);
        }
        let out = &mut out[start..start + length];
        match &self.registers[register] {
            Register { number: Some(x), .. } => out.fill(*x),
            Register { vector: xs, .. } => out.copy_from_slice(xs),
        }
    }

    /// A value along the components, computed if it is not stored.
    pub(super) fn vector(&mut self, (needed, id): &(Prepared<T>, Id), at: &At) -> Vec<T> {
        for map in &needed.maps {
            self.compute(map, at);
        }
        let source = match needed.maps.is_empty() {
            false => Source::Register(id.index()),
            true => self.sources.stored(*id, needed.domain),
        };
        match self.fetch(&source, at) {
            Operand::Number(x) => vec![x; at.length],
            Operand::Vector(xs) => xs.to_vec(),
        }
    }
}

/// A fold along the inner direction, which is as long as said.
fn along<T: Real>(fold: Fold, value: Operand<T>, length: usize) -> T {
    match (fold, value) {
        (Fold::Sum, Operand::Vector(xs)) => in_lanes(Total(xs)),
        (Fold::Sum, Operand::Number(x)) => x * T::of(length as f64),
        (Fold::Max, Operand::Vector(xs)) => xs.iter().fold(-T::INFINITY, |m, x| m.larger(*x)),
        (Fold::Max, Operand::Number(x)) => x,
    }
}
