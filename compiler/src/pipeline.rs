//! The whole compiler, top to bottom: text in, a document out. Every stage is a free function, value in, value out;
//! files, colors and exit codes are the business of [`crate::cli`].
//!
//! ```text
//! text ──parse──▶ File ──check──▶ Recipe ──derive──▶ Derivation ──hessian, backward──▶ Derived ──document──▶ Document
//! ```

use crate::check::{self, Recipe};
use crate::derive::{self, Backward, Derivation, Hessian, StepBackward};
use crate::diagnostic::Diagnostic;
use crate::emit::document::{Document, Extras, Stage, document};
use crate::feasible;
use crate::kernel;
use crate::plan::{self, Unsupported, Valid};
use crate::prelude::{self, Prelude};
use crate::simplify::{Options, RuleSet, Simplified};
use crate::syntax::{self, File};
use crate::verify::{self, chain::Case};

/// A recipe, if there is nothing wrong with it, and all there is to say about it.
pub type Checked = (Option<Recipe>, Vec<Diagnostic>);

/// Text → recipe. A file of ingredients alone is wrong.
pub fn front(text: &str) -> Checked {
    parse_and_check(text, check::check)
}

/// Text → recipe, where a file of ingredients alone is fine and has none.
pub fn front_of_library(text: &str) -> Checked {
    parse_and_check(text, check::check_file)
}

/// Only what parses is checked: everything after a syntax error would be guesswork.
fn parse_and_check(text: &str, check: fn(&File, &Prelude) -> Checked) -> Checked {
    let (file, mut diagnostics) = syntax::parse(text);
    if diagnostics.iter().any(Diagnostic::is_error) {
        return (None, diagnostics);
    }
    let (recipe, found) = check(&file, prelude::load());
    diagnostics.extend(found);
    let found = recipe.iter().flat_map(|recipe| feasible::obstacles(recipe, &Options::default()));
    diagnostics.extend(found);
    let recipe = recipe.filter(|_| !diagnostics.iter().any(Diagnostic::is_error));
    (recipe, diagnostics)
}

/// All that was derived for some stages.
#[derive(Clone, Debug)]
pub struct Derived {
    pub derivation: Derivation,
    pub hessian: Option<Hessian>,
    pub backward: Option<Backward>,
    pub step: Option<StepBackward>,
    /// The rules that were used, those of the recipe's constraints included.
    pub rules: RuleSet,
}

/// Recipe → everything the stages show.
pub fn derived(recipe: &Recipe, stages: &[Stage], options: &Options) -> Derived {
    let derivation = derive::derive(recipe, options);
    let wants = |stage| stages.contains(&stage);
    Derived {
        hessian: wants(Stage::Hessian).then(|| derive::hessian(&derivation, options)),
        backward: wants(Stage::Backward).then(|| derive::backward(&derivation, options)),
        step: wants(Stage::Backward).then(|| derive::step_backward(recipe, options)),
        rules: derive::options_for(recipe, options).rules,
        derivation,
    }
}

/// Derived → the document of the stages.
pub fn documented(derived: &Derived, stages: &[Stage]) -> Document {
    let Derived { hessian, backward, step, .. } = derived;
    let extras = Extras { hessian: hessian.as_ref(), backward: backward.as_ref(), step: step.as_ref() };
    document(&derived.derivation, extras, stages)
}

/// The simplifications behind a stage, each with the name of what was simplified.
pub fn simplifications(derived: &Derived, stage: Stage) -> Vec<(String, &Simplified)> {
    let Derivation { local, global, energy, gradient, direction, .. } = &derived.derivation;
    let named = |name: &str, value| vec![(name.to_string(), value)];
    match stage {
        Stage::Energy => [("E_i", local), ("F_h over E_i", global), ("F_h", energy)]
            .map(|(name, value)| (name.to_string(), value))
            .to_vec(),
        Stage::Gradient => named("∇_q F_h", gradient),
        Stage::Update => named("o_h", direction),
        Stage::Hessian => (derived.hessian.iter().flat_map(|hessian| &hessian.form))
            .flat_map(|part| named("u·∇² F_h u", part))
            .collect(),
        Stage::Backward => (derived.backward.iter())
            .flat_map(|backward| backward.definitions.iter().chain(&backward.gradients))
            .map(|definition| (definition.leaf.name.to_string(), &definition.value))
            .collect(),
    }
}

/// What a kernel is emitted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// A kernel over slices.
    Cpu,
    /// A layer for candle around it.
    Candle,
}

/// Derivation → a plan in the precision it takes.
pub fn planned(derivation: &Derivation, options: &Options) -> Result<Valid, Unsupported> {
    Ok(case(derivation, options)?.plan)
}

/// The same of a plan that was run and computes what the formulas say. One that does not is refused.
pub fn trusted_plan(derivation: &Derivation, options: &Options) -> Result<Valid, Unsupported> {
    let case = case(derivation, options)?;
    match verify::plan::disagreement(&case) {
        Some(place) => Err(Unsupported::Fault(format!("its plan does not compute what its formulas say: {place}"))),
        None => Ok(case.plan),
    }
}

fn case(derivation: &Derivation, options: &Options) -> Result<Case, Unsupported> {
    let plan = plan::plan(derivation, options)?;
    let (case, _) = verify::scales::in_precision(Case::of(derivation.clone(), plan, options));
    Ok(case)
}

/// Recipe → Rust source.
pub fn compile(recipe: &Recipe, target: Target, options: &Options) -> Result<String, Unsupported> {
    let derivation = derive::derive(recipe, options);
    let plan = trusted_plan(&derivation, options)?;
    kernel::representable(&plan)?;
    Ok(match target {
        Target::Cpu => kernel::cpu(&plan, &derivation),
        Target::Candle => kernel::candle(&plan, &derivation)?,
    })
}

/// Recipe → the text of its plan.
pub fn plan_text(recipe: &Recipe, options: &Options) -> Result<String, Unsupported> {
    planned(&derive::derive(recipe, options), options).map(|plan| plan::text::print(&plan))
}
