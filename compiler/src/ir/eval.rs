//! The reference interpreter: a term, sizes and inputs in, an f64 tensor out.
//!
//! Everything else in the project is measured against this file, so it is written to be read: dense loops over named
//! axes, entropies solved by plain bisection, no cleverness. Reductions over tokens look only at visible tokens.

use super::axis::{Axis, AxisSet, Space};
use super::budget::Budget;
use super::expr::{Entropy, Expr, Leaf, Op, System};
use super::linear;
use super::memo::{Memo, Seen};
use super::rational::to_f64;
use super::sample::Random;
use super::tensor::{Tensor, broadcast, for_each_index};
use super::traverse;
use std::collections::HashMap;
use std::rc::Rc;

/// The lengths of the axes and the sizes `d`, `d_h`, `H`, `N` of the language.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    pub queries: usize,
    pub tokens: usize,
    pub head: usize,
    pub model: usize,
    pub heads: usize,
}

impl Sizes {
    pub fn length(&self, axis: Axis) -> usize {
        match axis.space {
            Space::Query => self.queries,
            Space::Token => self.tokens,
            Space::Head => self.head,
            Space::Model => self.model,
        }
    }
    /// The value of a size symbol.
    pub fn symbol(&self, name: &str) -> Option<f64> {
        match name {
            "N" => Some(self.tokens as f64),
            "d" => Some(self.model as f64),
            "d_h" => Some(self.head as f64),
            "H" => Some(self.heads as f64),
            _ => None,
        }
    }
}

/// Inputs of one evaluation. Values are stored under the leaf's name, along the axes given with them by position.
#[derive(Clone, Debug)]
pub struct Env {
    pub sizes: Sizes,
    pub values: HashMap<String, Tensor>,
    /// `visible[t * tokens + n]`; everything when absent.
    pub visible: Option<Vec<bool>>,
    /// What evaluations spend: a node for every operand, more where there are many numbers.
    pub work: Budget,
    /// Errors of an arithmetic with fewer digits, to see what they do to a result.
    pub rounding: Option<Rounding>,
}

/// The result of every operation is off by at most `by`, at random, relative to what it is made of: a sum by its terms and
/// not by what is left of them, since (q − k)·g may be computed as q·g − k·g.
#[derive(Clone, Copy, Debug)]
pub struct Rounding {
    pub by: f64,
    pub seed: u64,
}

impl Env {
    pub fn new(sizes: Sizes) -> Env {
        Env { sizes, values: HashMap::new(), visible: None, work: Budget::unlimited(), rounding: None }
    }
    fn sees(&self, t: usize, n: usize) -> bool {
        self.visible.as_ref().is_none_or(|v| v[t * self.sizes.tokens + n])
    }
    fn sees_anything(&self, t: usize) -> bool {
        (0..self.sizes.tokens).any(|n| self.sees(t, n))
    }
    /// Puts 0 at queries that see nothing, and at pairs that are not seen.
    pub fn blank_unseen(&self, x: &mut Tensor) {
        if self.visible.is_none() || !x.axes.contains(&Axis::T) {
            return;
        }
        let (axes, shape) = (x.axes.clone(), x.shape.clone());
        let mut offset = 0;
        for_each_index(&shape, |index| {
            let at = |space: Space| axes.iter().zip(index).filter(move |(a, _)| a.space == space).map(|(_, &i)| i);
            let hidden = at(Space::Query).any(|t| !self.sees_anything(t) || at(Space::Token).any(|n| !self.sees(t, n)));
            if hidden {
                x.data[offset] = 0.0;
            }
            offset += 1;
        });
    }
}

/// Evaluates a term. Rows of queries that see nothing are 0.
pub fn evaluate(e: &Expr, env: &Env) -> Result<Tensor, String> {
    evaluate_all(std::slice::from_ref(e), env).map(|mut all| all.remove(0))
}

/// Evaluates several terms, sharing what they have in common.
pub fn evaluate_all(roots: &[Expr], env: &Env) -> Result<Vec<Tensor>, String> {
    let mut interpreter = Interpreter { env, memo: Memo::default(), work: 0 };
    let values = roots.iter().map(|e| {
        let mut value = Rc::unwrap_or_clone(interpreter.value(e)?);
        env.blank_unseen(&mut value);
        Ok(value)
    });
    let values = values.collect();
    env.work.spend(interpreter.work);
    values
}

/// What an evaluation takes, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effort {
    /// All that are kept until it is done.
    pub kept: usize,
    /// All that are read on the way.
    pub read: usize,
}

/// What it takes to evaluate terms together.
pub fn effort(terms: impl IntoIterator<Item = Expr>, sizes: Sizes) -> Effort {
    let mut seen = Seen::default();
    terms.into_iter().for_each(|term| drop(traverse::unseen(&term, &mut seen)));
    seen.iter().fold(Effort::default(), |sum, e| {
        let entries = e.axes().iter().map(|axis| sizes.length(axis)).fold(1, usize::saturating_mul);
        let read = entries.saturating_mul(e.children().len().max(1));
        Effort { kept: sum.kept.saturating_add(entries), read: sum.read.saturating_add(read) }
    })
}

/// Numbers that are read in the time of looking at a node.
const READ_AT_ONCE: usize = 64;

struct Interpreter<'a> {
    env: &'a Env,
    memo: Memo<Rc<Tensor>>,
    work: usize,
}

impl Interpreter<'_> {
    fn value(&mut self, e: &Expr) -> Result<Rc<Tensor>, String> {
        if let Some(done) = self.memo.get(e) {
            return Ok(done.clone());
        }
        let mut result = self.compute(e)?;
        if let Some(rounding) = self.env.rounding.filter(|_| !matches!(e.op(), Op::Const(_) | Op::Leaf(_))) {
            self.round(e, &mut result, rounding)?;
        }
        self.work += e.children().len().max(1) * (1 + result.data.len() / READ_AT_ONCE);
        let result = Rc::new(result);
        self.memo.insert(e.clone(), result.clone());
        Ok(result)
    }

    fn round(&mut self, e: &Expr, result: &mut Tensor, Rounding { by, seed }: Rounding) -> Result<(), String> {
        let made_of = match e.op() {
            Op::Add(terms) => {
                let terms = terms.iter().map(|x| self.value(x)).collect::<Result<Vec<_>, _>>()?;
                let terms: Vec<&Tensor> = terms.iter().map(|x| &**x).collect();
                broadcast(&terms, |a| self.env.sizes.length(a), |v| v.iter().map(|x| x.abs()).sum())
            }
            Op::Sum(axis, x) => {
                let x = self.value(x)?;
                self.reduce(&x, *axis, |row| row.iter().map(|x| x.abs()).sum())
            }
            _ => result.map(f64::abs),
        };
        let mut random = Random::new(seed.wrapping_add(self.memo.len() as u64));
        for (x, made_of) in result.data.iter_mut().zip(made_of.data) {
            *x += by * (2.0 * random.uniform() - 1.0) * made_of;
        }
        Ok(())
    }

    fn compute(&mut self, e: &Expr) -> Result<Tensor, String> {
        let sizes = self.env.sizes;
        let length = |a: Axis| sizes.length(a);
        // log Σ exp by its largest term, as anybody would compute it.
        if let Some((axis, scores)) = e.as_log_sum_exp() {
            let scores = self.value(&scores)?;
            return Ok(self.reduce(&scores, axis, |row| smoothmax(&Entropy::Shannon, row)));
        }
        Ok(match e.op() {
            Op::Const(c) => Tensor::scalar(to_f64(c)),
            Op::Leaf(leaf) => self.leaf(leaf)?,
            Op::Pow(x, r) => {
                let r = to_f64(r);
                self.value(x)?.map(|x| total_power(x, r))
            }
            Op::Call(func, x) => self.value(x)?.map(|x| func.of(x)),
            Op::Select(parts) => {
                let parts = parts.iter().map(|x| self.value(x)).collect::<Result<Vec<_>, _>>()?;
                let parts: Vec<&Tensor> = parts.iter().map(|x| &**x).collect();
                broadcast(&parts, length, |v| if v[0] <= v[1] { v[2] } else { v[3] })
            }
            Op::Mul(xs) | Op::Add(xs) => {
                let is_sum = matches!(e.op(), Op::Add(_));
                let parts = xs.iter().map(|x| self.value(x)).collect::<Result<Vec<_>, _>>()?;
                let parts: Vec<&Tensor> = parts.iter().map(|x| &**x).collect();
                broadcast(&parts, length, |v| if is_sum { v.iter().sum() } else { v.iter().product() })
            }
            Op::Solve(s) => {
                let (matrix, right) = (self.value(&s.matrix)?, self.value(&s.right)?);
                self.solve(s, &matrix, &right)
            }
            Op::Sum(axis, x) => {
                let x = self.value(x)?;
                self.reduce(&x, *axis, |row| row.iter().sum())
            }
            Op::SmoothMax(kind, axis, x) => {
                let x = self.value(x)?;
                self.reduce(&x, *axis, |row| smoothmax(kind, row))
            }
            Op::Weights(kind, axis, x) => {
                let x = self.value(x)?;
                self.weights(kind, *axis, &x)
            }
        })
    }

    /// One dense system for every entry of the other axes.
    fn solve(&self, s: &System, matrix: &Tensor, right: &Tensor) -> Tensor {
        let length = |a: Axis| self.env.sizes.length(a);
        let all = AxisSet::of(&matrix.axes).union(AxisSet::of(&right.axes));
        let outer: Vec<Axis> = all.without(s.row).without(s.column).iter().collect();
        let out_axes: Vec<Axis> = all.without(s.row).with(s.column).iter().collect();
        let mut out = Tensor::build(&out_axes, length, |_| 0.0);
        let n = length(s.column);
        let at = |x: &Tensor, axes: &[Axis], index: &[usize]| -> usize {
            x.strides_for(axes).iter().zip(index).map(|(s, i)| s * i).sum()
        };
        let shape: Vec<usize> = outer.iter().map(|&a| length(a)).collect();
        for_each_index(&shape, |index| {
            let (m, b) = (at(matrix, &outer, index), at(right, &outer, index));
            let entry = |i: usize, j: usize| matrix.data[m + at(matrix, &[s.row, s.column], &[i, j])];
            let side = |i: usize| right.data[b + at(right, &[s.row], &[i])];
            let x = linear::solve(&linear::matrix(n, entry), &linear::vector(n, side));
            let base = at(&out, &outer, index);
            for (j, x) in x.iter().enumerate() {
                let along = at(&out, &[s.column], &[j]);
                out.data[base + along] = *x;
            }
        });
        out
    }

    fn leaf(&self, leaf: &Leaf) -> Result<Tensor, String> {
        if let Some(size) = self.env.sizes.symbol(&leaf.name).filter(|_| leaf.role == super::Role::Size) {
            return Ok(Tensor::scalar(size));
        }
        if leaf.role == super::Role::Visible {
            let sees = |at: &[usize]| if self.env.sees(at[0], at[1]) { 1.0 } else { 0.0 };
            return Ok(Tensor::build(&leaf.axes, |a| self.env.sizes.length(a), sees));
        }
        if leaf.is_identity() {
            let same = |at: &[usize]| f64::from(u8::from(at[0] == at[1]));
            let identity = Tensor::build(&leaf.axes, |a| self.env.sizes.length(a), same);
            return Ok(broadcast(&[&identity], |a| self.env.sizes.length(a), |v| v[0]));
        }
        let stored = self.env.values.get(&*leaf.name).ok_or(format!("no value for input `{}`", leaf.name))?;
        let expected: Vec<usize> = leaf.axes.iter().map(|&a| self.env.sizes.length(a)).collect();
        if stored.shape != expected {
            return Err(format!("input `{}` has shape {:?}, expected {expected:?}", leaf.name, stored.shape));
        }
        // Bring the axes into canonical order.
        let named = stored.with_axes(leaf.axes.clone());
        Ok(broadcast(&[&named], |a| self.env.sizes.length(a), |v| v[0]))
    }

    /// Reduces one axis; `f` gets the entries that are visible from the rest of the index.
    fn reduce(&self, x: &Tensor, axis: Axis, f: impl Fn(&[f64]) -> f64) -> Tensor {
        let mut free = AxisSet::of(&x.axes).without(axis);
        if axis.space == Space::Token && self.env.visible.is_some() {
            free = free.with(Axis::T);
        }
        let axes: Vec<Axis> = free.iter().collect();
        let mut row = Vec::new();
        Tensor::build(
            &axes,
            |a| self.env.sizes.length(a),
            |index| {
                self.visible_row(x, axis, &axes, index, &mut row);
                f(&row.iter().map(|&(_, v)| v).collect::<Vec<_>>())
            },
        )
    }

    /// The (position, value) pairs along `axis` that are visible given the other axes' positions.
    fn visible_row(&self, x: &Tensor, axis: Axis, axes: &[Axis], index: &[usize], row: &mut Vec<(usize, f64)>) {
        let strides = x.strides_for(axes);
        let base: usize = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
        let step = x.strides_for(&[axis])[0];
        let at = |space: Space| axes.iter().zip(index).filter(move |(a, _)| a.space == space).map(|(_, &i)| i);
        row.clear();
        for i in 0..self.env.sizes.length(axis) {
            let seen = match axis.space {
                Space::Token => at(Space::Query).all(|t| self.env.sees(t, i)),
                Space::Query => self.env.sees_anything(i),
                _ => true,
            };
            if seen {
                row.push((i, x.data[base + i * step]));
            }
        }
    }

    fn weights(&self, kind: &Entropy, axis: Axis, x: &Tensor) -> Tensor {
        let mut free = AxisSet::of(&x.axes).without(axis);
        if axis.space == Space::Token && self.env.visible.is_some() {
            free = free.with(Axis::T);
        }
        let axes: Vec<Axis> = free.iter().collect();
        let out_axes: Vec<Axis> = free.with(axis).iter().collect();
        let length = |a: Axis| self.env.sizes.length(a);
        let mut out = Tensor::build(&out_axes, length, |_| 0.0);
        let (strides, step) = (out.strides_for(&axes), out.strides_for(&[axis])[0]);
        let shape: Vec<usize> = axes.iter().map(|&a| length(a)).collect();
        let mut row = Vec::new();
        for_each_index(&shape, |index| {
            self.visible_row(x, axis, &axes, index, &mut row);
            let scores: Vec<f64> = row.iter().map(|&(_, s)| s).collect();
            let base: usize = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
            for (&(i, _), p) in row.iter().zip(maximizer(kind, &scores)) {
                out.data[base + i * step] = p;
            }
        });
        out
    }
}

/// x^r with 0^r = 0; a fractional power of what rounding has made negative is 0 too.
pub fn total_power(x: f64, r: f64) -> f64 {
    if x == 0.0 || (x < 0.0 && r.fract() != 0.0) {
        0.0
    } else if r == 2.0 {
        x * x
    } else if r == -1.0 {
        1.0 / x
    } else if r == 0.5 {
        x.sqrt()
    } else if r.fract() == 0.0 && r.abs() <= 64.0 {
        x.powi(r as i32)
    } else {
        x.powf(r)
    }
}

/// max_p Σ p s + H(p) over the simplex; 0 over nothing.
pub fn smoothmax(kind: &Entropy, s: &[f64]) -> f64 {
    if s.is_empty() {
        return 0.0;
    }
    let p = maximizer(kind, s);
    let linear: f64 = p.iter().zip(s).map(|(p, s)| p * s).sum();
    match kind {
        Entropy::Shannon => {
            let top = s.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            top + s.iter().map(|s| (s - top).exp()).sum::<f64>().ln()
        }
        Entropy::Tsallis(alpha) => {
            let a = to_f64(alpha);
            linear + p.iter().map(|&p| p - total_power(p, a)).sum::<f64>() / (a * (a - 1.0))
        }
        Entropy::Norm(gamma) => {
            let g = to_f64(gamma);
            linear + 1.0 - total_power(p.iter().map(|&p| total_power(p, g)).sum(), 1.0 / g)
        }
    }
}

/// The maximizing p.
pub fn maximizer(kind: &Entropy, s: &[f64]) -> Vec<f64> {
    if s.is_empty() {
        return vec![];
    }
    let top = s.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let unnormalized: Vec<f64> = match kind {
        Entropy::Shannon => s.iter().map(|s| (s - top).exp()).collect(),
        // p = [(α − 1)s − τ]₊^(1/(α−1)) with Σ p = 1.
        Entropy::Tsallis(alpha) => {
            let a = to_f64(alpha) - 1.0;
            let power = |tau: f64, s: f64| total_power((a * (s - top) - tau).max(0.0), 1.0 / a);
            let tau = bisect(-1.0, 0.0, |tau| s.iter().map(|&s| power(tau, s)).sum::<f64>() - 1.0);
            s.iter().map(|&s| power(tau, s)).collect()
        }
        // p ∝ [s − τ]₊^(1/(γ−1)) with Σ [s − τ]₊^(γ/(γ−1)) = 1.
        Entropy::Norm(gamma) => {
            let g = to_f64(gamma);
            let power = |tau: f64, s: f64, r: f64| total_power((s - top - tau).max(0.0), r);
            let r = g / (g - 1.0);
            let tau = bisect(-1.0, 0.0, |tau| s.iter().map(|&s| power(tau, s, r)).sum::<f64>() - 1.0);
            s.iter().map(|&s| power(tau, s, 1.0 / (g - 1.0))).collect()
        }
    };
    let total: f64 = unnormalized.iter().sum();
    unnormalized.iter().map(|u| u / total).collect()
}

/// The zero of a decreasing function, to the last bit that halving gives.
fn bisect(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if f(middle) >= 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}
