//! The tree of a recipe file: plain data, a span on every node, parentheses gone.

use num_rational::BigRational;

use crate::span::Span;

/// Everything a `.recipe` file holds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct File {
    pub items: Vec<Item>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    Recipe(Recipe),
    Ingredient(Ingredient),
}

/// `recipe NAME { section* }`.
#[derive(Clone, PartialEq, Debug)]
pub struct Recipe {
    pub name: Ident,
    pub sections: Vec<Section>,
    /// The braces and what they hold.
    pub body_span: Span,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Section {
    /// `local huber(delta = 1.0);`: an ingredient used by name.
    Use {
        kind: Kind,
        name: Ident,
        args: Vec<Arg>,
        span: Span,
    },
    /// `local mine(p) { E = … }`: defined and used in place.
    Define(Ingredient),
    /// `param rho = learn(1);`: a parameter of the recipe itself.
    Param {
        name: Ident,
        value: Expr,
        span: Span,
    },
    /// `values free;`
    Values {
        mode: ValuesMode,
        mode_span: Span,
        span: Span,
    },
    /// `constrain norm(q) = rho, norm(k) = rho;`
    Constrain {
        constraints: Vec<Comparison>,
        span: Span,
    },
    /// `steps 4;` — any number literal parses; the check stage wants a positive integer.
    Steps {
        count: Number,
        span: Span,
    },
    /// `tokens evolve;`
    Tokens {
        mode: TokensMode,
        mode_span: Span,
        span: Span,
    },
    WriteBack {
        mode: WriteBackMode,
        mode_span: Span,
        span: Span,
    },
}

/// `KIND NAME(params) where conditions { body }`.
#[derive(Clone, PartialEq, Debug)]
pub struct Ingredient {
    pub kind: Kind,
    pub name: Ident,
    pub params: Vec<Param>,
    pub conditions: Vec<Comparison>,
    pub body: Vec<Stmt>,
    /// The braces and what they hold.
    pub body_span: Span,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    pub name: Ident,
    pub default: Option<Expr>,
    pub span: Span,
}

/// `let y = …;`, `state p = …;` or `z = …;`.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    pub kind: StmtKind,
    pub name: Ident,
    pub value: Expr,
    pub span: Span,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ident {
    pub text: String,
    pub span: Span,
}

/// A number literal: its exact value, and the text the author wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Number {
    pub value: BigRational,
    pub text: String,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    pub node: ExprKind,
    pub span: Span,
}

#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    Number { value: BigRational, text: String },
    Name(String),
    Negate(Box<Expr>),
    Binary { op: BinaryOp, left: Box<Expr>, right: Box<Expr> },
    Call { name: Ident, args: Vec<Arg> },
    If { condition: Box<Comparison>, then: Box<Expr>, otherwise: Box<Expr> },
}

#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    Value(Expr),
    Named {
        name: Ident,
        value: Expr,
    },
    /// `per head`: a mark, which has no value.
    Per(Per, Span),
}

/// What there is one of each of: heads, components, queries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Per {
    Head,
    Component,
    Query,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    pub op: CompareOp,
    pub left: Expr,
    pub right: Expr,
    pub span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Kind {
    Local,
    Global,
    Optimizer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum StmtKind {
    Let,
    State,
    Assign,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ValuesMode {
    Free,
    Tied,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TokensMode {
    Fixed,
    Evolve,
}

/// What brings a head's direction back to the token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum WriteBackMode {
    /// W1ᵀ.
    Transpose,
    /// W1⁺ = W1ᵀ (W1 W1ᵀ)⁻¹, the pseudo-inverse.
    Pinv,
    /// W_O.
    Free,
    /// W_O W_V W1⁺.
    FreePinv,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
}

/// `=` and `==` are both [`CompareOp::Equal`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum CompareOp {
    LessEqual,
    Less,
    GreaterEqual,
    Greater,
    Equal,
}

impl Per {
    pub const ALL: [Per; 3] = [Per::Head, Per::Component, Per::Query];

    /// The word behind `per`.
    pub fn as_str(self) -> &'static str {
        match self {
            Per::Head => "head",
            Per::Component => "component",
            Per::Query => "query",
        }
    }
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Local, Kind::Global, Kind::Optimizer];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Local => "local",
            Kind::Global => "global",
            Kind::Optimizer => "optimizer",
        }
    }

    pub fn parse(text: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

impl ValuesMode {
    pub const ALL: [ValuesMode; 2] = [ValuesMode::Free, ValuesMode::Tied];

    pub fn as_str(self) -> &'static str {
        match self {
            ValuesMode::Free => "free",
            ValuesMode::Tied => "tied",
        }
    }
}

impl WriteBackMode {
    pub const ALL: [WriteBackMode; 4] =
        [WriteBackMode::Transpose, WriteBackMode::Pinv, WriteBackMode::Free, WriteBackMode::FreePinv];

    pub fn as_str(self) -> &'static str {
        match self {
            WriteBackMode::Transpose => "transpose",
            WriteBackMode::Pinv => "pinv",
            WriteBackMode::Free => "free",
            WriteBackMode::FreePinv => "free_pinv",
        }
    }
}

impl TokensMode {
    pub const ALL: [TokensMode; 2] = [TokensMode::Fixed, TokensMode::Evolve];

    pub fn as_str(self) -> &'static str {
        match self {
            TokensMode::Fixed => "fixed",
            TokensMode::Evolve => "evolve",
        }
    }
}

impl BinaryOp {
    pub fn as_str(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Subtract => "-",
            BinaryOp::Multiply => "*",
            BinaryOp::Divide => "/",
            BinaryOp::Power => "^",
        }
    }
}

impl CompareOp {
    pub fn as_str(self) -> &'static str {
        match self {
            CompareOp::LessEqual => "<=",
            CompareOp::Less => "<",
            CompareOp::GreaterEqual => ">=",
            CompareOp::Greater => ">",
            CompareOp::Equal => "=",
        }
    }
}

impl Item {
    pub fn span(&self) -> Span {
        match self {
            Item::Recipe(recipe) => recipe.span,
            Item::Ingredient(ingredient) => ingredient.span,
        }
    }
}

impl Section {
    pub fn span(&self) -> Span {
        match self {
            Section::Define(ingredient) => ingredient.span,
            Section::Use { span, .. }
            | Section::Param { span, .. }
            | Section::Values { span, .. }
            | Section::Constrain { span, .. }
            | Section::Steps { span, .. }
            | Section::Tokens { span, .. }
            | Section::WriteBack { span, .. } => *span,
        }
    }

    /// The word the section starts with.
    pub fn keyword(&self) -> &'static str {
        match self {
            Section::Use { kind, .. } => kind.as_str(),
            Section::Define(ingredient) => ingredient.kind.as_str(),
            Section::Param { .. } => "param",
            Section::Values { .. } => "values",
            Section::Constrain { .. } => "constrain",
            Section::Steps { .. } => "steps",
            Section::Tokens { .. } => "tokens",
            Section::WriteBack { .. } => "write_back",
        }
    }
}

impl Arg {
    pub fn span(&self) -> Span {
        match self {
            Arg::Value(value) => value.span,
            Arg::Named { name, value } => name.span.join(value.span),
            Arg::Per(_, span) => *span,
        }
    }

    /// Arguments in the order they are printed in: marks that stand side by side have one of their own.
    pub fn in_order(args: &[Arg]) -> Vec<&Arg> {
        let is_mark = |arg: &Arg| matches!(arg, Arg::Per(..));
        let runs = args.chunk_by(|a, b| is_mark(a) && is_mark(b));
        let ordered = runs.flat_map(|run| {
            let mut run: Vec<&Arg> = run.iter().collect();
            run.sort_by_key(|arg| match arg {
                Arg::Per(per, _) => Some(*per),
                Arg::Value(_) | Arg::Named { .. } => None,
            });
            run
        });
        ordered.collect()
    }
}

/// Whether two files say the same: spans do not matter, numbers are compared by value.
pub fn same_tree(a: &File, b: &File) -> bool {
    all_same(&a.items, &b.items, |a, b| match (a, b) {
        (Item::Recipe(a), Item::Recipe(b)) => {
            a.name.text == b.name.text && all_same(&a.sections, &b.sections, same_section)
        }
        (Item::Ingredient(a), Item::Ingredient(b)) => same_ingredient(a, b),
        _ => false,
    })
}

fn all_same<T>(a: &[T], b: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

fn same_section(a: &Section, b: &Section) -> bool {
    use Section::*;
    match (a, b) {
        (Use { kind, name, args, .. }, Use { kind: other_kind, name: other_name, args: other_args, .. }) => {
            kind == other_kind && name.text == other_name.text && same_args(args, other_args)
        }
        (Define(a), Define(b)) => same_ingredient(a, b),
        (Param { name, value, .. }, Param { name: other_name, value: other_value, .. }) => {
            name.text == other_name.text && same_expr(value, other_value)
        }
        (Values { mode: a, .. }, Values { mode: b, .. }) => a == b,
        (Constrain { constraints: a, .. }, Constrain { constraints: b, .. }) => all_same(a, b, same_comparison),
        (Steps { count: a, .. }, Steps { count: b, .. }) => a.value == b.value,
        (Tokens { mode: a, .. }, Tokens { mode: b, .. }) => a == b,
        (WriteBack { mode: a, .. }, WriteBack { mode: b, .. }) => a == b,
        _ => false,
    }
}

fn same_ingredient(a: &Ingredient, b: &Ingredient) -> bool {
    a.kind == b.kind
        && a.name.text == b.name.text
        && all_same(&a.params, &b.params, same_param)
        && all_same(&a.conditions, &b.conditions, same_comparison)
        && all_same(&a.body, &b.body, |a, b| {
            a.kind == b.kind && a.name.text == b.name.text && same_expr(&a.value, &b.value)
        })
}

fn same_param(a: &Param, b: &Param) -> bool {
    a.name.text == b.name.text
        && match (&a.default, &b.default) {
            (Some(a), Some(b)) => same_expr(a, b),
            (None, None) => true,
            _ => false,
        }
}

fn same_comparison(a: &Comparison, b: &Comparison) -> bool {
    a.op == b.op && same_expr(&a.left, &b.left) && same_expr(&a.right, &b.right)
}

fn same_args(a: &[Arg], b: &[Arg]) -> bool {
    all_same(&Arg::in_order(a), &Arg::in_order(b), |a, b| same_arg(a, b))
}

fn same_arg(a: &Arg, b: &Arg) -> bool {
    match (a, b) {
        (Arg::Value(a), Arg::Value(b)) => same_expr(a, b),
        (Arg::Named { name, value }, Arg::Named { name: other, value: other_value }) => {
            name.text == other.text && same_expr(value, other_value)
        }
        (Arg::Per(a, _), Arg::Per(b, _)) => a == b,
        _ => false,
    }
}

/// [`same_tree`] for one expression.
pub fn same_expr(a: &Expr, b: &Expr) -> bool {
    use ExprKind::*;
    match (&a.node, &b.node) {
        (Number { value: a, .. }, Number { value: b, .. }) => a == b,
        (Name(a), Name(b)) => a == b,
        (Negate(a), Negate(b)) => same_expr(a, b),
        (Binary { op, left, right }, Binary { op: other_op, left: other_left, right: other_right }) => {
            op == other_op && same_expr(left, other_left) && same_expr(right, other_right)
        }
        (Call { name, args }, Call { name: other_name, args: other_args }) => {
            name.text == other_name.text && same_args(args, other_args)
        }
        (
            If { condition, then, otherwise },
            If { condition: other_condition, then: other_then, otherwise: other_otherwise },
        ) => {
            same_comparison(condition, other_condition)
                && same_expr(then, other_then)
                && same_expr(otherwise, other_otherwise)
        }
        _ => false,
    }
}
