//! Heads side by side in a token, `[B, N, parts·H·d_h]`, and one after the other, `[B, H, N, d_h]`.

use rayon::prelude::*;

/// The lengths `[B, N, H, d_h]`.
pub type Lengths = [usize; 4];

/// Part `part` of `parts` of every token, head after head.
pub fn split(tokens: &[f32], [batch, n, heads, head]: Lengths, part: usize, parts: usize) -> Vec<f32> {
    let width = parts * heads * head;
    let mut out = vec![0.0; batch * heads * n * head];
    out.par_chunks_mut((n * head).max(1)).enumerate().for_each(|(i, own)| {
        let (b, h) = (i / heads, i % heads);
        let column = (part * heads + h) * head;
        for (row, token) in own.chunks_exact_mut(head).zip(tokens[b * n * width..].chunks_exact(width)) {
            row.copy_from_slice(&token[column..column + head]);
        }
    });
    out
}

/// The inverse of [`split`], for all parts of a token at once.
pub fn merge(arrays: &[&[f32]], [batch, n, heads, head]: Lengths) -> Vec<f32> {
    let width = arrays.len() * heads * head;
    let mut out = vec![0.0; batch * n * width];
    out.par_chunks_mut(width.max(1)).with_min_len(16).enumerate().for_each(|(i, token)| {
        let (b, t) = (i / n, i % n);
        for (j, row) in token.chunks_exact_mut(head).enumerate() {
            let (part, h) = (j / heads, j % heads);
            let start = ((b * heads + h) * n + t) * head;
            row.copy_from_slice(&arrays[part][start..start + head]);
        }
    });
    out
}
