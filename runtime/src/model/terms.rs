//! Terms over rows of numbers: several at a time, what they share computed once.
//!
//! Rows go through in blocks, on all threads, and a block goes through strip by strip: a strip is so short that everything
//! computed of it stays in the nearest cache, and memory sees each input once and each result once.

use super::blocks::{ROWS, wide};
use energyc::ir::Func;
use energyc::ir::eval::total_power;
use rayon::prelude::*;

/// Numbers of a strip: a few rows, 4 KiB.
const STRIP: usize = 1024;

/// Sums run in this many lanes, so that they can run in registers.
const LANES: usize = 8;

/// One operation on values computed before it, by their places.
#[derive(Clone, Debug)]
pub enum Operation {
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

/// Terms over the same inputs, as operations in the order they are done.
#[derive(Clone, Debug)]
pub struct Terms {
    operations: Vec<Operation>,
    extents: Vec<Extent>,
    /// Where the value of every term is.
    results: Vec<usize>,
}

/// The inputs of terms: vectors as rows of `width` numbers, by their places, and learned numbers.
pub struct Inputs<'a> {
    pub width: usize,
    pub vectors: &'a [&'a [f32]],
    pub numbers: &'a [f32],
}

impl Terms {
    /// Operations, and the places of the terms' values among them. A value per row may not depend on all rows.
    pub fn new(operations: Vec<Operation>, results: Vec<usize>) -> Result<Terms, String> {
        let mut extents: Vec<Extent> = Vec::new();
        let mut after_total: Vec<bool> = Vec::new();
        for operation in &operations {
            let operands = operation.operands();
            let most = operands.iter().map(|i| extents[*i]).max().unwrap_or(Extent::Whole);
            let extent = match operation {
                Operation::Vector(_) => Extent::Entry,
                Operation::RowSum(_) => Extent::Row,
                Operation::Total(_) => Extent::Whole,
                _ => most,
            };
            let needs_total = matches!(operation, Operation::Total(_)) || operands.iter().any(|i| after_total[*i]);
            if needs_total && extent != Extent::Whole {
                return Err("its optimizer moves a token by what all tokens do".to_string());
            }
            extents.push(extent);
            after_total.push(needs_total);
        }
        Ok(Terms { operations, extents, results })
    }

    /// Whether this is one term, and the term is an input.
    pub fn is_vector(&self, input: usize) -> bool {
        match self.results[..] {
            [one] => matches!(self.operations[one], Operation::Vector(j) if j == input),
            _ => false,
        }
    }

    /// One term for every entry of every row.
    pub fn row(&self, inputs: &Inputs, out: &mut [f32]) {
        let rows = out.len() / inputs.width.max(1);
        self.evaluate(inputs, rows, &mut [out]);
    }

    /// The first terms for every entry of every row, as many as there are `outs`; the others are numbers.
    pub fn evaluate(&self, inputs: &Inputs, rows: usize, outs: &mut [&mut [f32]]) -> Vec<f64> {
        let known = self.known(inputs, None);
        let totals: Vec<usize> = self.operations.iter().filter_map(Operation::totaled).collect();
        let mut blocks: Vec<Vec<&mut [f32]>> = (0..rows.div_ceil(ROWS)).map(|_| Vec::new()).collect();
        for out in outs.iter_mut() {
            let chunks = out.chunks_mut((ROWS * inputs.width).max(1));
            blocks.iter_mut().zip(chunks).for_each(|(block, chunk)| block.push(chunk));
        }
        let per_strip = (STRIP / inputs.width.max(1)).clamp(1, ROWS);
        let scratch = || vec![0.0f32; self.operations.len() * per_strip * inputs.width];
        let of_blocks: Vec<Vec<f64>> = (blocks.into_par_iter().enumerate())
            .map_init(scratch, |values, (block, mut outs)| {
                let mut sums = vec![0.0; totals.len()];
                let (from, to) = (block * ROWS, rows.min((block + 1) * ROWS));
                wide(
                    #[inline(always)]
                    || {
                        for first in (from..to).step_by(per_strip) {
                            let count = per_strip.min(to - first);
                            let strip = Strip { terms: self, inputs, known: &known, first, count, per_strip };
                            strip.run(values);
                            strip.write(values, &mut outs, (first - from) * inputs.width);
                            for (sum, place) in sums.iter_mut().zip(&totals) {
                                *sum += strip.total(values, *place);
                            }
                        }
                    },
                );
                sums
            })
            .collect();
        let mut sums = vec![0.0; totals.len()];
        for block in of_blocks {
            sums.iter_mut().zip(block).for_each(|(sum, x)| *sum += x);
        }
        let known = if totals.is_empty() { known } else { self.known(inputs, Some(&sums)) };
        self.results[outs.len()..].iter().map(|place| f64::from(known[*place])).collect()
    }

    /// The values that are one number; with `totals` also those that depend on them.
    fn known(&self, inputs: &Inputs, totals: Option<&[f64]>) -> Vec<f32> {
        let mut known = vec![f32::NAN; self.operations.len()];
        let mut totals = totals.unwrap_or(&[]).iter();
        for (i, operation) in self.operations.iter().enumerate() {
            if self.extents[i] != Extent::Whole {
                continue;
            }
            let of = |place: &usize| known[*place];
            known[i] = match operation {
                Operation::Number(x) => *x as f32,
                Operation::Learned(j) => inputs.numbers[*j],
                Operation::Total(_) => totals.next().map_or(f32::NAN, |x| *x as f32),
                Operation::Sum(terms) => {
                    let one = |(numbers, vector): &(Vec<usize>, Option<usize>)| {
                        numbers.iter().chain(vector).map(of).product::<f32>()
                    };
                    terms.iter().map(one).sum()
                }
                Operation::Product(xs) => xs.iter().map(of).product(),
                Operation::Power(x, r) => power(of(x), *r),
                Operation::Call(func, x) => call(*func, of(x)),
                Operation::Select(parts) => select(parts.map(|x| of(&x))),
                Operation::Vector(_) | Operation::RowSum(_) => f32::NAN,
            };
        }
        known
    }
}

impl Operation {
    fn operands(&self) -> Vec<usize> {
        match self {
            Operation::Number(_) | Operation::Learned(_) | Operation::Vector(_) => Vec::new(),
            Operation::Sum(terms) => terms.iter().flat_map(|(numbers, x)| numbers.iter().chain(x)).copied().collect(),
            Operation::Product(xs) => xs.clone(),
            Operation::Power(x, _) | Operation::Call(_, x) | Operation::RowSum(x) | Operation::Total(x) => vec![*x],
            Operation::Select(parts) => parts.to_vec(),
        }
    }

    fn totaled(&self) -> Option<usize> {
        match self {
            Operation::Total(x) => Some(*x),
            _ => None,
        }
    }
}

/// A few rows of a block.
struct Strip<'a> {
    terms: &'a Terms,
    inputs: &'a Inputs<'a>,
    known: &'a [f32],
    first: usize,
    count: usize,
    /// Rows of a full strip.
    per_strip: usize,
}

/// A value of a strip.
#[derive(Clone, Copy)]
enum Source<'a> {
    Number(f32),
    PerRow(&'a [f32], usize),
    PerEntry(&'a [f32]),
}

impl Source<'_> {
    #[inline(always)]
    fn at(&self, entry: usize) -> f32 {
        match self {
            Source::Number(x) => *x,
            Source::PerRow(xs, width) => xs[entry / width],
            Source::PerEntry(xs) => xs[entry],
        }
    }
}

impl Strip<'_> {
    /// Numbers that are kept of a value.
    fn room(&self) -> usize {
        self.per_strip * self.inputs.width
    }

    #[inline(always)]
    fn source<'b>(&'b self, values: &'b [f32], place: usize) -> Source<'b> {
        let (width, own) = (self.inputs.width, place * self.room());
        match (self.terms.extents[place], &self.terms.operations[place]) {
            (Extent::Whole, _) => Source::Number(self.known[place]),
            (Extent::Row, _) => Source::PerRow(&values[own..own + self.count], width),
            (Extent::Entry, Operation::Vector(j)) => {
                let start = self.first * width;
                Source::PerEntry(&self.inputs.vectors[*j][start..start + self.count * width])
            }
            (Extent::Entry, _) => Source::PerEntry(&values[own..own + self.count * width]),
        }
    }

    #[inline(always)]
    fn run(&self, values: &mut [f32]) {
        for (i, operation) in self.terms.operations.iter().enumerate() {
            let length = match self.terms.extents[i] {
                Extent::Whole => continue,
                Extent::Row => self.count,
                Extent::Entry => self.count * self.inputs.width,
            };
            let (before, own) = values.split_at_mut(i * self.room());
            self.step(operation, self.terms.extents[i], before, &mut own[..length]);
        }
    }

    #[inline(always)]
    fn step(&self, operation: &Operation, extent: Extent, before: &[f32], out: &mut [f32]) {
        let source = |place: &usize| match (self.source(before, *place), extent) {
            // Beside values per row, a value per row is like one per entry.
            (Source::PerRow(xs, _), Extent::Row) => Source::PerEntry(xs),
            (source, _) => source,
        };
        match operation {
            Operation::Sum(terms) => {
                let factor = |numbers: &[usize]| numbers.iter().map(|i| self.known[*i]).product::<f32>();
                let terms: Vec<(f32, Source)> = (terms.iter())
                    .map(|(numbers, x)| (factor(numbers), x.as_ref().map_or(Source::Number(1.0), source)))
                    .collect();
                sum(&terms, out);
            }
            Operation::Product(xs) => {
                let xs: Vec<Source> = xs.iter().map(source).collect();
                product(&xs, out);
            }
            Operation::Power(x, r) => match (source(x), r) {
                (Source::PerEntry(xs), 2.0) => out.iter_mut().zip(xs).for_each(|(y, x)| *y = x * x),
                (Source::PerEntry(xs), 0.5) => out.iter_mut().zip(xs).for_each(|(y, x)| *y = x.sqrt()),
                (Source::PerEntry(xs), -1.0) => out.iter_mut().zip(xs).for_each(|(y, x)| *y = inverse(*x)),
                (x, r) => out.iter_mut().enumerate().for_each(|(j, y)| *y = power(x.at(j), *r)),
            },
            Operation::Call(func, x) => {
                let x = source(x);
                out.iter_mut().enumerate().for_each(|(j, y)| *y = call(*func, x.at(j)));
            }
            Operation::Select(parts) => {
                let parts = [&parts[0], &parts[1], &parts[2], &parts[3]].map(source);
                out.iter_mut().enumerate().for_each(|(j, y)| *y = select(parts.map(|part| part.at(j))));
            }
            Operation::RowSum(x) => match self.source(before, *x) {
                Source::PerEntry(xs) => {
                    let rows = xs.chunks_exact(self.inputs.width.max(1));
                    out.iter_mut().zip(rows).for_each(|(y, row)| *y = lanes_sum(row) as f32);
                }
                Source::PerRow(xs, width) => out.iter_mut().zip(xs).for_each(|(y, x)| *y = x * width as f32),
                Source::Number(x) => out.fill(x * self.inputs.width as f32),
            },
            Operation::Vector(_) | Operation::Number(_) | Operation::Learned(_) | Operation::Total(_) => {}
        }
    }

    /// Puts results where they belong, `at` numbers after the beginning of the block.
    #[inline(always)]
    fn write(&self, values: &[f32], outs: &mut [&mut [f32]], at: usize) {
        for (place, out) in self.terms.results.iter().zip(outs) {
            let out = &mut out[at..at + self.count * self.inputs.width];
            match self.source(values, *place) {
                Source::Number(x) => out.fill(x),
                Source::PerEntry(xs) => out.copy_from_slice(xs),
                Source::PerRow(xs, width) => {
                    out.chunks_exact_mut(width).zip(xs).for_each(|(row, x)| row.fill(*x));
                }
            }
        }
    }

    /// Σ of a value over the rows; a number per row counts once per row.
    #[inline(always)]
    fn total(&self, values: &[f32], place: usize) -> f64 {
        match self.source(values, place) {
            Source::Number(x) => f64::from(x) * self.count as f64,
            Source::PerRow(xs, _) | Source::PerEntry(xs) => lanes_sum(xs),
        }
    }
}

/// Σ c_i x_i, three terms at a time.
#[inline(always)]
fn sum(terms: &[(f32, Source)], out: &mut [f32]) {
    match *terms {
        [] => out.fill(0.0),
        [(a, Source::PerEntry(x))] => out.iter_mut().zip(x).for_each(|(out, x)| *out = a * x),
        [(a, Source::PerEntry(x)), (b, Source::PerEntry(y))] => {
            out.iter_mut().zip(x).zip(y).for_each(|((out, x), y)| *out = a * x + b * y);
        }
        [(a, Source::PerEntry(x)), (b, Source::PerEntry(y)), (c, Source::PerEntry(z)), ref rest @ ..] => {
            let first = out.iter_mut().zip(x).zip(y).zip(z);
            first.for_each(|(((out, x), y), z)| *out = a * x + b * y + c * z);
            add(rest, out);
        }
        _ => {
            out.fill(0.0);
            add(terms, out);
        }
    }
}

#[inline(always)]
fn add(terms: &[(f32, Source)], out: &mut [f32]) {
    for (factor, x) in terms {
        match x {
            Source::Number(x) => out.iter_mut().for_each(|out| *out += factor * x),
            Source::PerEntry(x) => out.iter_mut().zip(*x).for_each(|(out, x)| *out += factor * x),
            Source::PerRow(xs, width) => {
                let rows = out.chunks_exact_mut(*width).zip(*xs);
                rows.for_each(|(row, x)| row.iter_mut().for_each(|out| *out += factor * x));
            }
        }
    }
}

#[inline(always)]
fn product(xs: &[Source], out: &mut [f32]) {
    match *xs {
        [Source::PerEntry(x), Source::PerEntry(y)] => {
            out.iter_mut().zip(x).zip(y).for_each(|((out, x), y)| *out = x * y);
        }
        _ => {
            out.fill(1.0);
            for x in xs {
                match x {
                    Source::Number(x) => out.iter_mut().for_each(|out| *out *= x),
                    Source::PerEntry(x) => out.iter_mut().zip(*x).for_each(|(out, x)| *out *= x),
                    Source::PerRow(xs, width) => {
                        let rows = out.chunks_exact_mut(*width).zip(*xs);
                        rows.for_each(|(row, x)| row.iter_mut().for_each(|out| *out *= x));
                    }
                }
            }
        }
    }
}

/// Σ in double precision.
#[inline(always)]
fn lanes_sum(xs: &[f32]) -> f64 {
    let mut lanes = [0.0f64; LANES];
    let chunks = xs.chunks_exact(LANES);
    let rest: f64 = chunks.remainder().iter().map(|x| f64::from(*x)).sum();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane += f64::from(*x));
    }
    lanes.iter().sum::<f64>() + rest
}

#[inline(always)]
fn inverse(x: f32) -> f32 {
    if x == 0.0 { 0.0 } else { 1.0 / x }
}

#[inline(always)]
fn power(x: f32, r: f64) -> f32 {
    match r {
        2.0 => x * x,
        -1.0 => inverse(x),
        0.5 => x.sqrt(),
        _ => total_power(f64::from(x), r) as f32,
    }
}

#[inline(always)]
fn call(func: Func, x: f32) -> f32 {
    match func {
        Func::Exp => x.exp(),
        Func::Log => x.ln(),
        Func::Abs => x.abs(),
        Func::Sign if x == 0.0 => 0.0,
        Func::Sign => x.signum(),
        Func::Sigmoid | Func::Softplus | Func::Tanh | Func::TanhSlope | Func::LogCosh => func.of(f64::from(x)) as f32,
    }
}

#[inline(always)]
fn select([a, b, x, y]: [f32; 4]) -> f32 {
    if a <= b { x } else { y }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// x and y are inputs 0 and 1, a learned number is 0: a·x + y, Σ_rows Σ_e x·y, and x·‖y‖² per row.
    #[test]
    fn terms_of_several_extents_are_computed_together() {
        let operations = vec![
            Operation::Vector(0),
            Operation::Vector(1),
            Operation::Learned(0),
            Operation::Sum(vec![(vec![2], Some(0)), (vec![], Some(1))]),
            Operation::Power(1, 2.0),
            Operation::RowSum(4),
            Operation::Product(vec![0, 5]),
            Operation::Product(vec![0, 1]),
            Operation::Total(7),
            Operation::Sum(vec![(vec![2, 8], None), (vec![], Some(2))]),
        ];
        let terms = Terms::new(operations, vec![3, 6, 9]).unwrap();
        // Neither the rows nor the width are a multiple of a block or a strip.
        let (rows, width, a) = (77, 37, 0.5f32);
        let x: Vec<f32> = (0..rows * width).map(|i| ((i * 7 + 3) % 11) as f32 - 5.0).collect();
        let y: Vec<f32> = (0..rows * width).map(|i| ((i * 5 + 1) % 13) as f32 - 6.0).collect();
        let inputs = Inputs { width, vectors: &[&x, &y], numbers: &[a] };
        let (mut first, mut second) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        let numbers = terms.evaluate(&inputs, rows, &mut [&mut first, &mut second]);
        for i in 0..x.len() {
            let row = i / width * width;
            let square: f32 = y[row..row + width].iter().map(|y| y * y).sum();
            assert_eq!(first[i], a * x[i] + y[i], "entry {i}");
            assert_eq!(second[i], x[i] * square, "entry {i}");
        }
        let total: f64 = x.iter().zip(&y).map(|(x, y)| f64::from(x * y)).sum();
        assert_eq!(numbers, [0.5 * total + 0.5]);
    }

    #[test]
    fn a_row_that_depends_on_all_rows_is_refused() {
        let operations = vec![Operation::Vector(0), Operation::Total(0), Operation::Product(vec![0, 1])];
        assert!(Terms::new(operations, vec![2]).is_err());
    }
}
