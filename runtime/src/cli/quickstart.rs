//! `energyrun quickstart`: a recipe's rule, two tiny models that learn a task, and what came of it, in a minute.

use crate::metrics::plot::{Curve, Figure, Look, Panel, Style, svg};
use crate::metrics::record::{self, Kind};
use crate::metrics::table::table;
use crate::model::Gpt;
use crate::refusal::Refusal;
use crate::train::checkpoint::Manifest;
use crate::train::settings::{Recipes, Settings};
use crate::train::trainer::Trainer;
use crate::train::{examples, presets, run};
use energyc::check::Recipe;
use energyc::cli::outcome::Outcome;
use energyc::cli::{atomic, read};
use energyc::emit;
use energyc::emit::document::Stage;
use energyc::pipeline;
use energyc::simplify::Options;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Derive a recipe's layer and train it on associative recall beside softmax, in a minute
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The task is made up on the spot: a sequence shows pairs of a key and a value, then asks for the values of keys. Nothing is
downloaded, and nothing is written but the figure.

Examples:
  energyrun quickstart
  energyrun quickstart mine.recipe --svg mine.svg")]
pub struct Args {
    /// A recipe file or a shipped recipe
    #[arg(value_name = "RECIPE", default_value = "nag")]
    recipe: PathBuf,
    /// Where the figure goes
    #[arg(long, value_name = "FILE", default_value = "quickstart.svg")]
    svg: PathBuf,
    /// Steps of training
    #[arg(long)]
    steps: Option<u64>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What the recipe is compared with.
const BASELINE: &str = "softmax";

/// What a model came to.
struct Learned {
    name: String,
    row: Vec<String>,
    curve: Vec<(f64, f64)>,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    let (recipe, said) = match read::recipe(&args.recipe, color) {
        Ok(checked) => checked,
        Err(refused) => return refused,
    };
    let baseline = match read::recipe(Path::new(BASELINE), color) {
        Ok((baseline, _)) => baseline,
        Err(refused) => return refused,
    };
    let derived = pipeline::derived(&recipe, &SHOWN, &Options::default());
    println!("{}", emit::text::print(&pipeline::documented(&derived, &SHOWN)));
    said.then(match compare(args, &[baseline, recipe]) {
        Ok(text) => Outcome::good(text),
        Err(refusal) => refusal.outcome(color),
    })
}

const SHOWN: [Stage; 3] = [Stage::Energy, Stage::Gradient, Stage::Update];

fn compare(args: &Args, recipes: &[Recipe; 2]) -> Result<String, Refusal> {
    let mut settings = presets::preset("recall")?.with(&format!("seed={}", args.seed))?;
    settings.train.steps = args.steps.unwrap_or(settings.train.steps);
    settings.report.checkpoint_every = 0;
    let _ = ctrlc::set_handler(|| run::STOP.store(true, Ordering::Relaxed));
    let is_same = recipes[0] == recipes[1];
    let mut learned = Vec::new();
    for recipe in recipes.iter().skip(usize::from(is_same)) {
        learned.push(learn(recipe, settings.clone())?);
        if run::STOP.load(Ordering::Relaxed) {
            return Err("stopped".to_string().into());
        }
    }
    let rows: Vec<Vec<String>> = learned.iter().map(|one| one.row.clone()).collect();
    let figure = figure(learned);
    atomic::write(&args.svg, svg(&figure))
        .map_err(|error| format!("cannot write `{}`: {error}", args.svg.display()))?;
    let header = ["recipe", "validation loss", "recall", "tokens/s", "s"];
    Ok(format!("\n{}\n{}\n", table(&header, &rows), args.svg.display()))
}

fn learn(recipe: &Recipe, mut settings: Settings) -> Result<Learned, Refusal> {
    settings.recipe = Recipes::One(recipe.name.clone());
    let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
    settings.report.output = folder.path().to_path_buf();
    let sources = examples::open(&settings)?;
    let model = settings.model(sources.train.vocabulary())?;
    let gpt = Gpt::new(&model, std::slice::from_ref(recipe))?;
    let manifest = Manifest::new(model, settings.to_toml(), Vec::new(), sources.identity.clone(), None);
    let mut trainer = Trainer::new(settings, gpt, sources.train)?;
    eprintln!("{}: {} parameters", recipe.name, trainer.gpt.layout.len());
    let start = std::time::Instant::now();
    let held = run::Folder::open(folder.path())?;
    let ended = run::run(&mut trainer, &*sources.valid, &manifest, &held)?;
    let records = record::read(&folder.path().join(record::FILE))?;
    let curve = records.iter().filter(|record| record.kind == Kind::Valid);
    let curve = curve.filter_map(|record| Some((record.step as f64, 100.0 * record.accuracy?))).collect();
    let valid = ended.valid.unwrap_or_default();
    let row = vec![
        recipe.name.clone(),
        format!("{:.4}", valid.mean()),
        format!("{:.1} %", 100.0 * valid.accuracy()),
        format!("{:.0}", ended.tokens_per_second),
        format!("{:.0}", start.elapsed().as_secs_f64()),
    ];
    Ok(Learned { name: recipe.name.clone(), row, curve })
}

fn figure(learned: Vec<Learned>) -> Figure {
    let curve = |(place, one): (usize, Learned)| Curve {
        label: one.name,
        points: one.curve,
        style: Style { place, look: Look::Marked },
    };
    let curves = learned.into_iter().enumerate().map(curve).collect();
    let panel = Panel {
        title: "Multi-query associative recall".to_string(),
        x_label: "step".to_string(),
        y_label: "values recalled, %".to_string(),
        curves,
        ..Panel::default()
    };
    Figure { panels: vec![panel], ..Figure::default() }
}
