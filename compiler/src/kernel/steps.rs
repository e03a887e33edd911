//! Steps that are not loops: matrix products, row searches, systems.

use super::loops::{Context, note};
use super::names;
use crate::ir::rational::to_f64;
use crate::ir::{Axis, Entropy};
use crate::plan::graph::{Entry, Graph, Id, Op};
use crate::plan::schedule::{Domain, Pass, Step};
use crate::plan::text::describe;
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

/// The vectors of tokens that a pass keeps in columns: those that a product with queries reads.
pub fn in_columns(graph: &Graph, pass: &Pass) -> Vec<Id> {
    let mut ids: Vec<Id> = Vec::new();
    for step in &pass.rows {
        if let Step::Node(id) = step
            && let Op::Dot { key, .. } | Op::Distance { key, .. } = graph[*id].op
        {
            ids.push(key);
        }
    }
    ids.sort();
    ids.dedup();
    ids
}

/// The columns of a value.
pub fn columns(id: Id) -> Ident {
    format_ident!("{}_columns", names::value(id))
}

/// A step as statements.
pub fn step(context: &Context, step: &Step) -> TokenStream {
    match step {
        Step::Loop(l) => context.emit(l),
        Step::Node(id) => {
            let comment = note(&format!("{id} = {}", describe(context.graph, *id)));
            let code = node(context, *id);
            quote!(#comment #code)
        }
    }
}

fn node(context: &Context, id: Id) -> TokenStream {
    let out = context.array(id);
    let rows_of = |id: Id| {
        let (array, start) = (context.array(id), context.block_start(id));
        if start.to_string() == "0" { quote!(&#array) } else { quote!(&#array[#start..]) }
    };
    let keys_of = |id: Id| {
        let array = context.array(id);
        quote!(&#array[keys.start * head..])
    };
    let tile = |id: Id| match context.is_visibility(id) {
        true => quote!(visible_tile),
        false => context.array(id),
    };
    match &context.graph[id].op {
        Op::Dot { row, key } => {
            let (x, y) = (rows_of(*row), columns(*key));
            quote! {
                multiply(
                    [rows, width, head], (&mut *#out, Strides::rows(pitch)), false,
                    (#x, Strides::rows(head)), #y.from(keys.start),
                );
            }
        }
        Op::Apply { tile: a, key } => {
            let (a, y, start) = (tile(*a), keys_of(*key), context.block_start(id));
            quote! {
                multiply(
                    [rows, head, width], (&mut #out[#start..], Strides::rows(head)), false,
                    (&#a, Strides::rows(pitch)), (#y, Strides::rows(head)),
                );
            }
        }
        Op::Gather { tile: a, row } => {
            let (a, x) = (tile(*a), rows_of(*row));
            quote! {
                multiply(
                    [width, head, rows], (&mut #out[keys.start * head..], Strides::rows(head)), true,
                    (&#a, Strides::columns(pitch)), (#x, Strides::rows(head)),
                );
            }
        }
        Op::Distance { row, key } => {
            let (x, y, matrix) = (rows_of(*row), keys_of(*key), columns(*key));
            quote!(distances([rows, width, head], #x, (#y, #matrix.from(keys.start)), (&mut *#out, pitch));)
        }
        Op::Threshold(kind, scores) => {
            let (name, parameter) = match kind {
                Entropy::Tsallis(alpha) => (quote!(tsallis), to_f64(alpha)),
                Entropy::Norm(gamma) => (quote!(norm), to_f64(gamma)),
                Entropy::Shannon => return quote!(),
            };
            let parameter = Literal::f64_unsuffixed(parameter);
            let (a, row) = (tile(*scores), context.row(id));
            quote! {
                for r in 0..rows {
                    let seen = &visible[block.start + r];
                    let scores = match seen.is_empty() {
                        true => &[][..],
                        false => &#a[r * pitch + seen.start - keys.start..r * pitch + seen.end - keys.start],
                    };
                    #out[#row] = threshold::#name(scores, #parameter, &mut scratch);
                }
            }
        }
        Op::Solve { matrix, right } => solve(context, id, matrix, *right),
        Op::Scan(linear) | Op::ScanBack(linear) | Op::ScanSteps { linear, .. } => {
            let value = context.array(linear.value);
            let (rank, x, y) = match linear.pair {
                Some((x, y)) => (quote!(head), context.array(x), context.array(y)),
                None => (quote!(1), quote!(ones[..size.queries]), quote!(ones[..size.tokens])),
            };
            let ones = linear.pair.is_none().then(|| quote!(let ones = vec![1.0; size.queries.max(size.tokens)];));
            let decay = match linear.decay {
                Some(id) => {
                    let Op::Input(leaf) = &context.graph[id].op else { return quote!() };
                    let steps = names::input(leaf);
                    quote!(Some(&*#steps))
                }
                None => quote!(None),
            };
            let run = match context.graph[id].op {
                Op::Scan(_) => quote!(forward(&#value, &mut *#out)),
                Op::ScanSteps { row, .. } => {
                    let row = context.array(row);
                    quote!(steps(&#value, &#row, &mut *#out))
                }
                _ => quote!(backward(&#value, &mut *#out)),
            };
            quote! { {
                #ones
                let scan = Scan { course: &course, rank: #rank, width: head, x: &#x, y: &#y, decay: #decay };
                scan.#run;
            } }
        }
        Op::Steps { tile: a, decay } => {
            let Op::Input(leaf) = &context.graph[*decay].op else { return quote!() };
            let (a, steps) = (tile(*a), names::input(leaf));
            quote! {
                let mut sums = Vec::new();
                for r in 0..rows {
                    let position = size.tokens + block.start + r - size.queries;
                    let slopes = &#a[r * pitch..r * pitch + width];
                    decay::add_gradient(&#steps, position, keys.clone(), slopes, &mut sums, &mut *#out);
                }
            }
        }
        Op::Total(x) => {
            let (x, number) = (context.array(*x), names::number(context.precision));
            match context.pass.places.get(&id) {
                Some(crate::plan::schedule::Place::Buffer(..)) => quote!(#out = #x.iter().sum::<#number>();),
                _ => quote!(#out[0] = #x.iter().sum::<#number>();),
            }
        }
        Op::Input(_) | Op::Number(_) | Op::Map(..) | Op::Fold(..) => quote!(),
    }
}

fn solve(context: &Context, id: Id, matrix: &[Entry], right: Id) -> TokenStream {
    let (out, row) = (context.array(id), context.row(id));
    let entries = matrix.iter().map(|entry| match entry {
        Entry::Diagonal(x) => {
            let vector = context.vector(*x, &quote!(side[..head]), None);
            quote! { { #vector for i in 0..head { dense[i * head + i] += side[i]; } } }
        }
        Entry::Outer(x, y) => {
            let left = context.vector(*x, &quote!(side[..head]), None);
            let right = context.vector(*y, &quote!(other[..head]), None);
            quote! { {
                { #left }
                { #right }
                for i in 0..head {
                    for j in 0..head { dense[i * head + j] += side[i] * other[j]; }
                }
            } }
        }
        Entry::Moment(w, x, y) => moment(context, *w, *x, *y),
    });
    let right = context.vector(right, &quote!(#out[(#row) * head..(#row) * head + head]), None);
    quote! {
        for r in 0..rows {
            let seen = visible[block.start + r].clone();
            if seen.is_empty() { #out[(#row) * head..(#row) * head + head].fill(0.0); continue; }
            dense.fill(0.0);
            #(#entries)*
            { #right }
            solve::solve(&mut dense, &mut #out[(#row) * head..(#row) * head + head], head);
        }
    }
}

/// Adds Σ_n w x yᵀ.
fn moment(context: &Context, w: Id, x: Id, y: Id) -> TokenStream {
    let weight = match context.is_visibility(w) {
        true => {
            let number = names::number(context.precision);
            quote!((1.0 as #number))
        }
        false => {
            let array = context.array(w);
            quote!(#array[r * pitch + n - keys.start])
        }
    };
    let left = context.vector(x, &quote!(side[i * head..(i + 1) * head]), Some(quote!(weight)));
    // A vector per token is already laid out as a matrix.
    let is_stored = |id: Id| {
        let is_map = matches!(context.graph[id].op, Op::Map(..));
        Domain::of(context.graph.axes(id)) == Domain::KeyVector && (!is_map || context.pass.places.contains_key(&id))
    };
    let (fill, matrix) = if is_stored(y) {
        let array = context.array(y);
        (quote!(), quote!(&#array[seen.start * head..]))
    } else {
        (context.vector(y, &quote!(other[i * head..(i + 1) * head]), None), quote!(&other))
    };
    debug_assert!(!context.graph.axes(w).contains(Axis::E));
    quote! {
        side.resize(side.len().max(seen.len() * head), 0.0);
        other.resize(other.len().max(seen.len() * head), 0.0);
        for (i, n) in seen.clone().enumerate() {
            let weight = #weight;
            { #left }
            { #fill }
        }
        multiply(
            [head, head, seen.len()], (&mut dense, Strides::rows(head)), true,
            (&side, Strides::columns(head)), (#matrix, Strides::rows(head)),
        );
    }
}
