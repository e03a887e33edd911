//! What the analysis says: sections of formulas and sentences, as text and as JSON.

use super::verdict::Verdict;
use crate::emit::document::Line;
use crate::emit::{json, text};
use serde_json::{Map, Value, json};

/// The whole report.
#[derive(Clone, Debug)]
pub struct Report {
    pub title: String,
    /// What each energy is in q, by the energy's name.
    pub verdicts: Vec<(&'static str, Verdict)>,
    pub sections: Vec<Section>,
    /// Disagreements between what is claimed and what is seen; there should be none.
    pub problems: Vec<String>,
}

/// Some lines under a title.
#[derive(Clone, Debug)]
pub struct Section {
    /// The key in JSON.
    pub name: &'static str,
    pub title: String,
    pub lines: Vec<Line>,
}

impl Report {
    pub fn verdict(&self, energy: &str) -> Option<Verdict> {
        self.verdicts.iter().find(|(name, _)| *name == energy).map(|(_, verdict)| *verdict)
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.title);
        for section in &self.sections {
            out.push_str(&format!("\n{}\n", section.title));
            text::print_lines(&section.lines, &mut out);
        }
        out
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let verdicts: Map<String, Value> =
            self.verdicts.iter().map(|(name, verdict)| (name.to_string(), verdict.word().into())).collect();
        let sections: Map<String, Value> = (self.sections.iter())
            .map(|section| (section.name.to_string(), section.lines.iter().map(json::line).collect()))
            .collect();
        json!({ "recipe": self.title, "verdicts": verdicts, "sections": sections, "problems": self.problems })
    }
}
