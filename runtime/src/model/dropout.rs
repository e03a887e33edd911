//! Dropout of whole vectors: what a sublayer adds, and the embedded tokens.

use super::blocks::{self, ROWS};
use energyc::primitives::dropout::Dropout;

/// The masks of one place in the network.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    pub dropout: Dropout,
    /// Where it is; places with one seed have independent masks.
    pub place: u32,
}

/// Multiplies rows by the factors of their entries: 0, or 1/(1 − rate).
pub fn apply(array: &mut [f32], width: usize, site: Option<Site>) {
    if site.is_some() {
        apply_times(array, width, site, 1.0);
    }
}

/// The same, and by a number.
pub fn apply_times(array: &mut [f32], width: usize, site: Option<Site>, factor: f32) {
    blocks::each_block(
        array,
        width,
        #[inline(always)]
        |i, rows| {
            let Some(Site { dropout, place }) = site else {
                rows.iter_mut().for_each(|x| *x *= factor);
                return;
            };
            let scale = factor * dropout.scale;
            for (j, row) in rows.chunks_exact_mut(width).enumerate() {
                let key = dropout.row_key(place, (i * ROWS + j) as u32);
                for (c, x) in row.iter_mut().enumerate() {
                    *x = if dropout.keeps(key, c as u32) { *x * scale } else { 0.0 };
                }
            }
        },
    );
}
