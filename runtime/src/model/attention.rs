//! The attention of a recipe: projections, the derived kernel, write-back. It gives the force −∇F at a point.
//!
//! Nothing here knows a recipe: the kernel's inputs are asked for by name and filled from the checked recipe.

use super::blocks::sized;
use super::gate::Gate;
use super::heads::{Lengths, merge, split};
use super::matrix::{Into, multiply, project, project_backward, rows, transposed};
use super::weights::{Layout, Named, Place, Start};
use super::write_back::{Made, Parts};
use crate::engine::Passes;
use crate::problem::{GRAD_ENERGY, GRAD_OUT};
use energy_kernels::{Call, Session, Size};
use energyc::check::Recipe;
use energyc::check::recipe::{ParamValue, WriteBack};
use energyc::ir::eval::{Env, Sizes, evaluate};
use energyc::ir::{Axis, Expr};
use energyc::primitives::visible::Visible;
use std::collections::BTreeMap;

/// The attention of one layer.
#[derive(Clone)]
pub struct Attention {
    d: usize,
    heads: usize,
    passes: Passes,
    /// Which of q, k, v the kernel reads, in this order; their matrices lie side by side.
    vectors: Vec<&'static str>,
    matrices: Place,
    gates: Vec<Gate>,
    numbers: Vec<Number>,
    write_back: Parts,
}

/// A parameter of the kernel.
#[derive(Clone, Debug)]
struct Number {
    name: String,
    /// How many numbers a head has of it: one, or one per component.
    width: usize,
    value: Value,
}

#[derive(Clone, Debug)]
enum Value {
    Fixed(Expr),
    Learned(Place),
}

/// Arrays by name.
type Arrays = BTreeMap<String, Vec<f32>>;

/// What a force was computed from.
pub struct Tape {
    session: Box<dyn Session>,
    /// q, k, v head after head, gates, numbers: by name.
    inputs: Arrays,
    /// The directions, heads side by side.
    out: Vec<f32>,
    made: Made,
}

/// Buffers that all layers share.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    projected: Vec<f32>,
    given: Vec<f32>,
    split: Vec<f32>,
    of_matrix: Vec<f32>,
    /// Gradients of kept tokens, from later steps.
    kept: Arrays,
}

/// Who sees whom in a batch.
#[derive(Clone, Debug)]
pub struct Sight {
    pub batch: usize,
    /// Positions that are computed, of every sequence.
    pub queries: usize,
    /// One per sequence.
    pub visible: Vec<Visible>,
    /// The seed and the rate of attention dropout.
    pub dropout: Option<(u64, f64)>,
}

/// What earlier positions left: keys, values and gates, by name; head after head.
#[derive(Clone, Debug, Default)]
pub struct Past {
    tokens: usize,
    arrays: Arrays,
}

/// Where the attended tokens come from.
pub enum Tokens<'a> {
    /// From the point itself.
    Own,
    /// From the first point of the loop: they stay.
    Kept(&'a Tape),
}

impl Attention {
    /// The weights of a recipe's attention; `deviation` is that of the matrices, `last` that of W_O.
    pub fn new(
        layout: &mut Layout,
        prefix: &str,
        recipe: &Recipe,
        passes: Passes,
        sizes: Sizes,
        [deviation, last]: [f32; 2],
    ) -> Result<Attention, String> {
        let (d, heads) = (sizes.model, sizes.heads);
        let how = recipe.write_back;
        let vectors: Vec<&str> = ["q", "k", "v"].into_iter().filter(|name| passes.reads(name)).collect();
        let mut add =
            |name: &str, deviation: f32| layout.add(format!("{prefix}.{name}"), &[d, d], Start::Normal(deviation));
        let name_of = |vector: &str| match vector {
            "q" => "w1",
            "k" => "w2",
            _ => "wv",
        };
        let mut places: BTreeMap<&str, Place> = BTreeMap::new();
        for vector in &vectors {
            places.insert(vector, add(name_of(vector), deviation));
        }
        let matrices = match (vectors.first(), vectors.last()) {
            (Some(first), Some(last)) => places[first].start..places[last].end,
            _ => 0..0,
        };
        for (vector, is_needed) in [("q", how != WriteBack::Free), ("v", how == WriteBack::FreePinv)] {
            if is_needed && !places.contains_key(vector) {
                places.insert(vector, add(name_of(vector), deviation));
            }
        }
        let wo = matches!(how, WriteBack::Free | WriteBack::FreePinv).then(|| add("wo", last));
        let write_back = Parts { how, d, heads, w1: places.get("q").cloned(), wv: places.get("v").cloned(), wo };
        let mut numbers = Vec::new();
        let mut gates = Vec::new();
        for name in passes.inputs() {
            let Some(param) = recipe.param(name) else { continue };
            let value = match &param.value {
                ParamValue::Fixed(value) => Value::Fixed(value.clone()),
                ParamValue::Learn { init, each } => {
                    let start = Start::Constant(number(init, sizes)? as f32);
                    let shape = each.shape(heads, sizes.head);
                    let shape = if shape.is_empty() { vec![1] } else { shape };
                    Value::Learned(layout.add_named(Named::new(prefix, name), &shape, start))
                }
                ParamValue::Gate(..) | ParamValue::Decay(_) => {
                    gates.push(Gate::new(layout, prefix, param, [heads, d], deviation));
                    continue;
                }
            };
            let width = if param.leaf.axes.contains(&Axis::E) { sizes.head } else { 1 };
            numbers.push(Number { name: name.clone(), width, value });
        }
        Ok(Attention { d, heads, passes, vectors, matrices, gates, numbers, write_back })
    }

    pub fn heads(&self) -> usize {
        self.heads
    }

    pub fn passes(&self) -> &Passes {
        &self.passes
    }

    /// Buffers for one force of this layer.
    pub fn tape(&self) -> Tape {
        Tape { session: self.passes.session(), inputs: BTreeMap::new(), out: Vec::new(), made: Made::default() }
    }

    fn lengths(&self, sight: &Sight) -> Lengths {
        Lengths { batch: sight.batch, tokens: sight.queries, heads: self.heads, head: self.d / self.heads }
    }

    /// The force at points x `[rows, d]`.
    #[allow(clippy::too_many_arguments)]
    pub fn forward(
        &self,
        weights: &[f32],
        x: &[f32],
        sight: &Sight,
        tokens: Tokens,
        past: Option<&mut Past>,
        (tape, scratch): (&mut Tape, &mut Scratch),
        out: &mut [f32],
    ) {
        let (d, lengths) = (self.d, self.lengths(sight));
        let n = sight.batch * sight.queries;
        let parts = self.vectors.len();
        let projected = sized(&mut scratch.projected, n * d * parts);
        project(x, &weights[self.matrices.clone()], [n, d, d * parts], projected);
        for (i, name) in self.vectors.iter().enumerate() {
            let own = tape.inputs.entry((*name).to_string()).or_default();
            match &tokens {
                Tokens::Kept(first) if *name != "q" => own.clone_from(&first.inputs[*name]),
                _ => {
                    own.resize(lengths.numbers(), 0.0);
                    split(projected, lengths, [i, parts], own);
                }
            }
        }
        for gate in &self.gates {
            let own = tape.inputs.entry(gate.name.clone()).or_default();
            match &tokens {
                Tokens::Kept(first) if !gate.is_of_query => own.clone_from(&first.inputs[&gate.name]),
                _ => gate.forward(weights, x, lengths, own),
            }
        }
        if let Some(past) = past {
            past.extend(&mut tape.inputs, lengths, self);
        }
        let size = self.size(sight, &tape.inputs);
        self.fill_numbers(weights, size, &mut tape.inputs);
        let Tape { session, inputs, out: own, made } = tape;
        let directions = with_call(size, sight, inputs, &[], |call| session.forward(call));
        merge(&[directions], lengths, sized(own, n * d));
        self.write_back.make(weights, made);
        project(&own[..n * d], self.matrix(weights, made), [n, d, d], out);
    }

    /// The lengths of the kernel's arrays; attended tokens may be more than queries.
    fn size(&self, sight: &Sight, inputs: &Arrays) -> Size {
        let Lengths { batch, tokens: queries, heads, head } = self.lengths(sight);
        let attended = self.vectors.iter().find(|name| **name != "q").and_then(|name| inputs.get(*name));
        let tokens = attended.map_or(queries, |array| array.len() / (batch * heads * head).max(1));
        Size { batch, heads, queries, tokens, head }
    }

    /// M, the matrix of the write-back.
    fn matrix<'a>(&self, weights: &'a [f32], made: &'a Made) -> &'a [f32] {
        match (&self.write_back.wo, made.matrix.is_empty()) {
            (Some(place), true) => &weights[place.clone()],
            _ => &made.matrix,
        }
    }

    /// Every parameter as one number per head, or one vector.
    fn fill_numbers(&self, weights: &[f32], size: Size, inputs: &mut Arrays) {
        let sizes =
            Sizes { queries: size.queries, tokens: size.tokens, head: size.head, model: self.d, heads: self.heads };
        for Number { name, width, value } in &self.numbers {
            let values = match value {
                Value::Fixed(term) => vec![number(term, sizes).unwrap_or(f64::NAN) as f32; self.heads],
                Value::Learned(place) => weights[place.clone()].repeat(self.heads * width / place.len()),
            };
            inputs.insert(name.clone(), values);
        }
    }

    /// ∂x from the cotangent of the force, put into `of_x`; the gradients of the weights are added.
    ///
    /// Where the attended tokens were kept from another point, their gradients wait in `scratch` until that point's turn.
    #[allow(clippy::too_many_arguments)]
    pub fn backward(
        &self,
        weights: &[f32],
        gradient: &mut [f32],
        x: &[f32],
        sight: &Sight,
        is_kept: bool,
        (tape, scratch): (&mut Tape, &mut Scratch),
        given: &[f32],
        of_x: &mut [f32],
    ) {
        let (d, lengths) = (self.d, self.lengths(sight));
        let n = sight.batch * sight.queries;
        let Tape { session, inputs, out, made } = tape;
        let matrix = self.matrix(weights, made);
        let of_out = sized(&mut scratch.given, n * d);
        multiply([n, d, d], of_out, Into::Replace, 1.0, rows(given, d), rows(matrix, d));
        let directions = rows(&out[..n * d], d);
        match (&self.write_back.wo, made.matrix.is_empty()) {
            (Some(place), true) => {
                let of_wo = &mut gradient[place.clone()];
                multiply([d, d, n], of_wo, Into::Add, 1.0, transposed(given, d), directions);
            }
            _ => {
                let of_matrix = sized(&mut scratch.of_matrix, d * d);
                multiply([d, d, n], of_matrix, Into::Replace, 1.0, transposed(given, d), directions);
                self.write_back.backward(weights, made, of_matrix, gradient);
            }
        }
        let of_directions = sized(&mut scratch.split, n * d);
        split(of_out, lengths, [0, 1], of_directions);
        let extra = [(GRAD_OUT, &*of_directions)];
        let gradients = with_call(self.size(sight, inputs), sight, inputs, &extra, |call| session.backward(call));
        let of: BTreeMap<&str, &[f32]> = gradients.into_iter().map(|(name, values, _)| (name, values)).collect();
        self.send_back(
            weights,
            gradient,
            x,
            sight,
            is_kept,
            &of,
            (inputs, &mut scratch.projected, &mut scratch.kept),
            of_x,
        );
    }

    /// From the gradients of the kernel's inputs to those of the weights and of x.
    #[allow(clippy::too_many_arguments)]
    fn send_back(
        &self,
        weights: &[f32],
        gradient: &mut [f32],
        x: &[f32],
        sight: &Sight,
        is_kept: bool,
        of: &BTreeMap<&str, &[f32]>,
        (inputs, projected, kept): (&Arrays, &mut Vec<f32>, &mut Arrays),
        of_x: &mut [f32],
    ) {
        let (d, lengths) = (self.d, self.lengths(sight));
        let n = sight.batch * sight.queries;
        self.numbers_back(of, gradient);
        let zero = vec![0.0; if self.vectors.iter().all(|name| of.contains_key(name)) { 0 } else { n * d }];
        let mut whole: BTreeMap<&str, Vec<f32>> = BTreeMap::new();
        let (of_queries, of_tokens): (Vec<&Gate>, Vec<&Gate>) = self.gates.iter().partition(|gate| gate.is_of_query);
        let vectors = self.vectors.iter().copied().filter(|name| *name != "q");
        for name in vectors.chain(of_tokens.iter().map(|gate| &*gate.name)) {
            let own = of.get(name).copied().unwrap_or(&[]);
            if is_kept {
                add_to(kept.entry(name.to_string()).or_default(), own);
            } else if let Some(mut sum) = kept.remove(name) {
                add_to(&mut sum, own);
                whole.insert(name, sum);
            }
        }
        let gradient_of = |name: &str| -> &[f32] {
            match whole.get(name) {
                Some(sum) => sum,
                None => of.get(name).copied().unwrap_or(&zero),
            }
        };
        let sent: Vec<&[f32]> = match is_kept {
            true => self.vectors.iter().take_while(|name| **name == "q").map(|name| gradient_of(name)).collect(),
            false => self.vectors.iter().map(|name| gradient_of(name)).collect(),
        };
        if sent.is_empty() {
            of_x[..n * d].fill(0.0);
        } else {
            let width = d * sent.len();
            let of_projected = sized(projected, n * width);
            merge(&sent, lengths, of_projected);
            let place = self.matrices.start..self.matrices.start + width * d;
            let (matrices, of_matrices) = (&weights[place.clone()], &mut gradient[place]);
            project_backward(x, matrices, [n, d, width], of_projected, of_matrices, (of_x, Into::Replace));
        }
        for gate in of_queries.iter().chain(of_tokens.iter().filter(|_| !is_kept)) {
            let values = &inputs[&gate.name];
            gate.backward(weights, gradient, x, lengths, values, gradient_of(&gate.name), of_x);
        }
    }

    fn numbers_back(&self, of: &BTreeMap<&str, &[f32]>, gradient: &mut [f32]) {
        for Number { name, value, .. } in &self.numbers {
            let (Value::Learned(place), Some(own)) = (value, of.get(name.as_str())) else { continue };
            // Sequences share a parameter, and heads may.
            for shared in own.chunks(place.len()) {
                add_to_slice(&mut gradient[place.clone()], shared);
            }
        }
    }

    /// F_h of every head at the points of a tape, `[B, H, N]`.
    pub fn energy(&self, sight: &Sight, tape: &Tape) -> Vec<f32> {
        let without = Sight { dropout: None, ..sight.clone() };
        with_call(self.size(sight, &tape.inputs), &without, &tape.inputs, &[], |call| self.passes.energy(call))
    }

    /// ∂x of Σ given·F_h, added to `of_x`; the gradients of the weights are added. Those of kept tokens wait, as in
    /// [`Attention::backward`].
    #[allow(clippy::too_many_arguments)]
    pub fn energy_backward(
        &self,
        weights: &[f32],
        gradient: &mut [f32],
        x: &[f32],
        sight: &Sight,
        is_kept: bool,
        (tape, scratch): (&Tape, &mut Scratch),
        given: &[f32],
        of_x: &mut [f32],
    ) {
        let without = Sight { dropout: None, ..sight.clone() };
        let extra = [(GRAD_ENERGY, given)];
        let size = self.size(sight, &tape.inputs);
        let gradients = with_call(size, &without, &tape.inputs, &extra, |call| self.passes.energy_backward(call));
        let of: BTreeMap<&str, &[f32]> = gradients.iter().map(|(name, values)| (name.as_str(), &values[..])).collect();
        let mut own = vec![0.0; of_x.len()];
        let buffers = (&tape.inputs, &mut scratch.projected, &mut scratch.kept);
        self.send_back(weights, gradient, x, sight, is_kept, &of, buffers, &mut own);
        add_to_slice(of_x, &own);
    }

    /// Adds the gradients that waited for the tokens x of a tape to those of the weights.
    pub fn kept_backward(
        &self,
        weights: &[f32],
        gradient: &mut [f32],
        x: &[f32],
        sight: &Sight,
        (tape, scratch): (&Tape, &mut Scratch),
    ) {
        let mut of_x = vec![0.0; x.len()];
        let buffers = (&tape.inputs, &mut scratch.projected, &mut scratch.kept);
        self.send_back(weights, gradient, x, sight, false, &BTreeMap::new(), buffers, &mut of_x);
    }

    /// The places of the matrices that make q, k and v.
    pub fn matrices(&self) -> Place {
        self.matrices.clone()
    }

    /// Floating-point operations of the projections and the write-back, for one token.
    pub fn operations(&self) -> f64 {
        2.0 * ((self.vectors.len() + 1) * self.d * self.d) as f64
    }
}

impl Past {
    /// Puts new positions behind the old ones, in `inputs` as well.
    fn extend(&mut self, inputs: &mut Arrays, lengths: Lengths, attention: &Attention) {
        let (old, new) = (self.tokens, lengths.tokens);
        let vectors = attention.vectors.iter().copied().filter(|name| *name != "q").map(|name| (name, lengths.head));
        let gates = attention.gates.iter().filter(|gate| !gate.is_of_query).map(|gate| (gate.name.as_str(), 1));
        for (name, width) in vectors.chain(gates) {
            let Some(fresh) = inputs.get_mut(name) else { continue };
            let before = self.arrays.entry(name.to_string()).or_default();
            let mut joined = Vec::with_capacity(before.len() + fresh.len());
            for h in 0..lengths.batch * lengths.heads {
                joined.extend_from_slice(&before[h * old * width..(h + 1) * old * width]);
                joined.extend_from_slice(&fresh[h * new * width..(h + 1) * new * width]);
            }
            fresh.clone_from(&joined);
            *before = joined;
        }
        self.tokens = old + new;
    }
}

fn add_to(sum: &mut Vec<f32>, more: &[f32]) {
    if sum.len() < more.len() {
        sum.resize(more.len(), 0.0);
    }
    add_to_slice(sum, more);
}

fn add_to_slice(sum: &mut [f32], more: &[f32]) {
    sum.iter_mut().zip(more).for_each(|(x, y)| *x += y);
}

/// Calls a kernel with inputs by name.
fn with_call<R>(
    size: Size,
    sight: &Sight,
    inputs: &Arrays,
    more: &[(&str, &[f32])],
    run: impl FnOnce(&Call) -> R,
) -> R {
    let visible: Vec<_> = sight.visible.iter().map(|seen| seen.intervals()).collect();
    let tensor = |name: &str| match more.iter().find(|(other, _)| *other == name) {
        Some((_, values)) => *values,
        None => inputs.get(name).map_or(&[][..], |values| &values[..]),
    };
    run(&Call { size, visible: &visible, tensor: &tensor, dropout: sight.dropout })
}

/// The value of a term over sizes.
pub fn number(term: &Expr, sizes: Sizes) -> Result<f64, String> {
    Ok(evaluate(term, &Env::new(sizes))?.data[0])
}
