//! Whether a condition on parameters holds: exactly for numbers, by signs or at a few sizes for the rest.

use std::cmp::Ordering;

use num_traits::{Signed, Zero};

use crate::ir::eval::{Env, Sizes, evaluate};
use crate::ir::{Expr, Role, Sign, traverse};
use crate::syntax::ast::CompareOp;

use super::term::is_over_sizes;

/// Whether `left op right` holds, given left − right; `None` when it cannot be told.
pub fn holds(op: CompareOp, difference: &Expr) -> Option<bool> {
    if let Some(number) = difference.as_const() {
        let order = if number.is_zero() {
            Ordering::Equal
        } else if number.is_positive() {
            Ordering::Greater
        } else {
            Ordering::Less
        };
        return Some(compare(op, order));
    }
    by_sign(op, difference.sign()).or_else(|| at_sizes(op, difference))
}

/// Whether `x op 0` holds of a number; nothing holds of what is none.
pub fn holds_of(op: CompareOp, x: f64) -> bool {
    x.partial_cmp(&0.0).is_some_and(|order| compare(op, order))
}

/// Whether tokens decide the value.
pub fn has_gate(e: &Expr) -> bool {
    traverse::inputs(e).iter().any(|leaf| matches!(leaf.role, Role::Gate | Role::Decay))
}

/// `a op b` as `b op' a`.
pub fn mirrored(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::LessEqual => CompareOp::GreaterEqual,
        CompareOp::Less => CompareOp::Greater,
        CompareOp::GreaterEqual => CompareOp::LessEqual,
        CompareOp::Greater => CompareOp::Less,
        CompareOp::Equal => CompareOp::Equal,
    }
}

fn compare(op: CompareOp, order: Ordering) -> bool {
    match op {
        CompareOp::LessEqual => order != Ordering::Greater,
        CompareOp::Less => order == Ordering::Less,
        CompareOp::GreaterEqual => order != Ordering::Less,
        CompareOp::Greater => order == Ordering::Greater,
        CompareOp::Equal => order == Ordering::Equal,
    }
}

fn by_sign(op: CompareOp, sign: Sign) -> Option<bool> {
    use Ordering::{Equal, Greater, Less};
    let possible: &[Ordering] = match sign {
        Sign::Positive => &[Greater],
        Sign::NonNegative => &[Greater, Equal],
        Sign::Zero => &[Equal],
        Sign::NonPositive => &[Less, Equal],
        Sign::Negative => &[Less],
        Sign::Unknown => &[Less, Equal, Greater],
    };
    let holds = |order: &Ordering| compare(op, *order);
    if possible.iter().all(holds) {
        Some(true)
    } else if !possible.iter().any(holds) {
        Some(false)
    } else {
        None
    }
}

fn at_sizes(op: CompareOp, difference: &Expr) -> Option<bool> {
    if !is_over_sizes(difference) {
        return None;
    }
    let heads = [(1, 1, 1), (8, 1, 16), (8, 4, 64), (64, 4, 256), (64, 12, 512)];
    let mut all = true;
    for (head, heads, tokens) in heads {
        let sizes = Sizes { queries: 1, tokens, head, model: head * heads, heads };
        let value = evaluate(difference, &Env::new(sizes)).ok()?;
        all &= holds_of(op, *value.data.first()?);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::inputs;

    fn check(op: CompareOp, difference: Expr, expect: Option<bool>) {
        assert_eq!(holds(op, &difference), expect, "{difference}");
    }

    #[test]
    fn numbers_signs_and_sizes() {
        let [tokens, _, head, _] = inputs::sizes().map(Expr::leaf);
        check(CompareOp::Greater, Expr::int(0), Some(false));
        check(CompareOp::GreaterEqual, Expr::int(0), Some(true));
        check(CompareOp::Greater, head.sqrt(), Some(true));
        check(CompareOp::Greater, head.minus(&Expr::one()), Some(false));
        check(CompareOp::GreaterEqual, head.minus(&Expr::one()), Some(true));
        check(CompareOp::Less, tokens.minus(&Expr::int(100_000)), Some(true));
        check(CompareOp::Greater, Expr::leaf(inputs::q()), None);
    }
}
