//! Ways through a term: rebuild, substitute, rename axes, visit.

use super::axis::{Axis, Space};
use super::expr::{Expr, Leaf, Op};
use super::memo::{Memo, Seen};

/// Rebuilds a term with `f` applied to its immediate subterms; where none changes, the term is what it was.
pub fn map_children(e: &Expr, f: impl FnMut(&Expr) -> Expr) -> Expr {
    let old = e.children();
    let new: Vec<Expr> = old.iter().copied().map(f).collect();
    if old.iter().zip(&new).all(|(old, new)| old.is(new)) {
        return e.clone();
    }
    match (e.op(), new.as_slice()) {
        (Op::Pow(_, r), [x]) => x.pow(r),
        (Op::Call(func, _), [x]) => Expr::call(*func, x),
        (Op::Weights(kind, axis, _), [x]) => Expr::weights(kind, *axis, x),
        (Op::SmoothMax(kind, axis, _), [x]) => Expr::smoothmax(kind, *axis, x),
        (Op::Select(_), [a, b, x, y]) => Expr::select(a, b, x, y),
        (Op::Solve(s), [matrix, right]) => Expr::solve(s.row, s.column, matrix, right),
        (Op::Sum(axis, _), [x]) => Expr::sum(*axis, x),
        (Op::Mul(_), _) => Expr::mul(new),
        (Op::Add(_), _) => Expr::add(new),
        _ => e.clone(),
    }
}

/// Rebuilds bottom-up: `f` sees every subterm with its children already rebuilt.
pub fn rewrite_bottom_up(e: &Expr, f: &mut impl FnMut(Expr) -> Expr) -> Expr {
    fn go(e: &Expr, f: &mut impl FnMut(Expr) -> Expr, memo: &mut Memo<Expr>) -> Expr {
        if let Some(done) = memo.get(e) {
            return done.clone();
        }
        let rebuilt = map_children(e, |x| go(x, f, memo));
        let result = f(rebuilt);
        memo.insert(e.clone(), result.clone());
        result
    }
    go(e, f, &mut Memo::default())
}

/// Replaces every occurrence of `from` (up to the names of nothing: exact) by `to`.
pub fn replace(e: &Expr, from: &Expr, to: &Expr) -> Expr {
    fn go(e: &Expr, from: &Expr, to: &Expr, memo: &mut Memo<Expr>) -> Expr {
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
    go(e, from, to, &mut Memo::default())
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
    Renaming::new(from, to).of(e)
}

/// A free axis under another name, in many terms that share parts.
pub struct Renaming {
    from: Axis,
    to: Axis,
    memo: Memo<Expr>,
}

impl Renaming {
    pub fn new(from: Axis, to: Axis) -> Renaming {
        debug_assert!(from.space == to.space && from.space != Space::Query || from == to);
        Renaming { from, to, memo: Memo::default() }
    }

    pub fn of(&mut self, e: &Expr) -> Expr {
        let (from, to) = (self.from, self.to);
        if from == to || !e.has_axis(from) {
            return e.clone();
        }
        if let Some(done) = self.memo.get(e) {
            return done.clone();
        }
        let result = match e.op() {
            Op::Leaf(leaf) => {
                let axes = leaf.axes.iter().map(|&a| if a == from { to } else { a }).collect();
                Expr::leaf(Leaf { axes, ..leaf.clone() })
            }
            Op::Weights(kind, axis, x) => {
                let axis = if *axis == from { to } else { *axis };
                Expr::weights(kind, axis, &self.of(x))
            }
            Op::Sum(axis, x) if *axis == to => {
                let (fresh, x) = step_aside(*axis, x, from);
                Expr::sum(fresh, &self.of(&x))
            }
            Op::SmoothMax(kind, axis, x) if *axis == to => {
                let (fresh, x) = step_aside(*axis, x, from);
                Expr::smoothmax(kind, fresh, &self.of(&x))
            }
            Op::Solve(s) => {
                let row = if s.row == to { e.axes().with(s.row).with(to).fresh(s.row.space) } else { s.row };
                let [matrix, right] = [&s.matrix, &s.right].map(|x| self.of(&rename(x, s.row, row)));
                Expr::solve(row, if s.column == from { to } else { s.column }, &matrix, &right)
            }
            _ => map_children(e, |x| self.of(x)),
        };
        self.memo.insert(e.clone(), result.clone());
        result
    }
}

/// Frees the name of a bound axis that would capture.
fn step_aside(axis: Axis, body: &Expr, from: Axis) -> (Axis, Expr) {
    let fresh = body.axes().with(axis).with(from).fresh(axis.space);
    (fresh, rename(body, axis, fresh))
}

/// Every distinct subterm, children before parents.
pub fn subterms(e: &Expr) -> Vec<Expr> {
    unseen(e, &mut Seen::default())
}

/// The distinct subterms that were not seen before.
pub fn unseen(e: &Expr, seen: &mut Seen) -> Vec<Expr> {
    let mut out = Vec::new();
    visit(e, seen, &mut |x| out.push(x.clone()));
    out
}

/// The distinct subterms, to ask whether a term is one of them.
pub fn occurring(e: &Expr) -> Seen {
    let mut seen = Seen::default();
    visit(e, &mut seen, &mut |_| {});
    seen
}

fn visit(e: &Expr, seen: &mut Seen, f: &mut impl FnMut(&Expr)) {
    if seen.insert(e.clone()) {
        e.children().into_iter().for_each(|x| visit(x, seen, f));
        f(e);
    }
}

/// The distinct inputs of a term, in the order of the algebra, axes as first met.
pub fn inputs(e: &Expr) -> Vec<Leaf> {
    let mut found: Vec<Leaf> = Vec::new();
    visit(e, &mut Seen::default(), &mut |x| {
        if let Some(leaf) = x.as_leaf()
            && !found.iter().any(|l| l.same_input(leaf))
        {
            found.push(leaf.clone());
        }
    });
    found.sort_by(|a, b| (a.role, a.ordinal, &a.name).cmp(&(b.role, b.ordinal, &b.name)));
    found
}

/// Number of nodes written out as a tree.
pub fn tree_size(e: &Expr) -> usize {
    fn go(e: &Expr, memo: &mut Memo<usize>) -> usize {
        if let Some(&n) = memo.get(e) {
            return n;
        }
        let n = e.children().into_iter().fold(1usize, |s, x| s.saturating_add(go(x, memo)));
        memo.insert(e.clone(), n);
        n
    }
    go(e, &mut Memo::default())
}

/// Whether the input occurs anywhere in the term.
pub fn mentions(e: &Expr, input: &Leaf) -> bool {
    fn go(e: &Expr, input: &Leaf, without: &mut Seen) -> bool {
        if !e.may_mention(input) {
            return false;
        }
        if let Some(leaf) = e.as_leaf() {
            return leaf.same_input(input);
        }
        without.insert(e.clone()) && e.children().into_iter().any(|x| go(x, input, without))
    }
    go(e, input, &mut Seen::default())
}
