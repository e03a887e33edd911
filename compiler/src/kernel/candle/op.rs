//! The kernel as an operation of candle's.
//!
//! It takes three tensors: queries, everything made from attended tokens side by side, and one with all numbers, first
//! those per head, then those per token, then those per query. The forward pass rearranges them head by head and keeps them for the backward
//! pass together with what the kernel saves.

use super::{Subject, numbers};
use crate::check::recipe::{Param, ParamValue};
use crate::ir::Role;
use crate::kernel::names;
use crate::plan::schedule::Domain;
use proc_macro2::{Ident, TokenStream};
use quote::quote;

pub fn op(subject: &Subject) -> TokenStream {
    let kept = kept(subject);
    let forward = forward(subject);
    let backward = backward(subject);
    quote! {
        /// The kernel as an operation of candle's, on the CPU and in f32.
        struct Attend {
            size: Size,
            visible: Arc<Vec<Visible>>,
            dropout: Option<Dropout>,
            kept: OnceLock<Kept>,
        }
        #kept

        impl Attend {
            fn queries(&self) -> Lengths {
                [self.size.batch, self.size.queries, self.size.heads, self.size.head]
            }
            fn tokens(&self) -> Lengths {
                [self.size.batch, self.size.tokens, self.size.heads, self.size.head]
            }
        }

        impl CustomOp3 for Attend {
            fn name(&self) -> &'static str {
                "attend"
            }
            #forward
            #backward
        }
    }
}

/// The vectors of the kernel as fields, and how they are cut out of the first two tensors.
fn vectors(subject: &Subject) -> Vec<(Ident, TokenStream)> {
    let count = numbers::count(subject.tokens.len());
    let query = subject.reads_query.then(|| (names::field("q"), quote!(split(queries, self.queries(), 0, 1))));
    let tokens = subject.tokens.iter().enumerate().map(|(i, leaf)| {
        let i = numbers::count(i);
        (names::input_field(leaf), quote!(split(tokens, self.tokens(), #i, #count)))
    });
    query.into_iter().chain(tokens).collect()
}

/// Where a parameter and a gate begin among the numbers, in terms of `size`.
pub fn place(subject: &Subject, name: &str) -> TokenStream {
    let before: Vec<&Param> = subject.numbers().take_while(|param| param.name != name).collect();
    let mut terms = Vec::new();
    for group in before.chunk_by(|a, b| extent(a).to_string() == extent(b).to_string()) {
        let length = extent(group[0]);
        terms.push(match group.len() {
            1 => length,
            count => {
                let count = numbers::count(count);
                quote!(#count * #length)
            }
        });
    }
    terms.into_iter().reduce(|sum, term| quote!(#sum + #term)).unwrap_or(quote!(0))
}

/// The length of a parameter's and of a gate's numbers.
fn extent(param: &Param) -> TokenStream {
    match param.leaf.role {
        Role::Param if param.leaf.axes.is_empty() => quote!(size.heads),
        Role::Param => quote!(size.heads * size.head),
        _ if param.value.is_of_query() => quote!(size.all_heads() * size.queries),
        _ => quote!(size.all_heads() * size.tokens),
    }
}

fn kept(subject: &Subject) -> TokenStream {
    let fields: Vec<Ident> = vectors(subject).into_iter().map(|(field, _)| field).collect();
    let numbers = subject.numbers().map(|param| {
        let (field, at, length) = (names::input_field(&param.leaf), place(subject, &param.name), extent(param));
        quote!(#field: &self.numbers[#at..][..#length])
    });
    let numbers: Vec<TokenStream> = numbers.collect();
    let (field, size) = match numbers.is_empty() {
        true => (quote!(), quote!(_size)),
        false => (quote!(numbers: Vec<f32>,), quote!(size)),
    };
    quote! {
        /// The inputs head by head, and what the forward pass leaves.
        struct Kept {
            #(#fields: Vec<f32>,)*
            #field
            dropout: Option<Dropout>,
            saved: Saved,
        }

        impl Kept {
            fn inputs(&self, #size: &Size) -> Inputs<'_> {
                Inputs { #(#fields: &self.#fields,)* #(#numbers,)* dropout: self.dropout }
            }
        }
    }
}

fn forward(subject: &Subject) -> TokenStream {
    let (fields, cuts): (Vec<Ident>, Vec<TokenStream>) = vectors(subject).into_iter().unzip();
    let has_numbers = subject.numbers().next().is_some();
    let numbers = has_numbers.then(|| quote!(numbers: floats(s3, l3)?.to_vec(),));
    let unused = (!has_numbers).then(|| quote!(let _ = (s3, l3);));
    let queries = match subject.reads_query {
        true => quote!(let queries = floats(s1, l1)?;),
        false => quote!(let _ = (s1, l1);),
    };
    quote! {
        fn cpu_fwd(
            &self,
            s1: &CpuStorage, l1: &Layout,
            s2: &CpuStorage, l2: &Layout,
            s3: &CpuStorage, l3: &Layout,
        ) -> Result<(CpuStorage, Shape)> {
            let size = &self.size;
            #queries
            let tokens = floats(s2, l2)?;
            #unused
            let mut kept = Kept { #(#fields: #cuts,)* #numbers dropout: self.dropout, saved: Saved::default() };
            let mut saved = Saved::default();
            let mut out = vec![0.0f32; size.all_heads() * size.queries * size.head];
            forward(size, &self.visible, &kept.inputs(size), &mut saved, &mut out);
            kept.saved = saved;
            let _ = self.kept.set(kept);
            let shape = (size.batch, size.queries, size.heads * size.head);
            Ok((CpuStorage::F32(merge(&[&out], self.queries())), Shape::from(shape)))
        }
    }
}

fn backward(subject: &Subject) -> TokenStream {
    let plan = subject.plan;
    let gradients = names::gradient_fields(&plan.tiles.backward);
    let field = |name: &Ident| gradients.iter().any(|(known, ..)| known == name);
    let domain = |name: &Ident| gradients.iter().find(|(known, ..)| known == name).map(|(.., domain)| *domain);
    let query = names::field("q");
    let of_query = match field(&query) {
        true => quote!(let queries = merge(&[&gradients.#query], self.queries());),
        false => quote!(let queries = vec![0.0f32; size.all_heads() * size.queries * size.head];),
    };
    let tokens = subject.tokens.iter().map(names::input_field).map(|name| match field(&name) {
        true => quote!(&gradients.#name),
        false => quote!(&vec![0.0f32; size.all_heads() * size.tokens * size.head]),
    });
    let count = numbers::count(subject.tokens.len());
    let numbers: Vec<TokenStream> = (subject.numbers())
        .filter(|param| !matches!(param.value, ParamValue::Fixed(_)))
        .filter_map(|param| {
            let name = names::input_field(&param.leaf);
            let (at, length) = (place(subject, &param.name), extent(param));
            Some(match domain(&name)? {
                // What a head has serves every sequence.
                Domain::Scalar | Domain::Vector => quote! {
                    for own in gradients.#name.chunks(#length) {
                        numbers[#at..][..#length].iter_mut().zip(own).for_each(|(sum, x)| *sum += x);
                    }
                },
                _ => quote!(numbers[#at..][..#length].copy_from_slice(&gradients.#name);),
            })
        })
        .collect();
    let learns = subject.learned().next().is_some() || subject.all_gates().next().is_some();
    let (of_numbers, result, third) = match learns {
        true => (
            quote!(let mut numbers = vec![0.0f32; numbers.elem_count()]; #(#numbers)*),
            quote!(Some(Tensor::from_vec(numbers, length, &Device::Cpu)?)),
            quote!(numbers),
        ),
        false => (quote!(), quote!(None), quote!(_)),
    };
    let length = learns.then(|| quote!(let length = numbers.elem_count();));
    quote! {
        fn bwd(
            &self,
            _: &Tensor, _: &Tensor, #third: &Tensor,
            _: &Tensor, grad: &Tensor,
        ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
            let size = &self.size;
            let Some(kept) = self.kept.get() else { bail!("the backward pass needs a forward pass before it") };
            let grad = grad.contiguous()?;
            let (storage, layout) = grad.storage_and_layout();
            let Storage::Cpu(storage) = &*storage else { bail!("a gradient left the CPU") };
            let grad_out = split(floats(storage, layout)?, self.queries(), 0, 1);
            let mut gradients = Gradients::new(size);
            backward(size, &self.visible, &kept.inputs(size), &grad_out, &kept.saved, &mut gradients);
            #of_query
            let tokens = merge(&[#(#tokens),*], self.tokens());
            #length
            #of_numbers
            let shape = |n: usize, parts: usize| (size.batch, n, parts * size.heads * size.head);
            Ok((
                Some(Tensor::from_vec(queries, shape(size.queries, 1), &Device::Cpu)?),
                Some(Tensor::from_vec(tokens, shape(size.tokens, #count), &Device::Cpu)?),
                #result,
            ))
        }
    }
}
