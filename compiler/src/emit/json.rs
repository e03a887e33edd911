//! A document as JSON: every equation as text, LaTeX, and as a term in the stable form.

use super::document::{Document, Line};
use crate::notation::{latex, text};
use serde_json::{Value, json};

/// The document as a JSON value.
pub fn print(document: &Document) -> Value {
    let sections: serde_json::Map<String, Value> = document
        .sections
        .iter()
        .map(|section| {
            let lines: Vec<Value> = section.lines.iter().map(line).collect();
            (section.stage.name().to_string(), Value::Array(lines))
        })
        .collect();
    json!({ "recipe": document.title, "stages": sections })
}

/// A line of a section.
pub fn line(line: &Line) -> Value {
    match line {
        Line::Note(pieces) => json!({ "note": super::text::sentence(pieces) }),
        Line::Equation { left, right, with } => {
            let side = |m: &crate::notation::Math| json!({ "text": text::print(m), "latex": latex::print(m) });
            let with: Vec<Value> = with.iter().map(|(a, b)| json!({ "left": side(a), "right": side(b) })).collect();
            let right: Vec<Value> = right.iter().map(side).collect();
            let mut value = json!({ "left": side(left), "right": right });
            if !with.is_empty() {
                value["with"] = Value::Array(with);
            }
            value
        }
    }
}
