//! What the check stage hands on: a recipe in which every name is resolved, every axis and domain is known to be
//! right, and nothing of the text is left but names to display.

use crate::ir::{Expr, Leaf, Rational};
use crate::span::Span;
pub use crate::syntax::ast::CompareOp;
use crate::syntax::ast::Per;
pub use crate::syntax::ast::{Kind, TokensMode as Tokens, ValuesMode as Values, WriteBackMode as WriteBack};

/// A checked recipe.
#[derive(Clone, PartialEq, Debug)]
pub struct Recipe {
    pub name: String,
    /// `E`, the energy of one attended token: axes within {t, n}.
    pub local: Expr,
    /// `F` written over the named leaf `E`, which has the axes of `local`.
    pub global: Expr,
    /// `F` with `E` put in: axes within {t}.
    pub energy: Expr,
    /// The symbolic parameters: those of the local energy, the global energy, the optimizer, the recipe itself.
    pub params: Vec<Param>,
    /// What the ingredients ask of their parameters.
    pub conditions: Vec<Condition>,
    /// Parameters that shape the term (exponents, entropies): already substituted.
    pub structural: Vec<(String, Rational)>,
    pub constraints: Vec<Constraint>,
    pub values: Values,
    pub write_back: WriteBack,
    pub steps: u32,
    pub tokens: Tokens,
    pub program: Program,
    pub ingredients: Ingredients,
}

/// A symbolic parameter; its leaf stands for it in the terms.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    pub name: String,
    pub value: ParamValue,
    pub leaf: Leaf,
    pub origin: Origin,
}

/// Who declared a parameter; the order is that of [`Recipe::params`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    Ingredient(Kind),
    Recipe,
}

/// `left op right`, as left − right over the recipe's parameters and sizes.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition {
    pub op: CompareOp,
    pub difference: Expr,
}

/// Where a parameter takes its value from.
#[derive(Clone, PartialEq, Debug)]
pub enum ParamValue {
    /// A term over sizes.
    Fixed(Expr),
    /// Learned, starting at a term over sizes.
    Learn { init: Expr, each: Each },
    /// A number per token, computed from it.
    Gate(Squash, Whose),
    /// A number per pair: the product of per-step factors between the attended token and the query.
    Decay(Squash),
}

/// What a learned parameter has a number of its own for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Each {
    pub head: bool,
    /// Every component of a head: the parameter is a vector.
    pub component: bool,
}

impl Each {
    pub const HEAD: Each = Each { head: true, component: false };

    /// How many numbers there are in so many heads, and of them in each.
    pub fn shape(self, heads: usize, components: usize) -> Vec<usize> {
        let extents = [(self.head, heads), (self.component, components)];
        extents.into_iter().filter(|(is_own, _)| *is_own).map(|(_, length)| length).collect()
    }

    /// The same in the language: `, per head, per component`.
    pub fn marks(self) -> String {
        let extents = [(self.head, Per::Head), (self.component, Per::Component)];
        extents.iter().filter(|(is_own, _)| *is_own).map(|(_, per)| format!(", per {}", per.as_str())).collect()
    }
}

/// The token a gate is computed from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Whose {
    /// Every attended token has one.
    Token,
    /// Every query has one, of its own token.
    Query,
}

/// What brings a gate into (0, 1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Squash {
    Sigmoid,
}

impl Squash {
    pub const ALL: [Squash; 1] = [Squash::Sigmoid];

    pub fn as_str(self) -> &'static str {
        match self {
            Squash::Sigmoid => "sigmoid",
        }
    }
}

/// ‖vector‖ = radius, for `q` or `k`.
#[derive(Clone, PartialEq, Debug)]
pub struct Constraint {
    pub vector: Leaf,
    pub radius: Expr,
}

/// One run of the optimizer: terms over `z`, the states, the parameters and the gradients.
#[derive(Clone, Debug)]
pub struct Program {
    pub states: Vec<State>,
    /// The point at which the i-th gradient is taken; it may mention earlier gradients.
    pub gradients: Vec<Expr>,
    /// What every head's gradient goes through before it is written back.
    pub preconditioner: Option<Preconditioner>,
    /// The token after the step.
    pub z: Expr,
    /// The states after the step, in the order of `states`.
    pub next_states: Vec<Expr>,
    /// The same as the file writes it, where every name has one meaning.
    pub written: Option<Written>,
}

/// The same step, however it is written.
impl PartialEq for Program {
    fn eq(&self, other: &Program) -> bool {
        let Program { states, gradients, preconditioner, z, next_states, written: _ } = self;
        (states, gradients, preconditioner) == (&other.states, &other.gradients, &other.preconditioner)
            && (z, next_states) == (&other.z, &other.next_states)
    }
}

/// A program line by line, with its own names.
#[derive(Clone, Debug)]
pub struct Written {
    /// In the order of the file; names of lines before a line stand in it.
    pub lines: Vec<Assigned>,
    /// The token after the step.
    pub z: Expr,
}

/// A `let`, or the new value of a state.
#[derive(Clone, Debug)]
pub struct Assigned {
    pub leaf: Leaf,
    pub value: Expr,
    pub is_state: bool,
}

/// A⁻¹ with A = curvature·∇²F_h + shift·I, head by head in the space of q: exactly, or by a truncated series.
///
/// Writing A = αI − B and B = s·B₀ with s the number that does not depend on tokens, `scale` takes the place of s.
#[derive(Clone, Debug)]
pub struct Preconditioner {
    pub curvature: Expr,
    pub shift: Expr,
    pub method: Method,
    pub scale: Option<Expr>,
    /// Where the file asks for it.
    pub span: Span,
}

/// The same system, wherever it is asked for.
impl PartialEq for Preconditioner {
    fn eq(&self, other: &Preconditioner) -> bool {
        let Preconditioner { curvature, shift, method, scale, span: _ } = self;
        (curvature, shift, method, scale) == (&other.curvature, &other.shift, &other.method, &other.scale)
    }
}

/// How a system is solved.
#[derive(Clone, PartialEq, Debug)]
pub enum Method {
    Exact,
    /// α⁻¹ Σ_{j ≤ order} (B/α)^j; α is the identity part of A unless it is given.
    Taylor {
        order: u32,
        alpha: Option<Expr>,
    },
}

/// A vector the optimizer carries from step to step.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    pub leaf: Leaf,
    /// A term without axes over parameters and sizes.
    pub init: Expr,
}

/// What the recipe is made of, for display.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ingredients {
    pub local: Used,
    pub global: Used,
    pub optimizer: Used,
}

/// An ingredient's name, and its parameters with their values as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Used {
    pub name: String,
    pub values: Vec<(String, String)>,
}

impl Preconditioner {
    /// The same over other terms.
    pub fn over(&self, term: impl Fn(&Expr) -> Expr) -> Preconditioner {
        let method = match &self.method {
            Method::Exact => Method::Exact,
            Method::Taylor { order, alpha } => Method::Taylor { order: *order, alpha: alpha.as_ref().map(&term) },
        };
        Preconditioner {
            curvature: term(&self.curvature),
            shift: term(&self.shift),
            method,
            scale: self.scale.as_ref().map(&term),
            span: self.span,
        }
    }
}

impl ParamValue {
    /// The term over sizes that a number is, or starts at.
    pub fn start(&self) -> Option<&Expr> {
        match self {
            ParamValue::Fixed(value) | ParamValue::Learn { init: value, .. } => Some(value),
            ParamValue::Gate(..) | ParamValue::Decay(_) => None,
        }
    }

    /// Whether it is a gate of the query's own token.
    pub fn is_of_query(&self) -> bool {
        matches!(self, ParamValue::Gate(_, Whose::Query))
    }
}

impl Program {
    /// Whether the step of the token itself, outside of the heads, uses the input.
    pub fn mentions(&self, input: &Leaf) -> bool {
        let terms = self.gradients.iter().chain(&self.next_states).chain([&self.z]);
        terms.into_iter().any(|e| crate::ir::traverse::mentions(e, input))
    }
}

impl Recipe {
    /// The symbolic parameter of this name.
    pub fn param(&self, name: &str) -> Option<&Param> {
        self.params.iter().find(|param| param.name == name)
    }
}
