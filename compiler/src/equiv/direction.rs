//! Two directions: a proof that they are one, or numbers that they are not.
//!
//! ```text
//! raw A ──simplify──▶ A ══ (multiplied out, or one e-graph run) ══ B ◀──simplify── raw B
//! raw A ══ (exponentials as variables) ══ raw B
//! ```
//! The raw direction is −∇_q F_h as differentiation leaves it, with values put in and names revealed (of a solved system,
//! its solution with all names revealed); F_h is the energy
//! after its own proven simplification, because constraints are put in before differentiating.

use super::Equivalence;
use super::canonical::canonical;
use super::exponentials;
use super::numbers::{self, Formula};
use super::reverse::{reversed, rewound};
use crate::check::recipe::{Recipe, Values};
use crate::derive::{Named, derive, free_values, reveal_within};
use crate::ir::sample::Norm;
use crate::ir::{Budget, Expr};
use crate::simplify::language::{self, AtomName, Term};
use crate::simplify::proof::{self, Lemma};
use crate::simplify::saturate::saturate;
use crate::simplify::{Options, Proof, simplify};
use egg::RecExpr;

/// Compares the directions of two recipes over the same inputs.
pub fn compare(a: &Recipe, b: &Recipe, options: &Options, notes: Vec<String>) -> Equivalence {
    if is_same(a, b) {
        return Equivalence::Proven { proof: Proof::trivial(&a.energy), notes };
    }
    let norms = norms(a, b);
    let shared = options.clone().assuming(norms.clone());
    let (first, second) = (Direction::of(a, options), Direction::of(b, options));
    let proven = match (&first.written_out, &second.written_out) {
        (Some(a), Some(b)) => proven(&tidy(a, &shared), &tidy(b, &shared), &shared),
        _ => Err("they are too long to write out".to_string()),
    };
    let problem = match proven {
        Ok(proof) => return Equivalence::Proven { proof, notes },
        Err(problem) => problem,
    };
    match numbers::difference_of("the direction ", &first.formula(), &second.formula(), &norms) {
        Ok(Some(evidence)) => Equivalence::Differ { evidence },
        Ok(None) => match first.written_out.zip(second.written_out).and_then(|(a, b)| exponentials::decide(&a, &b)) {
            Some(substitutions) => Equivalence::Decided { substitutions, notes },
            None => Equivalence::Unknown { reason: format!("the directions agree in numbers, but {problem}") },
        },
        Err(reason) => Equivalence::Unknown { reason },
    }
}

/// Whether the energies are one term, minimized in one way.
fn is_same(a: &Recipe, b: &Recipe) -> bool {
    a.energy == b.energy && a.constraints == b.constraints && a.program.preconditioner == b.program.preconditioner
}

/// What both layers know of q and k.
fn norms(a: &Recipe, b: &Recipe) -> Vec<Norm> {
    let mut norms: Vec<Norm> = Vec::new();
    for constraint in a.constraints.iter().chain(&b.constraints) {
        if !norms.iter().any(|(vector, _)| vector.same_input(&constraint.vector)) {
            norms.push((constraint.vector.clone(), constraint.radius.clone()));
        }
    }
    norms
}

/// Nodes that a direction may have when its names are written out.
const MAX_WRITTEN_OUT: usize = 100_000;

/// The raw direction of a recipe.
struct Direction {
    names: Vec<Named>,
    raw: Expr,
    /// With its names revealed, unless it is too long for that.
    written_out: Option<Expr>,
}

impl Direction {
    fn of(recipe: &Recipe, options: &Options) -> Direction {
        let derivation = derive(recipe, options);
        let descent = derivation.gradient.proof.start.neg();
        let raw = match recipe.values {
            _ if derivation.preconditioned.is_some() => derivation.direction.proof.start.clone(),
            Values::Tied => descent,
            Values::Free => free_values(&descent),
        };
        let written_out = reveal_within(&raw, &derivation.names, &Budget::of(MAX_WRITTEN_OUT));
        Direction { names: derivation.names, raw, written_out }
    }

    /// What is to be evaluated.
    fn formula(&self) -> Formula {
        match &self.written_out {
            Some(term) => Formula { names: vec![], term: term.clone() },
            None => Formula { names: self.names.clone(), term: self.raw.clone() },
        }
    }
}

/// The proof from the raw direction to the simplified one.
fn tidy(raw: &Expr, shared: &Options) -> Proof {
    simplify(raw, &shared.clone().afresh()).proof
}

/// A proof between two starts, the cheapest way that works: their ends meet, or multiplied out they do, or one run of
/// the rules joins them.
fn proven(a: &Proof, b: &Proof, options: &Options) -> Result<Proof, String> {
    if a.end == b.end {
        return joined(a, vec![], b, options);
    }
    let (longer_a, longer_b) = (multiplied_out(a, options), multiplied_out(b, options));
    if longer_a.end == longer_b.end {
        return joined(&longer_a, vec![], &longer_b, options);
    }
    let middle = steps_between(&a.end, &b.end, options)?;
    joined(a, middle, b, options)
}

fn multiplied_out(proof: &Proof, options: &Options) -> Proof {
    let more = canonical(&proof.end, &options.clone().afresh());
    let lemmas = proof.lemmas.iter().cloned().chain(more.lemmas).collect();
    Proof { start: proof.start.clone(), lemmas, end: more.end }
}

/// Steps from one term to the other, if one run of the rules joins them.
fn steps_between(a: &Expr, b: &Expr, options: &Options) -> Result<Vec<Lemma>, String> {
    if language::opened(a).saturating_add(language::opened(b)) > 4 * options.limits.nodes {
        options.budget.refuse();
        return Err("they are too long to look for a way from one to the other".to_string());
    }
    let mut run = saturate(a, std::slice::from_ref(b), &options.rules, options.limits, &options.budget);
    let atom = run.graph.analysis.atoms.iter().position(|e| e == b).ok_or("the second has no place in the graph")?;
    let node = Term::Atom(AtomName(atom));
    let class = run.graph.lookup(node.clone()).ok_or("the second has no place in the graph")?;
    if run.graph.find(class) != run.graph.find(run.root) {
        return Err("the rules do not lead from one to the other".into());
    }
    let mut end: RecExpr<Term> = RecExpr::default();
    end.add(node);
    let steps = run
        .explain(&end, &options.rules, &options.budget)?
        .ok_or("the way from one to the other is too long to write")?;
    Ok(vec![Lemma { start: a.clone(), steps, end: b.clone() }])
}

/// raw A → A → B → raw B, replayed by the checker.
fn joined(a: &Proof, middle: Vec<Lemma>, b: &Proof, options: &Options) -> Result<Proof, String> {
    let whole = |back: Vec<Lemma>| {
        let lemmas = a.lemmas.iter().cloned().chain(middle.clone()).chain(back).collect();
        Proof { start: a.start.clone(), lemmas, end: b.start.clone() }
    };
    let plain = whole(reversed(b));
    if proof::check(&plain, &options.rules).is_ok() {
        return Ok(plain);
    }
    // An end that also stands elsewhere makes a lemma irreversible; then every step says where it applies.
    let placed = whole(rewound(b));
    proof::check(&placed, &options.rules).map_err(|e| format!("the joined proof does not replay: {e}"))?;
    Ok(placed)
}
