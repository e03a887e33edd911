//! Small tables: text with aligned columns for the terminal, Markdown for reports. Columns of numbers stand right.

use unicode_width::UnicodeWidthStr;

const GAP: &str = "  ";

/// A table for the terminal: a header, a rule, the rows.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let columns = columns(header, rows);
    let rule: Vec<String> = columns.iter().map(|column| "─".repeat(column.width)).collect();
    let mut text = line(&columns, header);
    text.push_str(&line(&columns, &rule));
    rows.iter().for_each(|row| text.push_str(&line(&columns, row)));
    text
}

/// The same table in Markdown.
pub fn markdown(header: &[&str], rows: &[Vec<String>]) -> String {
    let escaped = |cell: &str| cell.replace('|', "\\|").replace('\n', " ");
    let header: Vec<String> = header.iter().map(|cell| escaped(cell)).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| escaped(cell)).collect()).collect();
    let mut columns = columns(&header, &rows);
    columns.iter_mut().for_each(|column| column.width = column.width.max(3));
    let rule: Vec<String> = (columns.iter())
        .map(|column| match column.is_number {
            true => "-".repeat(column.width - 1) + ":",
            false => "-".repeat(column.width),
        })
        .collect();
    let row = |cells: &[String]| format!("| {} |\n", padded(&columns, cells).join(" | "));
    let header: Vec<String> = header.iter().map(|cell| cell.to_string()).collect();
    [row(&header), row(&rule)].into_iter().chain(rows.iter().map(|cells| row(cells))).collect()
}

struct Column {
    width: usize,
    is_number: bool,
}

/// As many columns as the longest row has.
fn columns(header: &[&str], rows: &[Vec<String>]) -> Vec<Column> {
    let count = rows.iter().map(Vec::len).fold(header.len(), usize::max);
    let of = |place: usize| {
        let cells = || rows.iter().filter_map(move |row| row.get(place));
        let wide = cells().map(|cell| cell.width()).max().unwrap_or(0);
        let width = wide.max(header.get(place).map_or(0, |cell| cell.width()));
        Column { width, is_number: cells().any(|cell| is_number(cell)) && cells().all(|c| is_number(c) || is_none(c)) }
    };
    (0..count).map(of).collect()
}

/// A number, maybe with a unit after it: `3.4`, `12 %`, `1.2×`, `±0.1`.
fn is_number(cell: &str) -> bool {
    let digits = cell.trim().trim_start_matches(['+', '-', '−', '±', '~', '.']);
    digits.starts_with(|c: char| c.is_ascii_digit()) && !digits.contains([',', '/', ':'])
}

/// What stands where there is no number.
fn is_none(cell: &str) -> bool {
    ["", "-", "–", "—", "NaN", "inf"].contains(&cell.trim())
}

fn line<T: AsRef<str>>(columns: &[Column], cells: &[T]) -> String {
    let text = padded(columns, cells).join(GAP);
    format!("{}\n", text.trim_end())
}

fn padded<T: AsRef<str>>(columns: &[Column], cells: &[T]) -> Vec<String> {
    let pad = |(place, column): (usize, &Column)| {
        let cell = cells.get(place).map_or("", T::as_ref);
        let blank = " ".repeat(column.width.saturating_sub(cell.width()));
        if column.is_number { blank + cell } else { cell.to_string() + &blank }
    };
    columns.iter().enumerate().map(pad).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|cell| cell.to_string()).collect()).collect()
    }

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let rows = rows(&[&["softmax", "3.41", "λ"], &["注意", "12.5", "é"], &["l1", "–"]]);
        let expected = "\
run      loss  note
───────  ────  ────
softmax  3.41  λ
注意     12.5  é
l1          –
";
        assert_eq!(table(&["run", "loss", "note"], &rows), expected);
    }

    #[test]
    fn markdown_keeps_bars_inside_cells() {
        let rows = rows(&[&["a|b", "1"], &["c", "20"]]);
        let expected = "\
| run  |   n |
| ---- | --: |
| a\\|b |   1 |
| c    |  20 |
";
        assert_eq!(markdown(&["run", "n"], &rows), expected);
    }

    #[test]
    fn a_table_without_rows_is_its_header() {
        assert_eq!(table(&["a"], &[]), "a\n─\n");
    }

    #[test]
    fn shapes_and_times_are_no_numbers() {
        assert!(["3", "-1e-3", "±0.2", "12 %", "1.2×"].iter().all(|cell| is_number(cell)));
        assert!(!["8,4,512,64", "3:12", "x1", "–"].iter().any(|cell| is_number(cell)));
    }
}
