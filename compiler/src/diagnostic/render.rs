//! Diagnostics as text, in the way of rustc. Rendering takes any span and any text without a panic: spans are
//! clamped to the text, so a faulty diagnostic still says something.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::{Diagnostic, Label, Severity};
use crate::span::Source;

/// More than this from one file helps nobody.
const MAX_RENDERED: usize = 50;

/// One diagnostic, without a final newline.
pub fn render(diagnostic: &Diagnostic, source: &Source, color: bool) -> String {
    Shown::new(source).render(diagnostic, color)
}

/// All diagnostics of one file and a closing summary line; nothing at all if there are none.
pub fn render_all(diagnostics: &[Diagnostic], source: &Source, color: bool) -> String {
    if diagnostics.is_empty() {
        return String::new();
    }
    let shown = Shown::new(source);
    let mut text = String::new();
    for diagnostic in diagnostics.iter().take(MAX_RENDERED) {
        text.push_str(&shown.render(diagnostic, color));
        text.push_str("\n\n");
    }
    if let Some(rest) = diagnostics.len().checked_sub(MAX_RENDERED).filter(|n| *n > 0) {
        text.push_str(&format!("… and {rest} more\n\n"));
    }
    text.push_str(&summary(diagnostics));
    text.push('\n');
    text
}

/// `2 errors, 1 warning`.
fn summary(diagnostics: &[Diagnostic]) -> String {
    let count = |severity, one: &str| {
        let n = diagnostics.iter().filter(|d| d.severity == severity).count();
        match n {
            0 => None,
            1 => Some(format!("1 {one}")),
            n => Some(format!("{n} {one}s")),
        }
    };
    let parts: Vec<String> =
        [count(Severity::Error, "error"), count(Severity::Warning, "warning"), count(Severity::Note, "note")]
            .into_iter()
            .flatten()
            .collect();
    parts.join(", ")
}

/// The source with the starts of its lines, so that each label finds its line quickly.
struct Shown<'a> {
    source: &'a Source,
    line_starts: Vec<usize>,
}

impl<'a> Shown<'a> {
    fn new(source: &'a Source) -> Shown<'a> {
        let after_newlines = source.text.match_indices('\n').map(|(at, _)| at + 1);
        Shown { source, line_starts: std::iter::once(0).chain(after_newlines).collect() }
    }

    fn render(&self, diagnostic: &Diagnostic, color: bool) -> String {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let title = level.primary_title(diagnostic.message.as_str()).id(diagnostic.code.as_str());
        let window = self.window(&diagnostic.labels);
        let mut group = Group::with_title(title);
        if let Some(window) = &window {
            group = group.element(self.snippet(window, &diagnostic.labels));
        } else {
            group = group.element(annotate_snippets::Origin::path(self.source.name.as_str()));
        }
        for note in &diagnostic.notes {
            group = group.element(Level::NOTE.message(note.as_str()));
        }
        for help in &diagnostic.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }

    /// The lines that hold the labels: rendering is linear in the text it is given, so it gets no more.
    fn window(&self, labels: &[Label]) -> Option<Window<'a>> {
        let text = self.source.text.as_str();
        let ranges = labels.iter().map(|label| label.span.clamp_to(text));
        let (start, end) = ranges.fold(None, |covered: Option<(usize, usize)>, range| {
            let (start, end) = covered.unwrap_or((range.start, range.end));
            Some((start.min(range.start), end.max(range.end)))
        })?;
        let first_line = self.line_of(start);
        let start = self.line_starts[first_line];
        let end = text[end..].find('\n').map_or(text.len(), |at| end + at);
        Some(Window { text: &text[start..end], start, first_line })
    }

    fn line_of(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    fn snippet<'b>(
        &'b self,
        window: &Window<'b>,
        labels: &'b [Label],
    ) -> Snippet<'b, annotate_snippets::Annotation<'b>> {
        let annotations = labels.iter().map(|label| {
            let range = label.span.clamp_to(&self.source.text);
            let kind = if label.primary { AnnotationKind::Primary } else { AnnotationKind::Context };
            let span = range.start - window.start..range.end - window.start;
            let text = Some(label.text.as_str()).filter(|text| !text.is_empty());
            kind.span(span).label(text)
        });
        Snippet::source(window.text)
            .path(self.source.name.as_str())
            .line_start(window.first_line + 1)
            .annotations(annotations)
    }
}

struct Window<'a> {
    text: &'a str,
    start: usize,
    first_line: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Code;
    use crate::span::Span;

    fn check(diagnostic: Diagnostic, text: &str, expect: &str) {
        let source = Source::new("file.recipe", text);
        assert_eq!(render(&diagnostic, &source, false), expect);
    }

    #[test]
    fn looks_like_rustc() {
        check(
            Diagnostic::new(Code::UnknownIngredient, "unknown ingredient `hubber`")
                .at(Span::new(25, 31), "not found")
                .help("did you mean `huber`?"),
            "recipe r {\n    local     hubber(delta = 1.0);\n}\n",
            "\
error[E0201]: unknown ingredient `hubber`
 --> file.recipe:2:15
  |
2 |     local     hubber(delta = 1.0);
  |               ^^^^^^ not found
  |
  = help: did you mean `huber`?",
        );
    }

    #[test]
    fn a_diagnostic_without_a_place_names_the_file() {
        check(
            Diagnostic::new(Code::EmptyFile, "nothing here").note("write something"),
            "",
            "\
error[E0002]: nothing here
--> file.recipe
 = note: write something",
        );
    }

    #[test]
    fn no_span_panics() {
        for text in ["", "\n", "a", "aβ\r\nγ\n", "é", "\u{feff}x\ty", "x\n\n\n"] {
            let source = Source::new("f", text);
            for start in 0..10 {
                for end in 0..10 {
                    let diagnostic = Diagnostic::new(Code::UnexpectedToken, "m")
                        .at(Span::new(start, end), "here")
                        .also(Span::new(end, start), "there")
                        .also(Span::new(9999, 99999), "");
                    render(&diagnostic, &source, false);
                    render(&diagnostic, &source, true);
                }
            }
        }
    }

    #[test]
    fn the_summary_counts_and_the_rest_is_cut() {
        let source = Source::new("f", "x");
        let error = Diagnostic::new(Code::UnknownName, "m").at(Span::new(0, 1), "");
        let warning = Diagnostic::new(Code::ShadowedPrelude, "m").at(Span::new(0, 1), "");
        let few = [error.clone(), warning, error.clone()];
        assert!(render_all(&few, &source, false).ends_with("\n\n2 errors, 1 warning\n"));
        let many = vec![error; 60];
        assert!(render_all(&many, &source, false).ends_with("\n\n… and 10 more\n\n60 errors\n"));
        assert_eq!(render_all(&[], &source, false), "");
    }
}
