//! Tables over terms. A term carries its hash, so its table has nothing left to hash; numbers of terms are as good.

use super::expr::Expr;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// What is known of terms.
pub type Memo<V> = HashMap<Expr, V, BuildHasherDefault<Stored>>;
/// Terms that were met.
pub type Seen = HashSet<Expr, BuildHasherDefault<Stored>>;

/// Takes the hash that a term has stored, or several numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stored(u64);

impl Hasher for Stored {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ hash;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}
