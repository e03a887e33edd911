//! The ingredients of the prelude as trees, written down from their documentation. Parameters that stand in the
//! description of an ingredient without a value there have one here that nobody looks at: whoever uses an ingredient
//! gives every value.

use crate::tree::{
    Compare, Entropy, Exponent, Expr, Function, Ingredient, Kind, Method, Optimizer, Pairing, Param, Place, Solve,
    Statement, Value, Way,
};

pub const LOCALS: [&str; 9] = ["dot", "abs_dot", "euclidean", "l1", "lp", "huber", "logcosh", "cauchy", "softcap"];
pub const GLOBALS: [&str; 8] =
    ["square_sum", "gated_square_sum", "lse", "tsallis", "norm_entropy", "sink", "sigmoid_attention", "dense_memory"];
pub const OPTIMIZERS: [&str; 5] = ["gd", "momentum", "nag", "newton", "concave_newton"];

fn param(name: &str, is_positive: bool) -> Param {
    Param { name: name.to_string(), value: Value::Fixed(Expr::number(1)), is_positive }
}

/// A local or a global energy.
pub fn energy(kind: Kind, name: &str) -> Ingredient {
    let (params, body) = match kind {
        Kind::Local => local(name),
        Kind::Global => global(name),
    };
    Ingredient { kind, name: name.to_string(), params, lets: vec![], body, place: Place::Prelude }
}

fn local(name: &str) -> (Vec<Param>, Expr) {
    let difference = || Expr::Query.minus(Expr::Key);
    let distance = || difference().apply(Function::Norm);
    let inner = || Expr::Query.pair(Pairing::Dot, Expr::Key);
    let delta = || Expr::name("delta");
    match name {
        "dot" => (vec![], inner().negated()),
        "abs_dot" => (vec![], inner().apply(Function::Abs)),
        "euclidean" => (vec![], distance().to(2, 1).over(Expr::number(2))),
        "l1" => (vec![], difference().apply(Function::Abs).apply(Function::Sum)),
        "lp" => {
            let power = Expr::Power(Box::new(difference().apply(Function::Abs)), Exponent::Name("p".into()));
            (vec![param("p", true)], power.apply(Function::Sum))
        }
        "huber" => {
            let far = delta().times(distance().minus(delta().over(Expr::number(2))));
            let near = distance().to(2, 1).over(Expr::number(2));
            (vec![param("delta", true)], Expr::choose(Compare::LessEqual, distance(), delta(), near, far))
        }
        "logcosh" => {
            let each = difference().apply(Function::Cosh).apply(Function::Log);
            (vec![], each.apply(Function::Sum))
        }
        "cauchy" => {
            let beyond = Expr::number(1).plus(distance().to(2, 1).over(Expr::name("c")));
            (vec![param("c", true)], beyond.apply(Function::Log))
        }
        "softcap" => {
            let capped = inner().over(Expr::name("c")).apply(Function::Tanh);
            (vec![param("c", true)], Expr::name("c").negated().times(capped))
        }
        _ => panic!("the prelude has no local energy `{name}`"),
    }
}

fn global(name: &str) -> (Vec<Param>, Expr) {
    let t = || Expr::name("T");
    let square = || Expr::Energy.to(2, 1);
    let half = || t().negated().over(Expr::number(2));
    match name {
        "square_sum" => (vec![param("T", false)], half().times(square().apply(Function::Sum))),
        "gated_square_sum" => {
            let body = half().times(Expr::name("gamma").times(square()).apply(Function::Sum));
            (vec![param("T", false), param("gamma", false)], body)
        }
        "lse" => {
            let sum = Expr::Energy.negated().over(t()).apply(Function::Exp).apply(Function::Sum);
            (vec![param("T", true)], t().negated().times(sum.apply(Function::Log)))
        }
        "tsallis" => {
            let shape = Exponent::Name("alpha".into());
            let body = Expr::Minimum(Entropy::Tsallis, Box::new(Expr::Energy), Box::new(t()), shape);
            (vec![param("alpha", true), param("T", true)], body)
        }
        "norm_entropy" => {
            let shape = Exponent::Name("gamma".into());
            let body = Expr::Minimum(Entropy::Norm, Box::new(Expr::Energy), Box::new(t()), shape);
            (vec![param("gamma", true), param("T", true)], body)
        }
        "sink" => {
            let sum = Expr::Energy.negated().over(t()).apply(Function::Exp).apply(Function::Sum);
            let whole = Expr::name("c").apply(Function::Exp).plus(sum);
            (vec![param("c", false), param("T", true)], t().negated().times(whole.apply(Function::Log)))
        }
        "sigmoid_attention" => {
            let logit = Expr::name("b").minus(Expr::Energy.over(t()));
            let sum = logit.apply(Function::Softplus).apply(Function::Sum);
            (vec![param("b", false), param("T", true)], t().negated().times(sum))
        }
        "dense_memory" => {
            let power = Expr::Power(Box::new(Expr::Energy.negated().apply(Function::Relu)), Exponent::Name("n".into()));
            (vec![param("n", true)], power.apply(Function::Sum).negated().over(Expr::name("n")))
        }
        _ => panic!("the prelude has no global energy `{name}`"),
    }
}

/// An optimizer.
pub fn optimizer(name: &str) -> Optimizer {
    let named = Expr::name;
    let gradient = |point: Expr| Expr::Gradient(Box::new(point));
    let assign = |name: &str, value: Expr| Statement::Assign(name.to_string(), value);
    let solved = |sign: i64| {
        Expr::Solve(Box::new(Solve {
            curvature: Expr::number(sign),
            shift: named("eps"),
            point: Expr::Token,
            way: Way::Name("solve".into()),
        }))
    };
    let second_order = || {
        let exact = Value::Way(Box::new(Method::Exact { scale: None }));
        vec![Param { name: "solve".into(), value: exact, is_positive: false }, param("eps", false), param("eta", true)]
    };
    let (params, body) = match name {
        "gd" => {
            let step = Expr::Token.minus(named("eta").times(gradient(Expr::Token)));
            (vec![param("eta", true)], vec![assign("z", step)])
        }
        "momentum" | "nag" => {
            let carried = || named("beta").times(named("p"));
            let mut body = vec![Statement::State("p".into(), Expr::number(0))];
            let mut point = Expr::Token;
            if name == "nag" {
                body.push(Statement::Let("y".into(), Expr::Token.minus(carried())));
                point = named("y");
            }
            body.push(assign("p", carried().plus(gradient(point))));
            body.push(assign("z", Expr::Token.minus(named("eta").times(named("p")))));
            (vec![param("beta", false), param("eta", false)], body)
        }
        "newton" => (second_order(), vec![assign("z", Expr::Token.minus(named("eta").times(solved(1))))]),
        "concave_newton" => (second_order(), vec![assign("z", Expr::Token.minus(named("eta").times(solved(-1))))]),
        _ => panic!("the prelude has no optimizer `{name}`"),
    };
    Optimizer { name: name.to_string(), params, body, place: Place::Prelude }
}
