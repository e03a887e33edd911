//! Simplification: every simplified term against the term it came from, in value and by proof.

use super::parts::Parts;
use super::report::{Line, Outcome};
use super::samples::{Mask, Source};
use super::steady::{beyond_rounding, is_finite};
use super::trials::{Gap, Samples, Tally, gap, run};
use crate::derive::hide;
use crate::ir::Expr;
use crate::ir::eval::{Env, evaluate_all};
use crate::simplify::{Simplified, proof};

const TOLERANCE: f64 = 1e-8;

/// Values before and after, all tokens visible and some.
pub fn values(parts: &Parts) -> Line {
    let stages = parts.stages();
    let pairs: Vec<(String, Expr, Expr)> = stages
        .iter()
        .map(|(name, s)| (name.clone(), parts.reveal(&s.proof.start), parts.reveal(&s.term)))
        .filter(|(_, before, after)| before != after)
        .collect();
    let terms = pairs.iter().flat_map(|(_, before, after)| [before.clone(), after.clone()]);
    let terms = terms.chain([parts.energy().clone()]).collect();
    // Rounding may put the two forms on different sides of a kink.
    let source = Source::new(terms, parts.norms()).of(parts.energy());
    let tally = |mask| {
        run(&source.masked(mask), |sample| {
            let mut worst = Gap::NONE;
            for (name, before, after) in &pairs {
                let values = |env: &Env| evaluate_all(&[before.clone(), after.clone()], env);
                let both = values(&sample.env)?;
                if !is_finite(&both[0]) {
                    return Ok(None);
                }
                let gap = gap(&format!("{name} at "), &both[1], &both[0], sample.env.sizes);
                let Some(gap) = beyond_rounding(gap, TOLERANCE, &sample.env, values)? else { return Ok(None) };
                worst = worst.or(gap);
            }
            Ok(Some(worst))
        })
    };
    let tally = tally(Mask::None).join(tally(Mask::Partial));
    let detail = format!(
        "{} of {} stages were rewritten, each against its unsimplified start; {} samples, some masked",
        pairs.len(),
        stages.len(),
        tally.samples
    );
    Line { name: "simplified", detail, outcome: tally.outcome(TOLERANCE) }
}

/// Every proof replayed by the checker; its end must be the term that is used.
pub fn proofs(parts: &Parts) -> Line {
    let stages = parts.stages();
    let steps: usize = stages.iter().map(|(_, s)| s.proof.len()).sum();
    let refused: usize = stages.iter().map(|(_, s)| s.rejected.len()).sum();
    let problem = stages.iter().find_map(|(name, s)| replay(parts, s).err().map(|e| format!("{name}: {e}")));
    let kept = if refused == 0 { String::new() } else { format!("; {refused} rewritings were refused") };
    let detail = format!("{steps} steps in {} proofs replayed{kept}", stages.len());
    let worst = problem.map_or(Gap::NONE, Gap::impossible);
    let outcome: Outcome = Tally { samples: Samples::all(stages.len()), worst }.outcome(0.0);
    Line { name: "proofs", detail, outcome }
}

fn replay(parts: &Parts, simplified: &Simplified) -> Result<(), String> {
    proof::check(&simplified.proof, &parts.options.rules)?;
    let end = hide(&simplified.proof.end, &parts.derivation.names);
    if end == simplified.term || parts.reveal(&end) == parts.reveal(&simplified.term) {
        Ok(())
    } else {
        Err(format!("the proof ends at {end}, the term is {}", simplified.term))
    }
}
