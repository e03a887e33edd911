//! Any bytes, read and formatted: what is formatted once stays as it is.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = energyc::syntax::read_source(bytes.to_vec(), "input.recipe") else { return };
    let (_, diagnostics) = energyc::syntax::parse(&source.text);
    energyc::diagnostic::render_all(&diagnostics, &source, false);
    if let Ok(once) = energyc::syntax::format(&source.text) {
        assert_eq!(energyc::syntax::format(&once).as_ref(), Ok(&once), "formatting is not idempotent");
    }
});
