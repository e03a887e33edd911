//! The smooth functions of kernels against double precision, from tiny numbers to where they are flat.

use energyc::primitives::real::Real;

/// The error of `got` in units of the spacing of f32 at the exact value, which is a normal number.
fn ulps(got: f32, exact: f64) -> f64 {
    let near = (exact as f32).abs();
    let spacing = f64::from(f32::from_bits(near.to_bits() + 1)) - f64::from(near);
    (f64::from(got) - exact).abs() / spacing
}

/// Numbers of both signs from 1e-30 to `largest`, close to one another on a logarithmic scale, and the tenths of integers.
fn numbers(largest: f32) -> Vec<f32> {
    let sizes = (1e-30_f32.to_bits()..=largest.to_bits()).step_by(1501).map(f32::from_bits);
    let tenths = (0..10 * largest as u32).map(|n| n as f32 / 10.0);
    sizes.chain(tenths).flat_map(|x| [x, -x]).collect()
}

/// The worst error where the result is normal; elsewhere it is as small as it should be.
fn worst(name: &str, f: fn(f32) -> f32, exact: fn(f64) -> f64, largest: f32) -> f64 {
    let (mut most, mut place) = (0.0, 0.0);
    for x in numbers(largest) {
        let (got, wanted) = (f(x), exact(f64::from(x)));
        if wanted.abs() < f64::from(f32::MIN_POSITIVE) {
            assert!(got.abs() <= f32::MIN_POSITIVE, "{name}({x}) = {got}");
            continue;
        }
        let error = ulps(got, wanted);
        assert!(error.is_finite(), "{name}({x}) = {got}, not {wanted}");
        if error > most {
            (most, place) = (error, x);
        }
    }
    println!("{name} f32: worst {most:.2} ulp at {place}");
    most
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

fn softplus(x: f64) -> f64 {
    if x < 0.0 { x.exp().ln_1p() } else { x + (-x).exp().ln_1p() }
}

fn slope(x: f64) -> f64 {
    1.0 / (x.cosh() * x.cosh())
}

fn log_cosh(x: f64) -> f64 {
    if x.abs() < 1.0 { (2.0 * (0.5 * x).sinh().powi(2)).ln_1p() } else { x.cosh().ln() }
}

#[test]
fn errors_are_a_few_ulp() {
    assert!(worst("sigmoid", Real::sigmoid, sigmoid, 100.0) <= 3.0);
    assert!(worst("softplus", Real::softplus, softplus, 100.0) <= 3.0);
    assert!(worst("tanh", Real::tangent, f64::tanh, 100.0) <= 4.0);
    assert!(worst("1 - tanh^2", Real::tangent_slope, slope, 100.0) <= 5.0);
    assert!(worst("log cosh", Real::log_cosh, log_cosh, 100.0) <= 6.0);
    assert!(worst("e^x - 1", Real::exp_minus_1, f64::exp_m1, 88.0) <= 3.0);
    assert!(worst("log(1 + x)", Real::log_1_plus, f64::ln_1p, 0.99) <= 3.0);
    let large = |x: f32| ulps(x.log_1_plus(), f64::from(x).ln_1p());
    assert!(
        (0..3000).map(|n| 1.01_f32 * 1.02_f32.powi(n)).filter(|x| x.is_finite()).map(large).fold(0.0, f64::max) <= 3.0
    );
}

#[test]
fn the_edges() {
    for x in [f32::MAX, f32::INFINITY] {
        assert_eq!([x.sigmoid(), (-x).sigmoid()], [1.0, 0.0]);
        assert_eq!([x.softplus(), (-x).softplus()], [x, 0.0]);
        assert_eq!([x.tangent(), (-x).tangent()], [1.0, -1.0]);
        assert_eq!([x.tangent_slope(), (-x).tangent_slope()], [0.0, 0.0]);
        assert_eq!([x.log_cosh(), (-x).log_cosh()], [x, x]);
        assert_eq!((-x).exp_minus_1(), -1.0);
    }
    assert_eq!(f32::INFINITY.log_1_plus(), f32::INFINITY);
    assert_eq!((-1.0_f32).log_1_plus(), f32::NEG_INFINITY);
    assert!((-1.5_f32).log_1_plus().is_nan());
    for f in [Real::sigmoid, Real::softplus, Real::tangent, Real::tangent_slope, Real::log_cosh, Real::exp_minus_1] {
        let f: fn(f32) -> f32 = f;
        assert!(f(f32::NAN).is_nan());
    }
    for f in [Real::tangent, Real::log_cosh, Real::log_1_plus, Real::exp_minus_1] {
        let f: fn(f32) -> f32 = f;
        assert_eq!(f(0.0), 0.0);
    }
}

#[test]
fn double_precision_agrees() {
    let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-14 * b.abs(), "{a} and {b}");
    for x in [-300.0, -20.0, -1.5, -0.3, -1e-9, 1e-9, 0.7, 2.0, 40.0, 300.0] {
        near(Real::sigmoid(x), sigmoid(x));
        near(Real::softplus(x), softplus(x));
        near(Real::tangent(x), x.tanh());
        near(Real::tangent_slope(x), slope(x));
        near(Real::log_cosh(x), log_cosh(x));
    }
}
