//! The figure of an experiment, in the form of the paper's: validation loss against steps, a panel for every size and
//! window, a curve for every recipe. With several seeds the curve is their mean, and each seed a thin line.

use super::file::File;
use super::result::Done;
use crate::metrics::plot::{Curve, Figure, Look, Panel, Style, svg};

/// All steps, and the second half of them, where recipes are closer together.
pub struct Figures {
    pub whole: String,
    pub end: String,
}

pub fn of(file: &File, done: &[Done]) -> Figures {
    Figures { whole: svg(&figure(file, done, 0.0)), end: svg(&figure(file, done, 0.5)) }
}

fn figure(file: &File, done: &[Done], from: f64) -> Figure {
    let mut shapes: Vec<(&str, usize)> = Vec::new();
    for one in done {
        if !shapes.contains(&one.cell.panel()) {
            shapes.push(one.cell.panel());
        }
    }
    let panels: Vec<Panel> = shapes.iter().map(|shape| panel(done, *shape, from)).collect();
    let columns = if panels.len() > 1 { 2 } else { 1 };
    let rows = panels.len().div_ceil(columns).max(1);
    let several = done.iter().any(|one| one.cell.seed != done[0].cell.seed);
    Figure {
        title: file.name.clone(),
        note: if several { "thick: mean over seeds · thin: each seed".to_string() } else { String::new() },
        width: if columns > 1 { 1200.0 } else { 900.0 },
        height: 90.0 + 420.0 * rows as f64,
        columns,
        panels,
    }
}

fn panel(done: &[Done], shape: (&str, usize), from: f64) -> Panel {
    let own: Vec<&Done> = done.iter().filter(|one| one.cell.panel() == shape).collect();
    let mut recipes: Vec<(usize, &str)> = own.iter().map(|one| (one.cell.recipe, one.cell.name.as_str())).collect();
    recipes.sort_unstable();
    recipes.dedup();
    let mut curves = Vec::new();
    for (place, name) in recipes {
        let seeds: Vec<Vec<(u64, f64)>> = (own.iter())
            .filter(|one| one.cell.recipe == place)
            .filter_map(|one| one.outcome.as_ref())
            .map(|outcome| late(&outcome.curve, from))
            .collect();
        let curve = |points: &[(u64, f64)], look: Look| Curve {
            label: name.to_string(),
            points: points.iter().map(|(step, loss)| (*step as f64, *loss)).collect(),
            style: Style { place, look },
        };
        if seeds.len() > 1 {
            curves.extend(seeds.iter().map(|points| curve(points, Look::Light)));
        }
        curves.push(curve(&mean(&seeds), Look::Marked));
    }
    Panel {
        title: format!("{}, windows of {}", shape.0, shape.1),
        x_label: "step".to_string(),
        y_label: "validation loss".to_string(),
        curves,
        ..Panel::default()
    }
}

/// The part of a curve behind this share of its steps.
fn late(curve: &[(u64, f64)], from: f64) -> Vec<(u64, f64)> {
    let last = curve.last().map_or(0, |(step, _)| *step) as f64;
    curve.iter().copied().filter(|(step, _)| *step as f64 >= from * last).collect()
}

/// Means at the steps all curves have.
fn mean(curves: &[Vec<(u64, f64)>]) -> Vec<(u64, f64)> {
    let Some((first, others)) = curves.split_first() else { return Vec::new() };
    let at = |step: u64, first: f64| {
        let found: Option<Vec<f64>> = (others.iter())
            .map(|curve| curve.iter().find(|(other, _)| *other == step).map(|(_, loss)| *loss))
            .collect();
        found.map(|losses| (step, (first + losses.iter().sum::<f64>()) / curves.len() as f64))
    };
    first.iter().filter_map(|(step, loss)| at(*step, *loss)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_over_the_steps_that_all_seeds_have() {
        let curves = [vec![(10, 4.0), (20, 2.0)], vec![(10, 2.0), (20, 1.0), (30, 0.5)]];
        assert_eq!(mean(&curves), [(10, 3.0), (20, 1.5)]);
        assert_eq!(late(&curves[1], 0.5), [(20, 1.0), (30, 0.5)]);
        assert!(mean(&[]).is_empty());
    }
}
