//! `energyrun bench`: how fast, how much memory, against whom.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Subcommand;

use energyc::cli::outcome::{Outcome, message};
use energyc::cli::{read, shipped};
use energyc::plan::Valid;
use energyc::plan::graph::Op;
use energyc::plan::schedule::{Pass, Step};
use energyc::simplify::Options;
use energyc::{derive, pipeline};

use crate::bench::probe::Probe;
use crate::bench::turns::{Measured, Setting};
use crate::bench::{Contender, Task, measure, once, peak_gflops, train, worker};
use crate::problem::Size;

/// Measure kernels
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    energyrun bench attention\n  \
    energyrun bench attention --recipe softmax --shape 8,4,512,64 --python ~/torch/bin/python\n  \
    energyrun bench train --recipe softmax --batch 8 --python ~/torch/bin/python")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Forward and backward passes of attention kernels, causal, in f32; candle takes part in programs built with
    /// `--features candle`
    Attention(Attention),
    /// Whole training steps of a GPT, beside the same model in PyTorch
    Train(Train),
    /// One contender in a process of its own; `train` starts these
    #[command(hide = true)]
    TrainWorker { recipe: PathBuf, size: String, batch: usize, window: usize },
    /// One contender in a process of its own; `attention` starts these
    #[command(hide = true)]
    Worker {
        contender: String,
        recipe: PathBuf,
        #[arg(value_parser = shape)]
        shape: Size,
    },
}

#[derive(clap::Args, Debug)]
struct Attention {
    /// Recipes, as files or by name; all that the report is about if there are none
    #[arg(long, value_name = "FILE")]
    recipe: Vec<PathBuf>,
    /// Batch, heads, tokens and d_h
    #[arg(long, value_name = "B,H,N,D", value_parser = shape)]
    shape: Vec<Size>,
    /// Undisturbed repetitions per contender
    #[arg(long, default_value_t = 7)]
    repetitions: usize,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// A Python that has torch (and entmax, for the sparse recipes)
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
struct Train {
    /// Recipes by name; the first is the one others are compared with
    #[arg(long, value_name = "NAME", default_values_t = ["softmax", "momentum", "nag", "newton_light", "newton_taylor"].map(String::from))]
    recipe: Vec<String>,
    /// A named size of the model
    #[arg(long, default_value = "30m")]
    size: String,
    /// Sequences of a batch
    #[arg(long, default_values_t = [8, 32])]
    batch: Vec<usize>,
    /// Tokens of a sequence
    #[arg(long, default_value_t = 256)]
    window: usize,
    /// Undisturbed repetitions per contender
    #[arg(long, default_value_t = 5)]
    repetitions: usize,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// A Python that has torch
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Let PyTorch train every recipe it knows, not only the first
    #[arg(long)]
    all_in_torch: bool,
}

fn shape(text: &str) -> Result<Size, String> {
    let numbers: Vec<usize> = text.split(',').filter_map(|n| n.trim().parse().ok()).filter(|n| *n > 0).collect();
    match numbers[..] {
        [batch, heads, tokens, head] => Ok(Size { batch, heads, queries: tokens, tokens, head }),
        _ => Err("four numbers are needed, as in 32,4,256,64".to_string()),
    }
}

pub fn run(args: &Args, color: bool) -> Outcome {
    match &args.what {
        What::Attention(args) => attention(args, color),
        What::Train(args) => bench_train(args, color),
        What::TrainWorker { recipe, size, batch, window } => {
            match train::serve(recipe, size, [*batch, *window], color) {
                Ok(()) => Outcome::default(),
                Err(refused) => refused,
            }
        }
        What::Worker { contender, recipe, shape } => serve(contender, recipe, *shape, color),
    }
}

fn bench_train(args: &Train, color: bool) -> Outcome {
    let wrong = |text: &str| Outcome::wrong(message("error", text, color));
    if let Some(python) = args.python.as_ref().filter(|python| !has_torch(python)) {
        return wrong(&format!("`{}` is no Python that can import torch", python.display()));
    }
    for recipe in &args.recipe {
        if let Err(refused) = read::recipe(std::path::Path::new(recipe), color) {
            return refused;
        }
    }
    let setting =
        Setting { repetitions: args.repetitions.max(1), threads: args.threads.max(1), python: args.python.clone() };
    let task = train::Task {
        recipes: args.recipe.clone(),
        size: args.size.clone(),
        batches: args.batch.clone(),
        window: args.window,
        all_in_torch: args.all_in_torch,
    };
    match train::report(&task, &setting) {
        Ok(text) => Outcome::good(text),
        Err(error) => wrong(&error),
    }
}

fn serve(contender: &str, recipe: &std::path::Path, size: Size, color: bool) -> Outcome {
    let (recipe, _) = match read::recipe(recipe, color) {
        Ok(checked) => checked,
        Err(refused) => return refused,
    };
    let problem = worker::problem(&recipe, size);
    let wrong = |text: &str| Outcome::wrong(message("error", text, color));
    match Contender::ALL.into_iter().find(|c| c.name() == contender) {
        Some(Contender::Compiled) => match worker::compiled(&recipe, &problem) {
            Some(()) => Outcome::default(),
            None => wrong("there is no compiled kernel for this recipe"),
        },
        Some(Contender::Interpreted) => match plan_of(&recipe) {
            Ok(plan) => {
                worker::interpreted(plan, &problem);
                Outcome::default()
            }
            Err(text) => wrong(&text),
        },
        Some(Contender::Candle) => match worker::candle(&problem) {
            Ok(()) => Outcome::default(),
            Err(error) => wrong(&error.to_string()),
        },
        _ => wrong("there is no such contender"),
    }
}

fn plan_of(recipe: &energyc::check::Recipe) -> Result<Valid, String> {
    let options = Options::default();
    pipeline::planned(&derive::derive(recipe, &options), &options).map_err(|why| why.to_string())
}

/// Tokens of a long sequence.
const LONG: usize = 16384;

/// The recipes and shapes of a full report.
fn standard() -> Vec<(PathBuf, Size)> {
    let size = |text: &str| shape(text).unwrap_or(Size { batch: 1, heads: 1, queries: 1, tokens: 1, head: 1 });
    let large = ["32,4,256,64", "8,4,512,64", "2,12,2048,64"].map(size);
    let mut tasks = Vec::new();
    for recipe in ["softmax", "euclidean", "huber", "newton_taylor", "newton_light"] {
        tasks.extend(large.iter().map(|size| (PathBuf::from(recipe), *size)));
    }
    for recipe in ["sparsemax", "entmax15"] {
        tasks.push((PathBuf::from(recipe), large[0]));
    }
    for recipe in ["l1", "lp"] {
        tasks.push((PathBuf::from(recipe), size("4,4,256,64")));
    }
    for recipe in ["linear", "gated_linear", "retention", "softmax"] {
        let tokens: &[usize] = if recipe == "softmax" { &[512, 2048] } else { &[512, 1024, 2048, 4096, 8192, 16384] };
        tasks.extend(tokens.iter().map(|n| (PathBuf::from(recipe), size(&format!("1,4,{n},64")))));
    }
    tasks
}

fn attention(args: &Attention, color: bool) -> Outcome {
    let given = |recipe: &PathBuf| args.shape.iter().map(|s| (recipe.clone(), *s)).collect::<Vec<_>>();
    let tasks: Vec<(PathBuf, Size)> = match (args.recipe.is_empty(), args.shape.is_empty()) {
        (true, true) => standard(),
        (true, false) => given(&PathBuf::from("softmax")),
        (false, true) => {
            let is_wanted = |recipe: &PathBuf| args.recipe.contains(recipe);
            let known: Vec<_> = standard().into_iter().filter(|(recipe, _)| is_wanted(recipe)).collect();
            let default = shape("32,4,256,64").into_iter();
            let others = args.recipe.iter().filter(|r| !known.iter().any(|(k, _)| k == *r));
            let others: Vec<_> = others.flat_map(|r| default.clone().map(|s| (r.clone(), s))).collect();
            [known, others].concat()
        }
        (false, false) => args.recipe.iter().flat_map(given).collect(),
    };
    let setting =
        Setting { repetitions: args.repetitions.max(1), threads: args.threads.max(1), python: args.python.clone() };
    if let Some(python) = &setting.python
        && !has_torch(python)
    {
        let text = format!("`{}` is no Python that can import torch", python.display());
        return Outcome::wrong(message("error", &text, color));
    }
    let peak = peak_gflops(setting.threads);
    let mut probe = Probe::new(setting.threads);
    let mut outcome = Outcome::default();
    let mut text = format!("machine peak: {peak:.0} GFLOP/s on {} threads\n\n", setting.threads);
    text.push_str("| recipe | B,H,N,d_h | contender | ms | × compiled | GFLOP/s | of peak | extra MiB |\n");
    text.push_str("|---|---|---|---|---|---|---|---|\n");
    let mut medians = Vec::new();
    let is_full = args.recipe.is_empty() && args.shape.is_empty();
    for (recipe, size) in tasks {
        let (checked, said) = match read::recipe(&recipe, color) {
            Ok(checked) => checked,
            Err(refused) => return outcome.then(refused),
        };
        outcome = outcome.then(said);
        let Ok(plan) = plan_of(&checked) else { continue };
        let task = Task { recipe: recipe.display().to_string(), size, contenders: contenders(&checked.name, size) };
        eprintln!("{} at {}", checked.name, shown(size));
        let measured = measure(&task, &setting, &mut probe);
        for absent in absent(&task, &setting, &measured) {
            eprintln!("  {} gave no undisturbed time", absent.name());
        }
        rows(&checked.name, size, &measured, flops(&plan, size), peak, &mut text);
        let ours = measured.iter().find(|m| m.contender == Contender::Compiled);
        medians.extend(ours.map(|m| (checked.name.clone(), size, m.median())));
    }
    text.push_str(&growth(&medians));
    if is_full {
        text.push_str(&long_sequences(&setting));
    }
    outcome.then(Outcome::good(text))
}

fn has_torch(python: &std::path::Path) -> bool {
    let outcome = std::process::Command::new(python).args(["-c", "import torch"]).output();
    outcome.is_ok_and(|output| output.status.success())
}

fn shown(size: Size) -> String {
    format!("{},{},{},{}", size.batch, size.heads, size.tokens, size.head)
}

/// Who was asked and has no result, where that says something.
fn absent(task: &Task, setting: &Setting, measured: &[Measured<Contender>]) -> Vec<Contender> {
    let has_result = |c: &Contender| measured.iter().any(|m| m.contender == *c);
    let is_possible = |c: &Contender| setting.python.is_some() || !c.needs_python();
    task.contenders.iter().copied().filter(|c| is_possible(c) && !has_result(c)).collect()
}

/// The memory of every shipped kernel on one long head: what it needs beside its inputs.
fn long_sequences(setting: &Setting) -> String {
    let size = Size { batch: 1, heads: 1, queries: LONG, tokens: LONG, head: 64 };
    let mut text = format!("\n| recipe, one head of {LONG} tokens | s | extra MiB |\n|---|---|---|\n");
    for recipe in shipped::SHIPPED {
        eprintln!("{} at {}", recipe.name, shown(size));
        let task = Task { recipe: recipe.name.to_string(), size, contenders: vec![Contender::Compiled] };
        if let Some((ms, kib)) = once(&task, setting) {
            let _ = writeln!(text, "| {} | {:.1} | {:.0} |", recipe.name, ms / 1e3, kib as f64 / 1024.0);
        }
    }
    text
}

/// Who can take part: candle and SDPA know one attention, quadratic ones are too slow for long sequences.
fn contenders(name: &str, size: Size) -> Vec<Contender> {
    let is_long = size.tokens > 4096;
    let has_torch =
        ["softmax", "euclidean", "huber", "newton_taylor", "newton_light", "sparsemax", "entmax15", "l1", "lp"];
    Contender::ALL
        .into_iter()
        .filter(|c| match c {
            Contender::Compiled => true,
            Contender::Interpreted => !is_long,
            Contender::Candle => cfg!(feature = "candle") && name == "softmax" && !is_long,
            Contender::TorchSdpa => name == "softmax" && !is_long,
            Contender::TorchEager | Contender::TorchCompile => has_torch.contains(&name) && !is_long,
        })
        .collect()
}

/// Floating-point operations of matrix products, forward and backward, over what is seen.
fn flops(plan: &energyc::plan::Plan, size: Size) -> f64 {
    let (n, d) = (size.tokens as f64, size.head as f64);
    let pairs = n * (n + 1.0) / 2.0;
    let of_pass = |pass: &Pass| -> f64 {
        let nodes = pass.rows.iter().filter_map(|step| match step {
            Step::Node(id) => Some(&plan.graph[*id].op),
            Step::Loop(_) => None,
        });
        nodes
            .map(|op| match op {
                Op::Dot { .. } | Op::Apply { .. } | Op::Gather { .. } | Op::Distance { .. } => 2.0 * d * pairs,
                Op::Scan(_) | Op::ScanBack(_) => 4.0 * d * d * n,
                Op::ScanSteps { .. } => 12.0 * d * d * n,
                _ => 0.0,
            })
            .sum()
    };
    let passes = plan.passes_for(&[energyc::primitives::visible::Visible::causal(size.queries, size.tokens)], false);
    size.all_heads() as f64 * (of_pass(&passes.forward) + of_pass(&passes.backward))
}

fn rows(name: &str, size: Size, measured: &[Measured<Contender>], flops: f64, peak: f64, text: &mut String) {
    let ours = measured.iter().find(|m| m.contender == Contender::Compiled).map_or(f64::NAN, Measured::median);
    for m in measured {
        let ms = m.median();
        // Kernels without matrix products have nothing to compare with the peak.
        let (speed, share) = match flops > 0.0 {
            true => {
                let speed = flops / ms / 1e6;
                (format!("{speed:.0}"), format!("{:.0} %", 100.0 * speed / peak))
            }
            false => ("–".to_string(), "–".to_string()),
        };
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {ms:.1} | {:.2} | {speed} | {share} | {:.0} |",
            shown(size),
            m.contender.name(),
            ms / ours,
            m.peak_kib as f64 / 1024.0,
        );
    }
}

/// How the time of a recipe grows with the number of tokens: the exponent of a fit through its rows.
fn growth(medians: &[(String, Size, f64)]) -> String {
    let mut names: Vec<&String> = medians.iter().map(|(name, ..)| name).collect();
    names.dedup();
    let mut text = String::new();
    for name in names {
        let points: Vec<(f64, f64)> = (medians.iter())
            .filter(|(n, size, _)| n == name && size.batch == 1)
            .map(|(_, size, ms)| ((size.tokens as f64).ln(), ms.ln()))
            .collect();
        if points.len() < 3 {
            continue;
        }
        let count = points.len() as f64;
        let mean = |f: fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / count;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>()
            / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>();
        let _ = writeln!(text, "\n{name}: time grows as N^{slope:.2}");
    }
    text
}
