//! The layer: its weights, and how a head's direction moves the token.
//!
//! A force is −∇F, written back to the token: Σ_h M o_h with M = W_O where it is free, and (1/H) Σ_h M o_h with M = W1ᵀ,
//! W1⁺ or the like where it is not. A step z − η∇F adds η times the force; a free W_O stands for η as well.

use super::program::Tensors;
use super::{Subject, numbers};
use crate::check::recipe::{Each, Param, ParamValue, Tokens, WriteBack};
use crate::ir::{Expr, Role};
use crate::kernel::{names, users};
use crate::plan::Unsupported;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

/// What a decay's bias starts at: σ(4) ≈ 0.98, so that a layer begins with a long memory.
const DECAY_BIAS: f64 = 4.0;

pub fn layer(subject: &Subject) -> Result<TokenStream, Unsupported> {
    let weights = weights(subject);
    let (names, docs): (Vec<Ident>, Vec<String>) =
        weights.iter().map(|(name, doc)| (format_ident!("{name}"), doc.clone())).unzip();
    let keys: Vec<&&str> = weights.iter().map(|(name, _)| name).collect();
    let own = subject.own_numbers();
    let learned: Vec<TokenStream> = own.iter().map(|param| learned_field(param)).collect();
    let values = own.iter().map(|param| learned_value(param)).collect::<Result<Vec<_>, _>>()?;
    let inits: Vec<Expr> = own.iter().filter_map(|param| init(param)).collect();
    let sizes = numbers::sizes(&inits, &quote!(0usize));
    let (gates, gate_values): (Vec<TokenStream>, Vec<TokenStream>) = subject.all_gates().map(gate).unzip();
    let optimizer = subject.has_program().then(|| quote!(optimizer: Optimizer,));
    let optimizer_value = subject.has_program().then(|| quote!(optimizer: Optimizer::new(config, vb.clone())?,));
    let shape = names.iter().map(|_| quote!((d, d)));
    let direction = direction(subject)?;
    let forces = forces(subject);
    let moves = moves(subject)?;
    Ok(quote! {
        /// The layer. Its projections start as those of candle's linear layers do (Kaiming's normal distribution), its
        /// learned numbers at the values of the recipe.
        #[derive(Clone, Debug)]
        #[allow(non_snake_case)]
        pub struct Layer {
            config: Config,
            mask: Mask,
            /// Whether tensor operations take the place of the kernel on the CPU too.
            tensor_ops: bool,
            #(#[doc = #docs] #names: Tensor,)*
            #(#learned,)*
            #(#gates,)*
            #optimizer
        }

        impl Layer {
            /// A causal layer with the weights of a `VarBuilder`.
            pub fn new(config: &Config, vb: VarBuilder) -> Result<Layer> {
                config.check()?;
                let d = config.d_model;
                let normal = candle_nn::init::DEFAULT_KAIMING_NORMAL;
                #sizes
                Ok(Layer {
                    config: *config,
                    mask: Mask::Causal,
                    tensor_ops: false,
                    #(#names: vb.get_with_hints(#shape, #keys, normal)?,)*
                    #(#values,)*
                    #(#gate_values,)*
                    #optimizer_value
                })
            }

            /// The same layer with another mask.
            pub fn with_mask(mut self, mask: Mask) -> Layer {
                self.mask = mask;
                self
            }

            /// The same layer by tensor operations on every device, as it runs where there is no kernel.
            pub fn with_tensor_ops(mut self) -> Layer {
                self.tensor_ops = true;
                self
            }

            pub fn config(&self) -> &Config {
                &self.config
            }

            /// −∇F of all heads, written back to the tokens `[B, N, d]`, which attend to each other.
            pub fn force(&self, z: &Tensor, context: &Context) -> Result<Tensor> {
                self.forces(z, context)?.at(z)
            }

            /// [`Layer::force`] by tensor operations alone.
            pub fn force_with_tensor_ops(&self, z: &Tensor, context: &Context) -> Result<Tensor> {
                self.clone().with_tensor_ops().force(z, context)
            }
            #moves
            #direction
        }
        #forces
    })
}

/// What the layer uses of other crates and of the pasted modules.
pub fn imports(subject: &Subject) -> TokenStream {
    let gate = subject.all_gates().next().map(|_| {
        quote!(
            use primitives::gate::Gate;
        )
    });
    let matrix = match subject.recipe.write_back {
        WriteBack::Free | WriteBack::Transpose => quote!(
            use primitives::matrix::{floats, project};
        ),
        WriteBack::Pinv | WriteBack::FreePinv => quote!(
            use primitives::matrix::{floats, project, pseudo_inverse};
        ),
    };
    quote! {
        pub use primitives::config::{Config, Context, Mask};
        use candle_core::{CpuStorage, CustomOp3, Device, Layout, Result, Shape, Storage, Tensor, bail};
        use candle_nn::VarBuilder;
        #gate
        use primitives::heads::{Lengths, merge, split};
        #matrix
        use primitives::tensor;
        use std::sync::{Arc, OnceLock};
    }
}

/// The projections: name and meaning.
const PROJECTIONS: [(&str, &str); 4] = [
    ("w1", " q = W₁ z, `[H·d_h, d]`."),
    ("w2", " k = W₂ h, `[H·d_h, d]`."),
    ("wv", " v = W_V h, `[H·d_h, d]`."),
    ("wo", " W_O of all heads side by side, `[d, H·d_h]`."),
];

/// Those the layer has.
fn weights(subject: &Subject) -> Vec<(&'static str, String)> {
    let has = [subject.has_w1(), subject.has_w2(), subject.has_wv(), subject.has_wo()];
    PROJECTIONS.iter().zip(has).filter(|(_, has)| *has).map(|((name, doc), _)| (*name, doc.to_string())).collect()
}

/// What a learned number is called among the weights.
fn weight(param: &Param) -> String {
    users::apart(&param.name, |name| PROJECTIONS.iter().any(|(projection, _)| *projection == name))
}

/// A learned number as a field.
pub fn learned_field(param: &Param) -> TokenStream {
    let name = names::input(&param.leaf);
    let shape = match each(param) {
        Each { head: false, component: false } => "one number, `[1]`",
        Each { head: true, component: false } => "one number per head, `[H]`",
        Each { head: false, component: true } => "a vector for all heads, `[d_h]`",
        Each { head: true, component: true } => "a vector per head, `[H, d_h]`",
    };
    let doc = format!(" Learned {}: {shape}.", param.name);
    quote!(#[doc = #doc] #name: Tensor)
}

fn each(param: &Param) -> Each {
    match param.value {
        ParamValue::Learn { each, .. } => each,
        _ => Each::default(),
    }
}

/// What a learned number starts at.
pub fn init(param: &Param) -> Option<Expr> {
    match &param.value {
        ParamValue::Learn { init, .. } => Some(init.clone()),
        _ => None,
    }
}

/// A learned number from the `VarBuilder`.
pub fn learned_value(param: &Param) -> Result<TokenStream, Unsupported> {
    let name = names::input(&param.leaf);
    let (key, init) = (weight(param), init(param).unwrap_or_else(Expr::one));
    if numbers::mentions(&init, "N") {
        let message = format!("`{key}` starts at a number that depends on N, which a layer learns to know too late");
        return Err(Unsupported::formula(message));
    }
    let value = numbers::arithmetic(&init)?;
    let shape = match each(param) {
        Each { head: false, component: false } => quote!(1),
        Each { head: true, component: false } => quote!(config.heads),
        Each { head: false, component: true } => quote!(config.head()),
        Each { head: true, component: true } => quote!((config.heads, config.head())),
    };
    Ok(quote!(#name: vb.get_with_hints(#shape, #key, candle_nn::Init::Const(#value))?))
}

fn gate(param: &Param) -> (TokenStream, TokenStream) {
    let name = gate_name(param);
    let (key, bias) = (name.to_string(), if param.leaf.role == Role::Decay { DECAY_BIAS } else { 0.0 });
    let bias = numbers::float(bias);
    let doc = match param.leaf.role {
        Role::Decay => format!(" {}: the factor per step, from the token that comes in.", param.name),
        _ if param.value.is_of_query() => format!(" {}: one number per query, from its own token.", param.name),
        _ => format!(" {}: one number per attended token.", param.name),
    };
    (quote!(#[doc = #doc] #name: Gate), quote!(#name: Gate::new(config, #bias, vb.pp(#key))?))
}

fn gate_name(param: &Param) -> Ident {
    format_ident!("gate_{}", users::identifier(&param.name))
}

/// What is made from the attended tokens, and the direction.
fn direction(subject: &Subject) -> Result<TokenStream, Unsupported> {
    let of_token = |role: Role| if role == Role::Key { quote!(&self.w2) } else { quote!(&self.wv) };
    let projections: Vec<TokenStream> = subject.tokens.iter().map(|leaf| of_token(leaf.role)).collect();
    let weight = match projections.as_slice() {
        [one] => quote!(project(h, #one)?),
        _ => quote!(project(h, &Tensor::cat(&[#(#projections),*], 0)?)?),
    };
    let mut terms = Vec::new();
    let mut numbers = Vec::new();
    for param in &subject.params {
        let field = names::input(&param.leaf);
        numbers.push(match &param.value {
            ParamValue::Fixed(value) => {
                terms.push(value.clone());
                let value = numbers::arithmetic(value)?;
                quote!(tensor::number(#value, h)?.flatten_all()?.broadcast_as(config.heads)?)
            }
            _ if param.leaf.axes.is_empty() => quote!(self.#field.broadcast_as(config.heads)?),
            _ => quote!(self.#field.broadcast_as((config.heads, config.head()))?.flatten_all()?),
        });
    }
    numbers.extend(subject.gates.iter().map(|param| {
        let name = gate_name(param);
        quote!(self.#name.of(h)?)
    }));
    let sizes = numbers::sizes(&terms, &quote!(h.dim(1)?));
    let config = (!subject.params.is_empty()).then(|| quote!(let config = &self.config;));
    let of_query = subject.query_gates.iter().map(|param| {
        let name = gate_name(param);
        quote!(self.#name.of(z)?)
    });
    let of_query: Vec<TokenStream> = of_query.collect();
    // Where the attended tokens have no numbers, a 0 stands for them, and nothing looks at it.
    let with_query_gates = match (of_query.is_empty(), numbers.is_empty()) {
        (true, _) => quote!(),
        (false, true) => quote!(let numbers = &Tensor::cat(&[#(&#of_query,)* numbers], 0)?;),
        (false, false) => quote!(let numbers = &Tensor::cat(&[numbers, #(&#of_query),*], 0)?;),
    };
    let numbers = match numbers.is_empty() {
        true => quote!(tensor::number(0.0, h)?.flatten_all()?),
        false => quote!(Tensor::cat(&[#(#numbers),*], 0)?.contiguous()?),
    };
    let queries = match subject.reads_query {
        true => quote!(project(z, &self.w1)?),
        false => quote!(z.zeros_like()?),
    };
    Ok(quote! {
        /// What the heads look at in the attended tokens: their vectors side by side, and all numbers one after the
        /// other.
        fn attended(&self, h: &Tensor) -> Result<Attended> {
            #config
            #sizes
            Ok(Attended { tokens: #weight, numbers: #numbers })
        }

        /// The direction of every head, side by side: `[B, N, H·d_h]`.
        fn direction(&self, z: &Tensor, attended: &Attended, sight: &Sight) -> Result<Tensor> {
            let (batch, queries, _) = z.dims3()?;
            let size = Size {
                batch, queries,
                heads: self.config.heads,
                tokens: attended.tokens.dim(1)?,
                head: self.config.head(),
            };
            let q = #queries;
            let Attended { tokens, numbers } = attended;
            #with_query_gates
            if self.tensor_ops || !q.device().is_cpu() {
                return direction_with_tensor_ops(&size, sight, &q, tokens, numbers);
            }
            let Sight { visible, dropout } = sight;
            let op = Attend { size, visible: visible.clone(), dropout: *dropout, kept: OnceLock::new() };
            q.apply_op3(tokens, numbers, op)
        }
    })
}

/// The forces of one pass through the layer.
fn forces(subject: &Subject) -> TokenStream {
    let is_fixed = subject.recipe.tokens == Tokens::Fixed;
    let kept = is_fixed.then(|| {
        quote! {
            /// The attended tokens as they were at the first point: they stay.
            attended: Option<Attended>,
        }
    });
    let none = is_fixed.then(|| quote!(attended: None,));
    let at = match is_fixed {
        true => quote! {
            let attended = match self.attended.take() {
                Some(attended) => attended,
                None => self.layer.attended(point)?,
            };
            let out = self.layer.direction(point, &attended, &self.sight)?;
            self.attended = Some(attended);
        },
        false => quote! {
            let attended = self.layer.attended(point)?;
            let out = self.layer.direction(point, &attended, &self.sight)?;
        },
    };
    let at_self = if is_fixed { quote!(&mut self) } else { quote!(&self) };
    let (doc, matrix) = write_back(subject.recipe.write_back);
    quote! {
        /// What the heads look at in the attended tokens.
        struct Attended {
            tokens: Tensor,
            numbers: Tensor,
        }

        /// Who sees whom, and what dropout leaves of it.
        struct Sight {
            visible: Arc<Vec<Visible>>,
            dropout: Option<Dropout>,
        }

        /// The forces of one pass through the layer.
        struct Forces<'a> {
            layer: &'a Layer,
            sight: Sight,
            /// What brings the heads' directions back to a token, `[d, H·d_h]`.
            write_back: Tensor,
            #kept
        }

        impl Layer {
            fn forces(&self, z: &Tensor, context: &Context) -> Result<Forces<'_>> {
                let (batch, tokens, d) = z.dims3()?;
                if d != self.config.d_model {
                    bail!("tokens of {d} components for a layer of {}", self.config.d_model)
                }
                let visible = Arc::new(primitives::config::visible(self.mask, context, batch, tokens)?);
                let sight = Sight { visible, dropout: context.dropout };
                Ok(Forces { layer: self, sight, write_back: self.write_back()?, #none })
            }

            #[doc = #doc]
            fn write_back(&self) -> Result<Tensor> {
                #matrix
            }
        }

        impl Forces<'_> {
            /// −∇F at a point.
            fn at(#at_self, point: &Tensor) -> Result<Tensor> {
                #at
                project(&out, &self.write_back)
            }
        }
    }
}

fn write_back(how: WriteBack) -> (&'static str, TokenStream) {
    let by_head = quote! {
        let Config { d_model: d, heads } = self.config;
        let w1 = self.w1.reshape((heads, d / heads, d))?;
    };
    match how {
        WriteBack::Free => (" W_O.", quote!(Ok(self.wo.clone()))),
        WriteBack::Transpose => (" (1/H) W₁ᵀ.", quote!(self.w1.t()?.affine(1.0 / self.config.heads as f64, 0.0))),
        WriteBack::Pinv => (
            " (1/H) W₁⁺, head by head, with W₁⁺ = W₁ᵀ(W₁W₁ᵀ)⁻¹.",
            quote! {
                #by_head
                let all = pseudo_inverse(&w1)?.affine(1.0 / heads as f64, 0.0)?;
                all.transpose(0, 1)?.contiguous()?.reshape((d, d))
            },
        ),
        WriteBack::FreePinv => (
            " W_O W_V W₁⁺, head by head, with W₁⁺ = W₁ᵀ(W₁W₁ᵀ)⁻¹.",
            quote! {
                #by_head
                let wv = self.wv.reshape((heads, d / heads, d))?;
                let wo = self.wo.reshape((d, heads, d / heads))?.transpose(0, 1)?.contiguous()?;
                let all = wo.matmul(&wv.matmul(&pseudo_inverse(&w1)?)?)?;
                all.transpose(0, 1)?.contiguous()?.reshape((d, d))
            },
        ),
    }
}

/// How the layer moves the tokens.
fn moves(subject: &Subject) -> Result<TokenStream, Unsupported> {
    let steps = subject.recipe.steps as usize;
    let forces = match subject.recipe.tokens {
        Tokens::Fixed => quote!(let mut forces = self.forces(z, context)?;),
        Tokens::Evolve => quote!(let forces = self.forces(z, context)?;),
    };
    let forward = match (subject.has_program(), subject.has_states()) {
        (false, _) => Some(plain(subject, steps, &forces)?),
        (true, false) => Some(quote! {
            let (moved, _) = self.step_with(z, &State {}, context, |y| Ok(y.clone()))?;
            moved - z
        }),
        (true, true) => None,
    };
    let forward = forward.map(|body| {
        let times = if steps == 1 { String::new() } else { format!(", after {steps} steps") };
        let doc = format!(" What the layer adds to tokens `[B, N, d]`{times}: ẑ − z, for a residual connection.");
        quote! {
            #[doc = #doc]
            pub fn forward_with(&self, z: &Tensor, context: &Context) -> Result<Tensor> {
                #body
            }
        }
    });
    let count = numbers::count(steps);
    let step = subject.has_program().then(|| {
        let one = quote!(self.optimizer.step(&z, &state, |y| forces.at(&norm(y)?)));
        let body = match steps {
            1 => quote!(self.optimizer.step(z, state, |y| forces.at(&norm(y)?))),
            _ => quote! {
                let (mut z, mut state) = (z.clone(), state.clone());
                for _ in 0..#count {
                    (z, state) = #one?;
                }
                Ok((z, state))
            },
        };
        quote! {
            /// The tokens themselves after the layer, and the states after it.
            ///
            /// The force is taken at `norm` of the points the optimizer asks for: with a layer normalization in front of
            /// every sublayer, that is where it belongs.
            pub fn step_with(
                &self,
                z: &Tensor,
                state: &State,
                context: &Context,
                norm: impl Fn(&Tensor) -> Result<Tensor>,
            ) -> Result<(Tensor, State)> {
                #forces
                #body
            }

            /// The optimizer, for other sublayers to step with.
            pub fn optimizer(&self) -> &Optimizer {
                &self.optimizer
            }
        }
    });
    Ok(quote!(#forward #step))
}

/// z + η times the force, as often as the recipe says.
fn plain(subject: &Subject, steps: usize, forces: &TokenStream) -> Result<TokenStream, Unsupported> {
    let mut writer = Tensors::default();
    let size = subject.step_size();
    if steps == 1 && size.is_none() {
        return Ok(quote!(self.force(z, context)));
    }
    let scale = match size {
        None => quote!(),
        Some(size) => {
            let eta = writer.tensor(&size)?;
            quote!(?.broadcast_mul(&#eta))
        }
    };
    let lines = writer.finish();
    let count = numbers::count(steps);
    Ok(match steps {
        1 => quote!(#forces #lines forces.at(z)#scale),
        _ => quote! {
            #forces
            #lines
            let mut u = z.clone();
            for _ in 0..#count {
                u = (&u + forces.at(&u)#scale?)?;
            }
            u - z
        },
    })
}

/// The layer as a module of candle's, where it carries no states.
pub fn module(subject: &Subject) -> Option<TokenStream> {
    let is_module = !subject.has_states();
    is_module.then(|| {
        quote! {
            impl candle_core::Module for Layer {
                /// [`Layer::forward_with`] for sequences of full length.
                fn forward(&self, z: &Tensor) -> Result<Tensor> {
                    self.forward_with(z, &Context::default())
                }
            }
        }
    })
}
