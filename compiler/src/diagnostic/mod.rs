//! What the compiler has to say about a recipe, as data: a stable code, a message, labelled places, notes and
//! help. How it looks on a terminal is the business of [`render`] alone.

mod code;
mod nearest;
mod render;

pub use code::Code;
pub use nearest::nearest;
pub use render::{render, render_all};

use crate::span::Span;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    pub code: Code,
    pub severity: Severity,
    pub message: String,
    pub labels: Vec<Label>,
    pub notes: Vec<String>,
    pub help: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
    Note,
}

/// A place in the text with a word about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    pub span: Span,
    pub text: String,
    pub primary: bool,
}

impl Diagnostic {
    /// A diagnostic whose severity is that of its code.
    pub fn new(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: code.severity(),
            message: message.into(),
            labels: Vec::new(),
            notes: Vec::new(),
            help: Vec::new(),
        }
    }

    /// Adds the place that is to blame.
    pub fn at(self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.label(span, text, true)
    }

    /// Adds a place that helps to understand.
    pub fn also(self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.label(span, text, false)
    }

    fn label(mut self, span: Span, text: impl Into<String>, primary: bool) -> Diagnostic {
        self.labels.push(Label { span, text: text.into(), primary });
        self
    }

    pub fn note(mut self, text: impl Into<String>) -> Diagnostic {
        self.notes.push(text.into());
        self
    }

    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help.push(text.into());
        self
    }

    /// Adds ``did you mean `x`?`` when one of the candidates is close to `name`.
    pub fn did_you_mean<'a>(self, name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Diagnostic {
        match nearest(name, candidates) {
            Some(candidate) => self.help(format!("did you mean `{candidate}`?")),
            None => self,
        }
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The span of the first primary label, if there is one.
    pub fn primary_span(&self) -> Option<Span> {
        self.labels.iter().find(|label| label.primary).map(|label| label.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builder_keeps_the_order_of_labels_and_takes_severity_from_the_code() {
        let diagnostic = Diagnostic::new(Code::UnknownName, "unknown name `a`")
            .also(Span::new(0, 1), "defined here")
            .at(Span::new(2, 3), "not known")
            .did_you_mean("huber_", ["huber", "lse"]);
        assert!(diagnostic.is_error());
        assert_eq!(diagnostic.primary_span(), Some(Span::new(2, 3)));
        assert_eq!(diagnostic.help, ["did you mean `huber`?"]);
        assert_eq!(Diagnostic::new(Code::ShadowedPrelude, "").severity, Severity::Warning);
    }
}
