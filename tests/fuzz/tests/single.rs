//! Random recipes of fixed seeds in single precision, at inputs of all sizes.

mod program;

/// Recipes of which some result that nearly vanishes has fewer digits than the problem allows. No more may have, and nothing
/// may fail to be finite.
const INEXACT: usize = 9;

#[test]
fn single_precision_keeps_its_promises() {
    let arguments = ["fuzz", "--recipes", "60", "--seed", "1", "--engine", "single", "--keep-going", "--no-shrinking"];
    program::fails_at_most(INEXACT, "single", &arguments);
}
