//! The element functions against the standard library in double precision.

use energyc::primitives::real::Real;

/// The error of `got` in units of the spacing of f32 at the exact value.
fn ulps(got: f32, exact: f64) -> f64 {
    let near = (exact as f32).abs();
    let spacing = f64::from(f32::from_bits(near.to_bits() + 1)) - f64::from(near);
    (f64::from(got) - exact).abs() / spacing
}

/// Every `step`-th float from a to b (both of one sign), by bit pattern.
fn floats(a: f32, b: f32, step: usize) -> impl Iterator<Item = f32> {
    let (a, b) = (a.to_bits().min(b.to_bits()), a.to_bits().max(b.to_bits()));
    (a..=b).step_by(step).map(f32::from_bits)
}

#[test]
fn exponential_over_its_range() {
    let mut worst = (0.0, 0.0);
    let xs = floats(1e-12, 88.72283, 37).chain(floats(-1e-12, -87.33654, 37)).chain(floats(80.0, 88.72283, 1));
    for x in xs.chain(floats(-80.0, -87.33654, 1)) {
        let e = ulps(Real::exponential(x), f64::from(x).exp());
        if e > worst.0 {
            worst = (e, x);
        }
    }
    println!("exponential f32: worst {} ulp at {}", worst.0, worst.1);
    assert!(worst.0 <= 1.0);
}

/// Every float: about two minutes, so only on request.
#[test]
#[ignore]
fn every_float() {
    let worst = |f: fn(f32) -> f32, exact: fn(f64) -> f64, a: f32, b: f32| {
        floats(a, b, 1).map(|x| ulps(f(x), exact(f64::from(x)))).fold(0.0, f64::max)
    };
    let up = worst(Real::exponential, f64::exp, 1e-9, 88.72283);
    let down = worst(Real::exponential, f64::exp, -1e-9, -87.33654);
    let log = worst(Real::logarithm, f64::ln, f32::from_bits(1), f32::MAX);
    println!("every float: e^x {up} ulp above 0, {down} below; ln x {log}");
    assert!(up <= 1.05 && down <= 1.05 && log <= 1.05);
}

#[test]
fn exponential_at_the_edges() {
    for (x, y) in [
        (0.0, 1.0),
        (-0.0, 1.0),
        (f32::INFINITY, f32::INFINITY),
        (f32::NEG_INFINITY, 0.0),
        (88.7229, f32::INFINITY),
        (1e30, f32::INFINITY),
        (f32::MAX, f32::INFINITY),
        (-87.34, 0.0),
        (-104.0, 0.0),
        (-1e30, 0.0),
        (f32::MIN, 0.0),
        (1e-40, 1.0),
        (-1e-40, 1.0),
    ] {
        assert_eq!(Real::exponential(x), y, "e^{x}");
    }
    assert!(Real::exponential(f32::NAN).is_nan());
    assert!(Real::exponential(-f32::NAN).is_nan());
    assert!(Real::exponential(88.72283_f32).is_finite());
    assert!(Real::exponential(-87.33654_f32).is_normal());
    // Monotone around the edges: nothing but 0 below, infinity above.
    assert!(floats(-87.33655, -200.0, 1).skip(1).all(|x| Real::exponential(x) == 0.0));
    assert!(floats(88.72284, 200.0, 1).all(|x| Real::exponential(x) == f32::INFINITY));
}

#[test]
fn logarithm_over_its_range() {
    let mut worst = (0.0, 0.0);
    let xs = floats(f32::from_bits(1), f32::MAX, 101).chain(floats(0.5, 2.0, 1));
    for x in xs.chain((1..2000).map(f32::from_bits)) {
        let e = ulps(Real::logarithm(x), f64::from(x).ln());
        if e > worst.0 {
            worst = (e, x);
        }
    }
    println!("logarithm f32: worst {} ulp at {}", worst.0, worst.1);
    assert!(worst.0 <= 1.0);
    assert_eq!(Real::logarithm(1.0_f32), 0.0);
    assert_eq!(Real::logarithm(0.0_f32), f32::NEG_INFINITY);
    assert_eq!(Real::logarithm(-0.0_f32), f32::NEG_INFINITY);
    assert_eq!(Real::logarithm(f32::INFINITY), f32::INFINITY);
    for x in [-1.0, -1e-45, f32::MIN, f32::NEG_INFINITY, f32::NAN] {
        assert!(Real::logarithm(x).is_nan(), "ln {x}");
    }
}

/// The worst relative error of x^r over x where |r ln x| < bound.
fn worst_power(r: f64, bound: f64) -> f64 {
    floats(1e-37, 3e38, 4001)
        .chain(floats(0.5, 2.0, 501))
        .filter(|&x| (r * f64::from(x).ln()).abs() < bound)
        .map(|x| {
            let exact = f64::from(x).powf(r);
            (f64::from(x.power(r)) - exact).abs() / exact
        })
        .fold(0.0, f64::max)
}

#[test]
fn power_accuracy() {
    let mut small: f64 = 0.0;
    for r in [0.1, 0.3, 1.0 / 3.0, 0.5, 0.7, 1.2, 4.0 / 3.0, 1.5, 2.0, 2.7, 3.0, 3.5, 3.9, 4.0] {
        for r in [r, -r] {
            let e = worst_power(r, 80.0);
            println!("f32 x^{r:.4}: worst relative error {e:.2e}");
            small = small.max(e);
        }
    }
    let mut large: f64 = 0.0;
    for r in [5.3, 7.77, 9.0, 10.0, 12.5, 25.1, 31.0, 63.0, 63.5, 64.0, 65.0, 100.0, 101.3, 1000.1, 12345.6] {
        for r in [r, -r] {
            let e = worst_power(r, 80.0);
            println!("f32 x^{r:.4}: worst relative error {e:.2e}");
            large = large.max(e);
        }
    }
    println!("|r| <= 4: {small:.2e}, other r: {large:.2e}");
    assert!(small <= 4e-7 && large <= 1e-5);
}

fn power_edges<T: Real>() {
    let of = T::of;
    let is = |x: f64, r: f64, y: f64| {
        let got = of(x).power(r).to_f64();
        assert!((got - y).abs() <= 5e-6 * y.abs() || got == y, "{x}^{r} = {got}, not {y}");
    };
    for r in [1.0, -1.0, 0.5, -0.5, 0.3, -0.3, 2.0, -2.0, 70.0, -70.0, 71.0, -71.0, 1.25, -63.5] {
        is(0.0, r, 0.0);
        is(-0.0, r, 0.0);
        is(1.0, r, 1.0);
    }
    for x in [0.0, 3.0, -3.0, 1e30] {
        is(x, 0.0, 1.0);
    }
    for r in [0.5, -0.5, 1.5, 0.3, -0.3, 2.7, 100.25] {
        is(-2.0, r, 0.0);
        is(f64::NEG_INFINITY, r, 0.0);
        is(f64::INFINITY, r, if r > 0.0 { f64::INFINITY } else { 0.0 });
    }
    is(-2.0, 3.0, -8.0);
    is(-2.0, 2.0, 4.0);
    is(-2.0, -3.0, -0.125);
    is(-1.5, 65.0, -(1.5_f64.powi(65)));
    is(-1.5, 66.0, 1.5_f64.powi(66));
    is(-1.5, -65.0, -(1.5_f64.powi(-65)));
    is(4.0, 2.5, 32.0);
    is(4.0, -1.5, 0.125);
    is(1e30, 10.3, if of(1e300) == T::INFINITY { f64::INFINITY } else { 1e30_f64.powf(10.3) });
    is(1e30, -10.3, if of(1e300) == T::INFINITY { 0.0 } else { 1e30_f64.powf(-10.3) });
    for r in [2.0, 0.5, 0.3, -0.3, 65.0, -7.0] {
        assert!(of(f64::NAN).power(r).to_f64().is_nan(), "NaN^{r}");
    }
    assert_eq!(of(3.0).power(5.0), of(243.0));
    assert_eq!(of(-2.0).power(-3.0), of(-0.125));
    assert_eq!(of(0.0).power(0.0), of(1.0));
    let lanes = [0.0, 1.0, -2.0, 4.0].map(of);
    assert_eq!(T::powers(lanes, 1.5), [0.0, 1.0, 0.0, 8.0].map(of));
    assert_eq!(T::powers(lanes, -2.0), [0.0, 1.0, 0.25, 0.0625].map(of));
}

#[test]
fn total_power_at_the_edges() {
    power_edges::<f32>();
    power_edges::<f64>();
}

#[test]
fn power_of_denormal_and_flushed_results() {
    assert!((f64::from(1e-42_f32.power(0.3)) / f64::from(1e-42_f32).powf(0.3) - 1.0).abs() < 1e-6);
    for x in [1e-30_f32, 1e-20, 1e30, 1e-38] {
        for r in [1.3, -1.3, 1.26, 1.9, 4.7, -4.7] {
            let (got, exact) = (x.power(r), f64::from(x).powf(r) as f32);
            let close = (got - exact).abs() <= 1e-5 * exact.abs() + 1e-44;
            assert!(got == exact || close, "{x}^{r} = {got}, not {exact}");
        }
    }
}

fn simple_functions<T: Real>() {
    let of = T::of;
    assert_eq!([-3.0, -0.0, 0.0, 2.5].map(|x| of(x).signum0().to_f64()), [-1.0, 0.0, 0.0, 1.0]);
    assert_eq!(T::INFINITY.signum0(), T::ONE);
    assert_eq!((-T::INFINITY).signum0(), -T::ONE);
    assert!(of(f64::NAN).signum0().to_f64().is_nan());
    assert_eq!(of(-2.5).absolute(), of(2.5));
    assert_eq!((of(2.0).larger(of(3.0)), of(2.0).smaller(of(3.0))), (of(3.0), of(2.0)));
    assert_eq!((of(f64::NAN).larger(of(3.0)), of(f64::NAN).smaller(of(3.0))), (of(3.0), of(3.0)));
    assert_eq!(of(2.0).fused(of(3.0), of(4.0)), of(10.0));
    assert_eq!(of(2.25).square_root(), of(1.5));
    assert_eq!(T::ONE + T::EPSILON / of(2.0), T::ONE);
    assert!(T::ONE + T::EPSILON > T::ONE);
    assert!((of(1.0).exponential().to_f64() - std::f64::consts::E).abs() < 3e-7);
    assert!((of(10.0).logarithm().to_f64() - std::f64::consts::LN_10).abs() < 3e-7);
}

#[test]
fn simple_functions_of_both_types() {
    simple_functions::<f32>();
    simple_functions::<f64>();
}
