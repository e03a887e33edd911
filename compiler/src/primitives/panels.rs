//! Vectors of tokens in panels: a panel holds as many tokens as registers do, component by component, so that the
//! tokens of a panel lie side by side.

use super::lanes::MOST_LANES;

/// The entries of the panels of so many tokens; the last panel may be longer than what is left of them.
pub fn length(tokens: usize, head: usize) -> usize {
    tokens.next_multiple_of(MOST_LANES) * head
}

/// Puts vectors into panels: component e of token n goes to place n mod [`MOST_LANES`] of row e of its panel. Places
/// that no token has are 0.
pub fn fill<T: Copy + Default>(vectors: &[T], head: usize, panels: &mut [T]) {
    for (panel, vectors) in panels.chunks_exact_mut(MOST_LANES * head).zip(vectors.chunks(MOST_LANES * head)) {
        if vectors.len() < panel.len() {
            panel.fill(T::default());
        }
        for (place, vector) in vectors.chunks_exact(head).enumerate() {
            for (row, x) in panel.chunks_exact_mut(MOST_LANES).zip(vector) {
                row[place] = *x;
            }
        }
    }
}
