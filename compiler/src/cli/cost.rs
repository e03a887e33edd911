//! `energyc cost`: how many floating-point operations a layer takes, before and after simplification.
//!
//! *Before* is what differentiation gives, with the weights written out; *after* is the cheapest form the simplifier
//! finds at the sizes, where the backward pass may use every value of the forward one. Equal values count once.

use std::path::PathBuf;

use crate::check::{Param, ParamValue, Recipe, Tokens, Values, WriteBack, inputs};
use crate::derive::{self, Backward, Definition, Derivation, Named, free_values, options_for, reveal_within};
use crate::diagnostic::nearest;
use crate::ir::{Axis, Budget, Expr, Leaf, traverse};
use crate::simplify::cost::{operations, operations_given};
use crate::simplify::polynomial::Polynomial;
use crate::simplify::{Objective, Options, ReferenceSizes, Simplified, simplify};

use super::outcome::{Outcome, message};
use super::read;
use super::table::table;
use super::warnings::warnings;

/// Count the operations of forward and backward, before and after simplification
#[derive(clap::Args, Debug)]
#[command(after_help = "Counted per head over all N queries, then for the layer: H heads and the projections.\n\
    The backward pass has the values of the forward one at hand.\n\n\
    Examples:\n  \
    energyc cost softmax\n  \
    energyc cost mine.recipe --sizes N=1024,d=768,d_h=64,H=12")]
pub struct Args {
    /// A recipe file, a shipped recipe, or `-`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The sizes to evaluate at and to simplify for; those left out keep their defaults [default: N=512,d=512,d_h=64,H=8]
    #[arg(long, value_name = "SIZES", value_parser = parse_sizes)]
    sizes: Option<ReferenceSizes>,
}

/// The formulas that are counted.
struct Formulas {
    before: Before,
    forward: Vec<(String, Simplified)>,
    backward: Vec<(String, Simplified)>,
    /// What surrounds the heads.
    layer: Layer,
}

/// The formulas as differentiation gives them.
struct Before {
    forward: Vec<Expr>,
    backward: Vec<Expr>,
    /// Whether names are written out; formulas that get too long that way keep them.
    is_written_out: bool,
}

/// Nodes that formulas may have together when their names are written out.
const MAX_WRITTEN_OUT: usize = 300_000;

/// Everything of a layer that is not a head.
struct Layer {
    /// How often the heads run: gradients a step times steps.
    runs: i64,
    /// Matrices of d × d that tokens go through, all runs together: q and the output every time; k, and v where the
    /// direction has one, every time or once, as the tokens move along or stay.
    projections: i64,
    /// The optimizer's own arithmetic on tokens and states, forward and backward, all steps together.
    program: [Polynomial; 2],
    /// Made once, for all queries: W1⁺ and what it is multiplied with.
    matrices: Polynomial,
}

/// Operations of one pass.
struct Pass {
    before: Polynomial,
    after: Polynomial,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    let (recipe, said) = match read::recipe(&args.file, color) {
        Ok(checked) => checked,
        Err(refused) => return refused,
    };
    let sizes = args.sizes.unwrap_or_default();
    let formulas = formulas(&recipe, sizes);
    let simplified = formulas.forward.iter().chain(&formulas.backward);
    let simplified = simplified.map(|(name, value)| (name.as_str(), value));
    let said = said.then(warnings(simplified, &read::display_name(&args.file), color));
    let long = "before simplification, every name is counted once: written out, the formulas are too long";
    let messages = if formulas.before.is_written_out { String::new() } else { message("note", long, color) };
    said.then(Outcome { messages, ..Outcome::good(print(&recipe.name, &formulas, sizes)) })
}

fn formulas(recipe: &Recipe, sizes: ReferenceSizes) -> Formulas {
    let readable = derive::derive(recipe, &Options::default());
    let backward = derive::backward(&readable, &Options::default());
    let options = Options { objective: Objective::Cheapest(sizes), ..Options::default() };
    let cheap = options_for(recipe, &options);
    // Each formula is made as cheap as it can be by itself; what they share may make the printed ones cheaper together.
    let values: Vec<(String, Expr)> = readable.names.iter().map(|n| (n.leaf.name.to_string(), n.value())).collect();
    let named = values.iter().map(|(name, value)| (name.clone(), simplify(value, &cheap)));
    let direction = simplify(&readable.direction.term, &cheap);
    let cheapest: Vec<(String, Simplified)> = [("o_h".to_string(), direction)].into_iter().chain(named).collect();
    let printed = values.iter().map(|(name, value)| (name.clone(), Simplified::as_it_is(value)));
    let printed: Vec<(String, Simplified)> =
        [("o_h".to_string(), readable.direction.clone())].into_iter().chain(printed).collect();
    let total = |formulas: &Vec<(String, Simplified)>| operations(&terms(formulas)).evaluate(sizes);
    let forward = if total(&printed) < total(&cheapest) { printed } else { cheapest };
    let direction = forward[0].1.clone();
    let cheapest = Derivation { direction: direction.clone(), ..readable.clone() };
    let layer = layer_of(recipe, &direction.term, &readable);
    let named = |d: Definition| (d.leaf.name.to_string(), d.value);
    let printed: Vec<(String, Simplified)> = wanted(recipe, backward).map(named).collect();
    let cheap = wanted(recipe, derive::backward(&cheapest, &options)).map(named).collect();
    let starts: Vec<Expr> = printed.iter().map(|(_, value)| value.proof.start.clone()).collect();
    let backward = cheapest_together(cheap, printed, &at_hand(&terms(&forward)), sizes);
    Formulas { before: before(&readable, &starts), forward, backward, layer }
}

/// Each formula the cheaper of two ways by itself, or all of them one way, if only as differentiation gives them: what they
/// share counts once.
fn cheapest_together(
    cheap: Vec<(String, Simplified)>,
    printed: Vec<(String, Simplified)>,
    given: &[Expr],
    sizes: ReferenceSizes,
) -> Vec<(String, Simplified)> {
    let total = |formulas: &[(String, Simplified)]| operations_given(&terms(formulas), given).evaluate(sizes);
    let is_cheaper = |x: &(String, Simplified), y: &(String, Simplified)| {
        total(std::slice::from_ref(x)) < total(std::slice::from_ref(y))
    };
    let other = |own: &(String, Simplified)| printed.iter().find(|(name, _)| *name == own.0).cloned();
    let mixed =
        cheap.iter().map(|own| other(own).filter(|other| is_cheaper(other, own)).unwrap_or(own.clone())).collect();
    let start = |(name, value): &(String, Simplified)| (name.clone(), Simplified::as_it_is(&value.proof.start));
    let as_differentiated = printed.iter().map(start).collect();
    let ways: [Vec<(String, Simplified)>; 4] = [cheap, mixed, printed, as_differentiated];
    ways.into_iter().min_by(|x, y| total(x).total_cmp(&total(y))).unwrap_or_default()
}

fn layer_of(recipe: &Recipe, direction: &Expr, derivation: &Derivation) -> Layer {
    let runs = recipe.program.gradients.len() as i64 * i64::from(recipe.steps);
    let formulas = derivation.names.iter().map(Named::value).chain([direction.clone()]);
    let has_values = formulas.into_iter().any(|e| traverse::mentions(&e, &inputs::v()));
    let of_tokens = if has_values { 2 } else { 1 };
    let token_runs = if recipe.tokens == Tokens::Fixed { 1 } else { runs };
    let program = &recipe.program;
    let forward: Vec<Expr> =
        program.gradients.iter().chain(&program.next_states).chain([&program.z]).cloned().collect();
    let step = derive::step_backward(recipe, &Options::default());
    let backward = step.forces.iter().chain(step.inputs.iter().map(|(_, definition)| definition));
    let backward: Vec<Expr> = backward.map(|definition| definition.value.term.clone()).collect();
    let steps = i64::from(recipe.steps);
    Layer {
        runs,
        projections: 2 * runs + of_tokens * token_runs,
        program: [operations(&forward).scale(steps), operations(&backward).scale(steps)],
        matrices: matrices(recipe.write_back),
    }
}

/// W1 W1ᵀ, its inverse and W1ᵀ times that; then W_O W_V times that. One head.
fn matrices(write_back: WriteBack) -> Polynomial {
    let [d, d_h] = ["d", "d_h"].map(Polynomial::symbol);
    let square = d.times(&d_h).times(&d_h);
    let inverse = square.scale(4).plus(&d_h.times(&d_h).times(&d_h));
    match write_back {
        WriteBack::Transpose | WriteBack::Free => Polynomial::default(),
        WriteBack::Pinv => inverse,
        WriteBack::FreePinv => inverse.plus(&square.scale(4)),
    }
}

fn before(derivation: &Derivation, backward: &[Expr]) -> Before {
    let budget = Budget::of(MAX_WRITTEN_OUT);
    let forward = differentiated(derivation);
    let written_out = |e: &Expr| reveal_within(e, &derivation.names, &budget);
    if let Some(forward) = written_out(&forward)
        && let Some(backward) = backward.iter().map(written_out).collect()
    {
        return Before { forward: vec![forward], backward, is_written_out: true };
    }
    let with_names = |e: &[Expr]| e.iter().cloned().chain(derivation.names.iter().map(Named::value)).collect();
    Before { forward: with_names(&[forward]), backward: with_names(backward), is_written_out: false }
}

/// The direction as differentiation gives it; a solved system as it is printed.
fn differentiated(derivation: &Derivation) -> Expr {
    if derivation.preconditioned.is_some() {
        return derivation.direction.term.clone();
    }
    let descent = derivation.gradient.proof.start.neg();
    match derivation.recipe.values {
        Values::Free => free_values(&descent),
        Values::Tied => descent,
    }
}

/// What training computes: nobody asks for the cotangent of a parameter that is fixed.
fn wanted(recipe: &Recipe, backward: Backward) -> impl Iterator<Item = Definition> {
    let is_fixed = |leaf: &Leaf| {
        let same = |param: &&Param| (param.leaf.role, param.leaf.ordinal) == (leaf.role, leaf.ordinal);
        recipe.params.iter().find(same).is_some_and(|param| matches!(param.value, ParamValue::Fixed(_)))
    };
    let gradients = backward.gradients.into_iter().filter(move |definition| !is_fixed(&definition.leaf));
    backward.definitions.into_iter().chain(gradients)
}

fn forward(formulas: &Formulas) -> Pass {
    Pass { before: operations(&formulas.before.forward), after: operations(&terms(&formulas.forward)) }
}

fn backward(formulas: &Formulas) -> Pass {
    let given = at_hand(&terms(&formulas.forward));
    Pass { before: operations(&formulas.before.backward), after: operations_given(&terms(&formulas.backward), &given) }
}

fn terms(simplified: &[(String, Simplified)]) -> Vec<Expr> {
    simplified.iter().map(|(_, value)| value.term.clone()).collect()
}

/// Every value the forward pass computes, along its own axes and under the names a sum gives them.
fn at_hand(forward: &[Expr]) -> Vec<Expr> {
    let values = forward.iter().flat_map(traverse::subterms);
    let computed = values.filter(|value| value.as_leaf().is_none() && value.as_const().is_none());
    let mut all: Vec<Expr> = computed.flat_map(|value| [value.split_coefficient().1, value]).collect();
    for axis in [Axis::N, Axis::E] {
        let bound = [1, 2].map(|number| Axis::new(axis.space, number));
        let renamed = all.iter().filter(|value| value.has_axis(axis));
        let renamed = renamed.flat_map(|value| bound.map(|bound| traverse::rename(value, axis, bound)));
        all.extend(renamed.collect::<Vec<_>>());
    }
    all
}

/// H heads, and `times` 2·N·d² for every projection.
fn whole(head: &Polynomial, layer: &Layer, times: i64) -> Polynomial {
    let [n, d, heads] = ["N", "d", "H"].map(Polynomial::symbol);
    let projections = n.times(&d).times(&d).scale(2 * layer.projections * times);
    let program = &layer.program[usize::from(times > 1)];
    let matrices = layer.matrices.times(&heads).scale(times);
    head.times(&heads).scale(layer.runs).plus(&projections).plus(program).plus(&matrices)
}

fn print(name: &str, formulas: &Formulas, sizes: ReferenceSizes) -> String {
    let (forward, backward, layer) = (forward(formulas), backward(formulas), &formulas.layer);
    let row = |pass: &str, when: &str, p: &Polynomial| {
        let value = grouped(p.evaluate(sizes));
        [pass.to_string(), when.to_string(), value, p.to_string()]
    };
    let rows = |of: &dyn Fn(&Polynomial, i64) -> Polynomial| -> Vec<[String; 4]> {
        vec![
            row("forward", "before", &of(&forward.before, 1)),
            row("", "after", &of(&forward.after, 1)),
            row("backward", "before", &of(&backward.before, 2)),
            row("", "after", &of(&backward.after, 2)),
        ]
    };
    let head = right_aligned(rows(&|p, _| p.clone()));
    // The backward pass of a matrix goes to its input and to the matrix.
    let layers = right_aligned(rows(&|p, times| whole(p, layer, times)));
    let runs = if layer.runs > 1 { format!(", {} runs of each head", layer.runs) } else { String::new() };
    let order = |p: &Polynomial, times: i64| whole(p, layer, times).order_per_query();
    format!(
        "{name}: floating-point operations at {}, before and after simplification\n\n\
         One head, all queries\n{}\n\
         The layer: H heads, {} projections and the optimizer{runs}\n{}\n\
         One query, all heads, with d_h = d/H and without what is made once for all queries\n    \
         forward   O({})\n    backward  O({})\n",
        describe(sizes),
        table(&head, 4),
        layer.projections,
        table(&layers, 4),
        order(&forward.after, 1),
        order(&backward.after, 2),
    )
}

/// The same rows with the values flush right.
fn right_aligned(mut rows: Vec<[String; 4]>) -> Vec<[String; 4]> {
    let width = rows.iter().map(|row| row[2].len()).max().unwrap_or(0);
    for row in &mut rows {
        row[2] = format!("{:>width$}", row[2]);
    }
    rows
}

fn describe(sizes: ReferenceSizes) -> String {
    let parts = SIZES.map(|(name, of)| format!("{name} = {}", of(&mut sizes.clone())));
    parts.join(", ")
}

/// 1234567 as 1,234,567; what is too large for that in scientific notation.
fn grouped(value: f64) -> String {
    if value.abs() >= 1e18 {
        return format!("{value:.3e}");
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (j, digit) in digits.chars().enumerate() {
        let left = digits.len() - j;
        if j > 0 && left % 3 == 0 && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

type SizeOf = fn(&mut ReferenceSizes) -> &mut f64;

const SIZES: [(&str, SizeOf); 4] = [
    ("N", |sizes| &mut sizes.tokens),
    ("d", |sizes| &mut sizes.model),
    ("d_h", |sizes| &mut sizes.head),
    ("H", |sizes| &mut sizes.heads),
];

/// `N=512,d=512,d_h=64,H=8`, in any order.
fn parse_sizes(text: &str) -> Result<ReferenceSizes, String> {
    let mut sizes = ReferenceSizes::default();
    let mut given: Vec<&str> = Vec::new();
    for part in text.split(',') {
        let Some((name, value)) = part.split_once('=') else {
            return Err(format!("`{part}` is not of the form NAME=NUMBER"));
        };
        let (name, value) = (name.trim(), value.trim());
        let Some((name, of)) = SIZES.into_iter().find(|(known, _)| *known == name) else {
            return Err(unknown_size(name));
        };
        if given.contains(&name) {
            return Err(format!("`{name}` is given twice"));
        }
        given.push(name);
        *of(&mut sizes) = match value.parse::<u32>() {
            Ok(value) if value > 0 => f64::from(value),
            _ => return Err(format!("`{name}` must be a positive integer, not `{value}`")),
        };
    }
    Ok(sizes)
}

fn unknown_size(name: &str) -> String {
    let names = SIZES.map(|(name, _)| name);
    match nearest(name, names) {
        Some(known) => format!("no size is called `{name}`; did you mean `{known}`?"),
        None => format!("no size is called `{name}`; there are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_any_order_and_refused_when_wrong() {
        let sizes = parse_sizes("H=2, N=7").expect("sizes");
        assert_eq!((sizes.tokens, sizes.heads), (7.0, 2.0));
        assert_eq!(sizes.model, ReferenceSizes::default().model);
        for wrong in ["", "N", "N=", "N=0", "N=-1", "N=1.5", "N=1,N=2", "M=1", "N=1,"] {
            assert!(parse_sizes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_grouped() {
        let shown = [0.0, 999.0, 1000.0, 1234567.0, -1234.0].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567", "-1,234"]);
        assert_eq!(grouped(1e20), "1.000e20");
    }
}
