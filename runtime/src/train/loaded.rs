//! A model from a checkpoint, with nothing else needed: sizes, recipes, weights and tokenizer all come from its folder.

use super::checkpoint::{self, Manifest};
use crate::data::Tokenizer;
use crate::model::Gpt;
use crate::refusal::Refusal;
use energyc::check::Recipe;
use energyc::pipeline;
use std::path::{Path, PathBuf};

/// A model that can be used.
pub struct Loaded {
    pub folder: PathBuf,
    pub manifest: Manifest,
    pub recipes: Vec<Recipe>,
    pub gpt: Gpt,
    pub weights: Vec<f32>,
}

/// The model of a checkpoint, or of the newest checkpoint of a run.
pub fn load(path: &Path) -> Result<Loaded, Refusal> {
    let folder = checkpoint::find(path)?;
    let manifest = checkpoint::manifest(&folder)?;
    let recipes = recipes(&folder, &manifest.recipes)?;
    let gpt = Gpt::new(&manifest.model, &recipes)?;
    let weights = checkpoint::weights(&folder, &manifest, &gpt.layout)?;
    Ok(Loaded { folder, manifest, recipes, gpt, weights })
}

/// The recipes of a checkpoint's manifest.
pub fn recipes(folder: &Path, texts: &[String]) -> Result<Vec<Recipe>, String> {
    let read = |text: &String| {
        let refused = || format!("`{}`: this program refuses the checkpoint's recipe:\n{text}", folder.display());
        pipeline::front(text).0.ok_or_else(refused)
    };
    texts.iter().map(read).collect()
}

impl Loaded {
    /// The tokenizer of the data the model learned from.
    pub fn tokenizer(&self) -> Result<Tokenizer, String> {
        match &self.manifest.tokenizer {
            Some(contents) => Tokenizer::from_file_contents(contents),
            None => Err(format!("`{}` was not trained on text: it has no tokenizer", self.folder.display())),
        }
    }
}
