//! An optimizer's program on rows of numbers: terms over the token, states, gradients and learned numbers, forward and
//! backward.
//!
//! The terms are those of the checked recipe and of its derived backward pass. Each is translated once into a list of
//! operations on blocks of rows: a sum of vectors with numbers in front is one operation, whatever its length.

use super::blocks::{ROWS, wide};
use energyc::check::inputs;
use energyc::check::recipe::{ParamValue, Recipe};
use energyc::derive;
use energyc::ir::eval::{Sizes, total_power};
use energyc::ir::rational::to_f64;
use energyc::ir::{Expr, Func, Leaf, Op, Role, Space, traverse};
use energyc::simplify::Options;
use rayon::prelude::*;
use std::collections::HashMap;

/// A step of an optimizer: points, results, and the cotangents of everything that goes in.
#[derive(Clone, Debug)]
pub struct Program {
    /// How many gradients it takes.
    pub gradients: usize,
    /// The learned numbers the terms mention, by name.
    pub numbers: Vec<String>,
    /// What the states start at.
    pub starts: Vec<Term>,
    /// The points, as terms over z, states and earlier gradients.
    pub points: Vec<Term>,
    /// ẑ and the new states.
    pub results: Vec<Term>,
    /// The cotangent of every gradient, over all inputs and the cotangents of results and points.
    pub of_gradients: Vec<Term>,
    /// The cotangents of z and the states.
    pub of_inputs: Vec<Term>,
    /// The cotangents of the learned numbers.
    pub of_numbers: Vec<Term>,
}

/// A term as operations in the order they are done.
#[derive(Clone, Debug)]
pub struct Term {
    operations: Vec<Operation>,
}

#[derive(Clone, Debug)]
enum Operation {
    Number(f64),
    /// A learned number.
    Learned(usize),
    /// An input vector.
    Vector(usize),
    /// Σ c_i x_i with numbers c_i in front of vectors, and a number on its own.
    Sum(Vec<(Vec<usize>, Option<usize>)>),
    Product(Vec<usize>),
    Power(usize, f64),
    Call(Func, usize),
    Select([usize; 4]),
    /// Over components.
    RowSum(usize),
    /// Over all rows.
    Total(usize),
}

/// What a value is a number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Extent {
    Whole,
    Row,
    Entry,
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
        let translate = |e: &Expr| Translation::new(recipe, sizes, &vectors, &learned).term(e);
        let all = |terms: Vec<&Expr>| terms.into_iter().map(translate).collect::<Result<Vec<Term>, String>>();
        let count = program.states.len();
        let of =
            |leaf: &Leaf| backward.inputs.iter().find(|(input, _)| input.same_input(leaf)).map(|(_, d)| &d.value.term);
        let zero = Expr::zero();
        Ok(Program {
            gradients: program.gradients.len(),
            numbers: learned.iter().map(|leaf| leaf.name.to_string()).collect(),
            starts: all(inits().collect())?,
            points: all(program.gradients.iter().collect())?,
            results: all([&program.z].into_iter().chain(&program.next_states).collect())?,
            of_gradients: all(backward.forces.iter().map(|d| &d.value.term).collect())?,
            of_inputs: all(vectors[..=count].iter().map(|leaf| of(leaf).unwrap_or(&zero)).collect())?,
            of_numbers: all(learned.iter().map(|leaf| of(leaf).unwrap_or(&zero)).collect())?,
        })
    }

    /// Whether the i-th gradient is taken at z itself.
    pub fn is_at_token(&self, i: usize) -> bool {
        matches!(self.points[i].operations.as_slice(), [Operation::Vector(0)])
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

    fn term(mut self, e: &Expr) -> Result<Term, String> {
        self.value(e)?;
        Ok(Term { operations: self.operations })
    }

    fn push(&mut self, operation: Operation) -> usize {
        self.operations.push(operation);
        self.operations.len() - 1
    }

    /// The place of a term's value; the last one is that of the whole.
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

/// The inputs of a term: vectors as rows of `width` numbers, by their places, and learned numbers.
pub struct Inputs<'a> {
    pub width: usize,
    pub vectors: &'a [&'a [f32]],
    pub numbers: &'a [f32],
}

impl Term {
    fn extents(&self) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        for operation in &self.operations {
            let most =
                |places: &mut dyn Iterator<Item = usize>| places.map(|i| extents[i]).max().unwrap_or(Extent::Whole);
            let extent = match operation {
                Operation::Number(_) | Operation::Learned(_) | Operation::Total(_) => Extent::Whole,
                Operation::Vector(_) => Extent::Entry,
                Operation::Sum(terms) => most(&mut terms.iter().filter_map(|(_, vector)| *vector)),
                Operation::Product(xs) => most(&mut xs.iter().copied()),
                Operation::Power(x, _) | Operation::Call(_, x) => extents[*x],
                Operation::Select(parts) => most(&mut parts.iter().copied()),
                Operation::RowSum(_) => Extent::Row,
            };
            extents.push(extent);
        }
        extents
    }

    /// The term for every entry of every row.
    pub fn rows(&self, inputs: &Inputs, out: &mut [f32]) {
        let (extents, width) = (self.extents(), inputs.width);
        let last = self.operations.len() - 1;
        out.par_chunks_mut(ROWS * width).enumerate().for_each(|(block, out)| {
            let mut values = Values::new(&extents, out.len() / width, width);
            wide(
                #[inline(always)]
                || {
                    self.run(&extents, inputs, block, &mut values, last);
                    values.write(last, out);
                },
            );
        });
    }

    /// A term that is one number: totals of all rows, and arithmetic with them.
    pub fn number(&self, inputs: &Inputs, rows: usize) -> f64 {
        let (extents, width) = (self.extents(), inputs.width);
        let totals: Vec<(usize, usize)> = (self.operations.iter().enumerate())
            .filter_map(|(i, operation)| if let Operation::Total(x) = operation { Some((i, *x)) } else { None })
            .collect();
        let mut sums = vec![0.0; totals.len()];
        if let Some(upto) = totals.iter().map(|(_, x)| *x).max() {
            let blocks: Vec<Vec<f64>> = (0..rows.div_ceil(ROWS))
                .into_par_iter()
                .map(|block| {
                    let count = ROWS.min(rows - block * ROWS);
                    let mut values = Values::new(&extents, count, width);
                    wide(
                        #[inline(always)]
                        || self.run(&extents, inputs, block, &mut values, upto),
                    );
                    totals.iter().map(|(_, x)| values.total(*x)).collect()
                })
                .collect();
            for block in blocks {
                sums.iter_mut().zip(block).for_each(|(sum, x)| *sum += x);
            }
        }
        let mut values = Values::new(&vec![Extent::Whole; extents.len()], 1, 1);
        for (i, operation) in self.operations.iter().enumerate() {
            match totals.iter().position(|(place, _)| *place == i) {
                Some(at) => values.arrays[i][0] = sums[at] as f32,
                None if extents[i] == Extent::Whole => values.step(i, operation, &extents, inputs, 0),
                None => {}
            }
        }
        f64::from(values.arrays[self.operations.len() - 1][0])
    }

    #[inline(always)]
    fn run(&self, extents: &[Extent], inputs: &Inputs, block: usize, values: &mut Values, upto: usize) {
        for (i, operation) in self.operations.iter().enumerate().take(upto + 1) {
            values.step(i, operation, extents, inputs, block);
        }
    }
}

/// The values of a block of rows: one number, one per row, or one per entry.
struct Values {
    arrays: Vec<Vec<f32>>,
    extents: Vec<Extent>,
    rows: usize,
    width: usize,
}

impl Values {
    fn new(extents: &[Extent], rows: usize, width: usize) -> Values {
        let length = |extent: &Extent| match extent {
            Extent::Whole => 1,
            Extent::Row => rows,
            Extent::Entry => rows * width,
        };
        Values {
            arrays: extents.iter().map(|e| vec![0.0; length(e)]).collect(),
            extents: extents.to_vec(),
            rows,
            width,
        }
    }

    /// Entry j of a value, of whatever extent.
    #[inline(always)]
    fn at(&self, place: usize, j: usize, per: Extent) -> f32 {
        match (self.extents[place], per) {
            (Extent::Whole, _) => self.arrays[place][0],
            (Extent::Row, Extent::Entry) => self.arrays[place][j / self.width],
            _ => self.arrays[place][j],
        }
    }

    #[inline(always)]
    fn step(&mut self, i: usize, operation: &Operation, extents: &[Extent], inputs: &Inputs, block: usize) {
        let extent = extents[i];
        let mut out = std::mem::take(&mut self.arrays[i]);
        match operation {
            Operation::Number(x) => out[0] = *x as f32,
            Operation::Learned(j) => out[0] = inputs.numbers[*j],
            Operation::Vector(j) => {
                let start = block * ROWS * inputs.width;
                out.copy_from_slice(&inputs.vectors[*j][start..start + self.rows * inputs.width]);
            }
            Operation::Sum(terms) => self.sum(terms, extent, &mut out),
            Operation::Product(xs) => {
                out.fill(1.0);
                for x in xs {
                    self.each(&mut out, [*x], extent, |y, [x]| y * x);
                }
            }
            Operation::Power(x, r) => self.power(*x, *r, extent, &mut out),
            Operation::Call(func, x) => match func {
                Func::Exp => self.each(&mut out, [*x], extent, |_, [x]| x.exp()),
                Func::Log => self.each(&mut out, [*x], extent, |_, [x]| x.ln()),
                Func::Abs => self.each(&mut out, [*x], extent, |_, [x]| x.abs()),
                Func::Sign => self.each(&mut out, [*x], extent, |_, [x]| if x == 0.0 { 0.0 } else { x.signum() }),
            },
            Operation::Select(parts) => {
                self.each(&mut out, *parts, extent, |_, [a, b, x, y]| if a <= b { x } else { y });
            }
            Operation::RowSum(x) => match self.extents[*x] {
                Extent::Entry => {
                    let rows = self.arrays[*x].chunks_exact(self.width.max(1));
                    out.iter_mut().zip(rows).for_each(|(y, row)| *y = row.iter().sum());
                }
                _ => self.each(&mut out, [*x], extent, |_, [x]| x * self.width as f32),
            },
            Operation::Total(_) => {}
        }
        self.arrays[i] = out;
    }

    #[inline(always)]
    fn each<const K: usize>(&self, out: &mut [f32], xs: [usize; K], per: Extent, f: impl Fn(f32, [f32; K]) -> f32) {
        for (j, y) in out.iter_mut().enumerate() {
            *y = f(*y, xs.map(|x| self.at(x, j, per)));
        }
    }

    #[inline(always)]
    fn sum(&self, terms: &[(Vec<usize>, Option<usize>)], per: Extent, out: &mut [f32]) {
        out.fill(0.0);
        for (numbers, vector) in terms {
            let factor: f32 = numbers.iter().map(|i| self.arrays[*i][0]).product();
            match vector {
                None => out.iter_mut().for_each(|y| *y += factor),
                Some(x) if self.extents[*x] == per => {
                    out.iter_mut().zip(&self.arrays[*x]).for_each(|(y, x)| *y += factor * x);
                }
                Some(x) => self.each(out, [*x], per, |y, [x]| y + factor * x),
            }
        }
    }

    #[inline(always)]
    fn power(&self, x: usize, r: f64, per: Extent, out: &mut [f32]) {
        match r {
            2.0 => self.each(out, [x], per, |_, [x]| x * x),
            -1.0 => self.each(out, [x], per, |_, [x]| if x == 0.0 { 0.0 } else { 1.0 / x }),
            0.5 => self.each(out, [x], per, |_, [x]| x.sqrt()),
            _ => self.each(out, [x], per, |_, [x]| total_power(f64::from(x), r) as f32),
        }
    }

    /// Σ of a value over all rows; a number per row counts once per row.
    fn total(&self, place: usize) -> f64 {
        let sum: f64 = self.arrays[place].iter().map(|x| f64::from(*x)).sum();
        if self.extents[place] == Extent::Whole { sum * self.rows as f64 } else { sum }
    }

    #[inline(always)]
    fn write(&self, place: usize, out: &mut [f32]) {
        for (j, y) in out.iter_mut().enumerate() {
            *y = self.at(place, j, Extent::Entry);
        }
    }
}
