//! Files of text become a folder of tokens: see [`meta`](super::meta) for what is in it.
//!
//! Pieces of text are read one after another, encoded on all threads a few megabytes at a time, and written in order.
//! What comes out depends on the texts and the tokenizer alone.

use super::checksum::{Summed, checksum};
use super::meta::{FILES, INDEX, META, Meta, Mode, TOKENIZER, TOKENS};
use super::read::{How, Piece, Pieces, open};
use super::staging::Staging;
use super::tokenizer::Tokenizer;
use energyc::cli::atomic;
use indicatif::ProgressBar;
use rayon::prelude::*;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes that are encoded at a time.
const CHUNK: usize = 4 << 20;

/// Pieces that are encoded at a time.
const PIECES: usize = 1 << 13;

/// What to prepare, and how.
#[derive(Debug)]
pub struct Task<'a> {
    pub inputs: &'a [PathBuf],
    pub output: &'a Path,
    pub tokenizer: &'a Tokenizer,
    pub how: How,
    /// How the documents are meant to be used.
    pub mode: Mode,
    /// Documents to stop after.
    pub limit: Option<u64>,
    /// Whether a folder that is there is replaced.
    pub force: bool,
}

/// Writes the folder, or says what is wrong and writes nothing.
pub fn prepare(task: &Task, bar: &ProgressBar) -> Result<Meta, String> {
    let Task { tokenizer, .. } = task;
    let staging = Staging::begin(task.output, &FILES, task.force)?;
    let limit = task.limit.unwrap_or(u64::MAX);
    let mut writer = Writer::new(&staging, tokenizer.end_of_text())?;
    for input in task.inputs {
        let mut pieces = open(input, &task.how, bar)?;
        while writer.documents() < limit {
            let chunk = next_chunk(&mut pieces)?;
            if chunk.is_empty() {
                break;
            }
            let encoded: Vec<Result<Vec<u16>, String>> =
                chunk.par_iter().map(|piece| tokenizer.encode(&piece.text)).collect();
            for (piece, tokens) in chunk.iter().zip(encoded) {
                let tokens = tokens.map_err(|error| format!("{}: {error}", input.display()))?;
                if writer.documents() < limit {
                    writer.write(&tokens, piece.ends)?;
                }
            }
        }
    }
    if writer.documents() == 0 {
        return Err("there is no document in the input that is not empty".to_string());
    }
    let mut meta = Meta::new(tokenizer.name(), tokenizer.vocabulary(), tokenizer.end_of_text());
    meta.mode = task.mode;
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    meta.sources = task.inputs.iter().filter_map(name).collect();
    writer.finish(&mut meta)?;
    if let Some(json) = tokenizer.json() {
        atomic::create(&staging.path(TOKENIZER), json).map_err(|error| cannot(TOKENIZER, &error))?;
        meta.checksums.insert(TOKENIZER.to_string(), checksum(json.as_bytes()));
    }
    let json = serde_json::to_string_pretty(&meta).map_err(|error| error.to_string())?;
    atomic::create(&staging.path(META), json + "\n").map_err(|error| cannot(META, &error))?;
    staging.finish()?;
    Ok(meta)
}

/// The next pieces that are encoded together; none at the end.
fn next_chunk(pieces: &mut Pieces) -> Result<Vec<Piece>, String> {
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    while bytes < CHUNK && chunk.len() < PIECES {
        let Some(piece) = pieces.next().transpose()? else { break };
        bytes += piece.text.len();
        chunk.push(piece);
    }
    Ok(chunk)
}

fn cannot(file: &str, error: &std::io::Error) -> String {
    format!("cannot write {file}: {error}")
}

type Output = Summed<BufWriter<File>>;

/// Tokens and where documents start.
struct Writer {
    tokens: Output,
    index: Output,
    end_of_text: u16,
    documents: u64,
    empty: u64,
    /// Tokens in all documents that ended.
    ended: u64,
    /// Tokens of the document that did not end yet.
    open: u64,
}

impl Writer {
    fn new(staging: &Staging, end_of_text: u16) -> Result<Writer, String> {
        let create = |name: &str| match File::create_new(staging.path(name)) {
            Ok(file) => Ok(Summed::new(BufWriter::with_capacity(1 << 18, file))),
            Err(error) => Err(cannot(name, &error)),
        };
        let (tokens, index) = (create(TOKENS)?, create(INDEX)?);
        Ok(Writer { tokens, index, end_of_text, documents: 0, empty: 0, ended: 0, open: 0 })
    }

    /// Documents with at least a token.
    fn documents(&self) -> u64 {
        self.documents
    }

    /// A document goes on, and ends if that is said.
    fn write(&mut self, tokens: &[u16], ends: bool) -> Result<(), String> {
        self.write_tokens(tokens)?;
        self.open += tokens.len() as u64;
        match (ends, self.open) {
            (false, _) => {}
            (true, 0) => self.empty += 1,
            (true, _) => {
                self.write_tokens(&[self.end_of_text])?;
                self.write_place(self.ended)?;
                self.ended += self.open + 1;
                self.documents += 1;
                self.open = 0;
            }
        }
        Ok(())
    }

    fn write_tokens(&mut self, tokens: &[u16]) -> Result<(), String> {
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        self.tokens.write_all(&bytes).map_err(|error| cannot(TOKENS, &error))
    }

    fn write_place(&mut self, place: u64) -> Result<(), String> {
        self.index.write_all(&place.to_le_bytes()).map_err(|error| cannot(INDEX, &error))
    }

    /// Closes the files and says what is in them.
    fn finish(mut self, meta: &mut Meta) -> Result<(), String> {
        self.write_place(self.ended)?;
        (meta.documents, meta.tokens, meta.empty) = (self.documents, self.ended, self.empty);
        for (name, output) in [(TOKENS, self.tokens), (INDEX, self.index)] {
            let (buffer, sum, _) = output.finish();
            let file = buffer.into_inner().map_err(|error| cannot(name, error.error()))?;
            file.sync_all().map_err(|error| cannot(name, &error))?;
            meta.checksums.insert(name.to_string(), sum);
        }
        Ok(())
    }
}
