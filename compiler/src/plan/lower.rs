//! Lowering: terms of the algebra become values of the graph.
//!
//! The only question asked of a term is along which axes it extends. Sums are where work happens: factors without the
//! summed axis come out, what is left becomes a matrix product if its factors separate (`separate.rs`) and a
//! fused loop otherwise. Weights become what they are: a maximum, exponentials and their sum; or a threshold and a
//! power. So a common factor of a row, like one over the sum of exponentials, leaves the matrix product by itself.

use super::balanced::Balanced;
use super::contract::contracted;
use super::graph::{self, Fold, Graph, Id, Linear, Map, Misfit};
use super::matrix::Matrix;
use super::schedule::{Domain, Output};
use super::separate::{Product, compares, mixes, separate};
use super::shift::{Degrees, Shifted};
use crate::derive::at_axes;
use crate::ir::memo::Seen;
use crate::ir::{Axis, AxisSet, Entropy, Expr, Func, Leaf, Op, Rational, Role, Space, System, rational, traverse};
use num_traits::{One, Signed};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Why a recipe has no kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unsupported {
    /// No kernel can do what a formula asks for.
    Formula(String),
    /// The compiler made a mistake, and noticed.
    Fault(String),
}

impl Unsupported {
    pub fn formula(why: impl Into<String>) -> Unsupported {
        Unsupported::Formula(why.into())
    }
    /// Whether it is the compiler's mistake.
    pub fn is_fault(&self) -> bool {
        matches!(self, Unsupported::Fault(_))
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Unsupported::Formula(why) => write!(f, "{why}"),
            Unsupported::Fault(what) => write!(f, "{what}; this is a mistake of the compiler, not of the recipe"),
        }
    }
}

impl From<Misfit> for Unsupported {
    fn from(misfit: Misfit) -> Unsupported {
        Unsupported::Fault(format!("its plan does not fit together: {misfit}"))
    }
}

/// Why what could be separated was not.
const TOO_LONG: &str = "its formulas are too long to take apart";

type Lowered = Result<Id, Unsupported>;

/// The state of lowering one recipe: the graph so far and what names stand for.
#[derive(Default)]
pub struct Lowering {
    pub graph: Graph,
    definitions: Vec<(Leaf, Expr)>,
    known: HashMap<Expr, Shifted>,
    /// Whether sums with linear coefficients become scans.
    pub(super) is_scanning: bool,
    /// Squared distances that something other than a sum looks at: they must be right near 0.
    sharp: HashSet<Expr>,
    /// Cotangents that sum to 0 over the tokens of a row.
    pub(super) balanced: Vec<Balanced>,
}

/// What the weights of a row are made of.
pub(super) struct Weights {
    /// The largest score, and what every score is more than the scores used here.
    pub(super) top: Id,
    pub(super) shift: Expr,
    /// Scores minus the largest.
    pub(super) scores: Id,
    /// Weights up to the factor 1/`total`, which is there when they do not sum to one by themselves.
    pub(super) raw: Id,
    pub(super) total: Option<Id>,
}

impl Lowering {
    pub fn new(balanced: Vec<Balanced>) -> Lowering {
        Lowering { balanced, ..Lowering::default() }
    }

    /// From here on, sums over tokens whose coefficients are linear in the query become scans.
    pub fn start_scanning(&mut self) {
        self.is_scanning = true;
        self.known.clear();
    }

    /// Says what a name stands for, along its own axes.
    pub fn define(&mut self, leaf: &Leaf, value: &Expr) {
        self.note_sharp(value);
        self.definitions.push((leaf.clone(), value.clone()));
    }

    /// A term as a value; its axes are the query, one token axis and one component axis at most.
    pub fn lower(&mut self, e: &Expr) -> Lowered {
        let value = self.shifted(e)?;
        Ok(self.applied(&value))
    }

    /// The same, with its exponentials carried along.
    pub(super) fn shifted(&mut self, e: &Expr) -> Result<Shifted, Unsupported> {
        let e = canonical(e)?;
        if let Some(known) = self.known.get(&e) {
            return Ok(known.clone());
        }
        let value = match self.near(&e)? {
            Some(value) => value,
            None => self.compute(&e)?,
        };
        self.known.insert(e, value.clone());
        Ok(value)
    }

    /// A value as an output, along the axes of its domain. It is always computed: a query that sees nothing has nothing,
    /// whatever the inputs hold.
    pub fn output(&mut self, name: &str, id: Id, domain: Domain) -> Result<Output, Unsupported> {
        Ok(Output { name: name.to_string(), id: self.graph.computed(id, domain.axes())?, domain })
    }

    /// Remembers the squared distances in a term that are looked at by more than sums and exponentials.
    pub fn note_sharp(&mut self, e: &Expr) {
        let mut looked_at = Seen::default();
        for node in traverse::subterms(e) {
            let looks = match node.op() {
                Op::Pow(_, r) => !(r.is_integer() && r.is_positive()),
                Op::Call(func, _) => *func != Func::Exp,
                Op::Select(_) => true,
                _ => false,
            };
            if looks {
                let below = node.children().into_iter().flat_map(|x| traverse::unseen(x, &mut looked_at));
                let sums = below.filter(|x| matches!(x.op(), Op::Sum(..)));
                self.sharp.extend(sums.filter_map(|x| canonical(&x).ok()).filter(is_distance));
            }
        }
    }

    fn compute(&mut self, e: &Expr) -> Result<Shifted, Unsupported> {
        Ok(match e.op() {
            Op::Const(c) => Shifted::plain(self.graph.number(c)),
            Op::Leaf(leaf) => self.leaf(leaf)?,
            Op::Add(terms) => match self.entropy_among(terms)? {
                Some((entropy, others)) => {
                    let rest = self.shifted(&Expr::add(others))?;
                    self.total_of(&[Shifted::plain(entropy), rest])?
                }
                None => {
                    let terms = self.all_shifted(terms)?;
                    self.total_of(&terms)?
                }
            },
            Op::Mul(factors) => {
                let factors = self.together(factors)?;
                self.product(&factors)
            }
            Op::Pow(x, r) => {
                let may_vanish = r.is_negative() && !x.sign().is_nonzero();
                let x = self.shifted(x)?;
                if may_vanish { self.inverse_power(&x, r) } else { self.power(&x, r) }
            }
            Op::Call(func, x) => self.call(e, *func, x)?,
            Op::Select(parts) => {
                let [a, b, x, y] = &**parts;
                let [a, b, x, y] = [self.shifted(a)?, self.shifted(b)?, self.shifted(x)?, self.shifted(y)?];
                self.chosen([&a, &b, &x, &y])
            }
            Op::Weights(kind, axis, scores) => {
                let weights = self.weights(kind, &traverse::rename(scores, *axis, Axis::N))?;
                Shifted::plain(self.normalized(&weights))
            }
            Op::SmoothMax(kind, axis, scores) => Shifted::plain(self.smoothmax(kind, *axis, scores)?),
            Op::Solve(system) => Shifted::plain(self.solve(system)?),
            Op::Sum(axis, body) => self.sum(*axis, body)?,
        })
    }

    fn call(&mut self, e: &Expr, func: Func, x: &Expr) -> Result<Shifted, Unsupported> {
        if let Some((axis, scores)) = e.as_log_sum_exp().filter(|(axis, _)| axis.space == Space::Token) {
            return Ok(Shifted::plain(self.smoothmax(&Entropy::Shannon, axis, &scores)?));
        }
        if func == Func::Exp {
            let mut terms = Vec::new();
            for term in x.terms() {
                let (degree, rest) = term.split_coefficient();
                terms.push((self.lower(&rest)?, degree));
            }
            return Ok(self.exponential(&terms));
        }
        let x = self.shifted(x)?;
        Ok(match func {
            Func::Log => Shifted::plain(self.logarithm(&x)),
            Func::Abs => Shifted { mantissa: self.graph.map(Map::Call(func), &[x.mantissa]), degrees: x.degrees },
            Func::Sign => Shifted::plain(self.graph.map(Map::Call(func), &[x.mantissa])),
            _ => {
                let x = self.applied(&x);
                Shifted::plain(self.graph.map(Map::Call(func), &[x]))
            }
        })
    }

    /// The factors of a product. Beside exponentials, functions that are as small as one are carried as one too.
    fn together(&mut self, factors: &[Expr]) -> Result<Vec<Shifted>, Unsupported> {
        let mut values = self.all_shifted(factors)?;
        if values.iter().any(|value| !value.is_plain()) {
            for (value, factor) in values.iter_mut().zip(factors) {
                if let Some(carried) = self.vanishing(factor)? {
                    *value = carried;
                }
            }
        }
        Ok(values)
    }

    /// A power of σ or of 1 − tanh² with its exponential taken out.
    fn vanishing(&mut self, factor: &Expr) -> Result<Option<Shifted>, Unsupported> {
        let (base, r) = match factor.op() {
            Op::Pow(base, r) => (base, r.clone()),
            _ => (factor, Rational::one()),
        };
        let Op::Call(func @ (Func::Sigmoid | Func::TanhSlope), x) = base.op() else { return Ok(None) };
        let x = self.lower(x)?;
        let carried = self.vanishing_call(*func, x);
        Ok(Some(self.power(&carried, &r)))
    }

    fn all_shifted(&mut self, terms: &[Expr]) -> Result<Vec<Shifted>, Unsupported> {
        terms.iter().map(|x| self.shifted(x)).collect()
    }

    fn leaf(&mut self, leaf: &Leaf) -> Result<Shifted, Unsupported> {
        let defined = self.definitions.iter().find(|(known, _)| known.same_input(leaf)).cloned();
        match defined {
            Some((known, value)) => {
                let value = at_axes(&value, &known.axes, &leaf.axes);
                match self.is_balanced(leaf) {
                    false => self.shifted(&value),
                    true => {
                        let id = self.lower(&value)?;
                        Ok(Shifted::plain(self.evened(leaf, id)?))
                    }
                }
            }
            // Scans serve where nothing is dropped.
            None if leaf.role == Role::Kept && self.is_scanning => {
                Ok(Shifted::plain(self.graph.number(&rational::int(1))))
            }
            None => Ok(Shifted::plain(self.graph.input(leaf))),
        }
    }

    // Sums.

    /// Σ_axis body.
    fn sum(&mut self, axis: Axis, body: &Expr) -> Result<Shifted, Unsupported> {
        if let Some(distance) = self.distance(axis, body)? {
            return Ok(Shifted::plain(distance));
        }
        match self.sum_of_products(axis, body) {
            Err(Unsupported::Formula(why)) if compares(body.axes()) => match contracted(axis, body.factors()) {
                Some(e) => self.shifted(&e),
                None => Err(Unsupported::Formula(why)),
            },
            other => other,
        }
    }

    fn sum_of_products(&mut self, axis: Axis, body: &Expr) -> Result<Shifted, Unsupported> {
        let Some(products) = separate(body) else {
            return self.sum_of_product(axis, &Product::of(body)).map_err(|why| match why {
                Unsupported::Formula(why) if !why.starts_with(TOO_LONG) => {
                    Unsupported::Formula(format!("{TOO_LONG}: {why}"))
                }
                why => why,
            });
        };
        let mut terms = Vec::new();
        for product in &products {
            terms.push(self.sum_of_product(axis, product)?);
        }
        Ok(self.total_of(&terms)?)
    }

    fn sum_of_product(&mut self, axis: Axis, product: &Product) -> Result<Shifted, Unsupported> {
        let is_inside = |f: &Expr| f.has_axis(axis);
        let (inside, outside): (Vec<Expr>, Vec<Expr>) = product.factors.iter().cloned().partition(is_inside);
        let inner = match (self.centred(axis, &inside)?, product.is_pure) {
            (Some(centred), _) => Shifted::plain(centred),
            (None, true) => self.contraction(axis, &inside)?,
            (None, false) => match contracted_inside(axis, &inside) {
                Some(e) => self.shifted(&e)?,
                None => {
                    let body = self.shifted(&canonical(&Expr::mul(inside))?)?;
                    self.folded(canonical_axis(axis), &body)
                }
            },
        };
        let mut factors = self.all_shifted(&outside)?;
        factors.push(inner);
        Ok(self.product(&factors))
    }

    /// Σ_axis as a loop.
    fn folded(&mut self, axis: Axis, body: &Shifted) -> Shifted {
        let (factor, degrees) = self.shifted_along(axis, &body.degrees);
        let body = self.graph.mul(&factor.into_iter().chain([body.mantissa]).collect::<Vec<Id>>());
        Shifted { mantissa: self.graph.fold(Fold::Sum, axis, body), degrees }
    }

    /// Σ_axis of a product of factors that all have the axis and do not mix.
    fn contraction(&mut self, axis: Axis, factors: &[Expr]) -> Result<Shifted, Unsupported> {
        if let (Space::Head, Some(swapped)) = (axis.space, swapped_sums(axis, factors)) {
            return self.shifted(&swapped);
        }
        // Factors are taken apart further once lowered: weights are a tile and a number per row. What has come apart may
        // no longer have the axis. They are not multiplied here, which would join what has been separated.
        let factors = canonical_factors(factors)?;
        let axis = canonical_axis(axis);
        let values = self.together(&factors)?;
        let degrees = values.iter().fold(Degrees::default(), |all, value| all.plus(&value.degrees));
        let (weight, degrees) = self.shifted_along(axis, &degrees);
        if weight.is_some_and(|weight| mixes(self.graph.axes(weight))) {
            let body = self.product(&values);
            return Ok(self.folded(axis, &body));
        }
        let mantissas = values.iter().map(|value| value.mantissa).chain(weight);
        let ids: Vec<Id> = mantissas.flat_map(|id| self.graph.factors(id)).collect();
        let (ids, free) = self.split(ids, axis);
        let axes = ids.iter().fold(AxisSet::EMPTY, |set, id| set.union(self.graph.axes(*id)));
        let has = |along: Axis| axes.contains(along);
        let inner = match axis.space {
            Space::Head if has(Axis::T) && has(Axis::N) => {
                let (keys, rows) = self.split(ids, Axis::N);
                let (row, key) = (self.graph.mul(&rows), self.graph.mul(&keys));
                self.graph.dot(row, key)?
            }
            Space::Token if has(Axis::E) => {
                // Numbers per token scale the vectors, once per head.
                let (vectors, numbers) = self.split(ids, Axis::E);
                let (tiles, keys) = self.split(numbers, Axis::T);
                let value = self.graph.mul(&[vectors, keys].concat());
                match self.linear(&tiles, value) {
                    Some(linear) => self.graph.scan(linear)?,
                    None => {
                        let tile = self.tile(&tiles);
                        self.graph.apply(tile, value)?
                    }
                }
            }
            Space::Query if has(Axis::N) && has(Axis::E) => {
                let (vectors, numbers) = self.split(ids, Axis::E);
                let (tiles, rows) = self.split(numbers, Axis::N);
                let value = self.graph.mul(&[vectors, rows].concat());
                match self.linear(&tiles, value) {
                    Some(linear) => self.graph.scan_back(linear)?,
                    None => {
                        let tile = self.tile(&tiles);
                        self.graph.gather(tile, value)?
                    }
                }
            }
            _ => match self.scanned_fold(axis, &ids)? {
                Some(id) => id,
                None => {
                    let product = self.graph.mul(&ids);
                    self.graph.fold(Fold::Sum, axis, product)
                }
            },
        };
        Ok(Shifted { mantissa: self.graph.mul(&[free, vec![inner]].concat()), degrees })
    }

    /// The values that extend along an axis, and the others.
    fn split(&self, ids: Vec<Id>, along: Axis) -> (Vec<Id>, Vec<Id>) {
        ids.into_iter().partition(|&id| self.graph.axes(id).contains(along))
    }

    /// The product of numbers per pair, 0 at what is not seen: a loop leaves such pairs out, a matrix product does not.
    pub(super) fn tile(&mut self, factors: &[Id]) -> Id {
        let visible = self.graph.input(&Leaf::visible(Axis::N));
        if factors.is_empty() {
            return visible;
        }
        let product = self.graph.mul(factors);
        let is_tile = [Axis::T, Axis::N].iter().all(|axis| self.graph.axes(product).contains(*axis));
        match self.graph[product].op {
            graph::Op::Map(..) if is_tile => product,
            _ => self.graph.mul(&[product, visible]),
        }
    }

    // Scans.

    /// The sum of values whose coefficients are a product of tiles, if that is linear in the query.
    fn linear(&self, tiles: &[Id], value: Id) -> Option<Linear> {
        let mut linear = Linear { pair: None, decay: None, value };
        for &tile in tiles {
            match &self.graph[tile].op {
                graph::Op::Dot { row, key } if linear.pair.is_none() => linear.pair = Some((*row, *key)),
                graph::Op::Input(leaf) if leaf.role == Role::Decay && linear.decay.is_none() => {
                    linear.decay = Some(tile);
                }
                graph::Op::Input(leaf) if leaf.role == Role::Visible => {}
                _ => return None,
            }
        }
        self.is_scanning.then_some(linear)
    }

    /// Σ of a product of numbers per pair: Σ_n (x_t·y_n) c = x_t·(Σ_n c y_n), which is a scan if c is linear.
    fn scanned_fold(&mut self, axis: Axis, ids: &[Id]) -> Result<Option<Id>, Unsupported> {
        if !self.is_scanning {
            return Ok(None);
        }
        let factors: Vec<Id> = ids.iter().flat_map(|&id| self.squared_dot(id)).collect();
        let is_pair = |id: &Id| self.graph[*id].is_tile();
        let (tiles, numbers): (Vec<Id>, Vec<Id>) = factors.into_iter().partition(is_pair);
        let dots: Vec<usize> =
            (0..tiles.len()).filter(|&i| matches!(self.graph[tiles[i]].op, graph::Op::Dot { .. })).collect();
        let mut found = None;
        for at in dots {
            let graph::Op::Dot { row, key } = self.graph[tiles[at]].op else { continue };
            let others: Vec<Id> = (0..tiles.len()).filter(|&i| i != at).map(|i| tiles[i]).collect();
            let (inner, outer) = if axis == Axis::N { (key, row) } else { (row, key) };
            let value = self.graph.mul(&[&numbers[..], &[inner]].concat());
            let Some(linear) = self.linear(&others, value) else { continue };
            let op = if axis == Axis::N { graph::Op::Scan(linear) } else { graph::Op::ScanBack(linear) };
            // A scan that another sum needs as well costs nothing.
            if found.is_none() || self.graph.has(&op) {
                found = Some((op, outer));
            }
        }
        let scan = match found {
            Some((graph::Op::Scan(linear), outer)) => [outer, self.graph.scan(linear)?],
            Some((graph::Op::ScanBack(linear), outer)) => [outer, self.graph.scan_back(linear)?],
            _ => return Ok(None),
        };
        let product = self.graph.mul(&scan);
        Ok(Some(self.graph.fold(Fold::Sum, Axis::E, product)))
    }

    /// The gradient of a decay's factors per step from that of the decay, which is a product of them.
    pub fn steps(&mut self, decay: &Leaf, slopes: &Expr) -> Lowered {
        let decay = self.graph.input(decay);
        let slopes = self.lower(slopes)?;
        if let Some(scans) = self.scanned_steps(decay, slopes)? {
            return Ok(self.graph.add(&scans));
        }
        let tile = self.tile(&[slopes]);
        Ok(self.graph.steps(tile, decay)?)
    }

    /// The same as a scan for every term, if every one of them is c (x_t·y_n) or c (x_t·y_n) (g_t·v_n).
    fn scanned_steps(&mut self, decay: Id, slopes: Id) -> Result<Option<Vec<Id>>, Unsupported> {
        if !self.is_scanning {
            return Ok(None);
        }
        let terms = match &self.graph[slopes].op {
            graph::Op::Map(Map::Add, terms) => terms.clone(),
            _ => vec![slopes],
        };
        let mut scans = Vec::new();
        for term in terms {
            let factors: Vec<Id> =
                self.graph.factors(term).into_iter().flat_map(|factor| self.squared_dot(factor)).collect();
            let (tiles, numbers): (Vec<Id>, Vec<Id>) = factors.into_iter().partition(|id| self.graph[*id].is_tile());
            let Some((last, others)) = tiles.split_last() else { return Ok(None) };
            let graph::Op::Dot { row, key } = self.graph[*last].op else { return Ok(None) };
            let (keys, rows) = self.split(numbers, Axis::N);
            let row = self.graph.mul(&[&rows[..], &[row]].concat());
            let value = self.graph.mul(&[&keys[..], &[key]].concat());
            match self.linear(others, value) {
                Some(linear) if linear.decay.is_none() => {
                    scans.push(self.graph.scan_steps(Linear { decay: Some(decay), ..linear }, row)?);
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(scans))
    }

    /// A square of a dot product as two factors.
    fn squared_dot(&self, id: Id) -> Vec<Id> {
        match &self.graph[id].op {
            graph::Op::Map(Map::Pow(r), xs) if *r == rational::int(2) => match self.graph[xs[0]].op {
                graph::Op::Dot { .. } => vec![xs[0], xs[0]],
                _ => vec![id],
            },
            _ => vec![id],
        }
    }

    // Distances.

    /// Σ_e (x − y)² of a query's vector and a token's.
    fn distance(&mut self, axis: Axis, body: &Expr) -> Result<Option<Id>, Unsupported> {
        let Ok(whole) = canonical(&Expr::sum(axis, body)) else { return Ok(None) };
        let Some((row, key)) = distance_parts(&whole) else { return Ok(None) };
        // What only sums look at needs no roots of weights.
        if !self.sharp.contains(&whole) && !matches!(body.op(), Op::Pow(..)) {
            return Ok(None);
        }
        let (x, y) = (self.lower(&row)?, self.lower(&key.neg())?);
        if self.sharp.contains(&whole) {
            return Ok(Some(self.graph.distance(x, y)?));
        }
        // |x|² + |y|² − 2 x·y.
        let dot = self.graph.dot(x, y)?;
        let two = self.graph.number(&rational::int(-2));
        let cross = self.graph.mul(&[two, dot]);
        let [xx, yy] = [x, y].map(|v| {
            let square = self.graph.map(Map::Pow(rational::int(2)), &[v]);
            self.graph.fold(Fold::Sum, Axis::E, square)
        });
        Ok(Some(self.graph.add(&[xx, cross, yy])))
    }

    // Weights.

    /// max_p Σ p s + H(p).
    fn smoothmax(&mut self, kind: &Entropy, axis: Axis, scores: &Expr) -> Lowered {
        let w = self.weights(kind, &traverse::rename(scores, axis, Axis::N))?;
        let shift = self.lower(&w.shift)?;
        let value = match (kind, w.total) {
            (Entropy::Shannon, Some(total)) => self.graph.map(Map::Call(Func::Log), &[total]),
            (Entropy::Tsallis(_) | Entropy::Norm(_), _) => {
                // Σ p s + H(p).
                let p = self.normalized(&w);
                let product = self.graph.mul(&[p, w.scores]);
                let linear = self.graph.fold(Fold::Sum, Axis::N, product);
                let entropy = self.entropy_of_weights(kind, &w);
                self.graph.add(&[linear, entropy])
            }
            (Entropy::Shannon, None) => unreachable!("exponentials have a sum"),
        };
        Ok(self.graph.add(&[w.top, shift, value]))
    }

    pub(super) fn normalized(&mut self, weights: &Weights) -> Id {
        match weights.total {
            None => weights.raw,
            Some(total) => {
                let inverse = self.graph.map(Map::Pow(rational::int(-1)), &[total]);
                self.graph.mul(&[weights.raw, inverse])
            }
        }
    }

    /// The weights of scores along `N`. They do not change when a number is added to all scores of a row.
    pub(super) fn weights(&mut self, kind: &Entropy, scores: &Expr) -> Result<Weights, Unsupported> {
        let (scores, shift) = without_row_constants(scores);
        let scores = self.lower(&scores)?;
        let top = self.graph.fold(Fold::Max, Axis::N, scores);
        let minus = self.graph.number(&rational::int(-1));
        let lowered = self.graph.mul(&[minus, top]);
        let scores = self.graph.add(&[scores, lowered]);
        let total = |graph: &mut Graph, raw| Some(graph.fold(Fold::Sum, Axis::N, raw));
        let (raw, total) = match kind {
            Entropy::Shannon => {
                let raw = self.graph.map(Map::Call(Func::Exp), &[scores]);
                (raw, total(&mut self.graph, raw))
            }
            // p = [(α − 1)s − τ]₊^(1/(α−1)).
            Entropy::Tsallis(alpha) => {
                let a = alpha - Rational::one();
                let number = self.graph.number(&a);
                let scaled = self.graph.mul(&[number, scores]);
                (self.above_threshold(kind, scores, scaled, &a.recip())?, None)
            }
            // p ∝ [s − τ]₊^(1/(γ−1)).
            Entropy::Norm(gamma) => {
                let raw = self.above_threshold(kind, scores, scores, &(gamma - Rational::one()).recip())?;
                (raw, total(&mut self.graph, raw))
            }
        };
        Ok(Weights { top, shift, scores, raw, total })
    }

    /// [scaled − τ]₊^r with the threshold τ of the scores.
    fn above_threshold(&mut self, kind: &Entropy, scores: Id, scaled: Id, r: &Rational) -> Lowered {
        let threshold = self.graph.threshold(kind, scores)?;
        let minus = self.graph.number(&rational::int(-1));
        let lowered = self.graph.mul(&[minus, threshold]);
        let difference = self.graph.add(&[scaled, lowered]);
        let positive = self.graph.map(Map::Positive, &[difference]);
        Ok(if r.is_one() { positive } else { self.graph.map(Map::Pow(r.clone()), &[positive]) })
    }

    // Constraints.

    /// The gradient of x and that of ρ, from the gradient y of ρ x/|x|:
    /// ρ/|x| (y − x (x·y)/|x|²) and the sum of x·y/|x|. What rounding leaves of y along x is taken out once more: in one
    /// dimension, it is all that is left.
    pub fn through_length(&mut self, vector: &Leaf, radius: &Expr, y: Id) -> Result<(Id, Id), Unsupported> {
        let x = self.graph.input(&super::unconstrained(vector));
        let radius = self.lower(radius)?;
        let sum_e = |graph: &mut Graph, a, b| {
            let product = graph.mul(&[a, b]);
            graph.fold(Fold::Sum, Axis::E, product)
        };
        let square = self.graph.map(Map::Pow(rational::int(2)), &[x]);
        let square = self.graph.fold(Fold::Sum, Axis::E, square);
        let along = sum_e(&mut self.graph, x, y);
        let [inverse, inverse_square] =
            [rational::ratio(-1, 2), rational::int(-1)].map(|r| self.graph.map(Map::Pow(r), &[square]));
        let minus = self.graph.number(&rational::int(-1));
        let mut across = y;
        for _ in 0..2 {
            let along = sum_e(&mut self.graph, x, across);
            let radial = self.graph.mul(&[minus, x, along, inverse_square]);
            across = self.graph.add(&[across, radial]);
        }
        let gradient = self.graph.mul(&[radius, inverse, across]);
        let length = self.graph.mul(&[along, inverse]);
        let length = match self.graph.axes(length).contains(Axis::T) {
            true => self.graph.fold(Fold::Sum, Axis::T, length),
            false => self.graph.total(length)?,
        };
        Ok((gradient, length))
    }

    // Systems.

    fn solve(&mut self, system: &System) -> Lowered {
        let (row, column) = (system.row, system.column);
        let mut matrix = Vec::new();
        for term in system.matrix.terms() {
            matrix.extend(Matrix { row, column }.entries(&term, self)?);
        }
        let right = self.lower(&traverse::rename(&system.right, row, column))?;
        Ok(self.graph.solve(matrix, right)?)
    }
}

/// The term with its token axis called `N` and its component axis called `E`.
fn canonical(e: &Expr) -> Result<Expr, Unsupported> {
    Ok(canonical_factors(std::slice::from_ref(e))?.swap_remove(0))
}

/// The factors of a product with its token axis called `N` and its component axis called `E`.
fn canonical_factors(factors: &[Expr]) -> Result<Vec<Expr>, Unsupported> {
    let all = factors.iter().fold(AxisSet::EMPTY, |axes, factor| axes.union(factor.axes()));
    let mut factors = factors.to_vec();
    for space in [Space::Token, Space::Head] {
        let axes: Vec<Axis> = all.iter().filter(|a| a.space == space).collect();
        match axes.as_slice() {
            [] => {}
            [axis] => factors.iter_mut().for_each(|e| *e = traverse::rename(e, *axis, canonical_axis(*axis))),
            _ => return Err(Unsupported::formula(format!("it compares {} with each other", space.describe()))),
        }
    }
    match all.has_space(Space::Model) {
        true => Err(Unsupported::formula("it looks at components of the model's token".to_string())),
        false => Ok(factors),
    }
}

fn canonical_axis(axis: Axis) -> Axis {
    Axis::new(axis.space, 0)
}

/// Σ_f (Σ_n B) c = Σ_n Σ_f (B c) where B extends along another component too: no matrix is formed. The same for a sum
/// over queries, where c is not a query's.
fn contracted_inside(axis: Axis, factors: &[Expr]) -> Option<Expr> {
    let is_matrix = |f: &Expr| f.axes().iter().filter(|a| a.space == Space::Head).count() > 1;
    let at = factors.iter().position(is_matrix)?;
    // Σ_e Σ_n B = Σ_n Σ_e B first, where the matrix is a sum over components itself.
    let matrix = match factors[at].op() {
        Op::Sum(inner, body) if inner.space == Space::Head => contracted_inside(*inner, &body.factors())?,
        _ => factors[at].clone(),
    };
    let Op::Sum(token, body) = matrix.op() else { return None };
    // One way only: components go inside, tokens and queries outside.
    if axis.space != Space::Head || token.space == Space::Head {
        return None;
    }
    let others = Expr::mul(factors.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, f)| f.clone()));
    let (fresh, body) = match token.space {
        Space::Query if others.has_axis(Axis::T) => return None,
        Space::Query => (*token, body.clone()),
        space => {
            let fresh = body.axes().union(others.axes()).with(*token).fresh(space);
            (fresh, traverse::rename(body, *token, fresh))
        }
    };
    let body = body.times(&others);
    let (inside, outside): (Vec<Expr>, Vec<Expr>) = body.factors().into_iter().partition(|f| f.has_axis(axis));
    Some(Expr::sum(fresh, &Expr::mul(outside).times(&Expr::sum(axis, &Expr::mul(inside)))))
}

/// Σ_e Σ_t = Σ_t Σ_e.
fn swapped_sums(axis: Axis, factors: &[Expr]) -> Option<Expr> {
    let is_query_sum = |f: &Expr| matches!(f.op(), Op::Sum(a, _) if a.space == Space::Query);
    let at = factors.iter().position(|f| is_query_sum(f) && !f.axes().has_space(Space::Token))?;
    let Op::Sum(query, body) = factors[at].op() else { return None };
    let others = Expr::mul(factors.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, f)| f.clone()));
    (!others.has_axis(Axis::T)).then(|| Expr::sum(*query, &Expr::sum(axis, &body.times(&others))))
}

/// (x, y) when the term is Σ_e (x + y)² with x of the query alone and y of the token alone, or c (x + y)² with a weight
/// c per component: that is (√c x + √c y)².
fn distance_parts(e: &Expr) -> Option<(Expr, Expr)> {
    let Op::Sum(axis, body) = e.op() else { return None };
    let is_square =
        |f: &Expr| matches!(f.op(), Op::Pow(base, r) if *r == rational::int(2) && matches!(base.op(), Op::Add(_)));
    let (squares, weights): (Vec<Expr>, Vec<Expr>) =
        body.factors().into_iter().partition(|f| is_square(f) && mixes(f.axes()));
    let [square] = squares.as_slice() else { return None };
    let Op::Pow(base, _) = square.op() else { return None };
    let Op::Add(terms) = base.op() else { return None };
    if axis.space != Space::Head {
        return None;
    }
    let root = Expr::mul(weights.iter().map(root_of_weight).collect::<Option<Vec<Expr>>>()?);
    let (keys, rows): (Vec<Expr>, Vec<Expr>) =
        terms.iter().cloned().partition(|term| term.axes().has_space(Space::Token));
    let (row, key) = (root.times(&Expr::add(rows)), root.times(&Expr::add(keys)));
    let is_row = row.has_axis(Axis::T) && row.axes().has_space(Space::Head);
    let is_key = !key.has_axis(Axis::T) && key.axes().has_space(Space::Head);
    (is_row && is_key).then_some((row, key))
}

/// √c of a weight per component that is never negative.
fn root_of_weight(c: &Expr) -> Option<Expr> {
    let is_of_head = c.axes().iter().all(|axis| axis.space == Space::Head);
    let half = rational::ratio(1, 2);
    match c.op() {
        _ if !is_of_head => None,
        Op::Pow(base, r) if (r * &half).is_integer() => Some(base.pow(&(r * &half))),
        _ => c.sign().is_nonnegative().then(|| c.pow(&half)),
    }
}

fn is_distance(e: &Expr) -> bool {
    distance_parts(e).is_some()
}

/// Scores without what is the same for all tokens, and that.
///
/// Squared distances are multiplied out for it: −½|q − k|² = q·k − ½|k|² − ½|q|², and the last is the same.
fn without_row_constants(scores: &Expr) -> (Expr, Expr) {
    let terms = scores.terms().into_iter().flat_map(|term| {
        let factors = term.factors();
        let Some(at) = factors.iter().position(is_distance) else { return vec![term] };
        let Some((row, key)) = distance_parts(&factors[at]) else { return vec![term] };
        let Op::Sum(axis, _) = factors[at].op() else { return vec![term] };
        let others = Expr::mul(factors.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, f)| f.clone()));
        let cross = row.times(&key).scale(&rational::int(2));
        [row.square(), cross, key.square()].iter().map(|part| others.times(&Expr::sum(*axis, part))).collect()
    });
    let (varying, constant): (Vec<Expr>, Vec<Expr>) = terms.partition(|term| term.axes().has_space(Space::Token));
    (Expr::add(varying), Expr::add(constant))
}
