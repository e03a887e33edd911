//! Unit vectors: x/‖x‖ reads x̂ wherever it occurs.
//!
//! A norm that divides takes as many of its vector with it as stand beside it, in every term of a sum: (q·k)/(‖q‖ ‖k‖) is
//! q̂·k̂, (q·k) q/‖q‖³ − k/‖q‖ is (1/‖q‖) ((q̂·k) q̂ − k). What is left of a norm leaves sums it is the same for.

use super::write::HAT;
use crate::ir::{Expr, Leaf, Op, Rational, Space, rational, traverse};
use num_traits::{Signed, ToPrimitive};

/// More powers of one norm than this are left alone.
const MANY: u32 = 8;

/// The term with unit vectors, and the vectors these belong to. Terms that are known stay as they are.
pub fn with_units(e: &Expr, is_known: &impl Fn(&Expr) -> bool) -> (Expr, Vec<Leaf>) {
    let mut units = Units { is_known, found: Vec::new() };
    let term = units.of(e);
    if units.found.is_empty() { (e.clone(), vec![]) } else { (term, units.found) }
}

/// x̂, along the axes of x.
pub fn unit(x: &Leaf) -> Leaf {
    Leaf { name: format!("{}{HAT}", x.name).into(), ..x.clone() }
}

struct Units<'a, F> {
    is_known: &'a F,
    found: Vec<Leaf>,
}

impl<F: Fn(&Expr) -> bool> Units<'_, F> {
    fn of(&mut self, e: &Expr) -> Expr {
        if (self.is_known)(e) {
            return e.clone();
        }
        let before = self.found.len();
        let inside = traverse::map_children(e, |x| self.of(x));
        let taken = match inside.op() {
            Op::Mul(factors) => self.taken(factors).unwrap_or(inside),
            _ => inside,
        };
        if self.found.len() > before { hoisted(&taken) } else { taken }
    }

    /// A product with unit vectors in the place of vectors and their norms.
    fn taken(&mut self, factors: &[Expr]) -> Option<Expr> {
        let mut product = Expr::mul(factors.iter().cloned());
        let mut is_changed = false;
        for factor in factors {
            let Some((x, powers)) = divisor(factor) else { continue };
            let others = product.factors().into_iter().filter(|f| f != factor);
            let others = Expr::mul(others);
            let taken = (1..=powers.min(MANY)).rev().find_map(|k| Some((k, self.take(&others, &x, k)?)));
            let Some((k, taken)) = taken else { continue };
            let left = factor_of(factor, k);
            product = taken.times(&left);
            is_changed = true;
            self.found.push(x);
        }
        is_changed.then_some(product)
    }

    /// The term with x̂ in the place of k occurrences of x, in every term of a sum.
    fn take(&self, e: &Expr, x: &Leaf, k: u32) -> Option<Expr> {
        if k == 0 {
            return Some(e.clone());
        }
        if (self.is_known)(e) {
            return None;
        }
        match e.op() {
            Op::Leaf(leaf) => (k == 1 && is_same(leaf, x)).then(|| Expr::leaf(unit(leaf))),
            Op::Add(terms) => {
                let terms = terms.iter().map(|term| self.take(term, x, k)).collect::<Option<Vec<Expr>>>()?;
                Some(Expr::add(terms))
            }
            Op::Mul(factors) => {
                let mut left = k;
                let mut all = Vec::new();
                for factor in factors {
                    let most = (1..=left).rev().find_map(|j| Some((j, self.take(factor, x, j)?)));
                    let (j, taken) = most.unwrap_or((0, factor.clone()));
                    left -= j;
                    all.push(taken);
                }
                (left == 0).then(|| Expr::mul(all))
            }
            Op::Sum(axis, body) if !x.axes.contains(axis) => Some(Expr::sum(*axis, &self.take(body, x, k)?)),
            Op::Pow(base, r) => {
                let each = Rational::from_integer(k.into()) / r;
                let each = (r.is_positive() && r.is_integer() && each.is_integer()).then(|| each.to_integer().to_u32());
                Some(self.take(base, x, each??)?.pow(r))
            }
            _ => None,
        }
    }
}

/// Whether both are the same vector at the same token; the component axis may be a bound one.
fn is_same(a: &Leaf, b: &Leaf) -> bool {
    let tokens = |leaf: &Leaf| leaf.axes.iter().copied().filter(|axis| axis.space != Space::Head).collect::<Vec<_>>();
    a.same_input(b) && tokens(a) == tokens(b)
}

/// (x, m) when the factor is ‖x‖^−m, x a vector of the head with a letter.
fn divisor(factor: &Expr) -> Option<(Leaf, u32)> {
    let Op::Pow(square, r) = factor.op() else { return None };
    let Op::Sum(axis, body) = square.op() else { return None };
    let Op::Pow(x, two) = body.op() else { return None };
    let x = x.as_leaf().filter(|x| axis.space == Space::Head && x.axes.contains(axis) && *two == rational::int(2))?;
    let powers = -r * rational::int(2);
    let powers = (powers.is_positive() && powers.is_integer()).then(|| powers.to_integer().to_u32())??;
    let axes = x.axes.iter().copied().filter(|other| other != axis).collect();
    Some((Leaf { axes, ..x.clone() }, powers))
}

/// ‖x‖^−m with k powers less.
fn factor_of(factor: &Expr, k: u32) -> Expr {
    match factor.op() {
        Op::Pow(square, r) => square.pow(&(r + rational::ratio(i64::from(k), 2))),
        _ => factor.clone(),
    }
}

/// The factors that all terms of a sum have, and those a sum does not run over, in front.
fn hoisted(e: &Expr) -> Expr {
    let (c, rest) = e.split_coefficient();
    if rest != *e {
        return hoisted(&rest).scale(&c);
    }
    match e.op() {
        Op::Add(terms) => {
            let all: Vec<Vec<Expr>> = terms.iter().map(Expr::factors).collect();
            let is_common = |f: &&Expr| f.as_const().is_none() && all.iter().all(|factors| factors.contains(f));
            let common: Vec<Expr> = all[0].iter().filter(is_common).cloned().collect();
            if common.is_empty() {
                return e.clone();
            }
            let rest = all.iter().map(|factors| Expr::mul(factors.iter().filter(|f| !common.contains(f)).cloned()));
            Expr::mul(common.iter().cloned().chain([Expr::add(rest)]))
        }
        Op::Sum(axis, body) => {
            let (inside, outside): (Vec<Expr>, Vec<Expr>) = body.factors().into_iter().partition(|f| f.has_axis(*axis));
            if inside.is_empty() { e.clone() } else { Expr::mul(outside).times(&Expr::sum(*axis, &Expr::mul(inside))) }
        }
        _ => e.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::inputs;
    use crate::ir::Axis;
    use crate::notation::Writer;
    use crate::notation::text::print;

    fn check(e: &Expr, expected: &str) {
        let mut writer = Writer::default().with_unit_vectors(true);
        assert_eq!(print(&writer.write(e)), expected);
    }

    fn q() -> Expr {
        Expr::leaf(inputs::q())
    }
    fn k() -> Expr {
        Expr::leaf(inputs::k())
    }
    fn norm(x: &Expr) -> Expr {
        Expr::sum(Axis::E, &x.square()).sqrt()
    }

    #[test]
    fn a_vector_over_its_norm_is_a_unit_vector() {
        check(&q().over(&norm(&q())), "q̂");
        check(&Expr::dot(&q(), &k()).over(&norm(&q()).times(&norm(&k()))), "q̂·k̂_i");
        check(&Expr::dot(&q(), &k()).over(&norm(&q())), "q̂·k_i");
        check(&Expr::dot(&q(), &k()).square().over(&norm(&q()).square()), "(q̂·k_i)²");
    }

    #[test]
    fn norms_take_what_all_terms_have() {
        let across = Expr::dot(&q(), &k()).times(&q()).over(&norm(&q()).pow(&rational::int(3)));
        check(&across.minus(&k().over(&norm(&q()))), "(1/‖q‖) ((q̂·k_i) q̂ − k_i)");
        let both = across.minus(&k().over(&norm(&q()))).over(&norm(&k()));
        check(&Expr::sum(Axis::N, &both), "(1/‖q‖) Σ_i ((q̂·k̂_i) q̂ − k̂_i)");
    }

    #[test]
    fn a_sign_does_not_keep_norms_inside_of_a_sum() {
        let across = Expr::dot(&q(), &k()).times(&q()).over(&norm(&q()).pow(&rational::int(3)));
        let body = k().over(&norm(&q())).minus(&across).over(&norm(&k()));
        check(&Expr::sum(Axis::N, &body), "(1/‖q‖) Σ_i (k̂_i − (q̂·k̂_i) q̂)");
    }

    #[test]
    fn other_norms_stay() {
        check(&norm(&q()).pow(&rational::int(-1)), "1/‖q‖");
        check(&q().minus(&k()).over(&norm(&q())), "(1/‖q‖) (q − k_i)");
        check(&k().over(&norm(&q())), "k_i/‖q‖");
    }
}
