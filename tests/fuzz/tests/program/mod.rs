//! The fuzzer as a program, since what it looks at may do worse than panic.

use std::process::Command;

/// Runs it; at most so many recipes fail, and all of them by numbers that are finite and wrong by this engine.
#[allow(dead_code, reason = "not every test asks for it")]
pub fn fails_at_most(most: usize, engine: &str, arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_energy-fuzz")).args(arguments).output().expect("the fuzzer runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let count = said.lines().last().and_then(|line| line.strip_suffix(" failures")?.parse::<usize>().ok());
    let wrong =
        said.lines().filter(|line| line.starts_with("wrong ") && line.contains(&format!(" ({engine}): "))).count();
    let is_fine = count.is_some_and(|count| count == wrong && count <= most);
    assert!(is_fine, "energy-fuzz {}\n{said}", arguments.join(" "));
    println!("{said}");
}

/// Runs it; all it says is shown when it found something.
#[allow(dead_code, reason = "not every test asks for it")]
pub fn is_good(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_energy-fuzz")).args(arguments).output().expect("the fuzzer runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "energy-fuzz {}\n{said}", arguments.join(" "));
    println!("{said}");
}
