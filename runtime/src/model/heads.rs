//! Heads side by side in a row, `[B, N, parts·H·d_h]`, and one after the other, `[B, H, N, d_h]`.

use rayon::prelude::*;

/// The lengths of an array of heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    pub batch: usize,
    pub tokens: usize,
    pub heads: usize,
    pub head: usize,
}

impl Lengths {
    /// H·d_h.
    pub fn width(&self) -> usize {
        self.heads * self.head
    }

    /// Numbers of one part.
    pub fn numbers(&self) -> usize {
        self.batch * self.tokens * self.width()
    }
}

/// Part `part` of `parts` of every row, head after head.
pub fn split(rows: &[f32], lengths: Lengths, [part, parts]: [usize; 2], out: &mut [f32]) {
    let Lengths { tokens, heads, head, .. } = lengths;
    let width = parts * lengths.width();
    out[..lengths.numbers()].par_chunks_mut((tokens * head).max(1)).enumerate().for_each(|(i, own)| {
        let (b, h) = (i / heads, i % heads);
        let column = (part * heads + h) * head;
        for (to, row) in own.chunks_exact_mut(head).zip(rows[b * tokens * width..].chunks_exact(width)) {
            to.copy_from_slice(&row[column..column + head]);
        }
    });
}

/// The inverse of [`split`], for all parts of a row at once.
pub fn merge(arrays: &[&[f32]], lengths: Lengths, out: &mut [f32]) {
    let Lengths { batch, tokens, heads, head } = lengths;
    let width = arrays.len() * lengths.width();
    out[..batch * tokens * width].par_chunks_mut(width.max(1)).with_min_len(16).enumerate().for_each(|(i, row)| {
        let (b, t) = (i / tokens, i % tokens);
        for (j, to) in row.chunks_exact_mut(head).enumerate() {
            let (part, h) = (j / heads, j % heads);
            let start = ((b * heads + h) * tokens + t) * head;
            to.copy_from_slice(&arrays[part][start..start + head]);
        }
    });
}
