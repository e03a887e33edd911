//! `energyrun apply`: one step of a recipe on the tensors of a file.

use crate::engine::{Engine, Gradients, Interpreted, find};
use crate::input::{Given, Input, index, input};
use crate::mask::Mask;
use crate::problem::{GRAD_ENERGY, GRAD_OUT};
use crate::refusal::Refusal;
use crate::tensors::{self, Tensor};
use clap::ValueEnum;
use energyc::check::Recipe;
use energyc::check::recipe::ParamValue;
use energyc::cli::outcome::{Exit, Outcome, message};
use energyc::cli::{atomic, read};
use energyc::kernel::recipe_hash;
use energyc::simplify::Options;
use energyc::{derive, pipeline, plan};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Compute the direction, the energy and their gradients for the tensors of a file
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The input holds f32 tensors: `q` and `k` [B,H,N,d_h], `v` where values are free; parameters by their names in the
recipe ([] or [H], those per component [d_h] or [H,d_h]); `gamma` [B,H,N] for a gate (of queries where it is `per query`),
`decay` [B,H,N] for the factors of a decay; `lengths` [B] (i64); `grad_out` [B,H,N,d_h] and `grad_energy` [B,H,N] ask for
gradients. A parameter called like one of these has a `_` more.
The output holds `out`, `energy` and `grad_<name>` for every input. Results that are not finite are written, named and end
with exit code 1.

Examples:
  energyrun apply --recipe softmax --input in.safetensors --output out.safetensors
  energyrun apply --recipe mine.recipe --input in.safetensors --output out.safetensors --mask window:128")]
pub struct Args {
    /// A recipe file, a shipped recipe, or `-`
    #[arg(long, value_name = "FILE")]
    recipe: PathBuf,
    /// The tensors to compute with
    #[arg(long, value_name = "IN.safetensors")]
    input: PathBuf,
    /// Where the results go
    #[arg(long, value_name = "OUT.safetensors")]
    output: PathBuf,
    /// Which tokens a query sees: `causal`, `full` or `window:W`
    #[arg(long, default_value = "causal")]
    mask: Mask,
    /// What computes; a compiled kernel if there is one, unless said otherwise
    #[arg(long)]
    engine: Option<Choice>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Choice {
    /// The kernel that was compiled in for the recipe
    Compiled,
    /// Any recipe, with no kernel
    Interpreted,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    let (recipe, said) = match read::recipe(&args.recipe, color) {
        Ok(checked) => checked,
        Err(refused) => return refused,
    };
    said.then(match apply(args, &recipe) {
        Ok(Done { line, note, not_finite }) => Outcome {
            messages: (note.iter().map(|note| message("note", note, color)))
                .chain(not_finite.iter().map(|what| message("warning", what, color)))
                .collect(),
            exit: if not_finite.is_empty() { Exit::Good } else { Exit::Wrong },
            results: line,
        },
        Err(refusal) => refusal.outcome(color),
    })
}

/// What was written: a line about it, a note on the way, and what it holds that is no number.
struct Done {
    line: String,
    note: Option<String>,
    not_finite: Vec<String>,
}

fn apply(args: &Args, recipe: &Recipe) -> Result<Done, Refusal> {
    let in_file = |error: String| format!("{}: {error}", args.input.display());
    let bytes =
        std::fs::read(&args.input).map_err(|error| format!("cannot read `{}`: {error}", args.input.display()))?;
    let input = tensors::read(&bytes).and_then(|file| input(recipe, args.mask, file)).map_err(in_file)?;
    let (engine, note) = engine(recipe, args.engine)?;
    let results = results(recipe, &*engine, &input);
    write(&args.output, &results)?;
    let listed: Vec<String> = results.iter().map(|(name, tensor)| format!("{name} {:?}", tensor.shape)).collect();
    let line = format!("{}: {}\n", args.output.display(), listed.join(", "));
    Ok(Done { line, note, not_finite: results.iter().filter_map(|(name, tensor)| not_finite(name, tensor)).collect() })
}

/// How many entries of an array are no numbers, and the first of them. Inputs are numbers, so values have become too large
/// for f32 on the way.
fn not_finite(name: &str, tensor: &Tensor) -> Option<String> {
    let at = tensor.data.iter().position(|x| !x.is_finite())?;
    let count = tensor.data.iter().filter(|x| !x.is_finite()).count();
    let (place, all) = (index(at, &tensor.shape), tensor.data.len());
    Some(format!("`{name}` is not finite in {count} of {all} entries: it is {} at {place:?}", tensor.data[at]))
}

fn write(path: &Path, results: &BTreeMap<String, Tensor>) -> Result<(), String> {
    let cannot = |error: &dyn std::fmt::Display| format!("cannot write `{}`: {error}", path.display());
    let bytes = tensors::write(results).map_err(|error| cannot(&error))?;
    atomic::write(path, bytes).map_err(|error| cannot(&error))
}

/// What computes, and a note if it is not what one would want.
fn engine(recipe: &Recipe, choice: Option<Choice>) -> Result<(Box<dyn Engine>, Option<String>), Refusal> {
    let name = &recipe.name;
    let how = "a kernel is compiled in for every file in `recipes/`: put the recipe there and build again";
    let options = Options::default();
    let derivation = derive::derive(recipe, &options);
    // A kernel that is compiled in was checked when it was built.
    let plan = match (energy_kernels::find(&recipe_hash(recipe)), choice) {
        (Some(_), None | Some(Choice::Compiled)) => plan::plan(&derivation, &options),
        _ => pipeline::trusted_plan(&derivation, &options),
    };
    let plan = plan.map_err(|why| Refusal::NoPlan(name.clone(), why))?;
    let compiled = match choice {
        Some(Choice::Interpreted) => None,
        _ => find(recipe, &plan),
    };
    match (compiled, choice) {
        (Some(engine), _) => Ok((engine, None)),
        (None, Some(Choice::Compiled)) => Err(format!("there is no compiled kernel for `{name}`; {how}").into()),
        (None, Some(Choice::Interpreted)) => Ok((Box::new(Interpreted::new(plan)), None)),
        (None, None) => {
            let note = format!("`{name}` has no compiled kernel and is interpreted, which is slower; {how}");
            Ok((Box::new(Interpreted::new(plan)), Some(note)))
        }
    }
}

/// Everything the output file holds.
fn results(recipe: &Recipe, engine: &dyn Engine, input: &Input) -> BTreeMap<String, Tensor> {
    let problem = &input.problem;
    let size = problem.size;
    let forward = engine.forward(problem);
    let has = |name: &str| problem.tensors.contains_key(name);
    let gives_constants = input.given.iter().any(|given| is_fixed(recipe, given));
    let mut gradients = Gradients::new();
    if has(GRAD_OUT) {
        add(&mut gradients, engine.backward(problem, &forward));
        if gives_constants {
            add(&mut gradients, engine.constants(problem));
        }
    }
    if has(GRAD_ENERGY) {
        add(&mut gradients, engine.energy_backward(problem));
        if gives_constants {
            add(&mut gradients, engine.energy_constants(problem));
        }
    }
    let mut results = BTreeMap::new();
    if has(GRAD_OUT) || has(GRAD_ENERGY) {
        for given in &input.given {
            let gradient = shaped(gradients.remove(&given.input), &given.shape);
            results.insert(format!("grad_{}", given.name), gradient);
        }
    }
    let rows = vec![size.batch, size.heads, size.queries];
    let vectors = [&rows[..], &[size.head]].concat();
    results.insert("out".to_string(), Tensor { shape: vectors, data: forward.out });
    results.insert("energy".to_string(), Tensor { shape: rows, data: engine.energy(problem) });
    results
}

fn is_fixed(recipe: &Recipe, given: &Given) -> bool {
    recipe.param(&given.input).is_some_and(|param| matches!(param.value, ParamValue::Fixed(_)))
}

/// Adds gradients name by name.
fn add(sum: &mut Gradients, more: Gradients) {
    for (name, values) in more {
        match sum.get_mut(&name) {
            Some(sum) => sum.iter_mut().zip(values).for_each(|(x, y)| *x += y),
            None => {
                sum.insert(name, values);
            }
        }
    }
}

/// A gradient with the shape its input has: what all heads share gets the sum; what has no gradient gets 0.
fn shaped(gradient: Option<Vec<f32>>, shape: &[usize]) -> Tensor {
    let length: usize = shape.iter().product();
    let data = match gradient {
        None => vec![0.0; length],
        Some(gradient) => {
            let of_heads = |at: usize| gradient.iter().skip(at).step_by(length).map(|x| f64::from(*x)).sum::<f64>();
            (0..length).map(|at| of_heads(at) as f32).collect()
        }
    };
    Tensor { shape: shape.to_vec(), data }
}
