//! The experiments that come with the runtime, inside the binary: `energyrun experiment NAME` works anywhere.

use super::file::File;
use energyc::diagnostic::nearest;
use std::path::Path;

/// One row a file of `runtime/experiments/`; a test keeps the two the same.
macro_rules! shipped {
    ($($name:literal)*) => {
        pub const SHIPPED: &[(&str, &str)] = &[$(
            ($name, include_str!(concat!("../../experiments/", $name, ".toml"))),
        )*];
    };
}

shipped! {
    "figure4"
    "figure5"
    "table2"
    "figure4-small"
    "ingredients-small"
    "table2-small"
}

/// The text an argument names: a file, or a shipped experiment.
pub fn text(argument: &str) -> Result<String, String> {
    let shipped = SHIPPED.iter().find(|(name, _)| *name == argument);
    match shipped {
        Some((_, text)) if !Path::new(argument).is_file() => Ok((*text).to_string()),
        _ => std::fs::read_to_string(argument).map_err(|error| {
            let names = || SHIPPED.iter().map(|(name, _)| *name);
            let hint = match nearest(argument, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("shipped are {}", names().collect::<Vec<_>>().join(", ")),
            };
            format!("`{argument}` is no shipped experiment, and cannot be read as a file: {error}; {hint}")
        }),
    }
}

/// The experiment an argument names.
pub fn read(argument: &str) -> Result<File, String> {
    File::from_toml(&text(argument)?).map_err(|error| format!("{argument}: {error}"))
}
