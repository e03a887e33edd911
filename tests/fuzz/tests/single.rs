//! Random recipes of fixed seeds with inputs and outputs in single precision, at inputs of all sizes.

mod program;

#[test]
fn single_precision_keeps_its_promises() {
    program::is_good(&[
        "fuzz",
        "--recipes",
        "60",
        "--seed",
        "1",
        "--engine",
        "single",
        "--keep-going",
        "--no-shrinking",
    ]);
}
