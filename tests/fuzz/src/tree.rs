//! A recipe as the generator knows it: the constructs of the language and nothing of the compiler's.
//!
//! Everything else reads this tree: `print` turns it into text for the compiler, `closed` writes it out for the
//! evaluator, `shrink` makes it smaller.

/// An exact number, as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ratio {
    pub numerator: i64,
    pub denominator: i64,
}

impl Ratio {
    pub const fn new(numerator: i64, denominator: i64) -> Ratio {
        Ratio { numerator, denominator }
    }

    pub const fn whole(number: i64) -> Ratio {
        Ratio { numerator: number, denominator: 1 }
    }

    pub fn value(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

/// `N`, `d`, `d_h`, `H`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    Tokens,
    Model,
    Head,
    Heads,
}

/// Functions of one argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    Exp,
    Log,
    Sqrt,
    Abs,
    Sign,
    Sigmoid,
    Tanh,
    Softplus,
    Relu,
    Cosh,
    Log1p,
    Square,
    Norm,
    Sum,
    Mean,
}

impl Function {
    pub fn name(self) -> &'static str {
        match self {
            Function::Exp => "exp",
            Function::Log => "log",
            Function::Sqrt => "sqrt",
            Function::Abs => "abs",
            Function::Sign => "sign",
            Function::Sigmoid => "sigmoid",
            Function::Tanh => "tanh",
            Function::Softplus => "softplus",
            Function::Relu => "relu",
            Function::Cosh => "cosh",
            Function::Log1p => "log1p",
            Function::Square => "square",
            Function::Norm => "norm",
            Function::Sum => "sum",
            Function::Mean => "mean",
        }
    }
}

/// Functions of two arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pairing {
    Dot,
    Max,
    Min,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    LessEqual,
    Less,
    GreaterEqual,
    Greater,
}

/// Which regularized minimum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entropy {
    Tsallis,
    Norm,
}

/// An exponent, or any other number that must be known to the compiler: written out, or a parameter.
#[derive(Clone, PartialEq, Debug)]
pub enum Exponent {
    Number(Ratio),
    Name(String),
}

#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    Number(Ratio),
    Size(Size),
    /// `q` in a local energy.
    Query,
    /// `k` in a local energy.
    Key,
    /// `E` in a global energy.
    Energy,
    /// `z` in an optimizer.
    Token,
    /// A parameter, a `let` or a state.
    Name(String),
    Negate(Box<Expr>),
    Add(Box<Expr>, Box<Expr>),
    Subtract(Box<Expr>, Box<Expr>),
    Multiply(Box<Expr>, Box<Expr>),
    Divide(Box<Expr>, Box<Expr>),
    Power(Box<Expr>, Exponent),
    Apply(Function, Box<Expr>),
    /// `norm(x, p)`.
    PowerNorm(Box<Expr>, Exponent),
    Pair(Pairing, Box<Expr>, Box<Expr>),
    /// `tsallis_min(E, T, alpha)` and `norm_min(E, T, gamma)`.
    Minimum(Entropy, Box<Expr>, Box<Expr>, Exponent),
    If(Box<Choice>),
    /// An ingredient of the prelude inside of another body, every argument given.
    Call(String, Vec<(String, Expr)>),
    /// `grad(point)`.
    Gradient(Box<Expr>),
    /// `solve(curvature * hess(point) + shift, grad(point), way)`.
    Solve(Box<Solve>),
}

/// `if left op right { then } else { otherwise }`.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    pub compare: Compare,
    pub left: Expr,
    pub right: Expr,
    pub then: Expr,
    pub otherwise: Expr,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Solve {
    pub curvature: Expr,
    pub shift: Expr,
    pub point: Expr,
    pub way: Way,
}

/// How a system is solved: said in place, or by a parameter's value.
#[derive(Clone, PartialEq, Debug)]
pub enum Way {
    Here(Method),
    Name(String),
}

#[derive(Clone, PartialEq, Debug)]
pub enum Method {
    Exact { scale: Option<Value> },
    Taylor { order: u32, scale: Option<Value>, alpha: Option<Value> },
}

/// What a parameter is given.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A term over sizes: a parameter of the recipe that is not learned.
    Fixed(Expr),
    Learn {
        init: Expr,
        each: Each,
    },
    /// σ of a linear map of every attended token.
    Gate,
    /// The same of the query's own token.
    QueryGate,
    Decay,
    /// A term over the recipe's own parameters, put in as it is.
    Term(Expr),
    Way(Box<Method>),
}

/// What a learned parameter has a number of its own for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Each {
    pub head: bool,
    /// Every component: the parameter is a vector.
    pub component: bool,
}

impl Each {
    pub fn heads(head: bool) -> Each {
        Each { head, component: false }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    pub name: String,
    pub value: Value,
    /// Whether the definition promises it to be positive.
    pub is_positive: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Local,
    Global,
}

/// Where an ingredient's definition stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the prelude: the recipe names it and gives arguments.
    Prelude,
    /// In the section of the recipe.
    Section,
    /// In the file, beside the recipe, which names it and gives arguments.
    File,
}

/// A local or a global energy.
#[derive(Clone, PartialEq, Debug)]
pub struct Ingredient {
    pub kind: Kind,
    pub name: String,
    pub params: Vec<Param>,
    pub lets: Vec<(String, Expr)>,
    pub body: Expr,
    pub place: Place,
}

#[derive(Clone, PartialEq, Debug)]
pub enum Statement {
    State(String, Expr),
    Let(String, Expr),
    Assign(String, Expr),
}

impl Statement {
    pub fn value(&self) -> &Expr {
        let (Statement::State(_, value) | Statement::Let(_, value) | Statement::Assign(_, value)) = self;
        value
    }

    pub fn value_mut(&mut self) -> &mut Expr {
        let (Statement::State(_, value) | Statement::Let(_, value) | Statement::Assign(_, value)) = self;
        value
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Optimizer {
    pub name: String,
    pub params: Vec<Param>,
    pub body: Vec<Statement>,
    pub place: Place,
}

/// `norm(q) = radius` or `norm(k) = radius`.
#[derive(Clone, PartialEq, Debug)]
pub struct Constraint {
    pub of_query: bool,
    pub radius: Expr,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    Free,
    Tied,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteBack {
    Transpose,
    Pinv,
    Free,
    FreePinv,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Recipe {
    pub name: String,
    /// `param name = value;`, but for those that a constraint brings by itself.
    pub params: Vec<Param>,
    /// Names that only a constraint mentions; they are parameters with the value 1.
    pub implied: Vec<String>,
    pub local: Ingredient,
    pub global: Ingredient,
    pub optimizer: Optimizer,
    pub values: Values,
    pub constraints: Vec<Constraint>,
    pub write_back: Option<WriteBack>,
    pub steps: Option<u32>,
    /// Whether `tokens` is said, and then whether they evolve.
    pub tokens_evolve: Option<bool>,
}

impl Recipe {
    /// All parameters with those who declare them: local, global, optimizer, the recipe itself.
    pub fn declared(&self) -> impl Iterator<Item = &Param> {
        let parts = [&self.local.params, &self.global.params, &self.optimizer.params, &self.params];
        parts.into_iter().flatten()
    }

    /// The system the optimizer solves for every gradient, if any.
    pub fn system(&self) -> Option<&Solve> {
        self.optimizer.body.iter().find_map(|statement| find_system(statement.value()))
    }

    /// How that system is solved.
    pub fn method(&self) -> Option<&Method> {
        match &self.system()?.way {
            Way::Here(method) => Some(method),
            Way::Name(name) => self.optimizer.params.iter().find(|p| p.name == *name).and_then(|p| match &p.value {
                Value::Way(method) => Some(&**method),
                _ => None,
            }),
        }
    }
}

fn find_system(e: &Expr) -> Option<&Solve> {
    match e {
        Expr::Solve(solve) => Some(solve),
        _ => e.children().into_iter().find_map(find_system),
    }
}

impl Expr {
    pub fn number(number: i64) -> Expr {
        Expr::Number(Ratio::whole(number))
    }

    pub fn ratio(numerator: i64, denominator: i64) -> Expr {
        Expr::Number(Ratio::new(numerator, denominator))
    }

    pub fn name(name: &str) -> Expr {
        Expr::Name(name.to_string())
    }

    pub fn plus(self, other: Expr) -> Expr {
        Expr::Add(Box::new(self), Box::new(other))
    }

    pub fn minus(self, other: Expr) -> Expr {
        Expr::Subtract(Box::new(self), Box::new(other))
    }

    pub fn times(self, other: Expr) -> Expr {
        Expr::Multiply(Box::new(self), Box::new(other))
    }

    pub fn over(self, other: Expr) -> Expr {
        Expr::Divide(Box::new(self), Box::new(other))
    }

    pub fn negated(self) -> Expr {
        Expr::Negate(Box::new(self))
    }

    pub fn to(self, numerator: i64, denominator: i64) -> Expr {
        Expr::Power(Box::new(self), Exponent::Number(Ratio::new(numerator, denominator)))
    }

    pub fn apply(self, function: Function) -> Expr {
        Expr::Apply(function, Box::new(self))
    }

    pub fn pair(self, pairing: Pairing, other: Expr) -> Expr {
        Expr::Pair(pairing, Box::new(self), Box::new(other))
    }

    pub fn choose(compare: Compare, left: Expr, right: Expr, then: Expr, otherwise: Expr) -> Expr {
        Expr::If(Box::new(Choice { compare, left, right, then, otherwise }))
    }

    pub fn children(&self) -> Vec<&Expr> {
        match self {
            Expr::Number(_) | Expr::Size(_) | Expr::Query | Expr::Key | Expr::Energy | Expr::Token | Expr::Name(_) => {
                vec![]
            }
            Expr::Negate(x) | Expr::Power(x, _) | Expr::Apply(_, x) | Expr::PowerNorm(x, _) | Expr::Gradient(x) => {
                vec![x]
            }
            Expr::Add(a, b)
            | Expr::Subtract(a, b)
            | Expr::Multiply(a, b)
            | Expr::Divide(a, b)
            | Expr::Pair(_, a, b)
            | Expr::Minimum(_, a, b, _) => vec![a, b],
            Expr::If(choice) => vec![&choice.left, &choice.right, &choice.then, &choice.otherwise],
            Expr::Call(_, args) => args.iter().map(|(_, value)| value).collect(),
            Expr::Solve(solve) => vec![&solve.curvature, &solve.shift, &solve.point],
        }
    }

    pub fn children_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Expr::Number(_) | Expr::Size(_) | Expr::Query | Expr::Key | Expr::Energy | Expr::Token | Expr::Name(_) => {
                vec![]
            }
            Expr::Negate(x) | Expr::Power(x, _) | Expr::Apply(_, x) | Expr::PowerNorm(x, _) | Expr::Gradient(x) => {
                vec![x]
            }
            Expr::Add(a, b)
            | Expr::Subtract(a, b)
            | Expr::Multiply(a, b)
            | Expr::Divide(a, b)
            | Expr::Pair(_, a, b)
            | Expr::Minimum(_, a, b, _) => vec![a, b],
            Expr::If(choice) => {
                let Choice { left, right, then, otherwise, .. } = &mut **choice;
                vec![left, right, then, otherwise]
            }
            Expr::Call(_, args) => args.iter_mut().map(|(_, value)| value).collect(),
            Expr::Solve(solve) => {
                let Solve { curvature, shift, point, .. } = &mut **solve;
                vec![curvature, shift, point]
            }
        }
    }

    /// Whether the name stands anywhere in the term, as a number or as an exponent.
    pub fn mentions(&self, name: &str) -> bool {
        let here = match self {
            Expr::Name(other) => other == name,
            Expr::Power(_, exponent) | Expr::PowerNorm(_, exponent) | Expr::Minimum(_, _, _, exponent) => {
                exponent.mentions(name)
            }
            Expr::Solve(solve) => match &solve.way {
                Way::Name(other) => other == name,
                Way::Here(method) => method.mentions(name),
            },
            _ => false,
        };
        here || self.children().into_iter().any(|child| child.mentions(name))
    }
}

impl Exponent {
    pub fn mentions(&self, name: &str) -> bool {
        matches!(self, Exponent::Name(other) if other == name)
    }
}

impl Method {
    /// The numbers that are given by name.
    pub fn values(&self) -> [Option<&Value>; 2] {
        match self {
            Method::Exact { scale } => [scale.as_ref(), None],
            Method::Taylor { scale, alpha, .. } => [scale.as_ref(), alpha.as_ref()],
        }
    }

    pub fn mentions(&self, name: &str) -> bool {
        self.values().into_iter().flatten().any(|value| value.mentions(name))
    }
}

impl Value {
    /// Whether it is a number per component.
    pub fn is_vector(&self) -> bool {
        matches!(self, Value::Learn { each: Each { component: true, .. }, .. })
    }

    pub fn mentions(&self, name: &str) -> bool {
        match self {
            Value::Fixed(e) | Value::Term(e) => e.mentions(name),
            Value::Learn { init, .. } => init.mentions(name),
            Value::Way(method) => method.mentions(name),
            Value::Gate | Value::QueryGate | Value::Decay => false,
        }
    }
}
