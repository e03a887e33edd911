//! One recipe after the other: draw, compare, make the failing ones smaller.

use crate::catching::catching;
use crate::commands;
use crate::compiled;
use crate::failure::Failure;
use crate::interpreted;
use crate::layers;
use crate::shrink;
use crate::single;
use crate::tally::Tally;
use crate::tree::Recipe;
use crate::{generate, print};
use energyc::{pipeline, plan};
use std::time::Instant;

/// A recipe that failed.
#[derive(Clone, Debug)]
pub struct Found {
    pub seed: u64,
    pub recipe: Recipe,
    pub failure: Failure,
}

/// The seed of the n-th recipe of a run.
pub fn seed_of(run: u64, n: u64) -> u64 {
    run.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(n)
}

/// A valid recipe, refused ones counted on the way; a panic of the checker is a find.
pub fn draw(seed: u64, tally: &mut Tally) -> Result<(Recipe, energyc::check::Recipe), Box<Found>> {
    let mut attempt = 0;
    loop {
        let recipe = generate::recipe(seed.wrapping_add(attempt << 40));
        match interpreted::checked(&print::recipe(&recipe)) {
            Ok(Ok(checked)) => return Ok((recipe, checked)),
            Ok(Err(codes)) => tally.refuse(codes.first().map_or("no diagnostic at all", String::as_str)),
            Err(failure) => return Err(Box::new(Found { seed, recipe, failure })),
        }
        attempt += 1;
    }
}

/// What looks at recipes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// The plan interpreter beside the evaluator.
    Interpreted,
    /// The same in single precision, at inputs of all sizes.
    Single,
    /// The commands of `energyc`.
    Commands,
    /// Emitted kernels beside the evaluator.
    Compiled,
    /// Emitted layers of candle beside the evaluator's.
    Candle,
}

impl Look {
    pub const ALL: [Look; 5] = [Look::Interpreted, Look::Single, Look::Commands, Look::Compiled, Look::Candle];

    /// How many recipes go together, in one crate.
    pub fn together(self) -> u64 {
        match self {
            Look::Interpreted | Look::Single | Look::Commands => 1,
            Look::Compiled => 40,
            Look::Candle => 10,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Look::Interpreted => "interpreted",
            Look::Single => "single",
            Look::Commands => "commands",
            Look::Compiled => "compiled",
            Look::Candle => "candle",
        }
    }

    pub fn parse(name: &str) -> Option<Look> {
        Look::ALL.into_iter().find(|look| look.name() == name)
    }

    /// What is wrong with recipes that are looked at together.
    fn at_all(self, recipes: &[(Recipe, u64)], tally: &mut Tally) -> Vec<Option<Failure>> {
        match self {
            Look::Compiled => compiled::look(recipes, tally),
            Look::Candle => layers::look(recipes, tally),
            Look::Interpreted | Look::Single | Look::Commands => {
                recipes.iter().map(|(recipe, seed)| try_recipe(recipe, self, *seed).err()).collect()
            }
        }
    }

    fn at(self, recipe: &Recipe, checked: energyc::check::Recipe, seed: u64, tally: &mut Tally) -> Result<(), Failure> {
        match self {
            Look::Commands => {
                let folder = tempfile::tempdir().expect("a folder");
                commands::check(&print::recipe(recipe), folder.path())?;
                tally.compared += 1;
                Ok(())
            }
            Look::Compiled | Look::Candle => {
                let failure = self.at_all(&[(recipe.clone(), seed)], tally).pop().flatten();
                failure.map_or(Ok(()), Err)
            }
            Look::Interpreted | Look::Single => {
                let planner = if self == Look::Single { pipeline::planned } else { plan::plan };
                match interpreted::compiled(checked, planner)? {
                    Ok(compiled) if self == Look::Single => single::compare(recipe, &compiled, seed, tally),
                    Ok(compiled) => interpreted::compare(recipe, &compiled, seed, tally),
                    // The interpreter runs every recipe.
                    Err(why) => Err(Failure::Broken { command: "plan".to_string(), detail: why }),
                }
            }
        }
    }
}

/// Any recipe, checked first; one that is refused is fine.
pub fn try_recipe(recipe: &Recipe, look: Look, seed: u64) -> Result<(), Failure> {
    match interpreted::checked(&print::recipe(recipe))? {
        Ok(checked) => look.at(recipe, checked, seed, &mut Tally::default()),
        Err(_) => Ok(()),
    }
}

/// The recipe of a seed.
pub fn one(seed: u64, look: Look, tally: &mut Tally) -> Option<Found> {
    let start = Instant::now();
    tally.recipes += 1;
    let find = match draw(seed, tally) {
        Err(find) => Some(*find),
        Ok((recipe, checked)) => {
            let result = look.at(&recipe, checked, seed, tally);
            result.err().map(|failure| Found { seed, recipe, failure })
        }
    };
    tally.took(start.elapsed(), seed);
    if let Some(find) = &find {
        tally.fail(&find.failure.kind());
    }
    find
}

/// The recipes of several seeds, together.
pub fn several(seeds: &[u64], look: Look, tally: &mut Tally) -> Vec<Found> {
    let start = Instant::now();
    let mut found = vec![];
    let mut recipes = vec![];
    for &seed in seeds {
        tally.recipes += 1;
        match draw(seed, tally) {
            Err(find) => found.push(*find),
            Ok((recipe, _)) => recipes.push((recipe, seed)),
        }
    }
    let failures = look.at_all(&recipes, tally);
    for ((recipe, seed), failure) in recipes.into_iter().zip(failures) {
        found.extend(failure.map(|failure| Found { seed, recipe, failure }));
    }
    tally.took(start.elapsed() / seeds.len().max(1) as u32, seeds.first().copied().unwrap_or_default());
    found.iter().for_each(|find| tally.fail(&find.failure.kind()));
    found
}

/// The same as [`smallest`] with many neighbours at once, in rounds.
fn smallest_of_many(found: &Found, look: Look) -> Found {
    let kind = found.failure.kind();
    let mut best = found.clone();
    let mut from = 0;
    for _ in 0..ROUNDS {
        let valid = |recipe: &Recipe| matches!(interpreted::checked(&print::recipe(recipe)), Ok(Ok(_)));
        let neighbours = shrink::neighbours(&best.recipe);
        let some: Vec<(usize, Recipe)> =
            neighbours.into_iter().enumerate().skip(from).filter(|(_, recipe)| valid(recipe)).take(AT_ONCE).collect();
        let Some((last, _)) = some.last() else { break };
        let recipes: Vec<(Recipe, u64)> = some.iter().map(|(_, recipe)| (recipe.clone(), found.seed)).collect();
        let Ok(failures) = catching("shrink", || look.at_all(&recipes, &mut Tally::default())) else { break };
        let hit = failures.into_iter().zip(&some).find_map(|(failure, (at, recipe))| {
            let failure = failure.filter(|failure| failure.kind() == kind)?;
            Some((*at, Found { seed: found.seed, recipe: recipe.clone(), failure }))
        });
        match hit {
            Some((at, find)) => (from, best) = (at, find),
            None => from = last + 1,
        }
    }
    best
}

/// Crates that are built to make a recipe smaller, and recipes in each.
const ROUNDS: usize = 16;
const AT_ONCE: usize = 8;

/// The smallest recipe that fails in the same way, and how it fails.
pub fn smallest(found: &Found, look: Look) -> Found {
    if look.together() > 1 {
        return smallest_of_many(found, look);
    }
    let kind = found.failure.kind();
    let failure_of = |recipe: &Recipe| {
        // A neighbour may be nonsense that only the evaluator stumbles over.
        let result = catching("shrink", || try_recipe(recipe, look, found.seed)).ok()?;
        result.err().filter(|failure| failure.kind() == kind)
    };
    let recipe = shrink::shrink(&found.recipe, |recipe| failure_of(recipe).is_some());
    let failure = failure_of(&recipe).unwrap_or_else(|| found.failure.clone());
    Found { seed: found.seed, recipe, failure }
}

/// A find in full.
pub fn report(found: &Found) -> String {
    format!("{}\n  seed {}\n{}", found.failure, found.seed, indented(&print::recipe(&found.recipe)))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}
