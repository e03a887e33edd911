//! A prepared folder, mapped into memory: tokens and where documents start.
//!
//! Opening checks everything but the tokens themselves, so no position inside of a document can be missing later;
//! [`Corpus::verify`] reads them all and compares checksums.

use super::checksum::checksum;
use super::meta::{INDEX, Meta, TOKENIZER, TOKENS};
use super::tokenizer::LARGEST;
use memmap2::Mmap;
use rayon::prelude::*;
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Corpus {
    folder: PathBuf,
    meta: Meta,
    tokens: Mmap,
    index: Mmap,
}

impl Corpus {
    pub fn open(folder: &Path) -> Result<Corpus, String> {
        let meta = Meta::read(folder)?;
        if meta.vocabulary > LARGEST || usize::from(meta.end_of_text) >= meta.vocabulary {
            let Meta { vocabulary, end_of_text, .. } = meta;
            let what = format!("a vocabulary of {vocabulary} entries with {end_of_text} at the end of texts");
            return Err(format!("`{}` is damaged: it claims {what}", folder.display()));
        }
        let tokens = map(folder, TOKENS, meta.tokens.checked_mul(2))?;
        let index = map(folder, INDEX, meta.documents.checked_add(1).and_then(|places| places.checked_mul(8)))?;
        let corpus = Corpus { folder: folder.to_path_buf(), meta, tokens, index };
        corpus.check_index()?;
        Ok(corpus)
    }

    /// Every document has at least a token and what ends it; together they are all tokens.
    fn check_index(&self) -> Result<(), String> {
        let places = self.index.as_chunks::<8>().0;
        let long_enough = |pair: &[[u8; 8]]| match pair {
            [start, end] => u64::from_le_bytes(*end).checked_sub(u64::from_le_bytes(*start)).is_some_and(|n| n >= 2),
            _ => true,
        };
        let ends = [places.first(), places.last()].map(|place| place.map(|bytes| u64::from_le_bytes(*bytes)));
        if ends == [Some(0), Some(self.meta.tokens)] && places.windows(2).all(long_enough) {
            return Ok(());
        }
        Err(format!("`{}` is damaged: documents in {INDEX} do not follow one another; {AGAIN}", self.folder.display()))
    }

    /// Reads everything and compares checksums.
    pub fn verify(&self) -> Result<(), String> {
        let check = |(name, bytes): (&str, &[u8])| match self.meta.checksums.get(name) {
            Some(sum) if *sum == checksum(bytes) => Ok(()),
            Some(_) => Err(format!("`{}` is damaged: the checksum of {name} is wrong; {AGAIN}", self.folder.display())),
            None => Err(format!("`{}` is damaged: there is no checksum of {name}; {AGAIN}", self.folder.display())),
        };
        if self.meta.tokenizer == TOKENIZER {
            let path = self.folder.join(TOKENIZER);
            let json = fs::read(&path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
            check((TOKENIZER, &json[..]))?;
        }
        let files = [(TOKENS, &self.tokens[..]), (INDEX, &self.index[..])];
        let (sums, largest) = rayon::join(
            || files.into_iter().try_for_each(check),
            || self.tokens.as_chunks::<2>().0.par_iter().map(|token| u16::from_le_bytes(*token)).max(),
        );
        sums?;
        match largest {
            Some(largest) if usize::from(largest) >= self.meta.vocabulary => Err(self.foreign(largest)),
            _ => Ok(()),
        }
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn vocabulary(&self) -> usize {
        self.meta.vocabulary
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.tokens.len() / 2
    }

    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// How many documents there are.
    pub fn documents(&self) -> usize {
        (self.index.len() / 8).saturating_sub(1)
    }

    /// The place of a document's tokens, with the one that ends it.
    pub fn document(&self, number: usize) -> Range<usize> {
        self.place(number)..self.place(number + 1)
    }

    /// The document a token is in.
    pub fn document_at(&self, token: usize) -> usize {
        let places = self.index.as_chunks::<8>().0;
        places.partition_point(|place| u64::from_le_bytes(*place) <= token as u64).saturating_sub(1)
    }

    /// Tokens one after another. They are smaller than the vocabulary, or it is an error.
    pub fn tokens(&self, range: Range<usize>) -> Result<impl Iterator<Item = u16> + '_, String> {
        let tokens = self.tokens.as_chunks::<2>().0.get(range.clone());
        let tokens = tokens.ok_or_else(|| format!("there are no tokens {} to {}", range.start, range.end))?;
        let tokens = tokens.iter().map(|token| u16::from_le_bytes(*token));
        match tokens.clone().max() {
            Some(largest) if usize::from(largest) >= self.meta.vocabulary => Err(self.foreign(largest)),
            _ => Ok(tokens),
        }
    }

    fn place(&self, number: usize) -> usize {
        u64::from_le_bytes(self.index.as_chunks::<8>().0[number]) as usize
    }

    fn foreign(&self, token: u16) -> String {
        let Meta { vocabulary, .. } = self.meta;
        let folder = self.folder.display();
        format!("`{folder}` is damaged: {token} is no token of a vocabulary of {vocabulary}; {AGAIN}")
    }
}

const AGAIN: &str = "prepare it again";

/// A file of exactly this size.
fn map(folder: &Path, name: &str, size: Option<u64>) -> Result<Mmap, String> {
    let path = folder.join(name);
    let cannot = |error: std::io::Error| format!("cannot read `{}`: {error}", path.display());
    let file = File::open(&path).map_err(cannot)?;
    let found = file.metadata().map_err(cannot)?.len();
    if size != Some(found) || found == 0 {
        let expected = size.map_or("an impossible number".to_string(), |size| size.to_string());
        let shown = folder.display();
        return Err(format!("`{shown}` is damaged: {name} has {found} bytes and not {expected}; {AGAIN}"));
    }
    // SAFETY: the map is only read. Prepared folders are moved into place whole and never written again; whoever
    // shortens one while it is open ends the process, which no other way of reading a map could prevent.
    #[allow(unsafe_code)]
    let map = unsafe { Mmap::map(&file) };
    map.map_err(cannot)
}
