//! A sublayer: how the force of an attention or of a feed-forward network moves the tokens.
//!
//! | what the recipe says | what the sublayer does |
//! |---|---|
//! | one plain step | z ← z + f(LN(z)) |
//! | K plain steps | u = LN(z), u ← u + f(u) K times, z ← z + u^(K) − u^(0) |
//! | a program | the optimizer's program with ∇F(y) = −f(LN(y)), K times |
//!
//! Dropout applies to what is added. A program and its states run through feed-forward networks too, each with learned
//! numbers of its own.

use super::attention::{self, Attention, Past, Sight, Tokens};
use super::blocks::{self, block, sized};
use super::dropout::{Site, apply, apply_times};
use super::feed_forward::{self, FeedForward};
use super::norm::{self, Affine, Moments};
use super::program::Program;
use super::random::Stream as Numbers;
use super::terms::Inputs;
use super::weights::{Layout, Named, Place, Start};
use energyc::primitives::dropout::Dropout;

/// What moves the tokens.
#[derive(Clone)]
#[allow(clippy::large_enum_variant)]
pub enum Force {
    Attention(Attention),
    FeedForward(FeedForward),
}

enum ForceTape {
    Attention(attention::Tape),
    FeedForward(feed_forward::Tape),
}

/// How the force is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Added.
    Residual,
    /// Added so often to the normalized token.
    Loop(usize),
    /// By the optimizer's program, so often.
    Program(usize),
}

/// One sublayer.
#[derive(Clone)]
pub struct Sublayer {
    /// For messages.
    pub name: String,
    d: usize,
    norm: [Place; 2],
    pub force: Force,
    mode: Mode,
    program: Option<Program>,
    numbers: Vec<Place>,
    /// Whether attended tokens stay those of the first point.
    keeps_tokens: bool,
    /// Tells the dropout masks of sublayers apart.
    place: u32,
}

/// The token and the optimizer's states, `[rows, d]` each.
pub type Vectors = Vec<Vec<f32>>;

/// One evaluation of the force.
struct Evaluation {
    point: Vec<f32>,
    moments: Moments,
    force: ForceTape,
    /// −f, where a program reads it again.
    gradient: Vec<f32>,
}

/// What the backward pass reads again.
#[derive(Default)]
pub struct Tape {
    evaluations: Vec<Evaluation>,
    /// What lies between the steps.
    between: Vec<Vectors>,
    moments: Moments,
}

/// Buffers that all sublayers share.
#[derive(Default)]
pub struct Scratch {
    x: Vec<f32>,
    of_x: Vec<f32>,
    of_force: Vec<f32>,
    /// Cotangents of the points of a step, and of what goes into it.
    of_points: Vectors,
    of_inputs: Vectors,
    attention: attention::Scratch,
    feed_forward: feed_forward::Scratch,
}

/// What is the same for all sublayers of a pass.
#[derive(Clone, Debug)]
pub struct Context {
    pub sight: Sight,
    /// The seed of this step's dropout and its rate, in training.
    pub dropout: Option<(u64, f64)>,
}

impl Context {
    /// Rows in all.
    pub fn rows(&self) -> usize {
        self.sight.batch * self.sight.queries
    }

    /// The masks of a place in the network.
    pub fn site(&self, place: u32) -> Option<Site> {
        self.dropout.map(|(seed, rate)| Site { dropout: Dropout::new(seed, rate), place })
    }

    /// Attention dropout of a place.
    fn sight(&self, place: u32) -> Sight {
        let of_place = |(seed, rate): (u64, f64)| (Numbers::new(seed).bits(u64::from(place)), rate);
        Sight { dropout: self.dropout.map(of_place), ..self.sight.clone() }
    }
}

/// Sublayers have this many places for masks.
const PLACES: u32 = 1 << 12;

impl Sublayer {
    /// `numbers` are the learned numbers of the program with what they start at.
    pub fn new(
        layout: &mut Layout,
        name: String,
        index: usize,
        d: usize,
        make_force: impl FnOnce(&mut Layout, &str) -> Result<Force, String>,
        (mode, program, starts): (Mode, Option<Program>, &[f32]),
        keeps_tokens: bool,
    ) -> Result<Sublayer, String> {
        let weight = layout.add(format!("{name}.norm.weight"), &[d], Start::Constant(1.0));
        let bias = layout.add(format!("{name}.norm.bias"), &[d], Start::Constant(0.0));
        let force = make_force(layout, &name)?;
        let learned = program.iter().flat_map(|program| &program.numbers).zip(starts);
        let numbers =
            learned.map(|(number, start)| layout.add_named(Named::new(&name, number), &[1], Start::Constant(*start)));
        let numbers = numbers.collect();
        let place = (index as u32 + 1) * PLACES;
        Ok(Sublayer { name, d, norm: [weight, bias], force, mode, program, numbers, keeps_tokens, place })
    }

    /// Buffers for this sublayer.
    pub fn tape(&self) -> Tape {
        let forces = match (self.mode, &self.program) {
            (Mode::Residual, _) | (_, None) => 1,
            (Mode::Loop(steps) | Mode::Program(steps), Some(program)) => steps * program.gradients,
        };
        let force = || match &self.force {
            Force::Attention(attention) => ForceTape::Attention(attention.tape()),
            Force::FeedForward(_) => ForceTape::FeedForward(feed_forward::Tape::default()),
        };
        let evaluation =
            || Evaluation { point: Vec::new(), moments: Moments::default(), force: force(), gradient: Vec::new() };
        Tape { evaluations: (0..forces).map(|_| evaluation()).collect(), ..Tape::default() }
    }

    fn affine<'a>(&self, weights: &'a [f32]) -> Affine<'a> {
        let [weight, bias] = &self.norm;
        Affine { weight: &weights[weight.clone()], bias: &weights[bias.clone()] }
    }

    fn numbers(&self, weights: &[f32]) -> Vec<f32> {
        self.numbers.iter().map(|place| weights[place.start]).collect()
    }

    /// The vectors after the sublayer. `past` holds what earlier positions left, one for every force.
    pub fn forward(
        &self,
        weights: &[f32],
        input: &Vectors,
        output: &mut Vectors,
        context: &Context,
        (tape, scratch): (&mut Tape, &mut Scratch),
        past: &mut [Past],
    ) {
        let length = context.rows() * self.d;
        output.resize(input.len(), Vec::new());
        match (self.mode, &self.program) {
            (Mode::Residual, _) | (_, None) => {
                let x = sized(&mut scratch.x, length);
                let evaluation = &mut tape.evaluations[0];
                norm::forward(&input[0][..length], self.affine(weights), &mut evaluation.moments, x);
                let mut x = std::mem::take(&mut scratch.x);
                let out = sized(&mut output[0], length);
                self.force_at(weights, &x[..length], 0, context, (&mut tape.evaluations, scratch), past, out);
                scratch.x = std::mem::take(&mut x);
                apply(out, self.d, context.site(self.place));
                add(out, &input[0][..length], self.d);
            }
            (Mode::Loop(steps), Some(program)) => {
                tape.between.resize(steps + 1, Vec::new());
                tape.between[0].resize(1, Vec::new());
                let first = sized(&mut tape.between[0][0], length);
                norm::forward(&input[0][..length], self.affine(weights), &mut tape.moments, first);
                for step in 0..steps {
                    let (before, after) = tape.between.split_at_mut(step + 1);
                    let forces = step * program.gradients;
                    let (input, output) = (&before[step], &mut after[0]);
                    let tape = &mut tape.evaluations;
                    self.step(program, weights, input, output, context, forces, false, (tape, scratch), past);
                }
                let out = sized(&mut output[0], length);
                let (first, last) = (&tape.between[0][0], &tape.between[steps][0]);
                subtract(out, &last[..length], &first[..length], self.d);
                apply(out, self.d, context.site(self.place));
                add(out, &input[0][..length], self.d);
            }
            (Mode::Program(steps), Some(program)) => {
                tape.between.resize(steps - 1, Vec::new());
                for step in 0..steps {
                    let forces = step * program.gradients;
                    let (before, after) = tape.between.split_at_mut(step);
                    let input = if step == 0 { input } else { &before[step - 1] };
                    let output = if step + 1 == steps { &mut *output } else { &mut after[0] };
                    let tape = &mut tape.evaluations;
                    self.step(program, weights, input, output, context, forces, true, (tape, scratch), past);
                }
            }
        }
    }

    /// One run of the program; `forces` evaluations lie before it.
    #[allow(clippy::too_many_arguments)]
    fn step(
        &self,
        program: &Program,
        weights: &[f32],
        input: &Vectors,
        output: &mut Vectors,
        context: &Context,
        forces: usize,
        is_normalized: bool,
        (evaluations, scratch): (&mut Vec<Evaluation>, &mut Scratch),
        past: &mut [Past],
    ) {
        let length = context.rows() * self.d;
        let numbers = self.numbers(weights);
        for i in 0..program.gradients {
            let mut point = std::mem::take(&mut evaluations[forces + i].point);
            if !program.is_at_token(i) {
                let known = evaluations[forces..forces + i].iter().map(|e| &e.gradient[..length]);
                let vectors: Vec<&[f32]> = input.iter().map(|v| &v[..length]).chain(known).collect();
                let inputs = Inputs { width: self.d, vectors: &vectors, numbers: &numbers };
                program.points[i].row(&inputs, sized(&mut point, length));
            }
            let at = if program.is_at_token(i) { &input[0][..length] } else { &point[..length] };
            let mut x = std::mem::take(&mut scratch.x);
            if is_normalized {
                let moments = &mut evaluations[forces + i].moments;
                norm::forward(at, self.affine(weights), moments, sized(&mut x, length));
            } else {
                sized(&mut x, length).copy_from_slice(at);
            }
            let mut gradient = std::mem::take(&mut evaluations[forces + i].gradient);
            let out = sized(&mut gradient, length);
            self.force_at(weights, &x[..length], forces + i, context, (evaluations, scratch), past, out);
            apply_times(out, self.d, self.site_of_force(context, forces + i, is_normalized), -1.0);
            scratch.x = x;
            evaluations[forces + i].point = point;
            evaluations[forces + i].gradient = gradient;
        }
        let gradients = evaluations[forces..forces + program.gradients].iter().map(|e| &e.gradient[..length]);
        let vectors: Vec<&[f32]> = input.iter().map(|v| &v[..length]).chain(gradients).collect();
        let inputs = Inputs { width: self.d, vectors: &vectors, numbers: &numbers };
        output.resize(input.len(), Vec::new());
        let mut outs: Vec<&mut [f32]> = output.iter_mut().map(|out| sized(out, length)).collect();
        program.results.evaluate(&inputs, context.rows(), &mut outs);
    }

    /// The masks of the i-th force of a program; a loop has one for all it adds.
    fn site_of_force(&self, context: &Context, i: usize, is_normalized: bool) -> Option<Site> {
        context.site(self.place + i as u32).filter(|_| is_normalized)
    }

    /// f(x), of evaluation `i`.
    #[allow(clippy::too_many_arguments)]
    fn force_at(
        &self,
        weights: &[f32],
        x: &[f32],
        i: usize,
        context: &Context,
        (evaluations, scratch): (&mut [Evaluation], &mut Scratch),
        past: &mut [Past],
        out: &mut [f32],
    ) {
        let (before, from) = evaluations.split_at_mut(i);
        match (&self.force, &mut from[0].force) {
            (Force::Attention(attention), ForceTape::Attention(tape)) => {
                let tokens = match before.first().map(|evaluation| &evaluation.force) {
                    Some(ForceTape::Attention(first)) if self.keeps_tokens => Tokens::Kept(first),
                    _ => Tokens::Own,
                };
                let past = if matches!(tokens, Tokens::Own) { past.get_mut(i) } else { None };
                let sight = context.sight(self.place + i as u32);
                attention.forward(weights, x, &sight, tokens, past, (tape, &mut scratch.attention), out);
            }
            (Force::FeedForward(network), ForceTape::FeedForward(tape)) => {
                network.forward(weights, x, tape, &mut scratch.feed_forward, out);
            }
            _ => {}
        }
    }

    /// The cotangents before the sublayer, from those after it; gradients of the weights are added.
    ///
    /// `energy` is the weight of this layer's energy in the objective.
    #[allow(clippy::too_many_arguments)]
    pub fn backward(
        &self,
        weights: &[f32],
        gradient: &mut [f32],
        input: &Vectors,
        given: &mut Vectors,
        context: &Context,
        (tape, scratch): (&mut Tape, &mut Scratch),
        energy: Option<f32>,
    ) {
        let length = context.rows() * self.d;
        match (self.mode, &self.program) {
            (Mode::Residual, _) | (_, None) => {
                let mut of_force = std::mem::take(&mut scratch.of_force);
                let own = sized(&mut of_force, length);
                own.copy_from_slice(&given[0][..length]);
                apply(own, self.d, context.site(self.place));
                let point = &input[0][..length];
                let out = (&mut given[0][..length], true);
                self.force_back(weights, gradient, point, 0, context, true, (tape, scratch), own, out, energy);
                scratch.of_force = of_force;
            }
            (Mode::Loop(steps), Some(program)) => {
                let mut of_moved = given[0][..length].to_vec();
                apply(&mut of_moved, self.d, context.site(self.place));
                let mut of_u = vec![of_moved.clone()];
                let between = std::mem::take(&mut tape.between);
                for step in (0..steps).rev() {
                    let forces = step * program.gradients;
                    let energy = energy.filter(|_| step == 0);
                    let input = &between[step];
                    let buffers = (&mut *tape, &mut *scratch);
                    self.step_back(
                        program, weights, gradient, input, &mut of_u, context, forces, false, buffers, energy,
                    );
                }
                tape.between = between;
                of_u[0].iter_mut().zip(&of_moved).for_each(|(x, y)| *x -= y);
                let point = &input[0][..length];
                let (of_weight, of_bias) = self.norm_gradients(gradient);
                let to = (&mut given[0][..length], true);
                norm::backward(
                    point,
                    self.affine(weights),
                    &tape.moments,
                    &of_u[0][..length],
                    (of_weight, of_bias),
                    to,
                );
            }
            (Mode::Program(steps), Some(program)) => {
                let between = std::mem::take(&mut tape.between);
                for step in (0..steps).rev() {
                    let input = if step == 0 { input } else { &between[step - 1] };
                    let forces = step * program.gradients;
                    let energy = energy.filter(|_| step == 0);
                    let buffers = (&mut *tape, &mut *scratch);
                    self.step_back(program, weights, gradient, input, given, context, forces, true, buffers, energy);
                }
                tape.between = between;
            }
        }
    }

    /// Weight and bias of the norm lie side by side.
    fn norm_gradients<'a>(&self, gradient: &'a mut [f32]) -> (&'a mut [f32], &'a mut [f32]) {
        let [weight, bias] = &self.norm;
        gradient[weight.start..bias.end].split_at_mut(self.d)
    }

    /// The backward pass of one run of the program: `given` holds the cotangents of its results, then of its inputs.
    #[allow(clippy::too_many_arguments)]
    fn step_back(
        &self,
        program: &Program,
        weights: &[f32],
        gradient: &mut [f32],
        input: &Vectors,
        given: &mut Vectors,
        context: &Context,
        forces: usize,
        is_normalized: bool,
        (tape, scratch): (&mut Tape, &mut Scratch),
        energy: Option<f32>,
    ) {
        let length = context.rows() * self.d;
        let numbers = self.numbers(weights);
        let mut of_points = std::mem::take(&mut scratch.of_points);
        of_points.resize(program.gradients, Vec::new());
        let gradients: Vec<Vec<f32>> =
            (0..program.gradients).map(|i| std::mem::take(&mut tape.evaluations[forces + i].gradient)).collect();
        let mut of_force = std::mem::take(&mut scratch.of_force);
        for i in (0..program.gradients).rev() {
            let own = sized(&mut of_force, length);
            let vectors = all_vectors(input, &gradients, given, &of_points, length);
            let inputs = Inputs { width: self.d, vectors: &vectors, numbers: &numbers };
            program.of_gradients[i].row(&inputs, own);
            apply_times(own, self.d, self.site_of_force(context, forces + i, is_normalized), -1.0);
            let point = std::mem::take(&mut tape.evaluations[forces + i].point);
            let at = if program.is_at_token(i) { &input[0][..length] } else { &point[..length] };
            let out = (sized(&mut of_points[i], length), false);
            let energy = energy.filter(|_| i == 0);
            let buffers = (&mut *tape, &mut *scratch);
            self.force_back(weights, gradient, at, forces + i, context, is_normalized, buffers, own, out, energy);
            tape.evaluations[forces + i].point = point;
        }
        scratch.of_force = of_force;
        let vectors = all_vectors(input, &gradients, given, &of_points, length);
        let inputs = Inputs { width: self.d, vectors: &vectors, numbers: &numbers };
        scratch.of_inputs.resize(input.len(), Vec::new());
        let mut outs: Vec<&mut [f32]> = scratch.of_inputs.iter_mut().map(|out| sized(out, length)).collect();
        let of_numbers = program.of_inputs.evaluate(&inputs, context.rows(), &mut outs);
        for (place, own) in self.numbers.iter().zip(of_numbers) {
            gradient[place.start] += own as f32;
        }
        std::mem::swap(given, &mut scratch.of_inputs);
        scratch.of_points = of_points;
        for (i, own) in gradients.into_iter().enumerate() {
            tape.evaluations[forces + i].gradient = own;
        }
    }

    /// The backward pass of f(LN(point)), or of f(point): added to `out` or put there.
    #[allow(clippy::too_many_arguments)]
    fn force_back(
        &self,
        weights: &[f32],
        gradient: &mut [f32],
        point: &[f32],
        i: usize,
        context: &Context,
        is_normalized: bool,
        (tape, scratch): (&mut Tape, &mut Scratch),
        given: &[f32],
        (out, adds): (&mut [f32], bool),
        energy: Option<f32>,
    ) {
        let mut x = std::mem::take(&mut scratch.x);
        let mut of_x = std::mem::take(&mut scratch.of_x);
        let (own_x, own_of_x) = (sized(&mut x, point.len()), sized(&mut of_x, point.len()));
        let evaluation = &mut tape.evaluations[i];
        match is_normalized {
            true => norm::again(point, self.affine(weights), &evaluation.moments, own_x),
            false => own_x.copy_from_slice(point),
        }
        match (&self.force, &mut evaluation.force) {
            (Force::Attention(attention), ForceTape::Attention(tape)) => {
                let sight = context.sight(self.place + i as u32);
                let is_kept = self.keeps_tokens && i > 0;
                let buffers = (&mut *tape, &mut scratch.attention);
                attention.backward(weights, gradient, own_x, &sight, is_kept, buffers, given, own_of_x);
                if let Some(weight) = energy {
                    let of_energy = vec![weight; sight.batch * attention.heads() * sight.queries];
                    let buffers = (&*tape, &mut scratch.attention);
                    attention.energy_backward(weights, gradient, own_x, &sight, false, buffers, &of_energy, own_of_x);
                }
            }
            (Force::FeedForward(network), ForceTape::FeedForward(tape)) => {
                let buffers = (&*tape, &mut scratch.feed_forward);
                network.backward(weights, gradient, own_x, buffers, given, own_of_x);
            }
            _ => {}
        }
        if is_normalized {
            let affine = self.affine(weights);
            let of_affine = self.norm_gradients(gradient);
            norm::backward(point, affine, &evaluation.moments, own_of_x, of_affine, (out, adds));
        } else if adds {
            add(out, own_of_x, self.d);
        } else {
            out.copy_from_slice(own_of_x);
        }
        scratch.x = x;
        scratch.of_x = of_x;
    }

    /// Σ F_h over heads and positions, divided by the heads, at the first point.
    pub fn energy(&self, context: &Context, tape: &Tape) -> Option<f64> {
        let (Force::Attention(attention), ForceTape::Attention(tape)) = (&self.force, &tape.evaluations[0].force)
        else {
            return None;
        };
        let energies = attention.energy(&context.sight, tape);
        Some(energies.iter().map(|x| f64::from(*x)).sum::<f64>() / attention.heads() as f64)
    }

    /// F at the point where a loop ended, as [`Sublayer::energy`] counts it, and `weight` times the gradient of Σ F_h for
    /// the attention's own weights; the point is held, and what the forward pass left is overwritten.
    pub fn energy_at_end(
        &self,
        weights: &[f32],
        context: &Context,
        (tape, scratch): (&mut Tape, &mut Scratch),
        wanted: Option<(f32, &mut [f32])>,
    ) -> Option<f64> {
        let length = context.rows() * self.d;
        let Tape { evaluations, between, .. } = tape;
        let x = &between.last()?.first()?[..length];
        let (Force::Attention(attention), ForceTape::Attention(tape)) = (&self.force, &mut evaluations[0].force) else {
            return None;
        };
        let sight = &context.sight;
        let mut unused = std::mem::take(&mut scratch.of_x);
        let out = sized(&mut unused, length);
        attention.forward(weights, x, sight, Tokens::Own, None, (tape, &mut scratch.attention), out);
        let energies = attention.energy(sight, tape);
        if let Some((weight, gradient)) = wanted {
            let given = vec![weight; energies.len()];
            let buffers = (&*tape, &mut scratch.attention);
            attention.energy_backward(weights, gradient, x, sight, false, buffers, &given, out);
        }
        scratch.of_x = unused;
        Some(energies.iter().map(|x| f64::from(*x)).sum::<f64>() / attention.heads() as f64)
    }

    /// Whether the sublayer is a loop of plain steps.
    pub fn is_loop(&self) -> bool {
        matches!(self.mode, Mode::Loop(_))
    }

    /// How many forces the sublayer takes.
    pub fn forces(&self) -> usize {
        match (self.mode, &self.program) {
            (Mode::Residual, _) | (_, None) => 1,
            (Mode::Loop(steps) | Mode::Program(steps), Some(program)) => steps * program.gradients,
        }
    }

    /// What the states start at.
    pub fn starts(&self, weights: &[f32]) -> Vec<f32> {
        let numbers = self.numbers(weights);
        let inputs = Inputs { width: 1, vectors: &[], numbers: &numbers };
        let starts = self.program.iter().flat_map(|program| program.starts.evaluate(&inputs, 0, &mut []));
        starts.map(|start| start as f32).collect()
    }
}

/// Every vector a backward term may mention, in the order of a program's inputs.
fn all_vectors<'a>(
    input: &'a Vectors,
    gradients: &'a [Vec<f32>],
    given: &'a Vectors,
    of_points: &'a [Vec<f32>],
    length: usize,
) -> Vec<&'a [f32]> {
    let full = input.iter().chain(gradients).chain(given).map(|v| &v[..length]);
    full.chain(of_points.iter().map(|v| &v[..v.len().min(length)])).collect()
}

fn add(out: &mut [f32], more: &[f32], width: usize) {
    blocks::each_block(
        out,
        width,
        #[inline(always)]
        |i, rows| {
            rows.iter_mut().zip(block(more, width, i)).for_each(|(x, y)| *x += y);
        },
    );
}

fn subtract(out: &mut [f32], a: &[f32], b: &[f32], width: usize) {
    blocks::each_block(
        out,
        width,
        #[inline(always)]
        |i, rows| {
            let pairs = block(a, width, i).iter().zip(block(b, width, i));
            rows.iter_mut().zip(pairs).for_each(|(x, (a, b))| *x = a - b);
        },
    );
}
