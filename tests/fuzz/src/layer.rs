//! What a recipe's layer is: projections, heads, write-back and the optimizer's program, on one tape.
//!
//! ```text
//! q_h = W₁ₕ x,  k_h = W₂ₕ h,  v_h = W_Vₕ h;  gates and steps' factors σ(g_h·h + b_h), gates per query σ(g_h·x + b_h)
//! force(y) = Σ_h M_h o_h,  M = W_O | (1/H) W₁ᵀ | (1/H) W₁⁺ | W_O W_V W₁⁺
//! ```
//! The gradient a program takes is −force. A plain step z − η∇F adds η·force; where W_O is free it stands for η too. A layer
//! with states is stepped twice, one without says what it adds. `tokens fixed` keeps the attended tokens of the first
//! point at which a force is taken.

use crate::compare::Arrays;
use crate::evaluate::{Head, Limits, Row, Skip, decay, within};
use crate::linear;
use crate::meaning::Meaning;
use crate::point::Sizes;
use crate::random::Random;
use crate::samples;
use crate::step::{Array, Program, is_plain};
use crate::tape::{Rounding, Tape, Var};
use crate::tree::{Recipe, Statement, Value, Values, WriteBack};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Which tokens see which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sight {
    Causal,
    Full,
    /// The own one and the one before.
    Window,
}

impl Sight {
    fn of(self, token: usize, tokens: usize) -> Range<usize> {
        match self {
            Sight::Causal => 0..token + 1,
            Sight::Full => 0..tokens,
            Sight::Window => token.saturating_sub(1)..token + 1,
        }
    }
}

/// The inputs of a layer: one sequence, its variables, and the weights of the loss Σ c·y.
#[derive(Clone, Debug)]
pub struct LayerPoint {
    pub sizes: Sizes,
    pub sight: Sight,
    pub z: Vec<f64>,
    pub c: Vec<f64>,
    /// Matrices row by row, `number NAME` per head or one, a number or a vector, gates' `NAME.weight` and `NAME.bias`.
    pub variables: BTreeMap<String, Vec<f64>>,
}

impl LayerPoint {
    pub fn draw(meaning: &Meaning, sizes: Sizes, random: &mut Random) -> LayerPoint {
        let has_decay = meaning.parameters.iter().any(|p| p.value == Value::Decay);
        let sights = [Sight::Causal, Sight::Causal, Sight::Window, Sight::Full];
        let sight = random.pick(&sights[..if has_decay { 3 } else { 4 }]);
        let (d, entries) = (sizes.model, sizes.tokens * sizes.model);
        let normal = |random: &mut Random, n: usize, scale: f64| -> Vec<f64> {
            (0..n).map(|_| scale * random.normal()).collect()
        };
        let (z, c) = (normal(random, entries, 1.0), normal(random, entries, 1.0));
        let mut variables = BTreeMap::new();
        for name in MATRICES {
            variables.insert(name.to_string(), normal(random, d * d, 1.0 / (d as f64).sqrt()));
        }
        for parameter in &meaning.parameters {
            let name = &parameter.name;
            match &parameter.value {
                Value::Gate | Value::QueryGate | Value::Decay => {
                    variables.insert(weight_of(name), normal(random, sizes.heads * d, 0.5));
                    variables.insert(bias_of(name), normal(random, sizes.heads, 0.5));
                }
                Value::Learn { init, each } => {
                    let heads = if each.head { sizes.heads } else { 1 };
                    let count = if each.component { heads * sizes.head } else { heads };
                    let start = samples::number(init, sizes);
                    let values = (0..count).map(|_| start * random.between(0.85, 1.2)).collect();
                    variables.insert(number_of(name), values);
                }
                Value::Fixed(_) | Value::Term(_) | Value::Way(_) => {}
            }
        }
        LayerPoint { sizes, sight, z, c, variables }
    }

    fn changed(&self, change: &mut dyn FnMut(&mut f64)) -> LayerPoint {
        let mut other = self.clone();
        other.z.iter_mut().for_each(&mut *change);
        other.variables.values_mut().flatten().for_each(&mut *change);
        other
    }

    pub fn rounded(&self) -> LayerPoint {
        let mut other = self.changed(&mut |x| *x = f64::from(*x as f32));
        other.c.iter_mut().for_each(|x| *x = f64::from(*x as f32));
        other
    }
}

/// The matrices of a layer.
pub const MATRICES: [&str; 4] = ["w1", "w2", "wv", "wo"];

/// In front of the name of a learned number, which may be called as a matrix is.
pub const NUMBER: &str = "number ";

/// The variable of a learned number.
pub fn number_of(parameter: &str) -> String {
    format!("{NUMBER}{parameter}")
}

/// The variables of a gate.
pub fn weight_of(gate: &str) -> String {
    format!("{gate}.weight")
}

pub fn bias_of(gate: &str) -> String {
    format!("{gate}.bias")
}

/// `y`, `force`, and the gradients of Σ c·y of `z` and of every variable, in an arithmetic that may round.
pub fn evaluate(
    recipe: &Recipe,
    meaning: &Meaning,
    point: &LayerPoint,
    limits: Limits,
    rounding: Option<Rounding>,
) -> Result<Arrays, Skip> {
    let mut tape = Tape::with(rounding);
    let sizes = point.sizes;
    let z_leaves = tape.leaves(&point.z);
    let z = Array(z_leaves.chunks(sizes.model).map(<[Var]>::to_vec).collect());
    let variables: BTreeMap<String, Vec<Var>> =
        point.variables.iter().map(|(name, values)| (name.clone(), tape.leaves(values))).collect();
    let mut layer = Layer { recipe, meaning, sizes, sight: point.sight, variables: &variables, limits, attended: None };
    let force = layer.force(&mut tape, &z)?;
    let y = layer.moved(&mut tape, &z)?;
    within(&tape, limits)?;
    let flat = |x: &Array| -> Vec<Var> { x.0.concat() };
    let c: Vec<Var> = point.c.iter().map(|c| tape.constant(*c)).collect();
    let loss = tape.dot(&c, &flat(&y));
    let names: Vec<&String> = variables.keys().collect();
    let leaves: Vec<Var> = z_leaves.iter().chain(variables.values().flatten()).copied().collect();
    let gradient = tape.gradient(loss, &leaves);
    let gradient = tape.values(&gradient);
    within(&tape, limits)?;
    let mut arrays = Arrays::new();
    arrays.insert("y".to_string(), tape.values(&flat(&y)));
    arrays.insert("force".to_string(), tape.values(&flat(&force)));
    let (of_z, mut rest) = gradient.split_at(z_leaves.len());
    arrays.insert("∂z".to_string(), of_z.to_vec());
    for name in names {
        let (own, others) = rest.split_at(variables[name].len());
        arrays.insert(format!("∂{name}"), own.to_vec());
        rest = others;
    }
    let is_moderate = |x: &f64| x.abs() <= limits.largest;
    if arrays.values().flatten().all(is_moderate) { Ok(arrays) } else { Err(Skip::Overflow) }
}

/// What the heads look at in the attended tokens.
#[derive(Clone)]
struct Attended {
    /// By head and token.
    k: Vec<Vec<Vec<Var>>>,
    v: Vec<Vec<Vec<Var>>>,
    /// By head: gates, and the factors of decays' steps, by token.
    gates: Vec<HashMap<String, Vec<Var>>>,
}

struct Layer<'a> {
    recipe: &'a Recipe,
    meaning: &'a Meaning,
    sizes: Sizes,
    sight: Sight,
    variables: &'a BTreeMap<String, Vec<Var>>,
    limits: Limits,
    /// The attended tokens of this pass, where they stay.
    attended: Option<Attended>,
}

impl Layer<'_> {
    /// A row of a matrix times a vector; head h has rows h·d_h and on.
    fn projected(&self, tape: &mut Tape, matrix: &str, head: usize, x: &[Var]) -> Vec<Var> {
        let (d, width) = (self.sizes.model, self.sizes.head);
        let weights = &self.variables[matrix];
        (head * width..(head + 1) * width).map(|row| tape.dot(&weights[row * d..(row + 1) * d], x)).collect()
    }

    /// The parameters of a head.
    fn numbers(&self, tape: &mut Tape, head: usize) -> HashMap<String, Var> {
        let mut numbers = HashMap::new();
        for parameter in &self.meaning.parameters {
            let number = match &parameter.value {
                Value::Fixed(value) => tape.constant(samples::number(value, self.sizes)),
                Value::Learn { each, .. } if !each.component => {
                    let values = &self.variables[&number_of(&parameter.name)];
                    values[head.min(values.len() - 1)]
                }
                _ => continue,
            };
            numbers.insert(parameter.name.clone(), number);
        }
        numbers
    }

    /// The parameters per component of a head.
    fn vectors(&self, head: usize) -> HashMap<String, Vec<Var>> {
        let width = self.sizes.head;
        let vectors = self.meaning.parameters.iter().filter(|parameter| parameter.value.is_vector());
        let own = vectors.map(|parameter| {
            let values = &self.variables[&number_of(&parameter.name)];
            let start = if values.len() > width { head * width } else { 0 };
            (parameter.name.clone(), values[start..start + width].to_vec())
        });
        own.collect()
    }

    /// σ(g_h·x + b_h).
    fn gate(&self, tape: &mut Tape, name: &str, head: usize, x: &[Var]) -> Var {
        let d = self.sizes.model;
        let (weight, bias) = (&self.variables[&weight_of(name)], &self.variables[&bias_of(name)]);
        let product = tape.dot(&weight[head * d..(head + 1) * d], x);
        let sum = tape.add(product, bias[head]);
        let minus = tape.negate(sum);
        let exp = tape.exp(minus);
        let one = tape.constant(1.0);
        let below = tape.add(one, exp);
        tape.power(below, -1.0)
    }

    fn attend(&self, tape: &mut Tape, h: &Array) -> Attended {
        let heads = 0..self.sizes.heads;
        let all = |tape: &mut Tape, matrix: &str| -> Vec<Vec<Vec<Var>>> {
            heads.clone().map(|head| h.0.iter().map(|x| self.projected(tape, matrix, head, x)).collect()).collect()
        };
        let (k, v) = (all(tape, "w2"), all(tape, "wv"));
        let gates = heads.map(|head| {
            let is_gate = |value: &Value| matches!(value, Value::Gate | Value::Decay);
            let gates = self.meaning.parameters.iter().filter(|p| is_gate(&p.value));
            let of_tokens = |gate: &str, tape: &mut Tape| -> Vec<Var> {
                h.0.iter().map(|x| self.gate(tape, gate, head, x)).collect()
            };
            gates.map(|gate| (gate.name.clone(), of_tokens(&gate.name, tape))).collect()
        });
        let gates = gates.collect();
        Attended { k, v, gates }
    }

    /// −∇F of all heads, written back.
    fn force(&mut self, tape: &mut Tape, point: &Array) -> Result<Array, Skip> {
        let attended = match self.attended.clone() {
            Some(attended) => attended,
            None => self.attend(tape, point),
        };
        if self.recipe.tokens_evolve == Some(false) {
            self.attended = Some(attended.clone());
        }
        let write_back = self.write_back(tape)?;
        let tokens = self.sizes.tokens;
        let mut rows: Vec<Vec<Var>> = vec![];
        for t in 0..tokens {
            let seen = self.sight.of(t, tokens);
            let mut directions: Vec<Var> = vec![];
            for head in 0..self.sizes.heads {
                let q = self.projected(tape, "w1", head, &point.0[t]);
                let part = |rows: &[Vec<Var>]| rows[seen.clone()].to_vec();
                let mut weights = HashMap::new();
                for (name, values) in &attended.gates[head] {
                    let is_decay = self.meaning.parameters.iter().any(|p| p.name == *name && p.value == Value::Decay);
                    let own = match is_decay {
                        true => seen.clone().map(|n| decay(tape, &values[..=t], n)).collect(),
                        false => values[seen.clone()].to_vec(),
                    };
                    weights.insert(name.clone(), own);
                }
                let sizes = Sizes { queries: tokens, ..self.sizes };
                let (k, v) = (part(&attended.k[head]), part(&attended.v[head]));
                let (mut numbers, vectors) = (self.numbers(tape, head), self.vectors(head));
                for gate in self.meaning.parameters.iter().filter(|p| p.value == Value::QueryGate) {
                    numbers.insert(gate.name.clone(), self.gate(tape, &gate.name, head, &point.0[t]));
                }
                let own = Head { sizes, q, k, v, numbers, vectors, weights };
                let mut row = Row::new(tape, self.meaning, own, self.limits);
                directions.extend(row.direction()?);
            }
            rows.push(write_back.iter().map(|row| tape.dot(row, &directions)).collect());
        }
        Ok(Array(rows))
    }

    /// M, `[d, H·d_h]`.
    fn write_back(&self, tape: &mut Tape) -> Result<Vec<Vec<Var>>, Skip> {
        let (d, width, heads) = (self.sizes.model, self.sizes.head, self.sizes.heads);
        let how = self.recipe.write_back.unwrap_or(match (self.recipe.values, self.recipe.system()) {
            (Values::Free, _) => WriteBack::Free,
            (Values::Tied, None) => WriteBack::Transpose,
            (Values::Tied, Some(_)) => WriteBack::Pinv,
        });
        let entry = |name: &str, row: usize, column: usize| self.variables[name][row * d + column];
        let mut matrix: Vec<Vec<Var>> = vec![vec![]; d];
        for head in 0..heads {
            // W₁⁺ of the head, `[d, d_h]`: column by column, W₁ᵀ (W₁W₁ᵀ)⁻¹.
            let w1: Vec<Vec<Var>> =
                (0..width).map(|e| (0..d).map(|c| entry("w1", head * width + e, c)).collect()).collect();
            let columns: Vec<Vec<Var>> = match how {
                WriteBack::Free => {
                    (0..width).map(|e| (0..d).map(|c| entry("wo", c, head * width + e)).collect()).collect()
                }
                WriteBack::Transpose => {
                    w1.iter().map(|row| row.iter().map(|x| tape.scale(*x, 1.0 / heads as f64)).collect()).collect()
                }
                WriteBack::Pinv | WriteBack::FreePinv => {
                    let inverse = self.pseudo_inverse(tape, &w1)?;
                    match how {
                        WriteBack::Pinv => {
                            let mut scaled = |column: &Vec<Var>| -> Vec<Var> {
                                column.iter().map(|x| tape.scale(*x, 1.0 / heads as f64)).collect()
                            };
                            inverse.iter().map(&mut scaled).collect()
                        }
                        _ => {
                            let through = |tape: &mut Tape, column: &Vec<Var>| -> Vec<Var> {
                                let values = self.projected(tape, "wv", head, column);
                                let row = |tape: &mut Tape, c: usize| {
                                    let wo: Vec<Var> = (0..width).map(|e| entry("wo", c, head * width + e)).collect();
                                    tape.dot(&wo, &values)
                                };
                                (0..d).map(|c| row(tape, c)).collect()
                            };
                            inverse.iter().map(|column| through(tape, column)).collect()
                        }
                    }
                }
            };
            for column in &columns {
                for (row, x) in matrix.iter_mut().zip(column) {
                    row.push(*x);
                }
            }
        }
        Ok(matrix)
    }

    /// The columns of W⁺ = Wᵀ(W Wᵀ)⁻¹.
    fn pseudo_inverse(&self, tape: &mut Tape, w: &[Vec<Var>]) -> Result<Vec<Vec<Var>>, Skip> {
        let square: Vec<Vec<Var>> = w.iter().map(|a| w.iter().map(|b| tape.dot(a, b)).collect()).collect();
        let numbers: Vec<Vec<f64>> = square.iter().map(|row| tape.values(row)).collect();
        let condition = linear::condition(&numbers);
        if condition.is_nan() || condition > self.limits.condition {
            return Err(Skip::IllConditioned);
        }
        let column = |tape: &mut Tape, e: usize| -> Vec<Var> {
            let unit: Vec<Var> = (0..w.len()).map(|i| tape.constant(f64::from(u8::from(i == e)))).collect();
            let x = linear::solve(tape, &square, &unit);
            (0..self.sizes.model)
                .map(|c| {
                    let row: Vec<Var> = w.iter().map(|row| row[c]).collect();
                    tape.dot(&row, &x)
                })
                .collect()
        };
        Ok((0..w.len()).map(|e| column(tape, e)).collect())
    }

    /// The tokens after two passes where there are states, what one pass adds where there are none.
    fn moved(&mut self, tape: &mut Tape, z: &Array) -> Result<Array, Skip> {
        let numbers = self.numbers(tape, 0);
        let values: HashMap<String, f64> = numbers.iter().map(|(name, x)| (name.clone(), tape.value(*x))).collect();
        let recipe = self.recipe;
        let program = Program { recipe, numbers: &numbers, sizes: self.sizes };
        let is_plain = is_plain(recipe, self.sizes, &values);
        let has_states = recipe.optimizer.body.iter().any(|statement| matches!(statement, Statement::State(..)));
        let steps = recipe.steps.unwrap_or(1);
        let has_free_matrix = match recipe.write_back {
            Some(how) => matches!(how, WriteBack::Free | WriteBack::FreePinv),
            None => recipe.values == Values::Free,
        };
        let mut states = program.start(tape)?;
        let mut now = z.clone();
        for _ in 0..if has_states { 2 } else { 1 } {
            self.attended = None;
            for _ in 0..steps {
                now = match is_plain && has_free_matrix {
                    // The matrix stands for η.
                    true => {
                        let force = self.force(tape, &now)?;
                        let sum =
                            |(a, b): (&Vec<Var>, &Vec<Var>)| a.iter().zip(b).map(|(a, b)| tape.add(*a, *b)).collect();
                        Array(now.0.iter().zip(&force.0).map(sum).collect())
                    }
                    false => program.step(tape, &now, &mut states, &mut |tape, point| self.force(tape, point))?,
                };
            }
        }
        if has_states {
            return Ok(now);
        }
        let added = |(a, b): (&Vec<Var>, &Vec<Var>)| a.iter().zip(b).map(|(a, b)| tape.subtract(*a, *b)).collect();
        Ok(Array(now.0.iter().zip(&z.0).map(added).collect()))
    }
}
