//! Where an energy is not twice differentiable.

use num_traits::Signed;

use crate::ir::{Entropy, Expr, Func, Op, Sign, rational, traverse};

/// A set on which a derivative jumps or does not exist.
#[derive(Clone, Debug, PartialEq)]
pub struct Kink {
    /// What happens, in words.
    pub what: &'static str,
    /// It happens where this is zero, or where the two sides meet.
    pub place: (Expr, Expr),
    /// Whether it takes the first to pass from ≤ the second to above it.
    pub is_switch: bool,
}

impl Kink {
    /// Whether some input may lead there, by what is known of signs.
    pub fn is_reachable(&self, sign: impl Fn(&Expr) -> Sign) -> bool {
        let sign = sign(&self.place.0.minus(&self.place.1));
        let never_above = self.is_switch && sign.negate().is_nonnegative();
        !sign.is_nonzero() && !never_above
    }
}

/// What happens where the gradient still exists.
pub const SECOND_DERIVATIVE: &str = "the second derivative may not exist";

/// The kinks of a term, children first.
pub fn kinks(e: &Expr) -> Vec<Kink> {
    let zero = Expr::zero();
    let mut found = Vec::new();
    let at_zero =
        |what: &'static str, x: &Expr| Some(Kink { what, place: (x.clone(), zero.clone()), is_switch: false });
    for x in traverse::subterms(e) {
        let kink = match x.op() {
            // |x|^r is smooth enough for r ≥ 2; the power hides the kink.
            Op::Call(Func::Abs, inner) if !only_under_powers(e, &x) => at_zero("the first derivative may jump", inner),
            Op::Call(Func::Sign, inner) => at_zero("the value or a derivative may jump", inner),
            Op::Select(p) => {
                let place = (p[0].clone(), p[1].clone());
                Some(Kink { what: "the branches meet and a derivative may jump", place, is_switch: true })
            }
            Op::Pow(base, _) if base.sign().is_nonzero() || matches!(base.op(), Op::Weights(..)) => None,
            Op::Pow(base, r) if r.is_negative() => at_zero("it may be unbounded; here its value counts as 0", base),
            Op::Pow(base, r) if !r.is_integer() && *r < rational::int(2) => match (base.op(), *r < rational::int(1)) {
                (Op::Call(Func::Abs, inner), false) => at_zero(SECOND_DERIVATIVE, inner),
                (_, true) => at_zero("the first derivative may not exist", base),
                (_, false) => at_zero(SECOND_DERIVATIVE, base),
            },
            Op::SmoothMax(Entropy::Tsallis(_) | Entropy::Norm(_), axis, s) => {
                let weight = Expr::weights(&entropy_of(&x), *axis, s);
                Some(Kink {
                    what: "a token enters or leaves the support",
                    place: (weight, zero.clone()),
                    is_switch: false,
                })
            }
            _ => None,
        };
        found.extend(kink.filter(|kink| kink.is_reachable(Expr::sign)));
    }
    found
}

fn entropy_of(e: &Expr) -> Entropy {
    match e.op() {
        Op::SmoothMax(kind, ..) | Op::Weights(kind, ..) => kind.clone(),
        _ => Entropy::Shannon,
    }
}

/// Whether every occurrence of `x` is the base of a power above 1, which has a row of its own.
fn only_under_powers(e: &Expr, x: &Expr) -> bool {
    let guarded = |y: &Expr| matches!(y.op(), Op::Pow(base, r) if base == x && *r > rational::int(1));
    traverse::subterms(e).iter().all(|y| guarded(y) || !y.children().contains(&x))
}
