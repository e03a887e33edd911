//! The second derivative of a term along a probe u, as a sum of parts that each have a sign where one is known.
//!
//! D²e[u, u] is composed from the inside out; every rule stands beside its formula. A part is a quadratic form in u with
//! the reason for its sign: D²(f ∘ x) = f'·D²x + f''·(dx)², where the second is a square times f'', and the first is the
//! parts of x times f'. Where the parts of a term have several signs although the term is convex (a norm: its curvature
//! is a square less a smaller one), they are kept together as one part; so are those alike where there are very many.

use super::curvature::{Curvature, Curvatures};
use super::known::Known;
use super::scatter::Scatter;
use crate::calculus::{self, Tangent};
use crate::ir::memo::Memo;
use crate::ir::{Axis, Entropy, Expr, Func, Leaf, Op, Sign, rational};

/// What is known about the sign of a quadratic form or of its matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Definite {
    /// ⪰ 0.
    Positive,
    /// ⪯ 0.
    Negative,
    Unknown,
}

impl Definite {
    fn times(self, c: Sign) -> Definite {
        match self {
            _ if self == Definite::Unknown => self,
            _ if c.is_nonnegative() => self,
            Definite::Positive if c.negate().is_nonnegative() => Definite::Negative,
            Definite::Negative if c.negate().is_nonnegative() => Definite::Positive,
            _ => Definite::Unknown,
        }
    }
}

/// Why a part has its sign, or has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Squares with weights of one sign.
    Squares,
    /// Second derivatives of convex (or concave) terms with weights of one sign.
    Convexity,
    /// The scatter of a smooth maximum.
    Scatter,
    /// The changes of two factors, multiplied.
    Cross,
    /// A factor may have either sign.
    Factor,
    /// No rule says anything.
    NoRule,
}

/// A part of the second derivative.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub sign: Definite,
    pub reason: Reason,
    /// The quadratic form in the probe.
    pub form: Expr,
    /// What the form is made of, when it is one scatter.
    pub scatter: Option<Scatter>,
}

/// Parts of one term beyond these are put together where they are alike: each is multiplied by all that stands around.
const MANY: usize = 32;

/// A product with more factors that change is taken apart in halves, which grows with their number and not its square.
const MANY_FACTORS: usize = 16;

/// The parts of the second derivative of `e` as `input` moves along `probe`; those alike are put together.
pub fn parts(e: &Expr, input: &Leaf, probe: &Leaf, known: &Known) -> Vec<Part> {
    let curvatures = Curvatures::of_input(input, known.clone());
    let mut composer = Composer { known, curvatures, changes: Tangent::new(input, probe, &[]), memo: Memo::default() };
    let mut parts = merged(composer.of(e));
    parts.sort_by_key(|part| part.sign);
    parts
}

struct Composer<'a> {
    known: &'a Known,
    curvatures: Curvatures<'a>,
    changes: Tangent<'a>,
    memo: Memo<Vec<Part>>,
}

impl Composer<'_> {
    fn of(&mut self, e: &Expr) -> Vec<Part> {
        if let Some(done) = self.memo.get(e) {
            return done.clone();
        }
        let parts = self.composed(e);
        let parts = if parts.len() > MANY { condensed(parts) } else { parts };
        self.memo.insert(e.clone(), parts.clone());
        parts
    }

    fn composed(&mut self, e: &Expr) -> Vec<Part> {
        let sign = match self.curvatures.of(e) {
            Curvature::Constant | Curvature::Affine => return vec![],
            Curvature::Convex => Definite::Positive,
            Curvature::Concave => Definite::Negative,
            Curvature::Unknown => return self.rule(e),
        };
        let composed = self.rule(e);
        if composed.iter().all(|part| part.sign == sign) {
            return composed;
        }
        self.whole(e, sign, Reason::Convexity)
    }

    fn is_fixed(&mut self, e: &Expr) -> bool {
        self.curvatures.of(e) == Curvature::Constant
    }

    /// dx.
    fn change(&mut self, e: &Expr) -> Expr {
        self.changes.of(e)
    }

    /// D²e as one part.
    fn whole(&mut self, e: &Expr, sign: Definite, reason: Reason) -> Vec<Part> {
        let change = self.change(e);
        part(sign, reason, self.change(&change))
    }

    fn rule(&mut self, e: &Expr) -> Vec<Part> {
        if let Some(parts) = self.log_of_sum(e) {
            return parts;
        }
        match e.op() {
            Op::Const(_) | Op::Leaf(_) => vec![],
            // D²(x + y) = D²x + D²y
            Op::Add(xs) => xs.iter().flat_map(|x| self.of(x)).collect(),
            Op::Sum(axis, x) => self.of(x).into_iter().map(|p| p.map(|form| Expr::sum(*axis, form))).collect(),
            Op::Mul(xs) => self.product(xs),
            // D²(x^r) = r x^(r−1) D²x + r (r−1) x^(r−2) (dx)²
            Op::Pow(x, r) => {
                let (one, two) = (rational::int(1), rational::int(2));
                let slope = x.pow(&(r - &one)).scale(r);
                let bend = x.pow(&(r - &two)).scale(&(r * (r - &one)));
                // (d|y|)² = (dy)² but where y = 0; there the weight |y|^(r−2) is 0, unless it is no power at all.
                let moved = match x.op() {
                    Op::Call(Func::Abs, y) if *r != two => y,
                    _ => x,
                };
                self.scaled(x, &slope).into_iter().chain(self.square(&bend, moved)).collect()
            }
            Op::Call(Func::Exp, x) => self.scaled(x, e).into_iter().chain(self.square(e, x)).collect(),
            // D²(log x) = D²x/x − (dx/x)², and x > 0
            Op::Call(Func::Log, x) => {
                let inverse = x.pow(&rational::int(-1));
                let first = self.of(x).into_iter().map(|p| p.map(|form| form.times(&inverse)));
                let bend = x.pow(&rational::int(-2)).neg();
                first.chain(self.square(&bend, x)).collect()
            }
            // D²|x| = sign(x) D²x, but where x = 0
            Op::Call(Func::Abs, x) => self.scaled(x, &x.signum()),
            Op::Call(Func::Sign, _) => vec![],
            Op::Select(p) => self.cases(&p[0], &p[1], &p[2], &p[3]),
            // D²m(s) = Σ p D²s + dsᵀ J ds
            Op::SmoothMax(kind, axis, s) => {
                let weights = Expr::weights(kind, *axis, s);
                self.smooth_maximum(kind, *axis, &weights, s)
            }
            // D²f(x) = f′(x) D²x + f″(x) (dx)²
            Op::Call(func, x) => {
                let (slope, bend) = (func.slope(x), func.bend(x));
                self.scaled(x, &slope).into_iter().chain(self.square(&bend, x)).collect()
            }
            _ => self.whole(e, Definite::Unknown, Reason::NoRule),
        }
    }

    /// The parts of x times a factor.
    fn scaled(&mut self, x: &Expr, c: &Expr) -> Vec<Part> {
        let parts = self.of(x);
        let of_factor = self.known.sign(c);
        let times = |p: Part| {
            let sign = p.sign.times(of_factor);
            let is_lost = sign == Definite::Unknown && p.sign != Definite::Unknown;
            let scatter = p.scatter.map(|s| s.times(c));
            let form = scatter.as_ref().map_or_else(|| p.form.times(c), Scatter::form);
            Part { sign, reason: if is_lost { Reason::Factor } else { p.reason }, form, scatter }
        };
        parts.into_iter().map(times).filter(|p| !p.form.is_zero()).collect()
    }

    /// weight · (dx)².
    fn square(&mut self, weight: &Expr, x: &Expr) -> Vec<Part> {
        let sign = Definite::Positive.times(self.known.sign(weight));
        let reason = if sign == Definite::Unknown { Reason::Factor } else { Reason::Squares };
        part(sign, reason, weight.times(&self.change(x).square()))
    }

    /// D²(Π x_j) = Σ_j D²x_j Π_{l≠j} x_l + 2 Σ_{j<l} dx_j dx_l Π_{m≠j,l} x_m
    fn product(&mut self, xs: &[Expr]) -> Vec<Part> {
        let moving: Vec<usize> = (0..xs.len()).filter(|&j| !self.is_fixed(&xs[j])).collect();
        if moving.len() > MANY_FACTORS {
            let (fixed, moving): (Vec<Expr>, Vec<Expr>) = xs.iter().cloned().partition(|x| self.is_fixed(x));
            let (first, second) = moving.split_at(moving.len() / 2);
            return self.product(&[fixed, first.to_vec(), second.to_vec()].map(Expr::mul));
        }
        let without = |left: &[usize]| {
            Expr::mul(xs.iter().enumerate().filter(|(j, _)| !left.contains(j)).map(|(_, x)| x.clone()))
        };
        let mut parts: Vec<Part> = moving.iter().flat_map(|&j| self.scaled(&xs[j], &without(&[j]))).collect();
        for (at, &j) in moving.iter().enumerate() {
            for &l in &moving[at + 1..] {
                let changes = [self.change(&xs[j]), self.change(&xs[l]), without(&[j, l]), Expr::int(2)];
                parts.extend(part(Definite::Unknown, Reason::Cross, Expr::mul(changes)));
            }
        }
        parts
    }

    /// The positive parts of the branches, the negative ones, the others: each by cases again.
    fn cases(&mut self, a: &Expr, b: &Expr, x: &Expr, y: &Expr) -> Vec<Part> {
        let (x, y) = (self.of(x), self.of(y));
        let mut parts = Vec::new();
        for sign in [Definite::Positive, Definite::Negative, Definite::Unknown] {
            let of_sign = |branch: &[Part]| {
                let kept: Vec<Part> = branch.iter().filter(|p| p.sign == sign).cloned().collect();
                (Expr::add(kept.iter().map(|p| p.form.clone())), kept)
            };
            let ((then, first), (otherwise, second)) = (of_sign(&x), of_sign(&y));
            let mut reasons = first.iter().chain(&second).map(|p| p.reason);
            let Some(reason) = reasons.next() else { continue };
            let reason = match sign {
                _ if reasons.all(|other| other == reason) => reason,
                Definite::Unknown => Reason::NoRule,
                _ => Reason::Convexity,
            };
            parts.extend(part(sign, reason, Expr::select(a, b, &then, &otherwise)));
        }
        parts
    }

    /// log Σ_i x_i of positive x_i is a smooth maximum of the log x_i, with weights x_i / Σ_j x_j.
    fn log_of_sum(&mut self, e: &Expr) -> Option<Vec<Part>> {
        let Op::Call(Func::Log, sum) = e.op() else { return None };
        let Op::Sum(axis, body) = sum.op() else { return None };
        if self.known.sign(body) != Sign::Positive {
            return None;
        }
        let scores = Expr::add(body.factors().iter().map(logarithm));
        let weights = match e.as_log_sum_exp() {
            Some(_) => Expr::weights(&Entropy::Shannon, *axis, &scores),
            None => body.over(sum),
        };
        Some(self.smooth_maximum(&Entropy::Shannon, *axis, &weights, &scores))
    }

    fn smooth_maximum(&mut self, kind: &Entropy, axis: Axis, weights: &Expr, scores: &Expr) -> Vec<Part> {
        let mean = |p: Part| p.map(|form| Expr::sum(axis, &weights.times(form)));
        let mut parts: Vec<Part> = self.of(scores).into_iter().map(mean).collect();
        let change = self.change(scores);
        // The same change of every score changes no weight.
        if change.has_axis(axis) {
            let scatter = Scatter { front: Expr::one(), kind: kind.clone(), axis, weights: weights.clone(), change };
            let form = scatter.form();
            parts.push(Part { sign: Definite::Positive, reason: Reason::Scatter, form, scatter: Some(scatter) });
        }
        parts
    }
}

impl Part {
    /// The same with another form, of the same sign.
    fn map(self, f: impl Fn(&Expr) -> Expr) -> Part {
        Part { form: f(&self.form), scatter: None, ..self }
    }
}

fn part(sign: Definite, reason: Reason, form: Expr) -> Vec<Part> {
    if form.is_zero() { vec![] } else { vec![Part { sign, reason, form, scatter: None }] }
}

fn logarithm(e: &Expr) -> Expr {
    match e.op() {
        Op::Pow(x, r) => x.log().scale(r),
        _ => e.log(),
    }
}

/// Parts of one sign and reason as one; a scatter stays by itself.
fn merged(parts: Vec<Part>) -> Vec<Part> {
    let mut all: Vec<(Part, Vec<Expr>)> = Vec::new();
    for part in parts {
        let alike = |(p, _): &&mut (Part, Vec<Expr>)| {
            (p.sign, p.reason) == (part.sign, part.reason) && p.scatter.is_none() && part.scatter.is_none()
        };
        match all.iter_mut().find(alike) {
            Some((_, forms)) => forms.push(part.form),
            None => {
                let forms = vec![part.form.clone()];
                all.push((part, forms));
            }
        }
    }
    let together = all.into_iter().map(|(part, forms)| Part { form: Expr::add(forms), ..part });
    together.filter(|part| !part.form.is_zero()).collect()
}

/// The same for scatters too.
fn condensed(parts: Vec<Part>) -> Vec<Part> {
    merged(parts.into_iter().map(|part| Part { scatter: None, ..part }).collect())
}

/// ½ ∂Q/∂u of a quadratic form Q: its matrix times the probe.
pub fn times_probe(form: &Expr, probe: &Leaf) -> Expr {
    calculus::gradient(form, probe).scale(&rational::ratio(1, 2))
}
