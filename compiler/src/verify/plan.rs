//! The plan: does what will run compute what was proven?
//!
//! The plan interpreter runs every pass in f64, on sizes that reach every path of a kernel (beyond a register, a block of
//! queries, a chunk of a scan; fewer queries than tokens; a query that sees nothing), and is held against the reference
//! interpreter of the algebra. What may differ is what the problem itself allows: the formulas are evaluated once more at
//! inputs that are off by a little ([`sample::nudged`]), and a value may be as far away as that moves it, many times over.

use super::chain::{Case, OF_ENERGY, Values};
use super::report::{Line, Outcome};
use crate::interpret::HeadSize;
use crate::ir::eval::{self, Effort, Env, Sizes};
use crate::ir::sample::{self, AMPLIFIED};
use crate::plan::schedule::Pass;
use crate::primitives::visible::Visible;
use std::collections::{BTreeMap, BTreeSet};

/// How far a value may be from the expected one, relative to the largest of its array.
const TOLERANCE: f64 = 1e-8;
/// Where a nudge moves a value by more than this, relative to the largest, the place is too near a kink to say anything.
const UNSTEADY: f64 = 1e-6;
/// How much of an energy's size goes into the errors of what is made of differences of energies.
const ROUNDED: f64 = 1e-3;
/// Numbers that one evaluation may keep, and that all evaluations together may read; sizes beyond that are left out.
const AT_ONCE: usize = 40_000_000;
const ALL_WORK: usize = 150_000_000;
/// Draws after which a size is given up.
const DRAWS: usize = 6;

/// (queries, tokens, d_h).
const SIZES: [(usize, usize, usize); 6] = [(1, 1, 3), (2, 2, 1), (3, 7, 4), (49, 49, 3), (5, 130, 20), (130, 130, 16)];

/// The one line of a recipe without a plan.
pub const LINE: &str = "plan";

/// What a line looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Forward,
    Energy,
    Backward,
    EnergyBackward,
}

const PARTS: [(Part, &str, &str); 4] = [
    (Part::Forward, "plan forward", "the direction"),
    (Part::Energy, "plan energy", "the energy"),
    (Part::Backward, "plan backward", "the gradients of the direction"),
    (Part::EnergyBackward, "plan energy backward", "the gradients of the energy"),
];

impl Part {
    fn of(name: &str) -> Part {
        match name {
            "out" => Part::Forward,
            "energy" => Part::Energy,
            _ if name.starts_with(OF_ENERGY) => Part::EnergyBackward,
            _ => Part::Backward,
        }
    }
}

/// What is known of a part so far.
#[derive(Default)]
struct Seen {
    compared: usize,
    unsteady: usize,
    worst: f64,
    place: String,
}

/// Every pass of the plan against the formulas, a line each.
pub fn lines(case: &Case) -> Vec<Line> {
    let mut seen: BTreeMap<&'static str, Seen> = PARTS.iter().map(|(_, name, _)| (*name, Seen::default())).collect();
    let mut left_out: BTreeSet<usize> = BTreeSet::new();
    let mut spent = 0usize;
    for (i, (queries, tokens, head)) in SIZES.into_iter().enumerate() {
        let size = HeadSize { queries, tokens, head };
        let Effort { kept, read } = work(case, size);
        for (mask, visible) in masks(case, size) {
            // The formulas, and once more at inputs that have moved.
            if kept > AT_ONCE || spent.saturating_add(read.saturating_mul(2)) > ALL_WORK {
                left_out.insert(tokens);
                continue;
            }
            let what = format!("{queries} queries, N = {tokens}, d_h = {head}, {mask}");
            let most = ((ALL_WORK - spent) / (2 * read).max(1)).min(DRAWS);
            spent += 2 * read * compare(case, size, &visible, i as u64, most, &what, &mut seen);
        }
    }
    let line = |(_, name, what): (Part, &'static str, &str)| {
        let found = &seen[name];
        let mut detail = format!("{what}, computed by the plan, against the formulas; {} samples", found.compared);
        if !left_out.is_empty() {
            let sizes: Vec<String> = left_out.iter().map(|n| format!("N = {n}")).collect();
            detail.push_str(&format!("; {} left out, formulas this long take too much work", sizes.join(", ")));
        }
        let outcome = match (found.worst > TOLERANCE, found.compared) {
            (true, _) => Outcome::Fail { error: found.worst, tolerance: TOLERANCE, where_: found.place.clone() },
            (false, 0) if found.unsteady > 0 => Outcome::Inconclusive {
                reason: format!("none of {} samples has values that rounding leaves alone", found.unsteady),
            },
            (false, 0) => Outcome::NotApplicable { reason: "there is nothing to compare".to_string() },
            (false, _) => Outcome::Pass { error: found.worst, tolerance: TOLERANCE },
        };
        Line { name, detail, outcome }
    };
    PARTS.map(line).to_vec()
}

/// The first disagreement of a plan and its formulas, in words.
pub fn disagreement(case: &Case) -> Option<String> {
    lines(case).into_iter().find_map(|line| match line.outcome {
        Outcome::Fail { where_, .. } => Some(format!("{}: {where_}", line.name)),
        _ => None,
    })
}

/// A few masks for small sizes, one for large ones; a mask under which a query sees nothing is among them.
fn masks(case: &Case, size: HeadSize) -> Vec<(&'static str, Visible)> {
    let HeadSize { queries, tokens, .. } = size;
    let causal = || Visible::causal(queries, tokens);
    match tokens {
        0..=2 => vec![("causal", causal())],
        3..=10 if case.has_decay() => vec![("causal", causal()), ("a window", Visible::window(queries, tokens, 3))],
        3..=10 => vec![
            ("everything seen", Visible::full(queries, tokens)),
            ("a window", Visible::window(queries, tokens, 3)),
            ("no token seen by some", blind(queries, tokens)),
        ],
        11..=60 => vec![("causal", causal()), ("a window", Visible::window(queries, tokens, 5))],
        _ => vec![("causal", causal())],
    }
}

/// The first query sees nothing.
fn blind(queries: usize, tokens: usize) -> Visible {
    let intervals = (0..queries).map(|t| if t == 0 { 0..0 } else { 0..tokens }).collect();
    Visible::new(intervals, tokens)
}

/// What one evaluation by the reference interpreter takes.
fn work(case: &Case, size: HeadSize) -> Effort {
    let HeadSize { queries, tokens, head } = size;
    let definitions = case.backward.definitions.iter().chain(&case.backward.gradients);
    let gradients = definitions.chain(&case.energy_backward.gradients).map(|d| d.value.term.clone());
    let named = case.derivation.names.iter().map(|named| named.value());
    let roots = [case.derivation.direction.term.clone(), case.derivation.energy.term.clone()];
    let sizes = Sizes { queries, tokens, head, model: head, heads: 1 };
    eval::effort(gradients.chain(named).chain(roots), sizes)
}

/// Compares on the first usable of at most so many draws; how many it took.
fn compare(
    case: &Case,
    size: HeadSize,
    visible: &Visible,
    seed: u64,
    most: usize,
    what: &str,
    seen: &mut BTreeMap<&'static str, Seen>,
) -> usize {
    let is_finite = |values: &Values| values.values().flatten().all(|x| x.is_finite());
    for (number, draw) in (1..=most).zip(0..) {
        let env = case.sample(size, visible, 97 * seed + draw);
        let off = nudged(case, &env, seed + draw);
        let (Ok(expected), Ok(moved)) = (case.reference(&env), case.reference(&off)) else {
            continue;
        };
        let is_last = number == most;
        let is_usable = is_finite(&expected) && is_steady(&expected, &moved);
        if !is_usable && !is_last {
            continue;
        }
        let mut ways: Vec<(&str, [&Pass; 5])> = vec![("", case.plan.passes())];
        let chosen = case.plan.passes_for(std::slice::from_ref(visible), false);
        if chosen[0].is_scan {
            ways.push((", by scans", chosen));
        }
        for (way, passes) in ways {
            let got = case.planned_by::<f64>(passes, &env, visible);
            let got_moved = || case.planned_by::<f64>(passes, &off, visible);
            judge((&expected, &moved), (&got, &got_moved), &format!("{what}{way}"), seen);
        }
        return number;
    }
    most
}

/// The inputs, each off by a little.
fn nudged(case: &Case, env: &Env, seed: u64) -> Env {
    let mut env = sample::nudged(env, seed);
    case.settle(&mut env);
    env
}

fn largest(x: &[f64]) -> f64 {
    x.iter().fold(0.0, |m: f64, x| if x.is_finite() { m.max(x.abs()) } else { m })
}

/// What an error is relative to: the largest entry, or 1; where energies are large, their own rounding counts.
fn scale_of(x: &[f64], all: &Values) -> f64 {
    let energy = all.get("energy").map_or(0.0, |energy| largest(energy));
    largest(x).max(1.0).max(ROUNDED * energy)
}

fn movement(a: &[f64], b: &[f64]) -> f64 {
    let moved = a.iter().zip(b).map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() });
    moved.fold(0.0, |m: f64, x| if x.is_nan() { f64::INFINITY } else { m.max(x) })
}

fn is_steady(expected: &Values, moved: &Values) -> bool {
    expected.iter().all(|(name, x)| moved.get(name).is_some_and(|y| movement(x, y) <= UNSTEADY * scale_of(x, expected)))
}

/// Holds what a plan gave against what is expected, each with what it is at inputs that have moved; a gradient that one of
/// them leaves out is 0 in the other.
fn judge(
    (expected, moved): (&Values, &Values),
    (got, got_moved): (&Values, &dyn Fn() -> Values),
    what: &str,
    seen: &mut BTreeMap<&'static str, Seen>,
) {
    let mut moved_too: Option<Values> = None;
    let names: BTreeSet<&String> = expected.keys().chain(got.keys()).collect();
    for name in names {
        let part = Part::of(name);
        let Some(seen) = PARTS.iter().find(|(p, ..)| *p == part).and_then(|(_, line, _)| seen.get_mut(line)) else {
            continue;
        };
        let length = expected.get(name).or(got.get(name)).map_or(0, Vec::len);
        let zero = vec![0.0; length];
        let [x, y, z] = [expected, got, moved].map(|values| values.get(name).unwrap_or(&zero));
        let scale = scale_of(x, expected);
        let allowed = movement(x, z);
        if x.iter().any(|x| !x.is_finite()) || allowed > UNSTEADY * scale {
            seen.unsteady += 1;
            continue;
        }
        let error = match x.len() == y.len() {
            true => movement(x, y) / scale,
            false => f64::INFINITY,
        };
        // What the problem allows is no error of the plan's.
        let is_allowed = error <= TOLERANCE + AMPLIFIED * allowed / scale;
        if !is_allowed && x.len() == y.len() {
            let moved_too = moved_too.get_or_insert_with(got_moved);
            let own = movement(y, moved_too.get(name).unwrap_or(&zero));
            if error * scale <= AMPLIFIED * own && own > UNSTEADY * scale {
                seen.unsteady += 1;
                continue;
            }
        }
        seen.compared += 1;
        let error = if is_allowed { error.min(TOLERANCE) } else { error };
        if error > seen.worst {
            let at = (0..x.len().min(y.len())).max_by(|&i, &j| (x[i] - y[i]).abs().total_cmp(&(x[j] - y[j]).abs()));
            let numbers = at.map(|i| format!("entry {i} is {:.9}, expected {:.9}", y[i], x[i])).unwrap_or_default();
            let called = match part {
                Part::Forward => "the direction".to_string(),
                Part::Energy => "the energy".to_string(),
                Part::Backward => format!("∂{name}"),
                Part::EnergyBackward => format!("∂{} of the energy", name.trim_start_matches(OF_ENERGY)),
            };
            seen.worst = error;
            seen.place = format!("{called}: {numbers} ({what})");
        }
    }
}
