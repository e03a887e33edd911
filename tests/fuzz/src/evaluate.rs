//! What a recipe means, in numbers: direction, energy and all their gradients, straight from the tree.
//!
//! # Conventions
//!
//! * 0^r = 0 for every r ≠ 0, and sign(0) = 0. Where a ≤ b, `if a <= b` takes its first branch, max(a, b) is b and
//!   min(a, b) is a; the branch that is not taken is not looked at.
//! * A sum over tokens runs over those the query sees. A query that sees none has the direction 0 and the energy 0 and
//!   sends nothing back.
//! * γ_{t,n} of a decay is the product of the steps' factors after token n up to the query's place in the sequence.
//! * A parameter per component is a vector w along components, the same for all tokens; it stands beside components
//!   (w * q is w_e q_e) and is summed with them. With free values it stays w. A gate per query is a number of the query.
//! * A constraint brings q, or every k, to its length first, x ↦ ρ x/‖x‖; the direction is a derivative by the q that has
//!   the length, and gradients are those of the x before.
//! * The direction is −∇_q F, or −A⁻¹ ∇_q F where the optimizer solves systems A = a·∇²F + b.
//!   A series is α⁻¹ Σ_{j ≤ k} (s/α)^j B₀^j ∇F with A = αI − s·B₀; `scale` takes the place of s.
//!
//! # Which k become v
//!
//! With free values, v = W_V h stands for k in the vector part of the direction. F is built from sums over components,
//! s_j = Σ_e φ_j(q_e, k_e, m), where m are numbers: other such sums, and whatever is made of them. The gradient reaches q_e
//! through the innermost sum in which it stands; there, at the end of its way, ∂φ_j/∂q_e is taken at v_e instead of k_e. All
//! numbers keep k. A case distinction inside of φ_j is decided by v on that way; one between numbers is not.
//!
//! In one formula: let q move by δ, and every sum over components with it,
//!
//! ```text
//! s_j(δ) = Σ_e φ_j(q_e, k_e, m(δ)) + Σ_e [φ_j(q_e + δ_e, v_e, m(δ)) − φ_j(q_e, v_e, m(δ))]
//! ```
//! The direction is −∂F/∂δ at δ = 0, and the Hessian of a system is ∂²F/∂δ², in which both vector sides have become v. With
//! tied values v is k and this is F(q + δ).
//!
//! # What is not compared
//!
//! A point too near to a kink (of abs, sign, max, min, `if`, of a root, of the support of a regularized minimum), with a
//! number that is not finite or very large, or with a system that is nearly singular, is no place to compare at. It is
//! refused with the reason.

use crate::closed::{Id, Node, Reach};
use crate::linear;
use crate::meaning::{Meaning, System};
use crate::minimum::smooth_maximum;
use crate::point::{Point, Sizes};
use crate::random::Random;
use crate::tape::{Rounding, Tape, Var};
use crate::tree::{Size, Value, Values};
use std::collections::{BTreeMap, HashMap};

/// Why a point is no place to compare at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Skip {
    Kink,
    Overflow,
    IllConditioned,
}

/// What is too near, too large as a result, too singular.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub kink: f64,
    pub largest: f64,
    /// No E_i may be larger: derivatives multiply powers of energies, which have to be numbers as well.
    pub energy: f64,
    pub condition: f64,
    /// No number on the way may be larger; the derivatives of a logarithm near 0 are large, and what multiplies them is
    /// small.
    pub on_the_way: f64,
    /// Whether a branch that is not taken has to have numbers of moderate size as well: a kernel computes both.
    pub looks_at_both: bool,
}

impl Limits {
    /// For comparisons in double precision.
    pub const DOUBLE: Limits =
        Limits { kink: 1e-5, largest: 1e6, energy: 1e14, condition: 1e4, on_the_way: 1e14, looks_at_both: false };
    /// For comparisons in single precision.
    pub const SINGLE: Limits =
        Limits { kink: 1e-3, largest: 1e4, energy: 1e14, condition: 1e3, on_the_way: 1e14, looks_at_both: true };
    /// For comparisons in single precision wherever results and energies are numbers of it.
    pub const SCALED: Limits = Limits {
        kink: 1e-20,
        largest: f32::MAX as f64,
        energy: f32::MAX as f64,
        condition: 1e3,
        on_the_way: f64::INFINITY,
        looks_at_both: false,
    };
    /// For what lies beside such a comparison.
    pub const NUDGED: Limits =
        Limits { kink: 0.0, largest: f64::INFINITY, energy: f64::INFINITY, condition: f64::INFINITY, ..Limits::SCALED };
}

/// Gradients by the name of the input: `q`, `k`, `v`, parameters, gates, and the steps of decays.
pub type Gradients = BTreeMap<String, Vec<f64>>;

#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    pub out: Vec<f64>,
    pub energy: Vec<f64>,
    /// Of ⟨g, out⟩.
    pub of_direction: Gradients,
    /// Of ⟨u, energy⟩.
    pub of_energy: Gradients,
}

/// Everything at a point.
pub fn evaluate(meaning: &Meaning, point: &Point, limits: Limits) -> Result<Outcome, Skip> {
    Ok(on_tapes(meaning, point, limits, &mut Tape::new)?.0)
}

/// Everything at a point where every E_i is off by a rounding of its absolute terms, and how things were chosen.
pub fn nudged(
    meaning: &Meaning,
    point: &Point,
    limits: Limits,
    mut rounding: Option<Rounding>,
) -> Result<(Outcome, u64), Skip> {
    on_tapes(meaning, point, limits, &mut || Tape::nudging(rounding.as_mut().map(Rounding::split)))
}

/// Everything at a point where every operation is off by a rounding, and how things were chosen.
pub fn roughly(meaning: &Meaning, point: &Point, limits: Limits, mut by: Rounding) -> Result<(Outcome, u64), Skip> {
    on_tapes(meaning, point, limits, &mut || Tape::with(Some(by.split())))
}

/// Everything at a point, in an arithmetic that rounds by so much; no two calls give the same.
pub fn rounded(
    meaning: &Meaning,
    point: &Point,
    limits: Limits,
    by: f64,
    random: &mut Random,
) -> Result<Outcome, Skip> {
    Ok(on_tapes(meaning, point, limits, &mut || Tape::with(Some(Rounding::new(by, random))))?.0)
}

/// A tape for every query: the outcome, and how things were chosen.
fn on_tapes(
    meaning: &Meaning,
    point: &Point,
    limits: Limits,
    tape: &mut dyn FnMut() -> Tape,
) -> Result<(Outcome, u64), Skip> {
    let sizes = point.sizes;
    let mut outcome = Outcome {
        out: vec![0.0; sizes.queries * sizes.head],
        energy: vec![0.0; sizes.queries],
        of_direction: zeros(meaning, point),
        of_energy: zeros(meaning, point),
    };
    let mut choices = 0u64;
    for query in (0..sizes.queries).filter(|t| !point.visible[*t].is_empty()) {
        let mut tape = tape();
        let mut leaves = Leaves::default();
        let head = leaves.head(&mut tape, meaning, point, query);
        let mut row = Row::new(&mut tape, meaning, head, limits);
        let energy = row.energy();
        row.energies_fit()?;
        let direction = row.direction()?;
        within(&tape, limits)?;
        let u = tape.constant(point.u[query]);
        let of_energy = tape.multiply(u, energy);
        let g: Vec<Var> = point.g[query * sizes.head..][..sizes.head].iter().map(|g| tape.constant(*g)).collect();
        let of_direction = tape.dot(&g, &direction);
        outcome.energy[query] = tape.value(energy);
        for (e, x) in direction.iter().enumerate() {
            outcome.out[query * sizes.head + e] = tape.value(*x);
        }
        leaves.send_back(&mut tape, of_direction, &mut outcome.of_direction);
        leaves.send_back(&mut tape, of_energy, &mut outcome.of_energy);
        within(&tape, limits)?;
        choices = choices.rotate_left(7) ^ tape.choices;
    }
    let gradients = outcome.of_direction.values().chain(outcome.of_energy.values());
    let all = [&outcome.out, &outcome.energy].into_iter().chain(gradients).flatten();
    let is_moderate = |x: &f64| x.abs() <= limits.largest;
    if all.into_iter().all(is_moderate) { Ok((outcome, choices)) } else { Err(Skip::Overflow) }
}

/// Gradients of nothing.
fn zeros(meaning: &Meaning, point: &Point) -> Gradients {
    let sizes = point.sizes;
    let vectors = [("q", sizes.queries), ("k", sizes.tokens), ("v", sizes.tokens)];
    let vectors = vectors.into_iter().map(|(name, rows)| (name.to_string(), vec![0.0; rows * sizes.head]));
    let numbers = meaning.parameters.iter().map(|parameter| {
        let length = match parameter.value {
            Value::Gate | Value::Decay => sizes.tokens,
            Value::QueryGate => sizes.queries,
            _ if parameter.value.is_vector() => sizes.head,
            _ => 1,
        };
        (parameter.name.clone(), vec![0.0; length])
    });
    vectors.chain(numbers).collect()
}

/// Whether what is on the tape can be compared with anything.
pub fn within(tape: &Tape, limits: Limits) -> Result<(), Skip> {
    if tape.nearest_kink.is_some_and(|distance| distance < limits.kink) {
        return Err(Skip::Kink);
    }
    if tape.is_finite && tape.largest <= limits.on_the_way { Ok(()) } else { Err(Skip::Overflow) }
}

/// The inputs of one query on the tape: their names, and which entries of their gradients they are.
#[derive(Default)]
struct Leaves(Vec<(String, usize, Var)>);

impl Leaves {
    fn leaf(&mut self, tape: &mut Tape, name: &str, entry: usize, value: f64) -> Var {
        let leaf = tape.leaf(value);
        self.0.push((name.to_string(), entry, leaf));
        leaf
    }

    fn head(&mut self, tape: &mut Tape, meaning: &Meaning, point: &Point, query: usize) -> Head {
        let width = point.sizes.head;
        let tokens = point.visible[query].clone();
        let mut vector = |tape: &mut Tape, name: &str, values: &[f64], row: usize| -> Vec<Var> {
            (row * width..(row + 1) * width).map(|i| self.leaf(tape, name, i, values[i])).collect()
        };
        let q = vector(tape, "q", &point.q, query);
        let k = tokens.clone().map(|n| vector(tape, "k", &point.k, n)).collect();
        let v = tokens.clone().map(|n| vector(tape, "v", &point.v, n)).collect();
        let (mut numbers, mut vectors, mut weights) = (HashMap::new(), HashMap::new(), HashMap::new());
        for parameter in &meaning.parameters {
            let name = &parameter.name;
            match parameter.value {
                Value::Gate => {
                    let gates = tokens.clone().map(|n| self.leaf(tape, name, n, point.gates[name][n])).collect();
                    weights.insert(name.clone(), gates);
                }
                Value::Decay => {
                    let last = point.position(query);
                    let steps = &point.decays[name];
                    let steps: Vec<Var> = (0..=last).map(|n| self.leaf(tape, name, n, steps[n])).collect();
                    weights.insert(name.clone(), tokens.clone().map(|n| decay(tape, &steps, n)).collect());
                }
                Value::QueryGate => {
                    let gate = self.leaf(tape, name, query, point.query_gates[name][query]);
                    numbers.insert(name.clone(), gate);
                }
                _ if parameter.value.is_vector() => {
                    let values = &point.vectors[name];
                    let entries = (0..width).map(|e| self.leaf(tape, name, e, values[e])).collect();
                    vectors.insert(name.clone(), entries);
                }
                _ => drop(numbers.insert(name.clone(), self.leaf(tape, name, 0, point.numbers[name]))),
            }
        }
        Head { sizes: point.sizes, q, k, v, numbers, vectors, weights }
    }

    /// Adds the gradient of a number on the tape to those of the inputs.
    fn send_back(&self, tape: &mut Tape, loss: Var, to: &mut Gradients) {
        let leaves: Vec<Var> = self.0.iter().map(|leaf| leaf.2).collect();
        let gradient = tape.gradient(loss, &leaves);
        for ((name, entry, _), slope) in self.0.iter().zip(gradient) {
            if let Some(sum) = to.get_mut(name) {
                sum[*entry] += tape.value(slope);
            }
        }
    }
}

/// γ of a token: the product of the factors of the steps after it, up to the last; tokens after the last have 0.
pub fn decay(tape: &mut Tape, steps: &[Var], token: usize) -> Var {
    let Some(factors) = steps.get(token + 1..) else { return tape.constant(0.0) };
    let one = tape.constant(1.0);
    factors.iter().fold(one, |product, factor| tape.multiply(product, *factor))
}

/// What one query of a head looks at, on a tape; k, v and the weights by token, from the first visible one.
pub struct Head {
    pub sizes: Sizes,
    pub q: Vec<Var>,
    pub k: Vec<Vec<Var>>,
    pub v: Vec<Vec<Var>>,
    /// Parameters and the query's own gates.
    pub numbers: HashMap<String, Var>,
    /// Parameters per component.
    pub vectors: HashMap<String, Vec<Var>>,
    /// Gates and decays.
    pub weights: HashMap<String, Vec<Var>>,
}

/// Which vectors a component is made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Side {
    /// q and k.
    Plain,
    /// q + δ and k.
    Moved,
    /// q and v.
    Values,
    /// q + δ and v.
    MovedValues,
}

/// A term at a token, and at a component of one side.
type At = (Id, Option<usize>, Option<(usize, Side)>);

/// One query being evaluated.
pub struct Row<'a> {
    tape: &'a mut Tape,
    meaning: &'a Meaning,
    head: Head,
    limits: Limits,
    delta: Vec<Var>,
    /// Which way every token's energy is nudged, and every sum over components.
    signs: Vec<f64>,
    of_sums: HashMap<(Id, Option<usize>), f64>,
    /// Whether sums over components move with δ.
    is_moving: bool,
    known: HashMap<At, Var>,
}

impl<'a> Row<'a> {
    pub fn new(tape: &'a mut Tape, meaning: &'a Meaning, head: Head, limits: Limits) -> Row<'a> {
        let signs = tape.signs(head.k.len());
        let mut row = Row {
            tape,
            meaning,
            head,
            limits,
            delta: vec![],
            signs,
            of_sums: HashMap::new(),
            is_moving: false,
            known: HashMap::new(),
        };
        if let Some(radius) = meaning.radius_of_query {
            row.head.q = row.at_length(&row.head.q.clone(), radius);
        }
        if let Some(radius) = meaning.radius_of_key {
            row.head.k = row.head.k.clone().iter().map(|k| row.at_length(k, radius)).collect();
        }
        row.delta = row.tape.leaves(&vec![0.0; row.head.sizes.head]);
        row
    }

    /// F of the query.
    pub fn energy(&mut self) -> Var {
        self.node(self.meaning.global, None)
    }

    /// Whether no token has too large an energy.
    pub fn energies_fit(&mut self) -> Result<(), Skip> {
        let fits = (0..self.head.k.len()).all(|token| {
            let energy = self.node(self.meaning.local, Some(token));
            self.tape.value(energy).abs() <= self.limits.energy
        });
        if fits { Ok(()) } else { Err(Skip::Overflow) }
    }

    /// ρ x/‖x‖.
    fn at_length(&mut self, x: &[Var], radius: Id) -> Vec<Var> {
        let radius = self.node(radius, None);
        let square = self.tape.dot(x, x);
        self.tape.kink(square);
        let inverse = self.tape.power(square, -0.5);
        let factor = self.tape.multiply(radius, inverse);
        x.iter().map(|x| self.tape.multiply(*x, factor)).collect()
    }

    /// The number a node is for a token.
    fn node(&mut self, id: Id, token: Option<usize>) -> Var {
        self.entry(id, token, None)
    }

    /// The same for a component of a vector.
    fn entry(&mut self, id: Id, token: Option<usize>, component: Option<(usize, Side)>) -> Var {
        let Reach { components, tokens, .. } = self.meaning.graph.reach(id);
        let local = self.meaning.graph.reach(self.meaning.local).tokens;
        let is_energy = matches!(self.meaning.graph.node(id), Node::Energy);
        let token = token.filter(|_| tokens && (local || !is_energy));
        let component = component.filter(|_| components);
        let key = (id, token, component);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let value = self.compute(id, token, component);
        self.known.insert(key, value);
        value
    }

    fn compute(&mut self, id: Id, token: Option<usize>, component: Option<(usize, Side)>) -> Var {
        let meaning = self.meaning;
        match meaning.graph.node(id) {
            Node::Number(value) => self.tape.constant(*value),
            Node::Size(size) => {
                let sizes = self.head.sizes;
                let value = match size {
                    Size::Tokens => sizes.tokens,
                    Size::Model => sizes.model,
                    Size::Head => sizes.head,
                    Size::Heads => sizes.heads,
                };
                self.tape.constant(value as f64)
            }
            Node::Param(name) => match (token, component) {
                (Some(token), _) if self.head.weights.contains_key(name) => self.head.weights[name][token],
                (_, Some((e, _))) if self.head.vectors.contains_key(name) => self.head.vectors[name][e],
                _ => self.head.numbers[name],
            },
            Node::Query => {
                let (e, side) = component.expect("a component of q");
                match side {
                    Side::Plain | Side::Values => self.head.q[e],
                    Side::Moved | Side::MovedValues => self.tape.add(self.head.q[e], self.delta[e]),
                }
            }
            Node::Key => {
                let (e, side) = component.expect("a component of k");
                let token = token.expect("a token");
                match side {
                    Side::Plain | Side::Moved => self.head.k[token][e],
                    Side::Values | Side::MovedValues => self.head.v[token][e],
                }
            }
            Node::Energy => {
                let energy = self.node(meaning.local, token);
                self.tape.nudged(energy, self.signs[token.unwrap_or_default()])
            }
            Node::Add(a, b) => {
                let (a, b) = (self.entry(*a, token, component), self.entry(*b, token, component));
                self.tape.add(a, b)
            }
            Node::Multiply(a, b) => {
                let (a, b) = (self.entry(*a, token, component), self.entry(*b, token, component));
                self.tape.multiply(a, b)
            }
            Node::Power(x, r) => {
                let x = self.entry(*x, token, component);
                if r.fract() != 0.0 || *r < 0.0 {
                    self.tape.kink(x);
                }
                self.tape.power(x, *r)
            }
            Node::Exp(x) => {
                let x = self.entry(*x, token, component);
                self.tape.exp(x)
            }
            Node::Curve(curve, x) => {
                let x = self.entry(*x, token, component);
                self.tape.curve(*curve, x)
            }
            Node::Log(x) => {
                let x = self.entry(*x, token, component);
                self.tape.kink(x);
                self.tape.log(x)
            }
            Node::Abs(x) => {
                let x = self.entry(*x, token, component);
                let sign = self.tape.sign_of(x);
                self.tape.scale(x, sign)
            }
            Node::Sign(x) => {
                let x = self.entry(*x, token, component);
                let sign = self.tape.sign_of(x);
                self.tape.constant(sign)
            }
            Node::Select(a, b, x, y) => {
                let (a, b) = (self.entry(*a, token, component), self.entry(*b, token, component));
                let (chosen, other) = if self.tape.at_most(a, b) { (*x, *y) } else { (*y, *x) };
                if self.limits.looks_at_both {
                    self.entry(other, token, component);
                }
                self.entry(chosen, token, component)
            }
            Node::SumComponents(body) => {
                let sum = self.sum_of_components(*body, token);
                let sign = *self.of_sums.entry((id, token)).or_insert_with(|| self.tape.signs(1)[0]);
                self.tape.rounded(sum, sign)
            }
            Node::SumTokens(body) => {
                let parts: Vec<Var> = (0..self.head.k.len()).map(|n| self.node(*body, Some(n))).collect();
                self.tape.sum(parts)
            }
            Node::Minimum(entropy, energy, temperature, shape) => {
                let temperature = self.node(*temperature, None);
                let minus = self.tape.negate(temperature);
                let scores: Vec<Var> = (0..self.head.k.len())
                    .map(|n| {
                        let energy = self.node(*energy, Some(n));
                        self.tape.divide(energy, minus)
                    })
                    .collect();
                let value = smooth_maximum(self.tape, *entropy, *shape, &scores);
                self.tape.multiply(minus, value)
            }
        }
    }

    /// s_j(δ), as the head of this file has it.
    fn sum_of_components(&mut self, body: Id, token: Option<usize>) -> Var {
        let reach = self.meaning.graph.reach(body);
        let is_moving = self.is_moving && reach.query;
        let becomes_v = self.meaning.values == Values::Free && reach.key;
        let total = |row: &mut Row, side: Side| {
            let parts: Vec<Var> = (0..row.head.sizes.head).map(|e| row.entry(body, token, Some((e, side)))).collect();
            row.tape.sum(parts)
        };
        match (is_moving, becomes_v) {
            (false, _) => total(self, Side::Plain),
            (true, false) => total(self, Side::Moved),
            (true, true) => {
                let [plain, moved, values] = [Side::Plain, Side::MovedValues, Side::Values].map(|s| total(self, s));
                let change = self.tape.subtract(moved, values);
                self.tape.add(plain, change)
            }
        }
    }

    /// What the head adds.
    pub fn direction(&mut self) -> Result<Vec<Var>, Skip> {
        self.known.clear();
        self.is_moving = true;
        let energy = self.node(self.meaning.global, None);
        let delta = self.delta.clone();
        let gradient = self.tape.gradient(energy, &delta);
        let solution = match &self.meaning.system {
            None => gradient,
            Some(system) => self.solution(system, &gradient)?,
        };
        Ok(solution.iter().map(|x| self.tape.negate(*x)).collect())
    }

    fn solution(&mut self, system: &System, gradient: &[Var]) -> Result<Vec<Var>, Skip> {
        let delta = self.delta.clone();
        let number = |row: &mut Row, id: Id| row.node(id, None);
        let (curvature, shift) = (number(self, system.curvature), number(self, system.shift));
        let mut matrix: Vec<Vec<Var>> = gradient.iter().map(|x| self.tape.gradient(*x, &delta)).collect();
        for (i, row) in matrix.iter_mut().enumerate() {
            for (j, x) in row.iter_mut().enumerate() {
                *x = self.tape.multiply(curvature, *x);
                if i == j {
                    *x = self.tape.add(*x, shift);
                }
            }
        }
        let alpha = system.alpha.map(|id| number(self, id));
        let scales = system.scale.map(|(used, own)| (number(self, used), number(self, own)));
        let factor = scales.map(|(used, own)| self.tape.divide(used, own));
        // B = αI − A, with another number in front where one is given.
        let rest = alpha.map(|alpha| {
            let mut rest = matrix.clone();
            for (i, row) in rest.iter_mut().enumerate() {
                for (j, x) in row.iter_mut().enumerate() {
                    *x = self.tape.negate(*x);
                    if i == j {
                        *x = self.tape.add(*x, alpha);
                    }
                    if let Some(factor) = factor {
                        *x = self.tape.multiply(*x, factor);
                    }
                }
            }
            rest
        });
        match (system.order, alpha.zip(rest)) {
            (Some(order), Some((alpha, rest))) => {
                let inverse = self.tape.power(alpha, -1.0);
                let mut term: Vec<Var> = gradient.iter().map(|x| self.tape.multiply(*x, inverse)).collect();
                let mut sum = term.clone();
                for _ in 0..order {
                    let next: Vec<Var> = rest.iter().map(|row| self.tape.dot(row, &term)).collect();
                    term = next.iter().map(|x| self.tape.multiply(*x, inverse)).collect();
                    sum = sum.iter().zip(&term).map(|(a, b)| self.tape.add(*a, *b)).collect();
                }
                Ok(sum)
            }
            (_, expansion) => {
                if let (Some(_), Some((alpha, rest))) = (factor, expansion) {
                    for (i, (row, rest)) in matrix.iter_mut().zip(&rest).enumerate() {
                        for (j, (x, rest)) in row.iter_mut().zip(rest).enumerate() {
                            *x = self.tape.negate(*rest);
                            if i == j {
                                *x = self.tape.add(*x, alpha);
                            }
                        }
                    }
                }
                let numbers: Vec<Vec<f64>> = matrix.iter().map(|row| self.tape.values(row)).collect();
                let condition = linear::condition(&numbers);
                if condition.is_nan() || condition > self.limits.condition {
                    return Err(Skip::IllConditioned);
                }
                Ok(linear::solve(self.tape, &matrix, gradient))
            }
        }
    }
}
