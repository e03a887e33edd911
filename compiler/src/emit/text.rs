//! A document as Unicode text that reads well in 100 columns.

use super::document::{Document, Line, Piece};
use crate::notation::math::Math;
use crate::notation::text;

const WIDTH: usize = 100;

/// The document as text.
pub fn print(document: &Document) -> String {
    let mut out = format!("{}\n", document.title);
    for section in &document.sections {
        out.push_str(&format!("\n{}\n", section.title));
        print_lines(&section.lines, &mut out);
    }
    out
}

/// The lines of a section.
pub fn print_lines(lines: &[Line], out: &mut String) {
    for line in lines {
        match line {
            Line::Note(pieces) => wrap(&sentence(pieces), "    ", out),
            Line::Equation { left, right, with } => equation(left, right, with, out),
        }
    }
}

/// A sentence with its formulas on the line.
pub fn sentence(pieces: &[Piece]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Words(words) => words.clone(),
            Piece::Formula(formula) => text::print(formula),
        })
        .collect()
}

fn equation(left: &Math, right: &[Math], with: &[(Math, Math)], out: &mut String) {
    let left = text::print(left);
    let indent = " ".repeat(4 + width(&left) + 1);
    for (j, side) in right.iter().enumerate() {
        let start = if j == 0 { format!("    {left} = ") } else { format!("{indent}= ") };
        let mut line = format!("{start}{}", text::print(side));
        if j + 1 == right.len() && !with.is_empty() {
            let pairs: Vec<String> =
                with.iter().map(|(a, b)| format!("{} = {}", text::print(a), text::print(b))).collect();
            let tail = pairs.join(",  ");
            if width(&line) + width(&tail) + 3 <= WIDTH {
                line.push_str(&format!(",  {tail}"));
            } else {
                push_broken(&line, &indent, out);
                line = format!("    with {tail}");
            }
        }
        push_broken(&line, &indent, out);
    }
}

/// Breaks a long formula before a + or − outside every bracket.
fn push_broken(line: &str, indent: &str, out: &mut String) {
    let mut start = String::new();
    let mut rest = line;
    loop {
        // No break is looked for beyond the width, so that a formula of many lines is read once.
        let head: String = start.chars().chain(rest.chars().take(4 * WIDTH)).collect();
        let Some(at) = break_point(&head).filter(|_| width(&head) > WIDTH) else { break };
        let (first, second) = rest.split_at(at - start.len());
        out.push_str(&start);
        out.push_str(first.trim_end());
        out.push('\n');
        start = format!("{indent}  ");
        rest = second.trim_start();
    }
    out.push_str(&start);
    out.push_str(rest);
    out.push('\n');
}

/// The last place within the width where a sum may be broken, at the least depth of brackets.
fn break_point(line: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut best: Option<(usize, usize)> = None;
    let indent = line.len() - line.trim_start().len();
    for (byte, c) in line.char_indices().take(WIDTH + 1) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let breaks =
            line[byte..].starts_with(" + ") || line[byte..].starts_with(" − ") || line[byte..].starts_with(" else ");
        if breaks && byte > indent + 20 && best.is_none_or(|(_, d)| depth <= d) {
            best = Some((byte, depth));
        }
    }
    best.map(|(byte, _)| byte)
}

/// Breaks a sentence between words.
fn wrap(text: &str, indent: &str, out: &mut String) {
    let mut line = indent.to_string();
    for word in text.split_whitespace() {
        if width(&line) + width(word) + 1 > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line = indent.to_string();
        }
        line.push_str(word);
        line.push(' ');
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// Columns, combining marks not counted.
fn width(text: &str) -> usize {
    text.chars().filter(|c| !('\u{300}'..='\u{36f}').contains(c)).count()
}
