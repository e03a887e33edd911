//! A byte-level BPE learned from texts, with a token that ends a text. The same texts give the same tokenizer.

use super::read::{How, Pieces, open};
use super::tokenizer::{ENDS, LARGEST};
use indicatif::ProgressBar;
use std::iter::once;
use std::path::PathBuf;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, TokenizerBuilder};

/// A pair that is seen once is no entry.
const LEAST: u64 = 2;

/// Every byte, and what ends a text.
pub const SMALLEST: usize = 257;

/// The `tokenizer.json` with at most this many entries; fewer if the texts have no more pairs that repeat.
pub fn train(
    vocabulary: usize,
    texts: impl Iterator<Item = Result<String, String>> + Send,
) -> Result<(String, usize), String> {
    if !(SMALLEST..=LARGEST).contains(&vocabulary) {
        return Err(format!("a vocabulary has {SMALLEST} to {LARGEST} entries and not {vocabulary}"));
    }
    let bytes = ByteLevel::new(false, false, true);
    let mut trainer = BpeTrainer::builder()
        .vocab_size(vocabulary)
        .min_frequency(LEAST)
        .show_progress(false)
        .special_tokens(vec![AddedToken::from(ENDS[0], true)])
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    let wrong = |error: tokenizers::Error| error.to_string();
    let mut tokenizer = TokenizerBuilder::<BPE, NormalizerWrapper, ByteLevel, ByteLevel, ByteLevel>::new()
        .with_model(BPE::default())
        .with_pre_tokenizer(Some(bytes))
        .with_decoder(Some(bytes))
        .build()
        .map_err(wrong)?;
    let mut failed = None;
    let texts = texts.map_while(|text| text.map_err(|error| failed = Some(error)).ok());
    tokenizer.train(&mut trainer, texts).map_err(wrong)?;
    match failed {
        Some(error) => Err(error),
        None => Ok((tokenizer.to_string(true).map_err(wrong)?, tokenizer.get_vocab_size(true))),
    }
}

/// The same from files of text.
pub fn train_on_files(
    vocabulary: usize,
    inputs: &[PathBuf],
    how: &How,
    bar: &ProgressBar,
) -> Result<(String, usize), String> {
    let pieces =
        |input: &PathBuf| open(input, how, bar).unwrap_or_else(|wrong| -> Pieces { Box::new(once(Err(wrong))) });
    train(vocabulary, inputs.iter().flat_map(pieces).map(|piece| piece.map(|piece| piece.text)))
}
