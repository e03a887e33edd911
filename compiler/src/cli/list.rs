//! `energyc list`: the ingredients of the prelude and the recipes that are shipped.

use serde_json::{Value, json};

use crate::calculus::Meaning;
use crate::derive::{self, Derivation, Named, reveal};
use crate::emit::document::shown;
use crate::ir::Expr;
use crate::notation::text;
use crate::pipeline;
use crate::prelude;
use crate::simplify::Options;
use crate::span::Source;
use crate::syntax::ast::{Ingredient, Item, Kind, Param, Stmt, StmtKind};
use crate::syntax::{parse, print_expr};

use super::outcome::{Format, Outcome};
use super::shipped::{SHIPPED, Shipped};
use super::table::{shortened, table};

/// Formulas longer than this are cut in the table; JSON has them whole.
const FORMULA_WIDTH: usize = 44;

/// List the ingredients that every recipe may use, and the shipped recipes
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    energyc list\n  \
    energyc list --format json")]
pub struct Args {
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// One row, of an ingredient or of a recipe.
struct Entry {
    name: String,
    formula: String,
    about: String,
}

pub fn run(args: &Args) -> Outcome {
    let kinds = Kind::ALL.map(|kind| (kind, ingredients(kind)));
    let recipes: Vec<Entry> = SHIPPED.iter().map(recipe).collect();
    Outcome::good(match args.format {
        Format::Text => in_columns(&kinds, &recipes),
        Format::Json => as_json(&kinds, &recipes),
    })
}

fn ingredients(kind: Kind) -> Vec<Entry> {
    let sources = prelude::load().sources.iter();
    let all = sources.flat_map(|source| {
        let items = parse(&source.text).0.items;
        items.into_iter().filter_map(|item| match item {
            Item::Ingredient(found) if found.kind == kind => Some(ingredient(&found, source)),
            _ => None,
        })
    });
    all.collect()
}

fn ingredient(ingredient: &Ingredient, source: &Source) -> Entry {
    let params: Vec<String> = ingredient.params.iter().map(parameter).collect();
    let steps: Vec<String> = ingredient.body.iter().map(statement).collect();
    let start = ingredient.span.clamp_to(&source.text).start;
    Entry {
        name: format!("{}({})", ingredient.name.text, params.join(", ")),
        formula: steps.join("; "),
        about: comment_above(&source.text[..start]),
    }
}

fn parameter(param: &Param) -> String {
    let name = &param.name.text;
    match &param.default {
        Some(value) => format!("{name} = {}", print_expr(value)),
        None => name.clone(),
    }
}

fn statement(statement: &Stmt) -> String {
    let word = match statement.kind {
        StmtKind::Let => "let ",
        StmtKind::State => "state ",
        StmtKind::Assign => "",
    };
    let value = print_expr(&statement.value);
    format!("{word}{} = {value}", statement.name.text)
}

/// The first line of the block of comments that ends where the text does.
fn comment_above(text: &str) -> String {
    let lines = text.trim_end_matches([' ', '\t']).lines().rev();
    let comments = lines.map_while(|line| line.trim().strip_prefix("//"));
    comments.last().unwrap_or("").trim().to_string()
}

/// The direction with the vectors of a solved system written out, as far as one line can hold.
fn written_out(derivation: &Derivation) -> Expr {
    let shown = shown(derivation, &derivation.direction.term);
    let is_solution = |named: &&Named| matches!(named.meaning, Meaning::Solution { .. });
    reveal(&shown, &derivation.names.iter().filter(is_solution).cloned().collect::<Vec<_>>())
}

/// A recipe with its direction, and the second line of its text, which says what it is.
fn recipe(shipped: &Shipped) -> Entry {
    let (recipe, _) = pipeline::front(shipped.text);
    let formula = recipe.map(|recipe| {
        let derivation = derive::derive(&recipe, &Options::default());
        format!("o = {}", text::plain(&written_out(&derivation)))
    });
    let comments = shipped.text.lines().map_while(|line| line.strip_prefix("//"));
    let comments: Vec<&str> = comments.map(str::trim).collect();
    let about = comments.get(1).or(comments.first());
    Entry {
        name: shipped.name.to_string(),
        formula: formula.unwrap_or_default(),
        about: about.copied().unwrap_or_default().to_string(),
    }
}

fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Local => "Local energies",
        Kind::Global => "Global energies",
        Kind::Optimizer => "Optimizers",
    }
}

fn in_columns(kinds: &[(Kind, Vec<Entry>)], recipes: &[Entry]) -> String {
    let section = |title: &str, entries: &[Entry]| format!("{title}\n{}", columns(entries));
    let mut sections: Vec<String> = kinds.iter().map(|(kind, entries)| section(title(*kind), entries)).collect();
    sections.push(section("Recipes", recipes));
    sections.join("\n")
}

fn columns(entries: &[Entry]) -> String {
    let row = |entry: &Entry| [entry.name.clone(), shortened(&entry.formula, FORMULA_WIDTH), entry.about.clone()];
    table(&entries.iter().map(row).collect::<Vec<_>>(), 2)
}

fn as_json(kinds: &[(Kind, Vec<Entry>)], recipes: &[Entry]) -> String {
    let entries = |entries: &[Entry]| -> Value {
        let all =
            entries.iter().map(|entry| json!({ "name": entry.name, "formula": entry.formula, "about": entry.about }));
        Value::Array(all.collect())
    };
    let ingredients: serde_json::Map<String, Value> =
        kinds.iter().map(|(kind, found)| (kind.as_str().to_string(), entries(found))).collect();
    let value = json!({ "ingredients": ingredients, "recipes": entries(recipes) });
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_comment_above_is_the_block_that_touches() {
        let check = |text: &str, expect: &str| assert_eq!(comment_above(text), expect);
        check("// a\n\n// b\n// c\n", "b");
        check("// a\nx\n// b\n  ", "b");
        check("// a\n\n", "");
        check("", "");
    }
}
