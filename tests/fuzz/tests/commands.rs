//! Every command of the compiler's on random recipes.

mod program;

#[test]
fn commands_keep_their_promises() {
    program::is_good(&["fuzz", "--recipes", "12", "--seed", "12", "--engine", "commands", "--keep-going"]);
}
