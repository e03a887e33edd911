//! Where in the text something stands: byte offsets, so that every later stage can point back at the recipe
//! without keeping the text itself.

/// A half-open range of byte offsets into a [`Source`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, PartialOrd, Ord)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// Sources are limited far below 4 GiB; offsets beyond that saturate instead of wrapping.
    pub fn new(start: usize, end: usize) -> Span {
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Span { start: offset(start), end: offset(end) }
    }

    /// The smallest span that covers both.
    pub fn join(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The byte range, clamped so that it always slices `text` without a panic.
    pub fn clamp_to(self, text: &str) -> std::ops::Range<usize> {
        let start = floor_boundary(text, self.start as usize);
        let end = ceil_boundary(text, self.end as usize);
        start..end.max(start)
    }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// A value together with the place it came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spanned<T> {
    pub node: T,
    pub span: Span,
}

/// One recipe file: the name to show in messages, and its text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Source {
    pub name: String,
    pub text: String,
}

impl Source {
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        Source { name: name.into(), text: text.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, start: usize, end: usize, expect: &str) {
        assert_eq!(&text[Span::new(start, end).clamp_to(text)], expect);
    }

    #[test]
    fn clamping_respects_text_and_characters() {
        check("abc", 1, 2, "b");
        check("abc", 2, 99, "c");
        check("abc", 50, 99, "");
        check("abc", 2, 1, "");
        check("aβc", 2, 2, "β");
        check("", 0, 1, "");
    }

    #[test]
    fn joining_covers_both() {
        assert_eq!(Span::new(4, 5).join(Span::new(1, 2)), Span::new(1, 5));
    }
}
