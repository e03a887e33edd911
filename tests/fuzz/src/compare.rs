//! Two outcomes side by side.
//!
//! A number may be off by so much of the largest entry of its array, and by so many times what it moves when everything it is
//! computed from is rounded: what is ill-conditioned is allowed what its condition is, and nothing else is.

use crate::evaluate::Outcome;
use std::collections::BTreeMap;

/// Arrays by pass and name: `out`, `energy`, `∂q`, `energy ∂q`.
pub type Arrays = BTreeMap<String, Vec<f64>>;

/// The arrays of an outcome.
pub fn arrays(outcome: &Outcome) -> Arrays {
    let mut all = Arrays::new();
    all.insert("out".to_string(), outcome.out.clone());
    all.insert("energy".to_string(), outcome.energy.clone());
    for (prefix, gradients) in [("∂", &outcome.of_direction), ("energy ∂", &outcome.of_energy)] {
        all.extend(gradients.iter().map(|(name, values)| (format!("{prefix}{name}"), values.clone())));
    }
    all
}

#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Of the largest entry of the array.
    pub relative: f64,
    /// Whatever the entries are.
    pub absolute: f64,
    /// Times what rounding changes.
    pub movement: f64,
}

/// A difference that is too large.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    pub name: String,
    pub entry: usize,
    pub expected: Vec<f64>,
    pub got: Vec<f64>,
    pub allowed: f64,
}

impl Difference {
    pub fn describe(&self) -> String {
        let Difference { entry, expected, got, allowed, .. } = self;
        if expected.len() != got.len() {
            return format!("{} entries where {} are expected", got.len(), expected.len());
        }
        let start = entry.saturating_sub(4);
        let part = |x: &[f64]| -> String {
            let shown: Vec<String> = x.iter().skip(start).take(10).map(|x| format!("{x:.9}")).collect();
            shown.join(", ")
        };
        format!(
            "entry {entry} is off by {:.2e} where {allowed:.2e} is allowed\n    expected [{}]\n    got      [{}]  (from entry {start})",
            (expected[*entry] - got[*entry]).abs(),
            part(expected),
            part(got),
        )
    }
}

/// The largest change of every entry among outcomes that were rounded on the way.
pub fn movement(outcome: &Arrays, rounded: &[Arrays]) -> Arrays {
    let of = |(name, values): (&String, &Vec<f64>)| {
        let change = |i: usize| {
            let moved = rounded.iter().filter_map(|other| other.get(name)).map(|other| (other[i] - values[i]).abs());
            moved.fold(0.0, |m: f64, x| m.max(x))
        };
        (name.clone(), (0..values.len()).map(change).collect())
    };
    outcome.iter().map(of).collect()
}

/// Whether some array is so ill-conditioned that what it is allowed says nothing any more.
pub fn is_vague(expected: &Arrays, movement: &Arrays, tolerance: Tolerance, limit: f64) -> bool {
    let largest = |x: &[f64]| x.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    let whole = expected.values().fold(0.0, |m: f64, x| m.max(largest(x)));
    expected.iter().any(|(name, values)| {
        let moved = movement.get(name).map_or(0.0, |m| largest(m));
        tolerance.movement * moved > limit * largest(values).max(1e-3 * whole)
    })
}

/// The first array with an entry that is too far off. What one side leaves out is 0.
pub fn differs(expected: &Arrays, movement: &Arrays, got: &Arrays, tolerance: Tolerance) -> Option<Difference> {
    let names = expected.keys().chain(got.keys().filter(|name| !expected.contains_key(*name)));
    for name in names {
        let length = expected.get(name).or(got.get(name)).map_or(0, Vec::len);
        let zero = vec![0.0; length];
        let (x, y) = (expected.get(name).unwrap_or(&zero), got.get(name).unwrap_or(&zero));
        let largest = x.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        // Entries of an array share their sums: what moves one may move another.
        let moved = movement.get(name).map_or(0.0, |m| m.iter().fold(0.0, |m: f64, x| m.max(*x)));
        let allowed = tolerance.absolute + tolerance.relative * largest + tolerance.movement * moved;
        let is_off = |i: &usize| (x[*i] - y[*i]).abs() > allowed || !y[*i].is_finite();
        if x.len() != y.len() {
            let (expected, got) = (x.clone(), y.clone());
            return Some(Difference { name: name.clone(), entry: 0, expected, got, allowed });
        }
        let worst = (0..length).filter(is_off).max_by(|i, j| {
            let gap = |i: usize| if y[i].is_finite() { (x[i] - y[i]).abs() } else { f64::INFINITY };
            gap(*i).total_cmp(&gap(*j))
        });
        if let Some(entry) = worst {
            return Some(Difference { name: name.clone(), entry, expected: x.clone(), got: y.clone(), allowed });
        }
    }
    None
}
