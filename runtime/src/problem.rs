//! What a kernel is given: sizes, who sees whom, and every input as a flat array.

use energyc::interpret::HeadSize;
use energyc::ir::eval::Sizes;
use energyc::primitives::visible::Visible;
use std::collections::BTreeMap;

pub use energyc::primitives::blocks::Size;

/// The lengths of one head's arrays.
pub fn of_head(size: Size) -> HeadSize {
    HeadSize { queries: size.queries, tokens: size.tokens, head: size.head }
}

/// The sizes the language knows; the model is as wide as its heads together.
pub fn symbols(size: Size) -> Sizes {
    let Size { heads, queries, tokens, head, .. } = size;
    Sizes { queries, tokens, head, model: heads * head, heads }
}

/// One call of a kernel.
///
/// Inputs go by name: `q`, `k`, `v` and the cotangent [`GRAD_OUT`] are `[B,H,N,d_h]`, the cotangent [`GRAD_ENERGY`] is
/// `[B,H,N]`; parameters go by their names in the recipe: numbers are `[H]`, weights per component `[H,d_h]`, gates and the
/// per-step factors of decays `[B,H,N]`, gates of queries with the queries' N. Vectors with a constraint are given before
/// they are brought to their length.
#[derive(Clone, Debug)]
pub struct Problem {
    pub size: Size,
    /// One per sequence of the batch.
    pub visible: Vec<Visible>,
    pub tensors: BTreeMap<String, Vec<f32>>,
    /// The seed and the rate of attention dropout.
    pub dropout: Option<(u64, f64)>,
}

/// The cotangents of the direction and of the energy.
pub use energy_kernels::{GRAD_ENERGY, GRAD_OUT};

impl Problem {
    /// An input over all heads.
    ///
    /// # Panics
    ///
    /// If there is no such input.
    pub fn tensor(&self, name: &str) -> &[f32] {
        self.tensors.get(name).unwrap_or_else(|| panic!("the problem has no `{name}`"))
    }

    /// The part of an input that belongs to one of [`Size::all_heads`].
    ///
    /// # Panics
    ///
    /// If there is no such input.
    pub fn of_head(&self, name: &str, head: usize) -> &[f32] {
        let tensor = self.tensors.get(name).unwrap_or_else(|| panic!("the problem has no `{name}`"));
        let length = tensor.len() / self.size.all_heads();
        &tensor[head * length..(head + 1) * length]
    }

    /// The value of a parameter in one of [`Size::all_heads`].
    ///
    /// # Panics
    ///
    /// If there is no such parameter.
    pub fn parameter(&self, name: &str, head: usize) -> &[f32] {
        let tensor = self.tensors.get(name).unwrap_or_else(|| panic!("the problem has no `{name}`"));
        let (head, length) = (head % self.size.heads, tensor.len() / self.size.heads);
        &tensor[head * length..(head + 1) * length]
    }

    pub fn visible_to(&self, head: usize) -> &Visible {
        &self.visible[head / self.size.heads]
    }
}
