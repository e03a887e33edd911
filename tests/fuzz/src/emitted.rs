//! Recipes as emitted sources, which is where the engines that build crates begin: the text for a target, and what the recipe
//! means.

use crate::catching::catching;
use crate::expansion;
use crate::failure::Failure;
use crate::interpreted::{self, Compiled};
use crate::meaning::Meaning;
use crate::print;
use crate::tally::Tally;
use crate::tree::Recipe;
use energyc::pipeline::{self, Target};
use energyc::plan;
use energyc::simplify::Options;

/// Sources of more bytes are left out.
const LONGEST: usize = 460_000;

/// A recipe with its source.
pub struct Emitted {
    pub compiled: Compiled,
    pub meaning: Meaning,
    pub source: String,
}

/// The source of a recipe for a target; nothing where there is none to have, which is counted.
pub fn emitted(recipe: &Recipe, target: Target, tally: &mut Tally) -> Result<Option<Emitted>, Failure> {
    let Ok(checked) = interpreted::checked(&print::recipe(recipe))? else { return Ok(None) };
    let compiled = match interpreted::compiled(checked, plan::plan)? {
        Ok(compiled) => compiled,
        Err(why) => {
            tally.unsupport(&why);
            return Ok(None);
        }
    };
    let source = match catching("emit", || pipeline::compile(&compiled.recipe, target, &Options::default()))? {
        Ok(source) => source,
        Err(why) if why.is_fault() => {
            return Err(Failure::Broken { command: "compile".to_string(), detail: why.to_string() });
        }
        Err(why) => {
            tally.unsupport(&why.to_string());
            return Ok(None);
        }
    };
    if source.len() > LONGEST {
        tally.skip("a source that would take minutes to build");
        return Ok(None);
    }
    let meaning = expansion::meaning(recipe, &compiled.derivation, tally);
    Ok(meaning.map(|meaning| Emitted { compiled, meaning, source }))
}
