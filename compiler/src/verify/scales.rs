//! Digits: what a plan makes of inputs of all sizes, and which precision that takes.
//!
//! The plan runs in f32 and in f64 with inputs scaled by 10⁻³ … 10⁴, and at awkward places: all tokens equal, one huge, a query
//! or tokens that are 0. What may get lost is what the problem itself loses: the f64 result is computed again at inputs that
//! are off by a rounding of f32, and an error may be so many times larger than that movement and than the rounding of the
//! result. Where a plan loses more, or its numbers leave the range of f32 on the way to a result that does not, it is computed
//! in double precision: from inputs of that size on, as smaller ones keep their digits. A value that is too large for f32 is nobody's loss: it is told apart.
//!
//! Where one token has all the weight, gradients are differences of numbers that are nearly equal, and the digits of these
//! count: those of ∂F/∂x are F/x, those of ∂⟨g, out⟩/∂x are out/x, times F where x changes the weights. So it is where the
//! gradient of a vector vanishes because tokens are equal, have one component or are alone. Elsewhere, at inputs up to 1, only its own
//! digits count.
//!
//! The energy, its gradients, and gradients of numbers that nobody learns do not count for the choice: they are always computed
//! in double precision ([`crate::plan::Plan::reach_of`]).

use super::chain::{Case, DIRECTION, ENERGY, OF_ENERGY, Values};
use super::report::{Line, Outcome};
use crate::check::inputs;
use crate::check::recipe::ParamValue;
use crate::interpret::HeadSize;
use crate::ir::eval::Env;
use crate::ir::sample::nudged_by;
use crate::plan::{Precision, Reach, unconstrained};
use crate::primitives::visible::Visible;

pub const LINE: &str = "precision";

const SCALES: [(f64, &str); 8] = [
    (1e-3, "10⁻³"),
    (1e-2, "10⁻²"),
    (0.1, "10⁻¹"),
    (1.0, "1"),
    (10.0, "10"),
    (100.0, "10²"),
    (1e3, "10³"),
    (1e4, "10⁴"),
];

/// Inputs up to this size leave all tokens some weight.
const ORDINARY: f64 = 1.0;

/// Between two scales, where single precision may end.
const BETWEEN: [f64; 2] = [5.0, 2.0];
/// Some entry of every sample is so many times as large as its scale.
const ENTRIES: f64 = 2.0;

/// What is special about a sample, beside its scale.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Ordinary,
    EqualTokens,
    HugeToken,
    ZeroQuery,
    ZeroTokens,
}

impl Place {
    fn words(self) -> &'static str {
        match self {
            Place::Ordinary => "",
            Place::EqualTokens => ", all tokens equal",
            Place::HugeToken => ", one token ten times as large",
            Place::ZeroQuery => ", q = 0",
            Place::ZeroTokens => ", k = 0",
        }
    }
}

/// (queries, tokens, d_h) and the place of every sample of a scale, what says most first.
const SAMPLES: [((usize, usize, usize), Place); 12] = [
    ((3, 5, 3), Place::Ordinary),
    ((1, 1, 2), Place::Ordinary),
    ((3, 5, 3), Place::EqualTokens),
    ((4, 4, 2), Place::HugeToken),
    ((5, 7, 4), Place::Ordinary),
    ((4, 6, 1), Place::Ordinary),
    ((3, 5, 3), Place::ZeroQuery),
    ((3, 5, 2), Place::ZeroTokens),
    ((2, 4, 1), Place::HugeToken),
    ((1, 1, 1), Place::HugeToken),
    ((4, 4, 1), Place::ZeroQuery),
    ((3, 5, 1), Place::EqualTokens),
];

/// Half the distance of two numbers of f32 around 1.
const ROUNDING: f64 = 1.0 / (1 << 24) as f64;
/// How often what the problem allows may go into an error: sums have several terms, and formulas several steps. It is half
/// of what is promised, since a few samples see less than all inputs there are.
const ALLOWED: f64 = 64.0;
/// How often the result is computed at inputs nearby.
const NUDGES: u64 = 4;
/// What moves by more than this part of itself is no place to look.
const VAGUE: f64 = 1e-3;
/// What double precision leaves of terms that cancel is at most this part of them.
const NOISE: f64 = 1e-13;
/// Results below are as good as 0.
const SMALLEST: f64 = 1e-30;
/// Values that are computed for one scale; longer plans are run on fewer samples.
const WORK: usize = 16_000;
/// How often short plans are run on every sample.
const MOST_DRAWS: usize = 3;
/// Longer ones are not looked at: they take the digits they can get.
const TOO_LONG: usize = 10_000;

/// What one array came to: the error and what is allowed, both relative to the array's largest entry.
enum Judged {
    Kept {
        error: f64,
        allowed: f64,
    },
    /// Finite, where a rounding of the inputs leaves nothing of the result.
    Vague,
    Lost {
        error: f64,
        allowed: f64,
    },
    NotFinite,
    /// The true value is no number of f32.
    TooLarge,
}

/// What came of the samples of one scale.
#[derive(Default)]
struct AtScale {
    error: f64,
    /// The error that is the largest part of what is allowed, and that.
    worst: (f64, f64),
    /// The first thing that is lost, in words.
    lost: Option<String>,
    is_too_large: bool,
    samples: usize,
}

/// What single precision makes of every scale, and how far it does.
pub struct Measured {
    scales: Vec<AtScale>,
    reach: Reach,
}

/// The case with its plan in the precisions it takes, and what single precision makes of it; nothing is known of a plan that is
/// too long.
pub fn in_precision(mut case: Case) -> (Case, Option<Measured>) {
    let single = measured(&case);
    let reach = single.as_ref().map_or(Reach::Nowhere, |single| single.reach);
    case.plan = case.plan.in_single(reach);
    (case, single)
}

/// What single precision makes of inputs of all sizes. Nothing for a plan that is too long.
fn measured(case: &Case) -> Option<Measured> {
    if case.plan.graph.nodes.len() > TOO_LONG {
        return None;
    }
    let scales: Vec<AtScale> = SCALES.iter().map(|scale| at_scale(case, Precision::Single, *scale)).collect();
    let reach = match scales.iter().position(|at| at.lost.is_some()) {
        None => Reach::Everywhere,
        Some(0) => Reach::Nowhere,
        Some(i) => {
            let (last, _) = SCALES[i - 1];
            let keeps = |factor: &f64| at_scale(case, Precision::Single, (factor * last, "")).lost.is_none();
            let factor = BETWEEN.into_iter().find(keeps).unwrap_or(1.0);
            Reach::UpTo((ENTRIES * factor * last) as f32)
        }
    };
    Some(Measured { scales, reach })
}

/// What the plan makes of inputs of all sizes, in its precisions.
pub fn line(case: &Case, single: Option<Measured>) -> Line {
    let Some(Measured { scales: single, reach }) = single else {
        let detail = "what runs, at inputs times 10⁻³ to 10⁴ and at awkward places".to_string();
        let reason = "the formulas are too long to look at a sample; they are computed in double precision".to_string();
        return Line { name: LINE, detail, outcome: Outcome::Inconclusive { reason } };
    };
    let lost = single.iter().find_map(|at| at.lost.clone());
    let why = lost.map(|lost| format!(", since in single precision {lost}")).unwrap_or_default();
    let mut has_lost = false;
    let mut found = vec![];
    for (at, scale) in single.into_iter().zip(SCALES) {
        has_lost |= at.lost.is_some();
        found.push(if has_lost { at_scale(case, Precision::Double, scale) } else { at });
    }
    let digits: Vec<String> = found.iter().map(|at| format!("{:.1}", (-at.error.log10()).clamp(0.0, 7.2))).collect();
    let mut detail = format!(
        "computed in {}{why}; at inputs times 10⁻³ … 10⁴, {} digits are right",
        reach.words(),
        digits.join(", ")
    );
    if let Some((_, (_, name))) = found.iter().zip(SCALES).find(|(at, _)| at.is_too_large) {
        detail.push_str(&format!("; from {name} on some values are too large for f32 by themselves"));
    }
    let lost: Vec<String> = found.iter().filter_map(|at| at.lost.clone()).collect();
    let part = |(error, allowed): (f64, f64)| error / allowed;
    let worst = found.iter().map(|at| at.worst).max_by(|x, y| part(*x).total_cmp(&part(*y)));
    let outcome = match worst {
        Some((error, tolerance)) if lost.is_empty() && found.iter().any(|at| at.samples > 0) => {
            Outcome::Pass { error, tolerance }
        }
        _ if lost.is_empty() => {
            Outcome::Inconclusive { reason: "no sample has values that formulas agree on".to_string() }
        }
        _ => Outcome::Warning { reason: lost.join("; ") },
    };
    Line { name: LINE, detail, outcome }
}

/// The plan in a precision at a scale: f32 beside f64, or f64 beside the formulas.
fn at_scale(case: &Case, precision: Precision, (scale, name): (f64, &str)) -> AtScale {
    let count = (WORK / case.plan.graph.nodes.len().max(1)).clamp(2, MOST_DRAWS * SAMPLES.len());
    let mut all = AtScale { worst: (0.0, ALLOWED * ROUNDING), ..AtScale::default() };
    for (number, (size, place)) in (0..).zip(SAMPLES.iter().cycle()).take(count) {
        for (array, judged) in judged(case, precision, *size, (scale, *place), number) {
            all.samples += 1;
            let at = || format!("{} at inputs of {name}{}", words(&array), place.words());
            match judged {
                Judged::Kept { error, allowed } => {
                    all.error = all.error.max(error);
                    let (most, of) = all.worst;
                    if error * of >= most * allowed {
                        all.worst = (error, allowed);
                    }
                }
                Judged::Lost { error, allowed } => {
                    all.error = all.error.max(error);
                    let digits = |error: f64| format!("{:.1}", (-error.log10()).max(0.0));
                    let (has, could) = (digits(error), digits(allowed / ALLOWED));
                    all.lost.get_or_insert(format!("{} has {has} digits where {could} could be right", at()));
                }
                Judged::Vague => {}
                Judged::NotFinite => {
                    all.error = 1.0;
                    all.lost.get_or_insert(format!("{} is not finite", at()));
                }
                Judged::TooLarge => all.is_too_large = true,
            }
        }
    }
    all
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

/// Every array of one sample.
fn judged(
    case: &Case,
    precision: Precision,
    (queries, tokens, head): (usize, usize, usize),
    (scale, place): (f64, Place),
    number: u64,
) -> Vec<(String, Judged)> {
    let size = HeadSize { queries, tokens, head };
    let visible = &Visible::causal(queries, tokens);
    let env = sample(case, size, visible, (scale, place), number);
    let nudged = || (0..NUDGES).map(|seed| rounded(case, &env, 7 * number + seed));
    let (expected, moved, got) = match precision {
        Precision::Single => {
            let moved: Vec<Values> = nudged().map(|env| case.planned::<f64>(&env, visible)).collect();
            (case.planned::<f64>(&env, visible), moved, case.planned::<f32>(&env, visible))
        }
        Precision::Double => {
            let moved: Result<Vec<Values>, String> = nudged().map(|env| case.reference(&env)).collect();
            let (Ok(expected), Ok(moved)) = (case.reference(&env), moved) else { return vec![] };
            (expected, moved, case.planned::<f64>(&env, visible))
        }
    };
    let is_known = |x: &[f64]| precision == Precision::Single || x.iter().all(|x| x.is_finite());
    // The energy and gradients of constants are computed in double precision whatever the plan is.
    let counts = |name: &str| precision == Precision::Double || !(is_of_energy(name) || is_constant(case, name));
    expected
        .iter()
        .filter(|(name, x)| counts(name) && is_known(x))
        .filter_map(|(name, x)| {
            let moved: Vec<&Vec<f64>> = moved.iter().filter_map(|values| values.get(name)).collect();
            let is_number = x.len() == 1 || case.recipe().param(name).is_some();
            let is_alone = is_number && tokens == 1;
            let is_small = is_number || place == Place::Ordinary && head > 1 && tokens > 1;
            let is_plain = is_alone || scale <= ORDINARY && is_small;
            let of_parts = made_of(name, &expected, &env);
            let got = got.get(name)?;
            // A single token has all the weight, and what is 0 because of that is what the weights' cotangents round to.
            let may_vanish = precision == Precision::Single && is_number && tokens > 1;
            let judged = match may_vanish && is_lost_zero(x, &moved, got, of_parts) {
                true => Judged::Lost { error: gap(x, got) / of_parts, allowed: NOISE },
                false => judge(x, &moved, got, if is_plain { 0.0 } else { of_parts }),
            };
            Some((name.clone(), judged))
        })
        .collect()
}

/// Whether an array is 0 because terms cancel, which moves by their rounding in double precision alone, and what was computed
/// is not.
fn is_lost_zero(x: &[f64], moved: &[&Vec<f64>], got: &[f64], of_parts: f64) -> bool {
    let noise = moved.iter().fold(largest_of(x), |most, other| most.max(gap(x, other)));
    noise <= NOISE * of_parts && gap(x, got) > NOISE * of_parts
}

/// The largest difference of two arrays' entries.
fn gap(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).fold(0.0f64, |m, (a, b)| m.max((a - b).abs()))
}

/// An array against what it should be, at inputs nearby too; `of_parts` is the size of what it is made of.
fn judge(x: &[f64], moved: &[&Vec<f64>], got: &[f64], of_parts: f64) -> Judged {
    let largest = largest_of(x).max(of_parts).min(f64::from(f32::MAX));
    let is_finite = |x: &[f64]| x.iter().all(|x| x.is_finite());
    if !is_finite(x) || largest_of(x) > f64::from(f32::MAX) {
        return Judged::TooLarge;
    }
    if !is_finite(got) {
        return Judged::NotFinite;
    }
    if largest < SMALLEST {
        return Judged::Kept { error: 0.0, allowed: ALLOWED * ROUNDING };
    }
    let movement = moved.iter().fold(0.0f64, |m, other| m.max(gap(x, other)));
    if movement > VAGUE * largest {
        return Judged::Vague;
    }
    let allowed = ALLOWED * (movement / largest + ROUNDING);
    let error = gap(x, got) / largest;
    if error <= allowed { Judged::Kept { error, allowed } } else { Judged::Lost { error, allowed } }
}

/// Inputs of a scale at a place, as numbers of f32.
fn sample(case: &Case, size: HeadSize, visible: &Visible, (scale, place): (f64, Place), number: u64) -> Env {
    let mut env = case.sample(size, visible, 31 + number);
    let is_named = |name: &str, leaf: crate::ir::Leaf| name == &*leaf.name || name == &*unconstrained(&leaf).name;
    for (name, x) in &mut env.values {
        let is_query = is_named(name, inputs::q());
        let is_key = is_named(name, inputs::k());
        let is_token = is_key || is_named(name, inputs::v());
        let head = size.head;
        match place {
            Place::EqualTokens if is_token => {
                let first = x.data[..head].to_vec();
                x.data.chunks_exact_mut(head).for_each(|token| token.copy_from_slice(&first));
            }
            Place::HugeToken if is_key => x.data.iter_mut().rev().take(head).for_each(|x| *x *= 10.0),
            Place::ZeroQuery if is_query => x.data.fill(0.0),
            Place::ZeroTokens if is_key => x.data.fill(0.0),
            _ => {}
        }
        let scale = if is_query || is_token { scale } else { 1.0 };
        x.data.iter_mut().for_each(|x| *x = f64::from((scale * *x) as f32));
    }
    case.settle(&mut env);
    env
}

fn is_of_energy(name: &str) -> bool {
    name == ENERGY || name.starts_with(OF_ENERGY)
}

/// Whether this is the gradient of a number that nobody learns.
fn is_constant(case: &Case, name: &str) -> bool {
    let input = name.strip_prefix(OF_ENERGY).unwrap_or(name);
    case.recipe().param(input).is_some_and(|param| matches!(param.value, ParamValue::Fixed(_)))
}

fn largest_of(x: &[f64]) -> f64 {
    x.iter().fold(0.0f64, |m, x| m.max(x.abs()))
}

/// The size of what an array is made of; an input that is 0 counts as 1.
fn made_of(name: &str, values: &Values, env: &Env) -> f64 {
    let of = |name: &str| values.get(name).map_or(0.0, |x| largest_of(x));
    let size_of = |name: &str| env.values.get(name).map(|x| largest_of(&x.data)).filter(|x| *x > 0.0);
    // What is differentiated by is the vector before it is brought to its length.
    let vector = [inputs::q(), inputs::k()].into_iter().map(|leaf| (leaf.name.clone(), unconstrained(&leaf).name));
    let before: Vec<_> = vector.collect();
    let input = |name: &str| {
        let before = before.iter().find(|(vector, _)| **vector == *name).and_then(|(_, before)| size_of(before));
        before.or(size_of(name)).unwrap_or(1.0)
    };
    let (direction, energy) = (of(DIRECTION), of(ENERGY));
    match name {
        DIRECTION => input("q").max(input("v")).max(energy / input("q")),
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
