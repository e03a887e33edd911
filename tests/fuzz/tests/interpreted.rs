//! Random recipes of fixed seeds by the plan interpreter, beside the evaluator: nothing panics, nothing is wrong.

use energy_fuzz::fuzz::{self, Look};
use energy_fuzz::tally::Tally;

const RECIPES: u64 = 300;
const SEED: u64 = 1;
/// As much as the compiler's own programs have.
const STACK_BYTES: usize = 256 << 20;

#[test]
fn plans_of_random_recipes_compute_what_they_mean() {
    let work = || {
        let mut tally = Tally::default();
        let found = (0..RECIPES).filter_map(|n| fuzz::one(fuzz::seed_of(SEED, n), Look::Interpreted, &mut tally));
        let found: Vec<String> = found.map(|found| fuzz::report(&found)).collect();
        assert!(found.is_empty(), "{} of {RECIPES} recipes fail:\n{}", found.len(), found.join("\n"));
        assert!(tally.compared > 2 * RECIPES as usize, "only {} points were compared", tally.compared);
    };
    let worker = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work).expect("a thread");
    worker.join().expect("no recipe fails");
}
