//! Shares: what every token is of a whole that has other parts too.
//!
//! In Z = r + Σ_j f_j, f_i = a_i exp(x_i), the share of a token is p_i = f_i/Z and that of the rest p₀ = r/Z; together they
//! are 1. With the scores s_i = log f_i and s₀ = log r,
//! ```text
//! d log Z = Σ_i p_i ds_i + p₀ ds₀,   dp_i = p_i (ds_i − d log Z),   dp₀ = p₀ (ds₀ − d log Z)
//! ```
//! as for weights, which are the shares of a whole without a rest. A softmax with a sink is made of shares.

use crate::ir::{Axis, Entropy, Expr, Func, Leaf, Op, Sign, Space, traverse};

/// The shares of a whole, with their names.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// f_i and its logarithm s_i, along the token axis n.
    pub part: Expr,
    pub scores: Expr,
    /// r and its logarithm s₀.
    pub rest: Expr,
    pub rest_score: Expr,
    /// p_i and p₀.
    pub share: Leaf,
    pub rest_share: Leaf,
}

impl Shares {
    pub fn new((part, rest): (Expr, Expr), share: Leaf, rest_share: Leaf) -> Shares {
        let (scores, rest_score) = (log_of_product(&part), log_of_product(&rest));
        Shares { part, scores, rest, rest_score, share, rest_share }
    }

    /// f_i and r.
    pub fn parts(&self) -> (Expr, Expr) {
        (self.part.clone(), self.rest.clone())
    }

    /// Z.
    pub fn whole(&self) -> Expr {
        self.rest.plus(&Expr::sum(Axis::N, &self.part))
    }

    /// p_i = f_i/Z, 0 at tokens that are not seen.
    pub fn of_token(&self) -> Expr {
        Expr::leaf(Leaf::visible(Axis::N)).times(&self.part).over(&self.whole())
    }

    /// p₀ = r/Z.
    pub fn of_rest(&self) -> Expr {
        self.rest.over(&self.whole())
    }

    /// p_i without a number that could leave its range: of all tokens' part, σ(log Σ f − s₀), what is the token's.
    pub fn of_token_steadily(&self) -> Expr {
        let weights = Expr::weights(&Entropy::Shannon, Axis::N, &self.scores);
        weights.times(&self.lead().sigmoid())
    }

    /// p₀ in the same way.
    pub fn of_rest_steadily(&self) -> Expr {
        self.lead().neg().sigmoid()
    }

    /// log Σ_j f_j − s₀.
    fn lead(&self) -> Expr {
        Expr::smoothmax(&Entropy::Shannon, Axis::N, &self.scores).minus(&self.rest_score)
    }
}

/// (f, r) when the term is a whole: Σ_i f_i over tokens, f_i > 0 with an exponential of the token's, and a positive rest.
pub fn whole(e: &Expr) -> Option<(Expr, Expr)> {
    parts_of(e).filter(|(_, rest)| !rest.is_zero())
}

/// The same where there may be no rest.
pub fn parts_of(e: &Expr) -> Option<(Expr, Expr)> {
    let terms = e.terms();
    let (at, part) = terms.iter().enumerate().find_map(|(at, term)| Some((at, part(term)?)))?;
    let rest = Expr::add(terms.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, term)| term.clone()));
    let is_rest = rest.is_zero() || rest.sign() == Sign::Positive;
    (is_rest && !rest.axes().has_space(Space::Token)).then_some((part, rest))
}

/// f along n, when the term is Σ_i f_i, numbers in front or not.
fn part(term: &Expr) -> Option<Expr> {
    let factors = term.factors();
    let is_sum = |f: &Expr| matches!(f.op(), Op::Sum(axis, _) if axis.space == Space::Token);
    let at = factors.iter().position(is_sum)?;
    let Op::Sum(axis, body) = factors[at].op() else { return None };
    let front = factors.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, f)| f.clone());
    let part = traverse::rename(body, *axis, Axis::N).times(&Expr::mul(front));
    let is_exponential = |f: &Expr| matches!(f.op(), Op::Call(Func::Exp, _)) && f.has_axis(Axis::N);
    let factors = part.factors();
    let is_positive = factors.iter().all(|f| f.sign() == Sign::Positive);
    (is_positive && factors.iter().any(is_exponential)).then_some(part)
}

/// log Π f = Σ log f, for factors that are all positive.
pub fn log_of_product(e: &Expr) -> Expr {
    let is_product = e.factors().iter().all(|f| f.sign() == Sign::Positive);
    if !is_product {
        return e.log();
    }
    Expr::add(e.factors().iter().map(|f| match f.op() {
        Op::Pow(x, r) if x.sign() == Sign::Positive => log_of_product(x).scale(r),
        _ => f.log(),
    }))
}
