//! Vectors that begin where a line of the cache begins: what a register loads or stores then never lies in two lines.

use crate::primitives::real::Real;
use std::ops::{Deref, DerefMut};

/// Bytes of a line.
const LINE: usize = 64;

/// Numbers in a row.
#[derive(Debug)]
pub struct Aligned<T> {
    entries: Vec<T>,
    start: usize,
    length: usize,
}

impl<T: Real> Aligned<T> {
    pub fn new() -> Aligned<T> {
        Aligned { entries: Vec::new(), start: 0, length: 0 }
    }

    /// As long as is wanted; what is in it is to be overwritten. Rows often grow one by one, so room doubles.
    pub fn resize(&mut self, length: usize) {
        if self.entries.len() < length + LINE / size_of::<T>() {
            let room = (length + LINE / size_of::<T>()).next_power_of_two();
            self.entries = vec![T::ZERO; room];
            self.start = self.entries.as_ptr().align_offset(LINE).min(room - length);
        }
        self.length = length;
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.entries[self.start..self.start + self.length]
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.entries[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_with_a_line_and_is_as_long_as_asked() {
        let mut x: Aligned<f32> = Aligned::new();
        for length in [1, 0, 17, 1000, 64] {
            x.resize(length);
            x.fill(length as f32);
            assert_eq!(x.len(), length);
            assert_eq!(x.as_ptr().addr() % LINE, 0);
        }
    }
}
