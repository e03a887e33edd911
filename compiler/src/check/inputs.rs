//! The inputs every recipe shares: tokens, projections and sizes, with the axes the language gives them.

use crate::ir::{Axis, Expr, Leaf, Role, Sign, Space};

/// The names with a meaning of their own; nothing else may be called so.
pub const RESERVED: [&str; 16] = ["q", "k", "v", "z", "h", "i", "j", "t", "E", "F", "N", "d", "d_h", "H", "W1", "W2"];

/// `q = W1 z`, per head.
pub fn q() -> Leaf {
    Leaf::new(Role::Query, 1, "q", &[Axis::T, Axis::E], Sign::Unknown)
}

/// `k = W2 h`, per head.
pub fn k() -> Leaf {
    Leaf::new(Role::Key, 1, "k", &[Axis::N, Axis::E], Sign::Unknown)
}

/// The token being moved.
pub fn z() -> Leaf {
    Leaf::new(Role::Query, 0, "z", &[Axis::T, Axis::C], Sign::Unknown)
}

/// An attended token.
pub fn h() -> Leaf {
    Leaf::new(Role::Key, 0, "h", &[Axis::N, Axis::C], Sign::Unknown)
}

/// The value of an attended token.
pub fn v() -> Leaf {
    Leaf::new(Role::Value, 0, "v", &[Axis::N, Axis::E], Sign::Unknown)
}

pub fn w1() -> Leaf {
    Leaf::new(Role::Matrix, 0, "W1", &[Axis::E, Axis::C], Sign::Unknown)
}

pub fn w2() -> Leaf {
    Leaf::new(Role::Matrix, 1, "W2", &[Axis::E, Axis::C], Sign::Unknown)
}

/// `N`, `d`, `d_h`, `H`.
pub fn sizes() -> [Leaf; 4] {
    let size = |ordinal, name| Leaf::new(Role::Size, ordinal, name, &[], Sign::Positive);
    [size(0, "N"), size(1, "d"), size(2, "d_h"), size(3, "H")]
}

/// `d_h`.
pub fn d_h() -> Leaf {
    let [_, _, d_h, _] = sizes();
    d_h
}

/// The local energy as the global one sees it.
pub fn energy(axes: &[Axis], sign: Sign) -> Leaf {
    Leaf::new(Role::Named, 0, "E", axes, sign)
}

/// The i-th state of an optimizer.
pub fn state(i: usize, name: &str) -> Leaf {
    let ordinal = u16::try_from(i).unwrap_or(u16::MAX);
    Leaf::new(Role::Named, ordinal, name, &[Axis::T, Axis::C], Sign::Unknown)
}

/// The Hessian at the i-th point an optimizer asks for it; only `solve` can look inside.
pub fn hessian(i: usize) -> Leaf {
    let ordinal = FIRST_GRADIENT.saturating_add(u16::try_from(i).unwrap_or(u16::MAX));
    let axes = [Axis::T, Axis::C, Axis::new(Space::Model, 1)];
    Leaf::new(Role::Matrix, ordinal, "∇²F", &axes, Sign::Unknown)
}

/// The i-th way to solve a system that was given; only `solve` can use it.
pub fn method(i: usize) -> Leaf {
    let ordinal = FIRST_METHOD.saturating_add(u16::try_from(i).unwrap_or(u16::MAX));
    Leaf::new(Role::Named, ordinal, "a way to solve", &[], Sign::Unknown)
}

const FIRST_METHOD: u16 = 1000;

/// Gradients are numbered from here, after the states.
pub const FIRST_GRADIENT: u16 = 100;
const FIRST_LINE: u16 = 200;

/// What a line of a program is called there.
pub fn line(i: usize, name: &str, value: &Expr, sign: Sign) -> Leaf {
    let ordinal = FIRST_LINE.saturating_add(u16::try_from(i).unwrap_or(u16::MAX));
    let axes: Vec<Axis> = value.axes().iter().collect();
    Leaf::new(Role::Named, ordinal, name, &axes, sign)
}

/// The i-th gradient an optimizer takes.
pub fn gradient(i: usize) -> Leaf {
    let ordinal = FIRST_GRADIENT.saturating_add(u16::try_from(i).unwrap_or(u16::MAX));
    let name = if i == 0 { "∇F".to_string() } else { format!("∇F{}", i + 1) };
    Leaf::new(Role::Named, ordinal, &name, &[Axis::T, Axis::C], Sign::Unknown)
}
