//! The cells of an experiment: every size, window, seed and recipe, each with its settings.
//!
//! Recipes change fastest and sizes slowest, so that an experiment that is stopped early has compared all recipes on
//! what it has.

use super::file::File;
use crate::model::config::SIZES;
use crate::train::presets;
use crate::train::settings::{Recipes, Seed, Settings};

/// One run of the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The place of the recipe in the experiment.
    pub recipe: usize,
    /// What the recipe is called.
    pub name: String,
    pub size: String,
    pub window: usize,
    pub seed: u64,
    pub settings: Settings,
}

impl Cell {
    /// The name of its folder.
    pub fn folder(&self) -> String {
        format!("{}-{}-{}-seed{}", self.name, self.size, self.window, self.seed)
    }

    /// What it shares with the cells it is compared with.
    pub fn panel(&self) -> (&str, usize) {
        (&self.size, self.window)
    }
}

/// Sizes and windows of the cells, in order and each once.
pub fn panels(cells: &[Cell]) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    for cell in cells {
        if !found.contains(&cell.panel()) {
            found.push(cell.panel());
        }
    }
    found
}

/// All cells; `names` are what the recipes call themselves.
pub fn cells(file: &File, names: &[String]) -> Result<Vec<Cell>, String> {
    if let Some(at) = (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
        return Err(format!("two recipes are called `{}`", names[at]));
    }
    let mut cells = Vec::new();
    for (size, window) in shapes(file)? {
        let base = base(file, &size, window)?;
        base.check()?;
        base.model(2)?;
        for seed in &file.seeds {
            for (recipe, (name, text)) in names.iter().zip(&file.recipes).enumerate() {
                let mut settings = base.clone();
                settings.recipe = Recipes::One(text.clone());
                settings.seed = Seed(*seed);
                let (name, size) = (name.clone(), size.clone());
                cells.push(Cell { recipe, name, size, window, seed: *seed, settings });
            }
        }
    }
    Ok(cells)
}

/// Sizes and windows; those of the settings where the experiment says nothing.
fn shapes(file: &File) -> Result<Vec<(String, usize)>, String> {
    let (size, window) = (file.sizes.first().map_or("", String::as_str), file.windows.first().copied().unwrap_or(0));
    let own = match (&file.sizes[..], &file.windows[..]) {
        ([], _) | (_, []) => start(file, size, window)?.over(&file.settings).map_err(in_settings)?.model,
        _ => Settings::default().model,
    };
    let sizes = if file.sizes.is_empty() { vec![own.size] } else { file.sizes.clone() };
    let windows = if file.windows.is_empty() { vec![own.window] } else { file.windows.clone() };
    Ok(sizes.iter().flat_map(|size| windows.iter().map(|window| (size.clone(), *window))).collect())
}

/// The settings of a size and a window.
fn base(file: &File, size: &str, window: usize) -> Result<Settings, String> {
    let mut settings = start(file, size, window)?;
    let known: Vec<&str> = SIZES.iter().map(|size| size.name).collect();
    match () {
        _ if file.sizes.is_empty() => {}
        _ if known.contains(&size) => settings.model.size = size.to_string(),
        _ if file.size.contains_key(size) => {}
        _ => {
            let known = known.join(", ");
            return Err(format!(
                "there is no size `{size}`: it is none of {known}, and there is no table `size.{size}`"
            ));
        }
    }
    let mut settings = settings.over(&file.settings).map_err(in_settings)?;
    if let Some(own) = file.size.get(size) {
        settings = settings.over(own).map_err(|error| format!("in `size.{size}`: {error}"))?;
    }
    settings.model.window = window;
    Ok(settings)
}

fn start(file: &File, size: &str, window: usize) -> Result<Settings, String> {
    match &file.preset {
        None => Ok(Settings::default()),
        Some(preset) => presets::preset(&preset.replace("{size}", size).replace("{window}", &window.to_string())),
    }
}

fn in_settings(error: String) -> String {
    format!("in `settings`: {error}")
}
