//! The value graph: what a kernel computes, by axes.
//!
//! Every value extends along some of three axes: `t` (the query), `n` (the attended token) and `e` (the component of
//! a head; a value with that alone is a vector of the head, such as a weight per component). The axes decide everything that follows: how often a value is computed, where it is stored and which loop
//! computes it.
//!
//! | node | axes | is |
//! |---|---|---|
//! | `map` | union of its operands' | elementwise, fused into loops |
//! | `fold` | one axis fewer | a sum or a maximum along an axis |
//! | `dot` | `[t,e]·[n,e] → [t,n]` | a matrix product |
//! | `apply` | `[t,n]·[n,e] → [t,e]` | a matrix product |
//! | `gather` | `[t,n]·[t,e] → [n,e]` | a matrix product, accumulated over blocks of queries |
//! | `distance` | `[t,e],[n,e] → [t,n]` | Σ(x − y)², a matrix product with close pairs computed again |
//! | `threshold` | `[t,n] → [t]` | a search along a row |
//! | `solve` | `→ [t,e]` | one dense system per query |
//! | `scan` | `[t,e],[n,e],[n,f] → [t,f]` | Σ_n (x_t·y_n) γ v_n, chunk by chunk with a state |
//! | `scan back` | `[t,e],[n,e],[t,f] → [n,f]` | Σ_t (x_t·y_n) γ g_t, the same backwards |
//! | `steps` | `[t,n] → [n]` | the gradient of a decay's factors per step from that of their products |
//! | `scan steps` | `[t,e],[n,e],[t,f],[n,f] → [n]` | the same from (x_t·y_n) (g_t·v_n), chunk by chunk |
//! | `total` | `[n] → []` | the sum over all tokens, whoever sees them |
//!
//! A map along all three axes is never stored: folds take it apart in a fused triple loop.
//!
//! Every operation says along which axes it wants its operands, and its constructor sees to it: a value that extends
//! along fewer is spread, one that extends along more is refused ([`Misfit`]). A sum along an axis its body does not
//! have counts: Σ_e x = d_h x.
//!
//! Nodes are shared: building the same node twice gives the same [`Id`], so what the backward pass has in common with
//! the forward pass is found by itself.

use crate::check::inputs;
use crate::ir::{Axis, AxisSet, Entropy, Func, Leaf, Rational, Role, rational};
use num_traits::{One, ToPrimitive, Zero};
use std::collections::HashMap;
use std::fmt;

/// A node of a [`Graph`]; operands have smaller numbers than what uses them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id(pub u32);

impl Id {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "x{}", self.0)
    }
}

/// An elementwise operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Map {
    Add,
    Mul,
    /// The total power: 0^r = 0.
    Pow(Rational),
    Call(Func),
    /// log(1 + x), and e^x − 1, both right near 0.
    Log1p,
    Expm1,
    /// `[a, b, x, y]`: x where a ≤ b, else y.
    Select,
    /// The larger of x and 0.
    Positive,
    /// The value itself, along more axes than it changes along.
    Spread(AxisSet),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fold {
    Sum,
    /// The largest entry; 0 of nothing.
    Max,
}

/// A summand of a d_h × d_h matrix per query.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Entry {
    /// The diagonal matrix of a vector or of a number.
    Diagonal(Id),
    /// x yᵀ with x and y along `[t,e]`.
    Outer(Id, Id),
    /// Σ_n w x yᵀ with w along `[t,n]` and x, y along `[n,e]` or `[t,n,e]`.
    Moment(Id, Id, Id),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    Input(Leaf),
    Number(Rational),
    Map(Map, Vec<Id>),
    Fold(Fold, Axis, Id),
    Dot {
        row: Id,
        key: Id,
    },
    Apply {
        tile: Id,
        key: Id,
    },
    Gather {
        tile: Id,
        row: Id,
    },
    Distance {
        row: Id,
        key: Id,
    },
    Threshold(Entropy, Id),
    Solve {
        matrix: Vec<Entry>,
        right: Id,
    },
    Total(Id),
    Scan(Linear),
    ScanBack(Linear),
    /// Σ_t Σ_{i<j≤t} of the slopes in γ_{t,i}, times γ_{t,i}/d_j, which is γ_{t,j} γ_{j−1,i}.
    Steps {
        tile: Id,
        decay: Id,
    },
    /// The same where the slopes are (x_t·y_n) (row_t·value_n).
    ScanSteps {
        linear: Linear,
        row: Id,
    },
}

/// A sum of values whose coefficients (x_t·y_n) γ_{t,n} are linear in the query and in the token.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Linear {
    /// x and y; 1 if there are none.
    pub pair: Option<(Id, Id)>,
    pub decay: Option<Id>,
    pub value: Id,
}

impl Linear {
    fn with(&self, take: &mut impl FnMut(Id) -> Id) -> Linear {
        let pair = self.pair.map(|(x, y)| (take(x), take(y)));
        Linear { pair, decay: self.decay.map(&mut *take), value: take(self.value) }
    }
}

impl Op {
    pub fn operands(&self) -> Vec<Id> {
        match self {
            Op::Input(_) | Op::Number(_) => vec![],
            Op::Map(_, xs) => xs.clone(),
            Op::Fold(_, _, x) | Op::Threshold(_, x) | Op::Total(x) => vec![*x],
            Op::Dot { row, key } | Op::Distance { row, key } => vec![*row, *key],
            Op::Apply { tile, key } => vec![*tile, *key],
            Op::Scan(l) | Op::ScanBack(l) => {
                l.pair.into_iter().flat_map(|(x, y)| [x, y]).chain(l.decay).chain([l.value]).collect()
            }
            Op::Gather { tile, row } => vec![*tile, *row],
            Op::Steps { tile, decay } => vec![*tile, *decay],
            Op::ScanSteps { linear: l, row } => {
                l.pair.into_iter().flat_map(|(x, y)| [x, y]).chain(l.decay).chain([l.value, *row]).collect()
            }
            Op::Solve { matrix, right } => {
                let entries = matrix.iter().flat_map(|entry| match entry {
                    Entry::Diagonal(x) => vec![*x],
                    Entry::Outer(x, y) => vec![*x, *y],
                    Entry::Moment(w, x, y) => vec![*w, *x, *y],
                });
                entries.chain([*right]).collect()
            }
        }
    }
}

/// Why an operation was not built: an operand extends along an axis that the operation knows nothing of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misfit {
    pub id: Id,
    pub own: AxisSet,
    pub wanted: AxisSet,
}

/// A value whose operands extend along the axes they should.
pub type Built = Result<Id, Misfit>;

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Misfit { id, own, wanted } = self;
        write!(f, "{id} extends along {own}, and is read along {wanted}")
    }
}

pub(super) const ROW_VECTOR: [Axis; 2] = [Axis::T, Axis::E];
pub(super) const KEY_VECTOR: [Axis; 2] = [Axis::N, Axis::E];
pub(super) const TILE: [Axis; 2] = [Axis::T, Axis::N];
pub(super) const TRIPLE: [Axis; 3] = [Axis::T, Axis::N, Axis::E];

/// A value: how it is computed and what it extends along.
#[derive(Clone, Debug)]
pub struct Node {
    pub op: Op,
    pub axes: AxisSet,
}

impl Node {
    pub fn has(&self, axis: Axis) -> bool {
        self.axes.contains(axis)
    }
    pub fn is_triple(&self) -> bool {
        self.has(Axis::T) && self.has(Axis::N) && self.has(Axis::E)
    }
    pub fn is_tile(&self) -> bool {
        self.has(Axis::T) && self.has(Axis::N) && !self.has(Axis::E)
    }
}

/// A sign and a power among factors, and the two factors (bases and exponents) they become together.
struct Joined {
    sign: usize,
    power: usize,
    factors: [(Id, Rational); 2],
}

/// Powers that are multiplied one by one at the most.
const MOST_TURNS: i64 = 6;

/// Shared values.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub nodes: Vec<Node>,
    known: HashMap<Op, Id>,
}

impl std::ops::Index<Id> for Graph {
    type Output = Node;
    fn index(&self, id: Id) -> &Node {
        &self.nodes[id.index()]
    }
}

impl Graph {
    pub fn axes(&self, id: Id) -> AxisSet {
        self[id].axes
    }

    /// Whether something fades from token to token.
    pub fn has_decay(&self) -> bool {
        self.nodes.iter().any(|node| matches!(&node.op, Op::Input(leaf) if leaf.role == Role::Decay))
    }

    fn node(&mut self, op: Op) -> Id {
        if let Some(&id) = self.known.get(&op) {
            return id;
        }
        let axes = self.axes_of(&op);
        let id = Id(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(Node { op: op.clone(), axes });
        self.known.insert(op, id);
        id
    }

    /// A node as it is, for tests of those who check.
    #[cfg(test)]
    pub(super) fn unchecked(&mut self, op: Op) -> Id {
        self.node(op)
    }

    /// What an operation on these operands extends along.
    pub(super) fn axes_of(&self, op: &Op) -> AxisSet {
        match op {
            Op::Input(leaf) => AxisSet::of(&leaf.axes),
            Op::Number(_) => AxisSet::EMPTY,
            Op::Map(Map::Spread(axes), xs) => xs.iter().fold(*axes, |set, &x| set.union(self.axes(x))),
            Op::Map(_, xs) => xs.iter().fold(AxisSet::EMPTY, |set, &x| set.union(self.axes(x))),
            // What a query sees decides what a fold over tokens gives; what sees a token, one over queries.
            Op::Fold(_, axis, x) if *axis == Axis::N => self.axes(*x).with(Axis::T).without(Axis::N),
            Op::Fold(_, axis, x) => self.axes(*x).without(*axis),
            Op::Dot { .. } | Op::Distance { .. } => AxisSet::of(&[Axis::T, Axis::N]),
            Op::Apply { .. } | Op::Solve { .. } | Op::Scan(_) => AxisSet::of(&[Axis::T, Axis::E]),
            Op::Gather { .. } | Op::ScanBack(_) => AxisSet::of(&[Axis::N, Axis::E]),
            Op::Threshold(..) => AxisSet::of(&[Axis::T]),
            Op::Steps { .. } | Op::ScanSteps { .. } => AxisSet::of(&[Axis::N]),
            Op::Total(_) => AxisSet::EMPTY,
        }
    }

    /// The same operation on other operands, which are in the order of [`Op::operands`].
    pub fn with_operands(&mut self, op: &Op, operands: &[Id]) -> Built {
        let mut next = operands.iter().copied();
        let mut take = |old: Id| next.next().unwrap_or(old);
        match op {
            Op::Input(_) | Op::Number(_) => Ok(self.node(op.clone())),
            Op::Map(Map::Add, _) => Ok(self.add(operands)),
            Op::Map(Map::Mul, _) => Ok(self.mul(operands)),
            Op::Map(map, _) => Ok(self.map(map.clone(), operands)),
            Op::Fold(fold, axis, x) => Ok(self.fold(*fold, *axis, take(*x))),
            Op::Threshold(kind, x) => self.threshold(kind, take(*x)),
            Op::Total(x) => self.total(take(*x)),
            Op::Dot { row, key } => self.dot(take(*row), take(*key)),
            Op::Distance { row, key } => self.distance(take(*row), take(*key)),
            Op::Apply { tile, key } => self.apply(take(*tile), take(*key)),
            Op::Gather { tile, row } => self.gather(take(*tile), take(*row)),
            Op::Scan(l) => self.scan(l.with(&mut take)),
            Op::ScanBack(l) => self.scan_back(l.with(&mut take)),
            Op::Steps { tile, decay } => self.steps(take(*tile), take(*decay)),
            Op::ScanSteps { linear, row } => {
                let linear = linear.with(&mut take);
                self.scan_steps(linear, take(*row))
            }
            Op::Solve { matrix, right } => {
                let entries = matrix.iter().map(|entry| match entry {
                    Entry::Diagonal(x) => Entry::Diagonal(take(*x)),
                    Entry::Outer(x, y) => Entry::Outer(take(*x), take(*y)),
                    Entry::Moment(w, x, y) => Entry::Moment(take(*w), take(*x), take(*y)),
                });
                let matrix = entries.collect();
                self.solve(matrix, take(*right))
            }
        }
    }

    pub fn input(&mut self, leaf: &Leaf) -> Id {
        self.node(Op::Input(leaf.clone()))
    }
    pub fn number(&mut self, x: &Rational) -> Id {
        self.node(Op::Number(x.clone()))
    }
    /// A sum or a maximum along an axis. What does not change along it is counted.
    pub fn fold(&mut self, fold: Fold, axis: Axis, x: Id) -> Id {
        match (fold, self[x].has(axis)) {
            (_, true) => self.node(Op::Fold(fold, axis, x)),
            (Fold::Max, false) => x,
            (Fold::Sum, false) => {
                let count = self.count(axis);
                self.mul(&[x, count])
            }
        }
    }

    /// How many entries a sum along an axis has: components, tokens that the query sees, queries that see anything.
    fn count(&mut self, axis: Axis) -> Id {
        let each = match axis {
            Axis::N => self.input(&Leaf::visible(Axis::N)),
            Axis::T => {
                let one = self.number(&Rational::one());
                self.node(Op::Map(Map::Spread(AxisSet::of(&[Axis::T])), vec![one]))
            }
            _ => return self.input(&inputs::d_h()),
        };
        self.node(Op::Fold(Fold::Sum, axis, each))
    }

    /// The value, if it extends along these axes at most.
    fn within(&self, id: Id, axes: &[Axis]) -> Built {
        let (own, wanted) = (self.axes(id), AxisSet::of(axes));
        if own.is_subset(wanted) { Ok(id) } else { Err(Misfit { id, own, wanted }) }
    }

    /// The value along just these axes.
    pub fn along(&mut self, id: Id, axes: &[Axis]) -> Built {
        self.within(id, axes)?;
        let wanted = AxisSet::of(axes);
        if self.axes(id) == wanted {
            return Ok(id);
        }
        Ok(self.node(Op::Map(Map::Spread(wanted), vec![id])))
    }

    /// The same as a value of its own, where it is an input or a number.
    pub fn computed(&mut self, id: Id, axes: &[Axis]) -> Built {
        let id = self.along(id, axes)?;
        match self[id].op {
            Op::Input(_) | Op::Number(_) => Ok(self.node(Op::Map(Map::Spread(AxisSet::of(axes)), vec![id]))),
            _ => Ok(id),
        }
    }

    pub fn dot(&mut self, row: Id, key: Id) -> Built {
        let (row, key) = (self.along(row, &ROW_VECTOR)?, self.along(key, &KEY_VECTOR)?);
        Ok(self.node(Op::Dot { row, key }))
    }
    pub fn apply(&mut self, tile: Id, key: Id) -> Built {
        let (tile, key) = (self.along(tile, &TILE)?, self.along(key, &KEY_VECTOR)?);
        Ok(self.node(Op::Apply { tile, key }))
    }
    pub fn gather(&mut self, tile: Id, row: Id) -> Built {
        let (tile, row) = (self.along(tile, &TILE)?, self.along(row, &ROW_VECTOR)?);
        Ok(self.node(Op::Gather { tile, row }))
    }
    pub fn distance(&mut self, row: Id, key: Id) -> Built {
        let (row, key) = (self.along(row, &ROW_VECTOR)?, self.along(key, &KEY_VECTOR)?);
        Ok(self.node(Op::Distance { row, key }))
    }
    pub fn threshold(&mut self, kind: &Entropy, scores: Id) -> Built {
        let scores = self.along(scores, &TILE)?;
        Ok(self.node(Op::Threshold(kind.clone(), scores)))
    }
    pub fn solve(&mut self, matrix: Vec<Entry>, right: Id) -> Built {
        // Numbers stand for vectors of equal entries.
        self.within(right, &ROW_VECTOR)?;
        let mut entries = Vec::new();
        for entry in matrix {
            entries.push(match entry {
                Entry::Diagonal(x) => Entry::Diagonal(self.within(x, &ROW_VECTOR)?),
                Entry::Outer(x, y) => Entry::Outer(self.within(x, &ROW_VECTOR)?, self.within(y, &ROW_VECTOR)?),
                Entry::Moment(w, x, y) => {
                    Entry::Moment(self.along(w, &TILE)?, self.within(x, &TRIPLE)?, self.within(y, &TRIPLE)?)
                }
            });
        }
        Ok(self.node(Op::Solve { matrix: entries, right }))
    }
    pub fn scan(&mut self, linear: Linear) -> Built {
        let linear = self.linear(linear, &KEY_VECTOR)?;
        Ok(self.node(Op::Scan(linear)))
    }
    pub fn scan_back(&mut self, linear: Linear) -> Built {
        let linear = self.linear(linear, &ROW_VECTOR)?;
        Ok(self.node(Op::ScanBack(linear)))
    }
    pub fn steps(&mut self, tile: Id, decay: Id) -> Built {
        let tile = self.along(tile, &TILE)?;
        Ok(self.node(Op::Steps { tile, decay }))
    }
    pub fn scan_steps(&mut self, linear: Linear, row: Id) -> Built {
        let (linear, row) = (self.linear(linear, &KEY_VECTOR)?, self.along(row, &ROW_VECTOR)?);
        Ok(self.node(Op::ScanSteps { linear, row }))
    }
    fn linear(&mut self, linear: Linear, value: &[Axis]) -> Result<Linear, Misfit> {
        let pair = match linear.pair {
            Some((x, y)) => Some((self.along(x, &ROW_VECTOR)?, self.along(y, &KEY_VECTOR)?)),
            None => None,
        };
        Ok(Linear { pair, value: self.along(linear.value, value)?, ..linear })
    }
    /// Whether a value is there already.
    pub fn has(&self, op: &Op) -> bool {
        self.known.contains_key(op)
    }
    pub fn total(&mut self, x: Id) -> Built {
        let x = self.along(x, &[Axis::N])?;
        Ok(self.node(Op::Total(x)))
    }

    /// An elementwise operation that is neither a sum nor a product.
    pub fn map(&mut self, map: Map, operands: &[Id]) -> Id {
        // x^(n/2) = (√x)^n: the root is computed once for all of them.
        if let Map::Pow(r) = &map {
            let (twice, half) = (r * rational::int(2), rational::ratio(1, 2));
            if twice.is_integer() && !r.is_integer() && *r != half {
                let root = self.node(Op::Map(Map::Pow(half), operands.to_vec()));
                return self.node(Op::Map(Map::Pow(twice), vec![root]));
            }
        }
        self.node(Op::Map(map, operands.to_vec()))
    }

    /// Whether the value is this whole number.
    pub fn is_int(&self, id: Id, n: i64) -> bool {
        matches!(&self[id].op, Op::Number(c) if *c == crate::ir::rational::int(n))
    }

    pub fn add(&mut self, terms: &[Id]) -> Id {
        let mut number = Rational::zero();
        let mut flat: Vec<Id> = Vec::new();
        let inner = |graph: &Graph, id: Id| match &graph[id].op {
            Op::Map(Map::Add, inner) => inner.clone(),
            _ => vec![id],
        };
        for term in terms.iter().flat_map(|&term| inner(self, term)) {
            match &self[term].op {
                Op::Number(c) => number += c,
                _ => flat.push(term),
            }
        }
        if !number.is_zero() {
            let number = self.number(&number);
            flat.push(number);
        }
        flat.sort();
        match flat.as_slice() {
            [] => self.number(&Rational::zero()),
            [one] => *one,
            _ => self.node(Op::Map(Map::Add, flat)),
        }
    }

    /// The product: nested products are flattened, numbers multiplied.
    pub fn mul(&mut self, factors: &[Id]) -> Id {
        let mut number = Rational::one();
        let mut flat: Vec<Id> = Vec::new();
        for factor in factors.iter().flat_map(|&f| self.factors(f)) {
            match &self[factor].op {
                Op::Number(c) => number *= c,
                _ => flat.push(factor),
            }
        }
        if number.is_zero() {
            return self.number(&number);
        }
        if let Some((select, outside)) = self.choice_of_all(&flat) {
            let number = self.number(&number);
            return self.mul(&[vec![select, number], outside].concat());
        }
        while let Some(Joined { sign, power, factors }) = self.sign_beside_power(&flat) {
            flat.swap_remove(sign.max(power));
            flat.swap_remove(sign.min(power));
            for (x, r) in factors.into_iter().filter(|(_, r)| !r.is_zero()) {
                flat.push(if r.is_one() { x } else { self.map(Map::Pow(r), &[x]) });
            }
        }
        flat.sort();
        flat = self.taking_turns(flat);
        if !number.is_one() {
            let number = self.number(&number);
            flat.insert(0, number);
        }
        // What has no components is multiplied once per pair, and not once per component.
        let axes = flat.iter().fold(AxisSet::EMPTY, |axes, f| axes.union(self.axes(*f)));
        let (with, without): (Vec<Id>, Vec<Id>) = flat.iter().partition(|f| self[**f].has(Axis::E));
        let is_triple = [Axis::T, Axis::N, Axis::E].into_iter().all(|axis| axes.contains(axis));
        if is_triple && without.len() > 1 {
            let number = self.mul(&without);
            flat = [vec![number], with].concat();
        }
        match flat.as_slice() {
            [] => self.number(&Rational::one()),
            [one] => *one,
            _ => self.node(Op::Map(Map::Mul, flat)),
        }
    }

    /// A factor that is 0 on one side, with everything that changes from pair to pair moved to its other side and
    /// everything else outside: x · (c ? 0 : a y) = a · (c ? 0 : x y). So equal products look equal, wherever the 0 came
    /// from. `None` if nothing has to move.
    fn choice_of_all(&mut self, factors: &[Id]) -> Option<(Id, Vec<Id>)> {
        let is_pair = |graph: &Graph, id: &Id| graph[*id].has(Axis::T) && graph[*id].has(Axis::N);
        let zero_side = |graph: &Graph, id: Id| match &graph[id].op {
            Op::Map(Map::Select, of) => of[2..].iter().position(|x| graph.is_int(*x, 0)),
            _ => None,
        };
        let at = factors.iter().position(|&f| zero_side(self, f).is_some() && is_pair(self, &f))?;
        let zero = zero_side(self, factors[at])?;
        let mut parts = self[factors[at]].op.operands();
        let others = factors.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, f)| *f);
        let (moved, mut outside): (Vec<Id>, Vec<Id>) = others.partition(|f| is_pair(self, f));
        let (stay, leave): (Vec<Id>, Vec<Id>) =
            self.factors(parts[3 - zero]).into_iter().partition(|f| is_pair(self, f));
        let is_settled = moved.is_empty() && (leave.is_empty() || stay.is_empty() && self.are_one(&leave));
        if is_settled {
            return None;
        }
        outside.extend(leave);
        parts[3 - zero] = self.mul(&[stay, moved].concat());
        Some((self.map(Map::Select, &parts), outside))
    }

    /// The factors with numerators and denominators taking turns: x² y/s² as x s⁻¹ x s⁻¹ y, since x² and s⁻² may both be
    /// beyond the numbers of single precision where the product is not. Roots are no such powers: they are small, and so are
    /// parameters.
    fn taking_turns(&mut self, factors: Vec<Id>) -> Vec<Id> {
        let power = |graph: &Graph, id: Id| match &graph[id].op {
            Op::Map(Map::Pow(r), of) => {
                let base = &graph[of[0]];
                let is_root = matches!(&base.op, Op::Map(Map::Pow(r), _) if !r.is_integer());
                let is_power = r.is_integer() && !is_root && base.axes != AxisSet::EMPTY;
                r.to_integer().to_i64().filter(|_| is_power).map(|r| (of[0], r))
            }
            _ => None,
        };
        let is_high = |id: &Id| power(self, *id).is_some_and(|(_, r)| (-MOST_TURNS..=-2).contains(&r));
        if factors.len() < 2 || !factors.iter().any(is_high) {
            return factors;
        }
        let (mut above, mut below) = (Vec::new(), Vec::new());
        for id in factors {
            match power(self, id) {
                Some((x, r)) if (-MOST_TURNS..0).contains(&r) => {
                    let inverse = self.map(Map::Pow(rational::int(-1)), &[x]);
                    below.extend(std::iter::repeat_n(inverse, r.unsigned_abs() as usize));
                }
                Some((x, r)) if (0..=MOST_TURNS).contains(&r) => above.extend(std::iter::repeat_n(x, r as usize)),
                _ => above.push(id),
            }
        }
        let turns = above.len().max(below.len());
        let turn = |i: usize| above.get(i).into_iter().chain(below.get(i)).copied();
        (0..turns).flat_map(turn).collect()
    }

    fn are_one(&self, ids: &[Id]) -> bool {
        ids.iter().all(|id| self.is_int(*id, 1))
    }

    /// A sign and a power that it can join, x^k sign(x) = x^(k−1) |x| for a whole k ≥ 1 and |x|^r sign(x) = |x|^(r−1) x
    /// for r ≥ 1: both places, and the two factors that take theirs (as bases and exponents).
    fn sign_beside_power(&mut self, factors: &[Id]) -> Option<Joined> {
        let one = Rational::one();
        for (i, &sign) in factors.iter().enumerate() {
            let Op::Map(Map::Call(Func::Sign), of) = &self[sign].op else { continue };
            let x = of[0];
            let size = self.map(Map::Call(Func::Abs), &[x]);
            for (j, &factor) in factors.iter().enumerate() {
                let (base, r) = match &self[factor].op {
                    Op::Map(Map::Pow(r), of) => (of[0], r.clone()),
                    _ => (factor, one.clone()),
                };
                let other = match base {
                    base if base == x && r.is_integer() => size,
                    base if base == size => x,
                    _ => continue,
                };
                if r >= one {
                    return Some(Joined { sign: i, power: j, factors: [(other, one.clone()), (base, r - &one)] });
                }
            }
        }
        None
    }

    /// The factors of a product, or the value itself.
    pub fn factors(&self, id: Id) -> Vec<Id> {
        match &self[id].op {
            Op::Map(Map::Mul, xs) => xs.clone(),
            _ => vec![id],
        }
    }
}
