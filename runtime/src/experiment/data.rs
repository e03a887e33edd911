//! The data of an experiment: where it lies, what is known of it before a run, and preparing it once.
//!
//! Names are looked for in the folder of `--data` and in the folders right inside of it; without `--data`, from the
//! folder the command is run in.

use super::file::{Data, Expected, File, Files};
use crate::data::Tokenizer;
use crate::data::meta::{Meta, Mode};
use crate::data::prepare::{Task, prepare};
use crate::data::read::{How, sizes};
use crate::data::train_tokenizer::train_on_files;
use crate::train::examples;
use crate::train::settings::{self, Settings};
use energyc::cli::atomic;
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};

/// GPT-2's, where nothing says what it is.
const VOCABULARY: usize = 50257;
/// Bytes of English a token takes, what packing saves, tokens of a document: for estimates alone.
const BYTES_OF_TOKEN: f64 = 3.5;
const PACKED: f64 = 2.7;
const TOKENS_OF_DOCUMENT: f64 = 2000.0;

/// The file or folder of a name.
pub fn find(folder: Option<&Path>, name: &str) -> Result<PathBuf, String> {
    let Some(folder) = folder else {
        let path = PathBuf::from(name);
        let missing = || format!("there is no `{name}` here; `--data DIR` says where the data is");
        return path.exists().then_some(path.clone()).ok_or_else(missing);
    };
    if !folder.is_dir() {
        return Err(format!("`--data`: there is no folder `{}`", folder.display()));
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut inside: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    inside.sort();
    let places = std::iter::once(folder.to_path_buf()).chain(inside);
    let found = places.map(|place| place.join(name)).find(|path| path.exists());
    found.ok_or_else(|| format!("there is no `{name}` in `{}` or a folder in it", folder.display()))
}

/// Where the experiment's own prepared data lies.
pub fn own(output: &Path) -> [PathBuf; 2] {
    ["train", "valid"].map(|name| output.join("data").join(name))
}

/// The settings with the data in place.
pub fn placed(file: &File, settings: &Settings, folder: Option<&Path>, output: &Path) -> Result<Settings, String> {
    let [train, valid] = match &file.data {
        None => return Ok(settings.clone()),
        Some(Data::Prepared(of)) => [find(folder, &of.train)?, find(folder, &of.valid)?],
        Some(Data::Files(_)) => own(output),
    };
    let [train, valid] = [train, valid].map(|path| path.display().to_string());
    Ok(Settings { data: settings::Data { train, valid, ..settings.data.clone() }, ..settings.clone() })
}

/// The raw files of an experiment, all of which are there.
pub fn raw(files: &Files, folder: Option<&Path>) -> Result<[Vec<PathBuf>; 2], String> {
    let find = |names: &[String]| names.iter().map(|name| find(folder, name)).collect::<Result<Vec<_>, String>>();
    let (train, valid) = (find(&files.train)?, find(&files.valid)?);
    sizes(&train)?;
    sizes(&valid)?;
    Ok([train, valid])
}

/// Makes folders of tokens out of raw files, unless they are there.
pub fn prepare_once(file: &File, folder: Option<&Path>, output: &Path) -> Result<(), String> {
    let Some(Data::Files(files)) = &file.data else { return Ok(()) };
    let targets = own(output);
    if targets.iter().all(|target| Meta::read(target).is_ok()) {
        return Ok(());
    }
    let [train, valid] = raw(files, folder)?;
    let parent = output.join("data");
    std::fs::create_dir_all(&parent).map_err(|error| format!("cannot write `{}`: {error}", parent.display()))?;
    let how = How { field: files.field.clone(), ..How::default() };
    let tokenizer = tokenizer(files, &train, &how, &parent)?;
    for (inputs, target) in [&train, &valid].into_iter().zip(&targets) {
        if Meta::read(target).is_ok() {
            continue;
        }
        eprintln!("preparing {}", target.display());
        let (mode, how) = (Mode::default(), how.clone());
        let task = Task { inputs, output: target, tokenizer: &tokenizer, how, mode, limit: None, force: true };
        prepare(&task, &ProgressBar::hidden())?;
    }
    Ok(())
}

/// The tokenizer that is named, or one that is learned from the training files and kept.
fn tokenizer(files: &Files, train: &[PathBuf], how: &How, parent: &Path) -> Result<Tokenizer, String> {
    let Some(vocabulary) = files.vocabulary else {
        return Tokenizer::named(files.tokenizer.as_deref().unwrap_or("gpt2"));
    };
    let path = parent.join("tokenizer.json");
    if !path.exists() {
        eprintln!("learning a vocabulary of {vocabulary} entries → {}", path.display());
        let (json, _) = train_on_files(vocabulary, train, how, &ProgressBar::hidden())?;
        atomic::write(&path, json).map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
    }
    Tokenizer::named(&path.display().to_string())
}

/// What is known of the data for some settings; what is not is assumed, and said.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Facts {
    pub vocabulary: usize,
    pub train: usize,
    pub valid: usize,
    /// What identifies the training data, if it is there.
    pub identity: Option<String>,
    /// Bytes that preparing will take.
    pub disk: u64,
    pub assumed: Vec<String>,
}

/// The facts of the data as it is now: it may have to be prepared yet, or be missing.
pub fn facts(file: &File, settings: &Settings, folder: Option<&Path>, output: &Path) -> Result<Facts, String> {
    let there = match &file.data {
        None => missing(settings).is_none(),
        Some(Data::Prepared(of)) => find(folder, &of.train).is_ok() && find(folder, &of.valid).is_ok(),
        Some(Data::Files(_)) => own(output).iter().all(|target| Meta::read(target).is_ok()),
    };
    if there {
        let sources = examples::open(&placed(file, settings, folder, output)?)?;
        let (vocabulary, train) = (sources.train.vocabulary(), sources.train.count());
        let identity = Some(sources.identity);
        return Ok(Facts { vocabulary, train, valid: sources.valid.count(), identity, ..Facts::default() });
    }
    match &file.data {
        Some(Data::Files(files)) => Ok(of_files(files, settings, folder)),
        Some(Data::Prepared(of)) => {
            let missing = [&of.train, &of.valid].into_iter().find_map(|name| find(folder, name).err());
            Ok(of_expected(of.expected, missing.unwrap_or_default()))
        }
        None => Ok(of_expected(None, missing(settings).unwrap_or_default())),
    }
}

/// What is wrong with the data the settings name themselves, if something is.
pub fn missing(settings: &Settings) -> Option<String> {
    let names = [&settings.data.train, &settings.data.valid];
    names.into_iter().filter(|name| *name != examples::RECALL).find_map(|name| Meta::read(Path::new(name)).err())
}

fn of_expected(expected: Option<Expected>, missing: String) -> Facts {
    let (said, of) = match expected {
        Some(of) => ("as the experiment expects", of),
        None => ("a guess", Expected { vocabulary: VOCABULARY, train_documents: 1_000_000, valid_documents: 500 }),
    };
    let Expected { vocabulary, train_documents: train, valid_documents: valid } = of;
    let numbers = format!("{train} training and {valid} validation sequences, vocabulary {vocabulary}");
    Facts { vocabulary, train, valid, assumed: vec![format!("{missing}: {numbers} ({said})")], ..Facts::default() }
}

fn of_files(files: &Files, settings: &Settings, folder: Option<&Path>) -> Facts {
    let named = || files.tokenizer.as_ref().and_then(|name| Tokenizer::named(name).ok()).map(|t| t.vocabulary());
    let vocabulary = files.vocabulary.or_else(named).unwrap_or(VOCABULARY);
    let mut assumed = Vec::new();
    let tokens = match raw(files, folder) {
        Ok(paths) => paths.map(|paths| paths.iter().map(|path| text_bytes(path)).sum::<f64>() / BYTES_OF_TOKEN),
        Err(missing) => {
            assumed.push(format!("{missing}: 3 million training and 100 thousand validation tokens (a guess)"));
            [3e6, 1e5]
        }
    };
    if assumed.is_empty() {
        assumed.push(format!("sequences and disk of data that is not prepared yet: {BYTES_OF_TOKEN} bytes a token"));
    }
    let sequences = |tokens: f64| match settings.data.mode {
        settings::Mode::Pack => (tokens / settings.model.window as f64).ceil().max(1.0) as usize,
        _ => (tokens / TOKENS_OF_DOCUMENT).ceil().max(1.0) as usize,
    };
    let disk = (2.0 * (tokens[0] + tokens[1])) as u64;
    let [train, valid] = tokens.map(sequences);
    Facts { vocabulary, train, valid, identity: None, disk, assumed }
}

/// About how much text a file holds.
fn text_bytes(path: &Path) -> f64 {
    let size = std::fs::metadata(path).map_or(0.0, |found| found.len() as f64);
    if path.extension().is_some_and(|extension| extension == "gz") { PACKED * size } else { size }
}
