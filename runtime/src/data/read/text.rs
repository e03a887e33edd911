//! A plain text as one document, in pieces that are cut where no token can be.

use super::{Piece, Stream, broken};
use crate::data::parts::cut;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a piece.
pub const PIECE: usize = 1 << 20;

struct Text {
    path: PathBuf,
    stream: Stream,
    /// What was read and is in no piece yet.
    held: String,
    /// The beginning of a character whose end is not read yet.
    half: Vec<u8>,
    /// Bytes that were read.
    read: usize,
    is_read: bool,
    is_over: bool,
}

/// The whole text as one document.
pub fn whole(path: &Path, stream: Stream) -> impl Iterator<Item = Result<Piece, String>> + Send + use<> {
    let (held, half) = (String::new(), Vec::new());
    Text { path: path.to_path_buf(), stream, held, half, read: 0, is_read: false, is_over: false }
}

impl Text {
    /// Reads until there is more than a piece, or nothing is left.
    fn read(&mut self) -> Result<(), String> {
        let mut buffer = vec![0; PIECE];
        while self.held.len() <= PIECE && !self.is_read {
            let count = self.stream.read(&mut buffer).map_err(|error| broken(&self.path, &error))?;
            self.is_read = count == 0;
            self.read += count;
            self.half.extend_from_slice(&buffer[..count]);
            self.take_characters()?;
        }
        Ok(())
    }

    /// Moves whole characters to the text.
    fn take_characters(&mut self) -> Result<(), String> {
        let (valid, is_cut_off) = match std::str::from_utf8(&self.half) {
            Ok(text) => (text, false),
            Err(error) => {
                let (valid, _) = self.half.split_at(error.valid_up_to());
                (std::str::from_utf8(valid).unwrap_or_default(), error.error_len().is_none())
            }
        };
        let count = valid.len();
        self.held.push_str(valid);
        self.half.drain(..count);
        if self.half.is_empty() || is_cut_off && !self.is_read {
            return Ok(());
        }
        let place = self.read - self.half.len();
        Err(format!("{}: this is not UTF-8 from byte {place} on", self.path.display()))
    }

    fn piece(&mut self) -> Result<Piece, String> {
        self.read()?;
        if self.held.len() > PIECE {
            let rest = self.held.split_off(cut(&self.held, PIECE));
            return Ok(Piece { text: std::mem::replace(&mut self.held, rest), ends: false });
        }
        self.is_over = true;
        Ok(Piece::whole(std::mem::take(&mut self.held)))
    }
}

impl Iterator for Text {
    type Item = Result<Piece, String>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.is_over).then(|| self.piece().inspect_err(|_| self.is_over = true))
    }
}
