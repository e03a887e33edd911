//! Multiplying out: the directed half of simplification.
//!
//! Applies the expanding rules left to right until none fits, so that equal terms meet and cancel in the normal form.
//! *Tidying* hoists factors out of sums, takes what no token changes out of scores, makes one quotient of two where they
//! cancel (`quotients.rs`) and uses assumptions; *expanding* also distributes. The e-graph starts
//! once from the tidied term and once from the expanded one. Every application is recorded as a proof step.

use super::language::opened;
use super::pattern::{Binding, Bindings, Pattern};
use super::proof::{self, Step};
use super::quotients;
use super::rules::{Condition, RuleSet};
use crate::ir::{Axis, Budget, Entropy, Expr, Func, Op, rational, traverse};

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
        Op::Mul(factors) if distributes && factors.iter().any(is_sum) => {
            let (at, a) = taken_out(factors, is_sum)?;
            let (b, c) = split_sum(&at)?;
            apply(rules, "distribute", vec![term("?a", a), term("?b", b), term("?c", c)])
        }
        Op::Mul(factors) => quotients::cleared(factors, rules)
            .or_else(|| quotients::brought_in(factors, rules))
            .or_else(|| zero_twice(factors, rules)),
        Op::Add(terms) => quotients::merged(terms, rules),
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

/// The first factor of a kind, and the product of the others.
fn taken_out(factors: &[Expr], is_wanted: impl Fn(&Expr) -> bool) -> Option<(Expr, Expr)> {
    let at = factors.iter().position(is_wanted)?;
    let others = factors.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, f)| f.clone());
    Some((factors[at].clone(), Expr::mul(others)))
}

fn is_sum(e: &Expr) -> bool {
    matches!(e.op(), Op::Add(_))
}

/// Says once where a product is 0: [x]₊² (0 if x ≤ 0, else y) = [x]₊² y, for a y that is defined everywhere.
fn zero_twice(factors: &[Expr], rules: &RuleSet) -> Option<Step> {
    let zero_until = |e: &Expr| match e.op() {
        Op::Select(p) if p[2].is_zero() => Some((p[0].clone(), p[1].clone(), p[3].clone())),
        _ => None,
    };
    let base = |e: &Expr| match e.op() {
        Op::Pow(x, r) => (x.clone(), r.clone()),
        _ => (e.clone(), rational::int(1)),
    };
    factors.iter().enumerate().find_map(|(at, factor)| {
        let (a, b, y) = zero_until(factor)?;
        if traverse::subterms(&y).iter().any(|x| matches!(x.op(), Op::Call(Func::Log, _))) {
            return None;
        }
        let others = || factors.iter().enumerate().filter(move |(j, _)| *j != at).map(|(_, f)| f);
        let (first, x, r) = others().find_map(|other| {
            let (x, r) = base(other);
            zero_until(&x).filter(|(c, d, _)| *c == a && *d == b).map(|(_, _, x)| (other, x, r))
        })?;
        let rest = Expr::mul(others().filter(|f| *f != first).cloned());
        let bindings =
            vec![term("?a", a), term("?b", b), term("?x", x), term("?y", y), ("?r".to_string(), Binding::Number(r))];
        within(apply(rules, "select-zero-twice", bindings)?, |hole| hole.times(&rest))
    })
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

pub(super) fn term(name: &str, e: Expr) -> (String, Binding) {
    (name.to_string(), Binding::Term(e))
}

/// The step a rule makes, if the rule is there, its conditions hold and it changes something.
pub(super) fn apply(rules: &RuleSet, name: &str, bindings: Vec<(String, Binding)>) -> Option<Step> {
    let rule = rules.get(name)?;
    let bindings: Bindings = bindings.into_iter().collect();
    if !rule.usage.expands() || !rule.conditions.iter().all(|c: &Condition| c.holds(&bindings)) {
        return None;
    }
    let from = rule.left.instantiate(&bindings).ok()?;
    let to = rule.right.instantiate(&bindings).ok()?;
    (from != to).then(|| Step { rule: name.into(), forward: true, bindings, context: None, from, to })
}

/// A step on a part of a sum or product, as a step on the whole.
pub(super) fn within(step: Step, whole: impl Fn(Expr) -> Expr) -> Option<Step> {
    let axes = proof::hole_axes(&step.from, &step.to);
    let context = whole(proof::hole(&axes));
    let from = proof::plug(&context, &axes, &step.from)?;
    let to = proof::plug(&context, &axes, &step.to)?;
    Some(Step { context: Some(context), from, to, ..step })
}
