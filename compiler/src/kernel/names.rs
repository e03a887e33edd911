//! What things are called in an emitted kernel, and the types it begins with.
//!
//! Names of the recipe go through [`super::users`]. Variables inside of a head begin with what they are (`param_`, `out_`,
//! `decay_of_`), and end with a name of the recipe, so none is another's.

use super::users::identifier_apart;
use super::{steps, triple};
use crate::check::recipe::ParamValue;
use crate::derive::Derivation;
use crate::ir::{Axis, Func, Leaf, Role, Space};
use crate::plan::graph::{Graph, Id, Op};
use crate::plan::schedule::{Cotangent, Domain, Output, Pass, Place, Step, reachable};
use crate::plan::{Passes, Plan, Precision};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use std::collections::BTreeSet;

/// The numbers of a precision.
pub fn number(precision: Precision) -> TokenStream {
    match precision {
        Precision::Single => quote!(f32),
        Precision::Double => quote!(f64),
    }
}

/// The variable of a value.
pub fn value(id: Id) -> Ident {
    format_ident!("x{}", id.0)
}

/// The field of the inputs that is no input of the recipe.
const DROPOUT: &str = "dropout";

/// The field of an input or of its gradient.
pub fn field(name: &str) -> Ident {
    identifier_apart(name, |name| name == DROPOUT)
}

/// The field that holds an input.
pub fn input_field(leaf: &Leaf) -> Ident {
    match leaf.role {
        Role::Query | Role::Key => field(leaf.name.trim_end_matches('₀')),
        Role::Probe if leaf.axes.contains(&Axis::E) => cotangent(Cotangent::OfDirection),
        Role::Probe => cotangent(Cotangent::OfEnergy),
        _ => field(&leaf.name),
    }
}

/// The variable of a cotangent.
pub fn cotangent(of: Cotangent) -> Ident {
    match of {
        Cotangent::OfDirection => format_ident!("grad_out"),
        Cotangent::OfEnergy => format_ident!("grad_energy"),
    }
}

/// The structure of the gradients that start from a cotangent.
pub fn gradients_type(of: Cotangent) -> Ident {
    match of {
        Cotangent::OfDirection => format_ident!("Gradients"),
        Cotangent::OfEnergy => format_ident!("EnergyGradients"),
    }
}

/// The variable of an input inside of a head.
pub fn input(leaf: &Leaf) -> Ident {
    match leaf.role {
        Role::Param | Role::Gate | Role::Decay => format_ident!("param_{}", input_field(leaf)),
        Role::Size => format_ident!("size_{}", &*leaf.name),
        _ => input_field(leaf),
    }
}

/// Whether a pass looks at what dropout leaves.
pub fn reads_kept(graph: &Graph, pass: &Pass) -> bool {
    let steps = pass.before.iter().chain(&pass.rows).chain(&pass.after);
    let is_kept = |id: &Id| matches!(&graph[*id].op, Op::Input(leaf) if leaf.role == Role::Kept);
    steps.flat_map(|step| read_by(graph, step)).any(|id| is_kept(&id))
}

/// The tile of a decay.
pub fn decay_tile(leaf: &Leaf) -> Ident {
    format_ident!("decay_of_{}", input_field(leaf))
}

/// The variable of an output inside of a head.
pub fn output(output: &Output) -> Ident {
    format_ident!("out_{}", field(&output.name))
}

/// The buffer of a place.
pub fn buffer(pass: &Pass, place: Place) -> Ident {
    match place {
        Place::Buffer(domain, i) => format_ident!("{}_{i}", kind(domain)),
        Place::Output(i) => output(&pass.outputs[i]),
        Place::Saved(i) => saved(pass.saved[i]),
    }
}

/// The variable and the field of a saved value.
pub fn saved(id: Id) -> Ident {
    format_ident!("saved_{}", id.0)
}

fn kind(domain: Domain) -> &'static str {
    match domain {
        Domain::Scalar => "number",
        Domain::Vector => "vector",
        Domain::Key => "token",
        Domain::KeyVector => "token_vectors",
        Domain::Row => "row",
        Domain::RowVector => "row_vectors",
        Domain::Tile | Domain::Triple => "tile",
    }
}

/// The entries of a head's share of a value, in terms of `size`.
pub fn share(domain: Domain) -> TokenStream {
    match domain {
        Domain::Scalar => quote!(1),
        Domain::Vector => quote!(size.head),
        Domain::Key => quote!(size.tokens),
        Domain::KeyVector => quote!(size.tokens * size.head),
        Domain::Row => quote!(size.queries),
        Domain::RowVector => quote!(size.queries * size.head),
        Domain::Tile | Domain::Triple => quote!(size.queries * size.tokens),
    }
}

/// How a domain's array is laid out, for documentation.
fn layout(domain: Domain) -> &'static str {
    match domain {
        Domain::Scalar => "`[B, H]`",
        Domain::Vector => "`[B, H, d_h]`",
        Domain::Key => "`[B, H, tokens]`",
        Domain::KeyVector => "`[B, H, tokens, d_h]`",
        Domain::Row => "`[B, H, queries]`",
        Domain::RowVector | Domain::Triple | Domain::Tile => "`[B, H, queries, d_h]`",
    }
}

/// The inputs a pass reads.
pub fn inputs_of(graph: &Graph, pass: &Pass) -> Vec<Leaf> {
    let steps = pass.before.iter().chain(&pass.rows).chain(&pass.after);
    let mut ids: Vec<Id> =
        steps.flat_map(|step| read_by(graph, step)).chain(pass.outputs.iter().map(|o| o.id)).collect();
    ids.sort();
    ids.dedup();
    ids.iter()
        .filter_map(|id| match &graph[*id].op {
            Op::Input(leaf) if !matches!(leaf.role, Role::Visible | Role::Kept) => Some(leaf.clone()),
            _ => None,
        })
        .collect()
}

/// What a step reads.
fn read_by(graph: &Graph, step: &Step) -> Vec<Id> {
    match step {
        Step::Node(id) => closure(graph, *id),
        Step::Loop(l) => l.maps.iter().chain(&l.folds).flat_map(|&x| graph[x].op.operands()).collect(),
    }
}

/// Operands, and behind maps theirs.
fn closure(graph: &Graph, id: Id) -> Vec<Id> {
    let mut found = BTreeSet::new();
    let mut open = graph[id].op.operands();
    while let Some(o) = open.pop() {
        if found.insert(o) && matches!(graph[o].op, Op::Map(..)) {
            open.extend(graph[o].op.operands());
        }
    }
    found.into_iter().collect()
}

/// The passes of a kernel.
pub fn passes(plan: &Plan) -> impl Iterator<Item = &Pass> {
    [&plan.tiles].into_iter().chain(&plan.scans).flat_map(Passes::of_kernel)
}

/// All inputs of the public structure: tensors first, then parameters, each once.
pub fn public_inputs(plan: &Plan) -> Vec<Leaf> {
    let mut leaves: Vec<Leaf> = Vec::new();
    for pass in passes(plan) {
        for leaf in inputs_of(&plan.graph, pass) {
            let is_public = !matches!(leaf.role, Role::Probe | Role::Size);
            if is_public && !leaves.iter().any(|known| known.same_input(&leaf)) {
                leaves.push(leaf);
            }
        }
    }
    let place = |leaf: &Leaf| match leaf.role {
        Role::Query => 0,
        Role::Key => 1,
        Role::Value => 2,
        _ => 3,
    };
    leaves.sort_by_key(|leaf| (place(leaf), leaf.role, leaf.ordinal));
    leaves
}

/// How an input's array is laid out.
fn input_layout(leaf: &Leaf) -> &'static str {
    match leaf.role {
        Role::Gate if leaf.axes.contains(&Axis::T) => "`[B, H, queries]`",
        Role::Gate => "`[B, H, tokens]`",
        Role::Decay => "the factor per step, `[B, H, tokens]`",
        Role::Param if leaf.axes.contains(&Axis::E) => "a vector per head, `[H, d_h]`",
        Role::Param => "one number per head, `[H]`",
        _ if leaf.axes.iter().any(|a| a.space == Space::Token) => "`[B, H, tokens, d_h]`",
        _ => "`[B, H, queries, d_h]`",
    }
}

/// The gradients of a pass, what is public of its outputs: field, name of the input, layout.
pub fn gradient_fields(pass: &Pass) -> Vec<(Ident, String, Domain)> {
    pass.outputs.iter().map(|o| (field(&o.name), o.name.clone(), o.domain)).collect()
}

/// The values that some forward pass saves, but for the direction, which is its output.
fn saved_values(plan: &Plan) -> Vec<Id> {
    let scans = plan.scans.iter().flat_map(|s| &s.forward.saved);
    let mut ids: Vec<Id> = plan.tiles.forward.saved.iter().chain(scans).copied().collect();
    ids.sort();
    ids.dedup();
    ids
}

/// The structures of a kernel: inputs, saved values, gradients.
pub fn types(plan: &Plan, derivation: &Derivation) -> TokenStream {
    let inputs = public_inputs(plan);
    let fields = inputs.iter().map(|leaf| {
        let name = input_field(leaf);
        let starts = derivation.recipe.param(&leaf.name).map(|param| match &param.value {
            ParamValue::Fixed(_) => "; not learned",
            ParamValue::Learn { .. } => "; learned",
            _ => "",
        });
        let meant = derivation.recipe.param(&leaf.name).filter(|param| name != param.name);
        let meant = meant.map_or(String::new(), |param| format!("`{}` of the recipe: ", param.name));
        let doc = format!(" {meant}{}{}", input_layout(leaf), starts.unwrap_or(""));
        quote! { #[doc = #doc] pub #name: &'a [f32] }
    });
    let number = number(plan.single.widest());
    let saved_fields = saved_values(plan).into_iter().map(|id| {
        let id = &id;
        let (name, doc) = (saved(*id), format!(" {}", layout(Domain::of(plan.graph.axes(*id)))));
        quote! { #[doc = #doc] pub #name: Vec<#number> }
    });
    let of_direction = gradients(&plan.tiles.backward, Cotangent::OfDirection);
    let of_energy = gradients(&plan.tiles.energy_backward, Cotangent::OfEnergy);
    // An energy that is the same whatever the tokens are looks at nothing.
    let lifetime = (!public_inputs(plan).is_empty()).then(|| quote!(<'a>));
    quote! {
        /// What a head sees: every array is dense and row-major.
        #[derive(Clone, Copy, Debug)]
        #[allow(non_snake_case)]
        pub struct Inputs #lifetime {
            #(#fields,)*
            /// Attention dropout; the backward pass needs the same as the forward pass.
            pub dropout: Option<Dropout>,
        }

        /// What the forward pass leaves for the backward ones; nothing in it is larger than the output.
        #[derive(Clone, Debug, Default)]
        pub struct Saved { #(#saved_fields),* }

        #of_direction
        #of_energy
    }
}

fn gradients(pass: &Pass, of: Cotangent) -> TokenStream {
    let structure = gradients_type(of);
    let doc = match of {
        Cotangent::OfDirection => " The gradients of tokens, learned parameters and gates.",
        Cotangent::OfEnergy => " The gradients of what the energy depends on, from that of the energy.",
    };
    let fields = gradient_fields(pass);
    let (names, domains): (Vec<&Ident>, Vec<Domain>) = fields.iter().map(|(field, _, d)| (field, *d)).unzip();
    let docs = domains.iter().map(|d| format!(" {}", layout(*d)));
    let lengths = domains.iter().map(|d| share(*d));
    quote! {
        #[doc = #doc]
        #[derive(Clone, Debug, Default)]
        #[allow(non_snake_case)]
        pub struct #structure { #(#[doc = #docs] pub #names: Vec<f32>),* }

        impl #structure {
            /// Room for the gradients of a kernel of this size.
            pub fn new(size: &Size) -> #structure {
                let heads = size.all_heads();
                #structure { #(#names: vec![0.0; heads * #lengths]),* }
            }
        }
    }
}

/// The primitive that computes a function, of a number and of lanes.
pub fn primitive(func: Func) -> Ident {
    let name = match func {
        Func::Exp => "exponential",
        Func::Log => "logarithm",
        Func::Abs => "absolute",
        Func::Sign => "signum0",
        Func::Sigmoid => "sigmoid",
        Func::Softplus => "softplus",
        Func::Tanh => "tangent",
        Func::TanhSlope => "tangent_slope",
        Func::LogCosh => "log_cosh",
    };
    format_ident!("{name}")
}

/// The values a pass looks at.
fn computed_by(plan: &Plan, pass: &Pass) -> BTreeSet<Id> {
    let roots = pass.outputs.iter().map(|o| o.id).chain(pass.saved.iter().copied()).collect();
    reachable(&plan.graph, &roots, &BTreeSet::new())
}

/// The primitives a plan calls, in the order of the file.
pub fn primitives_of(plan: &Plan) -> Vec<&'static str> {
    let ids: BTreeSet<Id> = passes(plan).flat_map(|pass| computed_by(plan, pass)).collect();
    let ops = || ids.iter().map(|id| &plan.graph[*id].op);
    let mut used = vec!["functions", "smooth", "real", "double", "lanes", "blocks", "product"];
    if ops().any(|op| matches!(op, Op::Threshold(..))) {
        used.push("threshold");
    }
    if ops().any(|op| matches!(op, Op::Solve { .. })) {
        used.push("solve");
    }
    if plan.graph.has_decay() {
        used.push("decay");
    }
    if plan.scans.is_some() {
        used.push("scan");
    }
    if ops().any(|op| matches!(op, Op::ScanSteps { .. })) {
        used.push("steps");
    }
    if passes(plan).any(|pass| !triple::in_panels(&plan.graph, pass).is_empty()) {
        used.push("panels");
    }
    if passes(plan).any(|pass| !steps::in_columns(&plan.graph, pass).is_empty()) {
        used.push("columns");
    }
    used.extend(["dropout", "visible"]);
    used
}

/// What the kernel uses of them.
pub fn imports(plan: &Plan) -> TokenStream {
    let used = primitives_of(plan);
    let modules = ["threshold", "solve", "decay", "panels", "columns"]
        .into_iter()
        .filter(|m| used.contains(m))
        .map(|m| format_ident!("{m}"));
    let nodes = || plan.graph.nodes.iter().map(|node| &node.op);
    let calls_product =
        nodes().any(|op| matches!(op, Op::Dot { .. } | Op::Apply { .. } | Op::Gather { .. } | Op::Solve { .. }));
    let product = match (calls_product, nodes().any(|op| matches!(op, Op::Distance { .. }))) {
        (true, true) => quote! { use primitives::product::{Strides, distances, multiply}; },
        (true, false) => quote! { use primitives::product::{Strides, multiply}; },
        (false, true) => quote! { use primitives::product::distances; },
        (false, false) => quote! {},
    };
    let scan = plan.scans.as_ref().map(|_| {
        quote!(
            use primitives::scan::{Course, Scan};
        )
    });
    quote! {
        #scan
        pub use primitives::blocks::Size;
        pub use primitives::dropout::Dropout;
        pub use primitives::visible::Visible;
        #(use primitives::#modules;)*
        #[allow(unused_imports)]
        use primitives::blocks::{With, aligned, both, convert, converted, groups, in_parallel, is_within, largest_block, next_block, part, parts, seen_by, shared, take};
        use primitives::lanes::{self, MOST_LANES};
        #product
        #[allow(unused_imports)]
        use primitives::real::Real;
        use std::ops::Range;
    }
}
