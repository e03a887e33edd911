//! Vectors of tokens as the columns of a matrix, which products with queries read along its rows.

use super::lanes::MOST_LANES;
use super::product::Strides;

/// With fewer queries, turning the vectors around costs more than it gains.
const LEAST_QUERIES: usize = 16;

/// With more tokens, a second copy of all vectors is too much memory for what it gains.
const MOST_TOKENS: usize = 8192;

/// Tokens that are turned around together: their entries of a component fill a line of the cache.
const TOGETHER: usize = 16;

/// The matrix: turned around, with the tokens of a component side by side, or the vectors as they are.
pub struct Columns<'a, T> {
    entries: &'a [T],
    strides: Strides,
}

/// From one row of a matrix that is turned around to the next: an odd number of cache lines, so that the entries of a
/// token do not compete for the same place of a cache.
fn pitch(tokens: usize) -> usize {
    tokens.next_multiple_of(MOST_LANES) + TOGETHER
}

/// The entries that [`Columns::new`] needs room for.
pub fn room(queries: usize, tokens: usize, head: usize) -> usize {
    let is_worth_it = queries >= LEAST_QUERIES && tokens <= MOST_TOKENS;
    if is_worth_it { pitch(tokens) * head } else { 0 }
}

impl<'a, T: Copy> Columns<'a, T> {
    /// The columns of some vectors; `room` is as long as [`room`] says.
    pub fn new(vectors: &'a [T], head: usize, room: &'a mut [T]) -> Columns<'a, T> {
        if room.is_empty() {
            return Columns { entries: vectors, strides: Strides::columns(head) };
        }
        let pitch = room.len() / head;
        for (i, vectors) in vectors.chunks(TOGETHER * head).enumerate() {
            for (e, row) in room.chunks_exact_mut(pitch).enumerate() {
                let row = &mut row[i * TOGETHER..];
                row.iter_mut().zip(vectors[e..].iter().step_by(head)).for_each(|(y, x)| *y = *x);
            }
        }
        Columns { entries: room, strides: Strides::rows(pitch) }
    }

    /// The matrix from one token on.
    pub fn from(&self, token: usize) -> (&[T], Strides) {
        (&self.entries[token * self.strides.column..], self.strides)
    }
}
