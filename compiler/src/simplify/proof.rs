//! Proofs: numbered applications of rules, and the checker that replays them.
//!
//! A step says: in the current term, the subterm `from` becomes `to`, because some rule's two sides, with these
//! bindings and in this context, are `from` and `to`. The checker trusts none of that. It instantiates both sides of
//! the rule from the table, tests the side conditions on the bound terms, puts the sides into the context, compares
//! with `from` and `to`, makes the replacement itself, and at the end compares with the claimed result. It shares
//! only the rule table and the normal form with the code that found the proof.

use super::pattern::Bindings;
use super::rules::RuleSet;
use crate::ir::{Axis, Expr, Leaf, Role, Sign, traverse};
use std::fmt;

/// One application of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub rule: String,
    /// Left to right, or right to left.
    pub forward: bool,
    pub bindings: Bindings,
    /// Where inside `from` the rule applies: `from` with a [`hole`] there; nowhere means everywhere.
    pub context: Option<Expr>,
    pub from: Expr,
    pub to: Expr,
}

impl Step {
    /// The step back.
    pub fn reversed(self) -> Step {
        Step { forward: !self.forward, from: self.to, to: self.from, ..self }
    }
}

/// A chain of steps on one subterm.
#[derive(Clone, Debug, PartialEq)]
pub struct Lemma {
    pub start: Expr,
    pub steps: Vec<Step>,
    pub end: Expr,
}

/// A proof that `start` equals `end`: each lemma replaces its own start by its own end.
#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    pub start: Expr,
    pub lemmas: Vec<Lemma>,
    pub end: Expr,
}

impl Proof {
    /// How many times a rule is applied.
    pub fn len(&self) -> usize {
        self.lemmas.iter().map(|lemma| lemma.steps.len()).sum()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The proof that these lemmas make of a term, without those whose start no longer occurs.
    pub fn from_lemmas<'a>(start: &Expr, lemmas: impl IntoIterator<Item = &'a Lemma>) -> Proof {
        let mut end = start.clone();
        let mut inside = traverse::occurring(&end);
        let mut used = Vec::new();
        for lemma in lemmas {
            let occurs = inside.contains(&lemma.start);
            let next = if occurs { traverse::replace(&end, &lemma.start, &lemma.end) } else { end.clone() };
            let next = if next == end { with_part(&end, lemma) } else { next };
            if next != end {
                end = next;
                inside = traverse::occurring(&end);
                used.push(lemma.clone());
            }
        }
        Proof { start: start.clone(), lemmas: used, end }
    }
    /// The proof that a term equals itself.
    pub fn trivial(e: &Expr) -> Proof {
        Proof { start: e.clone(), lemmas: vec![], end: e.clone() }
    }
}

const HOLE: &str = "hole";

/// The place of a subterm that extends along `axes`.
pub fn hole(axes: &[Axis]) -> Expr {
    Expr::leaf(Leaf::new(Role::Named, u16::MAX, HOLE, axes, Sign::Unknown))
}

/// A context with its hole filled. `axes` are the hole's own, as it was made; binders may have renamed them since.
///
/// Nothing, when the hole does not have the shape of what is to fill it.
pub fn plug(context: &Expr, axes: &[Axis], filling: &Expr) -> Option<Expr> {
    let mut fits = true;
    let plugged = traverse::substitute_leaves(context, &mut |leaf| {
        let is_hole = leaf.role == Role::Named && leaf.ordinal == u16::MAX && &*leaf.name == HOLE;
        let same_spaces = leaf.axes.len() == axes.len() && leaf.axes.iter().zip(axes).all(|(a, b)| a.space == b.space);
        fits &= !is_hole || same_spaces;
        (is_hole && same_spaces).then(|| rename_together(filling, axes, &leaf.axes))
    });
    fits.then_some(plugged)
}

/// Renames several axes at once, through names nobody uses.
fn rename_together(e: &Expr, from: &[Axis], to: &[Axis]) -> Expr {
    let moved: Vec<(Axis, Axis)> = from.iter().copied().zip(to.iter().copied()).filter(|(a, b)| a != b).collect();
    let aside = |j: usize, a: Axis| Axis::new(a.space, 15 - j as u8);
    let e = moved.iter().enumerate().fold(e.clone(), |e, (j, &(a, _))| traverse::rename(&e, a, aside(j, a)));
    moved.iter().enumerate().fold(e, |e, (j, &(a, b))| traverse::rename(&e, aside(j, a), b))
}

/// The axes a hole needs for both sides of a step, in order.
pub fn hole_axes(a: &Expr, b: &Expr) -> Vec<Axis> {
    a.axes().union(b.axes()).iter().collect()
}

/// Replays a proof; the error names the first step that does not hold.
pub fn check(proof: &Proof, rules: &RuleSet) -> Result<(), String> {
    let mut current = proof.start.clone();
    let mut number = 0;
    for lemma in &proof.lemmas {
        let mut part = lemma.start.clone();
        for step in &lemma.steps {
            number += 1;
            let problem = |e: String| format!("step {number} ({}): {e}", step.rule);
            check_step(step, rules).map_err(problem)?;
            part = replaced(&part, &step.from, &step.to).map_err(problem)?;
        }
        if part != lemma.end {
            return Err(format!("the steps up to {number} end at {}, not at {}", short(&part), short(&lemma.end)));
        }
        let next = with_lemma(&current, lemma);
        if next == current {
            return Err(format!("after step {number}: the left side does not occur: {}", short(&lemma.start)));
        }
        current = next;
    }
    if current != proof.end {
        return Err(format!("the steps end at {}, not at {}", short(&current), short(&proof.end)));
    }
    Ok(())
}

/// As much of a term's text as a message can bear.
fn short(e: &Expr) -> String {
    struct Short(String);
    impl fmt::Write for Short {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.push_str(text);
            if self.0.len() > 1000 { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut out = Short(String::new());
    match fmt::write(&mut out, format_args!("{e}")) {
        Ok(()) => out.0,
        Err(_) => out.0 + " …",
    }
}

/// The term with a lemma's start replaced by its end, where it stands; a start that is a sum may also be a part of one.
fn with_lemma(whole: &Expr, lemma: &Lemma) -> Expr {
    let next = traverse::replace(whole, &lemma.start, &lemma.end);
    if next == *whole { with_part(whole, lemma) } else { next }
}

/// The term with a lemma's start replaced, if that is a sum and a part of the term's own.
fn with_part(whole: &Expr, lemma: &Lemma) -> Expr {
    let (terms, all) = (lemma.start.terms(), whole.terms());
    let is_part = terms.len() > 1 && terms.iter().all(|term| all.contains(term));
    if is_part { Expr::add([whole.clone(), lemma.start.neg(), lemma.end.clone()]) } else { whole.clone() }
}

fn replaced(whole: &Expr, from: &Expr, to: &Expr) -> Result<Expr, String> {
    let next = traverse::replace(whole, from, to);
    if next == *whole { Err(format!("the left side does not occur: {}", short(from))) } else { Ok(next) }
}

fn check_step(step: &Step, rules: &RuleSet) -> Result<(), String> {
    let rule = rules.get(&step.rule).ok_or("no such rule")?;
    if let Some(condition) = rule.conditions.iter().find(|c| !c.holds(&step.bindings)) {
        return Err(format!("the condition {condition:?} does not hold"));
    }
    let left = rule.left.instantiate(&step.bindings)?;
    let right = rule.right.instantiate(&step.bindings)?;
    let (source, target) = if step.forward { (left, right) } else { (right, left) };
    let (from, to) = match &step.context {
        None => (source, target),
        Some(context) => {
            let axes = hole_axes(&source, &target);
            match (plug(context, &axes, &source), plug(context, &axes, &target)) {
                (Some(from), Some(to)) => (from, to),
                _ => return Err("the context's hole has other axes than the rule's sides".into()),
            }
        }
    };
    match (from == step.from, to == step.to) {
        (true, true) => Ok(()),
        (false, _) => Err(format!("the rule's side is {}, the step has {}", short(&from), short(&step.from))),
        _ => Err(format!("the rule gives {}, the step has {}", short(&to), short(&step.to))),
    }
}
