//! Data: where the sequences of a batch come from.
//!
//! ```text
//! files ──read──▶ pieces of text ──tokenizer──▶ tokens ──prepare──▶ folder ──corpus──▶ Truncated, Packed ──▶ Batch
//!                                                                              Recall, Noise, out of nothing ──▶ Batch
//! ```

pub mod batch;
pub mod checksum;
pub mod corpus;
pub mod meta;
pub mod noise;
pub mod order;
pub mod packed;
pub mod parts;
pub mod prepare;
pub mod read;
pub mod recall;
pub mod staging;
pub mod tokenizer;
pub mod train_tokenizer;
pub mod truncated;

pub use batch::{Batch, Examples};
pub use corpus::Corpus;
pub use noise::Noise;
pub use order::Order;
pub use packed::Packed;
pub use recall::Recall;
pub use tokenizer::Tokenizer;
pub use truncated::Truncated;
