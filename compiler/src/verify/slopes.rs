//! Finite differences: the expected values of verification.
//!
//! D(h) = (f(x + h) − f(x − h)) / 2h at h and 2h; the value is Richardson's (4 D(h) − D(2h)) / 3, and where the two
//! disagree the difference is not to be trusted (a kink, a pole or noise is too near) and there is no value. Nor is there
//! one where f is so large that its last digit alone would change D.

use crate::ir::eval::{Env, evaluate};
use crate::ir::tensor::Tensor;
use crate::ir::{Axis, Expr, Leaf};

/// The step, relative to 1 + |x|.
pub const STEP: f64 = 3e-5;
/// How far D(h) and D(2h) may be apart, relative to 1 + |D|.
const TRUST: f64 = 1e-6;

/// f'(0) entry by entry.
fn slope(f: impl Fn(f64) -> Result<Tensor, String>, step: f64) -> Result<Option<Tensor>, String> {
    // With what the last digit of f amounts to.
    let central = |h: f64| -> Result<(Tensor, Vec<f64>), String> {
        let (up, down) = (f(h)?, f(-h)?);
        let digit = up.data.iter().map(|u| u.abs() * f64::EPSILON / (2.0 * h)).collect();
        let data = up.data.iter().zip(&down.data).map(|(u, d)| (u - d) / (2.0 * h)).collect();
        Ok((Tensor { data, ..up }, digit))
    };
    let ((fine, digits), (coarse, _)) = (central(step)?, central(2.0 * step)?);
    let pairs = || fine.data.iter().zip(&coarse.data);
    let are_close = pairs().all(|(f, c)| (f - c).abs() <= TRUST * (1.0 + f.abs()));
    let trusted = are_close && fine.data.iter().zip(&digits).all(|(f, digit)| *digit <= TRUST * (1.0 + f.abs()));
    let data = pairs().map(|(f, c)| (4.0 * f - c) / 3.0).collect();
    Ok(trusted.then_some(Tensor { data, ..fine.clone() }))
}

/// ∂ Σ e/∂input, every entry by itself.
pub fn gradient(e: &Expr, input: &Leaf, env: &Env) -> Result<Option<Tensor>, String> {
    entrywise(|env| Ok(evaluate(e, env)?.data.iter().sum()), input, env)
}

/// ∂f/∂input, every entry by itself.
pub fn entrywise(f: impl Fn(&Env) -> Result<f64, String>, input: &Leaf, env: &Env) -> Result<Option<Tensor>, String> {
    let value = env.values.get(&*input.name).ok_or(format!("no value for input `{}`", input.name))?;
    let entry = |(at, x): (usize, &f64)| {
        let f = |h: f64| f(&moved(env, input, |x| x.data[at] += h)).map(Tensor::scalar);
        Ok(slope(f, STEP * (1.0 + x.abs()))?.map(|slope| slope.data[0]))
    };
    let data = value.data.iter().enumerate().map(entry).collect::<Result<Option<Vec<f64>>, String>>()?;
    Ok(data.map(|data| Tensor { axes: input.axes.clone(), shape: value.shape.clone(), data }))
}

/// The change of `e` as `input` moves along the direction held under the name of `along`.
pub fn directional(e: &Expr, input: &Leaf, along: &Leaf, env: &Env) -> Result<Option<Tensor>, String> {
    let direction = env.values.get(&*along.name).ok_or(format!("no value for `{}`", along.name))?;
    let f = |h: f64| {
        let add = |x: &mut Tensor| x.data.iter_mut().zip(&direction.data).for_each(|(x, d)| *x += h * d);
        evaluate(e, &moved(env, input, add))
    };
    slope(f, STEP)
}

/// The inputs with one of them changed.
pub fn moved(env: &Env, input: &Leaf, change: impl FnOnce(&mut Tensor)) -> Env {
    let mut env = env.clone();
    if let Some(value) = env.values.get_mut(&*input.name) {
        change(value);
    }
    env
}

/// The value of a term over these axes, whichever of them it has.
pub fn value(e: &Expr, axes: &[Axis], env: &Env) -> Result<Tensor, String> {
    Ok(along(&evaluate(e, env)?, axes, env))
}

/// A tensor over the declared axes of an input, whatever axes the evaluated one has.
pub fn along(x: &Tensor, axes: &[Axis], env: &Env) -> Tensor {
    let shape = Tensor::build(axes, |a| env.sizes.length(a), |_| 0.0);
    crate::ir::tensor::broadcast(&[&shape, x], |a| env.sizes.length(a), |v| v[1])
}
