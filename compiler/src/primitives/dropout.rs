//! Dropout without state: the random bit of an entry is a hash of its position, so the backward pass, another thread
//! or another tiling sees the same mask without storing it.

use super::real::Real;
use std::ops::Range;

/// A dropout mask over (head, row, token), fixed by its seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// Two masks with different seeds are independent.
    pub seed: u64,
    /// An entry is dropped when its 32 random bits are below this: rate * 2^32.
    pub threshold: u32,
    /// What a kept entry is multiplied by: 1 / (1 - rate).
    pub scale: f32,
}

impl Dropout {
    /// The mask that drops entries with probability `rate`, in [0, 1). Panics for other rates.
    pub fn new(seed: u64, rate: f64) -> Dropout {
        assert!((0.0..1.0).contains(&rate), "a dropout rate is in [0, 1), not {rate}");
        let threshold = (rate * 4_294_967_296.0).round() as u32;
        Dropout { seed, threshold, scale: (1.0 / (1.0 - rate)) as f32 }
    }

    /// The factor of one entry: 0 with probability rate, else 1 / (1 - rate).
    ///
    /// In a loop over tokens, take [`row_key`](Dropout::row_key) once and then [`keeps`](Dropout::keeps) per token.
    #[inline(always)]
    pub fn factor(&self, head: u32, row: u32, token: u32) -> f32 {
        if self.keeps(self.row_key(head, row), token) { self.scale } else { 0.0 }
    }

    /// The factors of a row at these tokens.
    #[inline(always)]
    pub fn row<T: Real>(&self, head: u32, row: usize, tokens: Range<usize>, factors: &mut [T]) {
        let (key, scale) = (self.row_key(head, row as u32), T::of(f64::from(self.scale)));
        for (factor, token) in factors.iter_mut().zip(tokens) {
            *factor = if self.keeps(key, token as u32) { scale } else { T::ZERO };
        }
    }

    /// The key of one row: 64-bit mixes of seed, head and row, folded to 32 bits.
    #[inline(always)]
    pub fn row_key(&self, head: u32, row: u32) -> u32 {
        let place = (u64::from(head) << 32) | u64::from(row);
        let mixed = mix64(mix64(self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ place);
        (mixed ^ (mixed >> 32)) as u32
    }

    /// Whether the entry at `token` of the row with this key is kept.
    #[inline(always)]
    pub fn keeps(&self, key: u32, token: u32) -> bool {
        random_bits(key, token) >= self.threshold
    }
}

/// 32 random bits of (key, token): three rounds of multiply and xor-shift.
///
/// The key enters twice, so that two rows whose keys are close are not shifted or permuted copies of one another.
#[inline(always)]
fn random_bits(key: u32, token: u32) -> u32 {
    let x = token.wrapping_mul(0x9e37_79b9) ^ key;
    let x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    let x = (x ^ (x >> 13)).wrapping_add(key.rotate_left(16)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// A bijective mix of 64 bits in which every input bit reaches every output bit.
#[inline(always)]
fn mix64(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
