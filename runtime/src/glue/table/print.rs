//! The table as text, Markdown, LaTeX and JSON.

use super::{Cell, Line, Measure, Table};
use crate::metrics::table as layout;
use energyc::emit::latex::escape;

impl Table {
    /// For a terminal.
    pub fn text(&self) -> String {
        let rows = self.all_rows(number, "–");
        let notes: String = self.notes.iter().map(|note| format!("{note}\n")).collect();
        format!("{}\n{}\n{notes}", layout::table(&self.header(), &rows), self.caption())
    }

    pub fn markdown(&self) -> String {
        let rows = self.all_rows(number, "–");
        let notes: String = self.notes.iter().map(|note| format!("- {note}\n")).collect();
        let gap = if notes.is_empty() { "" } else { "\n" };
        format!("{}\n{}\n{gap}{notes}", layout::markdown(&self.header(), &rows), self.caption())
    }

    /// A `tabular` that needs no package, with the notes as comments.
    pub fn latex(&self) -> String {
        let said = std::iter::once(self.caption()).chain(self.notes.iter().cloned());
        let comments: String = said.map(|note| format!("% {}\n", note.replace('\n', " "))).collect();
        let header: Vec<String> = self.header().iter().map(|name| escape(name)).collect();
        let mut rows: Vec<String> = (self.all_rows(latex_number, "--").into_iter())
            .map(|mut row| {
                row[0] = escape(&row[0]);
                latex_row(&row)
            })
            .collect();
        let average = rows.pop().unwrap_or_default();
        let columns = format!("lrrr{}", "c".repeat(self.columns.len()));
        let body = format!("\\hline\n{}\\hline\n{}\\hline\n{average}\\hline\n", latex_row(&header), rows.concat());
        format!("{comments}\\begin{{tabular}}{{{columns}}}\n{body}\\end{{tabular}}\n")
    }

    /// Everything, with the scores of every seed.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).map_or_else(|error| format!("\"{error}\"\n"), |text| text + "\n")
    }

    fn header(&self) -> Vec<&str> {
        let own = ["task", "training rows", "dev rows", "majority"];
        own.into_iter().chain(self.columns.iter().map(String::as_str)).collect()
    }

    /// All rows and the average below them, with numbers over seeds and with nothing as they are written here.
    fn all_rows(&self, number: fn(&Cell) -> String, nothing: &str) -> Vec<Vec<String>> {
        let count = |count: Option<usize>| count.map_or(nothing.to_string(), |count| count.to_string());
        let percent = |share: Option<f64>| share.map_or(nothing.to_string(), percent);
        let of_line = |line: &Line| {
            let shown = |cell: &Option<Cell>| match (&line.absent, cell) {
                (_, Some(cell)) => number(cell),
                (Some(_), None) => "absent".to_string(),
                (None, None) => nothing.to_string(),
            };
            let own = [line.name(), count(line.train_rows), count(line.rows), percent(line.majority)];
            own.into_iter().chain(line.cells.iter().map(shown)).collect()
        };
        let average = [self.average_name(), count(None), count(None), percent(self.average_majority)];
        let average = average.into_iter().chain(self.average.iter().map(|share| percent(*share))).collect();
        self.rows.iter().map(of_line).chain(std::iter::once(average)).collect()
    }

    /// `Average`, and of how many rows if some are absent.
    fn average_name(&self) -> String {
        let of_tasks = || self.rows.iter().filter(|line| line.measure == Measure::Accuracy);
        let there = of_tasks().filter(|line| line.cells.iter().any(Option::is_some)).count();
        if there == of_tasks().count() { "Average".to_string() } else { format!("Average of {there}") }
    }

    fn caption(&self) -> String {
        let cells = self.rows.iter().flat_map(|line| line.cells.iter().flatten());
        let over = match cells.map(|cell| cell.values.len()).max().unwrap_or(0) {
            0 => "no result yet".to_string(),
            1 => "one seed".to_string(),
            seeds => format!("mean ± standard deviation over {seeds} seeds"),
        };
        format!("Accuracy in percent, {over}. Majority: always the commonest class of the dev rows.")
    }
}

impl Line {
    /// `MRPC`, `MRPC, F1`.
    fn name(&self) -> String {
        let name = self.task.row_name(&self.split);
        match self.measure {
            Measure::Accuracy => name,
            Measure::Matthews => format!("{name}, Matthews"),
            Measure::F1 => format!("{name}, F1"),
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.2}", 100.0 * share)
}

fn number(cell: &Cell) -> String {
    match cell.deviation {
        Some(deviation) => format!("{} ± {}", percent(cell.mean), percent(deviation)),
        None => percent(cell.mean),
    }
}

fn latex_number(cell: &Cell) -> String {
    match cell.deviation {
        Some(deviation) => format!("${} {{\\scriptstyle \\pm{}}}$", percent(cell.mean), percent(deviation)),
        None => format!("${}$", percent(cell.mean)),
    }
}

fn latex_row(cells: &[String]) -> String {
    format!("{} \\\\\n", cells.join(" & "))
}
