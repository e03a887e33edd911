//! The optimizer's program as tensor operations on tokens `[B, N, d]`.
//!
//! It is emitted as a type of its own, because states are carried through every sublayer: an FFN takes the same step
//! around its own force.

use super::{Subject, layer, numbers};
use crate::check::inputs;
use crate::check::recipe::{Param, ParamValue};
use crate::ir::{Expr, Func, Leaf, Op, Role, Space, traverse};
use crate::kernel::{names, users};
use crate::notation::{Writer, text};
use crate::plan::Unsupported;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use std::collections::HashMap;

/// The state, the optimizer and what it does.
pub fn program(subject: &Subject) -> Result<TokenStream, Unsupported> {
    let program = &subject.recipe.program;
    let terms = terms(subject);
    let learned = learned(subject, &terms);
    let needs_config = terms.iter().any(|term| ["d", "d_h", "H"].iter().any(|size| numbers::mentions(term, size)));
    let config_field = needs_config.then(|| quote!(config: Config,));
    let config_value = needs_config.then(|| quote!(config: *config,));
    let fields = learned.iter().map(|param| layer::learned_field(param));
    let values = learned.iter().map(|param| layer::learned_value(param)).collect::<Result<Vec<_>, _>>()?;
    let inits: Vec<Expr> = learned.iter().filter_map(|param| layer::init(param)).collect();
    let sizes = numbers::sizes(&inits, &quote!(0usize));
    let arguments = match (learned.is_empty(), needs_config || !sizes.is_empty()) {
        (true, false) => quote!(_: &Config, _: VarBuilder),
        (true, true) => quote!(config: &Config, _: VarBuilder),
        (false, false) => quote!(_: &Config, vb: VarBuilder),
        (false, true) => quote!(config: &Config, vb: VarBuilder),
    };
    let states: Vec<Ident> = program.states.iter().map(|state| users::identifier(&state.leaf.name)).collect();
    let docs = program.states.iter().map(|state| {
        let init = text::print(&Writer::default().write(&state.init));
        format!(" {}, `[B, N, d]`; it starts at {init}.", state.leaf.name)
    });
    let start = start(subject)?;
    let step = step(subject)?;
    let trait_and_impl = subject.has_states().then(stateful);
    Ok(quote! {
        /// What the optimizer carries from sublayer to sublayer.
        #[derive(Clone, Debug)]
        pub struct State {
            #(#[doc = #docs] pub #states: Tensor,)*
        }

        /// The optimizer's step, with its learned numbers: around the force of this layer, or of any other sublayer.
        #[derive(Clone, Debug)]
        #[allow(non_snake_case)]
        pub struct Optimizer {
            #config_field
            #(#fields,)*
        }

        impl Optimizer {
            pub fn new(#arguments) -> Result<Optimizer> {
                #sizes
                Ok(Optimizer { #config_value #(#values,)* })
            }
            #start
            #step
        }
        #trait_and_impl
    })
}

fn terms(subject: &Subject) -> Vec<Expr> {
    let program = &subject.recipe.program;
    let inits = program.states.iter().map(|state| &state.init);
    let all = program.gradients.iter().chain(&program.next_states).chain([&program.z]).chain(inits);
    all.map(|term| subject.opened(term)).collect()
}

fn learned<'a>(subject: &Subject<'a>, terms: &[Expr]) -> Vec<&'a Param> {
    let is_used = |param: &Param| terms.iter().any(|term| traverse::mentions(term, &param.leaf));
    let is_learned = |param: &Param| matches!(param.value, ParamValue::Learn { .. });
    subject.recipe.params.iter().filter(|param| is_learned(param) && is_used(param)).collect()
}

fn start(subject: &Subject) -> Result<TokenStream, Unsupported> {
    let mut writer = Tensors::default();
    let mut fields = Vec::new();
    for state in &subject.recipe.program.states {
        let name = users::identifier(&state.leaf.name);
        let init = subject.opened(&state.init);
        let value = match init.is_zero() {
            true => quote!(z.zeros_like()?),
            false => writer.whole(&init)?,
        };
        fields.push(quote!(#name: #value));
    }
    let lines = writer.finish();
    let z = if fields.is_empty() { quote!(_: &Tensor) } else { quote!(z: &Tensor) };
    Ok(quote! {
        /// The states before the first sublayer, for tokens `[B, N, d]`.
        pub fn start(&self, #z) -> Result<State> {
            #lines
            Ok(State { #(#fields),* })
        }
    })
}

fn step(subject: &Subject) -> Result<TokenStream, Unsupported> {
    let program = &subject.recipe.program;
    let mut writer = Tensors::default();
    writer.known.insert(Expr::leaf(inputs::z()), quote!(z));
    for state in &program.states {
        let name = users::identifier(&state.leaf.name);
        writer.known.insert(Expr::leaf(state.leaf.clone()), quote!(state.#name));
    }
    for (i, point) in program.gradients.iter().enumerate() {
        let at = writer.tensor(&subject.opened(point))?;
        let gradient = format_ident!("gradient_{}", i + 1);
        let at = if at.to_string() == "z" { quote!(z) } else { quote!(&#at) };
        writer.lines.push(quote!(let #gradient = force(#at)?.neg()?;));
        writer.known.insert(Expr::leaf(inputs::gradient(i)), quote!(#gradient));
    }
    let mut fields = Vec::new();
    for (state, next) in program.states.iter().zip(&program.next_states) {
        let (name, next) = (users::identifier(&state.leaf.name), writer.whole(&subject.opened(next))?);
        fields.push(quote!(#name: #next));
    }
    let moved = writer.whole(&subject.opened(&program.z))?;
    let lines = writer.finish();
    let state = if program.states.is_empty() { quote!(_) } else { quote!(state) };
    let force = if program.gradients.is_empty() { quote!(_) } else { quote!(mut force) };
    Ok(quote! {
        /// The token after a step, and the states after it; `force` gives −∇F at a point.
        pub fn step(
            &self,
            z: &Tensor,
            #state: &State,
            #force: impl FnMut(&Tensor) -> Result<Tensor>,
        ) -> Result<(Tensor, State)> {
            #lines
            Ok((#moved, State { #(#fields),* }))
        }
    })
}

fn stateful() -> TokenStream {
    quote! {
        /// A layer that carries states through the network beside the tokens.
        pub trait Stateful {
            type State;
            /// The states before the first sublayer.
            fn start(&self, z: &Tensor) -> Result<Self::State>;
            /// The tokens themselves after the layer, not what it adds, and the states after it.
            fn step(&self, z: &Tensor, state: &Self::State, context: &Context) -> Result<(Tensor, Self::State)>;
        }

        impl Stateful for Layer {
            type State = State;
            fn start(&self, z: &Tensor) -> Result<State> {
                self.optimizer.start(z)
            }
            fn step(&self, z: &Tensor, state: &State, context: &Context) -> Result<(Tensor, State)> {
                self.step_with(z, state, context, |y| Ok(y.clone()))
            }
        }
    }
}

/// Terms as tensors of rank 3, every term once.
#[derive(Default)]
pub struct Tensors {
    known: HashMap<Expr, TokenStream>,
    lines: Vec<TokenStream>,
    numbers: Vec<Expr>,
}

impl Tensors {
    /// The lines so far, with the sizes they mention in front.
    pub fn finish(self) -> TokenStream {
        let is_used = ["d", "d_h", "H"].iter().any(|size| self.numbers.iter().any(|e| numbers::mentions(e, size)));
        let config = is_used.then(|| quote!(let config = &self.config;));
        let sizes = numbers::sizes(&self.numbers, &quote!(z.dim(1)?));
        let lines = self.lines;
        quote!(#config #sizes #(#lines)*)
    }

    fn number(&mut self, e: &Expr) -> Result<TokenStream, Unsupported> {
        self.numbers.push(e.clone());
        numbers::arithmetic(e)
    }

    /// The variable of a term.
    pub fn tensor(&mut self, e: &Expr) -> Result<TokenStream, Unsupported> {
        if let Some(known) = self.known.get(e) {
            return Ok(known.clone());
        }
        let value = self.value(e)?;
        let name = format_ident!("x{}", self.lines.len());
        self.lines.push(quote!(let #name = #value;));
        self.known.insert(e.clone(), quote!(#name));
        Ok(quote!(#name))
    }

    /// The tensor of a term along all axes of a token.
    fn whole(&mut self, e: &Expr) -> Result<TokenStream, Unsupported> {
        let x = self.tensor(e)?;
        let is_whole = inputs::z().axes.iter().all(|axis| e.has_axis(*axis));
        Ok(if is_whole { quote!(#x.clone()) } else { quote!(#x.broadcast_as(z.shape())?) })
    }

    fn value(&mut self, e: &Expr) -> Result<TokenStream, Unsupported> {
        if numbers::is_number(e) {
            let value = self.number(e)?;
            return Ok(quote!(tensor::number(#value, z)?));
        }
        Ok(match e.op() {
            Op::Leaf(leaf) => parameter(leaf)?,
            Op::Add(xs) => self.chain(xs, true)?,
            Op::Mul(xs) => self.chain(xs, false)?,
            Op::Pow(x, r) => {
                let (x, r) = (self.tensor(x)?, numbers::literal(r));
                quote!(tensor::power(&#x, #r)?)
            }
            Op::Call(func, x) => {
                let x = self.tensor(x)?;
                match func {
                    Func::Exp => quote!(#x.exp()?),
                    Func::Log => quote!(#x.log()?),
                    Func::Abs => quote!(tensor::absolute(&#x)?),
                    Func::Sign => quote!(#x.sign()?),
                    smooth => {
                        let function = names::primitive(*smooth);
                        quote!(primitives::curve::#function(&#x)?)
                    }
                }
            }
            Op::Select(parts) => {
                let parts = parts.iter().map(|x| self.tensor(x)).collect::<Result<Vec<_>, _>>()?;
                quote!(tensor::select(#(&#parts),*)?)
            }
            Op::Sum(axis, x) if axis.space == Space::Model => {
                let x = traverse::rename(x, *axis, inputs::z().axes[1]);
                if x.axes().iter().filter(|axis| axis.space == Space::Model).count() > 1 {
                    return Err(Unsupported::formula("its optimizer multiplies by a matrix".to_string()));
                }
                let x = self.tensor(&x)?;
                quote!(#x.broadcast_as(z.shape())?.sum_keepdim(2)?)
            }
            _ => return Err(Unsupported::formula("its optimizer does more than a layer can with a token".to_string())),
        })
    }

    /// A sum or a product: tensors first, numbers behind.
    fn chain(&mut self, xs: &[Expr], is_sum: bool) -> Result<TokenStream, Unsupported> {
        let (numbers, tensors): (Vec<Expr>, Vec<Expr>) = xs.iter().cloned().partition(numbers::is_number);
        let mut value: Option<TokenStream> = None;
        for x in &tensors {
            // −x is subtracted, not added.
            let (c, rest) = x.split_coefficient();
            let is_negative = is_sum && value.is_some() && c == crate::ir::rational::int(-1);
            let y = self.tensor(if is_negative { &rest } else { x })?;
            value = Some(match (value, is_sum, is_negative) {
                (None, ..) => y,
                (Some(value), true, false) => quote!(#value.broadcast_add(&#y)?),
                (Some(value), true, true) => quote!(#value.broadcast_sub(&#y)?),
                (Some(value), false, _) => quote!(#value.broadcast_mul(&#y)?),
            });
        }
        let value = value.unwrap_or_default();
        if numbers.is_empty() {
            return Ok(value);
        }
        let number = if is_sum { Expr::add(numbers) } else { Expr::mul(numbers) };
        if number == Expr::int(-1) && !is_sum {
            return Ok(quote!(#value.neg()?));
        }
        let number = self.number(&number)?;
        Ok(if is_sum { quote!(#value.affine(1.0, #number)?) } else { quote!(#value.affine(#number, 0.0)?) })
    }
}

/// A learned number, along no axis.
fn parameter(leaf: &Leaf) -> Result<TokenStream, Unsupported> {
    let name = names::input(leaf);
    match leaf.role {
        Role::Param => Ok(quote!(self.#name.reshape((1, 1, 1))?)),
        _ => Err(Unsupported::formula(format!("its optimizer looks at {}", leaf.name))),
    }
}
