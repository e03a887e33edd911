//! Nothing depends on a name: with every ingredient, parameter and recipe renamed at random, each recipe derives to the
//! same terms up to those names.

use energyc::derive::{backward, derive, hessian};
use energyc::ir::sample::Random;
use energyc::simplify::Options;
use energyc::syntax::ast::{Arg, Expr, ExprKind, File, Ingredient, Item, Section};
use std::collections::BTreeMap;
use std::path::Path;

/// Every term of a recipe's derivation, in the stable text form.
fn terms(source: &str) -> Vec<String> {
    let (file, diagnostics) = energyc::syntax::parse(source);
    assert!(diagnostics.is_empty(), "{source}\n{diagnostics:?}");
    let (recipe, diagnostics) = energyc::check::check(&file, energyc::prelude::load());
    let recipe = recipe.unwrap_or_else(|| panic!("{source}\n{diagnostics:?}"));
    let options = Options::default();
    let d = derive(&recipe, &options);
    let b = backward(&d, &options);
    let h = hessian(&d, &options);
    let named = d.names.iter().map(|n| n.value().to_string());
    let stages = d.stages().into_iter().map(|(_, s)| s.term.to_string());
    let back = b.definitions.iter().chain(&b.gradients).map(|x| x.value.term.to_string());
    named.chain(stages).chain(back).chain([h.product.to_string()]).collect()
}

/// The recipe with the ingredients it uses written out in front, so that they can be renamed too.
fn self_contained(recipe: &str) -> String {
    let (file, _) = energyc::syntax::parse(recipe);
    let prelude = energyc::prelude::load();
    let mut out = String::new();
    for name in used(&file) {
        for source in &prelude.sources {
            let (library, _) = energyc::syntax::parse(&source.text);
            for item in &library.items {
                if let Item::Ingredient(i) = item
                    && i.name.text == name
                {
                    out.push_str(&source.text[i.span.start as usize..i.span.end as usize]);
                    out.push('\n');
                }
            }
        }
    }
    out + recipe
}

fn used(file: &File) -> Vec<String> {
    let recipes = file.items.iter().filter_map(|item| match item {
        Item::Recipe(recipe) => Some(recipe),
        Item::Ingredient(_) => None,
    });
    recipes
        .flat_map(|recipe| &recipe.sections)
        .filter_map(|section| match section {
            Section::Use { name, .. } => Some(name.text.clone()),
            _ => None,
        })
        .collect()
}

/// The names a person chose: of recipes, ingredients and parameters.
fn chosen(file: &File) -> Vec<String> {
    let mut names = Vec::new();
    let mut ingredient = |i: &Ingredient| {
        names.push(i.name.text.clone());
        names.extend(i.params.iter().map(|p| p.name.text.clone()));
    };
    for item in &file.items {
        match item {
            Item::Ingredient(i) => ingredient(i),
            Item::Recipe(recipe) => {
                for section in &recipe.sections {
                    if let Section::Define(i) = section {
                        ingredient(i);
                    }
                }
            }
        }
    }
    for item in &file.items {
        if let Item::Recipe(recipe) = item {
            names.push(recipe.name.text.clone());
            for section in &recipe.sections {
                if let Section::Constrain { .. } = section {
                    names.push("rho".to_string());
                }
            }
        }
    }
    names.sort();
    names.dedup();
    names
}

/// Replaces whole identifiers.
fn replace_words(text: &str, names: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\n']) {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
        } else {
            out.push_str(names.get(&word).map_or(word.as_str(), |n| n.as_str()));
            word.clear();
            out.push(c);
        }
    }
    out
}

#[test]
fn renaming_everything_changes_nothing_but_names() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes");
    let mut random = Random::new(7);
    for entry in std::fs::read_dir(folder).expect("recipes are there") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "recipe") {
            continue;
        }
        let source = self_contained(&std::fs::read_to_string(&path).expect("readable"));
        let (file, _) = energyc::syntax::parse(&source);
        let mut forward = BTreeMap::new();
        for name in chosen(&file) {
            // Functions of the language keep their names even where an ingredient shares one.
            if !calls_function(&file, &name) {
                forward.insert(name, format!("n{:08x}", random.bits() as u32));
            }
        }
        let renamed = replace_words(&source, &forward);
        assert_ne!(renamed, source);
        let back: BTreeMap<String, String> = forward.iter().map(|(a, b)| (b.clone(), a.clone())).collect();
        let partial = |t: &str| replace_words(t, &back).trim_end().to_string();
        let found: Vec<String> = terms(&renamed).iter().map(|t| partial(t)).collect();
        assert_eq!(found, terms(&source), "{}", path.display());
    }
}

/// Whether some formula calls a function of this name.
fn calls_function(file: &File, name: &str) -> bool {
    fn in_expr(e: &Expr, name: &str) -> bool {
        match &e.node {
            ExprKind::Number { .. } | ExprKind::Name(_) => false,
            ExprKind::Negate(x) => in_expr(x, name),
            ExprKind::Binary { left, right, .. } => in_expr(left, name) || in_expr(right, name),
            ExprKind::Call { name: callee, args } => {
                callee.text == name
                    || args.iter().any(|a| match a {
                        Arg::Value(x) | Arg::Named { value: x, .. } => in_expr(x, name),
                        Arg::Per(..) => false,
                    })
            }
            ExprKind::If { condition, then, otherwise } => {
                in_expr(&condition.left, name)
                    || in_expr(&condition.right, name)
                    || in_expr(then, name)
                    || in_expr(otherwise, name)
            }
        }
    }
    file.items.iter().any(|item| match item {
        Item::Ingredient(i) => i.body.iter().any(|s| in_expr(&s.value, name)),
        Item::Recipe(_) => false,
    })
}
