//! Documents out of files, a piece at a time, so that a file may be larger than memory.

mod lines;
#[cfg(feature = "parquet")]
mod parquet;
mod text;

use flate2::read::MultiGzDecoder;
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// A document, or a part of a large one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub text: String,
    /// Whether the document ends behind it.
    pub ends: bool,
}

impl Piece {
    /// A document in one piece.
    fn whole(text: String) -> Piece {
        Piece { text, ends: true }
    }
}

/// The pieces of a file in order, up to what is wrong with it.
pub type Pieces = Box<dyn Iterator<Item = Result<Piece, String>> + Send>;

/// What a file is read as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct How {
    /// Where the text is: the column of a parquet file, the field of a JSON object.
    pub field: String,
    /// Whether every line of a plain text is a document, and not the file.
    pub lines: bool,
}

impl Default for How {
    fn default() -> How {
        How { field: "text".to_string(), lines: false }
    }
}

/// What a file's name says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Parquet,
    Objects,
    Text,
}

/// The format, and whether it is packed.
fn format(path: &Path) -> Result<(Format, bool), String> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let (name, is_packed) = name.strip_suffix(".gz").map_or((&name[..], false), |inner| (inner, true));
    match (name.rsplit_once('.').map_or("", |(_, extension)| extension), is_packed) {
        ("parquet", false) => Ok((Format::Parquet, false)),
        ("jsonl", _) => Ok((Format::Objects, is_packed)),
        ("txt", _) => Ok((Format::Text, is_packed)),
        _ => {
            let known = "`.parquet`, `.jsonl`, `.jsonl.gz`, `.txt` and `.txt.gz`";
            Err(format!("{}: the name says nothing about the format; {known} are read", path.display()))
        }
    }
}

/// Opens a file. The bar moves by the bytes that are read.
pub fn open(path: &Path, how: &How, bar: &ProgressBar) -> Result<Pieces, String> {
    let (format, is_packed) = format(path)?;
    match format {
        Format::Parquet => columns(path, how, bar),
        Format::Objects => Ok(Box::new(lines::objects(path, &how.field, stream(path, is_packed, bar)?))),
        Format::Text if how.lines => Ok(Box::new(lines::plain(path, stream(path, is_packed, bar)?))),
        Format::Text => Ok(Box::new(text::whole(path, stream(path, is_packed, bar)?))),
    }
}

/// How large all files are together, if all are there and of a format that is read.
pub fn sizes(paths: &[PathBuf]) -> Result<u64, String> {
    let size = |path: &PathBuf| match std::fs::metadata(path) {
        Ok(found) if found.is_file() => format(path).map(|_| found.len()),
        Ok(_) => Err(format!("`{}` is no file", path.display())),
        Err(error) => Err(format!("cannot read `{}`: {error}", path.display())),
    };
    paths.iter().map(size).sum()
}

#[cfg(feature = "parquet")]
fn columns(path: &Path, how: &How, bar: &ProgressBar) -> Result<Pieces, String> {
    Ok(Box::new(parquet::Column::open(path, &how.field, bar)?))
}

#[cfg(not(feature = "parquet"))]
fn columns(path: &Path, _: &How, _: &ProgressBar) -> Result<Pieces, String> {
    let how = "build energy-runtime with its feature `parquet`";
    Err(format!("{}: this energyrun reads no parquet files; {how}", path.display()))
}

pub(crate) type Stream = BufReader<Box<dyn Read + Send>>;

/// The bytes of a file, unpacked if they are packed.
pub(crate) fn stream(path: &Path, is_packed: bool, bar: &ProgressBar) -> Result<Stream, String> {
    let file = File::open(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let file = bar.wrap_read(file);
    let bytes: Box<dyn Read + Send> =
        if is_packed { Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 16, file))) } else { Box::new(file) };
    Ok(BufReader::with_capacity(1 << 18, bytes))
}

/// What went wrong while reading.
pub(crate) fn broken(path: &Path, error: &std::io::Error) -> String {
    let why = match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "it ends too early: the file was cut off".to_string(),
        _ => error.to_string(),
    };
    format!("cannot read `{}`: {why}", path.display())
}
