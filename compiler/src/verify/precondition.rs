//! Solved systems: the direction against a dense solution made from finite differences alone.
//!
//! With g and C the first and second differences of the energy at a query, A = a·C + b·I; where a scale is replaced,
//! A = αI − (used/s)(αI − a·C − b·I). The direction must be −A⁻¹ g, or −α⁻¹ Σ_{j ≤ k} (B/α)^j g with B = αI − A. For an
//! undamped exact solve, W1⁺ times the direction must moreover solve Newton's equation in z.

use nalgebra::{DMatrix, DVector};

use super::parts::{Parts, stable, through_z, tied};
use super::report::{Line, Outcome};
use super::samples::{Mask, Source};
use super::slopes;
use super::steady::beyond_rounding;
use super::trials::{Gap, gap, run};
use crate::calculus;
use crate::check::inputs;
use crate::check::recipe::{Method, Preconditioner};
use crate::derive::Preconditioned;
use crate::ir::eval::{Env, evaluate};
use crate::ir::sample::Random;
use crate::ir::tensor::Tensor;
use crate::ir::{Axis, Expr, Leaf, Role, Sign, linear};

const TOLERANCE: f64 = 1e-5;
/// Systems nearer to singular than this are drawn again: differences of differences are not exact.
const CONDITION: f64 = 1e-2;

/// A series that changes with its matrix by more than that is drawn again: powers of what is not exact are less so.
const INEXACT: f64 = 1e-8;

/// The direction of a recipe whose optimizer solves a system.
pub fn direction(parts: &Parts, how: &Preconditioner, done: &Preconditioned) -> Line {
    let derived = tied(&parts.direction());
    let claims = Claims { gradient: calculus::gradient(&stable(parts.energy()), &inputs::q()), how, done };
    let terms = vec![derived.clone(), parts.energy().clone(), Expr::leaf(inputs::q())];
    let terms = terms.into_iter().chain(claims.numbers().into_iter().cloned()).collect();
    let source = Source::new(terms, parts.norms()).of(parts.energy());
    let tally = |mask| {
        run(&source.masked(mask), |sample| {
            let env = &sample.env;
            let Some(expected) = claims.expected(env)? else { return Ok(None) };
            let values = |env: &Env| Ok(vec![slopes::value(&derived, &inputs::q().axes, env)?]);
            let gap = gap("the entry ", &values(env)?[0], &expected, env.sizes);
            beyond_rounding(gap, TOLERANCE, env, values)
        })
    };
    let tally = tally(Mask::None).join(tally(Mask::Partial));
    let detail = format!(
        "direction, with k in the place of v, against a dense solution from finite differences of {}; {} samples, some \
         masked",
        parts.energy_name(),
        tally.samples
    );
    Line { name: "direction", detail, outcome: tally.outcome(TOLERANCE) }
}

struct Claims<'a> {
    /// Unsimplified.
    gradient: Expr,
    how: &'a Preconditioner,
    done: &'a Preconditioned,
}

impl Claims<'_> {
    fn numbers(&self) -> [&Expr; 5] {
        [&self.how.curvature, &self.how.shift, &self.done.alpha, &self.done.scale, &self.done.scale_used]
    }

    /// The direction, query by query; nothing where the differences are not to be trusted.
    fn expected(&self, env: &Env) -> Result<Option<Tensor>, String> {
        let n = env.sizes.head;
        let Some(curvatures) = second_differences(&self.gradient, &inputs::q(), Axis::E, env)? else { return Ok(None) };
        let slope = slopes::value(&self.gradient, &inputs::q().axes, env)?;
        let numbers = self.numbers().map(|e| evaluate(e, env).map(|x| x.data[0]));
        let [a, b, alpha, scale, used] = numbers;
        let (a, b, alpha, ratio) = (a?, b?, alpha?, used? / scale?);
        let mut data = Vec::with_capacity(slope.data.len());
        for (curvature, g) in curvatures.iter().zip(slope.data.chunks(n)) {
            let identity = DMatrix::<f64>::identity(n, n);
            let remainder = (&identity * (alpha - b) - curvature * a) * ratio;
            let g = DVector::from_column_slice(g);
            let x = match &self.how.method {
                Method::Exact => {
                    let system = &identity * alpha - &remainder;
                    if linear::eigenvalues(&system).amin() < CONDITION {
                        return Ok(None);
                    }
                    linear::solve(&system, &g)
                }
                Method::Taylor { order, .. } => {
                    let series = |step: DMatrix<f64>| {
                        let terms = std::iter::successors(Some(g.clone()), |b| Some(&step * b));
                        terms.take(*order as usize + 1).fold(DVector::zeros(n), |sum, b| sum + b) / alpha
                    };
                    let step = remainder / alpha;
                    let (mut random, size) = (Random::new(0), step.amax());
                    let off = step.map(|x| x + INEXACT * size * (2.0 * random.uniform() - 1.0));
                    let (x, moved) = (series(step), series(off));
                    if x.iter().zip(&moved).any(|(x, y)| (x - y).abs() > 0.1 * TOLERANCE * (1.0 + x.abs())) {
                        return Ok(None);
                    }
                    x
                }
            };
            data.extend(x.iter().map(|x| -x));
        }
        Ok(Some(Tensor { data, ..slope }))
    }
}

/// The slope of a gradient along every component, a matrix for every query.
fn second_differences(
    gradient: &Expr,
    input: &Leaf,
    component: Axis,
    env: &Env,
) -> Result<Option<Vec<DMatrix<f64>>>, String> {
    let (queries, n) = (env.sizes.queries, env.sizes.length(component));
    let probe = Leaf::new(Role::Probe, 7, "basis", &[Axis::T, component], Sign::Unknown);
    let mut matrices = vec![DMatrix::zeros(n, n); queries];
    for j in 0..n {
        let mut env = env.clone();
        let basis = Tensor::build(&probe.axes, |a| env.sizes.length(a), |at| f64::from(u8::from(at[1] == j)));
        env.values.insert(probe.name.to_string(), basis);
        let Some(column) = slopes::directional(gradient, input, &probe, &env)? else { return Ok(None) };
        let column = slopes::along(&column, &probe.axes, &env);
        for (matrix, values) in matrices.iter_mut().zip(column.data.chunks(n)) {
            matrix.set_column(j, &DVector::from_column_slice(values));
        }
    }
    Ok(Some(matrices))
}

/// ∇²_z F · W1⁺ o = −∇_z F for an undamped exact solve.
pub fn in_z(parts: &Parts, how: &Preconditioner) -> Line {
    let name = "newton in z";
    let is_plain = how.method == Method::Exact && how.shift.is_zero() && how.curvature.is_one() && how.scale.is_none();
    if !is_plain {
        let reason = "the system is damped, scaled or truncated".to_string();
        return Line { name, detail: "Newton's equation in z".into(), outcome: Outcome::NotApplicable { reason } };
    }
    let direction = through_z(&tied(&parts.direction()));
    let gradient = through_z(&stable(parts.energy()));
    let gradient = calculus::gradient(&gradient, &inputs::z());
    let terms = vec![direction.clone(), gradient.clone()];
    let source = Source::new(terms, parts.norms()).of(&through_z(parts.energy()));
    // W1 W1⁺ is the identity when d_h ≤ d.
    let source = Source { wide: true, ..source };
    let tally = run(&source, |sample| newton_equation(&direction, &gradient, &sample.env));
    let detail = format!("W1⁺ times the direction solves ∇²F s = −∇F in z; {} samples with d_h ≤ d", tally.samples);
    Line { name, detail, outcome: tally.outcome(TOLERANCE) }
}

fn newton_equation(direction: &Expr, gradient: &Expr, env: &Env) -> Result<Option<Gap>, String> {
    let (n, d) = (env.sizes.head, env.sizes.model);
    let w1 = DMatrix::from_row_slice(n, d, &env.values[&*inputs::w1().name].data);
    let square = &w1 * w1.transpose();
    if linear::eigenvalues(&square).amin() < CONDITION {
        return Ok(None);
    }
    let Some(curvatures) = second_differences(gradient, &inputs::z(), Axis::C, env)? else { return Ok(None) };
    let slope = slopes::value(gradient, &inputs::z().axes, env)?;
    let o = slopes::value(direction, &inputs::q().axes, env)?;
    let mut data = Vec::with_capacity(slope.data.len());
    for (curvature, o) in curvatures.iter().zip(o.data.chunks(n)) {
        let step = w1.transpose() * linear::solve(&square, &DVector::from_column_slice(o));
        data.extend((curvature * step).iter().map(|x| -x));
    }
    let got = Tensor { data, ..slope.clone() };
    Ok(Some(gap("−∇²F s at ", &got, &slope, env.sizes)))
}
