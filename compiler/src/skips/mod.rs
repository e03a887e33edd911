//! Skip connections: what an optimizer with a memory does to a stack of layers.
//!
//! With f^(k) = −∇F in layer k, an optimizer that is linear in the token, its states and the gradients makes every
//! token and every point at which a gradient is taken a weighted sum of z^(0) and the f^(k) before it:
//!
//! ```text
//! z^(L) = a z^(0) + Σ_{k<L} w_k f^(k) + c 1
//! ```
//!
//! The weights w_k are skip connections from layer k to layer L that nobody wired. a is 1 unless the optimizer shrinks
//! the token; c 1, the same number in every component, is what initial states other than 0 leave behind.
//!
//! ```text
//! Program ──unroll──▶ Unrolled ──connections──▶ Connections ──figure──▶ SVG
//!                          └──json, latex──▶ weights as text
//! ```
//! Weights are exact [`Polynomial`]s in the optimizer's parameters; [`series`] finds the geometric sums in them.

pub mod connections;
pub mod figure;
pub mod form;
pub mod json;
pub mod language;
pub mod latex;
pub mod polynomial;
pub mod series;
mod svg;
pub mod unroll;
pub mod values;

pub use connections::{Connection, Connections, Node, connections};
pub use form::{Form, Stop};
pub use polynomial::Polynomial;
pub use unroll::{MAX_LAYERS, Point, Unrolled, unroll};
pub use values::{Values, values};
