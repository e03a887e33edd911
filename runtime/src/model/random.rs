//! Random numbers without state: the i-th number of a stream is a hash of the stream and of i.
//!
//! Whoever needs a number says which one; nothing depends on the order of calls, on threads or on a restart.

/// Numbers that belong together, such as the entries of one weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(u64);

impl Stream {
    pub fn new(seed: u64) -> Stream {
        Stream(mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)))
    }

    /// The stream of this number within the stream.
    pub fn stream(self, index: u64) -> Stream {
        Stream(mix(self.0 ^ mix(index.wrapping_mul(0xd1b5_4a32_d192_ed03).wrapping_add(0x8cb9_2ba7_2f3d_8dd7))))
    }

    /// 64 random bits.
    pub fn bits(self, index: u64) -> u64 {
        mix(self.0.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A number in [0, 1).
    pub fn uniform(self, index: u64) -> f64 {
        (self.bits(index) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of the standard normal distribution, by Box and Muller.
    pub fn normal(self, index: u64) -> f64 {
        let (u, v) = (1.0 - self.uniform(2 * index), self.uniform(2 * index + 1));
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

/// A bijective mix of 64 bits in which every input bit reaches every output bit.
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_numbers_have_mean_0_and_variance_1() {
        let stream = Stream::new(7).stream(3);
        let numbers: Vec<f64> = (0..100_000).map(|i| stream.normal(i)).collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let variance = numbers.iter().map(|x| x * x).sum::<f64>() / numbers.len() as f64;
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }

    #[test]
    fn streams_differ() {
        let stream = Stream::new(1);
        assert_ne!(stream.stream(0).bits(0), stream.stream(1).bits(0));
        assert_ne!(stream.bits(0), stream.bits(1));
        assert_ne!(Stream::new(2).bits(0), stream.bits(0));
    }
}
