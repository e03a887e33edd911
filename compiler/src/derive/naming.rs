//! Names for the intermediate quantities of a derivation.
//!
//! Differentiating a smooth maximum brings in its weights. From there on they are a quantity of their own, p_i, with a
//! definition; the algebra needs to know only that they are nonnegative and sum to one. A case distinction per attended
//! token (c_i) is named as well. Terms after the gradient are written with the names.

use crate::calculus::Meaning;
use crate::check::recipe::Recipe;
use crate::ir::memo::Memo;
use crate::ir::{Axis, AxisSet, Budget, Expr, Leaf, Op, Role, Sign, Space, traverse};

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
            Meaning::Formula(e) | Meaning::Solution { system: e, .. } => e.clone(),
        }
    }
    /// The term whose change changes the quantity.
    pub fn depends_on(&self) -> &Expr {
        match &self.meaning {
            Meaning::Weights { scores, .. } => scores,
            Meaning::Formula(e) | Meaning::Solution { system: e, .. } => e,
        }
    }
}

/// Names for the weights of a term, innermost first, each once whatever its axis is called.
pub fn name_weights(e: &Expr, recipe: &Recipe) -> Vec<Named> {
    let mut names: Vec<Named> = Vec::new();
    for node in traverse::subterms(e) {
        let Op::Weights(kind, axis, scores) = node.op() else { continue };
        let scores = hide(&traverse::rename(scores, *axis, Axis::N), &names);
        let meaning = Meaning::Weights { kind: kind.clone(), scores };
        if names.iter().any(|n| n.meaning == meaning) {
            continue;
        }
        let leaf = named_leaf(&unused("p", recipe), Role::Weights, names.len(), Sign::NonNegative);
        names.push(Named { leaf, meaning });
    }
    names
}

/// Names for the case distinctions per attended token.
pub fn name_cases(e: &Expr, recipe: &Recipe) -> Vec<Named> {
    let mut names: Vec<Named> = Vec::new();
    let pair = AxisSet::of(&[Axis::T, Axis::N]);
    for node in traverse::subterms(e) {
        let Op::Select(_) = node.op() else { continue };
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
