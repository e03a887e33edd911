//! Ways through a term: rebuild, substitute, rename axes, visit.

use super::axis::{Axis, Space};
use super::expr::{Expr, Leaf, Op};
use std::collections::{HashMap, HashSet};

/// Rebuilds a term with `f` applied to its immediate subterms.
pub fn map_children(e: &Expr, mut f: impl FnMut(&Expr) -> Expr) -> Expr {
    match e.op() {
        Op::Const(_) | Op::Leaf(_) => e.clone(),
        Op::Pow(x, r) => f(x).pow(r),
        Op::Call(func, x) => Expr::call(*func, &f(x)),
        Op::Weights(kind, axis, x) => Expr::weights(kind, *axis, &f(x)),
        Op::SmoothMax(kind, axis, x) => Expr::smoothmax(kind, *axis, &f(x)),
        Op::Select(p) => Expr::select(&f(&p[0]), &f(&p[1]), &f(&p[2]), &f(&p[3])),
        Op::Solve(s) => Expr::solve(s.row, s.column, &f(&s.matrix), &f(&s.right)),
        Op::Sum(axis, x) => Expr::sum(*axis, &f(x)),
        Op::Mul(xs) => Expr::mul(xs.iter().map(f)),
        Op::Add(xs) => Expr::add(xs.iter().map(f)),
    }
}

/// Rebuilds bottom-up: `f` sees every subterm with its children already rebuilt.
pub fn rewrite_bottom_up(e: &Expr, f: &mut impl FnMut(Expr) -> Expr) -> Expr {
    fn go(e: &Expr, f: &mut impl FnMut(Expr) -> Expr, memo: &mut HashMap<Expr, Expr>) -> Expr {
        if let Some(done) = memo.get(e) {
            return done.clone();
        }
        let rebuilt = map_children(e, |x| go(x, f, memo));
        let result = f(rebuilt);
        memo.insert(e.clone(), result.clone());
        result
    }
    go(e, f, &mut HashMap::new())
}

/// Replaces every occurrence of `from` (up to the names of nothing: exact) by `to`.
pub fn replace(e: &Expr, from: &Expr, to: &Expr) -> Expr {
    fn go(e: &Expr, from: &Expr, to: &Expr, memo: &mut HashMap<Expr, Expr>) -> Expr {
        if e == from {
            return to.clone();
        }
        if let Some(done) = memo.get(e) {
            return done.clone();
        }
        let result = map_children(e, |x| go(x, from, to, memo));
        memo.insert(e.clone(), result.clone());
        result
    }
    go(e, from, to, &mut HashMap::new())
}

/// Replaces leaves by what `f` gives for them; `f` answers in the leaf's own axes.
pub fn substitute_leaves(e: &Expr, f: &mut impl FnMut(&Leaf) -> Option<Expr>) -> Expr {
    rewrite_bottom_up(e, &mut |x| match x.as_leaf() {
        Some(leaf) => f(leaf).unwrap_or(x),
        None => x,
    })
}

/// The term with the free axis `from` called `to`; bound axes step aside.
pub fn rename(e: &Expr, from: Axis, to: Axis) -> Expr {
    fn go(e: &Expr, from: Axis, to: Axis, memo: &mut HashMap<Expr, Expr>) -> Expr {
        if !e.has_axis(from) {
            return e.clone();
        }
        if let Some(done) = memo.get(e) {
            return done.clone();
        }
        let result = match e.op() {
            Op::Leaf(leaf) => {
                let axes = leaf.axes.iter().map(|&a| if a == from { to } else { a }).collect();
                Expr::leaf(Leaf { axes, ..leaf.clone() })
            }
            Op::Weights(kind, axis, x) => {
                let axis = if *axis == from { to } else { *axis };
                Expr::weights(kind, axis, &go(x, from, to, memo))
            }
            Op::Sum(axis, x) if *axis == to => {
                let (fresh, x) = step_aside(*axis, x, from);
                Expr::sum(fresh, &go(&x, from, to, memo))
            }
            Op::SmoothMax(kind, axis, x) if *axis == to => {
                let (fresh, x) = step_aside(*axis, x, from);
                Expr::smoothmax(kind, fresh, &go(&x, from, to, memo))
            }
            Op::Solve(s) => {
                let row = if s.row == to { e.axes().with(s.row).with(to).fresh(s.row.space) } else { s.row };
                let [matrix, right] = [&s.matrix, &s.right].map(|x| go(&rename(x, s.row, row), from, to, memo));
                Expr::solve(row, if s.column == from { to } else { s.column }, &matrix, &right)
            }
            _ => map_children(e, |x| go(x, from, to, memo)),
        };
        memo.insert(e.clone(), result.clone());
        result
    }
    debug_assert!(from.space == to.space && from.space != Space::Query || from == to);
    if from == to { e.clone() } else { go(e, from, to, &mut HashMap::new()) }
}

/// Frees the name of a bound axis that would capture.
fn step_aside(axis: Axis, body: &Expr, from: Axis) -> (Axis, Expr) {
    let fresh = body.axes().with(axis).with(from).fresh(axis.space);
    (fresh, rename(body, axis, fresh))
}

/// Every distinct subterm, children before parents.
pub fn subterms(e: &Expr) -> Vec<Expr> {
    fn go(e: &Expr, seen: &mut HashSet<Expr>, out: &mut Vec<Expr>) {
        if !seen.insert(e.clone()) {
            return;
        }
        e.children().into_iter().for_each(|x| go(x, seen, out));
        out.push(e.clone());
    }
    let mut out = Vec::new();
    go(e, &mut HashSet::new(), &mut out);
    out
}

/// The distinct inputs of a term, in the order of the algebra, axes as first met.
pub fn inputs(e: &Expr) -> Vec<Leaf> {
    let mut found: Vec<Leaf> = Vec::new();
    for x in subterms(e) {
        if let Some(leaf) = x.as_leaf()
            && !found.iter().any(|l| l.same_input(leaf))
        {
            found.push(leaf.clone());
        }
    }
    found.sort_by(|a, b| (a.role, a.ordinal, &a.name).cmp(&(b.role, b.ordinal, &b.name)));
    found
}

/// Number of nodes written out as a tree.
pub fn tree_size(e: &Expr) -> usize {
    fn go(e: &Expr, memo: &mut HashMap<Expr, usize>) -> usize {
        if let Some(&n) = memo.get(e) {
            return n;
        }
        let n = e.children().into_iter().fold(1usize, |s, x| s.saturating_add(go(x, memo)));
        memo.insert(e.clone(), n);
        n
    }
    go(e, &mut HashMap::new())
}

/// Whether the input occurs anywhere in the term.
pub fn mentions(e: &Expr, input: &Leaf) -> bool {
    subterms(e).iter().any(|x| x.as_leaf().is_some_and(|l| l.same_input(input)))
}
