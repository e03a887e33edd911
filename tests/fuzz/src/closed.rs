//! A recipe written out: ingredients, `let`s and terms put in, functions taken apart, numbers known to the compiler
//! as numbers. What is left is a small graph over q, k, E, sizes and parameters.
//!
//! This is the language's meaning in one place, as a reader of its documentation would write it down:
//! norm(x) = √Σx², norm(x, p) = (Σ|x|^p)^(1/p), dot(x, y) = Σxy, sigmoid(x) = 1/(1 + exp(−x)),
//! tanh(x) = (exp(x) − exp(−x))/(exp(x) + exp(−x)), softplus(x) = log(1 + exp(x)), relu(x) = max(x, 0),
//! cosh(x) = (exp(x) + exp(−x))/2, log1p(x) = log(1 + x), square(x) = x², mean(x) = Σx / d_h.

use crate::prelude;
use crate::tape::Curve;
use crate::tree::{Choice, Compare, Entropy, Exponent, Expr, Function, Ingredient, Kind, Pairing, Size, Value};
use std::collections::HashMap;

/// A node of the graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Id(usize);

#[derive(Clone, PartialEq, Debug)]
pub enum Node {
    Number(f64),
    Size(Size),
    Query,
    Key,
    Energy,
    Param(String),
    Add(Id, Id),
    Multiply(Id, Id),
    Power(Id, f64),
    Exp(Id),
    Log(Id),
    Abs(Id),
    Sign(Id),
    Curve(Curve, Id),
    /// x where a ≤ b, else y.
    Select(Id, Id, Id, Id),
    SumComponents(Id),
    SumTokens(Id),
    /// min over p of Σ p E − T·H(p).
    Minimum(Entropy, Id, Id, f64),
}

/// What a node depends on outside of the sums inside of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Reach {
    pub components: bool,
    /// Tokens, be it by E, k or a gate.
    pub tokens: bool,
    /// q itself, not in a sum over components.
    pub query: bool,
    pub key: bool,
}

impl Reach {
    fn join(self, other: Reach) -> Reach {
        Reach {
            components: self.components || other.components,
            tokens: self.tokens || other.tokens,
            query: self.query || other.query,
            key: self.key || other.key,
        }
    }
}

#[derive(Default, Debug)]
pub struct Graph {
    nodes: Vec<(Node, Reach)>,
}

impl Graph {
    pub fn node(&self, id: Id) -> &Node {
        &self.nodes[id.0].0
    }

    pub fn reach(&self, id: Id) -> Reach {
        self.nodes[id.0].1
    }

    /// A parameter, which says itself what it is a number for each of.
    fn parameter(&mut self, name: &str, reach: Reach) -> Id {
        self.nodes.push((Node::Param(name.to_string()), reach));
        Id(self.nodes.len() - 1)
    }

    pub fn add(&mut self, node: Node) -> Id {
        let of = |ids: &[Id]| ids.iter().fold(Reach::default(), |reach, id| reach.join(self.reach(*id)));
        let reach = match &node {
            Node::Number(_) | Node::Size(_) => Reach::default(),
            Node::Query => Reach { components: true, query: true, ..Reach::default() },
            Node::Key => Reach { components: true, tokens: true, key: true, ..Reach::default() },
            Node::Energy => Reach { tokens: true, ..Reach::default() },
            Node::Param(_) => Reach::default(),
            Node::Add(a, b) | Node::Multiply(a, b) => of(&[*a, *b]),
            Node::Power(a, _) | Node::Exp(a) | Node::Log(a) | Node::Abs(a) | Node::Sign(a) | Node::Curve(_, a) => {
                of(&[*a])
            }
            Node::Select(a, b, x, y) => of(&[*a, *b, *x, *y]),
            Node::SumComponents(a) => Reach { components: false, query: false, key: false, ..of(&[*a]) },
            Node::SumTokens(_) | Node::Minimum(..) => Reach::default(),
        };
        self.nodes.push((node, reach));
        Id(self.nodes.len() - 1)
    }

    fn number(&mut self, value: f64) -> Id {
        self.add(Node::Number(value))
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    Node(Id),
    /// A number that is needed as one.
    Known(f64),
}

/// Names and what they stand for.
#[derive(Clone, Default, Debug)]
pub struct Scope {
    names: HashMap<String, Meaning>,
    /// The names of gates and decays: numbers per token.
    pub gates: Vec<String>,
}

impl Scope {
    /// Brings a parameter in: a term is put in, all else is a parameter of its name. A fixed number can be an exponent.
    pub fn declare(&mut self, graph: &mut Graph, name: &str, value: &Value) {
        let meaning = match value {
            Value::Term(term) => Meaning::Node(self.close(graph, term, Kind::Global)),
            Value::Gate | Value::Decay => {
                self.gates.push(name.to_string());
                Meaning::Node(graph.parameter(name, Reach { tokens: true, ..Reach::default() }))
            }
            vector if vector.is_vector() => {
                Meaning::Node(graph.parameter(name, Reach { components: true, ..Reach::default() }))
            }
            _ => Meaning::Node(graph.parameter(name, Reach::default())),
        };
        self.names.insert(name.to_string(), meaning);
        if let Value::Fixed(Expr::Number(ratio)) = value {
            self.names.insert(exponent_name(name), Meaning::Known(ratio.value()));
        }
        if let Value::Fixed(Expr::Divide(a, b)) = value
            && let (Expr::Number(a), Expr::Number(b)) = (&**a, &**b)
        {
            self.names.insert(exponent_name(name), Meaning::Known(a.value() / b.value()));
        }
    }

    /// Everything another scope knows, too.
    pub fn extend(&mut self, other: &Scope) {
        self.names.extend(other.names.iter().map(|(name, meaning)| (name.clone(), *meaning)));
    }

    fn exponent(&self, exponent: &Exponent) -> f64 {
        match exponent {
            Exponent::Number(ratio) => ratio.value(),
            Exponent::Name(name) => match self.names.get(&exponent_name(name)) {
                Some(Meaning::Known(value)) => *value,
                _ => f64::NAN,
            },
        }
    }

    /// The body of an ingredient, its `let`s put in.
    pub fn ingredient(&self, graph: &mut Graph, ingredient: &Ingredient) -> Id {
        let mut scope = self.clone();
        for (name, value) in &ingredient.lets {
            let id = scope.close(graph, value, ingredient.kind);
            scope.names.insert(name.clone(), Meaning::Node(id));
        }
        scope.close(graph, &ingredient.body, ingredient.kind)
    }

    /// An expression as a node; where it stands decides what `sum` runs over.
    pub fn close(&self, graph: &mut Graph, e: &Expr, kind: Kind) -> Id {
        let sub = |graph: &mut Graph, e: &Expr| self.close(graph, e, kind);
        match e {
            Expr::Number(ratio) => graph.number(ratio.value()),
            Expr::Size(size) => graph.add(Node::Size(*size)),
            Expr::Query => graph.add(Node::Query),
            Expr::Key => graph.add(Node::Key),
            Expr::Energy => graph.add(Node::Energy),
            Expr::Name(name) => match self.names.get(name) {
                Some(Meaning::Node(id)) => *id,
                _ => panic!("`{name}` has no meaning"),
            },
            Expr::Negate(x) => {
                let x = sub(graph, x);
                negate(graph, x)
            }
            Expr::Add(a, b) => {
                let (a, b) = (sub(graph, a), sub(graph, b));
                graph.add(Node::Add(a, b))
            }
            Expr::Subtract(a, b) => {
                let (a, b) = (sub(graph, a), sub(graph, b));
                let b = negate(graph, b);
                graph.add(Node::Add(a, b))
            }
            Expr::Multiply(a, b) => {
                let (a, b) = (sub(graph, a), sub(graph, b));
                graph.add(Node::Multiply(a, b))
            }
            Expr::Divide(a, b) => {
                let (a, b) = (sub(graph, a), sub(graph, b));
                let b = graph.add(Node::Power(b, -1.0));
                graph.add(Node::Multiply(a, b))
            }
            Expr::Power(x, exponent) => {
                let x = sub(graph, x);
                graph.add(Node::Power(x, self.exponent(exponent)))
            }
            Expr::Apply(function, x) => {
                let x = sub(graph, x);
                apply(graph, *function, x, kind)
            }
            Expr::PowerNorm(x, p) => {
                let (x, p) = (sub(graph, x), self.exponent(p));
                let size = graph.add(Node::Abs(x));
                let power = graph.add(Node::Power(size, p));
                let sum = graph.add(Node::SumComponents(power));
                graph.add(Node::Power(sum, 1.0 / p))
            }
            Expr::Pair(pairing, a, b) => {
                let (a, b) = (sub(graph, a), sub(graph, b));
                match pairing {
                    Pairing::Dot => {
                        let product = graph.add(Node::Multiply(a, b));
                        graph.add(Node::SumComponents(product))
                    }
                    Pairing::Max => graph.add(Node::Select(a, b, b, a)),
                    Pairing::Min => graph.add(Node::Select(a, b, a, b)),
                }
            }
            Expr::Minimum(entropy, energy, temperature, shape) => {
                let (energy, temperature) = (sub(graph, energy), sub(graph, temperature));
                graph.add(Node::Minimum(*entropy, energy, temperature, self.exponent(shape)))
            }
            Expr::If(choice) => {
                let Choice { compare, left, right, then, otherwise } = &**choice;
                let [a, b, x, y] = [left, right, then, otherwise].map(|e| sub(graph, e));
                graph.add(match compare {
                    Compare::LessEqual => Node::Select(a, b, x, y),
                    Compare::GreaterEqual => Node::Select(b, a, x, y),
                    Compare::Less => Node::Select(b, a, y, x),
                    Compare::Greater => Node::Select(a, b, y, x),
                })
            }
            Expr::Call(name, args) => {
                let ingredient = prelude::energy(kind, name);
                let mut inner = Scope { names: HashMap::new(), gates: self.gates.clone() };
                for (name, value) in args {
                    let id = sub(graph, value);
                    inner.names.insert(name.clone(), Meaning::Node(id));
                    if let Node::Number(value) = graph.node(id) {
                        inner.names.insert(exponent_name(name), Meaning::Known(*value));
                    }
                }
                inner.ingredient(graph, &ingredient)
            }
            Expr::Token | Expr::Gradient(_) | Expr::Solve(_) => panic!("an energy has no gradient"),
        }
    }
}

/// The name under which a number is known as such; no parameter is called so.
fn exponent_name(name: &str) -> String {
    format!("^{name}")
}

fn negate(graph: &mut Graph, x: Id) -> Id {
    let minus = graph.number(-1.0);
    graph.add(Node::Multiply(minus, x))
}

fn apply(graph: &mut Graph, function: Function, x: Id, kind: Kind) -> Id {
    match function {
        Function::Exp => graph.add(Node::Exp(x)),
        Function::Log => graph.add(Node::Log(x)),
        Function::Sqrt => graph.add(Node::Power(x, 0.5)),
        Function::Abs => graph.add(Node::Abs(x)),
        Function::Sign => graph.add(Node::Sign(x)),
        Function::Sigmoid => graph.add(Node::Curve(Curve::Sigmoid, x)),
        Function::Tanh => graph.add(Node::Curve(Curve::Tanh, x)),
        Function::Softplus => graph.add(Node::Curve(Curve::Softplus, x)),
        Function::Relu => {
            let zero = graph.number(0.0);
            graph.add(Node::Select(x, zero, zero, x))
        }
        Function::Cosh => {
            let minus = negate(graph, x);
            let (up, down, half) = (graph.add(Node::Exp(x)), graph.add(Node::Exp(minus)), graph.number(0.5));
            let sum = graph.add(Node::Add(up, down));
            graph.add(Node::Multiply(half, sum))
        }
        Function::Log1p => {
            let one = graph.number(1.0);
            let sum = graph.add(Node::Add(one, x));
            graph.add(Node::Log(sum))
        }
        Function::Square => graph.add(Node::Power(x, 2.0)),
        Function::Mean => {
            let (sum, length) = (graph.add(Node::SumComponents(x)), graph.add(Node::Size(Size::Head)));
            let share = graph.add(Node::Power(length, -1.0));
            graph.add(Node::Multiply(sum, share))
        }
        Function::Norm => {
            let square = graph.add(Node::Power(x, 2.0));
            let sum = graph.add(Node::SumComponents(square));
            graph.add(Node::Power(sum, 0.5))
        }
        Function::Sum if graph.reach(x).components || kind == Kind::Local => graph.add(Node::SumComponents(x)),
        Function::Sum => graph.add(Node::SumTokens(x)),
    }
}
