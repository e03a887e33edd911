//! `energyc derive`: the mathematics of a recipe, with its proofs if wanted.

use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::emit::{self, Stage};
use crate::pipeline::{self, Derived};
use crate::simplify::{Options, Simplified, proof};

use super::outcome::{Outcome, count, message};
use super::read;
use super::warnings::warnings;

/// Derive the update rule of a recipe: energy, gradient, Hessian, update, backward pass
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    energyc derive softmax\n  \
    energyc derive mine.recipe --stage gradient,hessian --proof\n  \
    energyc derive mine.recipe --stage backward --format latex > mine.tex")]
pub struct Args {
    /// A recipe file, a shipped recipe, or `-`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What to show; several are separated by commas
    #[arg(long, value_name = "STAGE", value_delimiter = ',', default_values = ["energy", "gradient", "update"])]
    stage: Vec<StageName>,
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// Show how every formula was simplified, step by step, each step replayed by the proof checker
    #[arg(long)]
    proof: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum StageName {
    Energy,
    Gradient,
    Hessian,
    Update,
    Backward,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    /// Unicode, for reading
    Text,
    /// A whole file for pdflatex
    Latex,
    /// Every formula as text and LaTeX
    Json,
}

impl StageName {
    fn stage(self) -> Stage {
        match self {
            StageName::Energy => Stage::Energy,
            StageName::Gradient => Stage::Gradient,
            StageName::Hessian => Stage::Hessian,
            StageName::Update => Stage::Update,
            StageName::Backward => Stage::Backward,
        }
    }
}

/// A simplification of a shown stage.
struct Shown<'a> {
    stage: Stage,
    name: String,
    value: &'a Simplified,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    let (recipe, said) = match read::recipe(&args.file, color) {
        Ok(checked) => checked,
        Err(refused) => return refused,
    };
    let stages = stages(&args.stage);
    let derived = pipeline::derived(&recipe, &stages, &Options::default());
    let shown = shown(&derived, &stages);
    let simplified = shown.iter().map(|shown| (shown.name.as_str(), shown.value));
    let said = said.then(warnings(simplified, &read::display_name(&args.file), color));
    let replayed = match args.proof.then(|| replay(&shown, &derived)).transpose() {
        Ok(replayed) => replayed,
        Err(problem) => return said.then(Outcome::wrong(message("error", &problem, color))),
    };
    said.then(Outcome::good(print(args.format, &derived, &stages, replayed.map(|steps| Proofs { shown, steps }))))
}

/// The stages in the order of a derivation, each once.
fn stages(names: &[StageName]) -> Vec<Stage> {
    let wanted: Vec<Stage> = names.iter().map(|name| name.stage()).collect();
    let all = Stage::ALL.into_iter();
    all.filter(|stage| wanted.contains(stage)).collect()
}

fn shown<'a>(derived: &'a Derived, stages: &[Stage]) -> Vec<Shown<'a>> {
    let of_stage = |&stage: &Stage| {
        let values = pipeline::simplifications(derived, stage).into_iter();
        values.map(move |(name, value)| Shown { stage, name, value })
    };
    stages.iter().flat_map(of_stage).collect()
}

/// Checks every proof once more; how many steps there were.
fn replay(shown: &[Shown], derived: &Derived) -> Result<usize, String> {
    shown.iter().try_fold(0, |steps, shown| {
        let proof = &shown.value.proof;
        match proof::check(proof, &derived.rules) {
            Ok(()) => Ok(steps + proof.len()),
            Err(problem) => Err(format!("the proof of {} fails: {problem}", shown.name)),
        }
    })
}

/// Proofs that were replayed.
struct Proofs<'a> {
    shown: Vec<Shown<'a>>,
    steps: usize,
}

fn print(format: Format, derived: &Derived, stages: &[Stage], proofs: Option<Proofs>) -> String {
    let document = pipeline::documented(derived, stages);
    let steps = proofs.as_ref().map_or(String::new(), |proofs| proof_text(proofs, derived));
    match format {
        Format::Text => format!("{}{steps}", emit::text::print(&document)),
        Format::Latex => {
            // After the end of the document, where LaTeX reads no more.
            let comments = steps.lines().map(|line| format!("% {line}\n"));
            let comments: String = comments.collect();
            format!("{}{comments}", emit::latex::print(&document))
        }
        Format::Json => {
            let mut value = emit::json::print(&document);
            if let Some(proofs) = proofs {
                value["proofs"] = proof_json(&proofs);
            }
            format!("{value:#}\n")
        }
    }
}

fn proof_text(proofs: &Proofs, derived: &Derived) -> String {
    let one = |shown: &Shown| emit::proof::print(&shown.name, &shown.value.proof, &derived.rules);
    let all = proofs.shown.iter().map(|shown| format!("\n{}", one(shown))).collect::<String>();
    format!("\nProofs\n{all}\n{}, replayed\n", count(proofs.steps, "step"))
}

fn proof_json(proofs: &Proofs) -> Value {
    let steps = |value: &Simplified| -> Vec<Value> {
        let steps = value.proof.lemmas.iter().flat_map(|lemma| &lemma.steps);
        let step = steps.map(|step| {
            json!({
                "rule": step.rule,
                "forward": step.forward,
                "from": step.from.to_string(),
                "to": step.to.to_string(),
            })
        });
        step.collect()
    };
    let all = proofs.shown.iter().map(|shown| {
        json!({
            "stage": shown.stage.name(),
            "of": shown.name,
            "replayed": true,
            "steps": steps(shown.value),
        })
    });
    Value::Array(all.collect())
}
