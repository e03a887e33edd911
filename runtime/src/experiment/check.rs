//! What can be wrong with an experiment, found before any work: another experiment's folder, missing data, recipes the
//! model or the objective does not take, runs that would not go on as they began.

use super::Experiment;
use super::data::{self, Facts};
use super::file::{Data, File};
use super::glue::{self, Job};
use super::grid::{Cell, panels};
use super::result;
use crate::model::Gpt;
use crate::refusal::Refusal;
use crate::train::alternating;
use crate::train::settings::{Objective, Settings, known_keys};
use std::path::Path;

/// The file of the experiment in its output folder.
pub const FILE: &str = "experiment.toml";

/// An error if running the experiment makes no sense; what there is to fine-tune on, if it does.
pub fn check(experiment: &Experiment) -> Result<Option<Job>, Refusal> {
    same_experiment(experiment)?;
    reuses_something(experiment)?;
    if !experiment.is_trained() {
        data_is_there(experiment)?;
    }
    for model in models(experiment)? {
        for cell in model.cells {
            goes_on(experiment, cell, &model.facts, &model.gpt)?;
        }
    }
    Ok(glue::job(experiment)?)
}

/// The model of a size, a window and a recipe, with the cells that differ in the seed alone.
pub struct Model<'a> {
    pub cells: Vec<&'a Cell>,
    pub gpt: Gpt,
    pub facts: Facts,
}

/// All models of the grid; an error if one cannot be made or trained.
pub fn models(experiment: &Experiment) -> Result<Vec<Model<'_>>, Refusal> {
    let mut models = Vec::new();
    for panel in panels(&experiment.cells) {
        let of_panel = || experiment.cells.iter().filter(|cell| cell.panel() == panel);
        let Some(any) = of_panel().next() else { continue };
        let facts = data::facts(&experiment.file, &any.settings, experiment.data(), &experiment.output)?;
        for (recipe, chosen) in experiment.recipes.iter().enumerate() {
            let cells: Vec<&Cell> = of_panel().filter(|cell| cell.recipe == recipe).collect();
            let gpt = Gpt::new(&any.settings.model(facts.vocabulary)?, &chosen.recipes)?;
            if any.settings.train.objective == Objective::Alternating {
                alternating::check(&gpt).map_err(|error| format!("`{}`: {error}", chosen.name("+")))?;
            }
            models.push(Model { cells, gpt, facts: facts.clone() });
        }
    }
    Ok(models)
}

/// An error if the output folder belongs to something else.
pub fn same_experiment(experiment: &Experiment) -> Result<(), String> {
    let (output, path) = (&experiment.output, experiment.output.join(FILE));
    if !path.exists() {
        let entries = std::fs::read_dir(output).into_iter().flatten().flatten();
        let strange = entries.map(|entry| entry.file_name()).find(|name| !name.to_string_lossy().starts_with('.'));
        return match strange {
            Some(name) => Err(format!(
                "`{}` is no experiment's folder: there is `{}` in it; choose another with `--output`",
                output.display(),
                name.display()
            )),
            None => Ok(()),
        };
    }
    let text = std::fs::read_to_string(&path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let before = File::from_toml(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let differences = differences(&before, &experiment.file);
    if differences.is_empty() {
        return Ok(());
    }
    let help = "choose another folder with `--output`, or give the arguments it was begun with";
    let shown = output.display();
    Err(format!("`{shown}` was begun with another experiment; {help}:\n  {}", differences.join("\n  ")))
}

/// Keys whose values differ, apart from the line about it.
fn differences(before: &File, now: &File) -> Vec<String> {
    let table = |file: &File| {
        let mut table = toml::Table::try_from(file).unwrap_or_default();
        table.remove("about");
        table
    };
    let (before, now) = (table(before), table(now));
    let mut keys = known_keys(&before, "");
    keys.extend(known_keys(&now, "").into_iter().filter(|key| !keys.contains(key)).collect::<Vec<_>>());
    let value = |table: &toml::Table, key: &str| {
        let mut names = key.split('.');
        let first = names.next().and_then(|name| table.get(name)).cloned();
        let found = names.try_fold(first?, |value, name| value.get(name).cloned())?;
        Some(found.to_string())
    };
    let shown = |value: Option<String>| value.unwrap_or("nothing".to_string());
    keys.iter()
        .map(|key| (key, value(&now, key), value(&before, key)))
        .filter(|(_, now, before)| now != before)
        .map(|(key, now, before)| format!("{key}: {} was {}", shown(now), shown(before)))
        .collect()
}

fn reuses_something(experiment: &Experiment) -> Result<(), String> {
    let Some(reuse) = &experiment.reuse else { return Ok(()) };
    let has = |cell: &Cell| reuse.join("runs").join(cell.folder()).join(result::FILE).is_file();
    match experiment.cells.iter().any(has) {
        true => Ok(()),
        false => {
            let first = experiment.cells.first().map(Cell::folder).unwrap_or_default();
            Err(format!("`{}` has no finished run of this experiment, such as `runs/{first}`", reuse.display()))
        }
    }
}

fn data_is_there(experiment: &Experiment) -> Result<(), String> {
    let folder = experiment.data();
    match &experiment.file.data {
        None => experiment.cells.iter().find_map(|cell| data::missing(&cell.settings)).map_or(Ok(()), Err),
        Some(Data::Prepared(of)) => {
            data::find(folder, &of.train)?;
            data::find(folder, &of.valid).map(|_| ())
        }
        Some(Data::Files(files)) => {
            let is_prepared = data::own(&experiment.output).iter().all(|target| target.exists());
            if is_prepared { Ok(()) } else { data::raw(files, folder).map(|_| ()) }
        }
    }
}

/// An error if what is left of a cell does not belong to it.
fn goes_on(experiment: &Experiment, cell: &Cell, facts: &Facts, gpt: &Gpt) -> Result<(), String> {
    let Some(kept) = result::kept(&experiment.run_of(cell)) else { return Ok(()) };
    let kept = kept?;
    kept.check(&experiment.recipes[cell.recipe], &with_data_of(&cell.settings, &kept.settings))?;
    // What is only assumed of the data says nothing about a checkpoint.
    let Some(identity) = &facts.identity else { return Ok(()) };
    kept.check_model(&gpt.config)?;
    match kept.manifest.data == *identity {
        true => Ok(()),
        false => Err(format!("the training data is not what the run in `{}` began with", kept.checkpoint.display())),
    }
}

/// Settings with another's folders of data: what is in them is compared by its checksums.
pub fn with_data_of(settings: &Settings, other: &Settings) -> Settings {
    let mut settings = settings.clone();
    settings.data.train.clone_from(&other.data.train);
    settings.data.valid.clone_from(&other.data.valid);
    settings
}

/// Keeps the experiment in its folder.
pub fn keep(file: &File, output: &Path) -> Result<(), String> {
    let path = output.join(FILE);
    energyc::cli::atomic::write(&path, file.to_toml())
        .map_err(|error| format!("cannot write `{}`: {error}", path.display()))
}
