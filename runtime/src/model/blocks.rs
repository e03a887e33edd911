//! Work on the rows of an array: in blocks, on all threads, with the widest registers there are.
//!
//! Blocks are the same for any number of threads, and what they add up is added in their order.

use rayon::prelude::*;

/// Rows of a block.
pub const ROWS: usize = 32;

/// Runs a function that was compiled for the widest registers there are; what it calls has to be inlined.
#[inline(always)]
pub fn wide<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

/// Calls `work` with the number of every block and the rows of it that are written.
pub fn each_block(out: &mut [f32], width: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    out.par_chunks_mut((ROWS * width).max(1)).enumerate().for_each(|(i, rows)| {
        wide(
            #[inline(always)]
            || work(i, rows),
        )
    });
}

/// The rows of a block.
#[inline(always)]
pub fn block(array: &[f32], width: usize, i: usize) -> &[f32] {
    let start = i * ROWS * width;
    &array[start..array.len().min(start + ROWS * width)]
}

/// Adds what every block adds up, `[width]` each, to `sum`: in the order of the blocks.
pub fn add_up(blocks: usize, width: usize, sum: &mut [f32], work: impl Fn(usize, &mut [f32]) + Sync) {
    let partial: Vec<Vec<f32>> = (0..blocks)
        .into_par_iter()
        .map(|i| {
            let mut own = vec![0.0; width];
            wide(
                #[inline(always)]
                || work(i, &mut own),
            );
            own
        })
        .collect();
    for own in partial {
        sum.iter_mut().zip(own).for_each(|(x, y)| *x += y);
    }
}

/// How many blocks the rows of an array make.
pub fn count(length: usize, width: usize) -> usize {
    length.div_ceil((ROWS * width).max(1))
}

/// A buffer of this length; what was in it stays, so that pages touched once are used again.
pub fn sized(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    &mut buffer[..length]
}
