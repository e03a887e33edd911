//! A place in the token list, the complaints so far, and how to go on after one.

use crate::diagnostic::{Code, Diagnostic};
use crate::span::Span;

use super::ast::Ident;
use super::lex::{Token, TokenKind};

/// Words that belong to the language everywhere and cannot be names.
pub const RESERVED: &[&str] = &["recipe", "local", "global", "optimizer", "let", "state", "if", "else", "where"];

/// Parsing stops after so many complaints.
const MAX_DIAGNOSTICS: usize = 1000;

/// The construct could not be parsed; the reason has been recorded.
pub struct Failed;

pub type Parsed<T> = Result<T, Failed>;

pub struct Cursor {
    tokens: Vec<Token>,
    at: usize,
    pub diagnostics: Vec<Diagnostic>,
    /// Open expressions around this place; see [`super::expression`].
    pub nested: usize,
    /// Operators of the expression being parsed.
    pub operators: usize,
}

impl Cursor {
    /// The tokens end with [`TokenKind::End`], as the lexer leaves them.
    pub fn new(tokens: Vec<Token>, diagnostics: Vec<Diagnostic>) -> Cursor {
        Cursor { tokens, at: 0, diagnostics, nested: 0, operators: 0 }
    }

    pub fn position(&self) -> usize {
        self.at
    }

    fn token(&self, at: usize) -> &Token {
        &self.tokens[at.min(self.tokens.len() - 1)]
    }

    pub fn kind(&self) -> &TokenKind {
        &self.token(self.at).kind
    }

    pub fn span(&self) -> Span {
        self.token(self.at).span
    }

    pub fn depth(&self) -> usize {
        self.token(self.at).depth
    }

    /// The span of the token just passed.
    pub fn previous_span(&self) -> Span {
        self.token(self.at.saturating_sub(1)).span
    }

    pub fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    pub fn at_end(&self) -> bool {
        *self.kind() == TokenKind::End
    }

    pub fn word(&self) -> Option<&str> {
        match self.kind() {
            TokenKind::Word(text) => Some(text),
            _ => None,
        }
    }

    pub fn is_word(&self, text: &str) -> bool {
        self.word() == Some(text)
    }

    pub fn is(&self, symbol: &str) -> bool {
        matches!(self.kind(), TokenKind::Symbol(found) if *found == symbol)
    }

    pub fn next_is(&self, symbol: &str) -> bool {
        matches!(self.token(self.at + 1).kind, TokenKind::Symbol(found) if found == symbol)
    }

    pub fn next_is_word(&self, text: &str) -> bool {
        matches!(&self.token(self.at + 1).kind, TokenKind::Word(found) if found == text)
    }

    /// At `KIND NAME`: whether a body follows, with or without parameters before it.
    pub fn is_definition(&self) -> bool {
        let after_name = self.at + 2;
        let opens = |at: usize| match &self.token(at).kind {
            TokenKind::Symbol(symbol) => *symbol == "{",
            TokenKind::Word(word) => word == "where",
            _ => false,
        };
        if self.token(after_name).kind != TokenKind::Symbol("(") {
            return opens(after_name);
        }
        let depth = self.token(after_name).depth;
        let partner = (after_name + 1..self.tokens.len()).find(|at| self.token(*at).depth <= depth);
        partner.is_some_and(|partner| opens(partner + 1))
    }

    /// How many brackets are open inside the bracket just passed.
    pub fn depth_inside_previous(&self) -> usize {
        self.token(self.at.saturating_sub(1)).depth + 1
    }

    pub fn eat(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        if found {
            self.advance();
        }
        found
    }

    pub fn expect(&mut self, symbol: &str) -> Parsed<Span> {
        let span = self.span();
        if self.eat(symbol) { Ok(span) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    /// A name for something new or known; `what` says of what.
    pub fn expect_name(&mut self, what: &str) -> Parsed<Ident> {
        let span = self.span();
        let Some(text) = self.word().map(str::to_string) else {
            return Err(self.unexpected(what));
        };
        if RESERVED.contains(&text.as_str()) {
            self.complain(
                Diagnostic::new(Code::ReservedName, format!("`{text}` cannot be a name"))
                    .at(span, format!("{what} expected"))
                    .note(format!("reserved words: {}", RESERVED.join(", "))),
            );
            return Err(Failed);
        }
        self.advance();
        Ok(Ident { text, span })
    }

    /// Records that something else should stand here.
    pub fn unexpected(&mut self, expected: &str) -> Failed {
        let found = match self.kind() {
            TokenKind::Stray => return Failed,
            TokenKind::Word(text) if RESERVED.contains(&text.as_str()) => {
                format!("the keyword `{text}`")
            }
            TokenKind::Word(text) => format!("`{text}`"),
            TokenKind::Number { text, .. } => format!("`{text}`"),
            TokenKind::Symbol(symbol) => format!("`{symbol}`"),
            TokenKind::End => "the end of the file".to_string(),
        };
        let message = format!("expected {expected}, found {found}");
        let diagnostic =
            Diagnostic::new(Code::UnexpectedToken, message).at(self.span(), format!("expected {expected}"));
        self.complain(diagnostic);
        Failed
    }

    /// Records a complaint; after very many the rest of the file is skipped.
    pub fn complain(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
        if self.diagnostics.len() >= MAX_DIAGNOSTICS {
            self.at = self.tokens.len() - 1;
        }
    }

    /// The end of a line that needs a `;`. If only the `;` is missing, says so and goes on.
    pub fn finish(&mut self, optional_before_brace: bool) -> Parsed<()> {
        if self.eat(";") || optional_before_brace && self.is("}") {
            return Ok(());
        }
        let only_missing = matches!(self.kind(), TokenKind::Word(_)) || self.is("}");
        let failed = self.unexpected("`;`");
        if only_missing { Ok(()) } else { Err(failed) }
    }

    /// Skips to the next place, inside `depth` brackets, where something new can start: after a `;`, before a word
    /// that `starts` knows, or before the bracket that ends it all. Always leaves `from` behind.
    pub fn recover(&mut self, from: usize, depth: usize, starts: &[&str]) {
        while !self.at_end() && self.depth() >= depth {
            let here = self.depth() == depth;
            if here && self.is(";") {
                self.advance();
                return;
            }
            let fresh = self.word().is_some_and(|word| starts.contains(&word));
            if here && fresh && self.at > from {
                return;
            }
            self.advance();
        }
    }
}
