//! Random inputs to look at an energy with: settings (tokens and parameters), and in each several places for q.
//!
//! Convexity is a statement about q with everything else held fixed, so two places can only witness against each other
//! when they share a setting. Sizes are small and include one token, one component, more tokens than components and
//! fewer; parameters stand at the values the recipe starts them with, or what is learned is random within its domain; all
//! seeds are fixed.

use crate::check::inputs;
use crate::check::recipe::Recipe;
use crate::ir::eval::{Env, Sizes};
use crate::ir::sample::{Random, sample};
use crate::ir::tensor::Tensor;
use crate::ir::{Axis, Budget, Expr, Leaf};
use crate::notation::symbol::subscript;
use crate::notation::{Math, text};
use crate::verify::samples::{number, start, within};

/// (N, d_h), the smallest first.
pub const SHAPES: [(usize, usize); 7] = [(1, 1), (2, 1), (1, 3), (2, 2), (4, 2), (3, 5), (5, 3)];

/// How far the tokens are spread, setting by setting.
const SPREADS: [f64; 3] = [1.0, 3.0, 0.3];

/// Nodes that may be evaluated in all settings together.
const WORK: usize = 3_000_000;

/// ‖q‖ and ‖k_i‖ may be this large.
#[derive(Clone, Debug)]
pub struct Ball {
    pub query: Expr,
    pub key: Expr,
}

/// Tokens and parameters; one query, at the first place to look.
#[derive(Clone, Debug)]
pub struct Setting {
    pub env: Env,
    /// Whether the parameters have the values the recipe starts with.
    pub at_start: bool,
    pub seed: u64,
    /// Where to put q.
    pub places: Vec<Vec<f64>>,
}

/// Every setting for the inputs of some terms, inside the ball if there is one.
pub fn settings(terms: &[Expr], recipe: &Recipe, ball: Option<&Ball>) -> Vec<Setting> {
    let work = Budget::of(WORK);
    let mut all = Vec::new();
    for (tokens, head) in SHAPES {
        for (number, spread) in (0..).zip(SPREADS) {
            for at_start in [true, false] {
                // Where nothing is learned, other draws are all that is new.
                let seed = if at_start { number } else { number + SPREADS.len() as u64 };
                let sizes = Sizes { queries: 1, tokens, head, model: 2, heads: 2 };
                let mut drawn = setting(terms, recipe, ball, sizes, seed, spread, at_start);
                drawn.env.work = work.clone();
                all.push(drawn);
            }
        }
    }
    all
}

fn setting(
    terms: &[Expr],
    recipe: &Recipe,
    ball: Option<&Ball>,
    sizes: Sizes,
    seed: u64,
    spread: f64,
    at_start: bool,
) -> Setting {
    let mut random = Random::new(seed);
    let tokens = [Expr::leaf(inputs::q()), Expr::leaf(inputs::k())];
    let radii = ball.iter().flat_map(|ball| [ball.query.clone(), ball.key.clone()]);
    let terms: Vec<Expr> = terms.iter().cloned().chain(tokens).chain(radii).collect();
    let mut env = sample(&terms, sizes, &[], &mut random);
    if at_start {
        start(&mut env, recipe);
    } else {
        within(&mut env, recipe, &mut random);
    }
    let width = sizes.head;
    if let Some(keys) = env.values.get_mut(&*inputs::k().name) {
        keys.data.iter_mut().for_each(|x| *x *= spread);
    }
    if let Some(ball) = ball {
        let radius = number(&ball.key, &env);
        let keys = env.values.get_mut(&*inputs::k().name);
        keys.into_iter().for_each(|k| k.data.chunks_mut(width).for_each(|row| bring_inside(row, radius, &mut random)));
    }
    let mut places = places(&env, spread, &mut random);
    if let Some(ball) = ball {
        let radius = number(&ball.query, &env);
        places.iter_mut().for_each(|q| bring_inside(q, radius, &mut random));
    }
    Setting { env, at_start, seed, places }
}

/// Near the tokens and away from them, between two of them, and near 0.
fn places(env: &Env, spread: f64, random: &mut Random) -> Vec<Vec<f64>> {
    let width = env.sizes.head;
    let keys = env.values.get(&*inputs::k().name).map_or(vec![], |k| k.data.clone());
    let key = |i: usize| keys.chunks(width).nth(i % env.sizes.tokens).map_or(vec![0.0; width], <[f64]>::to_vec);
    let between: Vec<f64> = key(0).iter().zip(key(1)).map(|(a, b)| 0.5 * (a + b)).collect();
    let centres = [
        (vec![0.0; width], spread),
        (between, 0.03 * spread),
        (key(0), 0.3 * spread),
        (key(1), 1.5 * spread),
        (vec![0.0; width], 0.1),
        (vec![0.0; width], 3.0 * spread),
    ];
    centres.map(|(centre, noise)| centre.iter().map(|c| c + noise * random.normal()).collect()).to_vec()
}

/// Shortens a row that is longer than the radius to some length below it.
fn bring_inside(row: &mut [f64], radius: f64, random: &mut Random) {
    let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
    if length > radius {
        let now = radius * random.uniform() / length;
        row.iter_mut().for_each(|x| *x *= now);
    }
}

/// The inputs with q at a place.
pub fn at(env: &Env, place: &[f64]) -> Env {
    let mut env = env.clone();
    if let Some(q) = env.values.get_mut(&*inputs::q().name) {
        q.data.copy_from_slice(place);
    }
    env
}

/// The inputs of one query repeated for d_h queries, the probe of query f being the unit vector f: what is linear in the
/// probe then evaluates to all columns of its matrix at once.
pub fn columns(env: &Env, probe: &Leaf) -> Env {
    let width = env.sizes.head;
    let mut wide = Env { sizes: Sizes { queries: width, ..env.sizes }, ..env.clone() };
    for value in wide.values.values_mut() {
        if value.axes.first() == Some(&Axis::T) {
            value.shape[0] = width;
            value.data = value.data.repeat(width);
        }
    }
    let unit = Tensor::build(&[Axis::T, Axis::E], |_| width, |at| f64::from(u8::from(at[0] == at[1])));
    wide.values.insert(probe.name.to_string(), unit);
    wide
}

/// "T = 1.41, k₁ = (0.3, 1.2), …": the setting in numbers.
pub fn describe(env: &Env, recipe: &Recipe) -> String {
    let known = |leaf: &Leaf| env.values.get(&*leaf.name).map(|x| x.data.as_slice());
    let params = recipe.params.iter();
    let params = params.filter_map(|p| Some(format!("{} = {}", symbol(&p.name), vector(known(&p.leaf)?))));
    let keys = known(&inputs::k()).unwrap_or_default().chunks(env.sizes.head.max(1));
    let subscript = |i: usize| subscript(&i.to_string()).unwrap_or_default();
    let keys = keys.enumerate().map(|(i, k)| format!("k{} = {}", subscript(i + 1), vector(k)));
    params.chain(keys).collect::<Vec<_>>().join(", ")
}

/// A vector in numbers.
pub fn vector(x: &[f64]) -> String {
    let entries: Vec<String> = x.iter().map(|x| short(*x)).collect();
    if entries.len() == 1 { entries[0].clone() } else { format!("({})", entries.join(", ")) }
}

fn symbol(name: &str) -> String {
    text::print(&Math::symbol(name))
}

/// Three digits, a true minus.
pub fn short(x: f64) -> String {
    let x = if x == 0.0 { 0.0 } else { x };
    let size = x.abs();
    let text = if size != 0.0 && !(1e-3..1e4).contains(&size) {
        format!("{x:.1e}")
    } else {
        let digits = if size == 0.0 { 0 } else { (2 - size.log10().floor() as i32).clamp(0, 5) as usize };
        let text = format!("{x:.digits$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
    };
    text.replace('-', "−")
}
