//! The fuzzer as a program, since what it looks at may do worse than panic.

use std::process::Command;

/// Runs it; all it says is shown when it found something.
pub fn is_good(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_energy-fuzz")).args(arguments).output().expect("the fuzzer runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "energy-fuzz {}\n{said}", arguments.join(" "));
    println!("{said}");
}
