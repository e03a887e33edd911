//! Comments, kept apart from the tree: the scanner collects them, the formatter puts each back where it belongs.

use crate::span::Span;

/// A comment as it is to be printed: without a carriage return, a line comment without blanks at its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comment {
    pub text: String,
    pub span: Span,
}

impl Comment {
    pub fn new(text: &str, span: Span) -> Comment {
        let text = if text.starts_with("//") {
            text.trim_end().to_string()
        } else {
            let lines: Vec<&str> = text.split('\n').map(|line| line.trim_end_matches('\r')).collect();
            lines.join("\n")
        };
        Comment { text, span }
    }
}

/// The comments not yet printed, in the order of the text.
pub struct Comments<'a> {
    /// The text without comments, to see what stands between two places.
    bare: &'a str,
    waiting: std::iter::Peekable<std::slice::Iter<'a, Comment>>,
}

impl<'a> Comments<'a> {
    pub fn new(bare: &'a str, comments: &'a [Comment]) -> Comments<'a> {
        Comments { bare, waiting: comments.iter().peekable() }
    }

    /// Takes the next comment if it starts before `offset`.
    pub fn next_before(&mut self, offset: u32) -> Option<&'a Comment> {
        self.waiting.next_if(|comment| comment.span.start < offset)
    }

    /// Takes the next comment if it follows on the line that `offset` is on.
    pub fn next_on_line(&mut self, offset: u32) -> Option<&'a Comment> {
        let bare = self.bare;
        self.waiting.next_if(|comment| {
            let between = bare.get(offset as usize..comment.span.start as usize);
            between.is_some_and(|gap| gap.trim().is_empty() && !gap.contains('\n'))
        })
    }

    /// Whether the author left a blank line between two places.
    pub fn blank_line_between(&self, from: u32, to: u32) -> bool {
        let gap = self.bare.get(from as usize..to as usize);
        gap.is_some_and(|gap| gap.bytes().filter(|byte| *byte == b'\n').nth(1).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        assert_eq!(Comment::new(text, Span::default()).text, expect);
    }

    #[test]
    fn line_ends_are_normal() {
        check("// a \r", "// a");
        check("/* a \r\n b\r\r\n*/", "/* a \n b\n*/");
    }
}
