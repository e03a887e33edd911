//! A run from its settings: data, model, folder, and what a checkpoint left, or why it cannot begin or go on.

use super::checkpoint::{self, Manifest};
use super::examples;
use super::run::Folder;
use super::settings::Settings;
use super::trainer::Trainer;
use crate::data::Examples;
use crate::model::{Config, Gpt};
use crate::refusal::Refusal;
use energyc::check::Recipe;
use energyc::cli::outcome::Outcome;
use energyc::cli::read;
use energyc::kernel::recipe_hash;
use energyc::pipeline;
use std::path::{Path, PathBuf};

/// Recipes with their texts.
#[derive(Clone, Debug)]
pub struct Chosen {
    pub recipes: Vec<Recipe>,
    pub texts: Vec<String>,
}

impl Chosen {
    /// The recipes of these files, or names, and what there is to say about them.
    pub fn named(names: &[String], color: bool) -> Result<(Chosen, Outcome), Outcome> {
        let mut chosen = Chosen { recipes: Vec::new(), texts: Vec::new() };
        let mut said = Outcome::default();
        for name in names {
            let source = read::source(Path::new(name), color)?;
            let (recipe, outcome) = read::recipe_of(&source, color)?;
            chosen.texts.push(source.text.to_string());
            chosen.recipes.push(recipe);
            said = said.then(outcome);
        }
        Ok((chosen, said))
    }

    /// The recipes a checkpoint holds.
    pub fn of_texts(texts: &[String]) -> Result<Chosen, String> {
        let read = |text: &String| {
            pipeline::front(text).0.ok_or_else(|| format!("the checkpoint's recipe is refused:\n{text}"))
        };
        Ok(Chosen { recipes: texts.iter().map(read).collect::<Result<_, _>>()?, texts: texts.to_vec() })
    }

    /// What they are called together.
    pub fn name(&self, joint: &str) -> String {
        let mut names: Vec<&str> = self.recipes.iter().map(|recipe| recipe.name.as_str()).collect();
        names.dedup();
        names.join(joint)
    }
}

/// The newest checkpoint of a run that goes on.
#[derive(Clone, Debug)]
pub struct Kept {
    pub checkpoint: PathBuf,
    pub manifest: Manifest,
    pub settings: Settings,
}

impl Kept {
    pub fn newest(run: &Path) -> Result<Kept, String> {
        let checkpoint = checkpoint::find(run)?;
        let manifest = checkpoint::manifest(&checkpoint)?;
        let settings = Settings::from_toml(&manifest.settings)?;
        Ok(Kept { checkpoint, manifest, settings })
    }

    /// An error if a run with these recipes and settings would not go on as it began.
    pub fn check(&self, chosen: &Chosen, settings: &Settings) -> Result<(), String> {
        let shown = self.checkpoint.display();
        let hashes = |recipes: &[Recipe]| recipes.iter().map(recipe_hash).collect::<Vec<_>>();
        if hashes(&Chosen::of_texts(&self.manifest.recipes)?.recipes) != hashes(&chosen.recipes) {
            return Err(format!("`{shown}` was trained with another recipe; start a new run for this one"));
        }
        let same_recipe = Settings { recipe: self.settings.recipe.clone(), ..settings.clone() };
        let differences = self.settings.differences(&same_recipe);
        if differences.is_empty() {
            return Ok(());
        }
        Err(format!("the settings are not those of `{shown}`:\n  {}", differences.join("\n  ")))
    }

    /// An error if the checkpoint is that of another model, such as one with another vocabulary.
    pub fn check_model(&self, model: &Config) -> Result<(), String> {
        let (found, shown) = (&self.manifest.model, self.checkpoint.display());
        match found {
            _ if found.vocabulary != model.vocabulary => Err(format!(
                "`{shown}` has a vocabulary of {} tokens and the data one of {}",
                found.vocabulary, model.vocabulary
            )),
            _ if found != model => Err(format!("`{shown}` is another model: {found:?} and not {model:?}")),
            _ => Ok(()),
        }
    }
}

/// A run that can be given to [`run`](super::run::run).
pub struct Started {
    pub trainer: Trainer,
    pub valid: Box<dyn Examples>,
    pub manifest: Manifest,
    pub folder: Folder,
}

/// Opens everything a run needs; its folder is that of the report. Without a checkpoint it begins anew, whatever is in
/// the folder.
pub fn start(settings: Settings, chosen: &Chosen, kept: Option<&Kept>) -> Result<Started, Refusal> {
    settings.check()?;
    let sources = examples::open(&settings)?;
    let model = settings.model(sources.train.vocabulary())?;
    let gpt = Gpt::new(&model, &chosen.recipes)?;
    let folder = Folder::open(&settings.report.output)?;
    let tokenizer = sources.tokenizer.as_ref().map(|tokenizer| tokenizer.to_file_contents()).transpose()?;
    let texts = chosen.texts.clone();
    let manifest = Manifest::new(model, settings.to_toml(), texts, sources.identity.clone(), tokenizer);
    let mut trainer = Trainer::new(settings, gpt, sources.train)?;
    if let Some(kept) = kept {
        kept.check_model(&manifest.model)?;
        if kept.manifest.data != sources.identity {
            let shown = kept.checkpoint.display();
            return Err(format!("the training data is not what the run in `{shown}` began with").into());
        }
        let layout = &trainer.gpt.layout;
        trainer.weights = checkpoint::weights(&kept.checkpoint, &kept.manifest, layout)?;
        trainer.moments = checkpoint::moments(&kept.checkpoint, &kept.manifest, layout)?;
        let Manifest { step, position, tokens, .. } = kept.manifest;
        (trainer.step, trainer.position, trainer.tokens) = (step, position, tokens);
    }
    Ok(Started { trainer, valid: sources.valid, manifest, folder })
}

/// One line about a run that begins.
pub fn opening(started: &Started, name: &str) -> String {
    let trainer = &started.trainer;
    let config = &trainer.gpt.config;
    format!(
        "{name}: {:.1} million parameters, {} layers, {} heads of {}, windows of {}; {} steps from {} → {}",
        trainer.gpt.layout.len() as f64 / 1e6,
        config.layers,
        config.heads,
        config.head,
        config.window,
        trainer.steps,
        trainer.step,
        started.folder.path().display(),
    )
}
