//! Checksums of files: XXH3 with 64 bits, computed while a file is written and again when it is opened.

use std::hash::Hasher;
use std::io::{self, Write};
use twox_hash::XxHash3_64;

/// As it stands in a file: the name of the function and 16 hexadecimal digits.
pub fn checksum(bytes: &[u8]) -> String {
    written(XxHash3_64::oneshot(bytes))
}

fn written(hash: u64) -> String {
    format!("xxh3:{hash:016x}")
}

/// A writer that keeps the checksum and the number of the bytes that went through.
pub struct Summed<W> {
    inner: W,
    hasher: XxHash3_64,
    bytes: u64,
}

impl<W: Write> Summed<W> {
    pub fn new(inner: W) -> Summed<W> {
        Summed { inner, hasher: XxHash3_64::new(), bytes: 0 }
    }

    /// What it wrote to, the checksum and the number of bytes.
    pub fn finish(self) -> (W, String, u64) {
        (self.inner, written(self.hasher.finish()), self.bytes)
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hasher.write(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_in_pieces_gives_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..100_000u64).map(|i| ((i * i) >> 7) as u8).collect();
        let mut writer = Summed::new(Vec::new());
        for piece in bytes.chunks(777) {
            writer.write_all(piece).expect("memory");
        }
        let (written, sum, count) = writer.finish();
        assert_eq!((sum, count), (checksum(&bytes), 100_000));
        assert_eq!(written, bytes);
    }
}
