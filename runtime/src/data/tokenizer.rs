//! Text to tokens and back: GPT-2's BPE, plain bytes, or any `tokenizer.json`.
//!
//! Special tokens in a text are ordinary text; the token that ends a document is added by whoever joins documents.

use super::meta::{Meta, TOKENIZER};
use super::parts::parts;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::path::Path;
use tiktoken_rs::{CoreBPE, r50k_base_singleton};

/// Tokens are of 16 bits.
pub const LARGEST: usize = 1 << 16;

/// What ends a document, in the order in which a `tokenizer.json` is searched for it.
pub const ENDS: [&str; 6] = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|im_end|>", "[SEP]"];

/// GPT-2's pattern is matched against at most this many bytes at a time.
const PART: usize = 1 << 18;

/// Which tokenizer it is, in a form that can be stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
enum Description {
    Gpt2,
    Bytes,
    /// The text of a `tokenizer.json`.
    File {
        json: String,
    },
}

pub struct Tokenizer {
    description: Description,
    engine: Engine,
    vocabulary: usize,
    end_of_text: u16,
}

enum Engine {
    Gpt2(&'static CoreBPE),
    Bytes,
    File(Box<tokenizers::Tokenizer>),
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Tokenizer({}, {} entries)", self.name(), self.vocabulary)
    }
}

impl Tokenizer {
    /// GPT-2's: 50257 entries, the last of which ends a text.
    pub fn gpt2() -> Tokenizer {
        let engine = Engine::Gpt2(r50k_base_singleton());
        Tokenizer { description: Description::Gpt2, engine, vocabulary: 50257, end_of_text: 50256 }
    }

    /// Every byte is a token; 256 ends a text.
    pub fn bytes() -> Tokenizer {
        Tokenizer { description: Description::Bytes, engine: Engine::Bytes, vocabulary: 257, end_of_text: 256 }
    }

    /// The one a `tokenizer.json` describes.
    pub fn from_json(json: &str) -> Result<Tokenizer, String> {
        let mut model = tokenizers::Tokenizer::from_bytes(json).map_err(|e| format!("this is no tokenizer: {e}"))?;
        model.with_truncation(None).map_err(|error| error.to_string())?;
        model.with_padding(None);
        model.set_encode_special_tokens(true);
        let vocabulary = model.get_vocab(true).into_values().max().map_or(0, |largest| largest as usize + 1);
        if vocabulary > LARGEST {
            return Err(format!("a vocabulary of {vocabulary} entries is too large: tokens are of 16 bits, {LARGEST}"));
        }
        let end = ENDS.iter().find_map(|end| model.token_to_id(end));
        let end = end.and_then(|end| u16::try_from(end).ok());
        let end_of_text = end.ok_or_else(|| format!("no token ends a text: there is none of {}", ENDS.join(" ")))?;
        let description = Description::File { json: json.to_string() };
        Ok(Tokenizer { description, engine: Engine::File(Box::new(model)), vocabulary, end_of_text })
    }

    /// The one a user names: `gpt2`, `bytes` or a file.
    pub fn named(name: &str) -> Result<Tokenizer, String> {
        match name {
            "gpt2" => Ok(Tokenizer::gpt2()),
            "bytes" => Ok(Tokenizer::bytes()),
            path => {
                let json = fs::read_to_string(path).map_err(|error| {
                    format!("cannot read the tokenizer `{path}` (it is `gpt2`, `bytes` or a tokenizer.json): {error}")
                })?;
                Tokenizer::from_json(&json).map_err(|error| format!("{path}: {error}"))
            }
        }
    }

    /// The one a folder was prepared with.
    pub fn of_prepared(folder: &Path) -> Result<Tokenizer, String> {
        match Meta::read(folder)?.tokenizer.as_str() {
            TOKENIZER => {
                let path = folder.join(TOKENIZER);
                let json = fs::read_to_string(&path);
                let json = json.map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
                Tokenizer::from_json(&json).map_err(|error| format!("{}: {error}", path.display()))
            }
            "gpt2" => Ok(Tokenizer::gpt2()),
            "bytes" => Ok(Tokenizer::bytes()),
            other => Err(format!("{}: there is no tokenizer `{other}`", folder.display())),
        }
    }

    /// Everything there is to know about it, for a file.
    pub fn to_file_contents(&self) -> Result<String, String> {
        serde_json::to_string(&self.description).map_err(|error| error.to_string())
    }

    /// The other way round.
    pub fn from_file_contents(text: &str) -> Result<Tokenizer, String> {
        match serde_json::from_str(text).map_err(|error| format!("this describes no tokenizer: {error}"))? {
            Description::Gpt2 => Ok(Tokenizer::gpt2()),
            Description::Bytes => Ok(Tokenizer::bytes()),
            Description::File { json } => Tokenizer::from_json(&json),
        }
    }

    /// `gpt2`, `bytes` or `tokenizer.json`.
    pub fn name(&self) -> &'static str {
        match self.description {
            Description::Gpt2 => "gpt2",
            Description::Bytes => "bytes",
            Description::File { .. } => TOKENIZER,
        }
    }

    /// The text of the `tokenizer.json`, if it is one.
    pub fn json(&self) -> Option<&str> {
        match &self.description {
            Description::File { json } => Some(json),
            _ => None,
        }
    }

    /// How many entries there are; tokens are smaller.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// The token behind a document.
    pub fn end_of_text(&self) -> u16 {
        self.end_of_text
    }

    pub fn encode(&self, text: &str) -> Result<Vec<u16>, String> {
        match &self.engine {
            Engine::Gpt2(model) => {
                Ok(parts(text, PART).flat_map(|part| narrow(&model.encode_ordinary(part))).collect())
            }
            Engine::Bytes => Ok(text.bytes().map(u16::from).collect()),
            Engine::File(model) => {
                let encoding = model.encode_fast(text, false);
                Ok(narrow(encoding.map_err(|error| format!("a text cannot be encoded: {error}"))?.get_ids()))
            }
        }
    }

    /// What is no text, such as half a character or a token that is not there, becomes �.
    pub fn decode(&self, tokens: &[u16]) -> String {
        match &self.engine {
            Engine::Gpt2(model) => {
                let bytes = |token: &u16| model.decode_bytes(&[u32::from(*token)]).unwrap_or(b"\xff".to_vec());
                String::from_utf8_lossy(&tokens.iter().flat_map(bytes).collect::<Vec<u8>>()).into_owned()
            }
            Engine::Bytes => {
                let bytes = |token: &u16| match (u8::try_from(*token), *token == self.end_of_text) {
                    (Ok(byte), _) => vec![byte],
                    (Err(_), true) => ENDS[0].into(),
                    (Err(_), false) => vec![0xff],
                };
                String::from_utf8_lossy(&tokens.iter().flat_map(bytes).collect::<Vec<u8>>()).into_owned()
            }
            Engine::File(model) => {
                let known = |run: &[u16]| {
                    let ids: Vec<u32> = run.iter().map(|token| u32::from(*token)).collect();
                    model.decode(&ids, false).unwrap_or_else(|_| "\u{fffd}".to_string())
                };
                let runs = tokens.split(|token| usize::from(*token) >= self.vocabulary);
                runs.map(known).collect::<Vec<_>>().join("\u{fffd}")
            }
        }
    }
}

/// Tokens of a vocabulary that fits 16 bits.
fn narrow(tokens: &[u32]) -> Vec<u16> {
    tokens.iter().map(|token| *token as u16).collect()
}
