//! What a prepared folder says about itself: `meta.json`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Tokens of all documents, one after another, each document with the token that ends it: u16, little-endian.
pub const TOKENS: &str = "tokens.bin";
/// Where every document starts, and where the last one ends, in tokens: u64, little-endian.
pub const INDEX: &str = "index.bin";
/// The tokenizer, if it came from a file.
pub const TOKENIZER: &str = "tokenizer.json";
/// This description.
pub const META: &str = "meta.json";

pub const FILES: [&str; 4] = [TOKENS, INDEX, TOKENIZER, META];

const FORMAT: &str = "energyrun tokens";
const VERSION: u32 = 1;

/// How documents become sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Every document is cut to the window; short ones are padded
    #[default]
    Truncate,
    /// Documents one after another, and no token sees another document
    Pack,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub format: String,
    pub version: u32,
    /// `gpt2`, `bytes`, or the file beside this one.
    pub tokenizer: String,
    pub vocabulary: usize,
    pub end_of_text: u16,
    pub documents: u64,
    /// With those that end documents.
    pub tokens: u64,
    /// Documents that had no tokens and were left out.
    pub empty: u64,
    /// How the documents are meant to be used, unless training says otherwise.
    #[serde(default)]
    pub mode: Mode,
    /// By file.
    pub checksums: BTreeMap<String, String>,
    /// Names of the files it was made from.
    pub sources: Vec<String>,
}

impl Meta {
    /// One of this format, with nothing in it.
    pub fn new(tokenizer: &str, vocabulary: usize, end_of_text: u16) -> Meta {
        Meta {
            format: FORMAT.to_string(),
            version: VERSION,
            tokenizer: tokenizer.to_string(),
            vocabulary,
            end_of_text,
            documents: 0,
            tokens: 0,
            empty: 0,
            mode: Mode::default(),
            checksums: BTreeMap::new(),
            sources: Vec::new(),
        }
    }

    /// The description of a folder, if it is one that can be read here.
    pub fn read(folder: &Path) -> Result<Meta, String> {
        let shown = folder.display();
        if !folder.is_dir() {
            return Err(format!("there is no folder `{shown}`"));
        }
        let text = fs::read_to_string(folder.join(META))
            .map_err(|error| format!("`{shown}` was not made by `energyrun prepare`: cannot read {META}: {error}"))?;
        let version = serde_json::from_str::<serde_json::Value>(&text).ok();
        let version = version.filter(|meta| meta["format"] == FORMAT).and_then(|meta| meta["version"].as_u64());
        match version {
            None => {
                return Err(format!("`{shown}` was not made by `energyrun prepare`: {META} describes other things"));
            }
            Some(version) if version != u64::from(VERSION) => {
                return Err(format!(
                    "`{shown}` has version {version} of the format and not {VERSION}: prepare it again"
                ));
            }
            Some(_) => {}
        }
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", folder.join(META).display()))
    }
}
