//! The `energyc` command.

fn main() {}
