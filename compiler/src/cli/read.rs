//! File arguments: from a path, a shipped name or `-` to text, or to the reason why not.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::check::Recipe;
use crate::diagnostic::{Code, Diagnostic};
use crate::pipeline;
use crate::span::Source;
use crate::syntax::read_source;

use super::outcome::{Exit, Outcome};
use super::shipped;

/// More than this is not read: it is beyond the size limit of a recipe whatever comes after.
const MOST_BYTES: u64 = 16 << 20;

/// What a file argument names. A file that exists wins over a shipped recipe.
pub fn source(argument: &Path, color: bool) -> Result<Source, Outcome> {
    match argument.to_str().and_then(shipped::find) {
        Some(found) if !argument.exists() => {
            let name = format!("{}.recipe (shipped)", found.name);
            Ok(Source::new(name, found.text))
        }
        _ => from_disk(argument, color),
    }
}

/// The text of a file, or of standard input for `-`.
pub fn from_disk(argument: &Path, color: bool) -> Result<Source, Outcome> {
    let name = display_name(argument);
    let refused =
        |diagnostic: Diagnostic| Outcome::of_diagnostics(&[diagnostic], &Source::new(name.as_str(), ""), color);
    let bytes = bytes(argument).map_err(refused)?;
    read_source(bytes, name.as_str()).map_err(refused)
}

/// The recipe a file argument names, and what there is to say about it even so; or only what is wrong.
pub fn recipe(argument: &Path, color: bool) -> Result<(Recipe, Outcome), Outcome> {
    recipe_of(&source(argument, color)?, color)
}

/// The same for a text that has been read: standard input can be read only once.
pub fn recipe_of(source: &Source, color: bool) -> Result<(Recipe, Outcome), Outcome> {
    let (recipe, diagnostics) = pipeline::front(&source.text);
    let outcome = Outcome::of_diagnostics(&diagnostics, source, color);
    match recipe {
        Some(recipe) => Ok((recipe, outcome)),
        None => Err(Outcome { exit: Exit::Wrong, ..outcome }),
    }
}

pub fn is_stdin(argument: &Path) -> bool {
    argument == Path::new("-")
}

/// The argument in messages.
pub fn display_name(argument: &Path) -> String {
    if is_stdin(argument) { "<stdin>".to_string() } else { argument.display().to_string() }
}

fn bytes(argument: &Path) -> Result<Vec<u8>, Diagnostic> {
    if is_stdin(argument) {
        return read_all(io::stdin().lock()).map_err(|error| cannot_read(argument, &error));
    }
    if argument.is_dir() {
        let diagnostic = Diagnostic::new(Code::IsDirectory, "this is a directory, not a recipe");
        return Err(diagnostic.help("name the files in it, as in `energyc check folder/*.recipe`"));
    }
    let read = File::open(argument).and_then(read_all);
    read.map_err(|error| cannot_read(argument, &error))
}

fn read_all(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn cannot_read(argument: &Path, error: &io::Error) -> Diagnostic {
    let name = display_name(argument);
    let diagnostic = Diagnostic::new(Code::CannotRead, format!("cannot read `{name}`: {error}"));
    if error.kind() != io::ErrorKind::NotFound {
        return diagnostic;
    }
    let names = shipped::SHIPPED.iter().map(|shipped| shipped.name);
    let wanted = name.strip_suffix(".recipe").unwrap_or(&name);
    diagnostic.did_you_mean(wanted, names).help("`energyc list` shows the shipped recipes")
}
