//! Tokens from bare text. `proc-macro2` does the lexing, so a recipe is made of Rust's tokens; here they are laid
//! out flat, with byte spans and their nesting depth, which is what recovery after an error needs.

use num_rational::BigRational;
use num_traits::One;
use proc_macro2::{Delimiter, TokenStream};
use syn::buffer::{Cursor, TokenBuffer};

use crate::diagnostic::{Code, Diagnostic};
use crate::span::Span;

use super::number::parse_number;

#[derive(Clone, PartialEq, Debug)]
pub enum TokenKind {
    Word(String),
    Number {
        value: BigRational,
        text: String,
    },
    /// An operator, a separator or a bracket.
    Symbol(&'static str),
    /// Something already complained about.
    Stray,
    End,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Token {
    pub kind: TokenKind,
    pub span: Span,
    /// How many brackets are open around the token; brackets count as outside of themselves.
    pub depth: usize,
}

/// The symbols of the language; two-character ones are written without a gap.
const SYMBOLS: &[&str] = &["+", "-", "*", "/", "^", "=", "<", ">", ",", ";", ".", "==", "<=", ">="];

/// All tokens of the bare text, an [`TokenKind::End`] last.
pub fn lex(bare: &str, strays: &[Span], diagnostics: &mut Vec<Diagnostic>) -> Vec<Token> {
    let mut flat = Flat { tokens: Vec::new(), diagnostics };
    match bare.parse::<TokenStream>() {
        Ok(stream) => flat.walk(TokenBuffer::new2(stream).begin()),
        Err(error) => flat.refuse(byte_span(error.span())),
    }
    // Byte spans are all that is kept; the lexer may forget the text.
    proc_macro2::extra::invalidate_current_thread_spans();
    let mut tokens = with_strays(flat.tokens, strays);
    tokens.push(Token { kind: TokenKind::End, span: Span::new(bare.len(), bare.len()), depth: 0 });
    set_depths(&mut tokens);
    tokens
}

struct Flat<'a> {
    tokens: Vec<Token>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Flat<'_> {
    /// Recursion is as deep as the brackets, which the scanner has bounded.
    fn walk(&mut self, mut cursor: Cursor) {
        while !cursor.eof() {
            if let Some((ident, rest)) = cursor.ident() {
                self.word(&ident.to_string(), byte_span(ident.span()));
                cursor = rest;
            } else if let Some((punct, rest)) = cursor.punct() {
                self.punct(punct.as_char(), byte_span(punct.span()));
                cursor = rest;
            } else if let Some((literal, rest)) = cursor.literal() {
                self.number(literal.to_string(), byte_span(literal.span()));
                cursor = rest;
            } else if let Some((inside, delimiter, span, rest)) = cursor.any_group() {
                let (open, close) = brackets(delimiter);
                self.push(TokenKind::Symbol(open), byte_span(span.open()));
                self.walk(inside);
                self.push(TokenKind::Symbol(close), byte_span(span.close()));
                cursor = rest;
            } else {
                return;
            }
        }
    }

    fn push(&mut self, kind: TokenKind, span: Span) {
        self.tokens.push(Token { kind, span, depth: 0 });
    }

    fn refuse(&mut self, span: Span) {
        self.diagnostics
            .push(Diagnostic::new(Code::BadCharacter, "this has no meaning in a recipe").at(span, "not understood"));
        self.push(TokenKind::Stray, span);
    }

    fn word(&mut self, text: &str, span: Span) {
        if text == "_" || text.starts_with("r#") {
            self.refuse(span);
        } else {
            self.push(TokenKind::Word(text.to_string()), span);
        }
    }

    /// Joins `<=`, `>=` and `==` from their two halves.
    fn punct(&mut self, character: char, span: Span) {
        if character == '='
            && let Some(last) = self.tokens.last_mut()
            && last.span.end == span.start
            && let TokenKind::Symbol(first @ ("<" | ">" | "=")) = last.kind
        {
            last.kind = TokenKind::Symbol(match first {
                "<" => "<=",
                ">" => ">=",
                _ => "==",
            });
            last.span = last.span.join(span);
            return;
        }
        let symbol = SYMBOLS.iter().find(|symbol| symbol.len() == 1 && symbol.starts_with(character));
        match symbol {
            Some(symbol) => self.push(TokenKind::Symbol(symbol), span),
            None => self.refuse(span),
        }
    }

    /// A bad number stands for one, so that it is complained about once only.
    fn number(&mut self, text: String, span: Span) {
        let value = parse_number(&text).unwrap_or_else(|problem| {
            let shown: String = text.chars().take(24).collect();
            self.diagnostics
                .push(Diagnostic::new(Code::BadNumber, format!("`{shown}` is not a number here")).at(span, problem));
            BigRational::one()
        });
        self.push(TokenKind::Number { value, text }, span);
    }
}

fn byte_span(span: proc_macro2::Span) -> Span {
    let range = span.byte_range();
    Span::new(range.start, range.end)
}

fn brackets(delimiter: Delimiter) -> (&'static str, &'static str) {
    match delimiter {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::Brace | Delimiter::None => ("{", "}"),
    }
}

/// Puts a token where each stray character stood.
fn with_strays(tokens: Vec<Token>, strays: &[Span]) -> Vec<Token> {
    let mut merged = Vec::with_capacity(tokens.len() + strays.len() + 1);
    let mut strays = strays.iter().peekable();
    let stray = |span: &Span| Token { kind: TokenKind::Stray, span: *span, depth: 0 };
    for token in tokens {
        while let Some(span) = strays.next_if(|span| span.start < token.span.start) {
            merged.push(stray(span));
        }
        merged.push(token);
    }
    merged.extend(strays.map(stray));
    merged
}

fn set_depths(tokens: &mut [Token]) {
    let mut depth: usize = 0;
    for token in tokens {
        if matches!(token.kind, TokenKind::Symbol(")" | "]" | "}")) {
            depth = depth.saturating_sub(1);
        }
        token.depth = depth;
        if matches!(token.kind, TokenKind::Symbol("(" | "[" | "{")) {
            depth += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bare: &str, expect: &str) {
        let tokens = lex(bare, &[], &mut Vec::new());
        let shown: Vec<String> = tokens
            .iter()
            .map(|token| {
                let text = &bare[token.span.clamp_to(bare)];
                format!("{}{}", text, token.depth)
            })
            .collect();
        assert_eq!(shown.join(" "), expect);
    }

    #[test]
    fn tokens_know_their_text_and_depth() {
        check("f(β, 1.5e3)\r\n<=x", "f0 (0 β1 ,1 1.5e31 )0 <=0 x0 0");
        check("a == b = = c", "a0 ==0 b0 =0 =0 c0 0");
        check("日本 x", "日本0 x0 0");
    }

    #[test]
    fn strays_and_bad_numbers_are_reported_in_place() {
        let mut diagnostics = Vec::new();
        let tokens = lex("a   1f32 _", &[Span::new(2, 3)], &mut diagnostics);
        assert_eq!(tokens[1].kind, TokenKind::Stray);
        let codes: Vec<Code> = diagnostics.iter().map(|d| d.code).collect();
        assert_eq!(codes, [Code::BadNumber, Code::BadCharacter]);
    }
}
