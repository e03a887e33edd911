//! The first look at the text, before any lexer: takes comments out, pairs the brackets, and finds characters that
//! no recipe uses. Everything here is one pass without recursion, so hostile nesting stops at this door.

use crate::diagnostic::{Code, Diagnostic};
use crate::span::Span;

use super::comments::Comment;

/// A recipe file may not be larger than this.
pub const MAX_BYTES: usize = 1 << 20;

/// So many brackets may be open at once.
pub const MAX_OPEN: usize = 64;

/// After so many, further stray characters are not reported one by one.
const MAX_STRAYS: usize = 200;

/// Characters that look like, or are used like, ones the language has.
const LOOKALIKES: &[(char, &str)] = &[
    ('−', "-"),
    ('–', "-"),
    ('—', "-"),
    ('×', "*"),
    ('·', "*"),
    ('∙', "*"),
    ('⋅', "*"),
    ('÷', "/"),
    ('≤', "<="),
    ('≥', ">="),
    ('²', "^2"),
    ('³', "^3"),
    (':', "="),
    ('√', "sqrt(…)"),
    ('∑', "sum(…)"),
];

/// The text split into what the lexer may see and what it may not.
pub struct Scan {
    /// The text with comments and stray characters replaced by as many blanks: offsets stay right.
    pub bare: String,
    pub comments: Vec<Comment>,
    /// Where stray characters stood.
    pub strays: Vec<Span>,
    pub diagnostics: Vec<Diagnostic>,
    /// Whether the brackets pair up; if not, there is no use in going on.
    pub balanced: bool,
}

pub fn scan(text: &str) -> Scan {
    let mut scanner = Scanner {
        text,
        at: 0,
        open: Vec::new(),
        scan: Scan {
            bare: String::with_capacity(text.len()),
            comments: Vec::new(),
            strays: Vec::new(),
            diagnostics: Vec::new(),
            balanced: true,
        },
    };
    if text.starts_with('\u{feff}') {
        scanner.blank('\u{feff}'.len_utf8());
    }
    while let Some(next) = scanner.rest().chars().next() {
        if !scanner.step(next) {
            break;
        }
    }
    scanner.finish()
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    open: Vec<(char, Span)>,
    scan: Scan,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Handles what starts with `next`; false when scanning must stop.
    fn step(&mut self, next: char) -> bool {
        let rest = self.rest();
        if rest.starts_with("//") {
            let len = rest.find('\n').unwrap_or(rest.len());
            self.comment(len);
        } else if rest.starts_with("/*") {
            self.block_comment();
        } else if matches!(next, '(' | '[' | '{') {
            return self.open(next);
        } else if matches!(next, ')' | ']' | '}') {
            self.close(next);
        } else if next == '"' || next == '\'' {
            self.quoted(next);
        } else if is_known(next) {
            self.keep(next);
        } else {
            self.stray(next);
        }
        true
    }

    fn keep(&mut self, next: char) {
        self.scan.bare.push(next);
        self.at += next.len_utf8();
    }

    /// Skips `len` bytes, leaving blanks; gives the span skipped.
    fn blank(&mut self, len: usize) -> Span {
        let span = Span::new(self.at, self.at + len);
        self.scan.bare.extend(std::iter::repeat_n(' ', len));
        self.at += len;
        span
    }

    fn comment(&mut self, len: usize) {
        let text = &self.rest()[..len];
        let comment = Comment::new(text, Span::new(self.at, self.at + len));
        self.scan.comments.push(comment);
        self.blank(len);
    }

    /// Block comments nest as in Rust; a counter is enough.
    fn block_comment(&mut self) {
        let bytes = self.rest().as_bytes();
        let (mut len, mut depth) = (0, 0usize);
        while len < bytes.len() {
            match &bytes[len..bytes.len().min(len + 2)] {
                b"/*" => (len, depth) = (len + 2, depth + 1),
                b"*/" => (len, depth) = (len + 2, depth - 1),
                _ => len += 1,
            }
            if depth == 0 {
                break;
            }
        }
        if depth > 0 {
            self.scan.balanced = false;
            self.scan.diagnostics.push(
                Diagnostic::new(Code::UnclosedDelimiter, "this comment is never closed")
                    .at(Span::new(self.at, self.at + 2), "opened here")
                    .help("close it with `*/`"),
            );
        }
        self.comment(len);
    }

    fn open(&mut self, bracket: char) -> bool {
        let span = Span::new(self.at, self.at + 1);
        self.open.push((bracket, span));
        self.keep(bracket);
        if self.open.len() <= MAX_OPEN {
            return true;
        }
        self.scan.balanced = false;
        self.open.clear();
        self.scan.diagnostics.push(
            Diagnostic::new(Code::NestingTooDeep, format!("more than {MAX_OPEN} brackets are open at once"))
                .at(span, "one too many")
                .help("name a part of the expression with `let`"),
        );
        false
    }

    fn close(&mut self, bracket: char) {
        let span = Span::new(self.at, self.at + 1);
        self.keep(bracket);
        let Some(partner) = self.open.iter().rposition(|(open, _)| closing(*open) == bracket) else {
            self.scan.balanced = false;
            self.scan.diagnostics.push(
                Diagnostic::new(Code::UnclosedDelimiter, format!("`{bracket}` closes nothing"))
                    .at(span, "no bracket is open here that it could close"),
            );
            return;
        };
        for (open, at) in self.open.split_off(partner).into_iter().skip(1) {
            self.unclosed(open, at, Some((bracket, span)));
        }
    }

    fn unclosed(&mut self, open: char, at: Span, stopped_by: Option<(char, Span)>) {
        self.scan.balanced = false;
        let diagnostic =
            Diagnostic::new(Code::UnclosedDelimiter, format!("this `{open}` is never closed")).at(at, "opened here");
        self.scan.diagnostics.push(match stopped_by {
            Some((bracket, span)) => {
                diagnostic.also(span, format!("`{}` expected before this `{bracket}`", closing(open)))
            }
            None => diagnostic.help(format!("close it with `{}`", closing(open))),
        });
    }

    /// A string, a character or a lifetime: one stray piece, up to the end of the line at most.
    fn quoted(&mut self, quote: char) {
        let line = self.rest().lines().next().unwrap_or_default();
        let body = &line[1..];
        let len = if quote == '"' {
            body.find('"').map_or(line.len(), |at| at + 2)
        } else {
            let name = body.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(body.len());
            let closed = body[name..].starts_with('\'');
            1 + name + usize::from(closed)
        };
        let span = self.blank(len);
        self.report_stray(span, "recipes have no quoted text", None);
    }

    /// One character that means nothing here; neighbours join it.
    fn stray(&mut self, first: char) {
        let len = self
            .rest()
            .find(|c: char| is_known(c) || c.is_ascii_punctuation() && c != first)
            .unwrap_or(self.rest().len());
        let shown: String = self.rest()[..len].chars().take(8).collect();
        let span = self.blank(len);
        let help =
            LOOKALIKES.iter().find(|(lookalike, _)| *lookalike == first).map(|(_, meant)| format!("write `{meant}`"));
        let message = format!("`{}` has no meaning in a recipe", shown.escape_debug());
        self.report_stray(span, &message, help);
    }

    fn report_stray(&mut self, span: Span, message: &str, help: Option<String>) {
        self.scan.strays.push(span);
        if self.scan.strays.len() > MAX_STRAYS {
            return;
        }
        let diagnostic = Diagnostic::new(Code::BadCharacter, message).at(span, "not understood");
        self.scan.diagnostics.push(match help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        });
    }

    fn finish(mut self) -> Scan {
        for (open, at) in std::mem::take(&mut self.open) {
            self.unclosed(open, at, None);
        }
        self.scan
    }
}

fn closing(open: char) -> char {
    match open {
        '(' => ')',
        '[' => ']',
        _ => '}',
    }
}

fn is_known(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric() || c.is_whitespace() || "_+-*/^=<>,;.()[]{}".contains(c)
    } else {
        c.is_alphabetic() || c.is_whitespace()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let scan = scan(text);
        let codes: Vec<String> = scan
            .diagnostics
            .iter()
            .map(|d| {
                let span = d.primary_span().unwrap_or_default();
                format!("{:?}@{}..{}", d.code, span.start, span.end)
            })
            .collect();
        assert_eq!(format!("{}|{}", scan.bare, codes.join(" ")), expect);
        if scan.balanced {
            assert_eq!(scan.bare.len(), text.len());
        }
    }

    #[test]
    fn comments_become_blanks() {
        check("a // β\nb", "a      \nb|");
        check("a /* ( /* */ */ b", "a               b|");
        check("\u{feff}a", "   a|");
        check("a/b", "a/b|");
    }

    #[test]
    fn strays_are_found_and_joined() {
        check("a % b", "a   b|BadCharacter@2..3");
        check("a && b", "a    b|BadCharacter@2..4");
        check(
            "x² 'a' \"s\" 'b",
            "x             |BadCharacter@1..3 BadCharacter@4..7 BadCharacter@8..11 BadCharacter@12..14",
        );
        check("a\0b", "a b|BadCharacter@1..2");
        check("\"(", "  |BadCharacter@0..2");
    }

    #[test]
    fn brackets_must_pair() {
        check("{ ( }", "{ ( }|UnclosedDelimiter@2..3");
        check("( ", "( |UnclosedDelimiter@0..1");
        check(")", ")|UnclosedDelimiter@0..1");
        check("a /* b", "a     |UnclosedDelimiter@2..4");
    }

    #[test]
    fn nesting_is_bounded() {
        let fine = format!("{}{}", "(".repeat(64), ")".repeat(64));
        check(&fine, &format!("{fine}|"));
        check(&"(".repeat(100_000), &format!("{}|NestingTooDeep@64..65", "(".repeat(65)));
        let comments = "/*".repeat(500_000);
        check(&comments, &format!("{}|UnclosedDelimiter@0..2", " ".repeat(1_000_000)));
    }
}
