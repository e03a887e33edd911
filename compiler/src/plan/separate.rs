//! Separation: a product written as a sum of products whose factors do not mix axes.
//!
//! A contraction is a matrix product when every factor extends along the query or along the token but not along both
//! together with a component: Σ_e (q − k)_e g_e is two products, q·g and k·g. Sums are distributed, small squares
//! multiplied out, exponentials of sums taken apart and case distinctions over pairs split into their branches, but
//! only where a factor mixes axes; what cannot be separated (|q − k|³) is left as it is, for a triple loop.

use crate::ir::{Axis, AxisSet, Expr, Func, Op, Rational, Space, rational};
use std::collections::BTreeMap;

/// Terms above this number are not worth their matrix products.
const WORTH_IT: usize = 32;

/// Where a loop cannot do instead, because tokens or components are compared with each other.
const AT_MOST: usize = 1024;

/// A product of the separated sum.
#[derive(Clone, Debug)]
pub struct Product {
    pub factors: Vec<Expr>,
    /// Whether no factor mixes axes.
    pub is_pure: bool,
}

/// Whether a value extends along a query, a token and a component at once, or along two axes of one space.
pub fn mixes(axes: AxisSet) -> bool {
    compares(axes) || axes.contains(Axis::T) && axes.has_space(Space::Token) && axes.has_space(Space::Head)
}

/// Whether a value extends along two tokens or two components.
pub fn compares(axes: AxisSet) -> bool {
    [Space::Token, Space::Head].iter().any(|space| axes.iter().filter(|a| a.space == *space).count() > 1)
}

impl Product {
    /// A term as it is.
    pub fn of(e: &Expr) -> Product {
        Product { is_pure: !mixes(e.axes()), factors: e.factors() }
    }
}

/// The term as a sum of products, unless there would be too many.
pub fn separate(e: &Expr) -> Option<Vec<Product>> {
    if !mixes(e.axes()) {
        return Some(vec![Product::of(e)]);
    }
    let must = compares(e.axes());
    let most = if must { AT_MOST } else { WORTH_IT };
    let products = products(e, most).filter(|products| products.len() <= most)?;
    // Where nothing became a matrix product, one loop as it is written serves all, and what cancels in it cancels there.
    let is_in_vain = !must && !products.iter().any(|product| product.is_pure);
    Some(if is_in_vain { vec![Product::of(e)] } else { products })
}

/// `None` when there would be more than `most`.
fn products(e: &Expr, most: usize) -> Option<Vec<Product>> {
    // A factor that nothing takes apart keeps the whole product together: one loop, as it is written, if there is one.
    if !compares(e.axes()) && e.factors().iter().any(|factor| is_inseparable(factor, most)) {
        return Some(vec![Product { factors: e.factors(), is_pure: false }]);
    }
    let mut done = vec![Product { factors: vec![], is_pure: true }];
    for factor in e.factors() {
        let alternatives = alternatives(&factor, most)?;
        if done.len() * alternatives.len() > most {
            return None;
        }
        done = done
            .iter()
            .flat_map(|left| {
                alternatives.iter().map(|right| Product {
                    factors: left.factors.iter().chain(&right.factors).cloned().collect(),
                    is_pure: left.is_pure && right.is_pure,
                })
            })
            .collect();
    }
    Some(done)
}

/// Whether taking a factor apart was of use: nothing mixes axes, or, where tokens or components are compared with each
/// other, nothing compares them any more.
fn is_apart(factor: &Expr, parts: &[Product]) -> bool {
    let compares_nothing = |part: &Product| !part.factors.iter().any(|f| compares(f.axes()));
    parts.iter().all(|part| part.is_pure) || compares(factor.axes()) && parts.iter().all(compares_nothing)
}

/// Whether a factor mixes axes and is neither a sum nor a choice between what may separate.
fn is_inseparable(factor: &Expr, most: usize) -> bool {
    let is_square_of_sum = |base: &Expr, r: &Rational| *r == rational::int(2) && matches!(base.op(), Op::Add(_));
    mixes(factor.axes())
        && match factor.op() {
            Op::Add(_) | Op::Select(_) => false,
            // Matrices are contracted by whoever sums over them.
            Op::Sum(..) => false,
            Op::Pow(base, r) => !is_square_of_sum(base, r),
            _ => exponentials(factor, most).is_none(),
        }
}

/// exp(x_n + y_m) = exp(x_n) exp(y_m): an exponential of several tokens, or of several components, as one of each.
fn exponentials(factor: &Expr, most: usize) -> Option<Vec<Expr>> {
    let Op::Call(Func::Exp, exponent) = factor.op() else { return None };
    let terms: Vec<Expr> = products(exponent, most)?.into_iter().map(|product| Expr::mul(product.factors)).collect();
    let is_several = |space: Space| factor.axes().iter().filter(|a| a.space == space).count() > 1;
    let space = if is_several(Space::Head) { Space::Head } else { Space::Token };
    let mut parts: BTreeMap<Vec<Axis>, Vec<Expr>> = BTreeMap::new();
    for term in terms {
        let along = term.axes().iter().filter(|a| a.space == space).collect();
        parts.entry(along).or_default().push(term);
    }
    let is_apart = parts.len() > 1 && parts.keys().all(|axes| axes.len() <= 1);
    is_apart.then(|| parts.into_values().map(|terms| Expr::add(terms).exp()).collect())
}

/// One factor as a sum of products.
pub fn alternatives(factor: &Expr, most: usize) -> Option<Vec<Product>> {
    let alone = |is_pure| Some(vec![Product { factors: vec![factor.clone()], is_pure }]);
    if !mixes(factor.axes()) {
        return alone(true);
    }
    match factor.op() {
        Op::Add(terms) => {
            let mut all = Vec::new();
            for term in terms {
                all.extend(products(term, most)?);
            }
            Some(all)
        }
        Op::Pow(base, r) if *r == rational::int(2) => match base.op() {
            Op::Add(_) => {
                let parts = alternatives(base, most)?;
                if !is_apart(base, &parts) {
                    return alone(false);
                }
                // (Σ x_i)² = Σ x_i² + 2 Σ_{i<j} x_i x_j.
                let mut all = Vec::new();
                for (i, x) in parts.iter().enumerate() {
                    for (j, y) in parts.iter().enumerate().skip(i) {
                        let two = if i == j { Expr::one() } else { Expr::int(2) };
                        // Not multiplied here, which would join exponentials that have come apart.
                        let factors = x.factors.iter().chain(&y.factors).cloned().chain([two]).collect();
                        all.push(Product { factors, is_pure: x.is_pure && y.is_pure });
                    }
                }
                Some(all)
            }
            _ => alone(false),
        },
        Op::Call(Func::Exp, _) => match exponentials(factor, most) {
            Some(factors) => Some(vec![Product { is_pure: !factors.iter().any(|f| mixes(f.axes())), factors }]),
            None => alone(false),
        },
        // Σ_m (a b_m + c d_m) = a Σ_m b_m + c Σ_m d_m.
        Op::Sum(axis, body) => {
            let taken_out = |product: Product| {
                let (inside, outside): (Vec<Expr>, Vec<Expr>) =
                    product.factors.into_iter().partition(|f| f.has_axis(*axis));
                let factors = [outside, Expr::sum(*axis, &Expr::mul(inside)).factors()].concat();
                Product { is_pure: !factors.iter().any(|f| mixes(f.axes())), factors }
            };
            let parts: Vec<Product> = products(body, most)?.into_iter().map(taken_out).collect();
            if is_apart(factor, &parts) { Some(parts) } else { alone(false) }
        }
        // A case distinction over pairs multiplies the branches' vectors by numbers that are 0 in the other case; one over
        // components of pairs, what extends along other components.
        Op::Select(parts) => {
            let [a, b, x, y] = &**parts;
            let condition = a.axes().union(b.axes());
            let is_of_pairs = !mixes(condition);
            if !is_of_pairs && (compares(condition) || !compares(factor.axes())) {
                return alone(false);
            }
            let is_outside = |f: &Expr| match is_of_pairs {
                true => f.axes().has_space(Space::Head),
                false => f.axes().iter().any(|axis| !condition.contains(axis)),
            };
            let mut all = Vec::new();
            for (branch, is_first) in [(x, true), (y, false)] {
                for product in products(branch, most)? {
                    let (vectors, numbers): (Vec<Expr>, Vec<Expr>) =
                        product.factors.iter().cloned().partition(is_outside);
                    let number = Expr::mul(numbers);
                    if number.is_zero() || vectors.iter().any(Expr::is_zero) {
                        continue;
                    }
                    let zero = Expr::zero();
                    let chosen = match is_first {
                        true => Expr::select(a, b, &number, &zero),
                        false => Expr::select(a, b, &zero, &number),
                    };
                    let is_pure = product.is_pure && !mixes(chosen.axes());
                    all.push(Product { factors: chosen.factors().into_iter().chain(vectors).collect(), is_pure });
                }
            }
            if is_of_pairs || is_apart(factor, &all) { Some(all) } else { alone(false) }
        }
        _ => alone(false),
    }
}
