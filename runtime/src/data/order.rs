//! The order in which examples are visited: every epoch is a shuffle that depends on the seed and the epoch alone, so a
//! run that was interrupted goes on exactly where it was.

use crate::model::random::Stream;
use std::sync::{Mutex, PoisonError};

/// Keeps this use of a seed apart from others.
const ORDER: u64 = 0x6f72_6465_7221;

/// Visits `count` examples again and again.
#[derive(Debug)]
pub struct Order {
    count: usize,
    stream: Stream,
    /// The epoch that was asked for last.
    latest: Mutex<Option<(u64, Vec<u32>)>>,
}

impl Order {
    pub fn new(count: usize, seed: u64) -> Result<Order, String> {
        match u32::try_from(count) {
            Ok(0) => Err("there are no examples to visit".to_string()),
            Ok(_) => Ok(Order { count, stream: Stream::new(seed).stream(ORDER), latest: Mutex::new(None) }),
            Err(_) => Err(format!("{count} examples are more than can be put in order; {} can", u32::MAX)),
        }
    }

    /// The example at this position, counted from the beginning of the first epoch.
    pub fn at(&self, position: u64) -> usize {
        let epoch = self.epoch_of(position);
        let within = (position % self.count as u64) as usize;
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        match &*latest {
            Some((known, shuffled)) if *known == epoch => shuffled[within] as usize,
            _ => {
                let shuffled = shuffled(self.count, self.stream.stream(epoch));
                let example = shuffled[within] as usize;
                *latest = Some((epoch, shuffled));
                example
            }
        }
    }

    /// How often all examples were visited before.
    pub fn epoch_of(&self, position: u64) -> u64 {
        position / self.count as u64
    }
}

/// The numbers below `count` in random order, by Fisher and Yates.
pub(crate) fn shuffled(count: usize, stream: Stream) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count as u32).collect();
    for i in (1..count).rev() {
        numbers.swap(i, below(stream, i as u64, i + 1));
    }
    numbers
}

/// A random number below a bound.
pub(super) fn below(stream: Stream, index: u64, bound: usize) -> usize {
    ((u128::from(stream.bits(index)) * bound as u128) >> 64) as usize
}
