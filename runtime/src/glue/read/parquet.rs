//! The hub's tables: columns of text, and a column of classes as whole numbers.

use super::Rows;
use crate::glue::columns::{Row as Example, places, row};
use crate::glue::task::Task;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use std::fs::File;
use std::path::Path;

pub fn rows(path: &Path, task: Task) -> Result<Rows, String> {
    let wrong = |error: ParquetError| format!("cannot read `{}`: {error}", path.display());
    let file = File::open(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let file = SerializedFileReader::new(file).map_err(wrong)?;
    let fields = file.metadata().file_metadata().schema_descr().root_schema().get_fields();
    let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
    let places = places(task, &names).map_err(|why| format!("{}: {why}", path.display()))?;
    let wanted: Vec<String> = places.iter().map(|place| names[*place].to_string()).collect();
    // The other columns are not read, whatever they hold.
    let columns = places.iter().map(|place| fields[*place].clone()).collect();
    let columns = Type::group_type_builder("columns").with_fields(columns).build().map_err(wrong)?;
    let mut found = Rows::default();
    for (i, row) in file.get_row_iter(Some(columns)).map_err(wrong)?.enumerate() {
        let row = row.map_err(wrong)?;
        found.push(|| format!("{}: row {}", path.display(), i + 1), of_row(task, &wanted, &row));
    }
    Ok(found)
}

fn of_row(task: Task, wanted: &[String], fields: &Row) -> Result<Example, String> {
    let of = |name: &String| fields.get_column_iter().find(|(own, _)| *own == name).ok_or_else(|| missing(name));
    let cells: Vec<String> = wanted.iter().map(|name| of(name).and_then(cell)).collect::<Result<_, _>>()?;
    row(task, &cells.iter().map(String::as_str).collect::<Vec<_>>())
}

fn missing(name: &str) -> String {
    format!("there is no `{name}`")
}

fn cell((name, field): (&String, &Field)) -> Result<String, String> {
    match field {
        Field::Str(text) => Ok(text.clone()),
        Field::Bytes(bytes) => String::from_utf8(bytes.data().to_vec()).map_err(|_| format!("`{name}` is not UTF-8")),
        Field::Byte(_)
        | Field::Short(_)
        | Field::Int(_)
        | Field::Long(_)
        | Field::UByte(_)
        | Field::UShort(_)
        | Field::UInt(_)
        | Field::ULong(_) => Ok(field.to_string()),
        _ => Err(format!("`{name}` is neither text nor a whole number")),
    }
}
