//! Aligned columns of Unicode text.

/// Rows as lines, columns two spaces apart, each line indented by `indent`; the last column keeps its own width.
pub fn table<const N: usize>(rows: &[[String; N]], indent: usize) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| width(&row[column]));
        cells.max().unwrap_or(0)
    });
    rows.iter().map(|row| line(row, widths, indent)).collect()
}

fn line<const N: usize>(row: &[String; N], widths: [usize; N], indent: usize) -> String {
    let mut line = " ".repeat(indent);
    for (cell, wanted) in row.iter().zip(widths) {
        line.push_str(cell);
        line.push_str(&" ".repeat(wanted.saturating_sub(width(cell)) + 2));
    }
    format!("{}\n", line.trim_end())
}

/// Text of at most `most` columns; what is cut shows as `…`.
pub fn shortened(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_string();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Lines of at most `most` columns, broken between words.
pub fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let room = lines.last().map_or(0, |line| width(line) + 1 + width(word)) <= most;
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if room => *line = format!("{line} {word}"),
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

/// Columns; combining marks take none.
pub fn width(text: &str) -> usize {
    let marks = '\u{300}'..='\u{36f}';
    text.chars().filter(|c| !marks.contains(c)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_the_letters() {
        let rows = [["k\u{304}", "one", ""], ["∇F", "x", "last"]].map(|row| row.map(String::from));
        assert_eq!(table(&rows, 1), " k\u{304}   one\n ∇F  x    last\n");
        assert_eq!(table::<2>(&[], 1), "");
    }

    #[test]
    fn sentences_are_broken_between_words() {
        assert_eq!(wrapped("α β γδε ζ", 3), ["α β", "γδε", "ζ"]);
        assert_eq!(wrapped("too long", 3), ["too", "long"]);
        assert_eq!(wrapped("", 3), [""]);
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(shortened("αβγδ", 4), "αβγδ");
        assert_eq!(shortened("αβ γδ", 4), "αβ…");
        assert_eq!(shortened("αβ", 0), "…");
    }
}
