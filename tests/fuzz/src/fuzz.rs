//! The loop: draw a recipe, compare, report.

use crate::failure::Failure;
use crate::interpreted;
use crate::tally::Tally;
use crate::tree::Recipe;
use crate::{generate, print};
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

/// One valid recipe and its seed, refused ones counted on the way; a panic of the checker is a find.
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

/// One recipe through the interpreter.
pub fn interpret(
    recipe: &Recipe,
    checked: energyc::check::Recipe,
    seed: u64,
    tally: &mut Tally,
) -> Result<(), Failure> {
    match interpreted::compiled(checked)? {
        Ok(compiled) => interpreted::compare(recipe, &compiled, seed, tally),
        Err(why) => {
            tally.unsupport(&why);
            Ok(())
        }
    }
}

/// Runs so many recipes through the interpreter; every find is handed on as it is made.
pub fn interpreted(count: u64, run: u64, tally: &mut Tally, mut found: impl FnMut(&Found) -> bool) {
    for n in 0..count {
        if !one(seed_of(run, n), tally, &mut found) {
            return;
        }
    }
}

/// Runs the recipe of a seed; whether to go on.
pub fn one(seed: u64, tally: &mut Tally, found: &mut dyn FnMut(&Found) -> bool) -> bool {
    let start = Instant::now();
    tally.recipes += 1;
    let find = match draw(seed, tally) {
        Err(find) => Some(*find),
        Ok((recipe, checked)) => {
            let result = interpret(&recipe, checked, seed, tally);
            result.err().map(|failure| Found { seed, recipe, failure })
        }
    };
    tally.took(start.elapsed(), seed);
    find.is_none_or(|find| {
        tally.fail(&find.failure.kind());
        found(&find)
    })
}
