//! `energyc new`: a first recipe to change.

use std::io;
use std::path::PathBuf;

use crate::pipeline;

use super::atomic;
use super::outcome::{Outcome, message};

/// Write a new recipe with comments to start from
#[derive(clap::Args, Debug)]
#[command(after_help = "An existing file is never overwritten.\n\n\
    Examples:\n  \
    energyc new mine\n  \
    energyc new mine -o layers/mine.recipe")]
pub struct Args {
    /// The name of the recipe: letters, digits and `_`
    #[arg(value_name = "NAME", value_parser = parse)]
    name: String,
    /// Where to write it [default: NAME.recipe]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    let default = || PathBuf::from(format!("{}.recipe", args.name));
    let path = args.output.clone().unwrap_or_else(default);
    match atomic::create(&path, template(&args.name)) {
        Ok(()) => Outcome::good(format!("wrote {}\n", path.display())),
        Err(error) => {
            let reason = match error.kind() {
                io::ErrorKind::AlreadyExists => "it exists already".to_string(),
                _ => error.to_string(),
            };
            let text = format!("cannot write `{}`: {reason}", path.display());
            Outcome::wrong(message("error", &text, color))
        }
    }
}

fn template(name: &str) -> String {
    include_str!("template.recipe").replace("NAME", name)
}

/// A name is what the language takes for one.
fn parse(name: &str) -> Result<String, String> {
    let begins_right = !name.is_empty() && !name.starts_with(char::is_numeric);
    if !begins_right || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return Err("a name is made of letters, digits and `_`, and begins with no digit".to_string());
    }
    match pipeline::front(&template(name)) {
        (Some(_), _) => Ok(name.to_string()),
        (None, diagnostics) => Err(diagnostics.first().map_or_else(
            || "the language does not take it for a name".to_string(),
            |diagnostic| diagnostic.message.clone(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::format;

    #[test]
    fn the_template_checks_without_a_word_and_is_in_house_style() {
        let text = template("mine");
        let (recipe, diagnostics) = pipeline::front(&text);
        assert_eq!(diagnostics, []);
        assert_eq!(recipe.expect("a recipe").name, "mine");
        assert_eq!(format(&text).expect("formatted"), text);
    }

    #[test]
    fn names_are_names_of_the_language() {
        for name in ["a", "mine_2", "_x", "NAME", "Straße"] {
            let checked = parse(name).is_ok();
            assert_eq!(checked, pipeline::front(&template(name)).0.is_some());
        }
        assert!(parse("mine").is_ok());
        for name in ["", "2a", "a b", "a-b", "recipe", "x { }", "../x", "a\nb"] {
            assert!(parse(name).is_err(), "{name}");
        }
    }
}
