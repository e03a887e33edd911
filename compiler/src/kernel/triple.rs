//! Loops over pairs and components: sums that no matrix product computes.
//!
//! A sum over components keeps tokens side by side in a register, so that it never leaves its lane; the vectors of the
//! tokens lie in panels for that (`primitives/panels.rs`). Sums over tokens and over queries keep components side by
//! side. Both take two rows of the block at a time: what is loaded of a token serves two queries, and what is added to a
//! token is added for two.

use super::loops::{Context, View};
use super::names;
use crate::ir::Axis;
use crate::plan::Precision;
use crate::plan::graph::{Fold, Graph, Id, Op};
use crate::plan::schedule::{Domain, Loop, Pass, Step};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

/// The vectors of tokens that a pass keeps in panels.
pub fn in_panels(graph: &Graph, pass: &Pass) -> Vec<Id> {
    // Where vectors lie is the same in every precision.
    let context = Context { graph, pass, precision: Precision::default() };
    let mut ids: Vec<Id> = Vec::new();
    for step in &pass.rows {
        if let Step::Loop(l) = step
            && l.domain == Domain::Triple
        {
            let along = context.part(l, |id| is_over_components(graph, id));
            ids.extend(context.loads(&along).into_iter().filter(|id| context.is_token_vector(*id)));
        }
    }
    ids.sort();
    ids.dedup();
    ids
}

/// The panels of a value.
pub fn panels(id: Id) -> Ident {
    format_ident!("{}_panels", names::value(id))
}

fn is_over_components(graph: &Graph, fold: Id) -> bool {
    matches!(graph[fold].op, Op::Fold(_, Axis::E, _))
}

/// The vector of one row or token.
fn vector_of(name: Ident) -> Ident {
    format_ident!("{name}_row")
}

/// Arrays that a loop over tokens walks along with; the type of more would be too deep for the compiler, and they are
/// indexed.
const MOST_WALKED: usize = 24;

impl Context<'_> {
    fn is_token_vector(&self, id: Id) -> bool {
        Domain::of(self.graph.axes(id)) == Domain::KeyVector
    }

    /// The part of a loop that computes some of its folds.
    fn part(&self, l: &Loop, is_wanted: impl Fn(Id) -> bool) -> Loop {
        let folds = l.folds.iter().copied().filter(|id| is_wanted(*id)).collect();
        self.pruned(&Loop { folds, ..l.clone() })
    }

    /// A loop over pairs and components.
    pub fn triple(&self, l: &Loop) -> TokenStream {
        let along = self.part(l, |id| is_over_components(self.graph, id));
        let across = self.part(l, |id| !is_over_components(self.graph, id));
        let along = (!along.folds.is_empty()).then(|| self.along(&along));
        let across = (!across.folds.is_empty()).then(|| self.across(&across));
        quote!(#along #across)
    }

    /// Sums over components, for a register of tokens and two rows at a time. Tokens that a row does not see get some
    /// number, as everywhere in a tile.
    fn along(&self, l: &Loop) -> TokenStream {
        let views = [0, 1].map(|row| View { inner: Some(Axis::N), row: Some(row) });
        let [shared, _] = views;
        let outer = self.numbers(l, shared, |d| d == Domain::Scalar);
        let middle = views.map(|view| self.numbers(l, view, |d| d == Domain::Row));
        let (mut panel, mut vectors, mut lanes) = (TokenStream::new(), TokenStream::new(), TokenStream::new());
        let mut components = TokenStream::new();
        for id in self.loads(l) {
            let array = self.array(id);
            match Domain::of(self.graph.axes(id)) {
                Domain::KeyVector => {
                    let (name, own, all) = (names::value(id), format_ident!("{}_panel", names::value(id)), panels(id));
                    panel.extend(quote!(let #own = &#all[first * head..(first + MOST_LANES) * head];));
                    components.extend(quote! {
                        let #name = Lanes::load(simd, &#own[e * MOST_LANES..(e + 1) * MOST_LANES], part);
                    });
                }
                Domain::Vector => {
                    let name = names::value(id);
                    components.extend(quote!(let #name = #array[e];));
                }
                Domain::RowVector => {
                    for view in views {
                        let (name, slice) = (self.name(id, view), self.slice(id, l.domain, view, false));
                        let vector = vector_of(name.clone());
                        vectors.extend(quote!(let #vector = #slice;));
                        components.extend(quote!(let #name = #vector[e];));
                    }
                }
                Domain::Key => {
                    let name = names::value(id);
                    lanes.extend(quote!(let #name = Lanes::load(simd, &#array[first..], part);));
                }
                Domain::Tile => {
                    for view in views {
                        let (name, slice) = (self.name(id, view), self.slice(id, l.domain, view, false));
                        lanes.extend(quote!(let #name = Lanes::load(simd, #slice, at);));
                    }
                }
                _ => {}
            }
        }
        let has = |id: Id, axis| self.graph[id].has(axis);
        let is_of_pair = |id| has(id, Axis::N) && !has(id, Axis::E);
        lanes.extend(self.shared_definitions(l, shared, is_of_pair));
        lanes.extend(views.map(|view| self.row_definitions(l, view, is_of_pair)));
        let (mut starts, mut ends) = (TokenStream::new(), TokenStream::new());
        components.extend(self.shared_definitions(l, shared, |id| has(id, Axis::E)));
        components.extend(views.map(|view| self.row_definitions(l, view, |id| has(id, Axis::E))));
        let lowest = self.lowest();
        for &id in &l.folds {
            let Op::Fold(fold, _, x) = self.graph[id].op else { continue };
            for view in views {
                let sum = self.accumulator(id, view);
                let (start, next) = match fold {
                    Fold::Sum => (quote!(0.0), self.added(&quote!(#sum), x, view)),
                    Fold::Max => {
                        let x = self.in_lanes(x, view);
                        (quote!(#lowest), quote!(#x.larger(#sum)))
                    }
                };
                let slice = self.slice(id, l.domain, view, true);
                starts.extend(quote!(let mut #sum = Lanes::all(simd, #start);));
                components.extend(quote!(#sum = #next;));
                ends.extend(quote!(#sum.store(#slice, at);));
            }
        }
        quote! { {
            #outer
            for first in (keys.start..keys.end).step_by(MOST_LANES) {
                #panel
                for pair in (0..rows).step_by(2) {
                    let (r0, r1) = (pair, (pair + 1).min(rows - 1));
                    let seen = seen_by(&visible[block.start + r0..=block.start + r1]);
                    let (from, to) = (seen.start.saturating_sub(first), seen.end.saturating_sub(first));
                    #(#middle)*
                    #vectors
                    for part in Lanes::starts(simd, from, to.min(MOST_LANES)) {
                        let at = first - keys.start + part;
                        #lanes
                        #starts
                        for e in 0..head { #components }
                        #ends
                    }
                }
            }
        } }
    }

    /// The maps of a kind that are the same for all rows.
    fn shared_definitions(&self, l: &Loop, view: View, is_wanted: impl Fn(Id) -> bool) -> TokenStream {
        let is_shared = |id: &&Id| is_wanted(**id) && !self.graph[**id].has(Axis::T);
        l.maps.iter().filter(is_shared).map(|&id| self.definition(id, view)).collect()
    }

    /// The maps of a kind that one row has of its own.
    fn row_definitions(&self, l: &Loop, view: View, is_wanted: impl Fn(Id) -> bool) -> TokenStream {
        let is_own = |id: &&Id| is_wanted(**id) && self.graph[**id].has(Axis::T);
        l.maps.iter().filter(is_own).map(|&id| self.definition(id, view)).collect()
    }

    /// Sums over tokens and over queries. Tokens go in groups that stay in the fastest cache while all rows of the block
    /// pass over them; what two rows both see goes for both at once, the rest row by row.
    fn across(&self, l: &Loop) -> TokenStream {
        let view = |row| View { inner: Some(Axis::E), row };
        let outer = self.numbers(l, view(None), |d| d == Domain::Scalar);
        let lowest = self.lowest();
        let starts = l.folds.iter().map(|&id| {
            let (array, row) = (self.array(id), self.row(id));
            match Domain::of(self.graph.axes(id)) {
                Domain::RowVector => {
                    let nothing = match self.graph[id].op {
                        Op::Fold(Fold::Max, ..) => {
                            quote!(if visible[block.start + r].is_empty() { 0.0 } else { #lowest })
                        }
                        _ => quote!(0.0),
                    };
                    quote!(#array[(#row) * head..(#row) * head + head].fill(#nothing);)
                }
                _ => quote!(),
            }
        });
        let two = self.over_tokens(l, &[view(Some(0)), view(Some(1))]);
        let one = self.over_tokens(l, &[view(None)]);
        quote! { {
            #outer
            for r in 0..rows { #(#starts)* }
            for tokens in groups(keys.clone(), head) {
                for pair in (0..rows).step_by(2) {
                    let (r0, r1) = (pair, (pair + 1).min(rows - 1));
                    let seen = [r0, r1].map(|r| both(&visible[block.start + r], &tokens));
                    let (seen, rest) = shared([r0, r1], seen);
                    if !seen.is_empty() { #two }
                    for (r, seen) in rest {
                        if seen.is_empty() { continue; }
                        #one
                    }
                }
            }
        } }
    }

    /// `let x = …;` of what token `n` has of an array.
    fn load_of_token(&self, id: Id, views: &[View]) -> TokenStream {
        let (array, name) = (self.array(id), names::value(id));
        match Domain::of(self.graph.axes(id)) {
            Domain::KeyVector => quote!(let #name = Lanes::load(simd, &#array[n * head..n * head + head], at);),
            Domain::Tile => {
                let pitch = if self.is_kept(id) { quote!(kept_pitch) } else { quote!(pitch) };
                let of_rows = views.iter().map(|&view| {
                    let (name, r) = (self.name(id, view), view.counter());
                    quote!(let #name = #array[#r * #pitch + n - keys.start];)
                });
                quote!(#(#of_rows)*)
            }
            _ => quote!(let #name = #array[n];),
        }
    }

    /// A run over tokens for every register of components, where sums over tokens stay in registers.
    fn over_tokens(&self, l: &Loop, views: &[View]) -> TokenStream {
        let middle = views.iter().map(|&view| self.numbers(l, view, |d| d == Domain::Row));
        let of_head = self.lanes_loaded(l, views[0], |d| d == Domain::Vector);
        let of_rows = views.iter().map(|&view| self.lanes_loaded(l, view, |d| d == Domain::RowVector));
        let has = |id: Id, axis| self.graph[id].has(axis);
        let is_of_row = |id| has(id, Axis::E) && !has(id, Axis::N);
        let maps_of_head = self.shared_definitions(l, views[0], is_of_row);
        let maps_of_rows = views.iter().map(|&view| self.row_definitions(l, view, is_of_row));
        let of_tokens =
            |id: &Id| matches!(Domain::of(self.graph.axes(*id)), Domain::KeyVector | Domain::Tile | Domain::Key);
        let arrays: Vec<Id> = self.loads(l).into_iter().filter(of_tokens).collect();
        let (walked, indexed) = arrays.split_at(arrays.len().min(MOST_WALKED));
        let counter = if indexed.is_empty() { quote!(_n) } else { quote!(n) };
        let (mut tokens, mut pattern, mut loads) = (quote!(seen.clone()), counter, TokenStream::new());
        let mut walk = |item: &Ident, array: TokenStream| {
            tokens = quote!(#tokens.zip(#array));
            pattern = quote!((#pattern, #item));
        };
        for &id in walked {
            let (array, name) = (self.array(id), names::value(id));
            match Domain::of(self.graph.axes(id)) {
                Domain::KeyVector => {
                    let vector = vector_of(name.clone());
                    walk(&vector, quote!(#array[seen.start * head..seen.end * head].chunks_exact(head)));
                    loads.extend(quote!(let #name = Lanes::load(simd, #vector, at);));
                }
                Domain::Tile => {
                    for &view in views {
                        let (name, r) = (self.name(id, view), view.counter());
                        let pitch = if self.is_kept(id) { quote!(kept_pitch) } else { quote!(pitch) };
                        let start = quote!(#r * #pitch + seen.start - keys.start);
                        walk(&name, quote!(#array[#start..#start + seen.len()].iter()));
                        loads.extend(quote!(let #name = *#name;));
                    }
                }
                _ => {
                    walk(&name, quote!(#array[seen.clone()].iter()));
                    loads.extend(quote!(let #name = *#name;));
                }
            }
        }
        indexed.iter().for_each(|&id| loads.extend(self.load_of_token(id, views)));
        let shared = self.shared_definitions(l, views[0], |id| has(id, Axis::N));
        let maps = views.iter().map(|&view| self.row_definitions(l, view, |id| has(id, Axis::N)));
        let (mut before, mut inside, mut after) = (TokenStream::new(), TokenStream::new(), TokenStream::new());
        let lowest = self.lowest();
        for &id in &l.folds {
            let Op::Fold(fold, _, x) = self.graph[id].op else { continue };
            if Domain::of(self.graph.axes(id)) == Domain::RowVector {
                for &view in views {
                    let (sum, slice) = (self.accumulator(id, view), self.slice(id, l.domain, view, true));
                    let (start, next, end) = match fold {
                        Fold::Sum => {
                            (quote!(0.0), self.added(&quote!(#sum), x, view), quote!(#sum.add_to(#slice, at);))
                        }
                        Fold::Max => {
                            let x = self.in_lanes(x, view);
                            let end = quote! {
                                let own = #slice;
                                Lanes::load(simd, own, at).larger(#sum).store(own, at);
                            };
                            (quote!(#lowest), quote!(#x.larger(#sum)), end)
                        }
                    };
                    before.extend(quote!(let mut #sum = Lanes::all(simd, #start);));
                    inside.extend(quote!(#sum = #next;));
                    after.extend(end);
                }
            } else {
                let (array, vector) = (self.array(id), vector_of(names::value(id)));
                walk(&vector, quote!(#array[seen.start * head..seen.end * head].chunks_exact_mut(head)));
                let first = self.term(x, views[0]);
                let sum = views[1..].iter().fold(first, |sum, &view| self.added(&sum, x, view));
                inside.extend(quote!((#sum).add_to(#vector, at);));
            }
        }
        quote! {
            #(#middle)*
            for at in Lanes::starts(simd, 0, head) {
                #of_head
                #maps_of_head
                #(#of_rows)*
                #(#maps_of_rows)*
                #before
                for #pattern in #tokens { #loads #shared #(#maps)* #inside }
                #after
            }
        }
    }
}
