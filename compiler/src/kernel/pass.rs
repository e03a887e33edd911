//! A pass as two functions: one over all heads, which cuts the arrays, and one over a single head.

use super::loops::Context;
use super::names;
use super::steps;
use super::triple;
use crate::ir::{Axis, Leaf, Role};
use crate::plan::graph::{Graph, Id, Op};
use crate::plan::schedule::{Domain, Pass, PassKind, Place, Step, is_accumulated};
use crate::plan::{Plan, Precision, Reach};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

/// The functions of a pass.
pub fn pass(plan: &Plan, pass: &Pass) -> TokenStream {
    let all = all_heads(plan, pass);
    let head = head(plan, pass);
    let each = plan.reach_of(pass.kind).precisions().iter().map(|precision| {
        let context = Context { graph: &plan.graph, pass, precision: *precision };
        one_head(plan, &context)
    });
    quote!(#all #head #(#each)*)
}

/// The entries of all buffers together.
fn room_name(precision: Precision) -> Ident {
    format_ident!("room_in_{}", names::number(precision).to_string())
}

fn function(pass: &Pass) -> Ident {
    format_ident!("{}{}", pass.kind.to_string().replace(' ', "_"), if pass.is_scan { "_by_scans" } else { "" })
}

/// The structure that holds one head's share.
fn head_type(pass: &Pass) -> Ident {
    let name: String = pass.kind.to_string().split(' ').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
    format_ident!("{name}{}Head", if pass.is_scan { "Scan" } else { "" })
}

/// The scans that do the same as a pass over tiles.
fn scan_of<'a>(plan: &'a Plan, pass: &Pass) -> Option<&'a Pass> {
    let scans = plan.scans.as_ref().filter(|_| !pass.is_scan)?;
    scans.all().into_iter().find(|scan| scan.kind == pass.kind)
}

/// Arrays of one head that are cut from those of all heads: name, field and whether it is written.
struct Share {
    name: Ident,
    from: TokenStream,
    is_written: bool,
    /// Whether all sequences of the batch have the same.
    is_of_batch: bool,
    /// Whether it stays between the forward and the backward pass: all else is in single precision outside of the kernel.
    is_saved: bool,
}

impl Share {
    fn read(name: Ident, from: TokenStream) -> Share {
        Share { name, from, is_written: false, is_of_batch: false, is_saved: false }
    }
    fn written(name: Ident, from: TokenStream) -> Share {
        Share { is_written: true, ..Share::read(name, from) }
    }
}

/// The saved values a pass reads or writes itself.
fn saved_here(pass: &Pass) -> Vec<Id> {
    let is_used = |id: &Id| pass.places.get(id).is_some_and(|p| matches!(p, Place::Saved(_)));
    pass.saved.iter().copied().filter(is_used).collect()
}

/// The saved values that are outputs as well, and written there.
fn saved_outputs(pass: &Pass) -> Vec<Id> {
    let is_output = |id: &Id| matches!(pass.places.get(id), Some(Place::Output(_)));
    pass.saved.iter().copied().filter(|id| pass.is_saving && is_output(id)).collect()
}

/// The saved outputs that every head saves itself: outside of it they have lost half of their digits.
fn saved_apart(plan: &Plan, pass: &Pass) -> Vec<Id> {
    match plan.reach_of(pass.kind).widest() {
        Precision::Single => vec![],
        Precision::Double => saved_outputs(pass),
    }
}

fn shares(plan: &Plan, pass: &Pass) -> Vec<Share> {
    let mut shares = Vec::new();
    for leaf in names::inputs_of(&plan.graph, pass) {
        let (name, field) = (names::input(&leaf), names::input_field(&leaf));
        let from = match leaf.role {
            Role::Probe => quote!(#field),
            Role::Size => continue,
            Role::Param if leaf.axes.is_empty() => continue,
            _ => quote!(inputs.#field),
        };
        shares.push(Share { is_of_batch: leaf.role == Role::Param, ..Share::read(name, from) });
    }
    for id in saved_here(pass).into_iter().chain(saved_apart(plan, pass)) {
        let name = names::saved(id);
        let from = quote!(saved.#name);
        let share = if pass.is_saving { Share::written(name, from) } else { Share::read(name, from) };
        shares.push(Share { is_saved: true, ..share });
    }
    for output in &pass.outputs {
        let from = match pass.kind.cotangent() {
            None => quote!(*out),
            Some(_) => {
                let field = names::field(&output.name);
                quote!(gradients.#field)
            }
        };
        shares.push(Share::written(names::output(output), from));
    }
    shares
}

/// Numbers of one head: parameters that are no vectors.
fn numbers(plan: &Plan, pass: &Pass) -> Vec<Leaf> {
    names::inputs_of(&plan.graph, pass).into_iter().filter(is_number).collect()
}

fn is_number(leaf: &Leaf) -> bool {
    leaf.role == Role::Param && leaf.axes.is_empty()
}

fn all_heads(plan: &Plan, pass: &Pass) -> TokenStream {
    let (name, head) = (function(pass), head_type(pass));
    let shares = shares(plan, pass);
    let written: Vec<&Share> = shares.iter().filter(|s| s.is_written).collect();
    let (cut, cut_from): (Vec<Ident>, Vec<&TokenStream>) =
        written.iter().map(|s| (format_ident!("{}_parts", s.name), &s.from)).unzip();
    let fields = shares.iter().map(|s| {
        let (name, from) = (&s.name, &s.from);
        match s.is_written {
            true => {
                let parts = format_ident!("{name}_parts");
                quote!(#name: #parts.next().unwrap_or_default())
            }
            false if s.is_of_batch => quote!(#name: part(&#from, i % size.heads, size.heads)),
            false => quote!(#name: part(&#from, i, heads)),
        }
    });
    let parameters = numbers(plan, pass);
    let parameters = parameters.iter().map(|leaf| {
        let (name, field) = (names::input(leaf), names::input_field(leaf));
        quote!(#name: inputs.#field[i % size.heads])
    });
    let dropout = names::reads_kept(&plan.graph, pass).then(|| quote!(dropout: inputs.dropout, number: i as u32,));
    let given = pass.kind.cotangent().map(names::cotangent);
    let cotangent = given.as_ref().map(|name| quote!(#name: &[f32]));
    let saved = match pass.kind {
        PassKind::Forward => Some(quote!(saved: &mut Saved)),
        PassKind::Backward => Some(quote!(saved: &Saved)),
        PassKind::Energy | PassKind::Constants | PassKind::EnergyBackward | PassKind::EnergyConstants => None,
    };
    let target = match pass.kind.cotangent().map(names::gradients_type) {
        None => quote!(out: &mut [f32]),
        Some(structure) => quote!(gradients: &mut #structure),
    };
    let doc = match pass.kind {
        PassKind::Forward => " The direction every head adds, and what the backward passes need of it.",
        PassKind::Energy => " The energy F of every head at every query.",
        PassKind::Backward => " The gradients of tokens, learned parameters and gates from that of the direction.",
        PassKind::EnergyBackward => " The gradients of tokens, learned parameters and gates from that of the energy.",
        PassKind::Constants | PassKind::EnergyConstants => " The gradients of parameters that are not learned.",
    };
    let by_scans = scan_of(plan, pass).map(|scan| {
        let name = function(scan);
        let saved = saved.as_ref().map(|_| quote!(saved,));
        let target = if given.is_some() { quote!(gradients) } else { quote!(out) };
        let given = given.iter();
        let has_decay = plan.graph.has_decay();
        quote! {
            let has_course = |v: &Visible| Course::of(v.intervals(), v.tokens(), #has_decay).is_some();
            if inputs.dropout.is_none() && visible.iter().all(has_course) {
                return #name(size, visible, inputs, #(#given,)* #saved #target);
            }
        }
    });
    let reach = plan.reach_of(pass.kind);
    let doc = match reach {
        Reach::Everywhere => doc.to_string(),
        other => format!("{doc} Computed in {}.", other.words()),
    };
    let run = |tasks: TokenStream, precision: Precision| {
        let (number, room) = (names::number(precision), room_name(precision));
        quote! {
            in_parallel(#tasks, |task: #head, workspace: &mut Vec<#number>| {
                let workspace = aligned(workspace, task.#room());
                pulp::Arch::new().dispatch(With { head: task, workspace });
            });
        }
    };
    let run = match reach {
        Reach::UpTo(limit) => {
            let vectors = names::inputs_of(&plan.graph, pass);
            let is_vector = |leaf: &&Leaf| matches!(leaf.role, Role::Query | Role::Key | Role::Value);
            let vectors = vectors.iter().filter(is_vector).map(names::input);
            let (single, double) = (run(quote!(ordinary), Precision::Single), run(quote!(large), Precision::Double));
            quote! {
                let is_ordinary = |task: &#head| is_within(#limit, &[#(task.#vectors),*]);
                let (ordinary, large): (Vec<#head>, Vec<#head>) = tasks.partition(is_ordinary);
                #single
                #double
            }
        }
        other => run(quote!(tasks.collect()), other.widest()),
    };
    let written_saved = saved_here(pass).into_iter().chain(saved_apart(plan, pass));
    let resized = written_saved.filter(|_| pass.is_saving).map(|id| {
        let (name, length) = (names::saved(id), names::share(Domain::of(plan.graph.axes(id))));
        quote!(saved.#name.resize(heads * #length, 0.0);)
    });
    // A direction that later passes read again is written once, as the output.
    let apart = saved_apart(plan, pass);
    let copied = saved_outputs(pass).into_iter().filter(|id| !apart.contains(id)).map(|id| {
        let (name, shares) = (names::saved(id), format_ident!("{}_parts", names::output(&pass.outputs[0])));
        quote! {
            drop(#shares);
            saved.#name.clear();
            saved.#name.extend_from_slice(out);
        }
    });
    let visibility = if pass.is_scan { quote!() } else { quote!(pub) };
    let arguments = cotangent.clone().into_iter().chain(saved.clone()).chain([target]);
    quote! {
        #[doc = #doc]
        #[allow(non_snake_case, unused_variables)]
        #visibility fn #name(size: &Size, visible: &[Visible], inputs: &Inputs, #(#arguments),*) {
            #by_scans
            let heads = size.all_heads();
            #(#resized)*
            #(let mut #cut = parts(&mut #cut_from, heads);)*
            let tasks = (0..heads)
                .map(|i| #head {
                    size: *size,
                    visible: visible[i / size.heads].intervals(),
                    #(#fields,)*
                    #(#parameters,)*
                    #dropout
                });
            #run
            #(#copied)*
        }
    }
}

/// What the functions of one head are given.
fn head(plan: &Plan, pass: &Pass) -> TokenStream {
    let head = head_type(pass);
    let share_fields = shares(plan, pass).into_iter().map(|share| {
        let (name, number) = (&share.name, names::number(outside_precision(plan, pass, &share)));
        if share.is_written { quote!(#name: &'a mut [#number]) } else { quote!(#name: &'a [#number]) }
    });
    let parameters = numbers(plan, pass);
    let parameters = parameters.iter().map(names::input);
    let dropout_fields = names::reads_kept(&plan.graph, pass).then(|| quote!(dropout: Option<Dropout>, number: u32,));
    let doc = format!(" One head of [`{}`].", function(pass));
    quote! {
        #[doc = #doc]
        #[allow(non_snake_case)]
        struct #head<'a> {
            size: Size,
            visible: &'a [Range<usize>],
            #(#share_fields,)*
            #(#parameters: f32,)*
            #dropout_fields
        }
    }
}

fn one_head(plan: &Plan, context: &Context) -> TokenStream {
    let pass = context.pass;
    let head = head_type(pass);
    let shares = shares(plan, pass);
    let number = names::number(context.precision);
    let parameters: Vec<Ident> = numbers(plan, pass).iter().map(names::input).collect();
    let share_names: Vec<&Ident> = shares.iter().map(|s| &s.name).collect();
    let room = room(plan, context);
    let cuts = cuts(plan, context);
    let sizes = sizes(context);
    let inside = inside(plan, context);
    let outside = outside(plan, context);
    let start = start(context);
    let steps = |list: &[Step]| -> TokenStream { list.iter().map(|step| steps::step(context, step)).collect() };
    let (before, rows, after) = (steps(&pass.before), steps(&pass.rows), steps(&pass.after));
    let turned = turned(context);
    let tiles = tiles(context);
    let ends = ends(context);
    let blocks = (!pass.rows.is_empty()).then(|| {
        if pass.is_scan {
            let has_decay = plan.graph.has_decay();
            return quote! {
                let Some(course) = Course::of(visible, size.tokens, #has_decay) else { return };
                let block = 0..size.queries;
                let rows = block.len();
                #rows
            };
        }
        let has_tiles = uses_tiles(pass);
        let geometry = has_tiles.then(|| {
            quote! {
                let keys = seen_by(&visible[block.clone()]);
                let width = keys.len();
                let pitch = width.next_multiple_of(MOST_LANES);
            }
        });
        quote! {
            let mut next = 0;
            while next < size.queries {
                let block = next_block(visible, next);
                next = block.end;
                let rows = block.len();
                #geometry
                #tiles
                #rows
            }
        }
    });
    let reads_kept = names::reads_kept(&plan.graph, pass);
    let dropout_names = reads_kept.then(|| quote!(dropout, number,));
    let room_name = room_name(context.precision);
    quote! {
        impl #head<'_> {
            /// The entries of all buffers together.
            fn #room_name(&self) -> usize {
                #room
            }
        }

        impl pulp::WithSimd for With<'_, #head<'_>, #number> {
            type Output = ();

            #[inline(always)]
            #[allow(non_snake_case, unused_variables, unused_mut, unused_assignments)]
            #[allow(clippy::needless_range_loop, clippy::let_and_return, clippy::manual_clamp)]
            fn with_simd<S: pulp::Simd>(self, simd: S) {
                let With { head: #head { size, visible, #(#share_names,)* #(#parameters,)* #dropout_names }, workspace } =
                    self;
                #[allow(dead_code)]
                type Lanes<S> = lanes::Lanes<S, #number>;
                let head = size.head;
                #sizes
                #cuts
                #inside
                #start
                #before
                #turned
                #blocks
                #after
                #ends
                #outside
            }
        }
    }
}

/// What a share is in outside of the head.
fn outside_precision(plan: &Plan, pass: &Pass, share: &Share) -> Precision {
    if share.is_saved { plan.reach_of(pass.kind).widest() } else { Precision::Single }
}

/// The shares that are in another precision outside of the head than in it.
fn converted(plan: &Plan, context: &Context) -> Vec<Share> {
    let is_other = |share: &Share| outside_precision(plan, context.pass, share) != context.precision;
    shares(plan, context.pass).into_iter().filter(is_other).collect()
}

fn outside_name(share: &Share) -> Ident {
    format_ident!("outside_{}", share.name)
}

/// What is read becomes as precise as what is computed, and what is written gets a place of its own.
fn inside(plan: &Plan, context: &Context) -> TokenStream {
    let arrays = converted(plan, context).into_iter().map(|share| {
        let (name, outside) = (&share.name, outside_name(&share));
        match share.is_written {
            false => quote!(let #name = converted(&mut rest, #name);),
            true => quote! {
                let #outside = #name;
                let #name = take(&mut rest, #outside.len());
                #name.fill(0.0);
            },
        }
    });
    let numbers = numbers(plan, context.pass).into_iter().filter(|_| context.precision == Precision::Double);
    let numbers = numbers.map(|leaf| {
        let name = names::input(&leaf);
        quote!(let #name = f64::from(#name);)
    });
    arrays.chain(numbers).collect()
}

/// What was written goes out.
fn outside(plan: &Plan, context: &Context) -> TokenStream {
    let saved = saved_apart(plan, context.pass).into_iter().map(|id| {
        let (name, array) = (names::saved(id), context.array(id));
        quote!(#name.copy_from_slice(#array);)
    });
    let written = converted(plan, context).into_iter().filter(|share| share.is_written).map(|share| {
        let (name, outside) = (&share.name, outside_name(&share));
        quote!(convert(#name, #outside);)
    });
    saved.chain(written).collect()
}

/// Which buffers a pass has, with their lengths in terms of the block.
fn buffers(plan: &Plan, pass: &Pass) -> Vec<(Ident, TokenStream)> {
    let mut all = Vec::new();
    let mut places: Vec<Place> = pass.places.values().copied().collect();
    places.sort();
    places.dedup();
    for place in places {
        let Place::Buffer(domain, _) = place else { continue };
        let length = match domain {
            Domain::Scalar => continue,
            Domain::Row => quote!(most_rows),
            Domain::RowVector => quote!(most_rows * size.head),
            Domain::Tile | Domain::Triple => quote!(most_entries),
            other => names::share(other),
        };
        all.push((names::buffer(pass, place), length));
    }
    for leaf in decays_read(&plan.graph, pass).iter().filter(|_| !pass.is_scan) {
        all.push((names::decay_tile(leaf), quote!(most_entries)));
    }
    if multiplies_visibility(&plan.graph, pass) {
        all.push((format_ident!("visible_tile"), quote!(most_entries)));
    }
    if names::reads_kept(&plan.graph, pass) {
        all.push((format_ident!("kept"), quote!(most_entries)));
    }
    for id in triple::in_panels(&plan.graph, pass) {
        all.push((triple::panels(id), quote!(panels::length(size.tokens, size.head))));
    }
    for id in steps::in_columns(&plan.graph, pass) {
        all.push((steps::columns(id), quote!(columns::room(size.queries, size.tokens, size.head))));
    }
    all
}

fn room(plan: &Plan, context: &Context) -> TokenStream {
    let pass = context.pass;
    let lengths: Vec<TokenStream> = buffers(plan, pass).into_iter().map(|(_, length)| length).collect();
    let arrays = converted(plan, context).into_iter().map(|share| {
        let name = share.name;
        quote!(self.#name.len())
    });
    let all: Vec<TokenStream> = lengths.iter().cloned().chain(arrays).collect();
    if all.is_empty() {
        return quote!(0);
    }
    let block = needs_block(pass, &lengths);
    let size = (pass.is_scan || lengths.iter().any(|l| l.to_string().contains("size")))
        .then(|| quote!(let size = &self.size;));
    quote! {
        #size
        #block
        #(#all)+*
    }
}

/// The largest block, where some length depends on it.
fn needs_block(pass: &Pass, lengths: &[TokenStream]) -> TokenStream {
    if pass.is_scan {
        let is_needed = lengths.iter().any(|l| l.to_string().contains("most_rows"));
        return if is_needed { quote!(let most_rows = size.queries;) } else { quote!() };
    }
    let mentions = |word: &str| lengths.iter().any(|l| l.to_string().contains(word));
    let visible = quote!(self.visible);
    match (mentions("most_rows"), mentions("most_entries")) {
        (true, true) => quote!(let (most_rows, most_entries) = largest_block(#visible, MOST_LANES);),
        (true, false) => quote!(let (most_rows, _) = largest_block(#visible, MOST_LANES);),
        (false, true) => quote!(let (_, most_entries) = largest_block(#visible, MOST_LANES);),
        (false, false) => quote!(),
    }
}

fn cuts(plan: &Plan, context: &Context) -> TokenStream {
    let pass = context.pass;
    let buffers = buffers(plan, pass);
    if buffers.is_empty() && converted(plan, context).is_empty() {
        return quote!();
    }
    let lengths: Vec<TokenStream> = buffers.iter().map(|(_, length)| length.clone()).collect();
    let block: TokenStream =
        needs_block(pass, &lengths).to_string().replace("self . visible", "visible").parse().unwrap_or_default();
    let names = buffers.iter().map(|(name, _)| name);
    quote! {
        #block
        let mut rest = workspace;
        #(let #names = take(&mut rest, #lengths);)*
    }
}

/// The sizes of the language, where a formula mentions them.
fn sizes(context: &Context) -> TokenStream {
    let number = names::number(context.precision);
    let mut code = TokenStream::new();
    for leaf in names::inputs_of(context.graph, context.pass).iter().filter(|leaf| leaf.role == Role::Size) {
        let name = names::input(leaf);
        let value = match &*leaf.name {
            "N" => quote!(size.tokens),
            "d_h" => quote!(size.head),
            "H" => quote!(size.heads),
            _ => quote!(size.heads * size.head),
        };
        code.extend(quote!(let #name = #value as #number;));
    }
    code
}

/// Sums over queries start at 0; inputs that are numbers get the names of their values.
fn start(context: &Context) -> TokenStream {
    let pass = context.pass;
    let number = names::number(context.precision);
    let mut code = TokenStream::new();
    for (id, place) in &pass.places {
        let node = &context.graph[*id];
        let is_given = !pass.is_saving && matches!(place, Place::Saved(_));
        let is_of_vector = matches!(node.op, Op::Fold(_, Axis::E, _)) && node.axes.is_empty();
        let is_sum = is_accumulated(&node.op) || is_of_vector || matches!(node.op, Op::Total(_));
        if !is_sum || is_given {
            continue;
        }
        let array = context.array(*id);
        code.extend(match (Domain::of(node.axes), place) {
            (Domain::Scalar, Place::Buffer(..)) => quote!(let mut #array: #number = 0.0;),
            _ => quote!(#array.fill(0.0);),
        });
    }
    let searches = context.graph.nodes.iter().any(|n| matches!(n.op, Op::Threshold(..)));
    if searches && pass.rows.iter().any(|s| is_node(context, s, |op| matches!(op, Op::Threshold(..)))) {
        code.extend(quote!(let mut scratch = Vec::new();));
    }
    if pass.rows.iter().any(|s| is_node(context, s, |op| matches!(op, Op::Solve { .. }))) {
        code.extend(quote! {
            let mut dense: Vec<#number> = vec![0.0; head * head];
            let (mut side, mut other): (Vec<#number>, Vec<#number>) = (vec![0.0; head], vec![0.0; head]);
        });
    }
    code
}

fn is_node(context: &Context, step: &Step, is_wanted: impl Fn(&Op) -> bool) -> bool {
    matches!(step, Step::Node(id) if is_wanted(&context.graph[*id].op))
}

fn uses_tiles(pass: &Pass) -> bool {
    pass.rows.iter().any(|step| match step {
        Step::Node(_) => true,
        Step::Loop(l) => matches!(l.domain, Domain::Tile | Domain::Triple),
    })
}

/// The decays a pass looks at.
fn decays_read(graph: &Graph, pass: &Pass) -> Vec<Leaf> {
    names::inputs_of(graph, pass).into_iter().filter(|leaf| leaf.role == Role::Decay).collect()
}

/// Whether a matrix product takes visibility itself as its tile.
fn multiplies_visibility(graph: &Graph, pass: &Pass) -> bool {
    pass.rows.iter().any(|step| match step {
        Step::Node(id) => match &graph[*id].op {
            Op::Apply { tile, .. } | Op::Gather { tile, .. } | Op::Steps { tile, .. } => {
                matches!(&graph[*tile].op, Op::Input(leaf) if leaf.role == Role::Visible)
            }
            _ => false,
        },
        _ => false,
    })
}

/// The vectors of tokens that lie in columns and in panels.
fn turned(context: &Context) -> TokenStream {
    let in_columns = steps::in_columns(context.graph, context.pass).into_iter().map(|id| {
        let (columns, vectors) = (steps::columns(id), context.array(id));
        quote!(let #columns = columns::Columns::new(&#vectors, head, #columns);)
    });
    let in_panels = triple::in_panels(context.graph, context.pass).into_iter().map(|id| {
        let (panels, vectors) = (triple::panels(id), context.array(id));
        quote!(panels::fill(&#vectors, head, &mut *#panels);)
    });
    in_columns.chain(in_panels).collect()
}

/// Tiles that come from the mask, from a decay and from dropout.
fn tiles(context: &Context) -> TokenStream {
    let mut code = TokenStream::new();
    if names::reads_kept(context.graph, context.pass) {
        code.extend(quote! {
            note!("Where nothing is dropped, one row of ones serves all.");
            let kept_pitch = if dropout.is_some() { pitch } else { 0 };
            match dropout {
                None => kept[..pitch].fill(1.0),
                Some(dropout) => {
                    for r in 0..rows {
                        dropout.row(number, block.start + r, keys.clone(), &mut kept[r * pitch..(r + 1) * pitch]);
                    }
                }
            }
        });
    }
    for leaf in &decays_read(context.graph, context.pass) {
        let tile = names::decay_tile(leaf);
        let steps = names::input(leaf);
        code.extend(quote! {
            for r in 0..rows {
                let position = size.tokens + block.start + r - size.queries;
                let (before, own) = #tile.split_at_mut(r * pitch);
                match r.checked_sub(1) {
                    None => decay::first_row(#steps, position, keys.clone(), own),
                    Some(last) => decay::next_row(#steps, position, keys.clone(), &before[last * pitch..], own),
                }
            }
        });
    }
    if multiplies_visibility(context.graph, context.pass) {
        code.extend(quote! {
            for r in 0..rows {
                let row = &mut visible_tile[r * pitch..(r + 1) * pitch];
                row.fill(0.0);
                let seen = &visible[block.start + r];
                if !seen.is_empty() {
                    row[seen.start - keys.start..seen.end - keys.start].fill(1.0);
                }
            }
        });
    }
    code
}

/// Outputs that no step writes, and sums that become outputs.
fn ends(context: &Context) -> TokenStream {
    let pass = context.pass;
    let mut code = TokenStream::new();
    for (i, output) in pass.outputs.iter().enumerate() {
        let own = names::output(output);
        match (&context.graph[output.id].op, pass.places.get(&output.id)) {
            (Op::Number(c), _) => {
                let c = context.literal(c);
                code.extend(quote!(#own.fill(#c);));
            }
            (Op::Input(leaf), _) => {
                let source = names::input(leaf);
                code.extend(if is_number(leaf) {
                    quote!(#own.fill(#source);)
                } else {
                    quote!(#own.copy_from_slice(#source);)
                });
            }
            (_, Some(Place::Output(j))) if *j == i => {}
            (_, Some(place)) => {
                let source = names::buffer(pass, *place);
                code.extend(match (Domain::of(context.graph.axes(output.id)), place) {
                    (Domain::Scalar, Place::Buffer(..)) => quote!(#own.fill(#source);),
                    _ => quote!(#own.copy_from_slice(#source);),
                });
            }
            (_, None) => {}
        }
    }
    code
}
