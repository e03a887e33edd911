//! `energyc skips`: the skip connections an optimizer makes through a stack of layers.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::check::Recipe;
use crate::ir::Rational;
use crate::notation::{symbol, text};
use crate::skips::series::{self, Spacing};
use crate::skips::values::described;
use crate::skips::{self, Connections, Form, MAX_LAYERS, Polynomial, Stop, Unrolled, Values, connections};
use crate::syntax::parse_number;

use super::outcome::{Exit, Outcome, count, message};
use super::table::{shortened, table};
use super::{atomic, read};

/// Columns for a weight, so that a line fits a wide terminal; JSON has all of it.
const WEIGHT_WIDTH: usize = 100;

/// Show the skip connections an optimizer makes through a stack of layers, and their weights
#[derive(clap::Args, Debug)]
#[command(
    after_help = "With f^(k) = −∇F in layer k: z^(L) = z^(0) + Σ_k w_k f^(k), and likewise the look-ahead point\n\
    at which layer L would take its gradient. Exit code 1 if the weights depend on the data.\n\n\
    Examples:\n  \
    energyc skips mine.recipe --layers 3\n  \
    energyc skips mine.recipe --layers 6 --at beta=0.8,eta=0.5 --svg mine.svg\n  \
    energyc skips mine.recipe --layers 4 --format json"
)]
pub struct Args {
    /// A recipe file, a shipped recipe, or `-`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How many layers
    #[arg(long, value_name = "L", value_parser = parse_layers)]
    layers: usize,
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// Numbers for the optimizer's parameters; those left out keep their values or initial values
    #[arg(long, value_name = "VALUES", value_parser = parse_values)]
    at: Option<Given>,
    /// Draw the connections into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    /// Unicode, for reading
    Text,
    /// A whole file for pdflatex
    Latex,
    /// Every weight multiplied out, in the syntax of recipes
    Json,
}

/// Names with numbers, each name once.
#[derive(Clone, PartialEq, Debug)]
struct Given(Vec<(String, Rational)>);

pub fn run(args: &Args, color: bool) -> Outcome {
    let (recipe, said) = match read::recipe(&args.file, color) {
        Ok(checked) => checked,
        Err(refused) => return refused,
    };
    said.then(answer(args, &recipe, color).unwrap_or_else(|refused| refused))
}

fn answer(args: &Args, recipe: &Recipe, color: bool) -> Result<Outcome, Outcome> {
    let refused = |text: String| usage(&text, color);
    let values = args.at.as_ref().map(|given| skips::values(recipe, &given.0)).transpose();
    let values = values.map_err(|text| refused(format!("--at: {text}")))?;
    let put_in = values.clone().unwrap_or_default();
    let unrolled =
        skips::unroll(recipe, args.layers, &put_in).map_err(|stop| no_weights(&stop, args, recipe, color))?;
    if values.is_some() && !has_values(&unrolled) {
        return Err(refused("--at: a weight is no finite number at these values".to_string()));
    }
    let connections = connections(&unrolled);
    let drawn = match &args.svg {
        Some(path) => {
            draw(path, args, &skips::figure::figure(&recipe.name, &unrolled, &connections, values.as_ref()), color)?
        }
        None => Outcome::default(),
    };
    let name = &recipe.name;
    let results = match args.format {
        Format::Text => print(name, &unrolled, &connections, values.as_ref()),
        Format::Latex => skips::latex::print(name, &unrolled, &connections, values.is_some()),
        Format::Json => format!("{:#}\n", skips::json::print(name, &unrolled, &connections, values.as_ref())),
    };
    Ok(drawn.then(Outcome::good(results)))
}

fn usage(text: &str, color: bool) -> Outcome {
    Outcome { messages: message("error", text, color), exit: Exit::Usage, ..Outcome::default() }
}

fn no_weights(stop: &Stop, args: &Args, recipe: &Recipe, color: bool) -> Outcome {
    let name = &recipe.name;
    match stop {
        Stop::DependsOnData(term) => {
            let term = text::plain(term);
            let text = format!(
                "the weights of the skip connections of `{name}` depend on the data: its optimizer computes {term}, \
                 which is not linear in the token, the states and the gradients"
            );
            Outcome::wrong(message("error", &text, color))
        }
        Stop::TooLarge => {
            let layers = count(args.layers, "layer");
            let text = format!(
                "--layers: the weights of {layers} have too many terms or digits; ask for fewer layers, or give short \
                 numbers with --at"
            );
            usage(&text, color)
        }
    }
}

fn has_values(unrolled: &Unrolled) -> bool {
    let points = unrolled.points.iter().map(|point| &point.form);
    let weights = |form: &'_ Form| -> Vec<Polynomial> {
        form.outputs.values().chain([&form.origin, &form.ones]).cloned().collect()
    };
    unrolled.tokens.iter().chain(points).flat_map(weights).all(|weight| weight.value().is_some())
}

/// Writes the figure, over an older one if there is one, but never over the recipe.
fn draw(path: &Path, args: &Args, figure: &str, color: bool) -> Result<Outcome, Outcome> {
    let same = |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if read::is_stdin(path) || same(path, &args.file) {
        return Err(usage(&format!("--svg: `{}` is no place for a figure", path.display()), color));
    }
    match atomic::write(path, figure) {
        Ok(()) => Ok(Outcome { messages: format!("wrote {}\n", path.display()), ..Outcome::default() }),
        Err(error) => {
            Err(Outcome::wrong(message("error", &format!("cannot write `{}`: {error}", path.display()), color)))
        }
    }
}

fn print(name: &str, unrolled: &Unrolled, connections: &Connections, values: Option<&Values>) -> String {
    let layers = unrolled.layers;
    let result = format!("z{}", at_layer(layers));
    let ahead = unrolled.points_of(layers).iter().enumerate().filter(|(_, point)| point.is_lookahead);
    let ahead: Vec<(String, &Form)> =
        ahead.map(|(i, point)| (format!("z\u{303}{}{}", index(i, unrolled), at_layer(layers)), &point.form)).collect();
    let mut out = format!("{name}: skip connections over {}{}\n\n", count(layers, "layer"), described(values));
    out.push_str(&weights(&result, unrolled.result(), unrolled, values.is_some()));
    for (point, form) in &ahead {
        out.push('\n');
        out.push_str(&weights(point, form, unrolled, values.is_some()));
    }
    let taken: Vec<&str> = ahead.iter().map(|(point, _)| point.as_str()).collect();
    let taken = match taken.as_slice() {
        [] => String::new(),
        points => format!("; {} is where layer {layers} would take a gradient", points.join(", as ")),
    };
    out.push_str(&format!(
        "\nf⁽ᵏ⁾ is {} in layer k{taken}.\n{}",
        unrolled.output,
        counts(&result, unrolled, connections)
    ));
    out
}

/// The combination a token or a point is, a row a weight.
fn weights(what: &str, form: &Form, unrolled: &Unrolled, as_numbers: bool) -> String {
    let row = |name: String, weight: &Polynomial| {
        let shown = series::shown(weight, as_numbers, Spacing::Wide);
        [name, shortened(&shown, WEIGHT_WIDTH)]
    };
    let origin = (!form.origin.is_zero()).then(|| row(format!("z{}", at_layer(0)), &form.origin));
    let outputs = form.outputs.iter().map(|(number, weight)| {
        let (layer, i) = unrolled.place(*number);
        row(format!("f{}{}", index(i, unrolled), at_layer(layer)), weight)
    });
    let ones = (!form.ones.is_zero()).then(|| row("1".to_string(), &form.ones));
    let rows: Vec<[String; 2]> = origin.into_iter().chain(outputs).chain(ones).collect();
    format!("{what} is the weighted sum of\n{}", table(&rows, 4))
}

fn counts(result: &str, unrolled: &Unrolled, connections: &Connections) -> String {
    let layers = unrolled.layers;
    let [useful, all] = [&connections.useful, &connections.all].map(|shown| skips::connections::count(shown));
    let has_lookahead = unrolled.points.iter().any(|point| point.is_lookahead);
    match has_lookahead {
        false => format!("{}: from the f's before into every z⁽ᵏ⁾, k = 1…{layers}.\n", count(all, "skip connection")),
        true => format!(
            "{} into {result} and into the look-ahead points it depends on;\n{all} with those into every other z⁽ᵏ⁾.\n",
            count(useful, "useful skip connection")
        ),
    }
}

/// ⁽³⁾.
fn at_layer(layer: usize) -> String {
    format!("⁽{}⁾", symbol::superscript(&layer.to_string()).unwrap_or_default())
}

/// Which of a layer's gradients, if there are several.
fn index(i: usize, unrolled: &Unrolled) -> String {
    match unrolled.gradients {
        1 => String::new(),
        _ => symbol::subscript(&(i + 1).to_string()).unwrap_or_default(),
    }
}

fn parse_layers(text: &str) -> Result<usize, String> {
    let layers = text.parse().ok().filter(|layers| (1..=MAX_LAYERS).contains(layers));
    layers.ok_or_else(|| format!("a whole number from 1 to {MAX_LAYERS} is wanted"))
}

/// `beta=0.8,eta=0.5`, in any order.
fn parse_values(text: &str) -> Result<Given, String> {
    let mut given: Vec<(String, Rational)> = Vec::new();
    for part in text.split(',') {
        let Some((name, value)) = part.split_once('=') else {
            return Err(format!("`{part}` is not of the form NAME=NUMBER"));
        };
        let (name, value) = (name.trim(), value.trim());
        if given.iter().any(|(known, _)| known == name) {
            return Err(format!("`{name}` is given twice"));
        }
        let (is_negative, digits) = value.strip_prefix('-').map_or((false, value), |digits| (true, digits));
        let number = parse_number(digits).map_err(|why| format!("`{value}` is no number for `{name}`: {why}"))?;
        given.push((name.to_string(), if is_negative { -number } else { number }));
    }
    Ok(Given(given))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::rational::ratio;

    #[test]
    fn values_are_exact_and_refused_when_wrong() {
        let given = parse_values("beta=0.8, eta = -1e-1").expect("values");
        assert_eq!(given.0, [("beta".to_string(), ratio(4, 5)), ("eta".to_string(), ratio(-1, 10))]);
        for wrong in ["", "a", "a=", "a=x", "a=nan", "a=inf", "a=--1", "a=1,a=2", "a=1,", "a=1e999", "a=.", "a=1;b=2"] {
            assert!(parse_values(wrong).is_err(), "{wrong}");
        }
    }
}
