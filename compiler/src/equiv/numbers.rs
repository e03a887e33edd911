//! Numbers as evidence: two terms on random inputs.

use crate::ir::Expr;
use crate::ir::eval::evaluate;
use crate::ir::sample::Norm;
use crate::verify::samples::{SHAPES, Source};
use crate::verify::trials::{Gap, gap};

/// Terms further apart than this are different terms.
const TOLERANCE: f64 = 1e-6;
const SEEDS: u64 = 3;

/// Where two terms differ most, if they do; the error is of a term that has no value.
pub fn difference(what: &str, a: &Expr, b: &Expr, norms: &[Norm]) -> Result<Option<String>, String> {
    let source = Source::new(vec![a.clone(), b.clone()], norms.to_vec());
    let mut worst = (Gap::NONE, String::new());
    for shape in SHAPES {
        for sample in (0..SEEDS).filter_map(|seed| source.draw(shape, seed)) {
            let (x, y) = (evaluate(a, &sample.env)?, evaluate(b, &sample.env)?);
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
