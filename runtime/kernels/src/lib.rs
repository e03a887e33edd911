//! The kernels of the shipped recipes, exactly as `energyc compile` prints them, and one way to call them all.
//!
//! They are a crate of their own because they take longer to compile than everything that uses them.

use std::any::Any;
use std::ops::Range;

/// The emitted modules, one per recipe.
#[allow(unsafe_code)]
pub mod recipes {
    include!(concat!(env!("OUT_DIR"), "/recipes.rs"));
}

/// The lengths of the arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub batch: usize,
    pub heads: usize,
    pub queries: usize,
    pub tokens: usize,
    pub head: usize,
}

/// What the cotangent of the direction is called among the inputs of a call: no recipe can call a parameter so.
pub const GRAD_OUT: &str = "cotangent of the direction";
/// And what that of the energy is called.
pub const GRAD_ENERGY: &str = "cotangent of the energy";

/// One call of a kernel: its inputs are found by name.
pub struct Call<'a> {
    pub size: Size,
    /// What every query of every sequence sees.
    pub visible: &'a [&'a [Range<usize>]],
    pub tensor: &'a dyn Fn(&str) -> &'a [f32],
    /// The seed and the rate of attention dropout.
    pub dropout: Option<(u64, f64)>,
}

/// A gradient by the name of its input.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradient {
    pub name: &'static str,
    pub values: Vec<f32>,
    /// A number or a vector per head of every sequence, still to be summed over the batch.
    pub is_shared: bool,
}

/// What a forward pass saves for the passes after it.
pub type Saved = Box<dyn Any + Send + Sync>;

/// Forward and backward passes of a kernel with buffers that live from call to call.
pub trait Session: Send {
    fn forward(&mut self, call: &Call) -> &[f32];
    /// After `forward` of the same call, given [`GRAD_OUT`]: gradients by name, and whether the batch shares what they are of.
    fn backward<'a>(&'a mut self, call: &Call) -> Vec<(&'a str, &'a [f32], bool)>;
}

/// The passes of one recipe.
pub trait Kernel: Sync {
    /// The text it was compiled from.
    fn source(&self) -> &'static str;
    fn session(&self) -> Box<dyn Session>;
    /// The direction, and what later passes read again.
    fn forward(&self, call: &Call) -> (Vec<f32>, Saved);
    fn energy(&self, call: &Call) -> Vec<f32>;
    /// Given [`GRAD_OUT`].
    fn backward(&self, call: &Call, saved: &Saved) -> Vec<Gradient>;
    /// Given [`GRAD_ENERGY`].
    fn energy_backward(&self, call: &Call) -> Vec<Gradient>;
}

// The module `compiled`, with a `Kernel` for every recipe, and `find`, which knows them by the hash of their recipe.
include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
