//! Reads the gradient off a tangent: the transpose of a linear map.
//!
//! A tangent is linear in its direction, so it is a sum of terms "coefficient × direction at some axes", inside sums.
//! A sum over an axis of the direction disappears (Σ_i y_i·dx_i has the gradient y_i); any other sum stays around the
//! coefficient.

use crate::ir::memo::Memo;
use crate::ir::{Axis, Expr, Leaf, Op, Space, traverse};
use std::collections::{BTreeMap, BTreeSet};

/// The gradient with respect to `direction`, along the axes `direction` is declared with.
///
/// `tangent` must be linear in the direction and must not extend along the declared token or component axes itself.
pub fn transpose(tangent: &Expr, direction: &Leaf) -> Expr {
    let parts = coefficients(tangent, direction);
    Expr::add(parts.into_iter().map(|(axes, coefficient)| rename_all(&coefficient, &axes, &direction.axes)))
}

/// Coefficients by the axes at which the direction occurs.
pub type Parts = BTreeMap<Vec<Axis>, Expr>;

pub fn coefficients(e: &Expr, direction: &Leaf) -> Parts {
    Coefficients { direction, memo: Memo::default() }.of(e)
}

struct Coefficients<'a> {
    direction: &'a Leaf,
    memo: Memo<Parts>,
}

impl Coefficients<'_> {
    fn of(&mut self, e: &Expr) -> Parts {
        if !e.may_mention(self.direction) {
            return Parts::new();
        }
        if let Some(done) = self.memo.get(e) {
            return done.clone();
        }
        let parts = self.rule(e);
        self.memo.insert(e.clone(), parts.clone());
        parts
    }

    fn rule(&mut self, e: &Expr) -> Parts {
        let direction = self.direction;
        match e.op() {
            Op::Leaf(leaf) if leaf.same_input(direction) => Parts::from([(leaf.axes.clone(), Expr::one())]),
            Op::Add(xs) => merge(xs.iter().map(|x| self.of(x))),
            Op::Mul(xs) => {
                let Some(linear) = xs.iter().position(|x| traverse::mentions(x, direction)) else {
                    return Parts::new();
                };
                let others = Expr::mul(xs.iter().enumerate().filter(|(j, _)| *j != linear).map(|(_, x)| x.clone()));
                map(self.of(&xs[linear]), |c| c.times(&others))
            }
            Op::Sum(axis, x) => match solution(x, *axis, direction) {
                Some(moved) => self.of(&moved),
                None => merge(self.of(x).into_iter().map(|part| Parts::from([under_sum(*axis, part, direction)]))),
            },
            Op::Select(p) => {
                let (x, y) = (self.of(&p[2]), self.of(&p[3]));
                let zero = Expr::zero();
                let axes: BTreeSet<_> = x.keys().chain(y.keys()).cloned().collect();
                let chosen = |axes: Vec<Axis>| {
                    let branch = |parts: &Parts| parts.get(&axes).unwrap_or(&zero).clone();
                    let chosen = Expr::select(&p[0], &p[1], &branch(&x), &branch(&y));
                    (axes, chosen)
                };
                axes.into_iter().map(chosen).collect()
            }
            _ => {
                debug_assert!(!traverse::mentions(e, direction), "a tangent is linear in its direction: {e}");
                Parts::new()
            }
        }
    }
}

/// A coefficient under a sum, which disappears where it runs over an axis of the direction.
fn under_sum(axis: Axis, (axes, c): (Vec<Axis>, Expr), direction: &Leaf) -> (Vec<Axis>, Expr) {
    let Some(j) = axes.iter().position(|a| *a == axis) else { return (axes, Expr::sum(axis, &c)) };
    let target = direction.axes[j];
    // The sum saw only visible tokens; outside of it the coefficient must say so.
    let c = match axis.space {
        Space::Token => c.times(&Expr::leaf(Leaf::visible(axis))),
        _ => c,
    };
    let axes = axes.iter().map(|a| if *a == axis { target } else { *a }).collect();
    (axes, rename_axis(&c, axis, target))
}

/// Σ_c y[c]·x[c] with A x = b and b linear in the direction is Σ_r λ[r]·b[r] with Aᵀ λ = y.
///
/// The sum over c is brought to the solution first: into sums, and past those over other axes.
fn solution(body: &Expr, axis: Axis, direction: &Leaf) -> Option<Expr> {
    let solves = |x: &Expr| {
        x.may_mention(direction)
            && traverse::subterms(x).iter().any(|y| matches!(y.op(), Op::Solve(_)) && traverse::mentions(y, direction))
    };
    // Only sums over components may change places with any other.
    if !matches!(axis.space, Space::Head | Space::Model) {
        return None;
    }
    let factors = body.factors();
    let at = factors.iter().position(solves)?;
    let others = Expr::mul(factors.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, x)| x.clone()));
    let inside = |x: &Expr| solution(x, axis, direction).unwrap_or_else(|| Expr::sum(axis, x));
    match factors[at].op() {
        Op::Solve(s) if s.column == axis => {
            let row = body.axes().union(s.matrix.axes()).union(s.right.axes()).with(axis).fresh(axis.space);
            let [matrix, right] = [&s.matrix, &s.right].map(|x| traverse::rename(x, s.row, row));
            Some(Expr::sum(row, &Expr::solve(axis, row, &matrix, &others).times(&right)))
        }
        Op::Add(terms) => Some(Expr::add(terms.iter().map(|term| inside(&term.times(&others))))),
        Op::Sum(inner, x) => {
            let (inner, x) = apart(*inner, x, &others);
            Some(Expr::sum(inner, &inside(&x.times(&others))))
        }
        _ => None,
    }
}

/// The axis under a name that the other term does not have.
fn apart(axis: Axis, x: &Expr, other: &Expr) -> (Axis, Expr) {
    if axis.space == Space::Query || !other.has_axis(axis) {
        return (axis, x.clone());
    }
    let fresh = x.axes().union(other.axes()).with(axis).fresh(axis.space);
    (fresh, traverse::rename(x, axis, fresh))
}

fn map(parts: Parts, f: impl Fn(&Expr) -> Expr) -> Parts {
    parts.into_iter().map(|(axes, c)| (axes, f(&c))).collect()
}

fn merge(all: impl Iterator<Item = Parts>) -> Parts {
    let mut merged: BTreeMap<Vec<Axis>, Vec<Expr>> = BTreeMap::new();
    for (axes, c) in all.flatten() {
        merged.entry(axes).or_default().push(c);
    }
    // All at once: one by one, a long sum would be gone through for each of its terms.
    merged.into_iter().map(|(axes, all)| (axes, Expr::add(all))).collect()
}

fn rename_axis(e: &Expr, from: Axis, to: Axis) -> Expr {
    if from == to { e.clone() } else { traverse::rename(e, from, to) }
}

fn rename_all(e: &Expr, from: &[Axis], to: &[Axis]) -> Expr {
    from.iter().zip(to).fold(e.clone(), |e, (&from, &to)| rename_axis(&e, from, to))
}
