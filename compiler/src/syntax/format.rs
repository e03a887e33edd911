//! The formatter: a file in house style, every comment kept.
//!
//! The file is printed line unit by line unit (a section, a statement, the head and the end of a block). Comments
//! before a unit go on lines of their own above it, so do comments from inside it; those after it on the same line
//! stay there.

use crate::diagnostic::Diagnostic;
use crate::span::Span;

use super::ast::{Comparison, File, Ingredient, Item, Recipe, Section, Stmt, StmtKind};
use super::comments::{Comment, Comments};
use super::parse::{parse, too_large};
use super::print::{MAX_WIDTH, STEP, lay_out, lay_out_call, new_line, print_comparison, print_expr, push_indent};
use super::scan::{MAX_BYTES, scan};

/// The text in house style; a file with mistakes is left to be mended first.
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    let (file, diagnostics) = parse(text);
    if diagnostics.iter().any(Diagnostic::is_error) {
        return Err(diagnostics);
    }
    let scanned = scan(text);
    let formatted = print_file(&file, &scanned.bare, &scanned.comments);
    if formatted.len() > MAX_BYTES {
        return Err(vec![too_large(formatted.len())]);
    }
    Ok(formatted)
}

fn print_file(file: &File, bare: &str, comments: &[Comment]) -> String {
    let mut lines =
        Lines { out: String::new(), comments: Comments::new(bare, comments), all: comments, last_end: 0, fresh: true };
    for item in &file.items {
        match item {
            Item::Recipe(recipe) => lines.recipe(recipe),
            Item::Ingredient(ingredient) => lines.ingredient(ingredient, 0),
        }
    }
    lines.comments_before(u32::MAX, 0);
    lines.out
}

struct Lines<'a> {
    out: String,
    comments: Comments<'a>,
    all: &'a [Comment],
    /// Where in the source the last thing printed ended.
    last_end: u32,
    /// At the start of the file or of a block, where no blank line belongs.
    fresh: bool,
}

impl Lines<'_> {
    /// Prints one unit; `text` is what the source says at `span`, already indented.
    fn unit(&mut self, span: Span, indent: usize, text: &str) {
        self.comments_before(span.start, indent);
        self.blank_line(span.start);
        while let Some(comment) = self.comments.next_before(span.end) {
            self.own_line(&comment.text, indent);
        }
        self.out.push_str(text);
        self.end_unit(span.end);
    }

    /// Comments on the rest of the line, and the end of the line.
    fn end_unit(&mut self, end: u32) {
        self.last_end = end;
        while let Some(comment) = self.comments.next_on_line(self.last_end) {
            self.out.push(' ');
            self.out.push_str(&comment.text);
            self.last_end = comment.span.end;
        }
        self.out.push('\n');
        self.fresh = false;
    }

    fn comments_before(&mut self, offset: u32, indent: usize) {
        while let Some(comment) = self.comments.next_before(offset) {
            self.blank_line(comment.span.start);
            push_indent(&mut self.out, indent);
            self.out.push_str(&comment.text);
            self.end_unit(comment.span.end);
        }
    }

    fn own_line(&mut self, text: &str, indent: usize) {
        push_indent(&mut self.out, indent);
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn blank_line(&mut self, start: u32) {
        if !self.fresh && self.comments.blank_line_between(self.last_end, start) {
            self.out.push('\n');
        }
    }

    fn recipe(&mut self, recipe: &Recipe) {
        let head = format!("recipe {} {{", recipe.name.text);
        let width = keyword_width(&recipe.sections);
        self.block(recipe.span, recipe.body_span, &head, 0, |lines| {
            for section in &recipe.sections {
                match section {
                    Section::Define(ingredient) => lines.ingredient(ingredient, STEP),
                    _ => lines.unit(section.span(), STEP, &print_section(section, width)),
                }
            }
            recipe.sections.is_empty()
        });
    }

    fn ingredient(&mut self, ingredient: &Ingredient, indent: usize) {
        let head = print_head(ingredient, indent);
        if let Some(line) = one_line(ingredient, &head)
            && !self.has_comments(ingredient.body_span)
        {
            return self.unit(ingredient.span, indent, &line);
        }
        self.block(ingredient.span, ingredient.body_span, &head, indent, |lines| {
            for stmt in &ingredient.body {
                let text = print_stmt(stmt, indent + STEP);
                lines.unit(stmt.span, indent + STEP, &text);
            }
            ingredient.body.is_empty()
        });
    }

    /// A head, the units inside, and the closing brace; `inside` says whether there were none.
    fn block(&mut self, span: Span, body: Span, head: &str, indent: usize, inside: impl FnOnce(&mut Self) -> bool) {
        let head_span = Span { start: span.start, end: body.start + 1 };
        let close_span = Span { start: body.end - 1, end: body.end };
        self.unit(head_span, indent, head);
        self.fresh = true;
        let empty = inside(self);
        self.comments_before(close_span.start, indent + STEP);
        if empty && self.out.ends_with("{\n") {
            self.out.pop();
            self.out.push('}');
            return self.end_unit(close_span.end);
        }
        self.fresh = true;
        let mut close = String::new();
        push_indent(&mut close, indent);
        close.push('}');
        self.unit(close_span, indent, &close);
    }

    fn has_comments(&self, span: Span) -> bool {
        let first = self.all.partition_point(|comment| comment.span.start < span.start);
        self.all.get(first).is_some_and(|comment| comment.span.start < span.end)
    }
}

/// How wide the column of keywords is; definitions stand outside of it.
fn keyword_width(sections: &[Section]) -> usize {
    let aligned = sections.iter().filter(|section| !matches!(section, Section::Define(_)));
    aligned.map(|section| section.keyword().len()).max().unwrap_or(0)
}

fn print_section(section: &Section, width: usize) -> String {
    let mut text = String::new();
    push_indent(&mut text, STEP);
    text.push_str(&format!("{:<width$} ", section.keyword()));
    match section {
        Section::Use { name, args, .. } if args.is_empty() => text.push_str(&name.text),
        Section::Use { name, args, .. } => lay_out_call(&mut text, &name.text, args, STEP, 1),
        Section::Param { name, value, .. } => {
            text.push_str(&format!("{} = ", name.text));
            lay_out(&mut text, value, STEP, 1);
        }
        Section::Values { mode, .. } => text.push_str(mode.as_str()),
        Section::Tokens { mode, .. } => text.push_str(mode.as_str()),
        Section::WriteBack { mode, .. } => text.push_str(mode.as_str()),
        Section::Steps { count, .. } => text.push_str(&count.text),
        Section::Constrain { constraints, .. } => {
            text.push_str(&print_comparisons(constraints));
        }
        Section::Define(_) => {}
    }
    text.push(';');
    text
}

fn print_comparisons(comparisons: &[Comparison]) -> String {
    let printed: Vec<String> = comparisons.iter().map(print_comparison).collect();
    printed.join(", ")
}

/// `local huber(delta) where delta > 0 {`, one parameter a line if it gets too long.
fn print_head(ingredient: &Ingredient, indent: usize) -> String {
    let params: Vec<String> = ingredient
        .params
        .iter()
        .map(|param| match &param.default {
            Some(default) => format!("{} = {}", param.name.text, print_expr(default)),
            None => param.name.text.clone(),
        })
        .collect();
    let mut tail = ")".to_string();
    if !ingredient.conditions.is_empty() {
        tail.push_str(" where ");
        tail.push_str(&print_comparisons(&ingredient.conditions));
    }
    tail.push_str(" {");
    let mut head = String::new();
    push_indent(&mut head, indent);
    head.push_str(&format!("{} {}(", ingredient.kind.as_str(), ingredient.name.text));
    let flat = format!("{head}{}{tail}", params.join(", "));
    if flat.chars().count() <= MAX_WIDTH || params.is_empty() {
        return flat;
    }
    for param in params {
        new_line(&mut head, indent + STEP);
        head.push_str(&param);
        head.push(',');
    }
    new_line(&mut head, indent);
    head + &tail
}

/// The whole ingredient on one line, if it has one statement and fits.
fn one_line(ingredient: &Ingredient, head: &str) -> Option<String> {
    let [stmt] = ingredient.body.as_slice() else {
        return None;
    };
    let prefix = format!("{head} {}", print_target(stmt));
    let line = format!("{prefix}{} }}", print_expr(&stmt.value));
    (!line.contains('\n') && line.chars().count() <= MAX_WIDTH).then_some(line)
}

fn print_stmt(stmt: &Stmt, indent: usize) -> String {
    let mut text = String::new();
    push_indent(&mut text, indent);
    text.push_str(&print_target(stmt));
    lay_out(&mut text, &stmt.value, indent, 1);
    text.push(';');
    text
}

fn print_target(stmt: &Stmt) -> String {
    let keyword = match stmt.kind {
        StmtKind::Let => "let ",
        StmtKind::State => "state ",
        StmtKind::Assign => "",
    };
    format!("{keyword}{} = ", stmt.name.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expect: &str) {
        let once = format(input).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"));
        assert_eq!(once, expect);
        assert_eq!(format(&once).as_ref(), Ok(&once), "not idempotent");
    }

    #[test]
    fn sections_are_aligned() {
        check(
            "recipe r{local huber(delta=1.0);optimizer gd;values   free;\n\n\n\nsteps 3;}",
            "\
recipe r {
    local     huber(delta = 1.0);
    optimizer gd;
    values    free;

    steps     3;
}
",
        );
        check("recipe r {\n}", "recipe r {}\n");
    }

    #[test]
    fn marks_have_one_order() {
        check(
            "local l(w = learn(1, per component , per head), g=gate(sigmoid, per  query)) { E = w }",
            "local l(w = learn(1, per head, per component), g = gate(sigmoid, per query)) { E = w }\n",
        );
    }

    #[test]
    fn short_ingredients_stay_on_one_line() {
        check("global lse(T)\n{ F = -T*log(sum(exp(-E/T))); }", "global lse(T) { F = -T * log(sum(exp(-E / T))) }\n");
        check(
            "optimizer o(b) where b>=0 , b<1 { state p = 0;  z = z - p }\n\nlocal l(){}",
            "\
optimizer o(b) where b >= 0, b < 1 {
    state p = 0;
    z = z - p;
}

local l() {}
",
        );
    }

    #[test]
    fn long_choices_are_broken() {
        check(
            "local huber(delta) { E = if norm(q - k) <= delta { norm(q - k)^2 / 2 } else { delta * (norm(q - k) - delta / 2) } + 0 }",
            "\
local huber(delta) {
    E = if norm(q - k) <= delta { norm(q - k)^2 / 2 } else { delta * (norm(q - k) - delta / 2) }
        + 0;
}
",
        );
        check(
            "local huber(threshold) { E = if norm(q - k) <= threshold { norm(q - k)^2 / 2 } else { threshold * (norm(q - k) - threshold / 2) } }",
            "\
local huber(threshold) {
    E = if norm(q - k) <= threshold {
        norm(q - k)^2 / 2
    } else {
        threshold * (norm(q - k) - threshold / 2)
    };
}
",
        );
    }

    #[test]
    fn comments_stay() {
        check(
            "\u{feff}//! file\r\n\r\n\r\n// before\r\nrecipe r { // head\r\n\r\n /* a */ local l( // arg\r\n x = 1 /* b */ ); // after\r\n\r\n// last\r\n} // end\r\n\r\n// eof",
            "\
//! file

// before
recipe r { // head
    /* a */
    // arg
    /* b */
    local l(x = 1); // after

    // last
} // end

// eof
",
        );
        check("local l() { E = 1 /* why */ }", "local l() {\n    E = 1; /* why */\n}\n");
        check(
            "local l() { /* two\n  lines */ } /* x */ // y\nlocal m() { E = 1 } // z",
            "local l() { /* two\n  lines */\n} /* x */ // y\nlocal m() { E = 1 } // z\n",
        );
    }

    #[test]
    fn mistakes_are_reported_not_formatted() {
        assert!(format("recipe {").is_err());
        assert!(format("").is_err());
    }
}
