//! Files, recipes and ingredients. A mistake costs the section or statement it stands in, never the rest of the
//! file, so one run reports everything it finds.

use crate::diagnostic::{Code, Diagnostic, nearest};
use crate::span::{Source, Span};

use super::ast::{
    Comparison, Expr, File, Ingredient, Item, Kind, Number, Param, Recipe, Section, Stmt, StmtKind, TokensMode,
    ValuesMode, WriteBackMode,
};
use super::cursor::{Cursor, Failed, Parsed};
use super::lex::{TokenKind, lex};
use super::scan::{MAX_BYTES, scan};

const ITEM_WORDS: &[&str] = &["recipe", "local", "global", "optimizer"];
const STATEMENT_WORDS: &[&str] = &["let", "state"];
const SECTION_WORDS: &[&str] =
    &["local", "global", "optimizer", "param", "values", "constrain", "steps", "tokens", "write_back"];

/// Text from bytes: within the size limit and UTF-8.
pub fn read_source(bytes: Vec<u8>, name: impl Into<String>) -> Result<Source, Diagnostic> {
    if bytes.len() > MAX_BYTES {
        return Err(too_large(bytes.len()));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source::new(name, text)),
        Err(error) => {
            let offset = error.utf8_error().valid_up_to();
            let message = format!("the file is not UTF-8: bad byte at offset {offset}");
            Err(Diagnostic::new(Code::NotUtf8, message).help("save the file as UTF-8"))
        }
    }
}

/// Everything the text says, and everything wrong with it.
pub fn parse(text: &str) -> (File, Vec<Diagnostic>) {
    match tokens_of(text) {
        Ok(mut cursor) => {
            let file = cursor.file();
            (file, sorted(cursor.diagnostics))
        }
        Err(diagnostics) => (File::default(), diagnostics),
    }
}

/// One expression on its own.
pub fn parse_expr(text: &str) -> Result<Expr, Vec<Diagnostic>> {
    let mut cursor = tokens_of(text)?;
    let parsed = cursor.expression();
    if parsed.is_ok() && !cursor.at_end() {
        cursor.unexpected("the end of the expression");
    }
    match parsed {
        Ok(expr) if cursor.diagnostics.is_empty() => Ok(expr),
        _ => Err(sorted(cursor.diagnostics)),
    }
}

/// The tokens, unless size or brackets already forbid to go on.
fn tokens_of(text: &str) -> Result<Cursor, Vec<Diagnostic>> {
    if text.len() > MAX_BYTES {
        return Err(vec![too_large(text.len())]);
    }
    let scan = scan(text);
    let mut diagnostics = scan.diagnostics;
    if !scan.balanced {
        return Err(sorted(diagnostics));
    }
    let tokens = lex(&scan.bare, &scan.strays, &mut diagnostics);
    Ok(Cursor::new(tokens, diagnostics))
}

fn sorted(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(Diagnostic::primary_span);
    diagnostics
}

pub(super) fn too_large(bytes: usize) -> Diagnostic {
    let message = format!("the file has {bytes} bytes; at most {MAX_BYTES} are read");
    Diagnostic::new(Code::FileTooLarge, message)
}

impl Cursor {
    fn file(&mut self) -> File {
        if self.at_end() && self.diagnostics.is_empty() {
            let nothing = Diagnostic::new(Code::EmptyFile, "the file holds nothing to compile")
                .help("`energyc explain E0002` shows a small recipe");
            self.complain(nothing);
        }
        let mut items = Vec::new();
        while !self.at_end() {
            let from = self.position();
            match self.item() {
                Ok(item) => items.push(item),
                Err(Failed) => self.recover(from, 0, ITEM_WORDS),
            }
        }
        File { items }
    }

    fn item(&mut self) -> Parsed<Item> {
        if self.is_word("recipe") {
            return self.recipe().map(Item::Recipe);
        }
        match self.word().and_then(Kind::parse) {
            Some(kind) => self.ingredient(kind).map(Item::Ingredient),
            None => Err(self.unexpected_word("`recipe`, `local`, `global` or `optimizer`", ITEM_WORDS)),
        }
    }

    /// As [`Cursor::unexpected`], with a hint when a known word was meant.
    fn unexpected_word(&mut self, expected: &str, known: &[&str]) -> Failed {
        let meant = self
            .word()
            .and_then(|word| nearest(word, known.iter().copied()))
            .map(|word| format!("did you mean `{word}`?"));
        let before = self.diagnostics.len();
        let failed = self.unexpected(expected);
        if let (Some(meant), Some(diagnostic)) = (meant, self.diagnostics.get_mut(before)) {
            diagnostic.help.push(meant);
        }
        failed
    }

    fn recipe(&mut self) -> Parsed<Recipe> {
        let start = self.span();
        self.advance();
        let name = self.expect_name("the name of the recipe")?;
        let (sections, body_span) = self.block(SECTION_WORDS, Cursor::section)?;
        Ok(Recipe { name, sections, body_span, span: start.join(body_span) })
    }

    /// `{ … }`: as many parts as there are; after a mistake goes on with the next part.
    fn block<T>(&mut self, starts: &[&str], part: fn(&mut Cursor) -> Parsed<T>) -> Parsed<(Vec<T>, Span)> {
        let open = self.expect("{")?;
        let depth = self.depth_inside_previous();
        let mut parts = Vec::new();
        while !self.is("}") && !self.at_end() {
            let from = self.position();
            match part(self) {
                Ok(part) => parts.push(part),
                Err(Failed) => self.recover(from, depth, starts),
            }
        }
        let close = self.expect("}")?;
        Ok((parts, open.join(close)))
    }

    fn section(&mut self) -> Parsed<Section> {
        let start = self.span();
        if let Some(kind) = self.word().and_then(Kind::parse) {
            return self.use_or_define(kind);
        }
        let Some(word) = self.word().map(str::to_string) else {
            return Err(self.unexpected("a section"));
        };
        match word.as_str() {
            "param" => {
                self.advance();
                let name = self.expect_name("the name of the parameter")?;
                self.expect("=")?;
                let value = self.expression()?;
                let span = self.finish_section(start)?;
                Ok(Section::Param { name, value, span })
            }
            "values" => {
                let (mode, mode_span, span) = self.mode_section(&ValuesMode::ALL, ValuesMode::as_str)?;
                Ok(Section::Values { mode, mode_span, span })
            }
            "tokens" => {
                let (mode, mode_span, span) = self.mode_section(&TokensMode::ALL, TokensMode::as_str)?;
                Ok(Section::Tokens { mode, mode_span, span })
            }
            "write_back" => {
                let (mode, mode_span, span) = self.mode_section(&WriteBackMode::ALL, WriteBackMode::as_str)?;
                Ok(Section::WriteBack { mode, mode_span, span })
            }
            "constrain" => {
                self.advance();
                let constraints = self.comparisons()?;
                let span = self.finish_section(start)?;
                Ok(Section::Constrain { constraints, span })
            }
            "steps" => {
                self.advance();
                let count = self.number("the number of steps")?;
                let span = self.finish_section(start)?;
                Ok(Section::Steps { count, span })
            }
            _ => Err(self.unexpected_word("a section", SECTION_WORDS)),
        }
    }

    /// A section that says one of a few words: which, where, and the span of it all.
    fn mode_section<T: Copy>(&mut self, all: &[T], text: fn(T) -> &'static str) -> Parsed<(T, Span, Span)> {
        let start = self.span();
        self.advance();
        let mode_span = self.span();
        let mode = self.mode(all, text)?;
        Ok((mode, mode_span, self.finish_section(start)?))
    }

    fn finish_section(&mut self, start: Span) -> Parsed<Span> {
        self.finish(false)?;
        Ok(start.join(self.previous_span()))
    }

    /// What follows the brackets decides: a body makes it a definition.
    fn use_or_define(&mut self, kind: Kind) -> Parsed<Section> {
        if self.is_definition() {
            let ingredient = self.ingredient(kind)?;
            // Every other section ends with one, so one here is forgiven.
            if self.is(";") {
                self.advance();
            }
            return Ok(Section::Define(ingredient));
        }
        let start = self.span();
        self.advance();
        let name = self.expect_name("the name of an ingredient")?;
        let args = if self.is("(") { self.arguments()? } else { Vec::new() };
        let span = self.finish_section(start)?;
        Ok(Section::Use { kind, name, args, span })
    }

    fn number(&mut self, what: &str) -> Parsed<Number> {
        let span = self.span();
        let TokenKind::Number { value, text } = self.kind().clone() else {
            return Err(self.unexpected(what));
        };
        self.advance();
        Ok(Number { value, text, span })
    }

    fn mode<T: Copy>(&mut self, all: &[T], text: fn(T) -> &'static str) -> Parsed<T> {
        let found = all.iter().copied().find(|mode| self.is_word(text(*mode)));
        match found {
            Some(mode) => {
                self.advance();
                Ok(mode)
            }
            None => {
                let words: Vec<&str> = all.iter().map(|mode| text(*mode)).collect();
                let expected: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                Err(self.unexpected_word(&expected.join(" or "), &words))
            }
        }
    }

    fn ingredient(&mut self, kind: Kind) -> Parsed<Ingredient> {
        let start = self.span();
        self.advance();
        let name = self.expect_name("the name of the ingredient")?;
        let params = self.params()?;
        let conditions = if self.is_word("where") {
            self.advance();
            self.comparisons()?
        } else {
            Vec::new()
        };
        let (body, body_span) = self.block(STATEMENT_WORDS, Cursor::statement)?;
        Ok(Ingredient { kind, name, params, conditions, body, body_span, span: start.join(body_span) })
    }

    fn params(&mut self) -> Parsed<Vec<Param>> {
        if !self.is("(") {
            return Err(self.unexpected("`(`, even if there are no parameters"));
        }
        self.advance();
        let mut params = Vec::new();
        while !self.is(")") {
            let name = self.expect_name("a parameter name")?;
            let default = if self.eat("=") { Some(self.expression()?) } else { None };
            params.push(Param { span: name.span.join(self.previous_span()), name, default });
            if !self.eat(",") && !self.is(")") {
                return Err(self.unexpected("`,` or `)`"));
            }
        }
        self.expect(")")?;
        Ok(params)
    }

    fn comparisons(&mut self) -> Parsed<Vec<Comparison>> {
        let mut comparisons = vec![self.comparison()?];
        while self.eat(",") {
            comparisons.push(self.comparison()?);
        }
        Ok(comparisons)
    }

    fn statement(&mut self) -> Parsed<Stmt> {
        let start = self.span();
        let kind = match self.word() {
            Some("let") => StmtKind::Let,
            Some("state") => StmtKind::State,
            Some(_) => StmtKind::Assign,
            None => return Err(self.unexpected("a statement")),
        };
        if kind != StmtKind::Assign {
            self.advance();
        }
        let name = self.expect_name("the name of a value")?;
        self.expect("=")?;
        let value = self.expression()?;
        self.finish(true)?;
        Ok(Stmt { kind, name, value, span: start.join(self.previous_span()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::render_all;

    /// The codes with the text they point at.
    fn check(text: &str, expect: &[(Code, &str)]) {
        let (_, diagnostics) = parse(text);
        let found: Vec<(Code, &str)> = diagnostics
            .iter()
            .map(|d| {
                let span = d.primary_span().unwrap_or_default();
                (d.code, &text[span.clamp_to(text)])
            })
            .collect();
        assert_eq!(found, expect);
        render_all(&diagnostics, &Source::new("f", text), false);
    }

    const SAMPLE: &str = "
recipe huber_lse_nag {
    local     huber(delta = 1.0);
    global    lse(T = learn(sqrt(2 * d_h), per head));
    optimizer nag(beta = learn(0.9), eta = learn(1.0));
    values    free;
}
local     huber(delta) { E = if norm(q - k) <= delta { norm(q - k)^2 / 2 } else { delta * (norm(q - k) - delta / 2) } }
global    lse(T)       { F = -T * log(sum(exp(-E / T))) }
optimizer nag(beta, eta) { state p = 0;  let y = z - beta * p;  p = beta * p + grad(y);  z = z - eta * p; }
optimizer newton(solve = taylor(1, scale = tau)) { z = z; }
";

    #[test]
    fn the_sample_parses_as_it_stands() {
        check(SAMPLE, &[]);
        let crlf = SAMPLE.replace('\n', "\r\n");
        check(&crlf, &[]);
        let (file, _) = parse(&format!("\u{feff}// β\r\n{crlf}"));
        assert!(super::super::same_tree(&file, &parse(SAMPLE).0));
        assert_eq!(file.items.len(), 5);
    }

    #[test]
    fn every_section_parses() {
        check(
            "recipe r {
                local dot;
                global mine(T = 1,) where T > 0, T == T, { F = 1 }
            }",
            &[(Code::UnexpectedToken, "{")],
        );
        check(
            "recipe r {
                local dot;
                global mine(T = 1,) where T > 0, T == T { F = 1 }
                param rho = learn(1);
                constrain norm(q) = rho, norm(k) == rho;
                steps 4; tokens evolve; values tied;
            }",
            &[],
        );
    }

    #[test]
    fn spans_cover_their_text() {
        let text = "// ü\r\nlocal  l(α = 1) { E = α^2 ; }";
        let (file, diagnostics) = parse(text);
        assert_eq!(diagnostics, []);
        let Some(Item::Ingredient(ingredient)) = file.items.first() else {
            panic!("one ingredient");
        };
        let of = |span: Span| &text[span.clamp_to(text)];
        assert_eq!(of(ingredient.span), "local  l(α = 1) { E = α^2 ; }");
        assert_eq!(of(ingredient.params[0].span), "α = 1");
        assert_eq!(of(ingredient.body_span), "{ E = α^2 ; }");
        assert_eq!(of(ingredient.body[0].span), "E = α^2 ;");
        assert_eq!(of(ingredient.body[0].value.span), "α^2");
    }

    #[test]
    fn several_mistakes_come_out_of_one_run() {
        check(
            "recipe r { locl $; ( } global b() { H = 3 ) }",
            &[(Code::BadCharacter, "$"), (Code::UnclosedDelimiter, "("), (Code::UnclosedDelimiter, ")")],
        );
        check(
            "recipe r {
                locl huber();
                global lse(T = );
                values fre;
                optimizer gd(eta = 1)
                steps x;
            }
            local a(let) { E = 1 }
            global b() { F = 1 + ; let = 2; G = $; H = 3 4 }
            junk
            recipe {}",
            &[
                (Code::UnexpectedToken, "locl"),
                (Code::UnexpectedToken, ")"),
                (Code::UnexpectedToken, "fre"),
                (Code::UnexpectedToken, "steps"),
                (Code::UnexpectedToken, "x"),
                (Code::ReservedName, "let"),
                (Code::UnexpectedToken, ";"),
                (Code::UnexpectedToken, "="),
                (Code::BadCharacter, "$"),
                (Code::UnexpectedToken, "4"),
                (Code::UnexpectedToken, "junk"),
                (Code::UnexpectedToken, "{"),
            ],
        );
    }

    #[test]
    fn hints_name_the_word_that_was_meant() {
        let (_, diagnostics) = parse("recipe r { valeus free; }");
        assert_eq!(diagnostics[0].help, ["did you mean `values`?"]);
    }

    #[test]
    fn files_can_be_refused_as_a_whole() {
        check("", &[(Code::EmptyFile, "")]);
        check(" // only a comment", &[(Code::EmptyFile, "")]);
        check(&" ".repeat(MAX_BYTES + 1), &[(Code::FileTooLarge, "")]);
        let refused = |bytes: Vec<u8>| read_source(bytes, "f").map_err(|d| (d.code, d.message));
        assert_eq!(
            refused(vec![b'a', 0xff]),
            Err((Code::NotUtf8, "the file is not UTF-8: bad byte at offset 1".into()))
        );
        assert!(matches!(refused(vec![b'a'; MAX_BYTES + 1]), Err((Code::FileTooLarge, _))));
        assert!(refused(b"recipe".to_vec()).is_ok());
    }

    #[test]
    fn long_files_end_in_time() {
        for piece in ["a ", "local ", "recipe r {} ", "1 ", "; ", "{} ", "local l() { E = 1 } ", "$a"] {
            parse(&piece.repeat(100_000 / piece.len()));
        }
        let flat = format!("local l() {{ E = f({}1) }}", "1, ".repeat(50_000));
        check(&flat, &[]);
    }
}
