//! Which values may be put side by side, and how to say it when they may not.

use super::term::Place;
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Axis, AxisSet, Space};
use crate::span::Span;

/// The axis `norm`, `dot` and `sum` run over at this place.
pub fn component_axis(place: Place) -> Axis {
    match place {
        Place::Optimizer => Axis::C,
        Place::Local | Place::Global | Place::Value => Axis::E,
    }
}

pub fn has_components(axes: AxisSet) -> bool {
    axes.has_space(Space::Head) || axes.has_space(Space::Model)
}

pub fn has_tokens(axes: AxisSet) -> bool {
    axes.has_space(Space::Token)
}

/// A set of axes in words.
pub fn describe(axes: AxisSet) -> &'static str {
    let per_query = axes.has_space(Space::Query);
    match (has_components(axes), has_tokens(axes)) {
        (true, true) => "components for every attended token",
        (true, false) => "components",
        (false, true) => "a number per attended token",
        (false, false) if per_query => "a number per query",
        (false, false) => "a plain number",
    }
}

/// As a sentence about the value at hand.
pub fn describe_this(axes: AxisSet) -> String {
    let verb = if has_components(axes) { "these are" } else { "this is" };
    format!("{verb} {}", describe(axes))
}

/// Whether two values can be added, compared or stand for one another: components only meet components.
pub fn fit(a: AxisSet, b: AxisSet) -> bool {
    a.is_empty() || b.is_empty() || has_components(a) == has_components(b)
}

/// A value on its axes and the place it comes from.
#[derive(Clone, Copy)]
pub struct Side {
    pub axes: AxisSet,
    pub span: Span,
}

pub fn mismatch(doing: &str, left: Side, right: Side) -> Diagnostic {
    let (a, b) = (describe(left.axes), describe(right.axes));
    Diagnostic::new(Code::AxisMismatch, format!("cannot {doing} {a} and {b}"))
        .also(left.span, a)
        .at(right.span, b)
        .help("`norm(x)`, `dot(x, y)` and `sum(x)` turn components into one number")
}
