//! Random recipes as kernels and as layers of candle, built and run. Crates are built in one folder, one after the other.

mod program;

#[test]
fn kernels_and_layers_mean_what_their_recipes_say() {
    program::is_good(&[
        "fuzz",
        "--recipes",
        "40",
        "--seed",
        "13",
        "--engine",
        "compiled",
        "--keep-going",
        "--no-shrinking",
    ]);
    program::is_good(&[
        "fuzz",
        "--recipes",
        "10",
        "--seed",
        "14",
        "--engine",
        "candle",
        "--keep-going",
        "--no-shrinking",
    ]);
}
