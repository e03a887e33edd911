//! Event files for TensorBoard: scalars by step, beside `metrics.jsonl`.
//!
//! A file is a sequence of frames: the length (u64), its checksum, the bytes of an `Event`, their checksum. An `Event`
//! is a protocol buffer; of its fields only these are written:
//!
//! ```text
//! Event   { 1: wall_time double, 2: step int64, 3: file_version string, 5: summary Summary, 7: session_log Session }
//! Summary { 1: value repeated Value }      Value { 1: tag string, 2: simple_value float }
//! Session { 1: status int32 }
//! ```

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crc::{CRC_32_ISCSI, Crc};

use super::record::{Kind, Record};

/// In file names where others have the name of a machine.
const HOST: &str = "energyrun";
const VERSION: &str = "brain.Event:2";
/// The status of a session that starts.
const START: u64 = 1;

/// An event file that is being written.
#[derive(Debug)]
pub struct Events {
    path: PathBuf,
    file: File,
}

impl Events {
    /// Starts a file in a folder; `seconds` since 1970 tell it from those of other sessions.
    pub fn create(folder: &Path, seconds: u64) -> Result<Events, String> {
        let path = folder.join(name(seconds));
        let file = File::create_new(&path).map_err(|error| cannot_write(&path, &error))?;
        let mut events = Events { path, file };
        events.write(&event(seconds as f64, 0, &field(3, VERSION.as_bytes())))?;
        Ok(events)
    }

    /// The same for a run that goes on after a checkpoint: what earlier files say about later steps does not count.
    /// A session that began in the same second is left its file; this one counts as a second later.
    pub fn resume(folder: &Path, seconds: u64, step: u64) -> Result<Events, String> {
        let is_taken = |seconds: &u64| folder.join(name(*seconds)).exists();
        let seconds = (seconds..).find(|seconds| !is_taken(seconds)).unwrap_or(seconds);
        let mut events = Events::create(folder, seconds)?;
        let session = field(7, &number(1, START));
        events.write(&event(seconds as f64, step + 1, &session))?;
        Ok(events)
    }

    /// Appends scalars of one step; `wall_time` is in seconds since 1970.
    pub fn append(&mut self, wall_time: f64, step: u64, scalars: &[(String, f32)]) -> Result<(), String> {
        self.write(&event(wall_time, step, &field(5, &summary(scalars))))
    }

    /// Appends what a record measured; a note has nothing to show.
    pub fn append_record(&mut self, wall_time: f64, record: &Record) -> Result<(), String> {
        match scalars(record) {
            none if none.is_empty() => Ok(()),
            some => self.append(wall_time, record.step, &some),
        }
    }

    fn write(&mut self, event: &[u8]) -> Result<(), String> {
        let written = self.file.write_all(&frame(event)).and_then(|()| self.file.flush());
        written.map_err(|error| cannot_write(&self.path, &error))
    }
}

fn name(seconds: u64) -> String {
    format!("events.out.tfevents.{seconds}.{HOST}")
}

fn cannot_write(path: &Path, error: &std::io::Error) -> String {
    format!("cannot write `{}`: {error}", path.display())
}

/// The tags of a record: `loss/train` and `loss/valid` share a chart's group, what only training has stands alone.
pub fn scalars(record: &Record) -> Vec<(String, f32)> {
    let of = match record.kind {
        Kind::Train => "train",
        Kind::Valid => "valid",
        Kind::Note => return Vec::new(),
    };
    let values = [
        (format!("loss/{of}"), record.loss),
        (format!("accuracy/{of}"), record.accuracy),
        (format!("energy/{of}"), record.energy),
        ("learning_rate".to_string(), record.learning_rate),
        ("gradient_norm".to_string(), record.gradient_norm),
        (format!("speed/tokens_per_second_{of}"), record.tokens_per_second),
        (format!("speed/gflops_{of}"), record.gflops),
        (format!("memory_mib/{of}"), record.memory_mib),
    ];
    values.into_iter().filter_map(|(tag, value)| Some((tag, value? as f32))).collect()
}

// ---- frames ----

fn frame(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [&length[..], &checksum(&length), bytes, &checksum(bytes)].concat()
}

/// CRC-32C, rotated and shifted so that a checksum of bytes that hold a checksum is no special case.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    const CASTAGNOLI: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);
    CASTAGNOLI.checksum(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

// ---- protocol buffers ----

fn event(wall_time: f64, step: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = tag(1, Wire::Eight);
    bytes.extend(wall_time.to_le_bytes());
    if step > 0 {
        bytes.extend(number(2, step));
    }
    bytes.extend(content);
    bytes
}

fn summary(scalars: &[(String, f32)]) -> Vec<u8> {
    let value = |(name, value): &(String, f32)| {
        let mut bytes = field(1, name.as_bytes());
        bytes.extend(tag(2, Wire::Four));
        bytes.extend(value.to_le_bytes());
        field(1, &bytes)
    };
    scalars.iter().flat_map(value).collect()
}

/// How a field's bytes are to be read.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Eight = 1,
    Length = 2,
    Four = 5,
}

fn tag(place: u64, wire: Wire) -> Vec<u8> {
    varint(place << 3 | wire as u64)
}

fn number(place: u64, value: u64) -> Vec<u8> {
    [tag(place, Wire::Varint), varint(value)].concat()
}

fn field(place: u64, content: &[u8]) -> Vec<u8> {
    [&tag(place, Wire::Length), &varint(content.len() as u64), content].concat()
}

/// Seven bits a byte, the lowest first; the eighth says that more follow.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        assert_eq!(varint(0), [0]);
        assert_eq!(varint(127), [0x7f]);
        assert_eq!(varint(300), [0xac, 0x02]);
        assert_eq!(varint(u64::MAX).len(), 10);
    }

    #[test]
    fn a_record_gives_its_own_tags() {
        let record = Record { learning_rate: Some(0.5), ..Record::measured(Kind::Train, 1, 1, 2.0) };
        assert_eq!(scalars(&record), [("loss/train".to_string(), 2.0), ("learning_rate".to_string(), 0.5)]);
        assert!(scalars(&Record::note(1, 1, "resumed")).is_empty());
    }
}
