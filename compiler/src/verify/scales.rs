//! Digits: what single precision makes of inputs of all sizes.
//!
//! The plan runs in f32 and in f64 with inputs scaled by 1 … 10⁴. What may get lost is what the problem itself loses: the
//! f64 result is computed again at inputs that are off by a rounding of f32, and an error may be so many times larger than
//! that movement and than the rounding of what the result is made of. More is a loss, and is named with its place. A value
//! that is too large for f32 is nobody's loss: it is told apart.
//!
//! Where one token has all the weight, gradients are differences of numbers that are nearly equal, and the digits of these
//! count: those of ∂F/∂x are F/x, those of ∂⟨g, out⟩/∂x are out/x, times F where x changes the weights.

use super::chain::{Case, DIRECTION, ENERGY, OF_ENERGY, Values};
use super::report::{Line, Outcome};
use crate::check::inputs;
use crate::interpret::HeadSize;
use crate::ir::eval::Env;
use crate::ir::sample::nudged_by;
use crate::plan::unconstrained;
use crate::primitives::visible::Visible;

pub const LINE: &str = "single precision";

const SCALES: [f64; 5] = [1.0, 10.0, 100.0, 1e3, 1e4];
const NAMES: [&str; 5] = ["1", "10", "10²", "10³", "10⁴"];
const SIZE: HeadSize = HeadSize { queries: 5, tokens: 7, head: 4 };
/// A loss counts where it is seen in most of the draws: a single one may sit on a kink.
const DRAWS: u64 = 3;
/// Half the distance of two numbers of f32 around 1.
const ROUNDING: f64 = 1.0 / (1 << 24) as f64;
/// How often what the problem allows may go into an error: sums have several terms, and formulas several steps.
const ALLOWED: f64 = 128.0;
/// Results below are as good as 0.
const SMALLEST: f64 = 1e-30;
/// Inputs up to this size are ordinary: what is not finite there is a mistake.
const ORDINARY: f64 = 1.0;
/// Plans of more values are run at fewer places, and beyond that not at all.
const LONG: usize = 2_000;
const TOO_LONG: usize = 10_000;

/// What one array came to.
enum Judged {
    /// The relative error, and the one that the problem allows.
    Right(f64, f64),
    /// The relative error, and the one that the problem allows.
    Lost(f64, f64),
    NotFinite,
    /// The true value is no number of f32.
    TooLarge,
}

/// The plan in f32 against itself in f64.
pub fn line(case: &Case) -> Line {
    let values = case.plan.graph.nodes.len();
    if values > TOO_LONG {
        let detail = "the plan in f32 against f64, at inputs of all sizes".to_string();
        let reason = "the formulas are too long to look at a sample".to_string();
        return Line { name: LINE, detail, outcome: Outcome::Inconclusive { reason } };
    }
    let most_draws = if values > LONG { 1 } else { DRAWS };
    let visible = Visible::causal(SIZE.queries, SIZE.tokens);
    let mut digits: Vec<String> = Vec::new();
    let mut lost: Vec<String> = Vec::new();
    let (mut too_large_from, mut is_mistaken) = (None, false);
    // The error that is the largest part of what is allowed, and that.
    let (mut worst, mut allowed) = (0.0f64, ALLOWED * ROUNDING);
    for (scale, name) in SCALES.into_iter().zip(NAMES) {
        let draws: Vec<Vec<(String, Judged)>> =
            (0..most_draws).map(|draw| judged(case, &visible, scale, draw)).collect();
        let all = || draws.iter().flatten();
        if all().any(|(_, judged)| matches!(judged, Judged::TooLarge)) {
            too_large_from.get_or_insert(name);
        }
        let error = all().fold(0.0f64, |error, (_, judged)| match judged {
            Judged::Right(own, _) | Judged::Lost(own, _) => error.max(*own),
            Judged::NotFinite => f64::INFINITY,
            Judged::TooLarge => error,
        });
        for (_, judged) in all() {
            match judged {
                Judged::Right(own, most) | Judged::Lost(own, most) if own * allowed > worst * most => {
                    (worst, allowed) = (*own, *most);
                }
                Judged::NotFinite => worst = f64::INFINITY,
                _ => {}
            }
        }
        digits.push(format!("{:.1}", (-error.log10()).clamp(0.0, 7.2)));
        let is_bad = |judged: &Judged| matches!(judged, Judged::Lost(..) | Judged::NotFinite);
        let most =
            |array: &str| 2 * all().filter(|(of, judged)| of == array && is_bad(judged)).count() > most_draws as usize;
        if let Some((array, judged)) = all().find(|(array, judged)| is_bad(judged) && most(array)) {
            let place = format!("{} at inputs of {name}", words(array));
            lost.push(match judged {
                Judged::Lost(own, allowed) => {
                    let digits = |error: f64| format!("{:.1}", (-error.log10()).max(0.0));
                    format!("{place} has {} digits where {} could be right", digits(*own), digits(*allowed))
                }
                _ => format!("{place} is not finite"),
            });
            is_mistaken |= matches!(judged, Judged::NotFinite) && scale <= ORDINARY;
        }
    }
    let mut detail = format!(
        "the plan in f32 against f64, inputs times 1, 10, 10², 10³, 10⁴: {} digits are right",
        digits.join(", ")
    );
    if let Some(name) = too_large_from {
        detail.push_str(&format!("; from {name} on some values are too large for f32 by themselves"));
    }
    let outcome = match lost.is_empty() {
        true => Outcome::Pass { error: worst, tolerance: allowed },
        false if is_mistaken => Outcome::Fail { error: worst, tolerance: allowed, where_: lost.join("; ") },
        false => Outcome::Warning { reason: lost.join("; ") },
    };
    Line { name: LINE, detail, outcome }
}

fn words(array: &str) -> String {
    match array {
        DIRECTION | ENERGY => array.to_string(),
        _ => match array.strip_prefix(OF_ENERGY) {
            Some(input) => format!("∂{input} of the energy"),
            None => format!("∂{array}"),
        },
    }
}

/// Every array of one draw.
fn judged(case: &Case, visible: &Visible, scale: f64, draw: u64) -> Vec<(String, Judged)> {
    let mut env = case.sample(SIZE, visible, 31 + draw);
    let mut settled = |change: &mut dyn FnMut(&str, f64) -> f64| {
        for (name, x) in &mut env.values {
            x.data.iter_mut().for_each(|x| *x = change(name, *x));
        }
        case.settle(&mut env);
    };
    let tokens = [inputs::q(), inputs::k(), inputs::v()];
    let is_token = |name: &str| tokens.iter().any(|leaf| name == &*leaf.name || name == &*unconstrained(leaf).name);
    settled(&mut |name, x| f64::from((if is_token(name) { scale * x } else { x }) as f32));
    let expected = case.planned::<f64>(&env, visible);
    let moved: Vec<Values> =
        (0..3).map(|seed| case.planned::<f64>(&rounded(case, &env, 7 * draw + seed), visible)).collect();
    let got = case.planned::<f32>(&env, visible);
    let judge = |(name, x): (&String, &Vec<f64>)| {
        let largest = largest_of(x).max(made_of(name, &expected, &env)).min(f64::from(f32::MAX));
        let y = got.get(name)?;
        let gap = |a: &[f64], b: &[f64]| a.iter().zip(b).fold(0.0f64, |m, (a, b)| m.max((a - b).abs()));
        let is_finite = |x: &[f64]| x.iter().all(|x| x.is_finite());
        let judged = match () {
            _ if !is_finite(x) || largest_of(x) > f64::from(f32::MAX) => Judged::TooLarge,
            _ if !is_finite(y) => Judged::NotFinite,
            _ if largest < SMALLEST => Judged::Right(0.0, ALLOWED * ROUNDING),
            _ => {
                let movement = moved.iter().filter_map(|m| m.get(name)).fold(0.0f64, |m, other| m.max(gap(x, other)));
                let allowed = ALLOWED * (movement / largest + ROUNDING);
                let error = gap(x, y) / largest;
                if error <= allowed { Judged::Right(error, allowed) } else { Judged::Lost(error, allowed) }
            }
        };
        Some((name.clone(), judged))
    };
    expected.iter().filter_map(judge).collect()
}

fn largest_of(x: &[f64]) -> f64 {
    x.iter().fold(0.0f64, |m, x| m.max(x.abs()))
}

/// The size of what an array is made of.
fn made_of(name: &str, values: &Values, env: &Env) -> f64 {
    let of = |name: &str| values.get(name).map_or(0.0, |x| largest_of(x));
    // An input that is 0 counts as 1.
    let input = |name: &str| env.values.get(name).map(|x| largest_of(&x.data)).filter(|x| *x > 0.0).unwrap_or(1.0);
    let (direction, energy) = (of(DIRECTION), of(ENERGY));
    match name {
        DIRECTION => input("q").max(input("v")),
        ENERGY => 0.0,
        "v" => direction / input("v"),
        _ => match name.strip_prefix(OF_ENERGY) {
            Some(x) => energy / input(x),
            None => direction * energy.max(1.0) / input(name),
        },
    }
}

/// The inputs, each off by a rounding at the most.
fn rounded(case: &Case, env: &Env, seed: u64) -> Env {
    let mut env = nudged_by(env, ROUNDING, seed);
    case.settle(&mut env);
    env
}
