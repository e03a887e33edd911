//! Fused loops: one run over sixteen numbers at a time, with everything that does not change in it in front.

use super::names;
use crate::ir::{Axis, Func, Rational, Role, rational};
use crate::plan::graph::{Fold, Graph, Id, Map, Op};
use crate::plan::schedule::{Domain, Loop, Pass, Place, Step};
use crate::plan::text::describe;
use num_traits::{Signed, ToPrimitive};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

/// What the emission of one pass looks at.
pub struct Context<'a> {
    pub graph: &'a Graph,
    pub pass: &'a Pass,
}

/// A comment.
pub fn note(text: &str) -> TokenStream {
    quote! { note!(#text); }
}

impl Context<'_> {
    pub fn is_visibility(&self, id: Id) -> bool {
        matches!(&self.graph[id].op, Op::Input(leaf) if leaf.role == Role::Visible)
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
        if self.is_local(id) { quote!(r) } else { quote!(block.start + r) }
    }

    /// Where the block's rows begin in a value's array.
    pub fn block_start(&self, id: Id) -> TokenStream {
        if self.is_local(id) { quote!(0) } else { quote!(block.start * head) }
    }

    /// A slice of a value's array for one run of the loop's inner direction.
    fn slice(&self, id: Id, domain: Domain, is_written: bool) -> TokenStream {
        let array = self.array(id);
        let row = self.row(id);
        let range = match Domain::of(self.graph.axes(id)) {
            Domain::RowVector => quote!((#row) * head..(#row) * head + head),
            Domain::KeyVector => quote!(n * head..n * head + head),
            Domain::Tile => quote!(r * pitch..(r + 1) * pitch),
            // A tile begins with the first token of its block.
            Domain::Key if domain == Domain::Tile => quote!(keys.start..),
            _ => quote!(..),
        };
        if is_written { quote!(&mut #array[#range]) } else { quote!(&#array[#range]) }
    }

    /// Whether a value changes along the inner direction of a loop.
    fn is_inner(&self, id: Id, domain: Domain) -> bool {
        let axes = self.graph.axes(id);
        if self.is_visibility(id) {
            return false;
        }
        match domain {
            Domain::Tile | Domain::Key => axes.contains(Axis::N),
            Domain::RowVector | Domain::KeyVector | Domain::Triple => axes.contains(Axis::E),
            Domain::Row | Domain::Scalar => false,
        }
    }

    /// A stored value that does not change along the inner direction.
    fn number(&self, id: Id) -> TokenStream {
        let array = self.array(id);
        let row = self.row(id);
        match Domain::of(self.graph.axes(id)) {
            Domain::Row => quote!(#array[#row]),
            Domain::Key => quote!(#array[n]),
            Domain::Tile => quote!(#array[r * pitch + n - keys.start]),
            _ => array,
        }
    }

    /// An operand as it is written in a formula: a number, a variable, a lane.
    fn operand(&self, id: Id, domain: Domain, maps: &[Id]) -> TokenStream {
        if let Op::Number(c) = &self.graph[id].op {
            return literal(c);
        }
        if self.is_visibility(id) {
            return quote!(1.0);
        }
        let name = names::value(id);
        match maps.contains(&id) || !self.is_inner(id, domain) {
            true => quote!(#name),
            false => quote!(#name[l]),
        }
    }

    /// The formula of a map.
    fn formula(&self, id: Id, domain: Domain, maps: &[Id]) -> TokenStream {
        let Op::Map(map, operands) = &self.graph[id].op else { return quote!(0.0) };
        let x: Vec<TokenStream> = operands.iter().map(|&o| self.operand(o, domain, maps)).collect();
        match map {
            Map::Add => quote!(#(#x)+*),
            Map::Mul => {
                let is_minus_one = |id: Id| self.graph.is_int(id, -1);
                match is_minus_one(operands[0]) {
                    true => {
                        let rest = &x[1..];
                        {
                            let p = product(rest);
                            quote!(-(#p))
                        }
                    }
                    false => product(&x),
                }
            }
            Map::Pow(r) => power(r, &x[0]),
            Map::Call(Func::Exp) => {
                let x = &x[0];
                quote!(#x.exponential())
            }
            Map::Call(Func::Log) => {
                let x = &x[0];
                quote!(#x.logarithm())
            }
            Map::Call(Func::Abs) => {
                let x = &x[0];
                quote!(#x.absolute())
            }
            Map::Call(Func::Sign) => {
                let x = &x[0];
                quote!(#x.signum0())
            }
            Map::Select => {
                let (a, b, x, y) = (&x[0], &x[1], &x[2], &x[3]);
                quote!(if #a <= #b { #x } else { #y })
            }
            Map::Positive => {
                let x = &x[0];
                quote!(#x.larger(0.0))
            }
        }
    }

    /// What is needed of a loop's operands that does not change inside: `let x = …;`, in order.
    fn numbers(&self, l: &Loop, is_wanted: impl Fn(Domain) -> bool) -> TokenStream {
        let mut code = TokenStream::new();
        for id in self.loads(l).into_iter().filter(|id| !self.is_inner(*id, l.domain)) {
            if is_wanted(Domain::of(self.graph.axes(id))) {
                let (name, value) = (names::value(id), self.number(id));
                code.extend(quote!(let #name = #value;));
            }
        }
        for &id in l.maps.iter().filter(|id| !self.is_inner(**id, l.domain)) {
            if is_wanted(Domain::of(self.graph.axes(id))) {
                let (name, value) = (names::value(id), self.formula(id, l.domain, &l.maps));
                code.extend(quote!(let #name = #value;));
            }
        }
        code
    }

    /// The stored values a loop reads.
    fn loads(&self, l: &Loop) -> Vec<Id> {
        let folded = l.folds.iter().flat_map(|&f| self.graph[f].op.operands());
        let operands = l.maps.iter().flat_map(|&m| self.graph[m].op.operands()).chain(folded);
        let is_stored = |id: &Id| !l.maps.contains(id) && !matches!(self.graph[*id].op, Op::Number(_));
        let mut loads: Vec<Id> = operands.filter(|id| is_stored(id) && !self.is_visibility(*id)).collect();
        loads.sort();
        loads.dedup();
        loads
    }

    /// The comment above a loop.
    fn notes(&self, l: &Loop) -> TokenStream {
        let lines = l.maps.iter().chain(&l.folds).map(|&id| note(&format!("{id} = {}", describe(self.graph, id))));
        quote!(#(#lines)*)
    }

    /// A loop as statements.
    pub fn emit(&self, l: &Loop) -> TokenStream {
        let notes = self.notes(l);
        let body = match l.domain {
            Domain::Scalar => self.scalars(l),
            Domain::Row => self.rows(l),
            Domain::Key => {
                let numbers = self.numbers(l, |_| true);
                let run = self.run(l, &quote!(0), &quote!(size.tokens));
                quote! { { #numbers #run } }
            }
            Domain::KeyVector => {
                let outer = self.numbers(l, |d| d == Domain::Scalar);
                let inner = self.numbers(l, |d| d != Domain::Scalar);
                let run = self.run(l, &quote!(0), &quote!(head));
                quote! { { #outer for n in 0..size.tokens { #inner #run } } }
            }
            Domain::RowVector => {
                let outer = self.numbers(l, |d| d == Domain::Scalar);
                let inner = self.numbers(l, |d| d != Domain::Scalar);
                let run = self.run(l, &quote!(0), &quote!(head));
                let blank = self.blank(l);
                quote! { { #outer for r in 0..rows { if visible[block.start + r].is_empty() { #blank continue; } #inner #run } } }
            }
            Domain::Tile => {
                let outer = self.numbers(l, |d| d == Domain::Scalar);
                let inner = self.numbers(l, |d| d != Domain::Scalar);
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
        let mut code = TokenStream::new();
        for id in self.loads(l) {
            let (name, value) = (names::value(id), self.number(id));
            if name != value.to_string() {
                code.extend(quote!(let #name = #value;));
            }
        }
        for &id in &l.maps {
            let (name, value) = (names::value(id), self.formula(id, l.domain, &l.maps));
            code.extend(quote!(let #name = #value;));
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
        let outer = self.numbers(l, |d| d == Domain::Scalar);
        let inner = self.numbers(l, |d| d != Domain::Scalar);
        let stores = l.stores.iter().map(|&id| self.keep_number(id));
        let folds = l.folds.iter().map(|&id| {
            let Op::Fold(_, _, x) = self.graph[id].op else { return quote!() };
            let (array, x) = (self.array(id), self.operand(x, l.domain, &l.maps));
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
                #array[r * pitch..r * pitch + from / LANES * LANES].fill(0.0);
                #array[r * pitch + to.next_multiple_of(LANES)..(r + 1) * pitch].fill(0.0);
            });
        }
        code
    }

    /// Whether a tile goes into a matrix product, which looks at all of it.
    fn is_multiplied(&self, id: Id) -> bool {
        let uses = |step: &Step| match step {
            Step::Node(node) => match &self.graph[*node].op {
                Op::Apply { tile, .. } | Op::Gather { tile, .. } => *tile == id,
                _ => false,
            },
            _ => false,
        };
        self.pass.rows.iter().any(uses)
    }

    /// One run along the inner direction, from `from` to `to`.
    fn run(&self, l: &Loop, from: &TokenStream, to: &TokenStream) -> TokenStream {
        let loads = self.loads(l).into_iter().filter(|id| self.is_inner(*id, l.domain)).map(|id| {
            let (name, slice) = (names::value(id), self.slice(id, l.domain, false));
            quote!(let #name = lanes::load(#slice, at);)
        });
        let maps: Vec<TokenStream> = (l.maps.iter().filter(|id| self.is_inner(**id, l.domain)))
            .map(|&id| {
                let (name, value) = (names::value(id), self.formula(id, l.domain, &l.maps));
                quote!(let #name = #value;)
            })
            .collect();
        let (mut before, mut inside, mut end, mut after) =
            (TokenStream::new(), TokenStream::new(), TokenStream::new(), TokenStream::new());
        let mut needs_mask = false;
        for &id in l.stores.iter() {
            let (value, lanes_of) = (names::value(id), quote::format_ident!("{}_lanes", names::value(id)));
            let slice = self.slice(id, l.domain, true);
            before.extend(quote!(let mut #lanes_of = [0.0f32; LANES];));
            let is_tile = l.domain == Domain::Tile;
            needs_mask |= is_tile;
            let what = if is_tile { quote!(if keep { #value } else { 0.0 }) } else { quote!(#value) };
            let what = if self.is_inner(id, l.domain) { what } else { quote!(#value) };
            inside.extend(quote!(#lanes_of[l] = #what;));
            end.extend(quote!(lanes::store(#slice, at, #lanes_of);));
        }
        let mut start = TokenStream::new();
        for &id in &l.folds {
            let Op::Fold(fold, axis, x) = self.graph[id].op else { continue };
            let x = self.operand(x, l.domain, &l.maps);
            let lanes_of = quote::format_ident!("{}_lanes", names::value(id));
            needs_mask = true;
            let is_along = match l.domain {
                Domain::Key | Domain::Tile => axis == Axis::N,
                _ => axis == Axis::E,
            };
            match (is_along, fold) {
                (true, Fold::Sum) => {
                    start.extend(quote!(let mut #lanes_of = [0.0f32; LANES];));
                    inside.extend(quote!(#lanes_of[l] += if keep { #x } else { 0.0 };));
                    after.extend(self.finish(id, quote!(lanes::sum(#lanes_of))));
                }
                (true, Fold::Max) => {
                    start.extend(quote!(let mut #lanes_of = [f32::NEG_INFINITY; LANES];));
                    inside
                        .extend(quote!(#lanes_of[l] = if keep { #x } else { f32::NEG_INFINITY }.larger(#lanes_of[l]);));
                    after.extend(self.finish(id, quote!(lanes::largest(#lanes_of))));
                }
                (false, _) => {
                    before.extend(quote!(let mut #lanes_of = [0.0f32; LANES];));
                    inside.extend(quote!(#lanes_of[l] = if keep { #x } else { 0.0 };));
                    let slice = self.slice(id, l.domain, true);
                    end.extend(quote!(lanes::add(#slice, at, #lanes_of);));
                }
            }
        }
        let keep = needs_mask.then(|| quote!(let keep = lanes::within(at, l, #from, #to - #from);));
        quote! {
            #start
            for at in (#from / LANES * LANES..#to).step_by(LANES) {
                #(#loads)*
                #before
                for l in 0..LANES {
                    #keep
                    #(#maps)*
                    #inside
                }
                #end
            }
            #after
        }
    }

    /// Stores the result of a fold along the inner direction.
    fn finish(&self, id: Id, value: TokenStream) -> TokenStream {
        let (array, row) = (self.array(id), self.row(id));
        match Domain::of(self.graph.axes(id)) {
            Domain::Row => quote!(#array[#row] = #value;),
            Domain::Key => quote!(#array[n] = #value;),
            Domain::Tile => quote!(#array[r * pitch + n - keys.start] = #value;),
            _ => quote!(#array += #value;),
        }
    }

    fn triple(&self, l: &Loop) -> TokenStream {
        let outer = self.numbers(l, |d| d == Domain::Scalar);
        let middle = self.numbers(l, |d| d == Domain::Row);
        let inner = self.numbers(l, |d| matches!(d, Domain::Tile | Domain::Key));
        let run = self.run(l, &quote!(0), &quote!(head));
        let starts = l.folds.iter().map(|&id| {
            let (array, row) = (self.array(id), self.row(id));
            match Domain::of(self.graph.axes(id)) {
                Domain::RowVector => quote!(#array[(#row) * head..(#row) * head + head].fill(0.0);),
                _ => quote!(),
            }
        });
        quote! { {
            #outer
            for r in 0..rows {
                #(#starts)*
                #middle
                for n in visible[block.start + r].clone() {
                    #inner
                    #run
                }
            }
        } }
    }

    /// Statements that leave a vector of one row (and, for a map over pairs, of token `n`) in `target`.
    pub fn vector(&self, id: Id, target: &TokenStream, scale: Option<TokenStream>) -> TokenStream {
        let mut maps: Vec<Id> = Vec::new();
        let mut open = vec![id];
        while let Some(o) = open.pop() {
            let is_map = matches!(self.graph[o].op, Op::Map(..)) && !self.pass.places.contains_key(&o);
            if is_map && !maps.contains(&o) {
                maps.push(o);
                open.extend(self.graph[o].op.operands());
            }
        }
        maps.sort();
        let l = Loop { domain: Domain::Triple, maps, folds: vec![], stores: vec![] };
        let mut loads = self.loads(&l);
        if l.maps.is_empty() && !matches!(self.graph[id].op, Op::Number(_)) {
            loads.push(id);
        }
        let numbers = {
            let mut code = TokenStream::new();
            for &load in loads.iter().filter(|id| !self.is_inner(**id, Domain::Triple)) {
                let (name, value) = (names::value(load), self.number(load));
                code.extend(quote!(let #name = #value;));
            }
            for &map in l.maps.iter().filter(|id| !self.is_inner(**id, Domain::Triple)) {
                let (name, value) = (names::value(map), self.formula(map, Domain::Triple, &l.maps));
                code.extend(quote!(let #name = #value;));
            }
            code
        };
        let lanes_loads = loads.iter().filter(|id| self.is_inner(**id, Domain::Triple)).map(|&load| {
            let (name, slice) = (names::value(load), self.slice(load, Domain::Triple, false));
            quote!(let #name = lanes::load(#slice, at);)
        });
        let formulas = l.maps.iter().filter(|id| self.is_inner(**id, Domain::Triple)).map(|&map| {
            let (name, value) = (names::value(map), self.formula(map, Domain::Triple, &l.maps));
            quote!(let #name = #value;)
        });
        let result = self.operand(id, Domain::Triple, &l.maps);
        let result = match scale {
            Some(scale) => quote!(#scale * #result),
            None => result,
        };
        quote! {
            #numbers
            for at in (0..head).step_by(LANES) {
                #(#lanes_loads)*
                let mut out_lanes = [0.0f32; LANES];
                for l in 0..LANES { #(#formulas)* out_lanes[l] = #result; }
                lanes::store(&mut #target, at, out_lanes);
            }
        }
    }
}

fn product(x: &[TokenStream]) -> TokenStream {
    {
        let mut all = x.iter();
        let first = all.next().cloned().unwrap_or_default();
        all.fold(first, |p, x| quote!(#p * #x))
    }
}

/// A rational number as an f32.
pub fn literal(c: &Rational) -> TokenStream {
    let x = c.to_f64().unwrap_or(0.0) as f32;
    let size = Literal::f32_unsuffixed(x.abs());
    if x < 0.0 { quote!((-#size)) } else { quote!(#size) }
}

/// x^r, total.
fn power(r: &Rational, x: &TokenStream) -> TokenStream {
    let r64 = r.to_f64().unwrap_or(1.0);
    if *r == rational::int(2) {
        quote!(#x * #x)
    } else if *r == rational::int(-1) {
        quote!(if #x == 0.0 { 0.0 } else { 1.0 / #x })
    } else if *r == rational::ratio(1, 2) {
        quote!(#x.larger(0.0).square_root())
    } else {
        let size = Literal::f64_unsuffixed(r64.abs());
        let r = if r.is_negative() { quote!(-#size) } else { quote!(#size) };
        quote!(#x.power(#r))
    }
}
