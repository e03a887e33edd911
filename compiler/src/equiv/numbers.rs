//! Numbers as evidence: two terms on random inputs.

use crate::derive::Named;
use crate::ir::Expr;
use crate::ir::eval::{Env, evaluate};
use crate::ir::sample::Norm;
use crate::ir::tensor::Tensor;
use crate::verify::samples::{SHAPES, Source};
use crate::verify::slopes;
use crate::verify::trials::{Gap, gap};

/// Terms further apart than this are different terms.
const TOLERANCE: f64 = 1e-6;
const SEEDS: u64 = 3;

/// A term, and what the names in it stand for, each in terms of earlier ones.
pub struct Formula {
    pub names: Vec<Named>,
    pub term: Expr,
}

impl Formula {
    fn terms(&self) -> impl Iterator<Item = Expr> {
        self.names.iter().map(Named::value).chain([self.term.clone()])
    }

    fn evaluate(&self, env: &Env) -> Result<Tensor, String> {
        let mut env = env.clone();
        for named in &self.names {
            let value = slopes::value(&named.value(), &named.leaf.axes, &env)?;
            env.values.insert(named.leaf.name.to_string(), value);
        }
        evaluate(&self.term, &env)
    }
}

/// Where two terms differ most, if they do; the error is of a term that has no value.
pub fn difference(what: &str, a: &Expr, b: &Expr, norms: &[Norm]) -> Result<Option<String>, String> {
    let formula = |term: &Expr| Formula { names: vec![], term: term.clone() };
    difference_of(what, &formula(a), &formula(b), norms)
}

/// The same of two formulas with names.
pub fn difference_of(what: &str, a: &Formula, b: &Formula, norms: &[Norm]) -> Result<Option<String>, String> {
    let source = Source::new(a.terms().chain(b.terms()).collect(), norms.to_vec());
    let mut worst = (Gap::NONE, String::new());
    for shape in SHAPES {
        for sample in (0..SEEDS).filter_map(|seed| source.draw(shape, seed)) {
            let (x, y) = (a.evaluate(&sample.env)?, b.evaluate(&sample.env)?);
            let found = gap(what, &y, &x, sample.env.sizes);
            if found.error > worst.0.error {
                worst = (found, sample.describe());
            }
        }
    }
    let (Gap { error, place }, at) = worst;
    if error.is_infinite() {
        return Err(format!("{place}, which is not a number to compare ({at})"));
    }
    // `gap` writes "is …, expected …": the second side against the first.
    let place = place.replace(" is ", " of the second is ").replace("expected", "of the first");
    Ok((error > TOLERANCE).then(|| format!("{place}: a difference of {error:.1e} ({at})")))
}
