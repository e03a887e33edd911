//! First derivatives: ∇_q F_h, ∂F_h/∂z, and the direction made from them.

use super::parts::{Parts, through_z, tied};
use super::report::Line;
use super::samples::{Mask, Source};
use super::slopes;
use super::steady::beyond_rounding;
use super::trials::{Gap, Tally, gap, run};
use crate::check::inputs;
use crate::ir::eval::Env;
use crate::ir::tensor::Tensor;
use crate::ir::{Expr, Leaf};

const TOLERANCE: f64 = 1e-6;

/// The derived gradient against slopes of the energy in q.
pub fn in_q(parts: &Parts) -> Line {
    let derived = parts.reveal(&parts.derivation.gradient.term);
    let mut tally = against_slopes(parts, &derived, parts.energy(), &inputs::q());
    let mut detail = format!("∇_q F against finite differences of {}", parts.energy_name());
    if parts.is_constrained() {
        tally = tally.join(tangential(parts, &derived));
        detail += "; along the constraint also of F as the recipe gives it";
    }
    line("gradient", detail, tally)
}

/// The gradient through q = W1 z against slopes of the energy in z.
pub fn in_z(parts: &Parts) -> Line {
    let energy = through_z(parts.energy());
    let tally = against_slopes(parts, &parts.gradient_in_z, &energy, &inputs::z());
    let detail = format!("∂F/∂z with q = W1 z against finite differences in z of {}", parts.energy_name());
    line("gradient in z", detail, tally)
}

/// The direction with k in the place of v against the negative slopes.
pub fn direction(parts: &Parts) -> Line {
    let derived = tied(&parts.direction()).neg();
    let tally = against_slopes(parts, &derived, parts.energy(), &inputs::q());
    let detail = format!("−direction, with k in the place of v, against finite differences of {}", parts.energy_name());
    line("direction", detail, tally)
}

fn line(name: &'static str, detail: String, tally: Tally) -> Line {
    let detail = format!("{detail}; {} samples, some masked", tally.samples);
    Line { name, detail, outcome: tally.outcome(TOLERANCE) }
}

/// A term against the slopes of an energy, all tokens visible and some.
fn against_slopes(parts: &Parts, derived: &Expr, energy: &Expr, input: &Leaf) -> Tally {
    over_masks(parts, derived, energy, input, |env, got, expected| gap("the entry ", got, expected, env.sizes))
}

/// On ‖q‖ = ρ the energy before and after the constraint agree, and so do their slopes but for the radial part.
fn tangential(parts: &Parts, derived: &Expr) -> Tally {
    let holds_q = parts.recipe().constraints.iter().any(|c| c.vector.same_input(&inputs::q()));
    over_masks(parts, derived, &parts.recipe().energy, &inputs::q(), |env, got, expected| {
        let project = |x: &Tensor| if holds_q { without_radial(x, env) } else { x.clone() };
        gap("the tangential entry ", &project(got), &project(expected), env.sizes)
    })
}

fn over_masks(
    parts: &Parts,
    derived: &Expr,
    energy: &Expr,
    input: &Leaf,
    compare: impl Fn(&Env, &Tensor, &Tensor) -> Gap,
) -> Tally {
    let terms = vec![derived.clone(), energy.clone(), Expr::leaf(input.clone())];
    let source = Source::new(terms, parts.norms()).of(energy);
    let tally = [Mask::None, Mask::Partial].map(|mask| {
        run(&source.masked(mask), |sample| {
            let Some(expected) = slopes::gradient(energy, input, &sample.env)? else { return Ok(None) };
            let got = slopes::value(derived, &input.axes, &sample.env)?;
            let values = |env: &Env| Ok(vec![slopes::value(derived, &input.axes, env)?]);
            beyond_rounding(compare(&sample.env, &got, &expected), TOLERANCE, &sample.env, values)
        })
    });
    let [all, some] = tally;
    all.join(some)
}

/// g − q (q·g)/‖q‖², row by row.
fn without_radial(g: &Tensor, env: &Env) -> Tensor {
    let Some(q) = env.values.get(&*inputs::q().name) else { return g.clone() };
    let width = env.sizes.head;
    let rows = g.data.chunks(width).zip(q.data.chunks(width));
    let data = rows.flat_map(|(g, q)| {
        let (along, square) = g.iter().zip(q).fold((0.0, 0.0), |(a, s), (g, q)| (a + g * q, s + q * q));
        let share = if square > 0.0 { along / square } else { 0.0 };
        g.iter().zip(q).map(move |(g, q)| g - q * share).collect::<Vec<_>>()
    });
    Tensor { data: data.collect(), ..g.clone() }
}
