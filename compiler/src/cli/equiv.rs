//! `energyc equiv`: do two recipes make the same layer?

use std::path::{Path, PathBuf};

use crate::check::Recipe;
use crate::derive::{derive, options_for};
use crate::emit;
use crate::equiv::{Equivalence, equivalence};
use crate::simplify::{Options, RuleSet};

use super::outcome::{Exit, Outcome, message};
use super::read;
use super::warnings::of_budget;

/// Decide whether two recipes induce the same update rule, with a proof or with evidence
#[derive(clap::Args, Debug)]
#[command(after_help = "Exit code 0 if it is proven, 1 if they differ or neither can be shown.\n\n\
    Examples:\n  \
    energyc equiv mine.recipe softmax\n  \
    energyc equiv old.recipe new.recipe")]
pub struct Args {
    /// A recipe file, a shipped recipe, or `-`
    #[arg(value_name = "A")]
    first: PathBuf,
    /// Another
    #[arg(value_name = "B")]
    second: PathBuf,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    let stdin = Path::new("-");
    if args.first == stdin && args.second == stdin {
        return Outcome {
            results: String::new(),
            messages: message("error", "standard input can be one of the two recipes, not both", color),
            exit: Exit::Usage,
        };
    }
    let first = read::recipe(&args.first, color);
    let second = read::recipe(&args.second, color);
    match (first, second) {
        (Ok((a, said)), Ok((b, also))) => {
            let options = Options::default();
            let answer = equivalence(&a, &b, &options);
            let said = said.then(also).then(of_budget(&options, &read::display_name(&args.first), color));
            said.then(print(&answer, &a, &b))
        }
        (Ok((_, said)), Err(refused)) | (Err(refused), Ok((_, said))) => said.then(refused),
        (Err(first), Err(second)) => first.then(second),
    }
}

/// The general rules and those of both recipes' constraints.
fn rules(a: &Recipe, b: &Recipe) -> RuleSet {
    options_for(b, &options_for(a, &Options::default())).rules
}

/// How a recipe's energy came to its simplest form, constraints put in.
fn energy(recipe: &Recipe) -> String {
    let options = Options::default();
    let proof = derive(recipe, &options).energy.proof;
    emit::proof::print(&format!("F_h of `{}`", recipe.name), &proof, &options_for(recipe, &options).rules)
}

fn print(answer: &Equivalence, a: &Recipe, b: &Recipe) -> Outcome {
    match answer {
        Equivalence::Proven { proof, notes } => {
            let notes: String = notes.iter().map(|note| format!("    {note}\n")).collect();
            if proof.is_empty() {
                return Outcome::good(format!(
                    "proven\n{notes}    both have the same energy and the same optimizer, term by term\n"
                ));
            }
            let title = format!("o of `{}`, differentiated and unsimplified, to o of `{}`", a.name, b.name);
            let steps = emit::proof::print(&title, proof, &rules(a, b));
            let (first, second) = (energy(a), energy(b));
            Outcome::good(format!("proven\n{notes}\n{first}\n{second}\n{steps}"))
        }
        Equivalence::Decided { substitutions, notes } => {
            let notes: String = notes.iter().map(|note| format!("    {note}\n")).collect();
            let lines: String = substitutions.iter().map(|line| format!("    {line}\n")).collect();
            let title = format!("o of `{}` and o of `{}`, with exponentials as variables", a.name, b.name);
            let (first, second) = (energy(a), energy(b));
            Outcome::good(format!("proven\n{notes}\n{first}\n{second}\n{title}:\n{lines}"))
        }
        Equivalence::Differ { evidence } => negative("differ", evidence),
        Equivalence::Unknown { reason } => negative("cannot tell", reason),
    }
}

fn negative(answer: &str, why: &str) -> Outcome {
    Outcome { results: format!("{answer}\n    {why}\n"), messages: String::new(), exit: Exit::Wrong }
}
