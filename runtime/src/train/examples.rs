//! The examples of a run: prepared folders as sequences, or sequences that are made up.

use super::settings::{Data, Mode, Settings};
use crate::data::meta;
use crate::data::recall::{Recall, Shape};
use crate::data::{Corpus, Examples, Packed, Tokenizer, Truncated};
use std::path::Path;
use std::sync::Arc;

/// What to learn from and what to try it on.
pub struct Sources {
    pub train: Box<dyn Examples>,
    pub valid: Box<dyn Examples>,
    /// What identifies the training data, for a run that goes on later.
    pub identity: String,
    pub tokenizer: Option<Tokenizer>,
}

/// The word that stands for made-up sequences.
pub const RECALL: &str = "recall";

/// The examples the settings name.
pub fn open(settings: &Settings) -> Result<Sources, String> {
    let data = &settings.data;
    match (data.train == RECALL, data.valid == RECALL) {
        (true, true) => recall(settings),
        (false, false) => prepared(data, settings.model.window),
        _ => Err(format!("`data.train` and `data.valid` have to be both `{RECALL}`, or neither")),
    }
}

fn recall(settings: &Settings) -> Result<Sources, String> {
    let of = settings.data.recall;
    let shape =
        Shape { pairs: of.pairs, queries: of.queries, length: settings.model.window, vocabulary: of.vocabulary };
    // The validation's sequences come from another seed.
    let seed = settings.seed.0;
    Ok(Sources {
        train: Box::new(Recall::new(shape, of.train_examples, seed)?),
        valid: Box::new(Recall::new(shape, of.valid_examples, !seed)?),
        identity: format!("{RECALL} {shape:?} {}", of.train_examples),
        tokenizer: None,
    })
}

fn prepared(data: &Data, window: usize) -> Result<Sources, String> {
    let open = |path: &str| -> Result<Arc<Corpus>, String> {
        let corpus = Corpus::open(Path::new(path))?;
        corpus.verify()?;
        Ok(Arc::new(corpus))
    };
    let (train, valid) = (open(&data.train)?, open(&data.valid)?);
    if train.vocabulary() != valid.vocabulary() {
        return Err(format!(
            "`{}` has a vocabulary of {} tokens and `{}` one of {}; prepare both with one tokenizer",
            data.train,
            train.vocabulary(),
            data.valid,
            valid.vocabulary()
        ));
    }
    let [tokenizer, other] = [&data.train, &data.valid].map(|path| Tokenizer::of_prepared(Path::new(path)));
    let tokenizer = tokenizer?;
    if tokenizer.to_file_contents()? != other?.to_file_contents()? {
        return Err(format!("`{}` and `{}` were prepared with different tokenizers", data.train, data.valid));
    }
    let sums: Vec<String> = train.meta().checksums.values().cloned().collect();
    let identity = format!("{} tokens {}", train.len(), sums.join(" "));
    let mode = match data.mode {
        Mode::Prepared => train.meta().mode,
        Mode::Truncate => meta::Mode::Truncate,
        Mode::Pack => meta::Mode::Pack,
    };
    let view = |corpus: Arc<Corpus>| -> Result<Box<dyn Examples>, String> {
        Ok(match mode {
            meta::Mode::Truncate => Box::new(Truncated::new(corpus, window)?),
            meta::Mode::Pack => Box::new(Packed::new(corpus, window)?),
        })
    };
    let (train, valid) = (view(train)?, view(valid)?);
    for (name, examples) in [(&data.train, &train), (&data.valid, &valid)] {
        if examples.count() == 0 {
            return Err(format!("`{name}` has no sequence for windows of {window} tokens"));
        }
    }
    Ok(Sources { train, valid, identity, tokenizer: Some(tokenizer) })
}
