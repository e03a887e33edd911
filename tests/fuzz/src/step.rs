//! An optimizer's program on the tape: what it does to all tokens of a sequence at once, given the force at any point.

use crate::evaluate::Skip;
use crate::point::Sizes;
use crate::random::Random;
use crate::samples;
use crate::tape::{Curve, Tape, Var};
use crate::tree::{Choice, Compare, Exponent, Expr, Function, Pairing, Recipe, Statement, Value};
use std::collections::{BTreeSet, HashMap};

/// A number for every token and component, for every token, or one for all: lengths of 1 go with any other.
#[derive(Clone, Debug)]
pub struct Array(pub Vec<Vec<Var>>);

impl Array {
    pub fn number(x: Var) -> Array {
        Array(vec![vec![x]])
    }

    fn at(&self, token: usize, component: usize) -> Var {
        let row = &self.0[token.min(self.0.len() - 1)];
        row[component.min(row.len() - 1)]
    }

    /// Along so many tokens and components, whatever it is.
    pub fn along(&self, tokens: usize, components: usize) -> Array {
        Array((0..tokens).map(|t| (0..components).map(|c| self.at(t, c)).collect()).collect())
    }

    fn each(&self, mut f: impl FnMut(Var) -> Var) -> Array {
        Array(self.0.iter().map(|row| row.iter().map(|x| f(*x)).collect()).collect())
    }

    fn with(&self, other: &Array, mut f: impl FnMut(Var, Var) -> Var) -> Array {
        let tokens = self.0.len().max(other.0.len());
        let components = self.0[0].len().max(other.0[0].len());
        Array((0..tokens).map(|t| (0..components).map(|c| f(self.at(t, c), other.at(t, c))).collect()).collect())
    }
}

/// −∇F at a point, for every token and component.
pub type Force<'f> = dyn FnMut(&mut Tape, &Array) -> Result<Array, Skip> + 'f;

/// What stands around a run.
pub struct Program<'a> {
    pub recipe: &'a Recipe,
    /// Parameters of the optimizer and of the recipe.
    pub numbers: &'a HashMap<String, Var>,
    pub sizes: Sizes,
}

impl Program<'_> {
    /// The states before the first step.
    pub fn start(&self, tape: &mut Tape) -> Result<Vec<(String, Array)>, Skip> {
        let mut states = vec![];
        for statement in &self.recipe.optimizer.body {
            if let Statement::State(name, init) = statement {
                let none = HashMap::new();
                let init = self.value(tape, init, &none, &mut |_, _| Err(Skip::Overflow))?;
                states.push((name.clone(), init.along(self.sizes.tokens, self.sizes.model)));
            }
        }
        Ok(states)
    }

    /// One step: the token after it; the states change.
    pub fn step(
        &self,
        tape: &mut Tape,
        z: &Array,
        states: &mut [(String, Array)],
        force: &mut Force,
    ) -> Result<Array, Skip> {
        let mut names: HashMap<String, Array> = states.iter().cloned().collect();
        names.insert("z".to_string(), z.clone());
        for statement in self.needed() {
            if let Statement::Let(name, value) | Statement::Assign(name, value) = statement {
                let value = self.value(tape, value, &names, force)?;
                names.insert(name.clone(), value);
            }
        }
        for (name, state) in states {
            *state = names[name.as_str()].along(self.sizes.tokens, self.sizes.model);
        }
        Ok(names["z"].along(self.sizes.tokens, self.sizes.model))
    }

    /// The statements without those whose values nobody uses: gradients that are not needed are not taken.
    fn needed(&self) -> Vec<&Statement> {
        let body = &self.recipe.optimizer.body;
        let states = body.iter().filter_map(|statement| match statement {
            Statement::State(name, _) => Some(name.as_str()),
            _ => None,
        });
        let mut live: BTreeSet<&str> = states.chain(["z"]).collect();
        let mut needed = vec![];
        for statement in body.iter().rev() {
            let (Statement::Let(name, value) | Statement::Assign(name, value)) = statement else { continue };
            if live.remove(name.as_str()) {
                names_in(value, &mut live);
                needed.push(statement);
            }
        }
        needed.reverse();
        needed
    }

    fn value(
        &self,
        tape: &mut Tape,
        e: &Expr,
        names: &HashMap<String, Array>,
        force: &mut Force,
    ) -> Result<Array, Skip> {
        let mut sub = |tape: &mut Tape, e: &Expr| self.value(tape, e, names, &mut *force);
        Ok(match e {
            Expr::Number(ratio) => Array::number(tape.constant(ratio.value())),
            Expr::Size(_) => Array::number(tape.constant(samples::number(e, self.sizes))),
            Expr::Token => names["z"].clone(),
            Expr::Name(name) => match names.get(name) {
                Some(value) => value.clone(),
                None => self.parameter(tape, name, names, force)?,
            },
            Expr::Negate(x) => sub(tape, x)?.each(|x| tape.negate(x)),
            Expr::Add(a, b) => {
                let (a, b) = (sub(tape, a)?, sub(tape, b)?);
                a.with(&b, |a, b| tape.add(a, b))
            }
            Expr::Subtract(a, b) => {
                let (a, b) = (sub(tape, a)?, sub(tape, b)?);
                a.with(&b, |a, b| tape.subtract(a, b))
            }
            Expr::Multiply(a, b) => {
                let (a, b) = (sub(tape, a)?, sub(tape, b)?);
                a.with(&b, |a, b| tape.multiply(a, b))
            }
            Expr::Divide(a, b) => {
                let (a, b) = (sub(tape, a)?, sub(tape, b)?);
                a.with(&b, |a, b| {
                    tape.kink(b);
                    tape.divide(a, b)
                })
            }
            Expr::Power(x, Exponent::Number(r)) => {
                let r = r.value();
                sub(tape, x)?.each(|x| {
                    if r.fract() != 0.0 || r < 0.0 {
                        tape.kink(x);
                    }
                    tape.power(x, r)
                })
            }
            Expr::Apply(function, x) => {
                let x = sub(tape, x)?;
                apply(tape, *function, &x)
            }
            Expr::Pair(pairing, a, b) => {
                let (a, b) = (sub(tape, a)?, sub(tape, b)?);
                match pairing {
                    Pairing::Dot => {
                        let product = a.with(&b, |a, b| tape.multiply(a, b));
                        total(tape, &product)
                    }
                    Pairing::Max => a.with(&b, |a, b| if tape.at_most(a, b) { b } else { a }),
                    Pairing::Min => a.with(&b, |a, b| if tape.at_most(a, b) { a } else { b }),
                }
            }
            Expr::If(choice) => {
                let Choice { compare, left, right, then, otherwise } = &**choice;
                let (left, right) = (sub(tape, left)?, sub(tape, right)?);
                let (then, otherwise) = (sub(tape, then)?, sub(tape, otherwise)?);
                let both = then.with(&otherwise, |a, _| a);
                let other = then.with(&otherwise, |_, b| b);
                let (tokens, components) = (self.sizes.tokens, self.sizes.model);
                let chosen = |tape: &mut Tape, t: usize, c: usize| {
                    let (a, b) = (left.at(t, c), right.at(t, c));
                    let first = match compare {
                        Compare::LessEqual => tape.at_most(a, b),
                        Compare::GreaterEqual => tape.at_most(b, a),
                        Compare::Less => !tape.at_most(b, a),
                        Compare::Greater => !tape.at_most(a, b),
                    };
                    if first { both.at(t, c) } else { other.at(t, c) }
                };
                let row = |tape: &mut Tape, t: usize| (0..components).map(|c| chosen(tape, t, c)).collect();
                Array((0..tokens).map(|t| row(tape, t)).collect())
            }
            Expr::Gradient(point) => {
                let point = sub(tape, point)?.along(self.sizes.tokens, self.sizes.model);
                force(tape, &point)?.each(|x| tape.negate(x))
            }
            Expr::Solve(solve) => {
                let point = sub(tape, &solve.point)?.along(self.sizes.tokens, self.sizes.model);
                force(tape, &point)?.each(|x| tape.negate(x))
            }
            _ => panic!("no term of an optimizer: {e:?}"),
        })
    }

    /// A parameter, or the term that was given for it.
    fn parameter(
        &self,
        tape: &mut Tape,
        name: &str,
        names: &HashMap<String, Array>,
        force: &mut Force,
    ) -> Result<Array, Skip> {
        let param = self.recipe.optimizer.params.iter().find(|p| p.name == name);
        match param.map(|p| &p.value) {
            Some(Value::Term(term)) => self.value(tape, term, names, force),
            _ => Ok(Array::number(self.numbers[name])),
        }
    }
}

fn names_in<'e>(e: &'e Expr, names: &mut BTreeSet<&'e str>) {
    match e {
        Expr::Name(name) => drop(names.insert(name)),
        Expr::Token => drop(names.insert("z")),
        _ => {}
    }
    // A matrix has numbers in it that are no part of the program.
    match e {
        Expr::Solve(solve) => names_in(&solve.point, names),
        _ => e.children().into_iter().for_each(|child| names_in(child, names)),
    }
}

/// Σ over components.
fn total(tape: &mut Tape, x: &Array) -> Array {
    Array(x.0.iter().map(|row| vec![tape.sum(row.iter().copied())]).collect())
}

fn apply(tape: &mut Tape, function: Function, x: &Array) -> Array {
    match function {
        Function::Exp => x.each(|x| tape.exp(x)),
        Function::Log => x.each(|x| {
            tape.kink(x);
            tape.log(x)
        }),
        Function::Sqrt => x.each(|x| {
            tape.kink(x);
            tape.power(x, 0.5)
        }),
        Function::Abs => x.each(|x| {
            let sign = tape.sign_of(x);
            tape.scale(x, sign)
        }),
        Function::Sign => x.each(|x| {
            let sign = tape.sign_of(x);
            tape.constant(sign)
        }),
        Function::Sigmoid => x.each(|x| tape.curve(Curve::Sigmoid, x)),
        Function::Tanh => x.each(|x| tape.curve(Curve::Tanh, x)),
        Function::Softplus => x.each(|x| tape.curve(Curve::Softplus, x)),
        Function::Relu => x.each(|x| tape.positive(x)),
        Function::Cosh => x.each(|x| tape.cosh(x)),
        Function::Log1p => x.each(|x| tape.log_1_plus(x)),
        Function::Square => x.each(|x| tape.power(x, 2.0)),
        Function::Mean => {
            let length = x.0.first().map_or(1, Vec::len);
            total(tape, x).each(|x| tape.scale(x, 1.0 / length as f64))
        }
        Function::Sum => total(tape, x),
        Function::Norm => {
            let square = x.each(|x| tape.power(x, 2.0));
            total(tape, &square).each(|x| {
                tape.kink(x);
                tape.power(x, 0.5)
            })
        }
    }
}

/// Whether a step is z − η∇F(z) with a number η and nothing else, found out on random tokens.
pub fn is_plain(recipe: &Recipe, sizes: Sizes, numbers: &HashMap<String, f64>) -> bool {
    let has_states = recipe.optimizer.body.iter().any(|statement| matches!(statement, Statement::State(..)));
    if has_states {
        return false;
    }
    let mut ratios = vec![];
    for seed in 0..2 {
        let mut random = Random::new(seed);
        let mut tape = Tape::new();
        let numbers: HashMap<String, Var> = numbers.iter().map(|(name, x)| (name.clone(), tape.leaf(*x))).collect();
        let program = Program { recipe, numbers: &numbers, sizes };
        let mut draw = |tape: &mut Tape| {
            let mut row = || (0..sizes.model).map(|_| tape.leaf(3.0 * random.normal())).collect();
            Array((0..sizes.tokens).map(|_| row()).collect())
        };
        let (z, gradient) = (draw(&mut tape), draw(&mut tape));
        let mut is_at_z = true;
        let mut force = |tape: &mut Tape, point: &Array| {
            let same = |(x, y): (&Vec<Var>, &Vec<Var>)| tape.values(x) == tape.values(y);
            is_at_z &= point.0.iter().zip(&z.0).all(same);
            Ok(gradient.each(|x| tape.negate(x)))
        };
        let Ok(moved) = program.step(&mut tape, &z, &mut [], &mut force) else { return false };
        if !is_at_z {
            return false;
        }
        for ((moved, z), gradient) in moved.0.iter().zip(&z.0).zip(&gradient.0) {
            for ((moved, z), gradient) in moved.iter().zip(z).zip(gradient) {
                ratios.push((tape.value(*z) - tape.value(*moved)) / tape.value(*gradient));
            }
        }
    }
    ratios.iter().all(|ratio| (ratio - ratios[0]).abs() <= 1e-9 * (1.0 + ratios[0].abs()))
}
