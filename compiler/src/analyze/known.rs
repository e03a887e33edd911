//! The sign of a term with all that a recipe says of its parameters: fixed ones have their values, and the conditions on
//! the others hold. The algebra itself knows a parameter's own sign only, which says nothing of 1 − a. Where ‖q‖ and
//! ‖k_i‖ are held at a length, or in a ball of that radius, |q·k_i| ≤ ‖q‖ ‖k_i‖ bounds what is linear in q·k_i.

use crate::check::inputs;
use crate::check::recipe::{CompareOp, Condition, ParamValue, Recipe};
use crate::ir::expr::power_sign;
use crate::ir::memo::Memo;
use crate::ir::{Expr, Leaf, Op, Sign, traverse};
use std::cell::RefCell;

/// What is known of the parameters.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Fixed parameters and their values.
    values: Vec<(Leaf, Expr)>,
    /// Differences with a sign, the values put in.
    signs: Vec<(Expr, Sign)>,
    /// The largest value of |q·k_i|.
    largest_product: Option<Expr>,
    /// The signs found so far, of terms with the values put in.
    found: RefCell<Memo<Sign>>,
}

impl Known {
    pub fn of(recipe: &Recipe) -> Known {
        let fixed = recipe.params.iter().filter_map(|param| match &param.value {
            ParamValue::Fixed(value) => Some((param.leaf.clone(), value.clone())),
            _ => None,
        });
        let radius = |vector: Leaf| recipe.constraints.iter().find(|c| c.vector.same_input(&vector)).map(|c| &c.radius);
        let product = radius(inputs::q()).zip(radius(inputs::k())).map(|(q, k)| q.times(k).abs());
        let mut known = Known { values: fixed.collect(), ..Known::default() };
        known.largest_product = product.map(|product| known.put_in(&product));
        known.signs = recipe.conditions.iter().map(|c| (known.put_in(&c.difference), promised(c))).collect();
        known
    }

    /// The term with fixed parameters at their values.
    pub fn put_in(&self, e: &Expr) -> Expr {
        if !self.values.iter().any(|(fixed, _)| e.may_mention(fixed)) {
            return e.clone();
        }
        traverse::substitute_leaves(e, &mut |leaf| {
            self.values.iter().find(|(fixed, _)| fixed.same_input(leaf)).map(|(_, value)| value.clone())
        })
    }

    /// The sign of a term.
    pub fn sign(&self, e: &Expr) -> Sign {
        let own = e.sign();
        if own == Sign::Zero || own.is_nonzero() { own } else { own.meet(self.of_values(&self.put_in(e))) }
    }

    fn of_values(&self, e: &Expr) -> Sign {
        let own = e.sign();
        if own == Sign::Zero || own.is_nonzero() {
            return own;
        }
        if let Some(sign) = self.found.borrow().get(e) {
            return *sign;
        }
        let sign = own.meet(self.composed(e));
        self.found.borrow_mut().insert(e.clone(), sign);
        sign
    }

    fn composed(&self, e: &Expr) -> Sign {
        match e.op() {
            Op::Add(xs) => {
                let by_terms = xs.iter().fold(Sign::Zero, |s, x| s.plus(self.of_values(x)));
                self.promised(e).meet(by_terms).meet(self.in_the_ball(xs))
            }
            Op::Mul(xs) => xs.iter().fold(Sign::Positive, |s, x| s.times(self.of_values(x))),
            Op::Pow(x, r) => power_sign(self.of_values(x), r),
            Op::Sum(_, x) => self.of_values(x),
            Op::Call(func, x) => func.sign(self.of_values(x)),
            Op::Leaf(_) => self.promised(e),
            _ => Sign::Unknown,
        }
    }

    /// The sign of c q·k_i + x, which lies between x − |c| ρ² and x + |c| ρ².
    fn in_the_ball(&self, terms: &[Expr]) -> Sign {
        let Some(largest) = &self.largest_product else { return Sign::Unknown };
        let product = |e: &Expr| match e.op() {
            Op::Sum(_, body) => body.factors().iter().all(is_q_or_k) && body.factors().len() == 2,
            _ => false,
        };
        let (linear, rest): (Vec<Expr>, Vec<Expr>) =
            terms.iter().cloned().partition(|x| x.factors().iter().any(product));
        let [one] = linear.as_slice() else { return Sign::Unknown };
        let c = Expr::mul(one.factors().into_iter().filter(|f| !product(f)));
        let (reach, rest) = (c.abs().times(largest), Expr::add(rest));
        let (low, high) = (rest.minus(&reach).sign(), rest.plus(&reach).sign());
        match (low.is_nonnegative(), high.negate().is_nonnegative()) {
            (true, _) => low.join(Sign::Positive),
            (_, true) => high.join(Sign::Negative),
            _ => Sign::Unknown,
        }
    }

    /// The sign that a condition promises for a multiple of its difference.
    fn promised(&self, e: &Expr) -> Sign {
        let (scale, primitive) = e.split_content();
        let signs = self.signs.iter().filter_map(|(difference, sign)| {
            let (other, same) = difference.split_content();
            (same == primitive).then(|| sign.times(Expr::constant(&scale / other).sign()))
        });
        signs.fold(Sign::Unknown, Sign::meet)
    }
}

/// Whether this is q or k_i, for a product of the two.
fn is_q_or_k(e: &Expr) -> bool {
    e.as_leaf().is_some_and(|leaf| leaf.same_input(&inputs::q()) || leaf.same_input(&inputs::k()))
}

/// The sign of the difference a condition speaks of.
fn promised(condition: &Condition) -> Sign {
    match condition.op {
        CompareOp::Greater => Sign::Positive,
        CompareOp::GreaterEqual => Sign::NonNegative,
        CompareOp::Equal => Sign::Zero,
        CompareOp::LessEqual => Sign::NonPositive,
        CompareOp::Less => Sign::Negative,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Role, rational};

    fn a() -> Leaf {
        Leaf::new(Role::Param, 0, "a", &[], Sign::Unknown)
    }

    #[test]
    fn values_and_conditions_tell_signs() {
        let less = Expr::leaf(a()).minus(&Expr::one());
        let check = |known: &Known, expect: Sign| {
            assert_eq!(known.sign(&less), expect);
            assert_eq!(known.sign(&less.neg()), expect.negate());
            assert_eq!(known.sign(&less.scale(&rational::int(3)).pow(&rational::int(3))), expect);
        };
        check(&Known::default(), Sign::Unknown);
        let at = |n, d| Known { values: vec![(a(), Expr::constant(rational::ratio(n, d)))], ..Known::default() };
        check(&at(1, 2), Sign::Negative);
        check(&at(7, 5), Sign::Positive);
        check(&Known { signs: vec![(less.clone(), Sign::NonPositive)], ..Known::default() }, Sign::NonPositive);
        check(&Known { signs: vec![(less.neg(), Sign::Positive)], ..Known::default() }, Sign::Negative);
    }

    #[test]
    fn inner_products_are_bounded_in_a_ball() {
        let rho = Expr::leaf(Leaf::new(Role::Param, 0, "rho", &[], Sign::Positive));
        let known = Known { largest_product: Some(rho.square()), ..Known::default() };
        let product = Expr::dot(&Expr::leaf(inputs::q()), &Expr::leaf(inputs::k()));
        // ‖q − k‖² = 2ρ² − 2 q·k
        let distance = rho.square().minus(&product).scale(&rational::int(2));
        assert_eq!(known.sign(&distance), Sign::NonNegative);
        assert_eq!(known.sign(&distance.plus(&Expr::one())), Sign::Positive);
        assert_eq!(known.sign(&distance.neg()), Sign::NonPositive);
        assert_eq!(known.sign(&product), Sign::Unknown);
        assert_eq!(Known::default().sign(&distance), Sign::Unknown);
    }
}
