//! An optimizer's program on rows of numbers: terms over the token, states, gradients and learned numbers, forward and
//! backward.
//!
//! The terms are those of the checked recipe and of its derived backward pass. What is needed at one time is translated
//! into one list of operations: a sum of vectors with numbers in front is one operation, whatever its length.

use super::terms::{Operation, Terms};
use energyc::check::inputs;
use energyc::check::recipe::{ParamValue, Recipe};
use energyc::derive;
use energyc::ir::eval::Sizes;
use energyc::ir::rational::to_f64;
use energyc::ir::{Expr, Leaf, Op, Role, Space, traverse};
use energyc::simplify::Options;
use std::collections::HashMap;

/// A step of an optimizer: points, results, and the cotangents of everything that goes in.
#[derive(Clone, Debug)]
pub struct Program {
    /// How many gradients it takes.
    pub gradients: usize,
    /// The learned numbers the terms mention, by name.
    pub numbers: Vec<String>,
    /// What the states start at.
    pub starts: Terms,
    /// The points, each a term over z, states and earlier gradients.
    pub points: Vec<Terms>,
    /// ẑ and the new states.
    pub results: Terms,
    /// The cotangent of every gradient, over all inputs and the cotangents of results and points.
    pub of_gradients: Vec<Terms>,
    /// The cotangents of z and the states, then those of the learned numbers.
    pub of_inputs: Terms,
}

impl Program {
    /// The program of a recipe; sizes are those of the model.
    pub fn new(recipe: &Recipe, sizes: Sizes) -> Result<Program, String> {
        let backward = derive::step_backward(recipe, &Options::default());
        let program = &recipe.program;
        let is_learned = |value: &ParamValue| matches!(value, ParamValue::Learn { .. });
        let terms = || program.gradients.iter().chain(&program.next_states).chain([&program.z]);
        let inits = || program.states.iter().map(|state| &state.init);
        let mentioned = |leaf: &Leaf| terms().chain(inits()).any(|term| traverse::mentions(term, leaf));
        let learned: Vec<Leaf> = (recipe.params.iter())
            .filter(|param| is_learned(&param.value) && mentioned(&param.leaf))
            .map(|param| param.leaf.clone())
            .collect();
        let states = program.states.iter().map(|state| state.leaf.clone());
        let mut vectors: Vec<Leaf> = std::iter::once(inputs::z()).chain(states).collect();
        vectors.extend((0..program.gradients.len()).map(inputs::gradient));
        vectors.extend(backward.results.iter().chain(&backward.points).cloned());
        let together = |terms: &[&Expr]| Translation::new(recipe, sizes, &vectors, &learned).terms(terms);
        let each =
            |terms: Vec<&Expr>| terms.into_iter().map(|e| together(&[e])).collect::<Result<Vec<Terms>, String>>();
        let count = program.states.len();
        let of =
            |leaf: &Leaf| backward.inputs.iter().find(|(input, _)| input.same_input(leaf)).map(|(_, d)| &d.value.term);
        let zero = Expr::zero();
        let cotangent = |leaf| of(leaf).unwrap_or(&zero);
        Ok(Program {
            gradients: program.gradients.len(),
            numbers: learned.iter().map(|leaf| leaf.name.to_string()).collect(),
            starts: together(&inits().collect::<Vec<_>>())?,
            points: each(program.gradients.iter().collect())?,
            results: together(&[&program.z].into_iter().chain(&program.next_states).collect::<Vec<_>>())?,
            of_gradients: each(backward.forces.iter().map(|d| &d.value.term).collect())?,
            of_inputs: together(&vectors[..=count].iter().chain(&learned).map(cotangent).collect::<Vec<_>>())?,
        })
    }

    /// Whether the i-th gradient is taken at z itself.
    pub fn is_at_token(&self, i: usize) -> bool {
        self.points[i].is_vector(0)
    }
}

/// From terms to operations; equal terms are done once.
struct Translation<'a> {
    recipe: &'a Recipe,
    sizes: Sizes,
    vectors: &'a [Leaf],
    learned: &'a [Leaf],
    operations: Vec<Operation>,
    known: HashMap<Expr, usize>,
}

impl<'a> Translation<'a> {
    fn new(recipe: &'a Recipe, sizes: Sizes, vectors: &'a [Leaf], learned: &'a [Leaf]) -> Translation<'a> {
        Translation { recipe, sizes, vectors, learned, operations: Vec::new(), known: HashMap::new() }
    }

    fn terms(mut self, terms: &[&Expr]) -> Result<Terms, String> {
        let results = terms.iter().map(|e| self.value(e)).collect::<Result<_, _>>()?;
        Terms::new(self.operations, results)
    }

    fn push(&mut self, operation: Operation) -> usize {
        self.operations.push(operation);
        self.operations.len() - 1
    }

    /// The place of a term's value.
    fn value(&mut self, e: &Expr) -> Result<usize, String> {
        if let Some(known) = self.known.get(e) {
            return Ok(*known);
        }
        let operation = match e.op() {
            Op::Const(c) => Operation::Number(to_f64(c)),
            Op::Leaf(leaf) => match self.leaf(leaf)? {
                Ok(operation) => operation,
                Err(term) => {
                    let place = self.value(&term)?;
                    self.known.insert(e.clone(), place);
                    return Ok(place);
                }
            },
            Op::Add(terms) => Operation::Sum(terms.iter().map(|term| self.scaled(term)).collect::<Result<_, _>>()?),
            Op::Mul(_) => match self.scaled(e)? {
                (numbers, Some(vector)) => Operation::Sum(vec![(numbers, Some(vector))]),
                (numbers, None) => Operation::Product(numbers),
            },
            Op::Pow(x, r) => Operation::Power(self.value(x)?, to_f64(r)),
            Op::Call(func, x) => Operation::Call(*func, self.value(x)?),
            Op::Select(parts) => {
                let [a, b, x, y] = &**parts;
                Operation::Select([self.value(a)?, self.value(b)?, self.value(x)?, self.value(y)?])
            }
            Op::Sum(axis, x) if axis.space == Space::Model => {
                let x = traverse::rename(x, *axis, inputs::z().axes[1]);
                let is_matrix = x.axes().iter().filter(|axis| axis.space == Space::Model).count() > 1;
                if is_matrix {
                    return Err("its optimizer multiplies by a matrix".to_string());
                }
                Operation::RowSum(self.value(&x)?)
            }
            Op::Sum(axis, x) if axis.space == Space::Query => {
                let x = traverse::rename(x, *axis, inputs::z().axes[0]);
                Operation::Total(self.value(&x)?)
            }
            _ => return Err("its optimizer does more than a layer can with a token".to_string()),
        };
        let place = self.push(operation);
        self.known.insert(e.clone(), place);
        Ok(place)
    }

    /// A product as numbers in front of at most one vector.
    fn scaled(&mut self, e: &Expr) -> Result<(Vec<usize>, Option<usize>), String> {
        let (vectors, numbers): (Vec<Expr>, Vec<Expr>) = e.factors().into_iter().partition(|f| !f.axes().is_empty());
        let numbers = numbers.iter().map(|f| self.value(f)).collect::<Result<Vec<_>, _>>()?;
        let vectors = vectors.iter().map(|f| self.value(f)).collect::<Result<Vec<_>, _>>()?;
        Ok(match vectors.as_slice() {
            [] => (numbers, None),
            [one] => (numbers, Some(*one)),
            _ => {
                let product = self.push(Operation::Product(vectors));
                (numbers, Some(product))
            }
        })
    }

    /// An input, or the term that takes its place.
    fn leaf(&self, leaf: &Leaf) -> Result<Result<Operation, Expr>, String> {
        let is_it = |other: &Leaf| other.same_input(leaf);
        if let Some(i) = self.vectors.iter().position(is_it) {
            return Ok(Ok(Operation::Vector(i)));
        }
        if let Some(i) = self.learned.iter().position(is_it) {
            return Ok(Ok(Operation::Learned(i)));
        }
        if leaf.role == Role::Size {
            return Ok(Ok(Operation::Number(self.sizes.symbol(&leaf.name).unwrap_or(f64::NAN))));
        }
        match self.recipe.params.iter().find(|param| is_it(&param.leaf)).map(|param| &param.value) {
            Some(ParamValue::Fixed(value)) => Ok(Err(value.clone())),
            _ => Err(format!("its optimizer looks at {}", leaf.name)),
        }
    }
}
