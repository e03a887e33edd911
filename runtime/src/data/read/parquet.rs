//! A column of texts in a parquet file, row group by row group.

use super::Piece;
use indicatif::ProgressBar;
use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

/// Rows that are held at a time.
const ROWS: usize = 64;

pub struct Column {
    path: PathBuf,
    file: SerializedFileReader<File>,
    column: usize,
    /// The next row group.
    group: usize,
    reader: Option<ColumnReaderImpl<ByteArrayType>>,
    /// Texts that were read; none where a row has none.
    texts: IntoIter<Option<ByteArray>>,
    /// Texts that were given away.
    given: usize,
    bar: ProgressBar,
}

impl Column {
    pub fn open(path: &Path, name: &str, bar: &ProgressBar) -> Result<Column, String> {
        let file = File::open(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        let file = SerializedFileReader::new(file).map_err(|error| broken(path, &error))?;
        let schema = file.metadata().file_metadata().schema_descr();
        let is_named = |column: usize| schema.column(column).path().parts() == [name];
        let column = (0..schema.num_columns()).find(|column| is_named(*column)).ok_or_else(|| {
            let names: Vec<String> =
                schema.columns().iter().map(|column| format!("`{}`", column.path().string())).collect();
            format!("{}: there is no column `{name}`, only {}", path.display(), names.join(", "))
        })?;
        let found = schema.column(column);
        if found.physical_type() != Type::BYTE_ARRAY || found.max_rep_level() > 0 {
            return Err(format!("{}: the column `{name}` holds no texts", path.display()));
        }
        let (path, bar, texts) = (path.to_path_buf(), bar.clone(), Vec::new().into_iter());
        Ok(Column { path, file, column, group: 0, reader: None, texts, given: 0, bar })
    }

    /// The texts of some rows, or `None` if there are no more.
    fn read(&mut self) -> Result<Option<Vec<Option<ByteArray>>>, ParquetError> {
        loop {
            if let Some(reader) = &mut self.reader {
                let (mut levels, mut texts) = (Vec::new(), Vec::new());
                let (rows, _, _) = reader.read_records(ROWS, Some(&mut levels), None, &mut texts)?;
                if rows > 0 {
                    return Ok(Some(aligned(rows, &levels, texts)));
                }
                self.reader = None;
            }
            let metadata = self.file.metadata();
            if self.group == metadata.num_row_groups() {
                return Ok(None);
            }
            self.bar.inc(metadata.row_group(self.group).compressed_size().max(0) as u64);
            let column = self.file.get_row_group(self.group)?.get_column_reader(self.column)?;
            self.group += 1;
            let ColumnReader::ByteArrayColumnReader(reader) = column else {
                return Err(ParquetError::General("the column changes its type".to_string()));
            };
            self.reader = Some(reader);
        }
    }
}

/// Texts row by row: levels are 1 where there is a text, and empty if there is one in every row.
fn aligned(rows: usize, levels: &[i16], texts: Vec<ByteArray>) -> Vec<Option<ByteArray>> {
    let mut texts = texts.into_iter();
    match levels {
        [] => (0..rows).map(|_| texts.next()).collect(),
        _ => levels.iter().map(|level| if *level > 0 { texts.next() } else { None }).collect(),
    }
}

impl Iterator for Column {
    type Item = Result<Piece, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.texts.len() == 0 {
            match self.read() {
                Ok(texts) => self.texts = texts?.into_iter(),
                Err(error) => return Some(Err(broken(&self.path, &error))),
            }
        }
        let bytes = self.texts.next()?;
        self.given += 1;
        let text = bytes.map_or(Ok(String::new()), |bytes| String::from_utf8(bytes.data().to_vec()));
        let wrong = |_| format!("{}: row {} is not UTF-8", self.path.display(), self.given);
        Some(text.map(Piece::whole).map_err(wrong))
    }
}

fn broken(path: &Path, error: &ParquetError) -> String {
    format!("cannot read `{}`: {error}", path.display())
}
