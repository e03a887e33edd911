//! Points to compare at: sizes with an edge each, masks of every kind, normal inputs.

use crate::meaning::Meaning;
use crate::point::{Point, Sizes};
use crate::random::Random;
use crate::tree::{Expr, Function, Size, Value};
use std::ops::Range;

/// (queries, tokens, d_h): one of everything, an ordinary one, fewer queries than tokens, one component, …
pub const SMALL: [(usize, usize, usize); 6] = [(1, 1, 1), (3, 5, 3), (2, 7, 4), (4, 4, 1), (5, 5, 2), (1, 6, 5)];

/// More queries than there are in a block.
pub const LARGE: (usize, usize, usize) = (50, 50, 2);

/// Which tokens queries see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mask {
    Causal,
    Full,
    Window,
    /// Causal, but for a query that sees nothing.
    Blind,
    /// Any interval up to the query's own place.
    Any,
}

impl Mask {
    pub const ALL: [Mask; 5] = [Mask::Causal, Mask::Full, Mask::Window, Mask::Blind, Mask::Any];

    pub fn intervals(self, queries: usize, tokens: usize, random: &mut Random) -> Vec<Range<usize>> {
        let blind = random.below(queries);
        let interval = |t: usize, random: &mut Random| {
            let end = t + 1 + tokens - queries;
            match self {
                Mask::Causal => 0..end,
                Mask::Full => 0..tokens,
                Mask::Window => end.saturating_sub(3)..end,
                Mask::Blind if t == blind => 0..0,
                Mask::Blind => 0..end,
                Mask::Any => {
                    let start = random.below(end);
                    start..start + random.below(end - start + 1)
                }
            }
        };
        (0..queries).map(|t| interval(t, random)).collect()
    }
}

/// Inputs at random. Learned parameters are off the value they start with, the others at theirs.
pub fn draw(meaning: &Meaning, shape: (usize, usize, usize), mask: Mask, random: &mut Random) -> Point {
    let (queries, tokens, head) = shape;
    let heads = 1 + random.below(3);
    let sizes = Sizes { queries, tokens, head, model: head * heads, heads };
    let has_decay = meaning.parameters.iter().any(|p| p.value == Value::Decay);
    // A decay leads from a token to a later query.
    let mask = if has_decay && mask == Mask::Full { Mask::Causal } else { mask };
    let visible = mask.intervals(queries, tokens, random);
    let mut normal = |n: usize| -> Vec<f64> { (0..n).map(|_| random.normal()).collect() };
    let (q, k, v, g, u) =
        (normal(queries * head), normal(tokens * head), normal(tokens * head), normal(queries * head), normal(queries));
    let mut point = Point {
        sizes,
        q,
        k,
        v,
        g,
        u,
        visible,
        numbers: Default::default(),
        vectors: Default::default(),
        query_gates: Default::default(),
        gates: Default::default(),
        decays: Default::default(),
    };
    for parameter in &meaning.parameters {
        let name = parameter.name.clone();
        let mut weights = |n: usize| -> Vec<f64> { (0..n).map(|_| random.between(0.2, 1.0)).collect() };
        match &parameter.value {
            Value::Gate => drop(point.gates.insert(name, weights(tokens))),
            Value::QueryGate => drop(point.query_gates.insert(name, weights(queries))),
            Value::Decay => drop(point.decays.insert(name, weights(tokens))),
            _ => {}
        }
    }
    set_numbers(meaning, &mut point, random);
    point
}

/// Gives the parameters values for the point's sizes.
pub fn set_numbers(meaning: &Meaning, point: &mut Point, random: &mut Random) {
    let sizes = point.sizes;
    for parameter in &meaning.parameters {
        let name = parameter.name.clone();
        match &parameter.value {
            Value::Fixed(value) => drop(point.numbers.insert(name, number(value, sizes))),
            Value::Learn { init, each } if each.component => {
                let start = number(init, sizes);
                let values = (0..sizes.head).map(|_| start * random.between(0.6, 1.5)).collect();
                point.vectors.insert(name, values);
            }
            Value::Learn { init, .. } => {
                let value = number(init, sizes) * random.between(0.85, 1.2);
                point.numbers.insert(name, value);
            }
            Value::Gate | Value::QueryGate | Value::Decay | Value::Term(_) | Value::Way(_) => {}
        }
    }
}

/// The value of a term over sizes.
pub fn number(e: &Expr, sizes: Sizes) -> f64 {
    let of = |e: &Expr| number(e, sizes);
    match e {
        Expr::Number(ratio) => ratio.value(),
        Expr::Size(Size::Tokens) => sizes.tokens as f64,
        Expr::Size(Size::Model) => sizes.model as f64,
        Expr::Size(Size::Head) => sizes.head as f64,
        Expr::Size(Size::Heads) => sizes.heads as f64,
        Expr::Negate(x) => -of(x),
        Expr::Add(a, b) => of(a) + of(b),
        Expr::Subtract(a, b) => of(a) - of(b),
        Expr::Multiply(a, b) => of(a) * of(b),
        Expr::Divide(a, b) => of(a) / of(b),
        Expr::Apply(Function::Sqrt, x) => of(x).sqrt(),
        Expr::Apply(Function::Exp, x) => of(x).exp(),
        _ => f64::NAN,
    }
}
