//! Linear systems against their residuals, and singular ones.

use energyc::primitives::real::Real;
use energyc::primitives::solve::solve;

/// Uniform numbers in [-1, 1).
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

fn residuals<T: Real>() {
    let mut state = 7;
    let mut worst: f64 = 0.0;
    for n in [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 64, 100] {
        for scale in [1.0, 1e-12, 1e12] {
            let a: Vec<T> = (0..n * n).map(|_| T::of(scale * uniform(&mut state))).collect();
            let b: Vec<T> = (0..n).map(|_| T::of(uniform(&mut state))).collect();
            let (mut lu, mut x) = (a.clone(), b.clone());
            assert!(solve(&mut lu, &mut x, n), "n = {n}");
            // The backward error: |A x - b| / (|A| |x| + |b|).
            for i in 0..n {
                let terms = (0..n).map(|j| a[i * n + j].to_f64() * x[j].to_f64());
                let (sum, size) = terms.fold((0.0, 0.0), |(s, t), v| (s + v, t + v.abs()));
                let error = (sum - b[i].to_f64()).abs() / (size + b[i].to_f64().abs());
                worst = worst.max(error / (T::EPSILON.to_f64() * (n as f64).sqrt()));
            }
        }
    }
    println!("backward error: {worst} EPSILON sqrt(n)");
    assert!(worst < 8.0);
}

#[test]
fn residuals_are_rounding() {
    residuals::<f32>();
    residuals::<f64>();
}

fn refused<T: Real>(matrix: &[f64], n: usize) {
    let mut a: Vec<T> = matrix.iter().map(|&x| T::of(x)).collect();
    let mut b = vec![T::ONE; n];
    assert!(!solve(&mut a, &mut b, n), "{matrix:?}");
    assert_eq!(b, vec![T::ZERO; n]);
}

#[test]
fn singular_matrices_give_0() {
    for matrix in [
        vec![0.0],
        vec![f64::NAN],
        vec![f64::INFINITY],
        vec![0.0; 4],
        vec![1.0, 2.0, 2.0, 4.0],
        vec![1.0, f64::NAN, 0.0, 1.0],
        vec![1.0, f64::NEG_INFINITY, 0.0, 1.0],
        vec![1.0, 0.0, 0.0, 1e-18],
        vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    ] {
        let n = (matrix.len() as f64).sqrt() as usize;
        refused::<f32>(&matrix, n);
        refused::<f64>(&matrix, n);
    }
    // Rank n - 1 with rounding in every entry.
    let mut state = 3;
    for n in [3, 8, 20, 50] {
        let mut rows: Vec<Vec<f64>> = (1..n).map(|_| (0..n).map(|_| uniform(&mut state)).collect()).collect();
        let last = (0..n).map(|j| rows.iter().map(|r| r[j]).sum::<f64>() / n as f64).collect();
        rows.push(last);
        refused::<f64>(&rows.concat(), n);
    }
}

#[test]
fn small_systems_by_hand() {
    let mut b = [3.0, 5.0];
    assert!(solve(&mut [0.0, 1.0, 1.0, 0.0], &mut b, 2));
    assert_eq!(b, [5.0, 3.0]);
    let mut b = [6.0_f32];
    assert!(solve(&mut [2.0], &mut b, 1));
    assert_eq!(b, [3.0]);
    assert!(solve::<f64>(&mut [], &mut [], 0));
    // Tiny but well-conditioned: relative, not absolute, size decides.
    let mut b = [1.0, 1.0];
    assert!(solve(&mut [1e-200, 0.0, 0.0, 2e-200], &mut b, 2));
    // A slice longer than the system is left alone behind it.
    let mut b = [1.0, 7.0];
    assert!(solve(&mut [2.0, 9.0, 9.0], &mut b, 1));
    assert_eq!(b, [0.5, 7.0]);
}
