//! Masks by name: `causal`, `full`, `window:W`.

use energyc::primitives::visible::Visible;
use std::str::FromStr;

/// Which tokens a query sees, whatever the lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Tokens up to the query's own.
    Causal,
    /// Every token.
    Full,
    /// The query's own token and those before it, this many in all.
    Window(usize),
}

impl Mask {
    pub fn visible(self, queries: usize, tokens: usize) -> Visible {
        match self {
            Mask::Causal => Visible::causal(queries, tokens),
            Mask::Full => Visible::full(queries, tokens),
            Mask::Window(width) => Visible::window(queries, tokens, width),
        }
    }
}

impl FromStr for Mask {
    type Err = String;

    fn from_str(text: &str) -> Result<Mask, String> {
        match (text, text.strip_prefix("window:").map(str::parse)) {
            ("causal", _) => Ok(Mask::Causal),
            ("full", _) => Ok(Mask::Full),
            (_, Some(Ok(0))) => Err("a window of 0 tokens shows nothing; the smallest is `window:1`".to_string()),
            (_, Some(Ok(width))) => Ok(Mask::Window(width)),
            _ => Err("a mask is `causal`, `full` or `window:W` with a whole number W ≥ 1".to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_by_name() {
        let read = |text: &str| text.parse::<Mask>();
        assert_eq!(read("causal"), Ok(Mask::Causal));
        assert_eq!(read("full"), Ok(Mask::Full));
        assert_eq!(read("window:3"), Ok(Mask::Window(3)));
        for wrong in ["", "Full", "window", "window:", "window:0", "window:-1", "window:1.5", "window: 2"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
