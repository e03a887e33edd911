//! Where an energy is not twice differentiable.

use crate::ir::{Entropy, Expr, Func, Op, rational, traverse};

/// A set on which a derivative jumps or does not exist.
#[derive(Clone, Debug, PartialEq)]
pub struct Kink {
    /// What happens, in words.
    pub what: &'static str,
    /// It happens where this is zero, or where the two sides meet.
    pub place: (Expr, Expr),
}

/// The kinks of a term, children first.
pub fn kinks(e: &Expr) -> Vec<Kink> {
    let zero = Expr::zero();
    let mut found = Vec::new();
    for x in traverse::subterms(e) {
        let kink = match x.op() {
            // |x|^r is smooth enough for r ≥ 2; the power hides the kink.
            Op::Call(Func::Abs, inner) if !only_under_powers(e, &x) => {
                Some(Kink { what: "the first derivative jumps", place: (inner.clone(), zero.clone()) })
            }
            Op::Call(Func::Sign, inner) => Some(Kink { what: "the value jumps", place: (inner.clone(), zero.clone()) }),
            Op::Select(p) => Some(Kink { what: "the second derivative jumps", place: (p[0].clone(), p[1].clone()) }),
            Op::Pow(base, r) if !r.is_integer() && *r < rational::int(2) && !base.sign().is_nonzero() => {
                let what = if *r < rational::int(1) {
                    "the derivative does not exist"
                } else {
                    "the second derivative does not exist"
                };
                (!matches!(base.op(), Op::Call(Func::Abs, _) | Op::Weights(..)))
                    .then(|| Kink { what, place: (base.clone(), zero.clone()) })
            }
            Op::SmoothMax(Entropy::Tsallis(_) | Entropy::Norm(_), axis, s) => {
                let weight = Expr::weights(&entropy_of(&x), *axis, s);
                Some(Kink { what: "a token enters or leaves the support", place: (weight, zero.clone()) })
            }
            _ => None,
        };
        found.extend(kink);
    }
    found
}

fn entropy_of(e: &Expr) -> Entropy {
    match e.op() {
        Op::SmoothMax(kind, ..) | Op::Weights(kind, ..) => kind.clone(),
        _ => Entropy::Shannon,
    }
}

/// Whether every occurrence of `x` is the base of a power of at least 2.
fn only_under_powers(e: &Expr, x: &Expr) -> bool {
    let guarded = |y: &Expr| matches!(y.op(), Op::Pow(base, r) if base == x && *r >= rational::int(2));
    traverse::subterms(e).iter().all(|y| guarded(y) || !y.children().contains(&x))
}
