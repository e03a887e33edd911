//! From the tensors of a file to a problem: every input a recipe has is found, checked and filled in, or the tensor that
//! is wrong is named.
//!
//! Positions beyond the length of their sequence are absent, so what a file has there is never looked at.

use crate::mask::Mask;
use crate::problem::{GRAD_ENERGY, GRAD_OUT, Problem, Size, symbols};
use crate::tensors::{LENGTHS, Tensor, Tensors};
use energyc::check::recipe::{Param, Recipe, Values};
use energyc::diagnostic::nearest;
use energyc::ir::eval::Env;
use energyc::ir::{Axis, Role, Sign, traverse};
use energyc::kernel::users;
use energyc::primitives::visible::Visible;
use energyc::verify::samples::number;
use std::collections::BTreeMap;

/// A problem, and the inputs whose gradients go back to the file's author.
#[derive(Clone, Debug)]
pub struct Input {
    pub problem: Problem,
    pub given: Vec<Given>,
}

/// An input that can have a gradient and that a file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// What the file calls it.
    pub name: String,
    /// What the problem calls it.
    pub input: String,
    pub shape: Vec<usize>,
}

/// A tensor that a file may hold.
struct Entry<'r> {
    /// Its name among the inputs of a kernel.
    name: &'r str,
    /// Its name in files.
    file: String,
    /// Another name that files may give it.
    alias: Option<&'static str>,
    kind: Kind<'r>,
}

#[derive(Clone, Copy)]
enum Kind<'r> {
    /// `[B,H,N,d_h]` with the queries' N.
    Queries,
    /// `[B,H,N,d_h]` with the tokens' N.
    Tokens,
    /// The cotangent of the direction, like the queries.
    GradOut,
    /// The cotangent of the energy, `[B,H,N]` with the queries' N.
    GradEnergy,
    /// A number per token.
    Gate,
    /// A number per query.
    QueryGate,
    /// A factor per step.
    Decay,
    /// One number or vector, or one per head.
    Parameter(&'r Param),
}

/// The names in a file that are no names of the recipe's own; a parameter that is called so is told apart.
const OURS: [&str; 3] = ["grad_out", "grad_energy", LENGTHS];

/// The problem that a file states for a recipe.
pub fn input(recipe: &Recipe, mask: Mask, mut file: Tensors) -> Result<Input, String> {
    let entries = entries(recipe);
    refuse_strangers(recipe, &entries, &file)?;
    let size = size(&file)?;
    let lengths = lengths(file.lengths.take(), size)?;
    if mask == Mask::Full && entries.iter().any(|entry| matches!(entry.kind, Kind::Decay)) {
        let why = "a decay runs from a token to a query after it, and the mask `full` shows tokens after the query too";
        return Err(format!("{why}; use `causal` or `window:W`"));
    }
    let mut given = Vec::new();
    let mut tensors = BTreeMap::new();
    for entry in &entries {
        let Some((name, mut tensor)) = take(entry, &mut file.numbers)? else {
            if let Some(values) = entry.without(size)? {
                tensors.insert(entry.name.to_string(), values);
            }
            continue;
        };
        entry.check_shape(&name, &tensor.shape, size)?;
        entry.blank(&mut tensor.data, size, &lengths);
        check_finite(&name, &tensor)?;
        entry.check_domain(&name, recipe, &tensor)?;
        if !matches!(entry.kind, Kind::GradOut | Kind::GradEnergy) {
            given.push(Given { name, input: entry.name.to_string(), shape: tensor.shape.clone() });
        }
        let values = match entry.kind {
            // One for all heads.
            Kind::Parameter(_) if tensor.shape.len() < entry.shape(size).len() => tensor.data.repeat(size.heads),
            _ => tensor.data,
        };
        tensors.insert(entry.name.to_string(), values);
    }
    let seen = mask.visible(size.queries, size.tokens);
    let visible: Vec<Visible> = lengths.iter().map(|length| seen.clone().with_length(*length)).collect();
    Ok(Input { problem: Problem { size, visible, tensors, dropout: None }, given })
}

/// Everything a file may hold for a recipe.
fn entries(recipe: &Recipe) -> Vec<Entry<'_>> {
    let entry = |name: &'static str, kind| Entry { name, file: name.to_string(), alias: None, kind };
    let mut entries = vec![entry("q", Kind::Queries), entry("k", Kind::Tokens)];
    if recipe.values == Values::Free {
        entries.push(entry("v", Kind::Tokens));
    }
    let [grad_out, grad_energy, _] = OURS.map(String::from);
    entries.push(Entry { file: grad_out, ..entry(GRAD_OUT, Kind::GradOut) });
    entries.push(Entry { file: grad_energy, ..entry(GRAD_ENERGY, Kind::GradEnergy) });
    for param in &recipe.params {
        let name = param.name.as_str();
        let file = users::apart(name, |name| OURS.contains(&name));
        let is_free = |alias: &str| recipe.param(alias).is_none();
        let is_only = recipe.params.iter().filter(|other| other.leaf.role == param.leaf.role).count() == 1;
        let (alias, kind) = match param.leaf.role {
            Role::Gate if param.value.is_of_query() => (Some("gamma"), Kind::QueryGate),
            Role::Gate => (Some("gamma"), Kind::Gate),
            Role::Decay => (Some("decay"), Kind::Decay),
            _ => (None, Kind::Parameter(param)),
        };
        entries.push(Entry { name, file, alias: alias.filter(|alias| is_only && is_free(alias)), kind });
    }
    entries
}

/// Every tensor of the file is one of the entries.
fn refuse_strangers(recipe: &Recipe, entries: &[Entry], file: &Tensors) -> Result<(), String> {
    let known = || entries.iter().flat_map(|entry| entry.names()).chain([LENGTHS]);
    let Some(name) = file.numbers.keys().find(|name| !known().any(|known| known == *name)) else { return Ok(()) };
    let of = &recipe.name;
    Err(match (name.as_str(), nearest(name, known())) {
        (name, _) if recipe.structural.iter().any(|(constant, _)| constant == name) => {
            format!("`{name}` is a constant that shapes the formula of `{of}`; change the recipe instead of passing it")
        }
        ("v", _) => format!("`v` is not an input of `{of}`: its values are tied to its keys"),
        (name, Some(near)) => format!("`{name}` is not an input of `{of}`; did you mean `{near}`?"),
        (name, None) => {
            let known: Vec<String> = known().map(|name| format!("`{name}`")).collect();
            format!("`{name}` is not an input of `{of}`, which has {}", known.join(", "))
        }
    })
}

/// The sizes that `q` and `k` have.
fn size(file: &Tensors) -> Result<Size, String> {
    let shape = |name: &str| {
        let tensor = file.numbers.get(name).ok_or(format!("`{name}` is missing; it has the shape [B, H, N, d_h]"))?;
        match <[usize; 4]>::try_from(tensor.shape.as_slice()) {
            Err(_) => Err(format!("`{name}` has the shape {:?}; it has to be [B, H, N, d_h]", tensor.shape)),
            Ok(shape) if shape.contains(&0) => Err(format!("`{name}` has the shape {shape:?}, which is empty")),
            Ok(shape) => Ok(shape),
        }
    };
    let [batch, heads, queries, head] = shape("q")?;
    let [.., tokens, _] = shape("k")?;
    if tokens < queries {
        return Err(format!("`k` has {tokens} positions and `q` has {queries}; queries are the last of the tokens"));
    }
    Ok(Size { batch, heads, queries, tokens, head })
}

/// How long every sequence of the batch is.
fn lengths(given: Option<Tensor<i64>>, size: Size) -> Result<Vec<usize>, String> {
    let Some(Tensor { shape, data }) = given else { return Ok(vec![size.tokens; size.batch]) };
    if shape != [size.batch] {
        return Err(format!("`{LENGTHS}` has the shape {shape:?}; it has to be [{}], one per sequence", size.batch));
    }
    let length = |length: i64| {
        let inside = usize::try_from(length).ok().filter(|length| *length <= size.tokens);
        inside.ok_or(format!("`{LENGTHS}` has {length}, which is not between 0 and {}", size.tokens))
    };
    data.into_iter().map(length).collect()
}

/// The tensor of an entry, and what the file calls it.
fn take(entry: &Entry, file: &mut BTreeMap<String, Tensor>) -> Result<Option<(String, Tensor)>, String> {
    let mut found: Vec<(String, Tensor)> = entry.names().filter_map(|name| file.remove_entry(name)).collect();
    match found.as_slice() {
        [(one, _), (other, _), ..] => Err(format!("`{one}` and `{other}` are the same input; give one of them")),
        _ => Ok(found.pop()),
    }
}

fn check_finite(name: &str, tensor: &Tensor) -> Result<(), String> {
    match tensor.data.iter().position(|x| !x.is_finite()) {
        Some(at) => Err(format!("`{name}` is {} at {:?}", tensor.data[at], index(at, &tensor.shape))),
        None => Ok(()),
    }
}

/// Where an entry of a flat array lies.
pub fn index(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = Vec::new();
    for length in shape.iter().rev() {
        index.insert(0, at % length);
        at /= length;
    }
    index
}

impl Entry<'_> {
    fn names(&self) -> impl Iterator<Item = &str> {
        [Some(self.file.as_str()), self.alias].into_iter().flatten()
    }

    /// How many positions a tensor of this kind has; parameters have none.
    fn positions(&self, size: Size) -> Option<usize> {
        match self.kind {
            Kind::Queries | Kind::GradOut | Kind::GradEnergy | Kind::QueryGate => Some(size.queries),
            Kind::Tokens | Kind::Gate | Kind::Decay => Some(size.tokens),
            Kind::Parameter(_) => None,
        }
    }

    fn shape(&self, size: Size) -> Vec<usize> {
        let Size { batch, heads, head, .. } = size;
        match (self.kind, self.positions(size)) {
            (Kind::Queries | Kind::Tokens | Kind::GradOut, Some(positions)) => vec![batch, heads, positions, head],
            (Kind::Parameter(param), _) if param.leaf.axes.contains(&Axis::E) => vec![heads, head],
            (_, Some(positions)) => vec![batch, heads, positions],
            (_, None) => vec![heads],
        }
    }

    /// What is there if the file does not have it: a parameter's initial value, nothing, or an error.
    fn without(&self, size: Size) -> Result<Option<Vec<f32>>, String> {
        match self.kind {
            Kind::GradOut | Kind::GradEnergy => Ok(None),
            Kind::Parameter(param) => {
                let length = self.shape(size).iter().product();
                Ok(initial(param, size).map(|value| vec![value; length]))
            }
            _ => {
                let name = self.alias.unwrap_or(&self.file);
                Err(format!("`{name}` is missing; it has the shape {:?}", self.shape(size)))
            }
        }
    }

    fn check_shape(&self, name: &str, shape: &[usize], size: Size) -> Result<(), String> {
        let wanted = self.shape(size);
        match self.kind {
            _ if wanted == shape => Ok(()),
            // All heads may share it.
            Kind::Parameter(_) if *shape == wanted[1..] => Ok(()),
            Kind::Parameter(_) => {
                let shared = &wanted[1..];
                Err(format!("`{name}` has the shape {shape:?}; it has to be {shared:?} or {wanted:?}"))
            }
            _ => Err(format!("`{name}` has the shape {shape:?}; it has to be {wanted:?}")),
        }
    }

    /// Overwrites what is absent with something harmless.
    fn blank(&self, data: &mut [f32], size: Size, lengths: &[usize]) {
        let Some(positions) = self.positions(size) else { return };
        let harmless = if matches!(self.kind, Kind::Gate | Kind::QueryGate | Kind::Decay) { 1.0 } else { 0.0 };
        let width = data.len() / (size.all_heads() * positions);
        for (head, values) in data.chunks_mut(positions * width).enumerate() {
            // Positions count from the end: the last query stands at the last token.
            let present = (lengths[head / size.heads] + positions).saturating_sub(size.tokens);
            values[present * width..].fill(harmless);
        }
    }

    /// Values outside of what the recipe was derived for are refused.
    fn check_domain(&self, name: &str, recipe: &Recipe, tensor: &Tensor) -> Result<(), String> {
        let (fits, wanted): (fn(f32) -> bool, &str) = match self.kind {
            Kind::Decay => (|x| x > 0.0 && x <= 1.0, "between 0 and 1"),
            // A gate that is all but closed rounds to 0.
            Kind::Gate | Kind::QueryGate => (|x| x >= 0.0, "positive"),
            Kind::Parameter(param) if shapes_energy(recipe, param) => promise(param.leaf.sign),
            _ => return Ok(()),
        };
        match tensor.data.iter().position(|x| !fits(*x)) {
            None => Ok(()),
            Some(at) if tensor.shape.is_empty() => {
                Err(format!("`{name}` is {}; it has to be {wanted}", tensor.data[at]))
            }
            Some(at) => {
                let (x, index) = (tensor.data[at], index(at, &tensor.shape));
                Err(format!("`{name}` is {x} at {index:?}; it has to be {wanted}"))
            }
        }
    }
}

/// The value a parameter starts with.
fn initial(param: &Param, size: Size) -> Option<f32> {
    param.value.start().map(|value| number(value, &Env::new(symbols(size))) as f32)
}

/// Whether an energy or a constraint has the parameter in it; what only scales a step may have any sign.
fn shapes_energy(recipe: &Recipe, param: &Param) -> bool {
    let radii = recipe.constraints.iter().map(|constraint| &constraint.radius);
    radii.chain([&recipe.energy]).any(|term| traverse::mentions(term, &param.leaf))
}

/// Which values have a sign, and its name.
fn promise(sign: Sign) -> (fn(f32) -> bool, &'static str) {
    match sign {
        Sign::Positive => (|x| x > 0.0, "positive"),
        Sign::NonNegative => (|x| x >= 0.0, "0 or more"),
        Sign::Zero => (|x| x == 0.0, "0"),
        Sign::NonPositive => (|x| x <= 0.0, "0 or less"),
        Sign::Negative => (|x| x < 0.0, "negative"),
        Sign::Unknown => (|_| true, "a number"),
    }
}
