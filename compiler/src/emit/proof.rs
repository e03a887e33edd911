//! A proof as numbered steps.

use crate::ir::{Expr, traverse};
use crate::notation::{Writer, text};
use crate::simplify::proof::{Proof, Step};
use crate::simplify::rules::RuleSet;

/// The steps of a proof: after each, the whole term it works on, and the rule.
pub fn print(title: &str, proof: &Proof, rules: &RuleSet) -> String {
    let mut out = format!("{title}: {} step{}\n", proof.len(), if proof.len() == 1 { "" } else { "s" });
    let show = |e: &Expr| text::print(&Writer::of_proofs().write(e));
    let mut number = 0;
    for lemma in &proof.lemmas {
        out.push_str(&format!("          {}\n", show(&lemma.start)));
        let mut current = lemma.start.clone();
        for step in &lemma.steps {
            number += 1;
            current = traverse::replace(&current, &step.from, &step.to);
            out.push_str(&format!("    {number:>3}.  = {}\n", show(&current)));
            out.push_str(&format!("              by {}:  {}\n", step.rule, statement(step, rules)));
        }
    }
    out
}

/// The rule as it was used, left to right or right to left.
fn statement(step: &Step, rules: &RuleSet) -> String {
    rules.get(&step.rule).map_or(String::new(), |rule| {
        let (left, right) = if step.forward { (&rule.left, &rule.right) } else { (&rule.right, &rule.left) };
        format!("{left} = {right}")
    })
}
