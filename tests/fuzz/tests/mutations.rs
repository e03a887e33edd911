//! Recipe files with bytes changed.

mod program;

#[test]
fn two_thousand_mutations_are_read_without_a_panic() {
    program::is_good(&["mutate", "--mutations", "2000", "--seed", "15"]);
}
