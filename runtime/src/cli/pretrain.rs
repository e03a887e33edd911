//! `energyrun pretrain`: trains a GPT with any recipe's layer, and goes on where a run stopped.

use crate::metrics::table::table;
use crate::model::Gpt;
use crate::train::checkpoint::{self, Manifest};
use crate::train::settings::{Recipes, Settings};
use crate::train::trainer::Trainer;
use crate::train::{examples, presets, run};
use energyc::check::Recipe;
use energyc::cli::outcome::{Exit, Outcome, message};
use energyc::cli::read;
use energyc::kernel::recipe_hash;
use energyc::pipeline;
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
        Err(Refused::Error(text)) => Outcome::wrong(message("error", &text, color)),
        Err(Refused::Usage(text)) => Outcome { exit: Exit::Usage, ..Outcome::wrong(message("error", &text, color)) },
    }
}

/// Why nothing was trained.
enum Refused {
    Said(Outcome),
    Error(String),
    Usage(String),
}

impl From<String> for Refused {
    fn from(text: String) -> Refused {
        Refused::Error(text)
    }
}

/// Recipes with their texts.
struct Chosen {
    recipes: Vec<Recipe>,
    texts: Vec<String>,
}

fn pretrain(args: &Args, color: bool) -> Result<Outcome, Refused> {
    let kept = match &args.resume {
        Some(folder) => {
            let checkpoint = checkpoint::find(folder)?;
            let manifest = checkpoint::manifest(&checkpoint)?;
            Some((checkpoint, manifest))
        }
        None => None,
    };
    let before = match &kept {
        Some((_, manifest)) => Some(Settings::from_toml(&manifest.settings)?),
        None => None,
    };
    let mut settings = settings(args, before.as_ref())?;
    let (chosen, said) = match (&kept, &args.recipe) {
        (Some((_, manifest)), None) => (of_texts(&manifest.recipes)?, Outcome::default()),
        _ => chosen(settings.recipe.list(), color).map_err(Refused::Said)?,
    };
    if args.print {
        return Ok(Outcome::good(settings.to_toml()));
    }
    settings.check()?;
    if settings.report.output.as_os_str().is_empty() {
        settings.report.output = output(&settings, &chosen);
    }
    if let (Some((checkpoint, manifest)), Some(before)) = (&kept, &before) {
        unchanged(checkpoint, manifest, &chosen, before, &settings)?;
    }
    if let Some(threads) = args.threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build_global();
        pool.map_err(|error| format!("cannot use {threads} threads: {error}"))?;
    }
    let sources = examples::open(&settings)?;
    let model = settings.model(sources.train.vocabulary())?;
    let gpt = Gpt::new(&model, &chosen.recipes)?;
    let is_compiled = gpt.is_compiled();
    let parameters = gpt.layout.len();
    let folder = run::Folder::open(&settings.report.output)?;
    if kept.is_none() && folder.is_used() {
        let shown = folder.path().display();
        let help = format!("go on with it by `--resume {shown}`, or set `report.output`");
        return Err(Refused::Error(format!("there is a run in `{shown}` already; {help}")));
    }
    let tokenizer = sources.tokenizer.as_ref().map(|tokenizer| tokenizer.to_file_contents()).transpose()?;
    let manifest = Manifest::new(model, settings.to_toml(), chosen.texts, sources.identity.clone(), tokenizer);
    let mut trainer = Trainer::new(settings, gpt, sources.train)?;
    if let Some((checkpoint, before)) = &kept {
        if before.data != sources.identity {
            let text = format!("the training data is not what the run in `{}` began with", checkpoint.display());
            return Err(Refused::Error(text));
        }
        let layout = &trainer.gpt.layout;
        trainer.weights = checkpoint::weights(checkpoint, before, layout)?;
        trainer.moments = checkpoint::moments(checkpoint, before, layout)?;
        (trainer.step, trainer.position, trainer.tokens) = (before.step, before.position, before.tokens);
    }
    // A handler that is there already sets the same flag.
    let _ = ctrlc::set_handler(|| run::STOP.store(true, Ordering::Relaxed));
    let shown = folder.path().display().to_string();
    eprintln!("{}", opening(&trainer, &chosen.recipes, parameters, &shown));
    if !is_compiled {
        eprintln!("{}", message("note", NOT_COMPILED, color).trim_end());
    }
    let ended = run::run(&mut trainer, &*sources.valid, &manifest, &folder)?;
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

fn opening(trainer: &Trainer, recipes: &[Recipe], parameters: usize, folder: &str) -> String {
    let mut names: Vec<&str> = recipes.iter().map(|recipe| recipe.name.as_str()).collect();
    names.dedup();
    let config = &trainer.gpt.config;
    format!(
        "{}: {:.1} million parameters, {} layers, {} heads of {}, windows of {}; {} steps from {} → {folder}",
        names.join(" and "),
        parameters as f64 / 1e6,
        config.layers,
        config.heads,
        config.head,
        config.window,
        trainer.steps,
        trainer.step,
    )
}

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

/// The recipes of these files, or names, and what there is to say about them.
fn chosen(names: &[String], color: bool) -> Result<(Chosen, Outcome), Outcome> {
    let mut chosen = Chosen { recipes: Vec::new(), texts: Vec::new() };
    let mut said = Outcome::default();
    for name in names {
        let path = Path::new(name);
        let (recipe, outcome) = read::recipe(path, color)?;
        chosen.texts.push(read::source(path, color)?.text.to_string());
        chosen.recipes.push(recipe);
        said = said.then(outcome);
    }
    Ok((chosen, said))
}

fn of_texts(texts: &[String]) -> Result<Chosen, String> {
    let read =
        |text: &String| pipeline::front(text).0.ok_or_else(|| format!("the checkpoint's recipe is refused:\n{text}"));
    Ok(Chosen { recipes: texts.iter().map(read).collect::<Result<_, _>>()?, texts: texts.to_vec() })
}

/// An error if a run would not go on as it began.
fn unchanged(
    checkpoint: &Path,
    manifest: &Manifest,
    chosen: &Chosen,
    before: &Settings,
    settings: &Settings,
) -> Result<(), String> {
    let shown = checkpoint.display();
    let hashes = |recipes: &[Recipe]| recipes.iter().map(recipe_hash).collect::<Vec<_>>();
    if hashes(&of_texts(&manifest.recipes)?.recipes) != hashes(&chosen.recipes) {
        return Err(format!("`{shown}` was trained with another recipe; start a new run for this one"));
    }
    let same_recipe = Settings { recipe: before.recipe.clone(), ..settings.clone() };
    let differences = before.differences(&same_recipe);
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!("the settings are not those of `{shown}`:\n  {}", differences.join("\n  ")))
}

/// `runs/` and what is trained.
fn output(settings: &Settings, chosen: &Chosen) -> PathBuf {
    let mut names: Vec<&str> = chosen.recipes.iter().map(|recipe| recipe.name.as_str()).collect();
    names.dedup();
    Path::new("runs").join(format!("{}-{}-{}", names.join("+"), settings.model.size, settings.model.window))
}
