//! Registers of both kinds of numbers compute what single numbers do.

use energyc::primitives::lanes::{Lanes, Number};
use pulp::{Arch, Simd, WithSimd};

/// A function of lanes on an array.
struct Mapped<'a, N, F>(&'a [N], F);

impl<N: Number, F: OnLanes<N>> WithSimd for Mapped<'_, N, F> {
    type Output = Vec<N>;

    fn with_simd<S: Simd>(self, simd: S) -> Vec<N> {
        let mut out = vec![N::ZERO; self.0.len()];
        for at in Lanes::<S, N>::starts(simd, 0, self.0.len()) {
            self.1.apply(Lanes::load(simd, self.0, at)).store(&mut out, at);
        }
        out
    }
}

trait OnLanes<N: Number> {
    fn apply<S: Simd>(&self, x: Lanes<S, N>) -> Lanes<S, N>;
}

/// Every function, by its place.
#[derive(Clone, Copy, Debug)]
enum Function {
    Exponential,
    Logarithm,
    Sigmoid,
    Softplus,
    Tangent,
    TangentSlope,
    LogCosh,
    Log1Plus,
    ExpMinus1,
    SquareRoot,
    Reciprocal,
    Absolute,
    Sign,
    Power(f64),
}

const ALL: [Function; 22] = [
    Function::Exponential,
    Function::Logarithm,
    Function::Sigmoid,
    Function::Softplus,
    Function::Tangent,
    Function::TangentSlope,
    Function::LogCosh,
    Function::Log1Plus,
    Function::ExpMinus1,
    Function::SquareRoot,
    Function::Reciprocal,
    Function::Absolute,
    Function::Sign,
    Function::Power(2.0),
    Function::Power(3.0),
    Function::Power(-1.0),
    Function::Power(-2.0),
    Function::Power(0.5),
    Function::Power(-0.5),
    Function::Power(1.5),
    Function::Power(2.7),
    Function::Power(-7.0),
];

impl<N: Number> OnLanes<N> for Function {
    fn apply<S: Simd>(&self, x: Lanes<S, N>) -> Lanes<S, N> {
        match self {
            Function::Exponential => x.exponential(),
            Function::Logarithm => x.logarithm(),
            Function::Sigmoid => x.sigmoid(),
            Function::Softplus => x.softplus(),
            Function::Tangent => x.tangent(),
            Function::TangentSlope => x.tangent_slope(),
            Function::LogCosh => x.log_cosh(),
            Function::Log1Plus => x.log_1_plus(),
            Function::ExpMinus1 => x.exp_minus_1(),
            Function::SquareRoot => x.square_root(),
            Function::Reciprocal => x.reciprocal(),
            Function::Absolute => x.absolute(),
            Function::Sign => x.signum0(),
            Function::Power(r) => x.power(*r),
        }
    }
}

impl Function {
    /// The same by the standard library; nothing where the language gives it no value.
    fn expected(self, x: f64) -> Option<f64> {
        let total = |r: f64| match () {
            () if x == 0.0 => 0.0,
            () if x < 0.0 && r.fract() != 0.0 => 0.0,
            () => x.powf(r),
        };
        Some(match self {
            Function::Exponential => x.exp(),
            Function::Logarithm => return (x > 0.0).then(|| x.ln()),
            Function::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Function::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
            Function::Tangent => x.tanh(),
            Function::TangentSlope => x.cosh().powi(-2),
            Function::LogCosh => x.abs() + (-2.0 * x.abs()).exp().ln_1p() - std::f64::consts::LN_2,
            Function::Log1Plus => return (x > -1.0).then(|| x.ln_1p()),
            Function::ExpMinus1 => x.exp_m1(),
            Function::SquareRoot => x.max(0.0).sqrt(),
            Function::Reciprocal => total(-1.0),
            Function::Absolute => x.abs(),
            Function::Sign if x == 0.0 => 0.0,
            Function::Sign => x.signum(),
            Function::Power(r) => total(r),
        })
    }
}

fn points() -> Vec<f64> {
    let sizes = (-30..=6).flat_map(|e| [1.0, 1.37, 1.9].map(|c| c * f64::from(e).exp2()));
    sizes.flat_map(|x| [x, -x]).chain([0.0, -0.0, 87.0, -87.0]).collect()
}

/// Errors relative to the result, or to 1 for functions that subtract where the expected value does.
fn check<N: Number>(digits: f64) {
    let numbers: Vec<N> = points().into_iter().map(N::of).collect();
    for function in ALL {
        let got = Arch::new().dispatch(Mapped(&numbers, function));
        for (x, y) in numbers.iter().zip(got) {
            let x = x.to_f64();
            let Some(expected) = function.expected(x) else { continue };
            let y = y.to_f64();
            let is_out_of_range =
                N::of(expected).to_f64().is_infinite() || expected.abs() < 1e-37 && N::EPSILON.to_f64() > 1e-10;
            if is_out_of_range {
                continue;
            }
            // The formulas above lose digits near 0 themselves.
            let size = if matches!(function, Function::LogCosh) { expected.abs().max(1.0) } else { expected.abs() };
            let error = (y - expected).abs();
            assert!(error <= digits * size, "{function:?} of {x:e} is {y:e}, not {expected:e}");
        }
    }
}

#[test]
fn registers_of_single_precision_compute_functions() {
    check::<f32>(1e-5);
}

#[test]
fn registers_of_double_precision_compute_functions() {
    check::<f64>(4e-15);
}

#[test]
fn exponentials_in_double_precision_end_where_numbers_do() {
    let numbers = [710.0, 709.0, -708.0, -709.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0];
    let got = Arch::new().dispatch(Mapped(&numbers, Function::Exponential));
    assert_eq!(got[0], f64::INFINITY);
    assert!((got[1] / 709.0f64.exp() - 1.0).abs() < 1e-13 && (got[2] / (-708.0f64).exp() - 1.0).abs() < 1e-13);
    assert_eq!((got[3], got[4], got[5], got[7]), (0.0, f64::INFINITY, 0.0, 1.0));
    assert!(got[6].is_nan());
}
