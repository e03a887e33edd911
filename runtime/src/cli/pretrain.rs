//! `energyrun pretrain`: trains a GPT with any recipe's layer, and goes on where a run stopped.

use crate::metrics::table::table;
use crate::refusal::Refusal;
use crate::train::settings::{Recipes, Settings};
use crate::train::start::{Chosen, Kept, opening, start};
use crate::train::{presets, run};
use energyc::cli::outcome::{Exit, Outcome, message};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Train a GPT with the layers of a recipe
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Settings come from a file or a preset; `key=value` replaces one of them, such as `train.batch=8`. `--print` shows them
all. A run writes `metrics.jsonl`, TensorBoard events and checkpoints to `report.output`. Ctrl-C saves and stops.

Examples:
  energyrun pretrain --preset recall --recipe huber
  energyrun pretrain --preset paper-30m-256 --print > 30m.toml
  energyrun pretrain --config 30m.toml --recipe nag data.train=data/train data.valid=data/valid
  energyrun pretrain --resume runs/nag-30m-256")]
pub struct Args {
    /// Settings as TOML
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    config: Option<PathBuf>,
    /// Settings by name; `--presets` lists them
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// A recipe file or a shipped recipe, for all layers
    #[arg(long, value_name = "FILE")]
    recipe: Option<PathBuf>,
    /// Go on with the run in this folder
    #[arg(long, value_name = "RUN")]
    resume: Option<PathBuf>,
    /// Print the settings and do nothing
    #[arg(long)]
    print: bool,
    /// List the presets and do nothing
    #[arg(long)]
    presets: bool,
    /// How many threads compute; all there are unless said otherwise
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Settings to replace
    #[arg(value_name = "KEY=VALUE")]
    assignments: Vec<String>,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    if args.presets {
        let rows: Vec<Vec<String>> = presets::all().into_iter().map(|(name, about)| vec![name, about]).collect();
        return Outcome::good(table(&["preset", ""], &rows));
    }
    match pretrain(args, color) {
        Ok(outcome) => outcome,
        Err(Refused::Said(outcome)) => outcome,
        Err(Refused::Refusal(refusal)) => refusal.outcome(color),
        Err(Refused::Usage(text)) => Outcome { exit: Exit::Usage, ..Outcome::wrong(message("error", &text, color)) },
    }
}

/// Why nothing was trained.
enum Refused {
    Said(Outcome),
    Refusal(Refusal),
    Usage(String),
}

impl<T: Into<Refusal>> From<T> for Refused {
    fn from(why: T) -> Refused {
        Refused::Refusal(why.into())
    }
}

fn pretrain(args: &Args, color: bool) -> Result<Outcome, Refused> {
    let kept = args.resume.as_deref().map(Kept::newest).transpose()?;
    let mut settings = settings(args, kept.as_ref().map(|kept| &kept.settings))?;
    let (chosen, said) = match (&kept, &args.recipe) {
        (Some(kept), None) => (Chosen::of_texts(&kept.manifest.recipes)?, Outcome::default()),
        _ => Chosen::named(settings.recipe.list(), color).map_err(Refused::Said)?,
    };
    if args.print {
        return Ok(Outcome::good(settings.to_toml()));
    }
    settings.check()?;
    if settings.report.output.as_os_str().is_empty() {
        settings.report.output = output(&settings, &chosen);
    }
    if let Some(kept) = &kept {
        kept.check(&chosen, &settings)?;
    }
    if let Some(threads) = args.threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build_global();
        pool.map_err(|error| format!("cannot use {threads} threads: {error}"))?;
    }
    let mut started = start(settings, &chosen, kept.as_ref())?;
    let shown = started.folder.path().display().to_string();
    if kept.is_none() && started.folder.is_used() {
        let help = format!("go on with it by `--resume {shown}`, or set `report.output`");
        return Err(format!("there is a run in `{shown}` already; {help}").into());
    }
    // A handler that is there already sets the same flag.
    let _ = ctrlc::set_handler(|| run::STOP.store(true, Ordering::Relaxed));
    eprintln!("{}", opening(&started, &chosen.name(" and ")));
    if !started.trainer.gpt.is_compiled() {
        eprintln!("{}", message("note", NOT_COMPILED, color).trim_end());
    }
    let ended = run::run(&mut started.trainer, &*started.valid, &started.manifest, &started.folder)?;
    let end = match (ended.is_done, ended.valid) {
        (true, Some(valid)) => {
            format!("{} steps, validation loss {:.4}, accuracy {:.4}", ended.step, valid.mean(), valid.accuracy())
        }
        (true, None) => format!("{} steps; there was nothing left to do", ended.step),
        (false, _) => format!("stopped after step {}; go on with `energyrun pretrain --resume {shown}`", ended.step),
    };
    Ok(said.then(Outcome::good(format!("{end}\n{}\n", ended.checkpoint.display()))))
}

const NOT_COMPILED: &str = "no compiled kernel for this recipe: its plan is interpreted, several times slower.\n\
    Put the file into `recipes/` and build again for the compiled kernel.";

/// The settings of the arguments, on top of those of a run that goes on.
fn settings(args: &Args, before: Option<&Settings>) -> Result<Settings, Refused> {
    let mut settings = match (&args.config, &args.preset, before) {
        (Some(path), _, _) => {
            let text =
                std::fs::read_to_string(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
            Settings::from_toml(&text).map_err(|error| format!("{}: {error}", path.display()))?
        }
        (None, Some(name), _) => presets::preset(name).map_err(Refused::Usage)?,
        (None, None, Some(before)) => before.clone(),
        (None, None, None) => {
            let text =
                "say what to train: `--preset NAME`, `--config FILE` or `--resume RUN`; `--presets` lists presets";
            return Err(Refused::Usage(text.to_string()));
        }
    };
    for assignment in &args.assignments {
        settings = settings.with(assignment).map_err(Refused::Usage)?;
    }
    if let Some(recipe) = &args.recipe {
        settings.recipe = Recipes::One(recipe.display().to_string());
    }
    if let (Some(before), true) = (before, settings.report.output.as_os_str().is_empty()) {
        settings.report.output.clone_from(&before.report.output);
    }
    Ok(settings)
}

/// `runs/` and what is trained.
fn output(settings: &Settings, chosen: &Chosen) -> PathBuf {
    Path::new("runs").join(format!("{}-{}-{}", chosen.name("+"), settings.model.size, settings.model.window))
}
