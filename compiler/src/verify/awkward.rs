//! Awkward points: where norms vanish, tokens coincide, nothing is visible or a kink is hit, every value is finite.

use super::parts::Parts;
use super::report::Line;
use super::samples::{Mask, SHAPES, Sample, Source, constrain_query, crossing, overflows};
use super::slopes::moved;
use super::trials::{Gap, Samples, Tally};
use crate::check::inputs;
use crate::derive::{Kink, kinks};
use crate::ir::eval::{Env, evaluate};
use crate::ir::sample::Norm;
use crate::ir::tensor::Tensor;
use crate::ir::{Axis, Expr};

/// Energy, gradient, direction and backward pass at every awkward point.
pub fn awkward(parts: &Parts) -> Line {
    let terms = terms(parts);
    let mut inputs: Vec<Expr> = parts.inputs().into_iter().map(Expr::leaf).collect();
    inputs.push(Expr::leaf(parts.backward.cotangent.clone()));
    let source = Source::new(inputs, parts.norms());
    let mut points: Vec<(String, Env)> = Vec::new();
    for shape in SHAPES {
        points.extend(source.draw(shape, 1).iter().flat_map(|s| degenerate(s, &source.norms)));
        let start = source.draw(shape, 2).map(|s| s.env);
        let end = source.draw(shape, 3).map(|s| s.env);
        if let (Some(start), Some(end)) = (start, end) {
            let on_kink = |kink: &Kink| {
                crossing(kink, &start, &end, &source.norms).map(|env| (format!("where {}", kink.what), env))
            };
            let kinks = kinks(parts.energy());
            points.extend(kinks.iter().take_while(|_| !source.work.is_spent()).filter_map(on_kink));
        }
        points
            .extend(source.masked(Mask::BlindRow).draw(shape, 4).map(|s| ("a query that sees nothing".into(), s.env)));
    }
    let mut worst = Gap::NONE;
    let mut looked = 0;
    for point in &points {
        if source.work.is_spent() {
            break;
        }
        let found = terms.iter().fold(Gap::NONE, |worst, term| worst.or(broken(point, term)));
        if found.error == 0.0 || !overflows(parts.energy(), &point.1) {
            worst = worst.or(found);
        }
        looked += 1;
    }
    let samples = Samples::of(looked, points.len());
    let mut kinds: Vec<&str> = Vec::new();
    points.iter().take(looked).for_each(|(name, _)| {
        if !kinds.contains(&name.as_str()) {
            kinds.push(name);
        }
    });
    let detail =
        format!("energy, gradient, direction and backward are finite at {samples} points: {}", kinds.join("; "));
    Line { name: "awkward points", detail, outcome: Tally { samples, worst }.outcome(0.0) }
}

fn terms(parts: &Parts) -> Vec<(String, Expr)> {
    let first = parts.derivation.stages().map(|(name, s)| (name.to_string(), parts.reveal(&s.term)));
    let backward = parts.backward.gradients.iter();
    let backward = backward.map(|d| (d.leaf.name.to_string(), parts.reveal(&d.value.term)));
    first.into_iter().chain(backward).collect()
}

/// Points that a draw degenerates to, as far as the constraints let it; N = 1 and d_h = 1 are among the shapes.
fn degenerate(sample: &Sample, norms: &[Norm]) -> Vec<(String, Env)> {
    let (env, width) = (&sample.env, sample.env.sizes.head);
    let (q, k) = (inputs::q(), inputs::k());
    let Some(keys) = env.values.get(&*k.name).map(|k| k.data.clone()) else { return vec![] };
    let repeat = |x: &mut Tensor| x.data.chunks_mut(width).for_each(|row| row.copy_from_slice(&keys[..width]));
    let zero = |x: &mut Tensor| x.data.fill(0.0);
    let one_key = moved(env, &k, repeat);
    [
        ("q = k_i", moved(env, &q, repeat)),
        ("q = 0", moved(env, &q, zero)),
        ("k = 0", moved(env, &k, zero)),
        ("q = k = 0", moved(&moved(env, &q, zero), &k, zero)),
        ("all keys the same", one_key.clone()),
        ("all keys the same as q", moved(&one_key, &q, repeat)),
    ]
    .map(|(name, mut env)| {
        constrain_query(&mut env, norms);
        (name.to_string(), env)
    })
    .to_vec()
}

/// How many entries are not finite, or not 0 where the query sees nothing.
fn broken((point, env): &(String, Env), (name, term): &(String, Expr)) -> Gap {
    let value = match evaluate(term, env) {
        Ok(value) => value,
        Err(problem) => return Gap::impossible(format!("{name} where {point}: {problem}")),
    };
    let infinite = value.data.iter().filter(|x| !x.is_finite()).count();
    let ghosts = ghosts(&value, env);
    let place = format!("{name} has {infinite} entries that are not finite and {ghosts} that should be 0, at: {point}");
    if infinite + ghosts == 0 { Gap::NONE } else { Gap { error: (infinite + ghosts) as f64, place } }
}

/// The entries other than 0 of queries that see nothing.
fn ghosts(value: &Tensor, env: &Env) -> usize {
    // The query axis comes first.
    let (Some(visible), Some(&Axis::T)) = (&env.visible, value.axes.first()) else { return 0 };
    let width = (value.data.len() / env.sizes.queries.max(1)).max(1);
    let rows = value.data.chunks(width).zip(visible.chunks(env.sizes.tokens));
    let blind = rows.filter(|(_, seen)| !seen.contains(&true));
    blind.map(|(row, _)| row.iter().filter(|x| **x != 0.0).count()).sum()
}
