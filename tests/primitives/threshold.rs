//! Row thresholds against bisection in double precision.

use energyc::primitives::real::Real;
use energyc::primitives::threshold::{norm, norm_below_max, tsallis, tsallis_below_max};

/// Uniform numbers in [0, 1).
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

fn normal(state: &mut u64) -> f64 {
    let (a, b) = (uniform(state).max(1e-300), uniform(state));
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// sum [d_i - t]_+^p, with the rounding of the additions carried along.
fn sum_above(d: &[f64], t: f64, p: f64) -> f64 {
    let (mut sum, mut lost) = (0.0, 0.0);
    for v in d.iter().filter(|&&x| x > t).map(|&x| (x - t).powf(p)) {
        let next = sum + v;
        lost += if sum > v { (sum - next) + v } else { (v - next) + sum };
        sum = next;
    }
    sum + lost
}

/// The exponent meant by a rounded one: 1 / (1.1 - 1) is 10.
fn exponent(p: f64) -> f64 {
    if (p - p.round()).abs() < 1e-9 * p { p.round() } else { p }
}

/// The t below the maximum by bisection over d = scale (s - max).
fn reference(d: &[f64], p: f64) -> f64 {
    let (mut low, mut high) = (-1.0, 0.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if sum_above(d, middle, p) >= 1.0 { low = middle } else { high = middle }
    }
    low
}

/// Rows of every shape: random, ties, all equal, far from 0, one outlier, one entry, nearly equal, geometric.
fn rows() -> Vec<Vec<f64>> {
    let mut state = 11;
    let mut rows = vec![vec![0.0], vec![-3.5], vec![1e4], vec![1.0, 1.0], vec![0.0, -1.0], vec![0.0, -0.5, -1.0, -2.0]];
    for n in [2, 3, 5, 15, 16, 17, 31, 64, 100, 255, 256, 700, 2048] {
        for spread in [0.01, 0.3, 1.0, 4.0] {
            rows.push((0..n).map(|_| spread * normal(&mut state)).collect());
        }
        rows.push((0..n).map(|_| (4.0 * uniform(&mut state)).floor() / 4.0).collect());
        rows.push(vec![0.7; n]);
        rows.push((0..n).map(|_| 1e4 + normal(&mut state)).collect());
        rows.push((0..n).map(|_| -1e4 + normal(&mut state)).collect());
        rows.push((0..n).map(|_| 1e4 * normal(&mut state)).collect());
        rows.push((0..n).map(|i| if i == n / 2 { 50.0 } else { normal(&mut state) }).collect());
        rows.push((0..n).map(|i| if i == n / 2 { 0.9 } else { 0.0 }).collect());
        rows.push((0..n).map(|i| -1.0 + 0.75_f64.powi(i as i32)).collect());
        rows.push((0..n).map(|i| -(0.75_f64.powi(i as i32))).collect());
        rows.push((0..n).map(|i| -(i as f64) / n as f64).collect());
    }
    rows
}

struct Worst {
    sum: f64,
    t: f64,
}

/// Checks one row: the sum at the found t, and t itself, against double precision on the same d.
fn check<T: Real>(name: &str, row: &[f64], scale: f64, p: f64, found: (T, T), tau: T, worst: &mut Worst) {
    let scores: Vec<T> = row.iter().map(|&x| T::of(x)).collect();
    let (max, t) = found;
    assert_eq!(max.to_f64(), scores.iter().map(|s| s.to_f64()).fold(f64::MIN, f64::max));
    // What a kernel computes from the pair, in its own precision up to d.
    let d: Vec<f64> = scores.iter().map(|&s| (T::of(scale) * (s - max)).to_f64()).collect();
    let (t, exact) = (t.to_f64(), reference(&d, p));
    let sum_error = (sum_above(&d, t, p) - 1.0).abs();
    let t_error = (t - exact).abs();
    let eps = T::EPSILON.to_f64();
    // A sum may be off by rounding, or by what two spacings of t makes of it (large for a large p, and for p < 1).
    // In double precision the reference has rounding of its own.
    let slack = if eps < 1e-10 { 2.0 } else { 1.0 };
    let fine = sum_error <= 10.0 * slack * eps || t_error <= 2.0 * slack * eps * exact.abs();
    let head = &row[..row.len().min(8)];
    assert!(fine, "{name}, n = {}: sum off by {sum_error:.2e}, t = {t}, not {exact}, {head:?}", row.len());
    assert!(t_error <= 16.0 * eps, "{name}: t = {t}, not {exact}");
    let expected = scale * max.to_f64() + exact;
    assert!((tau.to_f64() - expected).abs() <= 2.0 * eps * (expected.abs() + 1.0), "{name}: tau {tau:?}");
    if p >= 1.0 {
        worst.sum = worst.sum.max(sum_error / eps);
    }
    worst.t = worst.t.max(t_error / eps);
}

fn all_rows<T: Real>() {
    let mut scratch = Vec::new();
    for alpha in [1.01, 1.1, 1.25, 1.4, 1.5, 1.75, 1.95, 2.0, 2.2, 3.0, 5.0] {
        let mut worst = Worst { sum: 0.0, t: 0.0 };
        for row in rows() {
            let scores: Vec<T> = row.iter().map(|&x| T::of(x)).collect();
            let found = tsallis_below_max(&scores, alpha, &mut scratch);
            let tau = tsallis(&scores, alpha, &mut scratch);
            let p = exponent(1.0 / (alpha - 1.0));
            check(&format!("alpha {alpha}"), &row, alpha - 1.0, p, found, tau, &mut worst);
        }
        println!("alpha {alpha}: sum within {:.1}, t within {:.1} EPSILON", worst.sum, worst.t);
    }
    for gamma in [1.05, 1.5, 2.0, 2.5, 3.0, 4.0, 20.0] {
        let mut worst = Worst { sum: 0.0, t: 0.0 };
        for row in rows() {
            let scores: Vec<T> = row.iter().map(|&x| T::of(x)).collect();
            let found = norm_below_max(&scores, gamma, &mut scratch);
            let p = exponent(gamma / (gamma - 1.0));
            let tau = norm(&scores, gamma, &mut scratch);
            check(&format!("gamma {gamma}"), &row, 1.0, p, found, tau, &mut worst);
        }
        println!("gamma {gamma}: sum within {:.1}, t within {:.1} EPSILON", worst.sum, worst.t);
    }
}

#[test]
fn single_precision_rows() {
    all_rows::<f32>();
}

#[test]
fn double_precision_rows() {
    all_rows::<f64>();
}

#[test]
fn one_entry_and_equal_entries() {
    let mut scratch = Vec::new();
    for alpha in [1.1, 1.25, 1.5, 1.75, 2.0, 3.0] {
        assert!((tsallis(&[2.0], alpha, &mut scratch) - ((alpha - 1.0) * 2.0 - 1.0)).abs() < 1e-15);
    }
    // Four equal weights of 1/4.
    assert!((tsallis(&[3.0; 4], 2.0, &mut scratch) - 2.75).abs() < 1e-15);
    assert!((tsallis(&[3.0; 4], 1.5, &mut scratch) - 1.0).abs() < 1e-15);
    assert!((norm(&[3.0; 4], 2.0, &mut scratch) - 2.5).abs() < 1e-15);
}

#[test]
fn masked_and_degenerate_rows_return() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let mut scratch = Vec::new();
    type Threshold = fn(&[f32], f64, &mut Vec<f32>) -> f32;
    for threshold in [tsallis as Threshold, norm as Threshold] {
        for order in [1.000001, 1.1, 1.3, 1.5, 2.0, 2.5, 3.0, 7.3, 1e6] {
            let mut run = |row: &[f32]| threshold(row, order, &mut scratch);
            assert_eq!(run(&[]), 0.0);
            for n in [1, 5, 16, 40] {
                assert_eq!(run(&vec![-inf; n]), 0.0);
                assert_eq!(run(&vec![nan; n]), 0.0);
                assert_eq!(run(&vec![inf; n]), inf);
            }
            // A mask does not change the threshold of the rest.
            let open = run(&[0.3, 0.1, -0.2]);
            assert_eq!(run(&[-inf, 0.3, -inf, 0.1, -0.2]), open);
            assert_eq!(run(&[nan, 0.3, 0.1, nan, -0.2]), open);
            run(&[f32::MAX, f32::MIN, 0.0]);
            run(&[f32::MIN, f32::MIN]);
            run(&[inf, -inf, nan, 1.0]);
            run(&[1e-45, 0.0, -1e-45]);
        }
        for order in [f64::NAN, f64::INFINITY, 1.0, 0.5, 0.0, -3.0] {
            threshold(&[0.3, 0.1, -0.2], order, &mut scratch);
        }
    }
}

#[test]
fn random_rows_in_bulk() {
    let (mut state, mut scratch) = (5, Vec::new());
    let mut worst = [0.0_f64; 4];
    for trial in 0..4000 {
        let n = 1 + (uniform(&mut state) * 300.0) as usize;
        let spread = 10.0_f64.powf(3.0 * uniform(&mut state) - 2.0);
        let scores: Vec<f32> = (0..n).map(|_| (spread * normal(&mut state)) as f32).collect();
        for (k, alpha) in [1.25, 1.5, 1.75, 2.0].into_iter().enumerate() {
            let (max, t) = tsallis_below_max(&scores, alpha, &mut scratch);
            let d: Vec<f64> = scores.iter().map(|&s| f64::from((alpha - 1.0) as f32 * (s - max))).collect();
            let error = (sum_above(&d, f64::from(t), 1.0 / (alpha - 1.0)) - 1.0).abs();
            worst[k] = worst[k].max(error);
            assert!(error < 1.2e-6, "trial {trial}, alpha {alpha}, n {n}: {error}");
        }
    }
    println!("worst sums off by {worst:?}");
}
