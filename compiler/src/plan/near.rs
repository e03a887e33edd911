//! Values that are small because what they are made of is nearly equal, computed without the difference:
//!
//! - log(1 + x) and eˣ − 1 have operations of their own;
//! - √(a² + x) − a = x / (√(a² + x) + a) for a ≥ 0.

use super::graph::{Id, Map};
use super::lower::{Lowering, Unsupported};
use super::shift::{Degrees, Shifted};
use crate::ir::{Expr, Func, Op, Rational, Sign, rational};
use num_traits::One;

impl Lowering {
    /// The value of a term that is such a difference, or the logarithm of 1 and something.
    pub(super) fn near(&mut self, e: &Expr) -> Result<Option<Shifted>, Unsupported> {
        match e.op() {
            Op::Call(Func::Log, x) => match less_one(x) {
                Some(less) => self.log_of_one_and(&less),
                None => Ok(None),
            },
            Op::Add(terms) => match exponential_less_one(terms) {
                Some(Difference { factor, of, rest }) => {
                    let (factor, of) = (self.shifted(&factor)?, self.lower(&of)?);
                    let near = self.less_one(of);
                    let near = self.product(&[factor, near]);
                    let rest = self.shifted(&rest)?;
                    Ok(Some(self.total_of(&[near, rest])?))
                }
                None => root_less_its_limit(terms).map(|e| self.shifted(&e)).transpose(),
            },
            _ => Ok(None),
        }
    }

    /// log(1 + x). Where x is made of exponentials, it is softplus(log x).
    fn log_of_one_and(&mut self, x: &Expr) -> Result<Option<Shifted>, Unsupported> {
        let value = self.shifted(x)?;
        let log = match value.is_plain() {
            true => self.graph.map(Map::Log1p, &[value.mantissa]),
            false if x.sign() == Sign::Positive => {
                let log = self.logarithm(&value);
                self.graph.map(Map::Call(Func::Softplus), &[log])
            }
            false => return Ok(None),
        };
        Ok(Some(Shifted::plain(log)))
    }

    /// eˣ − 1, measured from e^max(x, 0): 1 − e⁻ˣ for a positive x.
    fn less_one(&mut self, x: Id) -> Shifted {
        let graph = &mut self.graph;
        let [zero, minus] = [0, -1].map(|c| graph.number(&rational::int(c)));
        let opposite = graph.mul(&[minus, x]);
        let [below, above] = [x, opposite].map(|x| graph.map(Map::Expm1, &[x]));
        let above = graph.mul(&[minus, above]);
        let mantissa = graph.map(Map::Select, &[x, zero, below, above]);
        let top = graph.map(Map::Positive, &[x]);
        Shifted { mantissa, degrees: Degrees::of(top, &Rational::one()) }
    }
}

/// x − 1, where that is a term less: 1 + y, or a quotient (c + y)/c.
fn less_one(x: &Expr) -> Option<Expr> {
    let factors = x.factors();
    factors.iter().enumerate().find_map(|(at, sum)| {
        let others = factors.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, factor)| factor.clone());
        let others = Expr::mul(others);
        let terms: Vec<Expr> = summands(sum)?.into_iter().map(|term| term.times(&others)).collect();
        let one = terms.iter().position(|term| term.as_const().is_some_and(One::is_one))?;
        Some(Expr::add(terms.into_iter().enumerate().filter(|(i, _)| *i != one).map(|(_, term)| term)))
    })
}

/// The terms of a sum, or the sums of the terms of what is summed along an axis.
fn summands(x: &Expr) -> Option<Vec<Expr>> {
    match x.op() {
        Op::Add(terms) => Some(terms.clone()),
        Op::Sum(axis, body) => match body.op() {
            Op::Add(terms) => Some(terms.iter().map(|term| Expr::sum(*axis, term)).collect()),
            _ => None,
        },
        _ => None,
    }
}

/// `factor`·(e^`of` − 1) + `rest`.
struct Difference {
    factor: Expr,
    of: Expr,
    rest: Expr,
}

/// The sum as c (eˣ − 1) and the rest, if it has the terms c eˣ and −c.
fn exponential_less_one(terms: &[Expr]) -> Option<Difference> {
    terms.iter().enumerate().find_map(|(at, term)| {
        let (exp, others): (Vec<Expr>, Vec<Expr>) =
            term.factors().into_iter().partition(|f| matches!(f.op(), Op::Call(Func::Exp, _)));
        let [exp] = exp.as_slice() else { return None };
        let Op::Call(_, of) = exp.op() else { return None };
        let factor = Expr::mul(others);
        let against = terms.iter().position(|other| *other == factor.neg())?;
        Some(Difference { factor, of: of.clone(), rest: without(terms, [at, against]) })
    })
}

/// The sum with c x/(√(a² + x) + a) for its terms c √(a² + x) and −c a.
fn root_less_its_limit(terms: &[Expr]) -> Option<Expr> {
    terms.iter().enumerate().find_map(|(at, term)| {
        let (c, root) = term.split_coefficient();
        let Op::Pow(base, r) = root.op() else { return None };
        let Op::Add(inside) = base.op() else { return None };
        if *r != rational::ratio(1, 2) {
            return None;
        }
        terms.iter().enumerate().filter(|(against, _)| *against != at).find_map(|(against, other)| {
            let limit = other.scale(&-c.recip());
            let x = base.minus(&limit.square());
            if !limit.sign().is_nonnegative() || x.terms().len() >= inside.len() {
                return None;
            }
            let near = x.over(&root.plus(&limit)).scale(&c);
            Some(near.plus(&without(terms, [at, against])))
        })
    })
}

fn without(terms: &[Expr], places: [usize; 2]) -> Expr {
    Expr::add(terms.iter().enumerate().filter(|(i, _)| !places.contains(i)).map(|(_, term)| term.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Leaf, Role, Sign};
    use crate::plan::text::describe;

    fn lowered(e: &Expr) -> Vec<String> {
        let mut lowering = Lowering::default();
        lowering.lower(e).expect("it has a value");
        let graph = &lowering.graph;
        let ids = (0..graph.nodes.len() as u32).map(Id);
        ids.filter(|id| matches!(graph[*id].op, super::super::graph::Op::Map(..)))
            .map(|id| describe(graph, id))
            .collect()
    }

    fn leaf(name: &str, ordinal: u16, sign: Sign) -> Expr {
        Expr::leaf(Leaf::new(Role::Param, ordinal, name, &[], sign))
    }

    #[test]
    fn differences_are_not_computed() {
        let (x, a) = (leaf("x", 0, Sign::Unknown), leaf("a", 1, Sign::Positive));
        let one = Expr::one();
        assert_eq!(lowered(&one.plus(&x.square()).log()), ["x^(2)", "log(1 + x1)"]);
        let quotient = lowered(&a.plus(&x.square()).over(&a).log()).join("; ");
        assert!(quotient.contains("log(1 + "), "{quotient}");
        let less = lowered(&a.times(&x.exp()).minus(&a)).join("; ");
        assert!(less.contains("exp(x) − 1") && !less.contains("-1 · a"), "{less}");
        // √(a² + x²) − a
        let root = a.square().plus(&x.square()).sqrt().minus(&a);
        let text = lowered(&root).join("; ");
        assert!(!text.contains("-1 · "), "{text}");
        // √x − a stays.
        assert!(lowered(&a.plus(&x.square()).sqrt().minus(&a)).join("; ").contains("-1 · "));
    }
}
