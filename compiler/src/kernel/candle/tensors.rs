//! The direction by tensor operations: the graph of the forward pass, one line for every value.
//!
//! It serves devices the kernel does not run on, with gradients by candle. Values per pair are replaced where they are
//! not seen before a function could overflow there, and left out of sums.

use super::{Subject, numbers, op};
use crate::ir::rational::to_f64;
use crate::ir::{Axis, AxisSet, Entropy, Func, Leaf, Rational, Role};
use crate::kernel::loops::note;
use crate::kernel::names;
use crate::plan::graph::{Entry, Fold, Graph, Id, Map, Op};
use crate::plan::schedule::reachable;
use crate::plan::text::describe;
use crate::plan::{Precision, Unsupported};
use num_traits::{One, Signed};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use std::collections::BTreeSet;

/// The function `direction_with_tensor_ops`.
pub fn direction(subject: &Subject) -> Result<TokenStream, Unsupported> {
    let graph = &subject.plan.graph;
    let out = subject.plan.tiles.forward.outputs[0].id;
    let mut needed: Vec<Id> = reachable(graph, &BTreeSet::from([out]), &BTreeSet::new()).into_iter().collect();
    needed.sort();
    let lines = needed.iter().filter(|id| is_tensor(graph, &needed, **id) || **id == out);
    let lines = lines.map(|id| line(subject, *id)).collect::<Result<Vec<_>, _>>()?;
    let takes = |role: Role| needed.iter().any(|id| matches!(&graph[*id].op, Op::Input(leaf) if leaf.role == role));
    let named = |name: &str, is_used: bool| format_ident!("{}{name}", if is_used { "" } else { "_" });
    let queries = named("queries", true);
    let tokens = named("tokens", takes(Role::Key) || takes(Role::Value));
    let numbers = named("numbers", takes(Role::Param) || takes(Role::Gate) || takes(Role::Decay));
    let out = names::value(out);
    let calls_number = lines.iter().any(|line| line.to_string().contains("number ("));
    let number = calls_number.then(|| {
        quote! {
            let number = |x: f64| tensor::number(x, queries)?.reshape((1, 1, 1, 1, 1));
        }
    });
    // As precise inside as the kernel.
    let (inside, outside) = match subject.plan.single.widest() {
        Precision::Single => (quote!(), quote!()),
        Precision::Double => {
            let taken = [("tokens", &tokens), ("numbers", &numbers)].into_iter().filter(|(name, used)| *used == name);
            let taken = [&queries].into_iter().chain(taken.map(|(_, used)| used));
            (
                quote! {
                    let kind = queries.dtype();
                    #(let #taken = &#taken.to_dtype(candle_core::DType::F64)?;)*
                },
                quote!(?.to_dtype(kind)),
            )
        }
    };
    Ok(quote! {
        /// The direction by tensor operations alone: `[B, queries, H·d_h]` from the inputs of the kernel's operation.
        fn direction_with_tensor_ops(
            size: &Size,
            sight: &Sight,
            #queries: &Tensor,
            #tokens: &Tensor,
            #numbers: &Tensor,
        ) -> Result<Tensor> {
            #inside
            let seen = tensor::Seen::new(&sight.visible, size, queries.device())?;
            #number
            #(#lines)*
            note!("Heads side by side again.");
            let out = seen.rows(&#out)?.broadcast_as((size.batch, size.heads, size.queries, 1, size.head))?;
            out.squeeze(3)?.transpose(1, 2)?.contiguous()?.reshape((size.batch, size.queries, size.heads * size.head)) #outside
        }
    })
}

/// Whether a value is a tensor of its own: numbers are put into sums and products as they are.
fn is_tensor(graph: &Graph, needed: &[Id], id: Id) -> bool {
    let takes_tensors = |op: &Op| !matches!(op, Op::Map(Map::Add | Map::Mul, _));
    match graph[id].op {
        Op::Number(_) => needed.iter().any(|n| takes_tensors(&graph[*n].op) && graph[*n].op.operands().contains(&id)),
        _ => true,
    }
}

fn line(subject: &Subject, id: Id) -> Result<TokenStream, Unsupported> {
    let graph = &subject.plan.graph;
    let comment = match graph[id].op {
        Op::Input(_) | Op::Number(_) => quote!(),
        _ => note(&format!("{id} = {}", describe(graph, id))),
    };
    let (name, value) = (names::value(id), value(subject, id)?);
    Ok(quote!(#comment let #name = #value;))
}

fn value(subject: &Subject, id: Id) -> Result<TokenStream, Unsupported> {
    let graph = &subject.plan.graph;
    let x = |id: &Id| names::value(*id);
    Ok(match &graph[id].op {
        Op::Input(leaf) => input(subject, leaf),
        Op::Number(c) => {
            let c = numbers::literal(c);
            quote!(number(#c)?)
        }
        Op::Map(map, xs) => mapped(graph, map, xs),
        Op::Fold(Fold::Sum, axis, y) if *axis == Axis::N => {
            let y = x(y);
            quote!(seen.sum(&#y)?)
        }
        Op::Fold(Fold::Max, axis, y) if *axis == Axis::N => {
            let y = x(y);
            quote!(seen.max(&#y)?)
        }
        Op::Fold(Fold::Sum, axis, y) if *axis == Axis::E => {
            let y = x(y);
            quote!(#y.sum_keepdim(4)?)
        }
        // Where exponents are measured from: what is made of it does not depend on it.
        Op::Fold(Fold::Max, axis, y) if *axis == Axis::E => {
            let y = x(y);
            quote!(#y.max_keepdim(4)?.detach())
        }
        Op::Dot { row, key } => {
            let (row, key) = (x(row), x(key));
            quote!(tensor::dot(&#row, &#key)?)
        }
        Op::Apply { tile, key } => {
            let (tile, key) = (x(tile), x(key));
            quote!(seen.apply(&#tile, &#key)?)
        }
        Op::Distance { row, key } => {
            let (row, key) = (x(row), x(key));
            quote!(tensor::distance(&#row, &#key)?)
        }
        Op::Threshold(kind, scores) => {
            let (scale, p) = threshold(kind);
            let (scores, scale, p) = (x(scores), numbers::float(scale), numbers::float(p));
            quote!(seen.threshold(&#scores, #scale, #p)?)
        }
        Op::Solve { matrix, right } => solve(graph, matrix, *right),
        _ => return Err(Unsupported::formula("its direction sums over queries".to_string())),
    })
}

fn input(subject: &Subject, leaf: &Leaf) -> TokenStream {
    let part = || subject.tokens.iter().position(|token| token.same_input(leaf)).unwrap_or(0);
    let at = || op::place(subject, &leaf.name);
    match leaf.role {
        Role::Query => quote!(tensor::rows(queries, size)?),
        Role::Key | Role::Value => {
            let part = numbers::count(part());
            quote!(tensor::tokens(tokens, size, #part)?)
        }
        Role::Gate => {
            let (at, gate) = (at(), if leaf.axes.contains(&Axis::T) { quote!(query_gate) } else { quote!(gate) });
            quote!(tensor::#gate(numbers, size, #at)?)
        }
        Role::Decay => {
            let at = at();
            quote!(tensor::decays(&tensor::gate(numbers, size, #at)?, size)?)
        }
        Role::Visible => quote!(seen.indicator(queries)?),
        Role::Kept => quote!(tensor::kept(sight.dropout, size, queries)?),
        Role::Size => {
            let value = match &*leaf.name {
                "N" => quote!(size.tokens),
                "d_h" => quote!(size.head),
                "H" => quote!(size.heads),
                _ => quote!(size.heads * size.head),
            };
            quote!(number((#value) as f64)?)
        }
        _ => {
            let (at, kind) = (at(), if leaf.axes.is_empty() { quote!(parameter) } else { quote!(vector) });
            quote!(tensor::#kind(numbers, size, #at)?)
        }
    }
}

fn mapped(graph: &Graph, map: &Map, xs: &[Id]) -> TokenStream {
    let x = |id: &Id| names::value(*id);
    let is_number = |id: &&Id| matches!(graph[**id].op, Op::Number(_));
    let (numbers, tensors): (Vec<&Id>, Vec<&Id>) = xs.iter().partition(is_number);
    let constants = numbers.iter().filter_map(|id| match &graph[**id].op {
        Op::Number(c) => Some(c.clone()),
        _ => None,
    });
    // A pair that is not seen holds anything: what a function could make of it must be finite.
    let is_pair = |id: &Id| graph[*id].has(Axis::T) && graph[*id].has(Axis::N);
    let safe = |id: &Id, other: f64| {
        let (x, other) = (x(id), numbers::float(other));
        if is_pair(id) { quote!(seen.or(&#x, #other)?) } else { quote!(#x) }
    };
    let chain = |method: TokenStream| {
        let first = x(tensors[0]);
        tensors[1..].iter().fold(quote!(#first), |sum, id| {
            let y = x(id);
            quote!(#sum.#method(&#y)?)
        })
    };
    match map {
        Map::Add => numbers::plus(chain(quote!(broadcast_add)), constants.sum()),
        Map::Mul => numbers::times(chain(quote!(broadcast_mul)), constants.product()),
        Map::Pow(r) => {
            let is_tame = r.is_integer() && r.is_positive();
            let x = if is_tame {
                let x = x(&xs[0]);
                quote!(#x)
            } else {
                safe(&xs[0], 1.0)
            };
            let r = numbers::literal(r);
            quote!(tensor::power(&#x, #r)?)
        }
        Map::Call(Func::Exp) => {
            let x = safe(&xs[0], 0.0);
            quote!(#x.exp()?)
        }
        // A sum over nothing is 0, whose logarithm has no slope.
        Map::Call(Func::Log) if graph[xs[0]].has(Axis::T) && !is_pair(&xs[0]) => {
            let x = x(&xs[0]);
            quote!(seen.rows_or(&#x, 1.0)?.log()?)
        }
        Map::Call(Func::Log) => {
            let x = safe(&xs[0], 1.0);
            quote!(#x.log()?)
        }
        Map::Call(Func::Abs) => {
            let x = x(&xs[0]);
            quote!(tensor::absolute(&#x)?)
        }
        Map::Call(Func::Sign) => {
            let x = x(&xs[0]);
            quote!(#x.sign()?)
        }
        Map::Call(smooth) => {
            let (x, function) = (safe(&xs[0], 0.0), names::primitive(*smooth));
            quote!(primitives::curve::#function(&#x)?)
        }
        Map::Log1p => {
            let x = safe(&xs[0], 0.0);
            quote!(primitives::curve::log_1_plus(&#x)?)
        }
        Map::Expm1 => {
            let x = safe(&xs[0], 0.0);
            quote!(primitives::curve::exp_minus_1(&#x)?)
        }
        Map::Positive => {
            let x = x(&xs[0]);
            quote!(tensor::positive(&#x)?)
        }
        Map::Spread(axes) => {
            let x = x(&xs[0]);
            spread(&quote!(#x), *axes)
        }
        Map::Select => {
            let xs = xs.iter().map(x);
            quote!(tensor::select(#(&#xs),*)?)
        }
    }
}

/// A value along axes it may not change along.
fn spread(x: &TokenStream, axes: AxisSet) -> TokenStream {
    let [t, n, e] = [Axis::T, Axis::N, Axis::E].map(|axis| axes.contains(axis));
    quote!(tensor::spread(&#x, size, [#t, #n, #e])?)
}

/// (scale, p) of the threshold τ with Σ [scale·s − τ]₊^p = 1.
fn threshold(kind: &Entropy) -> (f64, f64) {
    match kind {
        Entropy::Tsallis(alpha) => {
            let scale = alpha - Rational::one();
            (to_f64(&scale), to_f64(&scale.recip()))
        }
        Entropy::Norm(gamma) => (1.0, to_f64(&(gamma / (gamma - Rational::one())))),
        Entropy::Shannon => (1.0, 1.0),
    }
}

fn solve(graph: &Graph, matrix: &[Entry], right: Id) -> TokenStream {
    let x = |id: &Id| names::value(*id);
    let entries = matrix.iter().map(|entry| match entry {
        Entry::Diagonal(d) => {
            let d = x(d);
            quote!(tensor::diagonal(&#d, size)?)
        }
        Entry::Outer(a, b) => {
            let (a, b) = (x(a), x(b));
            quote!(tensor::outer(&#a, &#b)?)
        }
        Entry::Moment(w, a, b) => {
            let w = x(w);
            let [a, b] = [a, b].map(|side| {
                let (value, axes) = (x(side), graph.axes(*side).with(Axis::N).with(Axis::E));
                spread(&quote!(#value), axes)
            });
            quote!(seen.moment(&#w, &#a, &#b)?)
        }
    });
    let sum = entries.reduce(|sum, entry| quote!(#sum.broadcast_add(&#entry)?));
    let right = x(&right);
    let right = spread(&quote!(#right), AxisSet::of(&[Axis::T, Axis::E]));
    quote! { {
        let matrix = #sum;
        tensor::solve(&matrix, &#right)?
    } }
}
