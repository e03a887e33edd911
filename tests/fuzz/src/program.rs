//! Random optimizers: those of the prelude, and programs with states, look-ahead points, several gradients, and systems.

use crate::generate::{Generator, Want};
use crate::names::Names;
use crate::prelude;
use crate::tree::{Each, Expr, Function, Method, Optimizer, Pairing, Param, Place, Solve, Statement, Value, Way};

/// An optimizer, with a system to solve or without.
pub fn optimizer(generator: &mut Generator, solves: bool) -> Optimizer {
    generator.params.clear();
    let of_prelude = generator.random.chance(0.5);
    match (of_prelude, solves) {
        (true, true) => {
            let name = generator.random.pick(&["newton", "concave_newton"]);
            known(generator, name)
        }
        (true, false) => {
            let name = generator.random.pick(&["gd", "gd", "momentum", "nag"]);
            known(generator, name)
        }
        (false, _) => own(generator, solves),
    }
}

/// A number of an optimizer: the same for all heads and tokens.
fn value(generator: &mut Generator, want: Want) -> Value {
    let number = generator.number(want);
    if generator.random.one_in(2) { Value::Learn { init: number, each: Each::default() } } else { Value::Fixed(number) }
}

fn known(generator: &mut Generator, name: &str) -> Optimizer {
    let mut optimizer = prelude::optimizer(name);
    let clashes = optimizer.params.iter().any(|p| !generator.names.is_free(&p.name));
    if clashes {
        let solves = name.ends_with("newton");
        return own(generator, solves);
    }
    for param in &mut optimizer.params {
        generator.names.reserve(&[&param.name]);
        param.value = match param.name.as_str() {
            "solve" => Value::Way(Box::new(method(generator))),
            "eps" => match generator.random.below(3) {
                0 => Value::Fixed(Expr::number(1)),
                1 => Value::Learn { init: Expr::number(3), each: Each::default() },
                _ => Value::Fixed(Expr::number(4)),
            },
            "beta" => Value::Fixed(Expr::ratio(9, 10)),
            _ => value(generator, Want::Positive),
        };
        if param.name == "beta" && generator.random.one_in(2) {
            param.value = Value::Learn { init: Expr::ratio(9, 10), each: Each::default() };
        }
    }
    optimizer
}

/// How to solve; `alpha` and `scale` are numbers in place, or learned under those names.
fn method(generator: &mut Generator) -> Method {
    let given = |generator: &mut Generator, name: &str| {
        let number = generator.number(Want::Positive);
        let learned = generator.names.is_free(name) && generator.random.one_in(2);
        if learned {
            generator.names.reserve(&[name]);
            return Value::Learn { init: Expr::number(2).plus(number), each: Each::heads(generator.random.one_in(2)) };
        }
        Value::Fixed(Expr::number(2).plus(number))
    };
    match generator.random.below(8) {
        0..=3 => Method::Exact { scale: None },
        4 => Method::Exact { scale: Some(given(generator, "scale")) },
        _ => {
            let alpha = generator.random.chance(0.7).then(|| given(generator, "alpha"));
            let scale = generator.random.one_in(4).then(|| given(generator, "scale"));
            Method::Taylor { order: generator.random.below(4) as u32, scale, alpha }
        }
    }
}

fn own(generator: &mut Generator, solves: bool) -> Optimizer {
    let mut body = vec![];
    let mut states: Vec<String> = vec![];
    for _ in 0..generator.random.below(3) {
        let name = generator.names.fresh(&mut generator.random);
        let init = match generator.random.below(4) {
            0 => Expr::number(1),
            1 => number(generator, Want::Any),
            _ => Expr::number(0),
        };
        body.push(Statement::State(name.clone(), init));
        states.push(name);
    }
    let mut forces: Vec<Expr> = vec![];
    let mut learns = false;
    let system = solves.then(|| {
        let curvature = match generator.random.below(4) {
            0 => Expr::number(-1),
            1 => number(generator, Want::Positive),
            _ => Expr::number(1),
        };
        let shift = match generator.random.below(4) {
            0 => Expr::number(2),
            1 => Expr::number(3).plus(number(generator, Want::Positive)),
            _ => Expr::number(4),
        };
        let method = method(generator);
        learns = method.values().into_iter().flatten().any(|value| matches!(value, Value::Learn { .. }));
        (curvature, shift, Way::Here(method))
    });
    // What a way to solve declares, it declares once.
    let count = if learns { 1 } else { 1 + generator.random.below(2) };
    for _ in 0..count {
        let point = point(generator, &states, &forces);
        let point = match generator.random.one_in(3) {
            true => {
                let name = generator.names.fresh(&mut generator.random);
                body.push(Statement::Let(name.clone(), point));
                Expr::Name(name)
            }
            false => point,
        };
        let force = match &system {
            None => Expr::Gradient(Box::new(point)),
            Some((curvature, shift, way)) => {
                let (curvature, shift, way) = (curvature.clone(), shift.clone(), way.clone());
                Expr::Solve(Box::new(Solve { curvature, shift, point, way }))
            }
        };
        let name = generator.names.fresh(&mut generator.random);
        body.push(Statement::Let(name.clone(), force));
        forces.push(Expr::Name(name));
    }
    for (i, state) in states.iter().enumerate() {
        let force = generator.random.pick(&forces);
        let carried = Expr::ratio(4, 5).times(Expr::name(state));
        let value = match generator.random.below(5) {
            0 => carried.plus(Expr::ratio(1, 5).times(force.to(2, 1))),
            1 => carried.plus(shaped(generator, force)),
            2 => Expr::name(state).pair(Pairing::Max, force.apply(Function::Abs)),
            3 if i > 0 => carried.plus(Expr::name(&states[0])),
            _ => carried.plus(number(generator, Want::Any).times(force)),
        };
        body.push(Statement::Assign(state.clone(), value));
    }
    let force = generator.random.pick(&forces);
    let mut step = shaped(generator, force);
    for state in &states {
        step = match generator.random.below(3) {
            0 => step.plus(Expr::name(state)),
            1 => step.over(Expr::name(state).to(2, 1).plus(Expr::number(1)).apply(Function::Sqrt)),
            _ => step.minus(number(generator, Want::Positive).times(Expr::name(state))),
        };
    }
    let size = number(generator, Want::Positive);
    body.push(Statement::Assign("z".to_string(), Expr::Token.minus(size.times(step))));
    let mut params = std::mem::take(&mut generator.params);
    params.retain(|p| body.iter().any(|statement| statement.value().mentions(&p.name)));
    let place = if generator.random.one_in(3) { Place::File } else { Place::Section };
    Optimizer { name: Names::title(&mut generator.random), params, body, place }
}

/// A number in a program, written out or a parameter.
fn number(generator: &mut Generator, want: Want) -> Expr {
    if generator.random.one_in(2) {
        return generator.number(want);
    }
    let name = generator.names.fresh(&mut generator.random);
    let value = value(generator, want);
    generator.params.push(Param { name: name.clone(), value, is_positive: false });
    Expr::Name(name)
}

/// A point at which a gradient is taken.
fn point(generator: &mut Generator, states: &[String], forces: &[Expr]) -> Expr {
    match generator.random.below(4) {
        0 if !states.is_empty() => {
            let state = Expr::name(&generator.random.pick(states));
            Expr::Token.minus(number(generator, Want::Positive).times(state))
        }
        1 | 2 if !forces.is_empty() => {
            let force = generator.random.pick(forces);
            Expr::Token.minus(number(generator, Want::Positive).times(force))
        }
        3 => Expr::Token.times(Expr::ratio(3, 4)),
        _ => Expr::Token,
    }
}

/// A vector made of a force.
fn shaped(generator: &mut Generator, force: Expr) -> Expr {
    match generator.random.below(10) {
        0 => force.apply(Function::Sign),
        1 => force.apply(Function::Tanh),
        2 => {
            let norm = force.clone().apply(Function::Norm);
            force.over(Expr::number(1).pair(Pairing::Max, norm))
        }
        3 => {
            let square = force.clone().to(2, 1);
            force.times(square.negated().apply(Function::Exp))
        }
        4 => {
            let size = force.clone().apply(Function::Abs).apply(Function::Sqrt);
            force.apply(Function::Sign).times(size)
        }
        5 => force.pair(Pairing::Max, Expr::ratio(-1, 2)),
        6 => force.clone().minus(force.apply(Function::Mean)),
        _ => force,
    }
}
