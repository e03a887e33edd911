//! Any text, checked: a recipe or an error, and never neither.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (recipe, diagnostics) = energyc::pipeline::front(text);
    assert!(recipe.is_some() || diagnostics.iter().any(|d| d.is_error()), "neither a recipe nor an error");
});
