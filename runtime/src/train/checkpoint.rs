//! Checkpoints: a folder with everything a run needs to go on, and everything a model needs to be used.
//!
//! ```text
//! step-00000500/
//!   checkpoint.json        step, data position, settings, recipes, tokenizer; size and checksum of the other files
//!   model.safetensors      the weights, by name
//!   optimizer.safetensors  AdamW's moments: first.<weight>, second.<weight>
//! ```
//! A folder is written under another name, flushed to the disk and then renamed, so that one which has its name is
//! whole. Random numbers have no state beside the seed and the step.

use super::adamw::Moments;
use crate::data::checksum::Summed;
use crate::model::config::Config;
use crate::model::weights::Layout;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

const FORMAT: u32 = 1;
const MANIFEST: &str = "checkpoint.json";
const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const PREFIX: &str = "step-";
const UNFINISHED: &str = ".unfinished-";

/// What a checkpoint says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    /// Steps taken.
    pub step: u64,
    /// Examples seen.
    pub position: u64,
    /// Tokens of the loss so far.
    pub tokens: u64,
    pub model: Config,
    /// The settings as TOML.
    pub settings: String,
    /// The recipes' texts: one for all layers, or one for each.
    pub recipes: Vec<String>,
    /// What identifies the training data.
    pub data: String,
    /// The tokenizer of the data, if it has one.
    pub tokenizer: Option<String>,
    files: BTreeMap<String, Sum>,
}

/// A file's size and checksum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Sum {
    bytes: u64,
    /// xxHash, 64 bits, in hexadecimal.
    checksum: String,
}

impl Manifest {
    /// A manifest; its files are added when it is written.
    pub fn new(
        model: Config,
        settings: String,
        recipes: Vec<String>,
        data: String,
        tokenizer: Option<String>,
    ) -> Manifest {
        let files = BTreeMap::new();
        Manifest { format: FORMAT, step: 0, position: 0, tokens: 0, model, settings, recipes, data, tokenizer, files }
    }
}

/// Writes a checkpoint into the folder of a run and removes all but the newest `keep`. The new one's folder.
pub fn write(
    folder: &Path,
    manifest: &Manifest,
    layout: &Layout,
    weights: &[f32],
    moments: Option<&Moments>,
    keep: usize,
) -> Result<PathBuf, String> {
    let target = path(folder, manifest.step);
    let unfinished = folder.join(format!("{UNFINISHED}{:08}", manifest.step));
    let attempt = || -> Result<(), String> {
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        remove(&unfinished)?;
        fs::create_dir(&unfinished).map_err(|error| error.to_string())?;
        let mut manifest = manifest.clone();
        let named: Vec<(String, &[f32])> =
            layout.weights().iter().map(|weight| (weight.name.clone(), &weights[weight.range.clone()])).collect();
        let sum = tensors_to_file(&unfinished.join(MODEL), layout, &named)?;
        manifest.files.insert(MODEL.to_string(), sum);
        if let Some(moments) = moments {
            let both = [("first", &moments.first), ("second", &moments.second)];
            let named: Vec<(String, &[f32])> = (both.iter())
                .flat_map(|(name, values)| {
                    layout.weights().iter().map(move |w| (format!("{name}.{}", w.name), &values[w.range.clone()]))
                })
                .collect();
            let sum = tensors_to_file(&unfinished.join(OPTIMIZER), layout, &named)?;
            manifest.files.insert(OPTIMIZER.to_string(), sum);
        }
        let text = serde_json::to_string_pretty(&manifest).map_err(|error| error.to_string())?;
        let mut file = File::create(unfinished.join(MANIFEST)).map_err(|error| error.to_string())?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| error.to_string())?;
        sync_folder(&unfinished);
        remove(&target)?;
        fs::rename(&unfinished, &target).map_err(|error| error.to_string())?;
        sync_folder(folder);
        Ok(())
    };
    if let Err(error) = attempt() {
        let _ = remove(&unfinished);
        return Err(format!("cannot write a checkpoint into `{}`: {error}", folder.display()));
    }
    for old in all(folder).iter().rev().skip(keep.max(1)) {
        let _ = remove(old);
    }
    Ok(target)
}

/// Where the checkpoint of a step lies.
pub fn path(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("{PREFIX}{step:08}"))
}

/// The checkpoints of a run, oldest first.
pub fn all(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
            name.strip_prefix(PREFIX).is_some_and(|step| step.parse::<u64>().is_ok())
        })
        .collect();
    found.sort();
    found
}

/// A checkpoint's folder from one of its own, of a run (its newest), or of a run's checkpoints.
pub fn find(path: &Path) -> Result<PathBuf, String> {
    if path.join(MANIFEST).is_file() {
        return Ok(path.to_path_buf());
    }
    if !path.exists() {
        return Err(format!("there is no `{}`", path.display()));
    }
    let newest = [path.to_path_buf(), in_run(path)].iter().find_map(|folder| all(folder).pop());
    newest.ok_or_else(|| format!("there is no checkpoint in `{}`", path.display()))
}

/// Where a run keeps its checkpoints.
pub fn in_run(run: &Path) -> PathBuf {
    run.join("checkpoints")
}

/// What a checkpoint says of itself.
pub fn manifest(folder: &Path) -> Result<Manifest, String> {
    let path = folder.join(MANIFEST);
    let wrong = |why: String| format!("`{}`: {why}", path.display());
    let text = fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    let format = serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|v| v.get("format")?.as_u64());
    match format {
        Some(format) if format == u64::from(FORMAT) => {}
        Some(format) => return Err(wrong(format!("it has format {format}; this program reads format {FORMAT}"))),
        None => return Err(wrong("this is no checkpoint of energyrun, or it is damaged".to_string())),
    }
    serde_json::from_str(&text).map_err(|error| wrong(format!("it is damaged: {error}")))
}

/// The weights of a checkpoint, for a model with this layout.
pub fn weights(folder: &Path, manifest: &Manifest, layout: &Layout) -> Result<Vec<f32>, String> {
    let mut values = vec![0.0; layout.len()];
    read_tensors(folder, MODEL, manifest, layout, &mut [("", &mut values)])?;
    Ok(values)
}

/// AdamW's moments, if the checkpoint has them.
pub fn moments(folder: &Path, manifest: &Manifest, layout: &Layout) -> Result<Moments, String> {
    let mut moments = Moments::new(layout.len());
    let mut both = [("first.", &mut moments.first), ("second.", &mut moments.second)];
    read_tensors(folder, OPTIMIZER, manifest, layout, &mut both)?;
    Ok(moments)
}

fn tensors_to_file(path: &Path, layout: &Layout, named: &[(String, &[f32])]) -> Result<Sum, String> {
    let count = layout.weights().len().max(1);
    let views: Result<Vec<_>, _> = (named.iter().enumerate())
        .map(|(i, (name, values))| {
            let shape = layout.weights()[i % count].shape.clone();
            TensorView::new(Dtype::F32, shape, as_bytes(values)).map(|view| (name.clone(), view))
        })
        .collect();
    let views = views.map_err(|error| error.to_string())?;
    safetensors::serialize_to_file(views, None, path).map_err(|error| error.to_string())?;
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| error.to_string())?;
    sum_of(path).map_err(|error| error.to_string())
}

/// Numbers as the bytes they are stored in.
fn as_bytes(values: &[f32]) -> &[u8] {
    bytemuck::cast_slice(values)
}

fn read_tensors(
    folder: &Path,
    name: &str,
    manifest: &Manifest,
    layout: &Layout,
    targets: &mut [(&str, &mut Vec<f32>)],
) -> Result<(), String> {
    let path = folder.join(name);
    let wrong = |why: String| format!("`{}`: {why}", path.display());
    let wanted = manifest.files.get(name).ok_or_else(|| wrong("the checkpoint has no such file".to_string()))?;
    let found = sum_of(&path).map_err(|error| wrong(error.to_string()))?;
    if found.bytes != wanted.bytes {
        return Err(wrong(format!("it is damaged: {} bytes instead of {}", found.bytes, wanted.bytes)));
    }
    if found != *wanted {
        return Err(wrong("it is damaged: its checksum is not the one that was written".to_string()));
    }
    let bytes = fs::read(&path).map_err(|error| wrong(error.to_string()))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| wrong(error.to_string()))?;
    for (prefix, values) in targets {
        for weight in layout.weights() {
            let name = format!("{prefix}{}", weight.name);
            let tensor = file.tensor(&name).map_err(|_| wrong(format!("there is no tensor `{name}`")))?;
            if tensor.shape() != weight.shape || tensor.dtype() != Dtype::F32 {
                let found = format!("{:?} {:?}", tensor.dtype(), tensor.shape());
                return Err(wrong(format!("`{name}` is {found}; the model has F32 {:?}", weight.shape)));
            }
            let numbers = tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            values[weight.range.clone()].iter_mut().zip(numbers).for_each(|(x, y)| *x = y);
        }
    }
    Ok(())
}

/// The size and the checksum of a file as it is on the disk.
fn sum_of(path: &Path) -> std::io::Result<Sum> {
    let mut file = Summed::new(std::io::sink());
    std::io::copy(&mut BufReader::with_capacity(1 << 20, File::open(path)?), &mut file)?;
    let (_, checksum, bytes) = file.finish();
    Ok(Sum { bytes, checksum })
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// Makes names durable where the system can.
fn sync_folder(folder: &Path) {
    if let Ok(file) = File::open(folder) {
        let _ = file.sync_all();
    }
}
