//! The point a compiled recipe's series expands around, and the number in front of its matrix, read off the derivation.

use crate::meaning::{Expansion, Meaning, needs_expansion};
use crate::tally::Tally;
use crate::tree::{Exponent, Expr, Ratio, Recipe, Size};
use energyc::derive::Derivation;
use energyc::ir::{self, Op, Rational, Role};

/// What a recipe means; nothing where it is a series around no number, which is counted.
pub fn meaning(recipe: &Recipe, derivation: &Derivation, tally: &mut Tally) -> Option<Meaning> {
    if !needs_expansion(recipe) {
        return Some(Meaning::of(recipe, None));
    }
    let expansion = of(derivation);
    if expansion.is_none() {
        tally.skip("an expansion that is no number");
    }
    Some(Meaning::of(recipe, Some(&expansion?)))
}

/// α and s, if both are made of numbers, sizes and parameters.
fn of(derivation: &Derivation) -> Option<Expansion> {
    let done = derivation.preconditioned.as_ref()?;
    Some(Expansion { alpha: read(&done.alpha)?, scale: read(&done.scale)? })
}

fn read(e: &ir::Expr) -> Option<Expr> {
    let all = |terms: &[ir::Expr]| terms.iter().map(read).collect::<Option<Vec<Expr>>>();
    match e.op() {
        Op::Const(number) => Some(Expr::Number(ratio(number)?)),
        Op::Leaf(leaf) => match (leaf.role, &*leaf.name) {
            (Role::Param, name) if leaf.axes.is_empty() => Some(Expr::name(name)),
            (Role::Size, "N") => Some(Expr::Size(Size::Tokens)),
            (Role::Size, "d") => Some(Expr::Size(Size::Model)),
            (Role::Size, "d_h") => Some(Expr::Size(Size::Head)),
            (Role::Size, "H") => Some(Expr::Size(Size::Heads)),
            _ => None,
        },
        Op::Add(terms) => all(terms)?.into_iter().reduce(Expr::plus),
        Op::Mul(factors) => all(factors)?.into_iter().reduce(Expr::times),
        Op::Pow(x, r) => Some(Expr::Power(Box::new(read(x)?), Exponent::Number(ratio(r)?))),
        _ => None,
    }
}

fn ratio(number: &Rational) -> Option<Ratio> {
    let part = |text: String| text.parse::<i64>().ok();
    Some(Ratio::new(part(number.numer().to_string())?, part(number.denom().to_string())?))
}
