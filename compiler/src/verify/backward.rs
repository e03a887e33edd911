//! The backward pass against slopes of ⟨g, direction⟩ in every input.

use super::parts::Parts;
use super::report::Line;
use super::samples::{Mask, Sample, Source};
use super::slopes::{self, moved};
use super::steady::beyond_rounding;
use super::trials::{Gap, gap, run};
use crate::check::inputs;
use crate::ir::eval::{Env, evaluate_all};
use crate::ir::tensor::Tensor;
use crate::ir::{Expr, Leaf};

const TOLERANCE: f64 = 1e-6;
const SOLVED: f64 = 1e-5;

/// An input and the formula for its cotangent; 0 where the backward pass has none.
type Claim = (Leaf, Expr);

/// All of the backward pass.
pub fn vjp(parts: &Parts) -> Line {
    let loss = Expr::leaf(parts.backward.cotangent.clone()).times(&parts.direction());
    let claims: Vec<Claim> = parts.inputs().into_iter().map(|input| (input.clone(), parts.cotangent(&input))).collect();
    let leaves = claims.iter().map(|(leaf, _)| Expr::leaf(leaf.clone()));
    let terms = std::iter::once(loss.clone()).chain(leaves).collect();
    let source = Source::new(terms, parts.norms()).of(parts.energy());

    // The terms of a solved system cancel in more than one place, and leave rounding behind.
    let tolerance = if parts.derivation.preconditioned.is_some() { SOLVED } else { TOLERANCE };
    let slopes = |mask| run(&source.masked(mask), |sample| against_slopes(&claims, &loss, tolerance, sample));
    let blind = run(&source.masked(Mask::BlindRow), |sample| {
        unmoved_by_blind_row(&claims, &parts.backward.cotangent, sample).map(Some)
    });
    let tally = [Mask::Partial, Mask::BlindRow].map(slopes).into_iter().fold(slopes(Mask::None), |a, b| a.join(b));
    let tally = tally.join(blind);
    let used = claims.iter().filter(|(_, formula)| !formula.is_zero());
    let names: Vec<&str> = used.map(|(leaf, _)| &*leaf.name).collect();
    let detail = format!(
        "cotangents of {} (and 0 for any other input) against finite differences of ⟨g, direction⟩, under masks too; \
         a query that sees nothing adds exactly 0; {} samples",
        names.join(", "),
        tally.samples
    );
    Line { name: "vjp", detail, outcome: tally.outcome(tolerance) }
}

fn values(claims: &[Claim], env: &Env) -> Result<Vec<Tensor>, String> {
    let formulas: Vec<Expr> = claims.iter().map(|(_, formula)| formula.clone()).collect();
    evaluate_all(&formulas, env)
}

fn against_slopes(claims: &[Claim], loss: &Expr, tolerance: f64, sample: &Sample) -> Result<Option<Gap>, String> {
    let env = &sample.env;
    let mut worst = Gap::NONE;
    for ((input, _), got) in claims.iter().zip(values(claims, env)?) {
        if env.work.is_spent() {
            return Ok(None);
        }
        let Some(expected) = slopes::gradient(loss, input, env)? else { return Ok(None) };
        worst = worst.or(gap(&format!("∂{}", input.name), &got, &expected, env.sizes));
    }
    beyond_rounding(worst, tolerance, env, |env| {
        let differences = slopes::value(loss, &inputs::q().axes, env)?.map(|x| x / slopes::STEP);
        Ok(values(claims, env)?.into_iter().chain([differences]).collect())
    })
}

/// The first query sees nothing: its own cotangent is exactly 0, and its q and g change nobody's.
fn unmoved_by_blind_row(claims: &[Claim], cotangent: &Leaf, sample: &Sample) -> Result<Gap, String> {
    let width = sample.env.sizes.head;
    let shift = |x: &mut Tensor| x.data.iter_mut().take(width).for_each(|x| *x += 1.0);
    let other = moved(&moved(&sample.env, &inputs::q(), shift), cotangent, shift);
    let (before, after) = (values(claims, &sample.env)?, values(claims, &other)?);
    for (((input, _), before), after) in claims.iter().zip(&before).zip(&after) {
        let own = slopes::along(before, &input.axes, &sample.env);
        if input.same_input(&inputs::q()) && own.data.iter().take(width).any(|x| *x != 0.0) {
            return Ok(Gap::impossible("∂q of a query that sees nothing is not 0".to_string()));
        }
        if before.data != after.data {
            return Ok(Gap::impossible(format!("a query that sees nothing changes ∂{}", input.name)));
        }
    }
    Ok(Gap::NONE)
}
