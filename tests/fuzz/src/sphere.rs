//! Directions of a query that is held at a length.
//!
//! On the sphere ‖q‖ = ρ an energy can be written in many ways, ‖q − k‖² or ρ² − 2q·k + ‖k‖², and their gradients differ by
//! multiples of q. The language does not say which is meant, and the compiler is free to put ρ for ‖q‖ before it
//! differentiates. So the direction is compared without its part along q, energies and their gradients as they are, and
//! the backward pass with finite differences of the direction it belongs to.

use crate::compare::{Arrays, Tolerance, differs};
use crate::failure::Failure;
use crate::meaning::Meaning;
use crate::point::Point;

const TOLERANCE: Tolerance = Tolerance { relative: 1e-8, absolute: 1e-11, movement: 100.0 };
const STEP: f64 = 1e-6;
/// Of the largest slope, or of the direction where that is larger.
const NEAR: f64 = 1e-5;

/// What of all that is determined does not agree, in words.
pub fn disagreement(
    meaning: &Meaning,
    point: &Point,
    expected: &Arrays,
    movement: &Arrays,
    got: &Arrays,
    run: &dyn Fn(&Point) -> Result<Arrays, Failure>,
) -> Result<Option<String>, Failure> {
    if meaning.system.is_none() {
        let determined = |arrays: &Arrays| -> Arrays {
            let kept = arrays.iter().filter(|(name, _)| *name == "energy" || name.starts_with("energy "));
            let mut kept: Arrays = kept.map(|(name, values)| (name.clone(), values.clone())).collect();
            kept.insert("out".to_string(), tangential(&arrays["out"], &point.q, point.sizes.head));
            kept
        };
        if let Some(difference) = differs(&determined(expected), movement, &determined(got), TOLERANCE) {
            return Ok(Some(format!("{}, without its part along q: {}", difference.name, difference.describe())));
        }
    }
    let size = got["out"].iter().zip(&point.g).fold(1e-3, |m: f64, (x, g)| m.max((x * g).abs()));
    for name in ["q", "k", "v"] {
        let slopes = got.get(&format!("∂{name}"));
        let length = if name == "q" { point.q.len() } else { point.k.len() };
        let zero = vec![0.0; length];
        let slopes = slopes.unwrap_or(&zero);
        let largest = slopes.iter().fold(size, |m: f64, x| m.max(x.abs()));
        for entry in [0, length / 2, length - 1] {
            let at = |step: f64| -> Result<f64, Failure> {
                let mut moved = point.clone();
                let array = match name {
                    "q" => &mut moved.q,
                    "k" => &mut moved.k,
                    _ => &mut moved.v,
                };
                array[entry] += step;
                Ok(run(&moved)?["out"].iter().zip(&point.g).map(|(x, g)| x * g).sum())
            };
            let slope = (at(STEP)? - at(-STEP)?) / (2.0 * STEP);
            if (slope - slopes[entry]).abs() > NEAR * largest {
                let claimed = slopes[entry];
                return Ok(Some(format!(
                    "∂{name}, entry {entry}: {claimed:.9} where the direction has the slope {slope:.9}"
                )));
            }
        }
    }
    Ok(None)
}

/// The largest difference of the directions without their parts along q, relative to the largest entry.
pub fn tangential_gap(point: &Point, expected: &Arrays, got: &Arrays) -> f64 {
    let [x, y] = [expected, got].map(|arrays| tangential(&arrays["out"], &point.q, point.sizes.head));
    let largest = x.iter().fold(1e-3, |m: f64, x| m.max(x.abs()));
    x.iter().zip(&y).map(|(x, y)| (x - y).abs() / largest).fold(0.0, f64::max)
}

/// Rows without their part along the rows of `q`.
fn tangential(x: &[f64], q: &[f64], head: usize) -> Vec<f64> {
    let rows = x.chunks(head).zip(q.chunks(head));
    rows.flat_map(|(x, q)| {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let along = dot(x, q) / dot(q, q);
        x.iter().zip(q).map(move |(x, q)| x - along * q).collect::<Vec<f64>>()
    })
    .collect()
}
