//! A GPT whose attention is that of a recipe: embedded tokens, blocks of two sublayers, a last norm, logits.
//!
//! z is the sum of a token's and its position's embedding; then for every block attention and feed-forward network, then LN and W_U. Everything a
//! pass computes lies in buffers of a [`Tape`] that live from step to step.

use super::attention::{Attention, Past, Sight, number};
use super::blocks::{self, sized};
use super::config::Config;
use super::dropout::apply;
use super::feed_forward::FeedForward;
use super::loss::{self, Loss, Wanted};
use super::matrix::project;
use super::norm::{self, Affine, Moments};
use super::program::Program;
use super::sublayer::{self, Context, Force, Mode, Scratch, Sublayer, Vectors};
use super::weights::{Layout, Place, Start};
use crate::engine::Passes;
use crate::refusal::Refusal;
use energyc::check::inputs;
use energyc::check::recipe::{ParamValue, Recipe, Tokens, Values, WriteBack};
use energyc::derive::update_rule;
use energyc::ir::Expr;
use energyc::kernel::recipe_hash;
use energyc::primitives::visible::Visible;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A model without its weights.
#[derive(Clone)]
pub struct Gpt {
    pub config: Config,
    pub layout: Layout,
    tokens: Place,
    positions: Place,
    sublayers: Vec<Sublayer>,
    /// Where the states in front of every sublayer come from: a state before it, or their start.
    carried: Vec<Vec<Option<usize>>>,
    norm: [Place; 2],
    logits: Place,
    /// Of every layer.
    is_descent: Vec<Descent>,
}

/// What makes a layer's step a descent on an energy.
#[derive(Clone, Copy, Debug)]
struct Descent {
    /// Values are keys, and the write-back is that of the gradient.
    is_tied: bool,
    /// Queries and keys have a length.
    is_bounded: bool,
}

impl Descent {
    fn of(recipe: &Recipe) -> Descent {
        Descent {
            is_tied: recipe.values == Values::Tied && recipe.write_back == WriteBack::Transpose,
            is_bounded: recipe.constraints.len() == 2,
        }
    }
}

/// The sequences of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub batch: usize,
    /// Positions of every sequence.
    pub length: usize,
    /// `[batch · length]`.
    pub tokens: &'a [u16],
    /// How many positions of every sequence are there; the rest is padding.
    pub lengths: Option<&'a [usize]>,
    /// The document of every position.
    pub documents: Option<&'a [u32]>,
}

/// What a pass leaves behind, and the buffers of all passes.
#[derive(Default)]
pub struct Tape {
    context: Option<Context>,
    /// Vectors in front of every sublayer, and behind the last.
    streams: Vec<Vectors>,
    sublayers: Vec<sublayer::Tape>,
    moments: Moments,
    last: Vec<f32>,
    of_last: Vec<f32>,
    given: Vectors,
    scratch: Scratch,
    loss: loss::Scratch,
    tokens: Vec<u16>,
}

/// What earlier positions of a sequence left in every sublayer.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    sublayers: Vec<Vec<Past>>,
    length: usize,
}

impl Cache {
    /// Positions so far.
    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl Gpt {
    /// A model with one recipe for all layers, or one for each.
    pub fn new(config: &Config, recipes: &[Recipe]) -> Result<Gpt, Refusal> {
        config.check()?;
        let recipe_of = |layer: usize| match recipes {
            [one] => Ok(one),
            _ => recipes.get(layer).filter(|_| recipes.len() == config.layers).ok_or_else(|| {
                format!("{} recipes for {} layers; give one for all, or one for each", recipes.len(), config.layers)
            }),
        };
        let d = config.width();
        let deviation = config.deviation as f32;
        let last = deviation / (2.0 * config.layers as f32).sqrt();
        let mut layout = Layout::default();
        let tokens = layout.add("tokens".to_string(), &[config.vocabulary, d], Start::Normal(deviation));
        let positions = layout.add("positions".to_string(), &[config.window, d], Start::Normal(deviation));
        // Two recipes may have one name.
        let mut known: HashMap<String, Passes> = HashMap::new();
        let (mut sublayers, mut carried) = (Vec::new(), Vec::new());
        let mut names: Vec<String> = Vec::new();
        for layer in 0..config.layers {
            let recipe = recipe_of(layer)?;
            let passes = match known.entry(recipe_hash(recipe)) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(new) => new.insert(Passes::new(recipe)?).clone(),
            };
            let how = Stepping::of(recipe, config)?;
            let own: Vec<String> = recipe.program.states.iter().map(|state| state.leaf.name.to_string()).collect();
            carried.push(own.iter().map(|name| names.iter().position(|before| before == name)).collect());
            let name = format!("layers.{layer}.attention");
            let attention = |layout: &mut Layout, prefix: &str| {
                let sizes = config.sizes();
                Attention::new(layout, prefix, recipe, passes, sizes, [deviation, last]).map(Force::Attention)
            };
            let keeps = recipe.tokens == Tokens::Fixed;
            let parts = (how.mode, how.program.clone(), &how.starts[..]);
            sublayers.push(Sublayer::new(&mut layout, name, sublayers.len(), d, attention, parts, keeps)?);
            if config.feed_forward {
                carried.push((0..own.len()).map(Some).collect());
                let name = format!("layers.{layer}.feed_forward");
                let network = |layout: &mut Layout, prefix: &str| {
                    Ok(Force::FeedForward(FeedForward::new(layout, prefix, d, [deviation, last])))
                };
                let (mode, program) = match how.mode {
                    Mode::Program(_) if how.is_whole => (Mode::Program(1), how.program.clone()),
                    _ => (Mode::Residual, None),
                };
                let starts = if program.is_some() { &how.starts[..] } else { &[] };
                let parts = (mode, program, starts);
                sublayers.push(Sublayer::new(&mut layout, name, sublayers.len(), d, network, parts, false)?);
            }
            names = own;
        }
        let norm = [
            layout.add("norm.weight".to_string(), &[d], Start::Constant(1.0)),
            layout.add("norm.bias".to_string(), &[d], Start::Constant(0.0)),
        ];
        let logits = layout.add("logits".to_string(), &[config.vocabulary, d], Start::Normal(deviation));
        let is_descent = (0..config.layers).map(|layer| recipe_of(layer).map(Descent::of)).collect::<Result<_, _>>()?;
        Ok(Gpt { config: config.clone(), layout, tokens, positions, sublayers, carried, norm, logits, is_descent })
    }

    /// Whether the kernels of all layers are compiled in.
    pub fn is_compiled(&self) -> bool {
        self.sublayers.iter().all(|sublayer| match &sublayer.force {
            Force::Attention(attention) => attention.passes().is_compiled(),
            Force::FeedForward(_) => true,
        })
    }

    fn context(&self, input: &Input, past: usize, dropout: Option<(u64, f64)>) -> Context {
        let (queries, tokens) = (input.length, past + input.length);
        let mut visible = vec![Visible::causal(queries, tokens); input.batch];
        if let Some(lengths) = input.lengths {
            visible = visible.into_iter().zip(lengths).map(|(seen, length)| seen.with_length(*length)).collect();
        }
        if let Some(documents) = input.documents {
            let rows = documents.chunks(tokens.max(1));
            visible = visible.into_iter().zip(rows).map(|(seen, row)| seen.within_documents(row)).collect();
        }
        let sight = Sight { batch: input.batch, queries, visible, dropout: None };
        Context { sight, dropout: dropout.filter(|(_, rate)| *rate > 0.0) }
    }

    /// The last norm of every position, for [`Gpt::loss`] and [`Gpt::logits`]; `seed` is that of dropout, in training.
    pub fn forward(&self, weights: &[f32], input: &Input, seed: Option<u64>, tape: &mut Tape) {
        self.run(weights, input, seed, tape, None);
    }

    /// The same for the next positions of sequences whose earlier ones are in the cache.
    pub fn forward_next(&self, weights: &[f32], input: &Input, cache: &mut Cache, tape: &mut Tape) {
        self.run(weights, input, None, tape, Some(cache));
    }

    fn run(&self, weights: &[f32], input: &Input, seed: Option<u64>, tape: &mut Tape, mut cache: Option<&mut Cache>) {
        let past = cache.as_ref().map_or(0, |cache| cache.length);
        let context = self.context(input, past, seed.map(|seed| (seed, self.config.dropout)));
        let length = context.rows() * self.config.width();
        if tape.sublayers.len() != self.sublayers.len() {
            tape.sublayers = self.sublayers.iter().map(Sublayer::tape).collect();
            tape.streams = vec![Vectors::new(); self.sublayers.len() + 1];
        }
        if let Some(cache) = cache.as_mut().filter(|cache| cache.sublayers.is_empty()) {
            cache.sublayers = self.sublayers.iter().map(|s| vec![Past::default(); s.forces()]).collect();
        }
        tape.tokens.clear();
        tape.tokens.extend_from_slice(input.tokens);
        tape.streams[0].truncate(1);
        tape.streams[0].resize(1, Vec::new());
        self.embed(weights, input, past, &context, sized(&mut tape.streams[0][0], length));
        for (i, sublayer) in self.sublayers.iter().enumerate() {
            self.carry(weights, i, length, &mut tape.streams[i]);
            let (before, after) = tape.streams.split_at_mut(i + 1);
            let pasts = cache.as_mut().map_or(&mut [][..], |cache| &mut cache.sublayers[i][..]);
            let buffers = (&mut tape.sublayers[i], &mut tape.scratch);
            sublayer.forward(weights, &before[i], &mut after[0], &context, buffers, pasts);
        }
        if let Some(cache) = cache {
            cache.length += input.length;
        }
        let end = &tape.streams[self.sublayers.len()][0][..length];
        norm::forward(end, self.affine(weights), &mut tape.moments, sized(&mut tape.last, length));
        tape.context = Some(context);
    }

    fn affine<'a>(&self, weights: &'a [f32]) -> Affine<'a> {
        let [weight, bias] = &self.norm;
        Affine { weight: &weights[weight.clone()], bias: &weights[bias.clone()] }
    }

    fn embed(&self, weights: &[f32], input: &Input, past: usize, context: &Context, out: &mut [f32]) {
        let d = self.config.width();
        let (tokens, positions) = (&weights[self.tokens.clone()], &weights[self.positions.clone()]);
        blocks::each_block(
            out,
            d,
            #[inline(always)]
            |i, rows| {
                for (j, row) in rows.chunks_exact_mut(d).enumerate() {
                    let at = i * blocks::ROWS + j;
                    let token = usize::from(input.tokens[at]) * d;
                    let position = (past + at % input.length) * d;
                    let both = tokens[token..token + d].iter().zip(&positions[position..position + d]);
                    row.iter_mut().zip(both).for_each(|(x, (t, p))| *x = t + p);
                }
            },
        );
        apply(out, d, context.site(0));
    }

    /// Puts the states in front of a sublayer: those of the same names go on, others start.
    fn carry(&self, weights: &[f32], i: usize, length: usize, vectors: &mut Vectors) {
        let wanted = &self.carried[i];
        let is_as_it_is = wanted.len() + 1 == vectors.len() && wanted.iter().enumerate().all(|(j, s)| *s == Some(j));
        if is_as_it_is {
            return;
        }
        let starts = self.sublayers[i].starts(weights);
        let states: Vectors = (wanted.iter().zip(starts))
            .map(|(from, start)| match from {
                Some(j) => std::mem::take(&mut vectors[j + 1]),
                None => vec![start; length],
            })
            .collect();
        vectors.truncate(1);
        vectors.extend(states);
    }

    /// The loss of the positions of the last forward pass; with `scale` the gradient of scale·loss is begun.
    pub fn loss(&self, weights: &[f32], targets: &[i32], tape: &mut Tape, wanted: Option<(f32, &mut [f32])>) -> Loss {
        let d = self.config.width();
        let length = targets.len() * d;
        let Tape { last, of_last, loss: scratch, .. } = tape;
        let of_x = sized(of_last, length);
        let wanted =
            wanted.map(|(scale, gradient)| Wanted { scale, of_weight: &mut gradient[self.logits.clone()], of_x });
        loss::loss(&last[..length], d, &weights[self.logits.clone()], targets, scratch, wanted)
    }

    /// The rest of the gradient, after [`Gpt::loss`]; added. `energy` is the weight of Σ F_h in the objective.
    pub fn backward(&self, weights: &[f32], gradient: &mut [f32], tape: &mut Tape, energy: Option<f32>) {
        let Some(context) = tape.context.take() else { return };
        let d = self.config.width();
        let length = context.rows() * d;
        let count = self.sublayers.len();
        tape.given.resize(tape.streams[count].len(), Vec::new());
        for given in tape.given.iter_mut().skip(1) {
            sized(given, length).fill(0.0);
        }
        let [weight, bias] = &self.norm;
        let of_affine = gradient[weight.start..bias.end].split_at_mut(d);
        let end = &tape.streams[count][0][..length];
        let out = (sized(&mut tape.given[0], length), false);
        norm::backward(end, self.affine(weights), &tape.moments, &tape.of_last[..length], of_affine, out);
        for (i, sublayer) in self.sublayers.iter().enumerate().rev() {
            let buffers = (&mut tape.sublayers[i], &mut tape.scratch);
            sublayer.backward(weights, gradient, &tape.streams[i], &mut tape.given, &context, buffers, energy);
            self.carry_back(i, length, &mut tape.given);
        }
        let of_stream = &mut tape.given[0][..length];
        apply(of_stream, d, context.site(0));
        self.embed_back(gradient, &tape.tokens, context.sight.queries, of_stream);
        tape.context = Some(context);
    }

    /// Cotangents of the states before a sublayer for those that the sublayer before it left.
    fn carry_back(&self, i: usize, length: usize, given: &mut Vectors) {
        let before = i.checked_sub(1).map_or(0, |before| self.carried[before].len());
        let wanted = &self.carried[i];
        if wanted.len() == before && wanted.iter().enumerate().all(|(j, s)| *s == Some(j)) {
            return;
        }
        let mut states: Vectors = vec![vec![0.0; length]; before];
        for (j, from) in wanted.iter().enumerate() {
            if let Some(from) = from {
                states[*from] = std::mem::take(&mut given[j + 1]);
            }
        }
        given.truncate(1);
        given.extend(states);
    }

    fn embed_back(&self, gradient: &mut [f32], tokens: &[u16], length: usize, given: &[f32]) {
        let d = self.config.width();
        for (i, (row, token)) in given.chunks_exact(d).zip(tokens).enumerate() {
            for start in [self.tokens.start + usize::from(*token) * d, self.positions.start + (i % length) * d] {
                gradient[start..start + d].iter_mut().zip(row).for_each(|(x, y)| *x += y);
            }
        }
    }

    /// The logits `[rows, vocabulary]` of the last forward pass, of rows `from..`.
    pub fn logits(&self, weights: &[f32], rows: std::ops::Range<usize>, tape: &Tape) -> Vec<f32> {
        let d = self.config.width();
        let mut out = vec![0.0; rows.len() * self.config.vocabulary];
        let x = &tape.last[rows.start * d..rows.end * d];
        project(x, &weights[self.logits.clone()], [rows.len(), d, self.config.vocabulary], &mut out);
        out
    }

    /// (1/H) Σ_h F_h of every attention at the last forward pass, summed over positions, in the order of the layers.
    pub fn energies(&self, tape: &Tape) -> Vec<f64> {
        let Some(context) = &tape.context else { return Vec::new() };
        self.sublayers.iter().zip(&tape.sublayers).filter_map(|(s, tape)| s.energy(context, tape)).collect()
    }

    /// Why the model cannot be learned layer by layer from its own energy, if it cannot: that takes one attention that is
    /// a loop of descent steps on a bounded energy, and nothing else.
    pub fn why_not_local(&self) -> Option<&'static str> {
        let [only] = &self.sublayers[..] else {
            return Some(
                "it has more than one attention, or feed-forward networks; set `model.layers` to 1 and \
                         `model.feed_forward` to false",
            );
        };
        match self.is_descent[..] {
            _ if !only.is_loop() => {
                Some("its layer is no loop; the recipe needs `steps` of at least 2 and a plain optimizer")
            }
            [Descent { is_tied: false, .. }] => {
                Some("its values are free, so that no step descends; the recipe needs `values tied`")
            }
            [Descent { is_bounded: false, .. }] => {
                Some("its energy has no bound; the recipe needs `constrain norm(q) = rho, norm(k) = rho`")
            }
            _ => None,
        }
    }

    /// F of the only layer at the point where its loop ended, summed over positions, and `weight` times the gradient of
    /// Σ F_h for the layer's own weights: see [`Gpt::why_not_local`].
    pub fn energy_at_end(&self, weights: &[f32], tape: &mut Tape, wanted: Option<(f32, &mut [f32])>) -> f64 {
        let Some(context) = &tape.context else { return 0.0 };
        let buffers = (&mut tape.sublayers[0], &mut tape.scratch);
        self.sublayers[0].energy_at_end(weights, context, buffers, wanted).unwrap_or(0.0)
    }

    /// Where the matrices of the first layer's queries, keys and values lie.
    pub fn first_matrices(&self) -> Place {
        match self.sublayers.first().map(|sublayer| &sublayer.force) {
            Some(Force::Attention(attention)) => attention.matrices(),
            _ => 0..0,
        }
    }

    /// Where the matrix to the vocabulary lies.
    pub fn logits_matrix(&self) -> Place {
        self.logits.clone()
    }

    /// The first place in the network where the last forward pass is not finite.
    pub fn first_not_finite(&self, tape: &Tape) -> Option<String> {
        let rows = tape.context.as_ref()?.rows() * self.config.width();
        let is_bad = |x: &[f32]| x.iter().take(rows).any(|x| !x.is_finite());
        let names = std::iter::once("the embedded tokens").chain(self.sublayers.iter().map(|s| s.name.as_str()));
        let found = names.zip(&tape.streams).find(|(_, vectors)| vectors.iter().any(|v| is_bad(v)));
        found.map(|(name, _)| name.to_string()).or_else(|| is_bad(&tape.last).then(|| "the last norm".to_string()))
    }

    /// Floating-point operations of matrix products, forward and backward, for one token of a sequence of this length:
    /// three times those of the forward pass. Attention counts as q·k and p·v over the tokens a causal query sees.
    pub fn operations(&self, length: usize) -> f64 {
        let d = self.config.width() as f64;
        let of = |sublayer: &Sublayer| match &sublayer.force {
            Force::Attention(a) => sublayer.forces() as f64 * (a.operations() + 4.0 * d * (length as f64 + 1.0) / 2.0),
            Force::FeedForward(f) => f.operations(),
        };
        3.0 * (self.sublayers.iter().map(of).sum::<f64>() + 2.0 * d * self.config.vocabulary as f64)
    }
}

/// How a recipe's force is used.
struct Stepping {
    mode: Mode,
    program: Option<Program>,
    /// What the program's learned numbers start at.
    starts: Vec<f32>,
    /// Whether the program is more than a step size, so that feed-forward networks follow it too.
    is_whole: bool,
}

impl Stepping {
    fn of(recipe: &Recipe, config: &Config) -> Result<Stepping, String> {
        let step_size = update_rule(recipe).step_size;
        let steps = recipe.steps as usize;
        // A free W_O stands for the step size.
        let is_absorbed = matches!(recipe.write_back, WriteBack::Free | WriteBack::FreePinv);
        let is_unit = step_size.as_ref().is_some_and(|size| is_absorbed || size.is_one());
        if is_unit && steps == 1 {
            return Ok(Stepping { mode: Mode::Residual, program: None, starts: Vec::new(), is_whole: false });
        }
        let mut own = recipe.clone();
        if is_unit {
            own.program.z = Expr::leaf(inputs::z()).minus(&Expr::leaf(inputs::gradient(0)));
        }
        let in_recipe = |why: String| format!("`{}` cannot be trained: {why}", recipe.name);
        let program = Program::new(&own, config.sizes()).map_err(in_recipe)?;
        let starts = program.numbers.iter().map(|name| match recipe.param(name).map(|param| &param.value) {
            Some(ParamValue::Learn { init, .. }) => number(init, config.sizes()).map(|x| x as f32),
            _ => Err(format!("`{name}` is no learned number")),
        });
        let starts = starts.collect::<Result<_, _>>()?;
        let mode = match (&step_size, steps) {
            (Some(_), 2..) => Mode::Loop(steps),
            _ => Mode::Program(steps),
        };
        Ok(Stepping { mode, program: Some(program), starts, is_whole: step_size.is_none() })
    }
}
