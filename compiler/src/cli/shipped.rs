//! The recipes that come with the compiler, inside the binary: `energyc derive NAME` works anywhere.

/// A recipe's name and its text.
pub struct Shipped {
    pub name: &'static str,
    pub text: &'static str,
}

/// One row a file of `recipes/`; a test keeps the two the same.
macro_rules! shipped {
    ($($name:literal)*) => {
        pub const SHIPPED: &[Shipped] = &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../../../recipes/", $name, ".recipe")),
        }),*];
    };
}

shipped! {
    "cauchy"
    "dense_memory"
    "entmax15"
    "euclidean"
    "gated_linear"
    "hopfield"
    "huber"
    "huber_lse_nag"
    "l1"
    "linear"
    "logcosh"
    "loop_softmax"
    "lp"
    "momentum"
    "nag"
    "newton"
    "newton_light"
    "newton_light_exact"
    "newton_taylor"
    "newton_taylor2"
    "normmax"
    "qknorm"
    "retention"
    "sigmoid_attention"
    "sink"
    "softcap"
    "softmax"
    "sparsemax"
}

/// The shipped recipe that a file argument names, with or without its ending.
pub fn find(argument: &str) -> Option<&'static Shipped> {
    let name = argument.strip_suffix(".recipe").unwrap_or(argument);
    SHIPPED.iter().find(|shipped| shipped.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_the_folder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../recipes");
        let entries = std::fs::read_dir(folder).expect("the folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter_map(|name| name.strip_suffix(".recipe").map(String::from)).collect();
        names.sort();
        let listed: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
        assert_eq!(listed, names);
    }

    #[test]
    fn names_are_found_with_and_without_ending() {
        for shipped in SHIPPED {
            for argument in [shipped.name.to_string(), format!("{}.recipe", shipped.name)] {
                assert!(find(&argument).is_some_and(|found| found.name == shipped.name));
            }
        }
        assert!(find("").is_none());
        assert!(find("no/such/file").is_none());
    }
}
