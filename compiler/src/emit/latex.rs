//! A document as LaTeX: a fragment of `align*` environments, or a whole file that compiles.

use super::document::{Document, Line, Piece};
use crate::notation::latex;

/// A file that compiles with any LaTeX that has amsmath.
pub fn print(document: &Document) -> String {
    file(&body(document))
}

/// A body with the preamble it needs.
pub fn file(body: &str) -> String {
    format!(
        "\\documentclass{{article}}\n\\usepackage{{amsmath,amssymb}}\n\\begin{{document}}\n{body}\\end{{document}}\n"
    )
}

/// The document without preamble, to be put into a paper.
pub fn body(document: &Document) -> String {
    let mut out = format!("\\section*{{{}}}\n", escape(&document.title));
    for section in &document.sections {
        out.push_str(&format!("\\paragraph{{{}}}\n", section.title));
        let mut equations: Vec<String> = Vec::new();
        for line in &section.lines {
            match line {
                Line::Equation { left, right, with } => {
                    let sides: Vec<String> = right.iter().map(latex::print).collect();
                    let conditions: String = with
                        .iter()
                        .map(|(a, b)| format!(r", \quad {} = {}", latex::print(a), latex::print(b)))
                        .collect();
                    equations.push(format!("  {} &= {}{conditions}", latex::print(left), sides.join(" \\\\\n  &= ")));
                }
                Line::Note(pieces) => {
                    flush(&mut equations, &mut out);
                    out.push_str(&format!("{}\\par\n", sentence(pieces)));
                }
            }
        }
        flush(&mut equations, &mut out);
    }
    out
}

fn flush(equations: &mut Vec<String>, out: &mut String) {
    if !equations.is_empty() {
        out.push_str(&format!("\\begin{{align*}}\n{}\n\\end{{align*}}\n", equations.join(" \\\\\n")));
        equations.clear();
    }
}

/// A sentence with its formulas between dollar signs.
fn sentence(pieces: &[Piece]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Words(words) => escape(words),
            Piece::Formula(formula) => format!("${}$", latex::print(formula)),
        })
        .collect()
}

/// Words as LaTeX; what it has no sign for becomes a question mark.
pub fn escape(words: &str) -> String {
    let mut out = String::new();
    for c in words.chars() {
        match c {
            '_' | '&' | '%' | '#' | '$' | '{' | '}' => {
                out.push('\\');
                out.push(c);
            }
            '^' => out.push_str(r"\^{}"),
            '\\' => out.push_str(r"\textbackslash{}"),
            '~' => out.push_str(r"\textasciitilde{}"),
            c if c.is_ascii() => out.push(c),
            _ => out.push('?'),
        }
    }
    out
}
