//! What runs against what was proven: every pass of a recipe, on sizes that reach every path of a kernel (beyond a register,
//! a block of queries, a chunk of a scan; fewer queries than tokens; a query that sees nothing), is held against the
//! reference interpreter of the algebra.
//!
//! What may differ is what the problem itself allows: the formulas are evaluated twice more, at inputs and with operations that
//! are off by a rounding, one way and the other, and a value may be as far away as that moves it, many times over.

use super::chain::{Case, DIRECTION, ENERGY, OF_ENERGY, Values};
use super::report::{Line, Outcome};
use crate::interpret::HeadSize;
use crate::ir::eval::{self, Effort, Env, Rounding, Sizes};
use crate::ir::sample::nudged_by;
use crate::primitives::visible::Visible;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers as a machine has them, and how far results may be off.
#[derive(Clone, Copy, Debug)]
pub struct Arithmetic {
    /// How far a value may be from the expected one, relative to the largest of its array.
    tolerance: f64,
    /// By how much everything is moved to see what the problem allows, and how often that may go into an error.
    rounding: f64,
    amplified: f64,
    /// Where a rounding moves a value by more than this, relative to the largest, the place is too near a kink to say anything.
    unsteady: f64,
    /// The entries of an array count as no smaller.
    smallest: f64,
    /// Whether inputs have to be rounded first.
    is_single: bool,
}

impl Arithmetic {
    pub const DOUBLE: Arithmetic = Arithmetic {
        tolerance: 1e-8,
        rounding: 1e-12,
        amplified: 1e3,
        unsteady: 1e-6,
        smallest: 1.0,
        is_single: false,
    };
    /// A rounding is 2⁻²⁴.
    pub const SINGLE: Arithmetic = Arithmetic {
        tolerance: 512.0 / (1 << 24) as f64,
        rounding: 1.0 / (1 << 24) as f64,
        amplified: 64.0,
        unsteady: 1e-3,
        smallest: 0.1,
        is_single: true,
    };

    /// What an error is relative to: the largest entry; where energies are large, their own rounding counts, and so does the
    /// rounding of what is computed along with it.
    fn scale_of(&self, x: &[f64], all: &Values) -> f64 {
        let energy = all.get(ENERGY).map_or(0.0, |energy| largest(energy));
        let alongside = all.values().map(|x| largest(x)).fold(0.0, f64::max);
        largest(x).max(self.smallest).max(ROUNDED * energy).max(ALONGSIDE * alongside)
    }
}

/// The values of a head in one way or several, each with words that tell it apart.
pub type Run<'a> = dyn Fn(&Env, &Visible) -> Vec<(&'static str, Values)> + 'a;

/// Something that runs the passes of a recipe.
pub struct Runner<'a> {
    /// Forward, energy, backward, energy backward.
    pub lines: [&'static str; 4],
    /// What it is, in words.
    pub what: &'a str,
    pub arithmetic: Arithmetic,
    pub run: &'a Run<'a>,
}

/// How much of an energy's size goes into the errors of what is made of differences of energies.
const ROUNDED: f64 = 1e-3;
/// How much of the largest value's size goes into the errors of others: a gradient that is exactly 0 is a difference of
/// values as large as the others are made of.
const ALONGSIDE: f64 = 1e-5;
/// Numbers that one evaluation may keep, and that all evaluations together may read; sizes beyond that are left out.
const AT_ONCE: usize = 40_000_000;
const ALL_WORK: usize = 150_000_000;
/// Draws after which a size is given up.
const DRAWS: usize = 6;

/// (queries, tokens, d_h).
const SIZES: [(usize, usize, usize); 6] = [(1, 1, 3), (2, 2, 1), (3, 7, 4), (49, 49, 3), (5, 130, 20), (130, 130, 16)];

/// What a line looks at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Forward,
    Energy,
    Backward,
    EnergyBackward,
}

impl Part {
    const ALL: [Part; 4] = [Part::Forward, Part::Energy, Part::Backward, Part::EnergyBackward];

    fn words(self) -> &'static str {
        match self {
            Part::Forward => "the direction",
            Part::Energy => "the energy",
            Part::Backward => "the gradients of the direction",
            Part::EnergyBackward => "the gradients of the energy",
        }
    }

    fn of(name: &str) -> Part {
        match name {
            DIRECTION => Part::Forward,
            ENERGY => Part::Energy,
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

/// Every pass against the formulas, a line each.
pub fn lines(case: &Case, runner: &Runner) -> Vec<Line> {
    let mut seen: BTreeMap<Part, Seen> = Part::ALL.map(|part| (part, Seen::default())).into();
    let mut left_out: BTreeSet<usize> = BTreeSet::new();
    let mut spent = 0usize;
    for (i, (queries, tokens, head)) in SIZES.into_iter().enumerate() {
        let size = HeadSize { queries, tokens, head };
        let Effort { kept, read } = work(case, size);
        // The formulas, twice more with roundings, and what runs.
        let runs = case.plan.graph.nodes.len().saturating_mul(queries * tokens * head);
        let read = read.saturating_mul(3).saturating_add(runs).max(1);
        for (mask, visible) in masks(case, size) {
            if kept > AT_ONCE || spent.saturating_add(read) > ALL_WORK {
                left_out.insert(tokens);
                continue;
            }
            let what = format!("{queries} queries, N = {tokens}, d_h = {head}, {mask}");
            let most = ((ALL_WORK - spent) / read).min(DRAWS);
            spent += read * compare(case, runner, (size, &visible), (i as u64, most), &what, &mut seen);
        }
    }
    let tolerance = runner.arithmetic.tolerance;
    let line = |(part, name): (Part, &'static str)| {
        let found = &seen[&part];
        let by = format!("computed by {}, against the formulas", runner.what);
        let mut detail = format!("{}, {by}; {} samples", part.words(), found.compared);
        if !left_out.is_empty() {
            let sizes: Vec<String> = left_out.iter().map(|n| format!("N = {n}")).collect();
            detail.push_str(&format!("; {} left out, formulas this long take too much work", sizes.join(", ")));
        }
        let outcome = match (found.worst > tolerance, found.compared) {
            (true, _) => Outcome::Fail { error: found.worst, tolerance, where_: found.place.clone() },
            (false, 0) if found.unsteady > 0 => Outcome::Inconclusive {
                reason: format!("none of {} samples has values that rounding leaves alone", found.unsteady),
            },
            (false, 0) if !left_out.is_empty() => {
                Outcome::Inconclusive { reason: "the formulas are too long to look at a sample".to_string() }
            }
            (false, 0) => Outcome::NotApplicable { reason: "there is nothing to compare".to_string() },
            (false, _) => Outcome::Pass { error: found.worst, tolerance },
        };
        Line { name, detail, outcome }
    };
    Part::ALL.into_iter().zip(runner.lines).map(line).collect()
}

/// A few masks for small sizes, one for large ones; a mask under which a query sees nothing is among them.
fn masks(case: &Case, size: HeadSize) -> Vec<(&'static str, Visible)> {
    let HeadSize { queries, tokens, .. } = size;
    let causal = || Visible::causal(queries, tokens);
    match tokens {
        0..=2 => vec![("causal", causal())],
        3..=10 => {
            let most = if case.has_decay() {
                ("causal", causal())
            } else {
                ("everything seen", Visible::full(queries, tokens))
            };
            let blind = blind(&most.1);
            vec![most, ("a window", Visible::window(queries, tokens, 3)), ("no token seen by some", blind)]
        }
        11..=60 => vec![("causal", causal()), ("a window", Visible::window(queries, tokens, 5))],
        _ => vec![("causal", causal())],
    }
}

/// The same, but the first query sees nothing.
fn blind(most: &Visible) -> Visible {
    let mut intervals = most.intervals().to_vec();
    intervals[0] = 0..0;
    Visible::new(intervals, most.tokens())
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
    runner: &Runner,
    (size, visible): (HeadSize, &Visible),
    (seed, most): (u64, usize),
    what: &str,
    seen: &mut BTreeMap<Part, Seen>,
) -> usize {
    let arithmetic = runner.arithmetic;
    let steady = |values: &Values| values.values().flatten().all(|x| x.is_finite());
    for (number, draw) in (1..=most).zip(0..) {
        let mut env = case.sample(size, visible, 97 * seed + draw);
        if arithmetic.is_single {
            change(case, &mut env, |x| f64::from(x as f32));
        }
        let nearby = nearby(case, &env, arithmetic.rounding, seed + draw);
        let moved: Result<Vec<Values>, String> = nearby.iter().map(|env| case.reference(env)).collect();
        let (Ok(expected), Ok(moved)) = (case.reference(&env), moved) else { continue };
        let is_last = number == most;
        let is_usable = steady(&expected) && is_steady(&expected, &moved, arithmetic);
        if !is_usable && !is_last {
            continue;
        }
        for (way, got) in (runner.run)(&env, visible) {
            judge(
                &Comparison { expected: &expected, moved: &moved, is_usable },
                &got,
                arithmetic,
                &format!("{what}{way}"),
                seen,
            );
        }
        return number;
    }
    most
}

/// Changes all inputs, and with them what follows from them.
fn change(case: &Case, env: &mut Env, mut change: impl FnMut(f64) -> f64) {
    let mut names: Vec<String> = env.values.keys().cloned().collect();
    names.sort();
    for name in names {
        if let Some(x) = env.values.get_mut(&name) {
            x.data.iter_mut().for_each(|x| *x = change(*x));
        }
    }
    case.settle(env);
}

/// Inputs off by a little, one way and the other. On a sphere of one dimension vectors are the same or opposite, so that
/// many kinks may be met at once, and may happen to be passed without a trace: it takes more looks to see that they are there.
fn nearby(case: &Case, env: &Env, by: f64, seed: u64) -> Vec<Env> {
    let is_on_points = env.sizes.head == 1 && !case.recipe().constraints.is_empty();
    let looks = if is_on_points { 6 } else { 1 };
    let both = |look: u64| [by, -by].map(|by| rounded(case, env, by, seed + 1000 * look));
    (0..looks).flat_map(both).collect()
}

/// The inputs each off by a little, in an arithmetic that rounds. What follows from them is rounded as well: a vector of one
/// component has the same direction wherever it is moved to.
fn rounded(case: &Case, env: &Env, by: f64, seed: u64) -> Env {
    let mut env = nudged_by(env, by, seed);
    case.settle(&mut env);
    let mut env = nudged_by(&env, by, seed + 1);
    env.rounding = Some(Rounding { by, seed });
    env
}

fn largest(x: &[f64]) -> f64 {
    x.iter().fold(0.0, |m: f64, x| if x.is_finite() { m.max(x.abs()) } else { m })
}

fn movement(a: &[f64], b: &[f64]) -> f64 {
    let moved = a.iter().zip(b).map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() });
    moved.fold(0.0, |m: f64, x| if x.is_nan() { f64::INFINITY } else { m.max(x) })
}

fn is_steady(expected: &Values, moved: &[Values], arithmetic: Arithmetic) -> bool {
    let is_steady = |x: &[f64], y: &[f64]| movement(x, y) <= arithmetic.unsteady * arithmetic.scale_of(x, expected);
    let of_both =
        |(name, x): (&String, &Vec<f64>)| moved.iter().all(|moved| moved.get(name).is_some_and(|y| is_steady(x, y)));
    expected.iter().all(of_both)
}

/// What is expected at a place.
struct Comparison<'a> {
    expected: &'a Values,
    /// At inputs nearby.
    moved: &'a [Values],
    /// Whether roundings leave all values alone. If not, what is left alone may still be near a kink that others are on.
    is_usable: bool,
}

/// Holds what was computed against what is expected; a gradient that one of them leaves out is 0 in the other.
fn judge(comparison: &Comparison, got: &Values, arithmetic: Arithmetic, what: &str, seen: &mut BTreeMap<Part, Seen>) {
    let Comparison { expected, moved, is_usable } = *comparison;
    let near = if is_usable { arithmetic.tolerance } else { arithmetic.unsteady.max(arithmetic.tolerance) };
    let names: BTreeSet<&String> = expected.keys().chain(got.keys()).collect();
    for name in names {
        let part = Part::of(name);
        let seen = seen.entry(part).or_default();
        let length = expected.get(name).or(got.get(name)).map_or(0, Vec::len);
        let zero = vec![0.0; length];
        let [x, y] = [expected, got].map(|values| values.get(name).unwrap_or(&zero));
        let moved = moved.iter().map(|values| values.get(name).unwrap_or(&zero));
        let scale = arithmetic.scale_of(x, expected);
        let allowed = moved.map(|moved| movement(x, moved)).fold(0.0, f64::max);
        if x.iter().any(|x| !x.is_finite()) || allowed > arithmetic.unsteady * scale {
            seen.unsteady += 1;
            continue;
        }
        seen.compared += 1;
        let error = match x.len() == y.len() {
            true => movement(x, y) / scale,
            false => f64::INFINITY,
        };
        // What the problem allows is nobody's error.
        let is_allowed = error <= near + arithmetic.amplified * allowed / scale;
        let error = if is_allowed { error.min(arithmetic.tolerance) } else { error };
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
