//! The sections of a recipe, sorted out: one of each, none missing.

use super::library::{Library, describe};
use super::recipe::{Tokens, Values, WriteBack};
use crate::diagnostic::{Code, Diagnostic};
use crate::span::Span;
use crate::syntax::ast::{self, Arg, Comparison, Expr, Ident, Ingredient, Kind, Number, Section};
use num_traits::ToPrimitive;

/// Most steps a layer takes.
const MAX_STEPS: u32 = 1024;

/// Which ingredient a section names, and with what.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    pub name: &'a Ident,
    pub args: &'a [Arg],
    pub defined: Option<&'a Ingredient>,
}

/// A recipe's sections.
#[derive(Default)]
pub struct Sections<'a> {
    pub local: Option<Part<'a>>,
    pub global: Option<Part<'a>>,
    pub optimizer: Option<Part<'a>>,
    pub params: Vec<(&'a Ident, &'a Expr)>,
    pub constraints: &'a [Comparison],
    pub values: Option<Values>,
    pub steps: Option<u32>,
    pub tokens: Option<Tokens>,
    pub write_back: Option<WriteBack>,
}

impl<'a> Sections<'a> {
    /// Sorts the sections; the first of two counts.
    pub fn of(recipe: &'a ast::Recipe, library: &Library, diagnostics: &mut Vec<Diagnostic>) -> Sections<'a> {
        let mut sections = Sections::default();
        let mut seen: Vec<(&'static str, Span)> = Vec::new();
        for section in &recipe.sections {
            let keyword = section.keyword();
            let before = seen.iter().find(|(other, _)| *other == keyword && keyword != "param");
            if let Some((_, before)) = before {
                let message = format!("the section `{keyword}` appears twice");
                let twice = Diagnostic::new(Code::DuplicateSection, message);
                diagnostics.push(twice.also(*before, "first here").at(section.span(), "again here"));
                continue;
            }
            seen.push((keyword, section.span()));
            sections.add(section, diagnostics);
        }
        for kind in Kind::ALL {
            if sections.part(kind).is_none() {
                diagnostics.push(missing(&recipe.name, kind, library));
            }
        }
        sections
    }

    pub fn part(&self, kind: Kind) -> Option<Part<'a>> {
        match kind {
            Kind::Local => self.local,
            Kind::Global => self.global,
            Kind::Optimizer => self.optimizer,
        }
    }

    fn set(&mut self, kind: Kind, part: Part<'a>) {
        match kind {
            Kind::Local => self.local = Some(part),
            Kind::Global => self.global = Some(part),
            Kind::Optimizer => self.optimizer = Some(part),
        }
    }

    fn add(&mut self, section: &'a Section, diagnostics: &mut Vec<Diagnostic>) {
        match section {
            Section::Use { kind, name, args, .. } => self.set(*kind, Part { name, args, defined: None }),
            Section::Define(ingredient) => {
                let part = Part { name: &ingredient.name, args: &[], defined: Some(ingredient) };
                self.set(ingredient.kind, part);
            }
            Section::Param { name, value, .. } => self.params.push((name, value)),
            Section::Values { mode, .. } => self.values = Some(*mode),
            Section::Constrain { constraints, .. } => self.constraints = constraints,
            Section::Steps { count, .. } => match steps(count) {
                Ok(count) => self.steps = Some(count),
                Err(diagnostic) => diagnostics.push(diagnostic),
            },
            Section::Tokens { mode, .. } => self.tokens = Some(*mode),
            Section::WriteBack { mode, .. } => self.write_back = Some(*mode),
        }
    }
}

fn steps(count: &Number) -> Result<u32, Diagnostic> {
    let whole = Some(&count.value).filter(|value| value.is_integer()).and_then(|value| value.to_u32());
    whole.filter(|steps| (1..=MAX_STEPS).contains(steps)).ok_or_else(|| {
        Diagnostic::new(Code::BadSteps, format!("`steps` needs a whole number from 1 to {MAX_STEPS}"))
            .at(count.span, "not one")
    })
}

fn missing(recipe: &Ident, kind: Kind, library: &Library) -> Diagnostic {
    let word = kind.as_str();
    let diagnostic = Diagnostic::new(Code::MissingSection, format!("`{}` has no {}", recipe.text, describe(kind)))
        .at(recipe.span, format!("needs a section `{word} …;`"));
    match library.names(kind).next() {
        Some(example) => diagnostic.help(format!("for instance `{word} {example};`")),
        None => diagnostic,
    }
}
