//! Fused loops: one run over a register full of numbers at a time, with everything that does not change in it in front.

use super::names;
use crate::ir::{Axis, Func, Rational, Role, rational};
use crate::plan::Precision;
use crate::plan::graph::{Fold, Graph, Id, Map, Op};
use crate::plan::schedule::{Domain, Loop, Pass, Place, Step};
use crate::plan::text::describe;
use num_traits::{Signed, ToPrimitive};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};
use std::collections::{BTreeMap, BTreeSet};

/// What the emission of one pass looks at.
pub struct Context<'a> {
    pub graph: &'a Graph,
    pub pass: &'a Pass,
    pub precision: Precision,
}

/// How names are read inside of a loop: the axis that lies side by side in a register, and, where several rows of the
/// block go together, which of them is meant.
#[derive(Clone, Copy)]
pub struct View {
    pub inner: Option<Axis>,
    pub row: Option<usize>,
}

impl View {
    /// A loop with one row at a time.
    pub fn of(domain: Domain) -> View {
        let inner = match domain {
            Domain::Tile | Domain::Key => Some(Axis::N),
            Domain::Vector | Domain::RowVector | Domain::KeyVector | Domain::Triple => Some(Axis::E),
            Domain::Row | Domain::Scalar => None,
        };
        View { inner, row: None }
    }

    /// The variable that counts the rows of the block.
    pub fn counter(self) -> Ident {
        self.row.map_or(format_ident!("r"), |i| format_ident!("r{i}"))
    }

    /// A name of a value that changes from row to row.
    fn of_row(self, name: Ident) -> Ident {
        self.row.map_or(name.clone(), |i| format_ident!("{name}_{i}"))
    }
}

/// A comment.
pub fn note(text: &str) -> TokenStream {
    quote! { note!(#text); }
}

impl Context<'_> {
    /// What a maximum begins with.
    pub fn lowest(&self) -> TokenStream {
        let number = names::number(self.precision);
        quote!(#number::NEG_INFINITY)
    }

    /// A rational number.
    pub fn literal(&self, c: &Rational) -> TokenStream {
        let x = self.signed(c);
        if c.is_negative() { quote!((#x)) } else { x }
    }

    /// A number that stands by itself.
    fn signed(&self, c: &Rational) -> TokenStream {
        let size = c.to_f64().unwrap_or(0.0).abs();
        let size = match self.precision {
            Precision::Single => Literal::f32_unsuffixed(size as f32),
            Precision::Double => Literal::f64_unsuffixed(size),
        };
        if c.is_negative() { quote!(-#size) } else { quote!(#size) }
    }

    pub fn is_visibility(&self, id: Id) -> bool {
        matches!(&self.graph[id].op, Op::Input(leaf) if leaf.role == Role::Visible)
    }

    pub fn is_kept(&self, id: Id) -> bool {
        matches!(&self.graph[id].op, Op::Input(leaf) if leaf.role == Role::Kept)
    }

    pub fn is_decay(&self, id: Id) -> bool {
        matches!(&self.graph[id].op, Op::Input(leaf) if leaf.role == Role::Decay)
    }

    /// The array a value is stored in.
    pub fn array(&self, id: Id) -> TokenStream {
        match (self.pass.places.get(&id), &self.graph[id].op) {
            (_, Op::Input(leaf)) if leaf.role == Role::Decay => {
                let name = names::decay_tile(leaf);
                quote!(#name)
            }
            (_, Op::Input(leaf)) if leaf.role == Role::Kept => quote!(kept),
            (Some(place), _) => {
                let name = names::buffer(self.pass, *place);
                quote!(#name)
            }
            (None, Op::Input(leaf)) => {
                let name = names::input(leaf);
                quote!(#name)
            }
            (None, _) => {
                let name = names::value(id);
                quote!(#name)
            }
        }
    }

    /// Whether an array holds the rows of a block and not all queries.
    fn is_local(&self, id: Id) -> bool {
        matches!(self.pass.places.get(&id), Some(Place::Buffer(..))) || self.is_decay(id)
    }

    /// The row of its array that belongs to row `r` of the block.
    pub fn row(&self, id: Id) -> TokenStream {
        self.row_in(id, View { inner: None, row: None })
    }

    /// The row of its array that belongs to the row of a view.
    pub fn row_in(&self, id: Id, view: View) -> TokenStream {
        let r = view.counter();
        if self.is_local(id) { quote!(#r) } else { quote!(block.start + #r) }
    }

    /// The variable of a value.
    pub fn name(&self, id: Id, view: View) -> Ident {
        let name = names::value(id);
        if self.graph[id].has(Axis::T) { view.of_row(name) } else { name }
    }

    /// The lanes a fold is collected in.
    pub fn accumulator(&self, id: Id, view: View) -> Ident {
        let name = format_ident!("{}_lanes", names::value(id));
        if self.graph[id].has(Axis::T) { view.of_row(name) } else { name }
    }

    /// Where the block's rows begin in a value's array.
    pub fn block_start(&self, id: Id) -> TokenStream {
        if self.is_local(id) { quote!(0) } else { quote!(block.start * head) }
    }

    /// A slice of a value's array for one run of the loop's inner direction.
    pub fn slice(&self, id: Id, domain: Domain, view: View, is_written: bool) -> TokenStream {
        let array = self.array(id);
        let (row, r) = (self.row_in(id, view), view.counter());
        let range = match Domain::of(self.graph.axes(id)) {
            Domain::RowVector => quote!((#row) * head..(#row) * head + head),
            Domain::KeyVector => quote!(n * head..n * head + head),
            Domain::Tile if self.is_kept(id) => quote!(#r * kept_pitch..#r * kept_pitch + pitch),
            Domain::Tile => quote!(#r * pitch..(#r + 1) * pitch),
            // A tile begins with the first token of its block.
            Domain::Key if domain == Domain::Tile => quote!(keys.start..),
            _ => quote!(..),
        };
        if is_written { quote!(&mut #array[#range]) } else { quote!(&#array[#range]) }
    }

    /// Whether a value changes along the inner direction of a loop.
    pub fn is_inner(&self, id: Id, view: View) -> bool {
        !self.is_visibility(id) && view.inner.is_some_and(|axis| self.graph[id].has(axis))
    }

    /// A stored value that does not change along the inner direction.
    fn number(&self, id: Id, view: View) -> TokenStream {
        let array = self.array(id);
        let row = self.row_in(id, view);
        match Domain::of(self.graph.axes(id)) {
            Domain::Row => quote!(#array[#row]),
            Domain::Key => quote!(#array[n]),
            Domain::Tile if self.is_kept(id) => quote!(#array[r * kept_pitch + n - keys.start]),
            Domain::Tile => quote!(#array[r * pitch + n - keys.start]),
            _ => array,
        }
    }

    /// An operand as it is written in a formula: a number, a variable, a lane.
    fn operand(&self, id: Id, view: View) -> TokenStream {
        if let Op::Number(c) = &self.graph[id].op {
            return self.literal(c);
        }
        if self.is_visibility(id) {
            return quote!(1.0);
        }
        let name = self.name(id, view);
        quote!(#name)
    }

    /// The same, for an operation that takes no mixture of numbers and lanes.
    pub fn in_lanes(&self, id: Id, view: View) -> TokenStream {
        let x = self.operand(id, view);
        match &self.graph[id].op {
            _ if self.is_inner(id, view) => x,
            Op::Number(c) => {
                let x = self.signed(c);
                quote!(Lanes::all(simd, #x))
            }
            _ => quote!(Lanes::all(simd, #x)),
        }
    }

    /// What an operand is the negative of, where nothing stores it: a sum subtracts that.
    fn negated(&self, id: Id) -> Option<Id> {
        match &self.graph[id].op {
            Op::Map(Map::Mul, of) if of.len() == 2 && self.graph.is_int(of[0], -1) => {
                (!self.pass.places.contains_key(&id)).then_some(of[1])
            }
            _ => None,
        }
    }

    /// The values that the formula of a map mentions.
    fn mentioned(&self, id: Id) -> Vec<Id> {
        let operands = self.graph[id].op.operands();
        match &self.graph[id].op {
            Op::Map(Map::Add, _) => operands.into_iter().map(|o| self.negated(o).unwrap_or(o)).collect(),
            _ => operands,
        }
    }

    /// a + b − c …, the terms that are added first.
    fn sum(&self, terms: &[Id], view: View) -> TokenStream {
        let (added, subtracted): (Vec<Id>, Vec<Id>) = terms.iter().partition(|o| self.negated(**o).is_none());
        let added = added.iter().map(|&o| self.operand(o, view));
        let mut sum = added.reduce(|sum, x| quote!(#sum + #x));
        for y in subtracted.iter().filter_map(|&o| self.negated(o)) {
            let y = self.operand(y, view);
            sum = Some(sum.map_or(quote!(-#y), |sum| quote!(#sum - #y)));
        }
        sum.unwrap_or(quote!(0.0))
    }

    /// The formula of a map: of numbers where it does not change along the inner direction, else of lanes.
    pub fn formula(&self, id: Id, view: View) -> TokenStream {
        let are_lanes = self.is_inner(id, view);
        // Numbers and who sees whom: the same number for all that is seen.
        if are_lanes && !self.mentioned(id).iter().any(|o| self.is_inner(*o, view)) {
            let number = self.formula_of(id, view, false);
            return quote!(Lanes::all(simd, #number));
        }
        self.formula_of(id, view, are_lanes)
    }

    fn formula_of(&self, id: Id, view: View, are_lanes: bool) -> TokenStream {
        let Op::Map(map, operands) = &self.graph[id].op else { return quote!(0.0) };
        let x: Vec<TokenStream> = operands.iter().map(|&o| self.operand(o, view)).collect();
        let first = &x[0];
        match map {
            Map::Add => self.sum(operands, view),
            Map::Mul if self.graph.is_int(operands[0], -1) => {
                let p = product(&x[1..]);
                quote!(-(#p))
            }
            Map::Mul => product(&x),
            Map::Pow(r) => power(r, first, are_lanes),
            Map::Call(func) => {
                let function = names::primitive(*func);
                quote!(#first.#function())
            }
            Map::Log1p => quote!(#first.log_1_plus()),
            Map::Expm1 => quote!(#first.exp_minus_1()),
            Map::Select if are_lanes => {
                let x: Vec<TokenStream> = operands.iter().map(|&o| self.in_lanes(o, view)).collect();
                let (a, b, x, y) = (&x[0], &x[1], &x[2], &x[3]);
                quote!(#a.select(#b, #x, #y))
            }
            Map::Select => {
                let (a, b, x, y) = (&x[0], &x[1], &x[2], &x[3]);
                quote!(if #a <= #b { #x } else { #y })
            }
            Map::Spread(_) => quote!(#first),
            Map::Positive if are_lanes => quote!(#first.positive()),
            Map::Positive => quote!(#first.larger(0.0)),
        }
    }

    /// What is needed of a loop's operands that does not change inside: `let x = …;`, in order.
    pub fn numbers(&self, l: &Loop, view: View, is_wanted: impl Fn(Domain) -> bool) -> TokenStream {
        let mut code = TokenStream::new();
        for id in self.loads(l).into_iter().filter(|id| !self.is_inner(*id, view)) {
            if is_wanted(Domain::of(self.graph.axes(id))) {
                let (name, value) = (self.name(id, view), self.number(id, view));
                code.extend(quote!(let #name = #value;));
            }
        }
        for &id in l.maps.iter().filter(|id| !self.is_inner(**id, view)) {
            if is_wanted(Domain::of(self.graph.axes(id))) {
                code.extend(self.definition(id, view));
            }
        }
        code
    }

    /// `let x = …;` of a map.
    pub fn definition(&self, id: Id, view: View) -> TokenStream {
        let (name, value) = (self.name(id, view), self.formula(id, view));
        quote!(let #name = #value;)
    }

    /// The stored values a loop reads.
    pub fn loads(&self, l: &Loop) -> Vec<Id> {
        let folded = l.folds.iter().flat_map(|&f| self.folded(l, f));
        let operands = l.maps.iter().flat_map(|&m| self.mentioned(m)).chain(folded);
        let is_stored = |id: &Id| !l.maps.contains(id) && !matches!(self.graph[*id].op, Op::Number(_));
        let mut loads: Vec<Id> = operands.filter(|id| is_stored(id) && !self.is_visibility(*id)).collect();
        loads.sort();
        loads.dedup();
        loads
    }

    /// The values that a fold mentions.
    fn folded(&self, l: &Loop, fold: Id) -> Vec<Id> {
        let operands = self.graph[fold].op.operands();
        match operands[..] {
            [x] if l.domain == Domain::Triple && self.is_product(x) => self.graph[x].op.operands(),
            _ => operands,
        }
    }

    /// The same loop without the maps that no formula mentions.
    pub fn pruned(&self, l: &Loop) -> Loop {
        let mut open: Vec<Id> =
            l.folds.iter().flat_map(|&f| self.folded(l, f)).chain(l.stores.iter().copied()).collect();
        let mut found = BTreeSet::new();
        while let Some(id) = open.pop() {
            if l.maps.contains(&id) && found.insert(id) {
                open.extend(self.mentioned(id));
            }
        }
        Loop { maps: found.into_iter().collect(), ..l.clone() }
    }

    /// Whether a value is a product that a sum adds with one rounding.
    fn is_product(&self, id: Id) -> bool {
        let is_product = match &self.graph[id].op {
            Op::Map(Map::Mul, _) => true,
            Op::Map(Map::Pow(r), _) => r.is_integer() && *r >= rational::int(2),
            _ => false,
        };
        is_product && !self.pass.places.contains_key(&id)
    }

    /// A term of a sum, in lanes.
    pub fn term(&self, term: Id, view: View) -> TokenStream {
        match self.is_product(term) && self.is_inner(term, view) {
            true => {
                let x = self.formula(term, view);
                quote!((#x))
            }
            false => self.in_lanes(term, view),
        }
    }

    /// `sum` with one more term, in lanes.
    pub fn added(&self, sum: &TokenStream, term: Id, view: View) -> TokenStream {
        let (Op::Map(map, operands), true) = (&self.graph[term].op, self.is_product(term)) else {
            let x = self.in_lanes(term, view);
            return quote!(#sum + #x);
        };
        let lanes = |factors: &[Id], x: TokenStream| match factors.iter().any(|f| self.is_inner(*f, view)) {
            true => x,
            false => quote!(Lanes::all(simd, #x)),
        };
        let (last, factors) = (operands[operands.len() - 1], &operands[..operands.len() - 1]);
        let right = self.in_lanes(last, view);
        match map {
            Map::Pow(r) => {
                let left = power(&(r - rational::int(1)), &self.operand(last, view), self.is_inner(last, view));
                let left = lanes(&[last], left);
                quote!(#sum.plus(#left, #right))
            }
            _ if factors.len() == 1 && self.graph.is_int(factors[0], -1) => quote!(#sum - #right),
            _ => {
                let left: Vec<TokenStream> = factors.iter().map(|&f| self.operand(f, view)).collect();
                let left = match self.graph.is_int(factors[0], -1) {
                    true => {
                        let p = product(&left[1..]);
                        quote!(-(#p))
                    }
                    false => product(&left),
                };
                let left = lanes(factors, left);
                quote!(#sum.plus(#left, #right))
            }
        }
    }

    /// The comment above a loop.
    fn notes(&self, l: &Loop) -> TokenStream {
        let lines = l.maps.iter().chain(&l.folds).map(|&id| note(&format!("{id} = {}", describe(self.graph, id))));
        quote!(#(#lines)*)
    }

    /// A loop as statements.
    pub fn emit(&self, l: &Loop) -> TokenStream {
        let notes = self.notes(l);
        let (l, view) = (&self.pruned(l), View::of(l.domain));
        let body = match l.domain {
            Domain::Scalar => self.scalars(l),
            Domain::Row => self.rows(l),
            Domain::Key => {
                let numbers = self.numbers(l, view, |_| true);
                let run = self.run(l, &quote!(0), &quote!(size.tokens));
                quote! { { #numbers #run } }
            }
            Domain::Vector => {
                let numbers = self.numbers(l, view, |_| true);
                let run = self.run(l, &quote!(0), &quote!(head));
                quote! { { #numbers #run } }
            }
            Domain::KeyVector => {
                let outer = self.numbers(l, view, |d| d == Domain::Scalar);
                let inner = self.numbers(l, view, |d| d != Domain::Scalar);
                let run = self.run(l, &quote!(0), &quote!(head));
                quote! { { #outer for n in 0..size.tokens { #inner #run } } }
            }
            Domain::RowVector => {
                let outer = self.numbers(l, view, |d| d == Domain::Scalar);
                let inner = self.numbers(l, view, |d| d != Domain::Scalar);
                let run = self.run(l, &quote!(0), &quote!(head));
                let blank = self.blank(l);
                quote! { { #outer for r in 0..rows { if visible[block.start + r].is_empty() { #blank continue; } #inner #run } } }
            }
            Domain::Tile => {
                let outer = self.numbers(l, view, |d| d == Domain::Scalar);
                let inner = self.numbers(l, view, |d| d != Domain::Scalar);
                let run = self.run(l, &quote!(from), &quote!(to));
                let blank = self.blank(l);
                let clear = self.clear(l);
                quote! { {
                    #outer
                    for r in 0..rows {
                        let seen = &visible[block.start + r];
                        if seen.is_empty() { #blank continue; }
                        let (from, to) = (seen.start - keys.start, seen.end - keys.start);
                        #clear
                        #inner
                        #run
                    }
                } }
            }
            Domain::Triple => self.triple(l),
        };
        quote!(#notes #body)
    }

    fn scalars(&self, l: &Loop) -> TokenStream {
        let view = View::of(l.domain);
        let mut code = TokenStream::new();
        for id in self.loads(l) {
            let (name, value) = (names::value(id), self.number(id, view));
            if name != value.to_string() {
                code.extend(quote!(let #name = #value;));
            }
        }
        for &id in &l.maps {
            code.extend(self.definition(id, view));
        }
        for &id in &l.stores {
            code.extend(self.keep_number(id));
        }
        code
    }

    /// Stores a number that a loop has computed.
    fn keep_number(&self, id: Id) -> TokenStream {
        let (name, array) = (names::value(id), self.array(id));
        match (Domain::of(self.graph.axes(id)), self.pass.places.get(&id)) {
            (Domain::Scalar, Some(Place::Buffer(..))) => quote!(let #array = #name;),
            (Domain::Scalar, _) => quote!(#array[0] = #name;),
            (Domain::Row, _) => {
                let row = self.row(id);
                quote!(#array[#row] = #name;)
            }
            _ => quote!(),
        }
    }

    fn rows(&self, l: &Loop) -> TokenStream {
        let view = View::of(l.domain);
        let outer = self.numbers(l, view, |d| d == Domain::Scalar);
        let inner = self.numbers(l, view, |d| d != Domain::Scalar);
        let stores = l.stores.iter().map(|&id| self.keep_number(id));
        let folds = l.folds.iter().map(|&id| {
            let Op::Fold(_, _, x) = self.graph[id].op else { return quote!() };
            let (array, x) = (self.array(id), self.operand(x, view));
            match self.pass.places.get(&id) {
                Some(Place::Buffer(..)) => quote!(#array += #x;),
                _ => quote!(#array[0] += #x;),
            }
        });
        let blank = self.blank(l);
        quote! { {
            #outer
            for r in 0..rows { if visible[block.start + r].is_empty() { #blank continue; } #inner #(#stores)* #(#folds)* }
        } }
    }

    /// What a query that sees nothing leaves behind: 0.
    fn blank(&self, l: &Loop) -> TokenStream {
        let mut code = TokenStream::new();
        for &id in l.stores.iter().chain(&l.folds) {
            let (array, row) = (self.array(id), self.row(id));
            code.extend(match Domain::of(self.graph.axes(id)) {
                Domain::Row => quote!(#array[#row] = 0.0;),
                Domain::RowVector => quote!(#array[(#row) * head..(#row) * head + head].fill(0.0);),
                Domain::Tile => quote!(#array[r * pitch..(r + 1) * pitch].fill(0.0);),
                _ => quote!(),
            });
        }
        code
    }

    /// Puts 0 where a row of a stored tile has nothing.
    fn clear(&self, l: &Loop) -> TokenStream {
        let mut code = TokenStream::new();
        for &id in l.stores.iter().filter(|id| self.is_multiplied(**id)) {
            let array = self.array(id);
            code.extend(quote! {
                #array[r * pitch..r * pitch + from].fill(0.0);
                #array[r * pitch + to..(r + 1) * pitch].fill(0.0);
            });
        }
        code
    }

    /// Whether a tile goes into a matrix product, which looks at all of it.
    fn is_multiplied(&self, id: Id) -> bool {
        let uses = |step: &Step| match step {
            Step::Node(node) => match &self.graph[*node].op {
                Op::Apply { tile, .. } | Op::Gather { tile, .. } | Op::Steps { tile, .. } => *tile == id,
                _ => false,
            },
            _ => false,
        };
        self.pass.rows.iter().any(uses)
    }

    /// One run along the inner direction, from `from` to `to`.
    fn run(&self, l: &Loop, from: &TokenStream, to: &TokenStream) -> TokenStream {
        let view = View::of(l.domain);
        let loads = self.lanes_loaded(l, view, |_| true);
        let maps = self.lanes_computed(l, view);
        let mut needs_mask = false;
        let (mut before, mut inside, mut after) = (TokenStream::new(), TokenStream::new(), TokenStream::new());
        for &id in l.stores.iter() {
            let slice = self.slice(id, l.domain, view, true);
            let value = self.in_lanes(id, view);
            let is_cut = l.domain == Domain::Tile && self.is_inner(id, view);
            needs_mask |= is_cut;
            let only = is_cut.then(|| quote!(.only(keep)));
            inside.extend(quote!(#value #only.store(#slice, at);));
        }
        let lowest = self.lowest();
        for &id in &l.folds {
            let Op::Fold(fold, axis, of) = self.graph[id].op else { continue };
            let x = self.in_lanes(of, view);
            let sum = self.accumulator(id, view);
            let is_along = match l.domain {
                Domain::Key | Domain::Tile => axis == Axis::N,
                _ => axis == Axis::E,
            };
            // Tiles hold anything outside of what a row sees.
            let is_cut = l.domain == Domain::Tile
                || is_along && (fold == Fold::Max || !self.is_0_behind_the_end(of, l, &mut BTreeMap::new()));
            needs_mask |= is_cut;
            let only = is_cut.then(|| quote!(.only(keep)));
            match (is_along, fold) {
                (true, Fold::Sum) => {
                    before.extend(quote!(let mut #sum = Lanes::all(simd, 0.0);));
                    inside.extend(quote!(#sum += #x #only;));
                    after.extend(self.finish(id, quote!(#sum.sum())));
                }
                (true, Fold::Max) => {
                    before.extend(quote!(let mut #sum = Lanes::all(simd, #lowest);));
                    inside.extend(quote!(#sum = #x.or(keep, #lowest).larger(#sum);));
                    after.extend(self.finish(id, quote!(#sum.largest())));
                }
                (false, _) => {
                    let slice = self.slice(id, l.domain, view, true);
                    inside.extend(quote!(#x #only.add_to(#slice, at);));
                }
            }
        }
        let keep = needs_mask.then(|| quote!(let keep = Lanes::within(simd, at, #from, #to);));
        quote! {
            #before
            for at in Lanes::starts(simd, #from, #to) {
                #loads
                #maps
                #keep
                #inside
            }
            #after
        }
    }

    /// Whether a value is 0 in lanes behind the end of a row, where everything that is loaded is 0.
    fn is_0_behind_the_end(&self, id: Id, l: &Loop, known: &mut BTreeMap<Id, Behind>) -> bool {
        self.behind_the_end(id, l, known) == Behind::Zero
    }

    fn behind_the_end(&self, id: Id, l: &Loop, known: &mut BTreeMap<Id, Behind>) -> Behind {
        if let Some(known) = known.get(&id) {
            return *known;
        }
        let mut all =
            |operands: &[Id]| -> Vec<Behind> { operands.iter().map(|o| self.behind_the_end(*o, l, known)).collect() };
        let largest = |operands: Vec<Behind>| operands.into_iter().max().unwrap_or(Behind::Finite);
        let found = match &self.graph[id].op {
            _ if !self.is_inner(id, View::of(l.domain)) => Behind::Finite,
            _ if !l.maps.contains(&id) => Behind::Zero,
            Op::Map(Map::Mul, operands) => {
                let operands = all(operands);
                let has_zero = operands.contains(&Behind::Zero);
                let most = largest(operands);
                if has_zero && most == Behind::Finite { Behind::Zero } else { most }
            }
            Op::Map(Map::Add, operands) => largest(all(operands)),
            Op::Map(Map::Select, operands) => largest(all(&operands[2..])),
            Op::Map(map, operands) => match (map, all(operands)[0]) {
                (Map::Call(func), Behind::Zero) if !func.keeps_zero() => match func {
                    Func::Log => Behind::Unknown,
                    _ => Behind::Finite,
                },
                (_, Behind::Zero) => Behind::Zero,
                (Map::Call(Func::Exp | Func::Log) | Map::Log1p | Map::Expm1, _) => Behind::Unknown,
                (Map::Pow(r), _) if r.is_negative() => Behind::Unknown,
                (_, of) => of,
            },
            _ => Behind::Unknown,
        };
        known.insert(id, found);
        found
    }

    /// Loads of the lanes that a loop reads.
    pub fn lanes_loaded(&self, l: &Loop, view: View, is_wanted: impl Fn(Domain) -> bool) -> TokenStream {
        let is_loaded = |id: &Id| self.is_inner(*id, view) && is_wanted(Domain::of(self.graph.axes(*id)));
        let load = |id| {
            let (name, slice) = (self.name(id, view), self.slice(id, l.domain, view, false));
            quote!(let #name = Lanes::load(simd, #slice, at);)
        };
        self.loads(l).into_iter().filter(is_loaded).map(load).collect()
    }

    /// The formulas of the lanes that a loop computes.
    fn lanes_computed(&self, l: &Loop, view: View) -> TokenStream {
        let is_computed = |id: &&Id| self.is_inner(**id, view);
        l.maps.iter().filter(is_computed).map(|&id| self.definition(id, view)).collect()
    }

    /// Stores the result of a fold along the inner direction.
    fn finish(&self, id: Id, value: TokenStream) -> TokenStream {
        let (array, row) = (self.array(id), self.row(id));
        match Domain::of(self.graph.axes(id)) {
            Domain::Row => quote!(#array[#row] = #value;),
            Domain::Key => quote!(#array[n] = #value;),
            Domain::Tile => quote!(#array[r * pitch + n - keys.start] = #value;),
            _ if matches!(self.pass.places.get(&id), Some(Place::Buffer(..))) => quote!(#array = #value;),
            _ => quote!(#array[0] = #value;),
        }
    }

    /// Statements that leave a vector of one row (and, for a map over pairs, of token `n`) in `target`.
    pub fn vector(&self, id: Id, target: &TokenStream, scale: Option<TokenStream>) -> TokenStream {
        let mut maps: BTreeSet<Id> = BTreeSet::new();
        let mut open = vec![id];
        while let Some(o) = open.pop() {
            let is_map = matches!(self.graph[o].op, Op::Map(..)) && !self.pass.places.contains_key(&o);
            if is_map && maps.insert(o) {
                open.extend(self.graph[o].op.operands());
            }
        }
        let maps: Vec<Id> = maps.into_iter().collect();
        let view = View::of(Domain::Triple);
        let l = Loop { domain: Domain::Triple, maps, folds: vec![], stores: vec![id] };
        let l = self.pruned(&l);
        let mut loads = self.loads(&l);
        if l.maps.is_empty() && !matches!(self.graph[id].op, Op::Number(_)) {
            loads.push(id);
        }
        let mut numbers = TokenStream::new();
        for &load in loads.iter().filter(|id| !self.is_inner(**id, view)) {
            let (name, value) = (names::value(load), self.number(load, view));
            numbers.extend(quote!(let #name = #value;));
        }
        for &map in l.maps.iter().filter(|id| !self.is_inner(**id, view)) {
            numbers.extend(self.definition(map, view));
        }
        let lanes_loads = loads.iter().filter(|id| self.is_inner(**id, view)).map(|&load| {
            let (name, slice) = (names::value(load), self.slice(load, Domain::Triple, view, false));
            quote!(let #name = Lanes::load(simd, #slice, at);)
        });
        let maps = self.lanes_computed(&l, view);
        let result = self.in_lanes(id, view);
        let result = match scale {
            Some(scale) => quote!((#scale * #result)),
            None => result,
        };
        quote! {
            #numbers
            for at in Lanes::starts(simd, 0, head) {
                #(#lanes_loads)*
                #maps
                #result.store(&mut #target, at);
            }
        }
    }
}

/// What a value is in lanes behind the end of a row. A product with 0 is 0 only if nothing else in it has overflown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Behind {
    Zero,
    Finite,
    Unknown,
}

fn product(x: &[TokenStream]) -> TokenStream {
    x.iter().cloned().reduce(|p, x| quote!(#p * #x)).unwrap_or(quote!(1.0))
}

/// x^r, total.
fn power(r: &Rational, x: &TokenStream, are_lanes: bool) -> TokenStream {
    let r64 = r.to_f64().unwrap_or(1.0);
    if *r == rational::int(2) {
        quote!(#x * #x)
    } else if *r == rational::int(-1) {
        if are_lanes { quote!(#x.reciprocal()) } else { quote!(if #x == 0.0 { 0.0 } else { 1.0 / #x }) }
    } else if *r == rational::ratio(1, 2) {
        if are_lanes { quote!(#x.square_root()) } else { quote!(#x.larger(0.0).square_root()) }
    } else {
        let size = Literal::f64_unsuffixed(r64.abs());
        let r = if r.is_negative() { quote!(-#size) } else { quote!(#size) };
        quote!(#x.power(#r))
    }
}
