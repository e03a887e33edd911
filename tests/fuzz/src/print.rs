//! The tree as text of the language.

use crate::tree::{
    Choice, Compare, Entropy, Exponent, Expr, Ingredient, Kind, Method, Optimizer, Pairing, Param, Place, Ratio,
    Recipe, Size, Solve, Statement, Value, Values, Way, WriteBack,
};

/// How tightly an expression holds together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Sum,
    Product,
    Sign,
    Power,
    Atom,
}

/// The text of a recipe's file.
pub fn recipe(recipe: &Recipe) -> String {
    let mut file = String::new();
    let mut lines: Vec<String> = Vec::new();
    for param in &recipe.params {
        lines.push(format!("param {} = {};", param.name, value(&param.value)));
    }
    for ingredient in [&recipe.local, &recipe.global] {
        let word = keyword(ingredient.kind);
        let definition = energy(ingredient);
        match ingredient.place {
            Place::Section => lines.push(definition),
            Place::File => {
                file += &format!("{definition}\n");
                lines.push(used(word, &ingredient.name, &ingredient.params));
            }
            Place::Prelude => lines.push(used(word, &ingredient.name, &ingredient.params)),
        }
    }
    let definition = optimizer(&recipe.optimizer);
    match recipe.optimizer.place {
        Place::Section => lines.push(definition),
        Place::File => {
            file += &format!("{definition}\n");
            lines.push(used("optimizer", &recipe.optimizer.name, &recipe.optimizer.params));
        }
        Place::Prelude => lines.push(used("optimizer", &recipe.optimizer.name, &recipe.optimizer.params)),
    }
    if recipe.values == Values::Tied {
        lines.push("values tied;".to_string());
    }
    if !recipe.constraints.is_empty() {
        let each = recipe.constraints.iter().map(|constraint| {
            let vector = if constraint.of_query { "q" } else { "k" };
            format!("norm({vector}) = {}", expr(&constraint.radius))
        });
        lines.push(format!("constrain {};", each.collect::<Vec<_>>().join(", ")));
    }
    if let Some(write_back) = recipe.write_back {
        let word = match write_back {
            WriteBack::Transpose => "transpose",
            WriteBack::Pinv => "pinv",
            WriteBack::Free => "free",
            WriteBack::FreePinv => "free_pinv",
        };
        lines.push(format!("write_back {word};"));
    }
    if let Some(steps) = recipe.steps {
        lines.push(format!("steps {steps};"));
    }
    if let Some(evolve) = recipe.tokens_evolve {
        lines.push(format!("tokens {};", if evolve { "evolve" } else { "fixed" }));
    }
    let body: String = lines.iter().map(|line| format!("    {line}\n")).collect();
    format!("{file}recipe {} {{\n{body}}}\n", recipe.name)
}

fn keyword(kind: Kind) -> &'static str {
    match kind {
        Kind::Local => "local",
        Kind::Global => "global",
    }
}

fn used(word: &str, name: &str, params: &[Param]) -> String {
    if params.is_empty() {
        return format!("{word} {name};");
    }
    let args: Vec<String> = params.iter().map(|p| format!("{} = {}", p.name, value(&p.value))).collect();
    format!("{word} {name}({});", args.join(", "))
}

/// The head of a definition; in a section the values stand in it.
fn head(word: &str, name: &str, params: &[Param], place: Place) -> String {
    let each = params.iter().map(|p| match place {
        Place::Section => format!("{} = {}", p.name, value(&p.value)),
        _ => p.name.clone(),
    });
    let params_text = each.collect::<Vec<_>>().join(", ");
    let promises: Vec<String> = params.iter().filter(|p| p.is_positive).map(|p| format!("{} > 0", p.name)).collect();
    let conditions = if promises.is_empty() { String::new() } else { format!(" where {}", promises.join(", ")) };
    format!("{word} {name}({params_text}){conditions}")
}

fn energy(ingredient: &Ingredient) -> String {
    let Ingredient { kind, name, params, lets, body, place } = ingredient;
    let result = if *kind == Kind::Local { "E" } else { "F" };
    let lets: String = lets.iter().map(|(name, value)| format!("let {name} = {}; ", expr(value))).collect();
    format!("{} {{ {lets}{result} = {} }}", head(keyword(*kind), name, params, *place), expr(body))
}

fn optimizer(optimizer: &Optimizer) -> String {
    let statement = |statement: &Statement| match statement {
        Statement::State(name, value) => format!("state {name} = {}; ", expr(value)),
        Statement::Let(name, value) => format!("let {name} = {}; ", expr(value)),
        Statement::Assign(name, value) => format!("{name} = {}; ", expr(value)),
    };
    let body: String = optimizer.body.iter().map(statement).collect();
    format!("{} {{ {body}}}", head("optimizer", &optimizer.name, &optimizer.params, optimizer.place))
}

pub fn value(value: &Value) -> String {
    match value {
        Value::Fixed(e) | Value::Term(e) => expr(e),
        Value::Learn { init, each } => {
            // Not in the order the formatter puts them in.
            let component = if each.component { ", per component" } else { "" };
            let head = if each.head { ", per head" } else { "" };
            format!("learn({}{component}{head})", expr(init))
        }
        Value::Gate => "gate(sigmoid)".to_string(),
        Value::QueryGate => "gate(sigmoid, per query)".to_string(),
        Value::Decay => "decay(sigmoid)".to_string(),
        Value::Way(method) => way(method),
    }
}

fn way(method: &Method) -> String {
    let named = |name: &str, given: &Option<Value>| given.as_ref().map(|given| format!("{name} = {}", value(given)));
    match method {
        Method::Exact { scale: None } => "exact".to_string(),
        Method::Exact { scale } => format!("exact({})", named("scale", scale).unwrap_or_default()),
        Method::Taylor { order, scale, alpha } => {
            let parts = [Some(order.to_string()), named("scale", scale), named("alpha", alpha)];
            format!("taylor({})", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
        }
    }
}

pub fn expr(e: &Expr) -> String {
    at(e, Level::Sum)
}

/// An expression where something at least so tight is needed.
fn at(e: &Expr, level: Level) -> String {
    let (text, own) = written(e);
    if own < level { format!("({text})") } else { text }
}

fn written(e: &Expr) -> (String, Level) {
    let call = |name: &str, args: &[String]| (format!("{name}({})", args.join(", ")), Level::Atom);
    match e {
        Expr::Number(number) => ratio(*number),
        Expr::Size(size) => {
            let name = match size {
                Size::Tokens => "N",
                Size::Model => "d",
                Size::Head => "d_h",
                Size::Heads => "H",
            };
            (name.to_string(), Level::Atom)
        }
        Expr::Query => ("q".to_string(), Level::Atom),
        Expr::Key => ("k".to_string(), Level::Atom),
        Expr::Energy => ("E".to_string(), Level::Atom),
        Expr::Token => ("z".to_string(), Level::Atom),
        Expr::Name(name) => (name.clone(), Level::Atom),
        Expr::Negate(x) => (format!("-{}", at(x, Level::Sign)), Level::Sign),
        Expr::Add(a, b) => (format!("{} + {}", at(a, Level::Sum), at(b, Level::Product)), Level::Sum),
        Expr::Subtract(a, b) => (format!("{} - {}", at(a, Level::Sum), at(b, Level::Product)), Level::Sum),
        Expr::Multiply(a, b) => (format!("{} * {}", at(a, Level::Product), at(b, Level::Sign)), Level::Product),
        Expr::Divide(a, b) => (format!("{} / {}", at(a, Level::Product), at(b, Level::Sign)), Level::Product),
        Expr::Power(x, p) => (format!("{}^{}", at(x, Level::Atom), exponent(p, Level::Power)), Level::Power),
        Expr::Apply(function, x) => call(function.name(), &[expr(x)]),
        Expr::PowerNorm(x, p) => call("norm", &[expr(x), exponent(p, Level::Sum)]),
        Expr::Pair(pairing, a, b) => {
            let name = match pairing {
                Pairing::Dot => "dot",
                Pairing::Max => "max",
                Pairing::Min => "min",
            };
            call(name, &[expr(a), expr(b)])
        }
        Expr::Minimum(entropy, energy, temperature, shape) => {
            let name = match entropy {
                Entropy::Tsallis => "tsallis_min",
                Entropy::Norm => "norm_min",
            };
            call(name, &[expr(energy), expr(temperature), exponent(shape, Level::Sum)])
        }
        Expr::If(choice) => {
            let Choice { compare, left, right, then, otherwise } = &**choice;
            let symbol = match compare {
                Compare::LessEqual => "<=",
                Compare::Less => "<",
                Compare::GreaterEqual => ">=",
                Compare::Greater => ">",
            };
            let [left, right, then, otherwise] = [left, right, then, otherwise].map(expr);
            (format!("if {left} {symbol} {right} {{ {then} }} else {{ {otherwise} }}"), Level::Sum)
        }
        Expr::Call(name, args) => {
            let args: Vec<String> = args.iter().map(|(name, value)| format!("{name} = {}", expr(value))).collect();
            call(name, &args)
        }
        Expr::Gradient(point) => call("grad", &[expr(point)]),
        Expr::Solve(solve) => {
            let Solve { curvature, shift, point, way: how } = &**solve;
            let matrix = matrix(curvature, shift, point);
            let gradient = format!("grad({})", expr(point));
            match how {
                Way::Here(Method::Exact { scale: None }) => call("solve", &[matrix, gradient]),
                Way::Here(method) => call("solve", &[matrix, gradient, way(method)]),
                Way::Name(name) => call("solve", &[matrix, gradient, name.clone()]),
            }
        }
    }
}

/// `curvature * hess(point) + shift`.
fn matrix(curvature: &Expr, shift: &Expr, point: &Expr) -> String {
    let hessian = format!("hess({})", expr(point));
    let curved = match curvature {
        Expr::Number(Ratio { numerator: 1, denominator: 1 }) => hessian,
        _ => format!("{} * {hessian}", at(curvature, Level::Product)),
    };
    match shift {
        Expr::Number(Ratio { numerator: 0, .. }) => curved,
        _ => format!("{curved} + {}", at(shift, Level::Product)),
    }
}

fn exponent(exponent: &Exponent, level: Level) -> String {
    match exponent {
        Exponent::Number(number) => at(&Expr::Number(*number), level),
        Exponent::Name(name) => name.clone(),
    }
}

/// A decimal where there is one, else a fraction.
fn ratio(Ratio { numerator, denominator }: Ratio) -> (String, Level) {
    if numerator < 0 {
        let (text, _) = ratio(Ratio { numerator: -numerator, denominator });
        return (format!("-{text}"), if text.contains('/') { Level::Product } else { Level::Sign });
    }
    match denominator {
        1 => (numerator.to_string(), Level::Atom),
        _ if 1000 % denominator == 0 => (format!("{}", numerator as f64 / denominator as f64), Level::Atom),
        _ => (format!("{numerator}/{denominator}"), Level::Product),
    }
}
