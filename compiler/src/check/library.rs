//! Which ingredients a recipe can reach: those of the prelude, of its file and its own, the nearer one winning.

use std::collections::{BTreeSet, HashMap};

use crate::diagnostic::{Code, Diagnostic};
use crate::syntax::ast::{Arg, Expr, ExprKind, Ident, Ingredient, Kind};

/// An ingredient and where its text stands.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    pub ingredient: &'a Ingredient,
    /// Its spans point into the prelude, not into the file being checked.
    pub foreign: bool,
}

impl Entry<'_> {
    pub fn key(&self) -> Key {
        (self.ingredient.kind, self.ingredient.name.text.clone())
    }
}

pub type Key = (Kind, String);

/// The ingredients in reach, by kind and name.
#[derive(Clone, Default)]
pub struct Library<'a> {
    entries: Vec<Entry<'a>>,
    index: HashMap<Key, usize>,
    /// Ingredients that end in a cycle; looking into them would not end.
    endless: BTreeSet<Key>,
}

impl<'a> Library<'a> {
    pub fn of_prelude(ingredients: &'a [Ingredient]) -> Library<'a> {
        let mut library = Library::default();
        for ingredient in ingredients {
            library.insert(Entry { ingredient, foreign: true });
        }
        library
    }

    fn insert(&mut self, entry: Entry<'a>) {
        self.index.insert(entry.key(), self.entries.len());
        self.entries.push(entry);
    }

    /// Adds an ingredient of the file; says so when it hides another.
    pub fn define(&mut self, ingredient: &'a Ingredient, diagnostics: &mut Vec<Diagnostic>) {
        let name = &ingredient.name;
        let entry = Entry { ingredient, foreign: false };
        match self.get(ingredient.kind, &name.text) {
            Some(other) if other.foreign => {
                let message = format!("`{}` hides an ingredient of the prelude", name.text);
                diagnostics.push(
                    Diagnostic::new(Code::ShadowedPrelude, message)
                        .at(name.span, "this definition is the one that counts")
                        .help("another name would keep both in reach"),
                );
                self.insert(entry);
            }
            Some(other) => {
                let message = format!("the {} `{}` is defined twice", describe(ingredient.kind), name.text);
                diagnostics.push(
                    Diagnostic::new(Code::DuplicateParameter, message)
                        .also(other.ingredient.name.span, "defined here")
                        .at(name.span, "and here again"),
                );
            }
            None => self.insert(entry),
        }
    }

    pub fn get(&self, kind: Kind, name: &str) -> Option<Entry<'a>> {
        let at = self.index.get(&(kind, name.to_string()))?;
        self.entries.get(*at).copied()
    }

    pub fn is_endless(&self, entry: &Entry) -> bool {
        self.endless.contains(&entry.key())
    }

    /// The kind under which the name exists, when it is not `kind`.
    pub fn other_kind(&self, kind: Kind, name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|other| *other != kind && self.get(*other, name).is_some())
    }

    pub fn names(&self, kind: Kind) -> impl Iterator<Item = &'a str> {
        let of_kind = move |entry: &&Entry<'a>| entry.ingredient.kind == kind;
        self.entries.iter().filter(of_kind).map(|entry| entry.ingredient.name.text.as_str())
    }

    /// The ingredients of the file, in order.
    pub fn own(&self) -> impl Iterator<Item = Entry<'a>> {
        self.entries.iter().filter(|entry| !entry.foreign).copied()
    }

    /// The ingredient a use asks for, or what is wrong with asking.
    pub fn find(&self, kind: Kind, name: &Ident) -> Result<Entry<'a>, Diagnostic> {
        if let Some(entry) = self.get(kind, &name.text) {
            return Ok(entry);
        }
        Err(match self.other_kind(kind, &name.text) {
            Some(other) => wrong_kind(kind, other, name),
            None => Diagnostic::new(
                Code::UnknownIngredient,
                format!("there is no {} called `{}`", describe(kind), name.text),
            )
            .at(name.span, "not found")
            .did_you_mean(&name.text, self.names(kind))
            .note(format!("known: {}", self.listing(kind))),
        })
    }

    fn listing(&self, kind: Kind) -> String {
        let names: BTreeSet<&str> = self.names(kind).collect();
        let shown: Vec<&str> = names.iter().copied().take(12).collect();
        let rest = if names.len() > shown.len() { ", …" } else { "" };
        format!("{}{rest}", shown.join(", "))
    }

    /// Finds ingredients that call themselves, each cycle once, and keeps everyone from entering them.
    pub fn refuse_cycles(&mut self, diagnostics: &mut Vec<Diagnostic>) {
        let calls: Vec<Vec<usize>> = self.entries.iter().map(|entry| self.callees(entry)).collect();
        let endless = reaching_a_cycle(&calls);
        let mut seen = vec![false; calls.len()];
        for start in (0..calls.len()).filter(|at| endless[*at]) {
            let mut path: Vec<usize> = Vec::new();
            let mut at = start;
            while !seen[at] {
                seen[at] = true;
                path.push(at);
                at = calls[at].iter().copied().find(|next| endless[*next]).unwrap_or(at);
            }
            if let Some(from) = path.iter().position(|visited| *visited == at) {
                diagnostics.push(self.cycle(&path[from..]));
            }
        }
        self.endless = (0..calls.len()).filter(|at| endless[*at]).map(|at| self.entries[at].key()).collect();
    }

    fn cycle(&self, path: &[usize]) -> Diagnostic {
        let name = |at: usize| self.entries[at].ingredient.name.text.as_str();
        let first = path[0];
        let mut shown: Vec<String> = path.iter().take(6).map(|at| format!("`{}`", name(*at))).collect();
        if path.len() > shown.len() {
            shown.push("…".to_string());
        }
        shown.push(format!("`{}`", name(first)));
        let message = format!("`{}` is defined by itself: {}", name(first), shown.join(" → "));
        Diagnostic::new(Code::RecursiveDefinition, message)
            .at(self.entries[first].ingredient.name.span, "this needs its own result")
            .help("an ingredient may call others, but the calls must end")
    }

    fn callees(&self, entry: &Entry) -> Vec<usize> {
        let kind = entry.ingredient.kind;
        let mut called = Vec::new();
        for stmt in &entry.ingredient.body {
            visit(&stmt.value, &mut |expr| {
                if let ExprKind::Call { name, args } = &expr.node
                    && !super::function::accepts(&name.text, args)
                    && let Some(at) = self.index.get(&(kind, name.text.clone()))
                {
                    called.push(*at);
                }
            });
        }
        called
    }
}

pub fn describe(kind: Kind) -> &'static str {
    match kind {
        Kind::Local => "local energy",
        Kind::Global => "global energy",
        Kind::Optimizer => "optimizer",
    }
}

pub fn describe_with_article(kind: Kind) -> &'static str {
    match kind {
        Kind::Local => "a local energy",
        Kind::Global => "a global energy",
        Kind::Optimizer => "an optimizer",
    }
}

pub fn wrong_kind(wanted: Kind, found: Kind, name: &Ident) -> Diagnostic {
    let (wants, is) = (describe_with_article(wanted), describe_with_article(found));
    Diagnostic::new(Code::WrongKind, format!("`{}` is {is}, not {wants}", name.text))
        .at(name.span, format!("{wants} is needed here"))
        .help(format!("it belongs into the section `{} {};`", found.as_str(), name.text))
}

/// Which nodes of a graph reach a cycle: what is left when nodes without such successors are taken away.
fn reaching_a_cycle(calls: &[Vec<usize>]) -> Vec<bool> {
    let mut callers = vec![Vec::new(); calls.len()];
    for (from, to) in calls.iter().enumerate().flat_map(|(from, tos)| tos.iter().map(move |to| (from, *to))) {
        callers[to].push(from);
    }
    let mut open: Vec<usize> = calls.iter().map(Vec::len).collect();
    let mut done: Vec<usize> = (0..calls.len()).filter(|at| open[*at] == 0).collect();
    let mut left = vec![true; calls.len()];
    while let Some(at) = done.pop() {
        left[at] = false;
        for &caller in &callers[at] {
            open[caller] -= 1;
            if open[caller] == 0 {
                done.push(caller);
            }
        }
    }
    left
}

/// Every subexpression, without recursion: long sums are deep trees.
pub fn visit<'e>(expr: &'e Expr, f: &mut impl FnMut(&'e Expr)) {
    let mut pending = vec![expr];
    while let Some(expr) = pending.pop() {
        f(expr);
        match &expr.node {
            ExprKind::Number { .. } | ExprKind::Name(_) => {}
            ExprKind::Negate(x) => pending.push(x),
            ExprKind::Binary { left, right, .. } => pending.extend([&**right, &**left]),
            ExprKind::Call { args, .. } => pending.extend(args.iter().rev().filter_map(value_of)),
            ExprKind::If { condition, then, otherwise } => {
                pending.extend([&**otherwise, &**then, &condition.right, &condition.left]);
            }
        }
    }
}

/// What an argument holds, unless it is a bare mark.
pub fn value_of(arg: &Arg) -> Option<&Expr> {
    match arg {
        Arg::Value(value) | Arg::Named { value, .. } => Some(value),
        Arg::Per(..) => None,
    }
}
