//! Whether a difference of means is more than the noise of seeds: Welch's t-test.
//!
//! ```text
//! t = (m₁ − m₂)/√(s₁²/n₁ + s₂²/n₂),  ν = (s₁²/n₁ + s₂²/n₂)² / ((s₁²/n₁)²/(n₁ − 1) + (s₂²/n₂)²/(n₂ − 1))
//! p = P(|T_ν| ≥ |t|) = I_x(ν/2, 1/2) at x = ν/(ν + t²)
//! ```

use serde::Serialize;

/// A mean, the deviation of the numbers around it (with n − 1), and how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    pub mean: f64,
    /// There is none for a single number.
    pub deviation: Option<f64>,
    pub count: usize,
}

impl Sample {
    /// Of at least one number.
    pub fn of(numbers: &[f64]) -> Option<Sample> {
        let count = numbers.len();
        if count == 0 {
            return None;
        }
        let mean = numbers.iter().sum::<f64>() / count as f64;
        let squares: f64 = numbers.iter().map(|x| (x - mean).powi(2)).sum();
        let deviation = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        Some(Sample { mean, deviation, count })
    }

    /// s²/n.
    fn variance_of_mean(&self) -> Option<f64> {
        self.deviation.map(|deviation| deviation * deviation / self.count as f64)
    }
}

/// What the test says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Welch {
    pub t: f64,
    pub degrees_of_freedom: f64,
    /// Two-sided.
    pub p: f64,
}

/// The test of two samples; nothing if one has a single number, or if no number differs from its mean.
pub fn welch(a: &Sample, b: &Sample) -> Option<Welch> {
    let (va, vb) = (a.variance_of_mean()?, b.variance_of_mean()?);
    let variance = va + vb;
    let share = va * va / (a.count - 1) as f64 + vb * vb / (b.count - 1) as f64;
    if !(variance > 0.0 && share > 0.0) {
        return None;
    }
    let t = (a.mean - b.mean) / variance.sqrt();
    let degrees_of_freedom = variance * variance / share;
    Some(Welch { t, degrees_of_freedom, p: two_sided(t, degrees_of_freedom) })
}

/// P(|T| ≥ |t|) of Student's distribution.
pub fn two_sided(t: f64, degrees_of_freedom: f64) -> f64 {
    incomplete_beta(degrees_of_freedom / (degrees_of_freedom + t * t), degrees_of_freedom / 2.0, 0.5)
}

/// I_x(a, b) = 1/B(a, b) ∫₀ˣ uᵃ⁻¹ (1 − u)ᵇ⁻¹ du for a, b > 0.
pub fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x.is_nan() || x <= 0.0 {
        return if x.is_nan() { x } else { 0.0 };
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast on this side; on the other, I_x(a, b) = 1 − I_(1−x)(b, a).
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    front.exp() / (a * fraction(x, a, b))
}

/// 1 + d₁/(1 + d₂/(1 + …)) from the inside out, with
/// d_(2m) = m(b − m)x/((a + 2m − 1)(a + 2m)), d_(2m+1) = −(a + m)(a + b + m)x/((a + 2m)(a + 2m + 1)).
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    /// Enough for a, b far above what seeds are: some √(a + b) terms count.
    const TERMS: u32 = 400;
    (1..=TERMS).rev().fold(1.0, |inner, k| {
        let m = f64::from(k / 2);
        let d = match k % 2 {
            0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        1.0 + d / inner
    })
}

/// ln Γ(x) for x > 0, by Stirling's series at x + 12 and Γ(x + 1) = xΓ(x).
fn ln_gamma(x: f64) -> f64 {
    const SHIFT: u32 = 12;
    let below: f64 = (0..SHIFT).map(|k| (x + f64::from(k)).ln()).sum();
    let y = x + f64::from(SHIFT);
    let series = 1.0 / (12.0 * y) - 1.0 / (360.0 * y.powi(3)) + 1.0 / (1260.0 * y.powi(5)) - 1.0 / (1680.0 * y.powi(7));
    (y - 0.5) * y.ln() - y + 0.5 * std::f64::consts::TAU.ln() + series - below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-12 * wanted.abs().max(1.0), "{found} and not {wanted}");
    }

    #[test]
    fn ln_gamma_has_its_known_values() {
        check(ln_gamma(1.0), 0.0);
        check(ln_gamma(5.0), 24f64.ln());
        check(ln_gamma(0.5), 0.5 * std::f64::consts::PI.ln());
    }

    /// I_x(1, b) = 1 − (1 − x)ᵇ, I_x(a, 1) = xᵃ, I_½(a, a) = ½.
    #[test]
    fn the_incomplete_beta_function_has_its_closed_forms() {
        for x in [0.01, 0.3, 0.7, 0.99] {
            check(incomplete_beta(x, 1.0, 3.5), 1.0 - (1.0f64 - x).powf(3.5));
            check(incomplete_beta(x, 4.0, 1.0), x.powi(4));
        }
        for a in [0.5, 2.0, 30.0] {
            check(incomplete_beta(0.5, a, a), 0.5);
        }
        assert_eq!([incomplete_beta(0.0, 2.0, 3.0), incomplete_beta(1.0, 2.0, 3.0)], [0.0, 1.0]);
    }

    /// Student's distribution in closed form: ν = 1 is Cauchy's, ν = 2 has P(|T| ≥ t) = 1 − t/√(2 + t²).
    #[test]
    fn two_sided_probabilities_have_their_closed_forms() {
        for t in [0.1f64, 1.0, 2.5, 12.0] {
            check(two_sided(t, 1.0), 1.0 - 2.0 / std::f64::consts::PI * t.atan());
            check(two_sided(-t, 2.0), 1.0 - t / (2.0 + t * t).sqrt());
        }
    }
}
