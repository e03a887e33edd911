//! Forward mode: how a term changes when one input does.
//!
//! Each operation's rule stands beside its formula. Kinks get the total derivative of the algebra: d|x| = sign(x)·dx
//! with sign 0 = 0, and d x^r = r·x^(r−1)·dx with 0^s = 0, so that nothing is ever 0·∞.

use super::shares::{Shares, whole};
use crate::ir::memo::Memo;
use crate::ir::{Axis, Entropy, Expr, Func, Leaf, Op, Rational, Space, rational, traverse};
use num_traits::Zero;

/// What a named leaf stands for; it changes when that does. Its terms are along the token axis n.
#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    Weights {
        kind: Entropy,
        scores: Expr,
    },
    /// p_i, the share of a token in a whole.
    Share(Shares),
    /// p₀, the share of the rest.
    Rest(Shares),
    Formula(Expr),
    /// x with A x = b: the system, and A·u for a probe u.
    Solution {
        system: Expr,
        product: Expr,
        probe: Leaf,
    },
}

/// A product with more factors that change is taken apart in halves, which grows with their number and not its square.
const MANY_FACTORS: usize = 16;

/// The change of `e` per change of `input`, with `direction` (any leaf of the same axes) standing for that change.
pub fn tangent(e: &Expr, input: &Leaf, direction: &Leaf, names: &[(Leaf, Meaning)]) -> Expr {
    Tangent::new(input, direction, names).of(e)
}

/// The changes of many terms, each subterm's found once.
pub struct Tangent<'a> {
    input: &'a Leaf,
    direction: &'a Leaf,
    names: &'a [(Leaf, Meaning)],
    memo: Memo<Expr>,
}

impl<'a> Tangent<'a> {
    pub fn new(input: &'a Leaf, direction: &'a Leaf, names: &'a [(Leaf, Meaning)]) -> Tangent<'a> {
        Tangent { input, direction, names, memo: Memo::default() }
    }

    pub fn of(&mut self, e: &Expr) -> Expr {
        if let Some(done) = self.memo.get(e) {
            return done.clone();
        }
        let result = self.rule(e);
        self.memo.insert(e.clone(), result.clone());
        result
    }

    fn named(&mut self, e: &Expr, leaf: &Leaf, meaning: &Meaning) -> Expr {
        let at = leaf.axes.iter().copied().find(|a| a.space == Space::Token).unwrap_or(Axis::N);
        match meaning {
            Meaning::Formula(value) | Meaning::Solution { system: value, .. } => {
                let component = leaf.axes.iter().copied().find(|a| a.space == Space::Head).unwrap_or(Axis::E);
                self.of(&traverse::rename(&traverse::rename(value, Axis::N, at), Axis::E, component))
            }
            Meaning::Weights { kind, scores } => {
                let ds = self.of(&traverse::rename(scores, Axis::N, at));
                if ds.is_zero() { ds } else { weights_jacobian(kind, at, e, &ds) }
            }
            // dp_i = p_i (ds_i − d log Z)
            Meaning::Share(shares) => {
                let ds = self.of(&traverse::rename(&shares.scores, Axis::N, at));
                e.times(&ds.minus(&self.of_whole(shares)))
            }
            // dp₀ = p₀ (ds₀ − d log Z)
            Meaning::Rest(shares) => {
                let ds = self.of(&shares.rest_score);
                e.times(&ds.minus(&self.of_whole(shares)))
            }
        }
    }

    /// d log Z = Σ_i p_i ds_i + p₀ ds₀.
    fn of_whole(&mut self, shares: &Shares) -> Expr {
        let (ds, ds_rest) = (self.of(&shares.scores), self.of(&shares.rest_score));
        let mean = Expr::sum(Axis::N, &Expr::leaf(shares.share.clone()).times(&ds));
        mean.plus(&Expr::leaf(shares.rest_share.clone()).times(&ds_rest))
    }

    /// The named shares of a whole.
    fn shares(&self, e: &Expr) -> Option<Shares> {
        let parts = whole(e).filter(|_| !self.names.is_empty())?;
        self.names.iter().find_map(|(_, meaning)| match meaning {
            Meaning::Share(shares) if shares.parts() == parts => Some(shares.clone()),
            _ => None,
        })
    }

    fn rule(&mut self, e: &Expr) -> Expr {
        match e.op() {
            Op::Const(_) => Expr::zero(),
            Op::Leaf(leaf) if leaf.same_input(self.input) => {
                Expr::leaf(Leaf { axes: leaf.axes.clone(), ..self.direction.clone() })
            }
            Op::Leaf(leaf) => match self.names.iter().find(|(named, _)| named.same_input(leaf)) {
                Some((_, meaning)) => self.named(e, leaf, meaning),
                None => Expr::zero(),
            },
            // d(Σ x_j) = Σ dx_j
            Op::Add(xs) => Expr::add(xs.iter().map(|x| self.of(x)).collect::<Vec<_>>()),
            // d(Π x_j) = Σ_j dx_j Π_{l≠j} x_l, and d(a·b) = da·b + a·db of two halves where that would be long
            Op::Mul(xs) => {
                let (fixed, changing): (Vec<&Expr>, Vec<&Expr>) = xs.iter().partition(|x| self.of(x).is_zero());
                if changing.len() > MANY_FACTORS {
                    let (first, second) = changing.split_at(changing.len() / 2);
                    let [a, b] = [first, second].map(|half| Expr::mul(half.iter().map(|&x| x.clone())));
                    let change = Expr::add([self.of(&a).times(&b), self.of(&b).times(&a)]);
                    return Expr::mul(fixed.into_iter().cloned().chain([change]));
                }
                let changes: Vec<Expr> = xs.iter().map(|x| self.of(x)).collect();
                Expr::add(changes.iter().enumerate().filter(|(_, dx)| !dx.is_zero()).map(|(j, dx)| {
                    let others = xs.iter().enumerate().filter(|(l, _)| *l != j).map(|(_, x)| x.clone());
                    Expr::mul(others.chain([dx.clone()]))
                }))
            }
            // d(x^r) = r x^(r−1) dx
            Op::Pow(x, r) => {
                let slope = x.pow(&(r - rational::int(1)));
                Expr::mul([Expr::constant(r.clone()), slope, self.of(x)])
            }
            Op::Call(func, x) => {
                let dx = self.of(x);
                if dx.is_zero() {
                    return dx;
                }
                match self.shares(x).filter(|_| *func == Func::Log) {
                    Some(shares) => self.of_whole(&shares),
                    // d f(x) = f′(x) dx
                    None => func.slope(x).times(&dx),
                }
            }
            // d(x if a ≤ b else y) = dx if a ≤ b else dy
            Op::Select(p) => {
                let (dx, dy) = (self.of(&p[2]), self.of(&p[3]));
                Expr::select(&p[0], &p[1], &dx, &dy)
            }
            // A x = b:  A dx = db − dA x
            Op::Solve(s) => {
                let (change, right) = (self.of(&s.matrix), self.of(&s.right));
                let moved = Expr::sum(s.column, &change.times(e));
                Expr::solve(s.row, s.column, &s.matrix, &right.minus(&moved))
            }
            // d(Σ_i x) = Σ_i dx
            Op::Sum(axis, x) => Expr::sum(*axis, &self.of(x)),
            // d max_p(Σ p s + H(p)) = Σ p ds, p the maximizer (Danskin)
            Op::SmoothMax(kind, axis, s) => {
                let p = Expr::weights(kind, *axis, s);
                Expr::sum(*axis, &p.times(&self.of(s)))
            }
            Op::Weights(kind, axis, s) => {
                let ds = self.of(s);
                if ds.is_zero() { ds } else { weights_jacobian(kind, *axis, e, &ds) }
            }
        }
    }
}

/// dp for p = weights(s): the Jacobian of the maximizer applied to ds.
pub fn weights_jacobian(kind: &Entropy, axis: Axis, p: &Expr, ds: &Expr) -> Expr {
    weights_jacobian_naming(kind, axis, p, ds, |centred| centred)
}

/// The same; `name` may put a name in the place of ds − Σ p ds where that is used more than once.
pub fn weights_jacobian_naming(
    kind: &Entropy,
    axis: Axis,
    p: &Expr,
    ds: &Expr,
    name: impl FnOnce(Expr) -> Expr,
) -> Expr {
    let mean = |w: &Expr, x: &Expr| Expr::sum(axis, &w.times(x));
    match kind {
        // dp = p (ds − Σ p ds)
        Entropy::Shannon => p.times(&ds.minus(&mean(p, ds))),
        // u = p^(2−α) on the support:  dp = u (ds − Σ u ds / Σ u)
        Entropy::Tsallis(alpha) => {
            let u = support_power(p, &(rational::int(2) - alpha));
            let centre = mean(&u, ds).over(&Expr::sum(axis, &u));
            u.times(&ds.minus(&centre))
        }
        // u = p^(2−γ) on the support, δ = ds − Σ p ds:  dp = ‖p‖_γ^(γ−1) / (γ−1) · (u δ − p Σ u δ)
        Entropy::Norm(gamma) => {
            let less = gamma - rational::int(1);
            let u = support_power(p, &(rational::int(2) - gamma));
            let centred = name(ds.minus(&mean(p, ds)));
            let norm = Expr::sum(axis, &p.pow(gamma)).pow(&(&less / gamma));
            let change = u.times(&centred).minus(&p.times(&mean(&u, &centred)));
            Expr::mul([Expr::constant(less.recip()), norm, change])
        }
    }
}

/// p^r where p > 0 and 0 elsewhere.
fn support_power(p: &Expr, r: &Rational) -> Expr {
    if r.is_zero() { p.signum() } else { p.pow(r) }
}
