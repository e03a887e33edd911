//! The feed-forward network: f(x) = W₂ gelu(W₁ x + b₁) + b₂, four times as wide inside.
//!
//! gelu(x) = x σ(2u) with u = √(2/π) (x + 0.044715 x³), which is the form of GPT-2: ½x (1 + tanh u).

use super::blocks::{self, block, sized};
use super::matrix::{Into, multiply, project, project_backward, rows, transposed};
use super::weights::{Layout, Place, Start};
use energyc::primitives::functions::exponential as exp;

/// How much wider the network is inside.
pub const WIDENING: usize = 4;

/// The weights.
#[derive(Clone, Debug)]
pub struct FeedForward {
    d: usize,
    w1: Place,
    b1: Place,
    w2: Place,
    b2: Place,
}

/// What the backward pass reads again: W₁ x + b₁.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    inside: Vec<f32>,
}

/// Buffers that all layers share.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    active: Vec<f32>,
    given: Vec<f32>,
}

impl FeedForward {
    /// `deviation` is that of the weights, `last` that of the matrix whose result is added to the stream.
    pub fn new(layout: &mut Layout, prefix: &str, d: usize, [deviation, last]: [f32; 2]) -> FeedForward {
        let inner = WIDENING * d;
        let zero = Start::Constant(0.0);
        FeedForward {
            d,
            w1: layout.add(format!("{prefix}.w1"), &[inner, d], Start::Normal(deviation)),
            b1: layout.add(format!("{prefix}.b1"), &[inner], zero),
            w2: layout.add(format!("{prefix}.w2"), &[d, inner], Start::Normal(last)),
            b2: layout.add(format!("{prefix}.b2"), &[d], zero),
        }
    }

    pub fn forward(&self, weights: &[f32], x: &[f32], tape: &mut Tape, scratch: &mut Scratch, out: &mut [f32]) {
        let (d, inner) = (self.d, WIDENING * self.d);
        let n = x.len() / d;
        let inside = sized(&mut tape.inside, n * inner);
        project(x, &weights[self.w1.clone()], [n, d, inner], inside);
        add_bias(inside, &weights[self.b1.clone()]);
        let active = sized(&mut scratch.active, n * inner);
        blocks::each_block(
            active,
            inner,
            #[inline(always)]
            |i, active| {
                active.iter_mut().zip(block(&tape.inside[..n * inner], inner, i)).for_each(|(y, x)| *y = gelu(*x).0);
            },
        );
        project(active, &weights[self.w2.clone()], [n, inner, d], out);
        add_bias(&mut out[..n * d], &weights[self.b2.clone()]);
    }

    /// ∂x is put into `of_x`.
    pub fn backward(
        &self,
        weights: &[f32],
        gradient: &mut [f32],
        x: &[f32],
        (tape, scratch): (&Tape, &mut Scratch),
        given: &[f32],
        of_x: &mut [f32],
    ) {
        let (d, inner) = (self.d, WIDENING * self.d);
        let n = x.len() / d;
        add_rows(given, &mut gradient[self.b2.clone()]);
        let of_inside = sized(&mut scratch.given, n * inner);
        let product = [n, inner, d];
        multiply(product, of_inside, Into::Replace, 1.0, rows(given, d), rows(&weights[self.w2.clone()], inner));
        let active = sized(&mut scratch.active, n * inner);
        let inside = &tape.inside[..n * inner];
        slopes(inside, active, of_inside, inner);
        let of_w2 = &mut gradient[self.w2.clone()];
        multiply([d, inner, n], of_w2, Into::Add, 1.0, transposed(given, d), rows(active, inner));
        add_rows(of_inside, &mut gradient[self.b1.clone()]);
        let of_w1 = &mut gradient[self.w1.clone()];
        let w1 = &weights[self.w1.clone()];
        project_backward(x, w1, [n, d, inner], of_inside, of_w1, (of_x, Into::Replace));
    }

    /// Floating-point operations of the forward pass for one token.
    pub fn operations(&self) -> f64 {
        4.0 * (WIDENING * self.d * self.d) as f64
    }
}

/// gelu(x) into `active`, and gelu′(x) times into `given`.
fn slopes(inside: &[f32], active: &mut [f32], given: &mut [f32], width: usize) {
    use rayon::prelude::*;
    let length = blocks::ROWS * width;
    active.par_chunks_mut(length).zip(given.par_chunks_mut(length)).zip(inside.par_chunks(length)).for_each(
        |((active, given), inside)| {
            blocks::wide(
                #[inline(always)]
                || {
                    for ((active, given), x) in active.iter_mut().zip(given).zip(inside) {
                        let (value, slope) = gelu(*x);
                        *active = value;
                        *given *= slope;
                    }
                },
            );
        },
    );
}

/// gelu and its slope: with s = σ(2u), gelu = x s and gelu′ = s + x s (1 − s) 2u′.
#[inline(always)]
fn gelu(x: f32) -> (f32, f32) {
    const TWO_ROOT: f32 = 1.595_769_2;
    const CUBE: f32 = 0.044_715;
    let square = x * x;
    let twice = TWO_ROOT * x * (1.0 + CUBE * square);
    let s = 1.0 / (1.0 + exp(-twice.clamp(-80.0, 80.0)));
    let slope = TWO_ROOT * (1.0 + 3.0 * CUBE * square);
    (x * s, s + x * s * (1.0 - s) * slope)
}

/// Adds a bias to every row.
pub fn add_bias(array: &mut [f32], bias: &[f32]) {
    let width = bias.len();
    blocks::each_block(
        array,
        width,
        #[inline(always)]
        |_, rows| {
            for row in rows.chunks_exact_mut(width) {
                row.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
            }
        },
    );
}

/// Adds the sum of all rows.
pub fn add_rows(array: &[f32], sum: &mut [f32]) {
    let width = sum.len();
    blocks::add_up(
        blocks::count(array.len(), width),
        width,
        sum,
        #[inline(always)]
        |i, sum| {
            for row in block(array, width, i).chunks_exact(width) {
                sum.iter_mut().zip(row).for_each(|(x, y)| *x += y);
            }
        },
    );
}
