//! The sizes of a model, and the named ones.

use energyc::ir::eval::Sizes;
use serde::{Deserialize, Serialize};

/// What a model is, apart from its recipes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub layers: usize,
    pub heads: usize,
    /// Components of a head; a token has `heads · head`.
    pub head: usize,
    /// The longest sequence.
    pub window: usize,
    pub vocabulary: usize,
    /// Of embedded tokens, attention weights, and what sublayers add.
    pub dropout: f64,
    /// Whether a feed-forward network follows every attention.
    pub feed_forward: bool,
    /// The standard deviation that matrices start with.
    pub deviation: f64,
}

/// GPT-2's.
pub const DEVIATION: f64 = 0.02;

/// A named size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    pub name: &'static str,
    pub layers: usize,
    pub heads: usize,
    pub head: usize,
}

/// The sizes of the paper, and one to play with.
pub const SIZES: [Named; 5] = [
    Named { name: "tiny", layers: 2, heads: 2, head: 32 },
    Named { name: "30m", layers: 6, heads: 4, head: 64 },
    Named { name: "55m", layers: 8, heads: 6, head: 64 },
    Named { name: "76m", layers: 8, heads: 8, head: 64 },
    Named { name: "160m", layers: 12, heads: 12, head: 64 },
];

/// The size of this name.
pub fn named(name: &str) -> Result<Named, String> {
    let known: Vec<&str> = SIZES.iter().map(|size| size.name).collect();
    let found = SIZES.iter().find(|size| size.name == name).copied();
    found.ok_or_else(|| format!("there is no model size `{name}`; there are {}", known.join(", ")))
}

impl Config {
    /// Components of a token.
    pub fn width(&self) -> usize {
        self.heads * self.head
    }

    /// The sizes the recipe language knows.
    pub fn sizes(&self) -> Sizes {
        Sizes { queries: self.window, tokens: self.window, head: self.head, model: self.width(), heads: self.heads }
    }

    /// An error that names the number that is wrong.
    pub fn check(&self) -> Result<(), String> {
        let counts = [
            ("layers", self.layers, 1 << 10),
            ("heads", self.heads, 1 << 10),
            ("head", self.head, 1 << 10),
            ("window", self.window, 1 << 20),
            ("vocabulary", self.vocabulary, 1 << 16),
        ];
        for (name, value, most) in counts {
            if value == 0 || value > most {
                return Err(format!("`model.{name}` is {value}; it has to lie between 1 and {most}"));
            }
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(format!("`model.dropout` is {}; it has to lie in [0, 1)", self.dropout));
        }
        if !(self.deviation.is_finite() && self.deviation > 0.0) {
            return Err(format!("`model.deviation` is {}; it has to be larger than 0", self.deviation));
        }
        Ok(())
    }
}
