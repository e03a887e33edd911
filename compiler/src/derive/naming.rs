//! Names for the intermediate quantities of a derivation.
//!
//! Differentiating a smooth maximum brings in its weights. From there on they are a quantity of their own, p_i, with a
//! definition; the algebra needs to know only that they are nonnegative and sum to one. Where a logarithm is of a sum with
//! other parts than the tokens', a sink for one, the share of every token has the name p_i, and that of the rest p₀. A
//! case distinction per attended token (c_i) is named as well. Terms after the gradient are written with the names.

use crate::calculus::{Meaning, Shares, log_of_product, parts_of, whole};
use crate::check::recipe::Recipe;
use crate::ir::memo::Memo;
use crate::ir::{Axis, AxisSet, Budget, Entropy, Expr, Func, Leaf, Op, Role, Sign, Space, rational, traverse};
use crate::notation::write::positive_part;
use num_traits::Signed;

/// A quantity with a name, along the query and token axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    pub leaf: Leaf,
    pub meaning: Meaning,
}

impl Named {
    /// The term the name stands for.
    pub fn value(&self) -> Expr {
        match &self.meaning {
            Meaning::Weights { kind, scores } => Expr::weights(kind, Axis::N, scores),
            Meaning::Share(shares) => shares.of_token(),
            Meaning::Rest(shares) => shares.of_rest(),
            Meaning::Formula(e) | Meaning::Solution { system: e, .. } => e.clone(),
        }
    }
    /// The same in operations that keep their range: what a plan computes.
    pub fn steady(&self) -> Expr {
        match &self.meaning {
            Meaning::Share(shares) => shares.of_token_steadily(),
            Meaning::Rest(shares) => shares.of_rest_steadily(),
            _ => self.value(),
        }
    }
    /// The term whose change changes the quantity.
    pub fn depends_on(&self) -> &Expr {
        match &self.meaning {
            Meaning::Weights { scores, .. } | Meaning::Share(Shares { scores, .. }) => scores,
            Meaning::Rest(shares) => &shares.rest_score,
            Meaning::Formula(e) | Meaning::Solution { system: e, .. } => e,
        }
    }
}

/// Names for the shares of the wholes that an energy has logarithms of or divides by, and for weights where there is no
/// rest.
pub fn name_shares(energy: &Expr, recipe: &Recipe) -> Vec<Named> {
    let mut names: Vec<Named> = Vec::new();
    for node in traverse::subterms(energy) {
        let parts = match node.op() {
            Op::Call(Func::Log, x) => whole(x),
            Op::Mul(_) => divided(&node).map(|divided| (divided.part, divided.rest)),
            _ => None,
        };
        let Some(parts) = parts.filter(|parts| !names.iter().any(|n| names_parts(n, parts))) else { continue };
        let number = names.iter().filter(|n| !matches!(n.meaning, Meaning::Rest(_))).count();
        let leaf = |role| named_leaf(&unused("p", recipe), role, number, Sign::NonNegative);
        if parts.1.is_zero() {
            let meaning = Meaning::Weights { kind: Entropy::Shannon, scores: scores_of(&parts.0) };
            names.push(Named { leaf: leaf(Role::Weights), meaning });
            continue;
        }
        let rest = named_leaf(&unused("p0", recipe), Role::Share, number, Sign::Positive);
        let (token, rest) = (leaf(Role::Share), Leaf { axes: vec![Axis::T], ..rest });
        let shares = Shares::new(parts, token.clone(), rest.clone());
        names.push(Named { leaf: token, meaning: Meaning::Share(shares.clone()) });
        names.push(Named { leaf: rest, meaning: Meaning::Rest(shares) });
    }
    names
}

/// The scores of weights f_i/Σ_j f_j.
fn scores_of(part: &Expr) -> Expr {
    distinguishing(&log_of_product(part), Axis::N)
}

/// Whether a name is that of the shares of these parts.
fn names_parts(named: &Named, (part, rest): &(Expr, Expr)) -> bool {
    match &named.meaning {
        Meaning::Share(shares) => (&shares.part, &shares.rest) == (part, rest),
        Meaning::Weights { kind: Entropy::Shannon, scores } => rest.is_zero() && *scores == scores_of(part),
        _ => false,
    }
}

/// A product that divides Σ_i f_i x_i by r + Σ_j f_j.
struct Divided {
    part: Expr,
    rest: Expr,
    /// Σ_i x_i, which is to be weighed, and its axis, and everything beside it.
    axis: Axis,
    body: Expr,
    others: Vec<Expr>,
}

fn divided(product: &Expr) -> Option<Divided> {
    let Op::Mul(factors) = product.op() else { return None };
    let wholes = factors.iter().enumerate().filter_map(|(at, factor)| {
        let Op::Pow(base, r) = factor.op() else { return None };
        let (part, rest) = (r.is_negative() && r.is_integer()).then(|| parts_of(base))??;
        Some((at, base, r, part, rest))
    });
    wholes.into_iter().find_map(|(at, base, r, part, rest)| {
        factors.iter().enumerate().find_map(|(j, factor)| {
            let Op::Sum(axis, body) = factor.op() else { return None };
            if axis.space != Space::Token {
                return None;
            }
            let parts = traverse::rename(&part, Axis::N, *axis).factors();
            let inside = body.factors();
            let body = Expr::mul(inside.iter().filter(|f| !parts.contains(f)).cloned());
            let has_all = parts.iter().all(|f| inside.contains(f)) && body.has_axis(*axis);
            has_all.then(|| {
                let left = base.pow(&(r + rational::int(1)));
                let others = factors.iter().enumerate().filter(|(l, _)| *l != at && *l != j).map(|(_, f)| f.clone());
                Divided {
                    part: part.clone(),
                    rest: rest.clone(),
                    axis: *axis,
                    body,
                    others: others.chain([left]).collect(),
                }
            })
        })
    })
}

/// The term with Σ_i p_i x_i in the place of Σ_i f_i x_i/(r + Σ_j f_j), where the shares have names.
pub fn in_shares(e: &Expr, names: &[Named]) -> Expr {
    traverse::rewrite_bottom_up(e, &mut |mut x| {
        while let Some(Divided { part, rest, axis, body, others }) = divided(&x) {
            let parts = (part, rest);
            let Some(named) = names.iter().find(|named| names_parts(named, &parts)) else { break };
            let share = traverse::rename(&Expr::leaf(named.leaf.clone()), Axis::N, axis);
            x = Expr::mul(others.into_iter().chain([Expr::sum(axis, &share.times(&body))]));
        }
        x
    })
}

/// Names for the weights of a term, innermost first, each once whatever its axis is called, after `others`.
pub fn name_weights(e: &Expr, recipe: &Recipe, others: Vec<Named>) -> Vec<Named> {
    let rests = others.iter().filter(|named| matches!(named.meaning, Meaning::Rest(_))).count();
    let mut names = others;
    for node in traverse::subterms(e) {
        let Op::Weights(kind, axis, scores) = node.op() else { continue };
        let scores = distinguishing(&hide(&traverse::rename(scores, *axis, Axis::N), &names), Axis::N);
        let meaning = Meaning::Weights { kind: kind.clone(), scores };
        if names.iter().any(|n| n.meaning == meaning) {
            continue;
        }
        let number = names.len() - rests;
        let leaf = named_leaf(&unused("p", recipe), Role::Weights, number, Sign::NonNegative);
        names.push(Named { leaf, meaning });
    }
    names
}

/// What of scores tells tokens apart: weights do not change when a number is added to all scores, so what no token changes
/// is left out, also under a factor and under a sum over components.
fn distinguishing(scores: &Expr, token: Axis) -> Expr {
    match scores.op() {
        Op::Add(terms) => {
            let own = terms.iter().filter(|term| term.has_axis(token));
            Expr::add(own.map(|term| distinguishing(term, token)))
        }
        Op::Mul(factors) => {
            let mut own = factors.iter().enumerate().filter(|(_, f)| f.has_axis(token));
            let (Some((at, factor)), None) = (own.next(), own.next()) else { return scores.clone() };
            let reduced = distinguishing(factor, token);
            Expr::mul(factors.iter().enumerate().map(|(j, f)| if j == at { reduced.clone() } else { f.clone() }))
        }
        Op::Sum(axis, body) if matches!(axis.space, Space::Head | Space::Model) && body.has_axis(token) => {
            Expr::sum(*axis, &distinguishing(body, token))
        }
        _ => scores.clone(),
    }
}

/// What names stand for, for differentiation.
pub fn meanings(names: &[Named]) -> Vec<(Leaf, Meaning)> {
    names.iter().map(|named| (named.leaf.clone(), named.meaning.clone())).collect()
}

/// Names for the case distinctions per attended token.
pub fn name_cases(e: &Expr, recipe: &Recipe) -> Vec<Named> {
    let mut names: Vec<Named> = Vec::new();
    let pair = AxisSet::of(&[Axis::T, Axis::N]);
    for node in traverse::subterms(e) {
        // [x]₊ is short enough to be written where it stands.
        let Op::Select(_) = node.op() else { continue };
        if positive_part(&node).is_some() {
            continue;
        }
        let Some(axis) = node.axes().iter().find(|a| a.space == Space::Token) else { continue };
        let value = hide(&traverse::rename(&node, axis, Axis::N), &names);
        let meaning = Meaning::Formula(value.clone());
        if value.axes() != pair || names.iter().any(|n| n.meaning == meaning) {
            continue;
        }
        let leaf = named_leaf(&unused("c", recipe), Role::Named, names.len(), value.sign());
        names.push(Named { leaf, meaning });
    }
    names
}

/// The letter, with primes until no parameter of the recipe has that name.
pub fn unused(letter: &str, recipe: &Recipe) -> String {
    let mut name = letter.to_string();
    while recipe.param(&name).is_some() {
        name.push('\'');
    }
    name
}

fn named_leaf(letter: &str, role: Role, number: usize, sign: Sign) -> Leaf {
    let name = if number == 0 { letter.to_string() } else { format!("{letter}{}", number + 1) };
    Leaf::new(role, 400 + number as u16, &name, &[Axis::T, Axis::N], sign)
}

/// The term with what has a name replaced by it.
pub fn hide(e: &Expr, names: &[Named]) -> Expr {
    traverse::rewrite_bottom_up(e, &mut |x| {
        if !matches!(x.op(), Op::Weights(..) | Op::Select(_)) {
            return x;
        }
        let axes = x.axes();
        let mut tokens = axes.iter().filter(|a| a.space == Space::Token);
        let (Some(axis), None) = (tokens.next(), tokens.next()) else { return x };
        let at_n = traverse::rename(&x, axis, Axis::N);
        let at_n = match at_n.op() {
            Op::Weights(kind, axis, scores) => Expr::weights(kind, *axis, &distinguishing(scores, *axis)),
            _ => at_n,
        };
        match names.iter().find(|n| n.value() == at_n) {
            Some(named) => traverse::rename(&Expr::leaf(named.leaf.clone()), Axis::N, axis),
            None => x,
        }
    })
}

/// The term with names replaced by what they stand for.
pub fn reveal(e: &Expr, names: &[Named]) -> Expr {
    let mut revealed = Reveal::default();
    revealed.stand_for(names.iter().map(|named| (named.leaf.clone(), named.value())).collect());
    revealed.of(e)
}

/// Terms with names replaced by what they stand for, names in that too; each subterm is looked at once.
#[derive(Clone, Debug, Default)]
pub struct Reveal {
    meanings: Vec<(Leaf, Expr)>,
    memo: Memo<Expr>,
}

impl Reveal {
    /// Says of every name what it stands for, in terms of names before it.
    pub fn stand_for(&mut self, meanings: Vec<(Leaf, Expr)>) {
        if self.meanings != meanings {
            *self = Reveal { meanings, memo: Memo::default() };
        }
    }

    pub fn of(&mut self, e: &Expr) -> Expr {
        if !self.meanings.iter().any(|(leaf, _)| e.may_mention(leaf)) {
            return e.clone();
        }
        if let Some(done) = self.memo.get(e) {
            return done.clone();
        }
        let result = match e.as_leaf() {
            Some(leaf) => self.leaf(leaf).unwrap_or_else(|| e.clone()),
            None => traverse::map_children(e, |x| self.of(x)),
        };
        self.memo.insert(e.clone(), result.clone());
        result
    }

    fn leaf(&mut self, leaf: &Leaf) -> Option<Expr> {
        let (name, meaning) = self.meanings.iter().rfind(|(name, _)| name.same_input(leaf))?;
        // Axes get their names while the term is short.
        let meaning = at_axes(meaning, &name.axes, &leaf.axes);
        Some(self.of(&meaning))
    }
}

/// The same, while the budget lasts: where names stand for one another, what they stand for may grow with every one.
pub fn reveal_within(e: &Expr, names: &[Named], budget: &Budget) -> Option<Expr> {
    names.iter().rev().try_fold(e.clone(), |e, named| {
        if !e.may_mention(&named.leaf) {
            return Some(e);
        }
        let e = reveal(&e, std::slice::from_ref(named));
        budget.spend(traverse::occurring(&e).len());
        (!budget.is_spent()).then_some(e)
    })
}

/// A term along the axes `from`, along the axes `to`.
pub fn at_axes(e: &Expr, from: &[Axis], to: &[Axis]) -> Expr {
    from.iter().zip(to).filter(|(a, b)| a != b).fold(e.clone(), |e, (&a, &b)| traverse::rename(&e, a, b))
}

/// A name for a vector of the head.
pub fn vector_leaf(letter: &str, number: usize, recipe: &Recipe) -> Leaf {
    let base = unused(letter, recipe);
    let name = if number == 0 { base } else { format!("{base}{}", number + 1) };
    let letter = letter.chars().next().map_or(0, |c| c as u16);
    Leaf::new(Role::Named, 2000 + 100 * (letter % 100) + number as u16, &name, &[Axis::T, Axis::E], Sign::Unknown)
}
