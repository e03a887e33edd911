//! Smooth functions of tensors. Values and slopes are computed apart, each without overflow and without subtracting what
//! is nearly equal: the formula of a value is a poor formula of its slope.

use super::tensor::{choose, number};
use candle_core::{Result, Tensor};

/// y with the gradient of a curve through (x, y) with this slope; neither needs a gradient of its own.
fn curve(x: &Tensor, y: &Tensor, slope: &Tensor) -> Result<Tensor> {
    y.detach() + ((x - x.detach())? * slope.detach())?
}

/// e^-|x|.
fn small(x: &Tensor) -> Result<Tensor> {
    x.abs()?.neg()?.exp()
}

/// log(1 + x): what is lost in w = 1 + x is c, and log(w + c) = log w + c/w.
fn log_near_1(x: &Tensor) -> Result<Tensor> {
    let w = (x + 1.0)?;
    let lost = (x - (&w - 1.0)?)?;
    w.log()? + (lost / &w)?
}

fn sigmoid_value(x: &Tensor) -> Result<Tensor> {
    let u = small(x)?;
    choose(&x.lt(0.0)?, &u, &number(1.0, x)?)? / (u + 1.0)?
}

fn slope_value(x: &Tensor) -> Result<Tensor> {
    let u = small(&(x * 2.0)?)?;
    (&u * 4.0)? / (u + 1.0)?.sqr()?
}

/// 1 / (1 + e^-x).
pub fn sigmoid(x: &Tensor) -> Result<Tensor> {
    let at = x.detach();
    let u = small(&at)?;
    curve(x, &sigmoid_value(&at)?, &(&u / (&u + 1.0)?.sqr()?)?)
}

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|).
pub fn softplus(x: &Tensor) -> Result<Tensor> {
    let at = x.detach();
    curve(x, &(at.relu()? + log_near_1(&small(&at)?)?)?, &sigmoid_value(&at)?)
}

/// The hyperbolic tangent.
pub fn tangent(x: &Tensor) -> Result<Tensor> {
    let at = x.detach();
    curve(x, &at.tanh()?, &slope_value(&at)?)
}

/// 1 - tanh^2 x = 4u / (1 + u)^2 with u = e^-2|x|.
pub fn tangent_slope(x: &Tensor) -> Result<Tensor> {
    let at = x.detach();
    let y = slope_value(&at)?;
    curve(x, &y, &((at.tanh()? * &y)? * -2.0)?)
}

/// log cosh x: -log(1 - tanh^2 x)/2 near 0, |x| + log(1 + e^-2|x|) - log 2 elsewhere.
pub fn log_cosh(x: &Tensor) -> Result<Tensor> {
    let at = x.detach();
    let is_near = at.abs()?.le(1.0)?;
    let tangent = at.tanh()?;
    // Where it is not near, tanh may be 1.
    let square = choose(&is_near, &tangent.sqr()?, &number(0.0, &at)?)?;
    let near = (log_near_1(&square.neg()?)? * -0.5)?;
    let far = ((at.abs()? + log_near_1(&small(&(&at * 2.0)?)?)?)? - std::f64::consts::LN_2)?;
    curve(x, &choose(&is_near, &near, &far)?, &tangent)
}

/// log(1 + x).
pub fn log_1_plus(x: &Tensor) -> Result<Tensor> {
    let at = x.detach();
    curve(x, &log_near_1(&at)?, &(&at + 1.0)?.recip()?)
}

/// e^x - 1: 2t/(1 - t) with t = tanh(x/2) near 0.
pub fn exp_minus_1(x: &Tensor) -> Result<Tensor> {
    let at = x.detach();
    let is_near = at.abs()?.le(1.0)?;
    let exp = at.exp()?;
    let t = choose(&is_near, &(&at * 0.5)?.tanh()?, &number(0.0, &at)?)?;
    let near = ((&t * 2.0)? / (t.neg()? + 1.0)?)?;
    curve(x, &choose(&is_near, &near, &(&exp - 1.0)?)?, &exp)
}
