//! A proof as numbered steps.

use crate::notation::{Writer, text};
use crate::simplify::Proof;
use crate::simplify::rules::RuleSet;

/// The steps of a proof, each with the rule it uses and the term it leads to.
pub fn print(title: &str, proof: &Proof, rules: &RuleSet) -> String {
    let mut out = format!("{title}: {} step{}\n", proof.len(), if proof.len() == 1 { "" } else { "s" });
    let show = |e: &crate::ir::Expr| text::print(&Writer::default().write(e));
    let mut number = 0;
    for lemma in &proof.lemmas {
        if lemma.start != proof.start {
            out.push_str(&format!("    in  {}\n", show(&lemma.start)));
        } else {
            out.push_str(&format!("        {}\n", show(&lemma.start)));
        }
        for step in &lemma.steps {
            number += 1;
            let statement = rules.get(&step.rule).map_or(String::new(), |rule| {
                let (left, right) = if step.forward { (&rule.left, &rule.right) } else { (&rule.right, &rule.left) };
                format!("{left} = {right}")
            });
            out.push_str(&format!("    {number}.  {}    by {}  [{statement}]\n", show(&step.to), step.rule));
        }
    }
    out
}
