//! A proof read backwards.

use crate::ir::{Expr, traverse};
use crate::simplify::Proof;
use crate::simplify::proof::{Lemma, Step, hole};

/// Every lemma and step the other way round.
pub fn reversed(proof: &Proof) -> Vec<Lemma> {
    let back = |lemma: &Lemma| Lemma {
        start: lemma.end.clone(),
        steps: lemma.steps.iter().rev().map(reversed_step).collect(),
        end: lemma.start.clone(),
    };
    proof.lemmas.iter().rev().map(back).collect()
}

fn reversed_step(step: &Step) -> Step {
    Step { forward: !step.forward, from: step.to.clone(), to: step.from.clone(), ..step.clone() }
}

/// The same as one lemma about the whole term, in which every step says where it applies.
pub fn rewound(proof: &Proof) -> Vec<Lemma> {
    let mut steps: Vec<Step> = Vec::new();
    let mut whole = proof.start.clone();
    for lemma in &proof.lemmas {
        let mut part = lemma.start.clone();
        let around = |part: &Expr| traverse::replace(&whole, &lemma.start, part);
        for step in &lemma.steps {
            let next = traverse::replace(&part, &step.from, &step.to);
            let axes: Vec<_> = step.from.axes().union(step.to.axes()).iter().collect();
            let place = step.context.clone().unwrap_or_else(|| hole(&axes));
            let context = around(&traverse::replace(&part, &step.from, &place));
            let (from, to) = (around(&next), around(&part));
            steps.push(Step { forward: !step.forward, context: Some(context), from, to, ..step.clone() });
            part = next;
        }
        whole = around(&lemma.end);
    }
    steps.reverse();
    let (start, end) = (proof.end.clone(), proof.start.clone());
    if steps.is_empty() { vec![] } else { vec![Lemma { start, steps, end }] }
}
