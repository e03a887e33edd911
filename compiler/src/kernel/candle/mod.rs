//! The `candle` target: the kernel as a layer to train.
//!
//! A file holds, one after the other, the kernel over slices as the `cpu` target has it, an operation of candle's around
//! it with its gradients ([`op`]), the same formula by tensor operations for other devices ([`tensors`]), the optimizer's
//! program ([`program`]) and the layer with its weights ([`layer`]). What is the same in every layer is text that is
//! pasted behind, `pasted/*.rs`.

mod layer;
mod numbers;
mod op;
mod program;
mod tensors;

use super::names;
use crate::check::recipe::{Param, ParamValue, Recipe, WriteBack};
use crate::derive::Derivation;
use crate::ir::{Expr, Leaf, Role, traverse};
use crate::plan::{Plan, Unsupported};
use proc_macro2::TokenStream;
use quote::quote;

/// The crates an emitted layer needs besides those of its kernel.
pub const DEPENDENCIES: &str = "candle-core = \"0.11\"\ncandle-nn = \"0.11\"\n";

/// What the layers of all recipes have in common.
pub const PASTED: [(&str, &str); 6] = [
    ("heads", include_str!("../../primitives/heads.rs")),
    ("config", include_str!("pasted/config.rs")),
    ("matrix", include_str!("pasted/matrix.rs")),
    ("gate", include_str!("pasted/gate.rs")),
    ("tensor", include_str!("pasted/tensor.rs")),
    ("curve", include_str!("pasted/curve.rs")),
];

/// What the parts of a layer look at.
struct Subject<'a> {
    plan: &'a Plan,
    derivation: &'a Derivation,
    recipe: &'a Recipe,
    /// The inputs of the kernel that are made from attended tokens: k, v.
    tokens: Vec<Leaf>,
    /// Whether the kernel reads q.
    reads_query: bool,
    /// Its parameters, numbers before vectors, its gates and decays of attended tokens, and its gates of queries, in the
    /// order the operation takes them.
    params: Vec<&'a Param>,
    gates: Vec<&'a Param>,
    query_gates: Vec<&'a Param>,
}

impl<'a> Subject<'a> {
    fn new(plan: &'a Plan, derivation: &'a Derivation) -> Result<Subject<'a>, Unsupported> {
        let recipe = &derivation.recipe;
        let inputs = names::public_inputs(plan);
        let given = |roles: &[Role]| -> Vec<&'a Param> {
            let wanted = inputs.iter().filter(|leaf| roles.contains(&leaf.role));
            wanted.filter_map(|leaf| recipe.param(&leaf.name)).collect()
        };
        let (numbers, vectors): (Vec<&Param>, Vec<&Param>) =
            given(&[Role::Param]).into_iter().partition(|param| param.leaf.axes.is_empty());
        let (query_gates, gates): (Vec<&Param>, Vec<&Param>) =
            given(&[Role::Gate, Role::Decay]).into_iter().partition(|param| param.value.is_of_query());
        let tokens: Vec<Leaf> =
            inputs.iter().filter(|leaf| matches!(leaf.role, Role::Key | Role::Value)).cloned().collect();
        if tokens.is_empty() {
            return Err(Unsupported::formula("it looks at no attended token".to_string()));
        }
        if plan.tiles.backward.outputs.is_empty() {
            return Err(Unsupported::formula("its direction depends on nothing a layer learns".to_string()));
        }
        Ok(Subject {
            plan,
            derivation,
            recipe,
            reads_query: inputs.iter().any(|leaf| leaf.role == Role::Query),
            params: [numbers, vectors].concat(),
            gates,
            query_gates,
            tokens,
        })
    }

    /// Whether the layer has a W1.
    fn has_w1(&self) -> bool {
        self.reads_query || self.recipe.write_back != WriteBack::Free
    }
    fn has_w2(&self) -> bool {
        self.tokens.iter().any(|leaf| leaf.role == Role::Key)
    }
    fn has_wv(&self) -> bool {
        self.tokens.iter().any(|leaf| leaf.role == Role::Value) || self.recipe.write_back == WriteBack::FreePinv
    }
    fn has_wo(&self) -> bool {
        matches!(self.recipe.write_back, WriteBack::Free | WriteBack::FreePinv)
    }

    /// All gates there are.
    fn all_gates(&self) -> impl Iterator<Item = &'a Param> + '_ {
        self.gates.iter().chain(&self.query_gates).copied()
    }

    /// Everything but vectors of queries and tokens, in the order the operation takes it.
    fn numbers(&self) -> impl Iterator<Item = &'a Param> + '_ {
        self.params.iter().copied().chain(self.all_gates())
    }

    /// The parameters of the kernel that are learned.
    fn learned(&self) -> impl Iterator<Item = &'a Param> + '_ {
        self.params.iter().copied().filter(|param| matches!(param.value, ParamValue::Learn { .. }))
    }

    /// η with the fixed parameters put in, where the step is z − η∇F(z) and no free matrix stands for it.
    fn step_size(&self) -> Option<Expr> {
        let size = self.derivation.update.step_size.as_ref().filter(|_| !self.has_wo())?;
        Some(self.opened(size)).filter(|size| !size.is_one())
    }

    /// The learned numbers of the layer itself: those of its kernel and of a plain step.
    fn own_numbers(&self) -> Vec<&'a Param> {
        let size = self.step_size();
        let is_in_kernel = |param: &Param| self.params.iter().any(|own| own.name == param.name);
        let is_in_step = |param: &Param| size.as_ref().is_some_and(|size| traverse::mentions(size, &param.leaf));
        let is_learned = |param: &Param| matches!(param.value, ParamValue::Learn { .. });
        let all = self.recipe.params.iter();
        all.filter(|param| is_learned(param) && (is_in_kernel(param) || is_in_step(param))).collect()
    }

    /// A term with the fixed parameters put in.
    fn opened(&self, e: &Expr) -> Expr {
        traverse::substitute_leaves(e, &mut |leaf: &Leaf| {
            let param = self.recipe.params.iter().find(|param| param.leaf.same_input(leaf))?;
            match &param.value {
                ParamValue::Fixed(value) => Some(value.clone()),
                _ => None,
            }
        })
    }

    /// Whether the step is more than z − η∇F(z).
    fn has_program(&self) -> bool {
        self.derivation.update.step_size.is_none()
    }
    fn has_states(&self) -> bool {
        !self.recipe.program.states.is_empty()
    }
}

/// Everything of the layer that depends on the recipe.
pub fn layer(plan: &Plan, derivation: &Derivation) -> Result<TokenStream, Unsupported> {
    let subject = Subject::new(plan, derivation)?;
    let hash = super::hash::recipe_hash(&derivation.recipe);
    let imports = layer::imports(&subject);
    let layer = layer::layer(&subject)?;
    let program = subject.has_program().then(|| program::program(&subject)).transpose()?;
    let module = layer::module(&subject);
    let op = op::op(&subject);
    let tensors = tensors::direction(&subject)?;
    Ok(quote! {
        #imports

        /// A name for what this layer computes: the same for all recipes that mean the same.
        pub const RECIPE_HASH: &str = #hash;
        #layer
        #module
        #program
        #op
        #tensors
    })
}

/// The modules of the layer that are the same for all recipes, as far as this one needs them.
pub fn pasted(plan: &Plan, derivation: &Derivation) -> Vec<&'static str> {
    let has_gates = Subject::new(plan, derivation).is_ok_and(|subject| subject.all_gates().next().is_some());
    PASTED.iter().map(|(name, _)| *name).filter(|name| *name != "gate" || has_gates).collect()
}
