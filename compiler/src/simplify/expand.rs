//! Multiplying out: the directed half of simplification.
//!
//! Applies the expanding rules left to right until none fits, so that equal terms meet and cancel in the normal form.
//! *Tidying* only hoists factors out of sums and uses assumptions; *expanding* also distributes. The e-graph starts
//! once from the tidied term and once from the expanded one. Every application is recorded as a proof step.

use super::language::opened;
use super::pattern::{Binding, Bindings, Pattern};
use super::proof::Step;
use super::rules::{Condition, RuleSet};
use crate::ir::{Axis, Budget, Entropy, Expr, Op, rational, traverse};

/// An expansion longer than this is not worth having.
const MAX_STEPS: usize = 160;
const MAX_SIZE: usize = 600;
/// Steps in a term that opens more nodes than this are not looked for.
const MAX_OPENED: usize = 10_000;

/// How far to go.
#[derive(Clone, Copy, PartialEq)]
pub enum Extent {
    /// Hoist and substitute; never larger.
    Tidy,
    /// Multiply out.
    Expand,
}

/// The tidied or expanded term and the steps to it; nothing when it grows too large.
pub fn expand(e: &Expr, rules: &RuleSet, extent: Extent, budget: &Budget) -> Option<(Expr, Vec<Step>)> {
    let mut current = e.clone();
    let mut steps = Vec::new();
    if opened(e) > MAX_OPENED {
        return None;
    }
    while let Some(step) = find_step(&current, rules, extent, true) {
        current = traverse::replace(&current, &step.from, &step.to);
        steps.push(step);
        let size = traverse::tree_size(&current);
        budget.spend(size.min(MAX_SIZE));
        if steps.len() > MAX_STEPS || size > MAX_SIZE {
            return None;
        }
    }
    Some((current, steps))
}

/// The first applicable step, innermost first, without entering what a region does not open.
fn find_step(e: &Expr, rules: &RuleSet, extent: Extent, is_root: bool) -> Option<Step> {
    let opened = match e.op() {
        Op::Add(_) | Op::Mul(_) | Op::Sum(..) => true,
        Op::Pow(_, r) => is_root || *r == rational::int(2),
        Op::Const(_) | Op::Leaf(_) => false,
        Op::Select(_) => false,
        _ => is_root,
    };
    if opened {
        for child in e.children() {
            if let Some(step) = find_step(child, rules, extent, false) {
                return Some(step);
            }
        }
    }
    let ground = rules.rules.iter().filter(|r| matches!(r.left, Pattern::Ground(_)));
    for rule in ground {
        if rule.left == Pattern::Ground(e.clone()) {
            return apply(rules, &rule.name, vec![]);
        }
    }
    let distributes = extent == Extent::Expand;
    match e.op() {
        Op::Mul(factors) if distributes => {
            let at = factors.iter().position(|f| matches!(f.op(), Op::Add(_)))?;
            let (b, c) = split_sum(&factors[at])?;
            let a = Expr::mul(factors.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, f)| f.clone()));
            apply(rules, "distribute", vec![term("?a", a), term("?b", b), term("?c", c)])
        }
        Op::Sum(i, body) => sum_step(*i, body, rules, distributes),
        Op::SmoothMax(kind, i, scores) => shift_step("smoothmax-shift", kind, *i, scores, rules),
        Op::Weights(kind, i, scores) => shift_step("weights-shift", kind, *i, scores, rules),
        _ => None,
    }
}

fn sum_step(i: Axis, body: &Expr, rules: &RuleSet, distributes: bool) -> Option<Step> {
    let axis = ("?i".to_string(), Binding::Axis(i));
    match body.op() {
        Op::Add(_) => {
            let (a, b) = split_sum(body).filter(|_| distributes)?;
            apply(rules, "sum-of-sum", vec![axis, term("?a", a), term("?b", b)])
        }
        Op::Mul(factors) => {
            let (outside, inside): (Vec<Expr>, Vec<Expr>) = factors.iter().cloned().partition(|f| !f.has_axis(i));
            if outside.is_empty() || inside.is_empty() {
                return None;
            }
            apply(rules, "sum-hoist", vec![axis, term("?a", Expr::mul(outside)), term("?b", Expr::mul(inside))])
        }
        Op::Pow(base, r) if distributes && *r == rational::int(2) => {
            let (a, b) = split_sum(base)?;
            apply(rules, "square-of-sum", vec![axis, term("?a", a), term("?b", b)])
        }
        _ => apply(rules, "sum-to-one", vec![axis, term("?p", body.clone())]),
    }
}

/// Takes what does not depend on the axis out of the scores.
fn shift_step(rule: &str, kind: &Entropy, i: Axis, scores: &Expr, rules: &RuleSet) -> Option<Step> {
    let (outside, inside): (Vec<Expr>, Vec<Expr>) = scores.terms().into_iter().partition(|t| !t.has_axis(i));
    if outside.is_empty() || inside.is_empty() {
        return None;
    }
    let axis = ("?i".to_string(), Binding::Axis(i));
    let kind = ("?K".to_string(), Binding::Kind(kind.clone()));
    apply(rules, rule, vec![axis, kind, term("?s", Expr::add(inside)), term("?c", Expr::add(outside))])
}

fn split_sum(e: &Expr) -> Option<(Expr, Expr)> {
    let Op::Add(terms) = e.op() else { return None };
    let (first, rest) = terms.split_first()?;
    Some((first.clone(), Expr::add(rest.iter().cloned())))
}

fn term(name: &str, e: Expr) -> (String, Binding) {
    (name.to_string(), Binding::Term(e))
}

/// The step a rule makes, if the rule is there, its conditions hold and it changes something.
fn apply(rules: &RuleSet, name: &str, bindings: Vec<(String, Binding)>) -> Option<Step> {
    let rule = rules.get(name)?;
    let bindings: Bindings = bindings.into_iter().collect();
    if !rule.usage.expands() || !rule.conditions.iter().all(|c: &Condition| c.holds(&bindings)) {
        return None;
    }
    let from = rule.left.instantiate(&bindings).ok()?;
    let to = rule.right.instantiate(&bindings).ok()?;
    (from != to).then(|| Step { rule: name.into(), forward: true, bindings, context: None, from, to })
}
