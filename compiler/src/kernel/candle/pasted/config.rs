//! What a layer is made for: its sizes, and which tokens a query sees.

use super::dropout::Dropout;
use super::visible::Visible;
use candle_core::{Result, bail};

/// The sizes of a layer. A head has d_h = `d_model` / `heads` components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub d_model: usize,
    pub heads: usize,
}

impl Config {
    /// d_h.
    pub fn head(&self) -> usize {
        self.d_model / self.heads
    }

    /// An error unless the heads share the components evenly.
    pub fn check(&self) -> Result<()> {
        if self.heads == 0 || self.d_model == 0 || !self.d_model.is_multiple_of(self.heads) {
            bail!("{} components do not go into {} heads", self.d_model, self.heads)
        }
        Ok(())
    }
}

/// Which tokens a query sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mask {
    /// Itself and those before it.
    #[default]
    Causal,
    /// All of them.
    Full,
    /// Itself and the so many − 1 before it.
    Window(usize),
}

/// What is particular to the sequences of one batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The length of every sequence, `[B]`; positions behind it are absent, as tokens and as queries.
    pub lengths: Option<&'a [usize]>,
    /// The document every position belongs to, `[B, N]`: equal numbers side by side see each other, others do not.
    pub documents: Option<&'a [u32]>,
    /// Attention dropout, in training; another seed for every layer and step.
    pub dropout: Option<Dropout>,
}

/// What the queries of every sequence see.
pub fn visible(mask: Mask, context: &Context, batch: usize, tokens: usize) -> Result<Vec<Visible>> {
    let alike = match mask {
        Mask::Causal => Visible::causal(tokens, tokens),
        Mask::Full => Visible::full(tokens, tokens),
        Mask::Window(width) => Visible::window(tokens, tokens, width),
    };
    let mut all = vec![alike; batch];
    if let Some(lengths) = context.lengths {
        if lengths.len() != batch {
            bail!("{} lengths for {batch} sequences", lengths.len())
        }
        all = all.into_iter().zip(lengths).map(|(seen, length)| seen.with_length(*length)).collect();
    }
    if let Some(documents) = context.documents {
        if documents.len() != batch * tokens {
            bail!("{} document numbers for {batch} sequences of {tokens} tokens", documents.len())
        }
        let rows = documents.chunks(tokens.max(1));
        all = all.into_iter().zip(rows).map(|(seen, row)| seen.within_documents(row)).collect();
    }
    Ok(all)
}
