//! Covariances keep their digits: Σ p x y − x̄ ȳ is computed as Σ p (x − x̄) y.
//!
//! Where a token has nearly all the weight p, or all tokens are nearly equal, Σ p x y and x̄ ȳ = (Σ p x)(Σ p y) are nearly equal,
//! and a second-order step multiplies what rounding leaves of their difference by |k|²/T, once for every term of its series.
//! Deviations x − x̄ are as small as the covariance. They are measured twice: x₀ = x − x̄ with the x̄ that was computed, and
//! x₀ − Σ p x₀, which takes back what was lost of x̄. So they sum to 0 as well as their own size can tell.
//!
//! x is a number per pair and x̄ one per query, Σ p x or, for x = u·k, u·(Σ p k); p is κ w/Σ w, where κ is what dropout leaves of a pair. They are
//! looked for among the terms of a sum. Where κ is not 1, p does not sum to 1: with ρ = Σ (1 − κ) w/Σ w, which is exactly 0 where
//! nothing is dropped, what was lost of x̄ is Σ p x₀ − ρ x̄.

use super::graph::{Fold, Id, Map, Misfit, Op};
use super::lower::Lowering;
use crate::ir::{Axis, Rational, Role, rational};
use num_traits::One;

/// Σ_n of a tile, alone or times a vector of tokens.
#[derive(Clone, Copy, PartialEq)]
struct Reduction {
    id: Id,
    tile: Id,
    key: Option<Id>,
}

/// `rest` · Σ_n w x y.
struct Covariance {
    rest: Vec<Id>,
    key: Option<Id>,
    /// The factors of κ w, those of κ, of what else y is made of, and of x̄.
    weights: Vec<Id>,
    kept: Vec<Id>,
    others: Vec<Id>,
    mean: Vec<Id>,
    /// The factors of x.
    value: Vec<Id>,
    /// w, and 1/Σ w.
    raw: Id,
    inverse: Id,
}

impl Lowering {
    /// The terms of a sum, where a mean of products less a product of means is one term.
    pub(super) fn centred_products(&mut self, mut terms: Vec<Id>) -> Result<Vec<Id>, Misfit> {
        while let Some((i, j, covariance)) = self.covariance_among(&terms) {
            let centred = self.centred_product(covariance)?;
            terms = terms.into_iter().enumerate().filter(|(at, _)| *at != i && *at != j).map(|(_, x)| x).collect();
            terms.push(centred);
        }
        Ok(terms)
    }

    fn covariance_among(&self, terms: &[Id]) -> Option<(usize, usize, Covariance)> {
        let places = |is_wanted: &dyn Fn(&[Id]) -> bool| -> Vec<usize> {
            (0..terms.len()).filter(|i| is_wanted(&self.graph.factors(terms[*i]))).collect()
        };
        let has_means = |factors: &[Id]| {
            factors.iter().any(|id| self.summed_components(*id).is_some()) || self.reductions(factors).len() > 1
        };
        let means = places(&has_means);
        if means.is_empty() {
            return None;
        }
        let products = places(&|factors| !self.reductions(factors).is_empty());
        let mut pairs = products.iter().flat_map(|i| means.iter().map(move |j| (*i, *j))).filter(|(i, j)| i != j);
        pairs.find_map(|(i, j)| Some((i, j, self.covariance(terms[i], terms[j])?)))
    }

    /// c Σ w x y/Σ w and −c (Σ w x/Σ w)(Σ w y/Σ w) as one.
    fn covariance(&self, product: Id, means: Id) -> Option<Covariance> {
        let ((c, of_product), (minus_c, of_means)) = (self.coefficient(product), self.coefficient(means));
        if c != -minus_c {
            return None;
        }
        let number = self.graph.factors(product).into_iter().filter(|id| matches!(self.graph[*id].op, Op::Number(_)));
        let number: Vec<Id> = number.collect();
        let products = self.reductions(&of_product);
        let of_numbers = || self.covariance_of_numbers(&number, &of_product, &of_means);
        let of_vectors = of_means.iter().find_map(|inner| {
            let parts = self.summed_components(*inner)?;
            self.reductions(&parts).into_iter().find_map(|of_key| {
                let row = without(&parts, &[of_key.id])?;
                let weights = self.graph.factors(of_key.tile);
                products.iter().find_map(|own| {
                    let more = without(&self.graph.factors(own.tile), &weights)?;
                    let value = more.iter().copied().find(|id| match self.graph[*id].op {
                        Op::Dot { row: u, key } => Some(key) == of_key.key && same(&self.graph.factors(u), &row),
                        _ => false,
                    })?;
                    let others = without(&more, &[value])?;
                    let wanted = [&weights[..], &others].concat();
                    let is_mean = |r: &&Reduction| r.key == own.key && same(&self.graph.factors(r.tile), &wanted);
                    let mean = self.reductions(&of_means).iter().find(is_mean).copied()?;
                    let rest = without(&of_product, &[own.id])?;
                    let left = without(&without(&of_means, &[*inner, mean.id])?, &rest)?;
                    let [inverse] = left[..] else { return None };
                    let raw = self.inverted_sum(inverse).filter(|_| rest.contains(&inverse))?;
                    let (rest, mean) = ([&number[..], &rest].concat(), vec![*inner, inverse]);
                    let (weights, kept) = (weights.clone(), without(&weights, &self.graph.factors(raw))?);
                    let value = vec![value];
                    Some(Covariance { rest, key: own.key, weights, kept, others, mean, value, raw, inverse })
                })
            })
        });
        of_vectors.or_else(of_numbers)
    }

    /// The same where x̄ is a sum over tokens itself, Σ w x/Σ w.
    fn covariance_of_numbers(&self, number: &[Id], of_product: &[Id], of_means: &[Id]) -> Option<Covariance> {
        let means = self.reductions(of_means);
        let products = self.reductions(of_product);
        let inverses = of_means.iter().filter_map(|id| Some((*id, self.inverted_sum(*id)?)));
        inverses.into_iter().find_map(|(inverse, raw)| {
            means.iter().filter(|of_x| of_x.key.is_none()).find_map(|of_x| {
                products.iter().find_map(|own| {
                    let tile = self.graph.factors(own.tile);
                    let kept: Vec<Id> = tile.iter().copied().filter(|id| self.is_kept(*id)).collect();
                    let weights = [self.graph.factors(raw), kept.clone()].concat();
                    let value = without(&self.graph.factors(of_x.tile), &weights)?;
                    let others = without(&without(&tile, &weights)?, &value)?;
                    let wanted = [&weights[..], &others].concat();
                    let of_others = without(of_means, &[of_x.id])?;
                    let is_mean = |r: &&Reduction| r.key == own.key && same(&self.graph.factors(r.tile), &wanted);
                    let mean = self.reductions(&of_others).iter().find(is_mean).copied()?;
                    let rest = without(of_product, &[own.id])?;
                    let left = without(&without(&of_others, &[mean.id])?, &rest)?;
                    let is_whole = same(&left, &[inverse]) && rest.contains(&inverse) && !value.is_empty();
                    let is_mixed = own.key.is_some() || !others.is_empty();
                    let (rest, mean) = ([number, &rest].concat(), vec![of_x.id, inverse]);
                    let found = Covariance { rest, key: own.key, weights, kept, others, mean, value, raw, inverse };
                    (is_whole && is_mixed).then_some(found)
                })
            })
        })
    }

    /// Whether this is what dropout leaves of a pair.
    fn is_kept(&self, id: Id) -> bool {
        matches!(&self.graph[id].op, Op::Input(leaf) if leaf.role == Role::Kept)
    }

    fn centred_product(&mut self, found: Covariance) -> Result<Id, Misfit> {
        let Covariance { rest, key, weights, kept, others, mean, value, raw, inverse } = found;
        let graph = &mut self.graph;
        let minus = graph.number(&rational::int(-1));
        let minus_mean = graph.mul(&[&mean[..], &[minus]].concat());
        let value = graph.mul(&value);
        let off = graph.add(&[value, minus_mean]);
        let weighted = graph.mul(&[&weights[..], &[off]].concat());
        let left_over = graph.fold(Fold::Sum, Axis::N, weighted);
        let mut lost = vec![graph.mul(&[minus, inverse, left_over])];
        if !kept.is_empty() {
            let one = graph.number(&Rational::one());
            let kept = graph.mul(&[&[minus][..], &kept].concat());
            let dropped = graph.add(&[one, kept]);
            let dropped = graph.mul(&[raw, dropped]);
            let dropped = graph.fold(Fold::Sum, Axis::N, dropped);
            lost.push(graph.mul(&[&mean[..], &[inverse, dropped]].concat()));
        }
        let lost = graph.add(&lost);
        let deviation = graph.add(&[off, lost]);
        let tile = graph.mul(&[&weights[..], &others, &[deviation]].concat());
        let sum = match key {
            Some(key) => graph.apply(tile, key)?,
            None => graph.fold(Fold::Sum, Axis::N, tile),
        };
        Ok(graph.mul(&[&rest[..], &[sum]].concat()))
    }

    /// The number in front of a product, and its other factors.
    fn coefficient(&self, id: Id) -> (Rational, Vec<Id>) {
        let factors = self.graph.factors(id);
        match factors.first().map(|first| &self.graph[*first].op) {
            Some(Op::Number(c)) => (c.clone(), factors[1..].to_vec()),
            _ => (Rational::one(), factors),
        }
    }

    fn reductions(&self, ids: &[Id]) -> Vec<Reduction> {
        let reduction = |id: &Id| match self.graph[*id].op {
            Op::Apply { tile, key } => Some(Reduction { id: *id, tile, key: Some(key) }),
            Op::Fold(Fold::Sum, Axis::N, tile) if !self.graph[tile].has(Axis::E) => {
                Some(Reduction { id: *id, tile, key: None })
            }
            _ => None,
        };
        ids.iter().filter_map(reduction).collect()
    }

    /// The factors of what is summed over components.
    fn summed_components(&self, id: Id) -> Option<Vec<Id>> {
        match self.graph[id].op {
            Op::Fold(Fold::Sum, Axis::E, body) => Some(self.graph.factors(body)),
            _ => None,
        }
    }

    /// The tile a value is 1/Σ_n of.
    fn inverted_sum(&self, id: Id) -> Option<Id> {
        let Op::Map(Map::Pow(r), of) = &self.graph[id].op else { return None };
        match self.graph[of[0]].op {
            Op::Fold(Fold::Sum, Axis::N, tile) if *r == rational::int(-1) => Some(tile),
            _ => None,
        }
    }
}

/// The values but for some, each as often as it is named; nothing if one of them is not there.
fn without(ids: &[Id], some: &[Id]) -> Option<Vec<Id>> {
    let mut left = ids.to_vec();
    for id in some {
        let at = left.iter().position(|x| x == id)?;
        left.remove(at);
    }
    Some(left)
}

/// Whether these are the same values in any order.
fn same(a: &[Id], b: &[Id]) -> bool {
    without(a, b).is_some_and(|left| left.is_empty())
}
