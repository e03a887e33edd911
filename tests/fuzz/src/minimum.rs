//! The regularized minima: min over p on the simplex of Σ p E − T·H(p) = −T·V(s), s = −E/T, V(s) = max Σ p s + H(p).
//!
//! ```text
//! Tsallis   H(p) = Σ (p − p^α)/(α(α − 1))    p = [(α − 1)(s − τ)]₊^(1/(α − 1)),            τ with Σ p = 1
//! norm      H(p) = 1 − ‖p‖_γ                 p = w/Σw,  w = (s − τ)₊^(1/(γ − 1)),          τ with Σ (s − τ)₊^(γ/(γ − 1)) = 1
//! ```
//! The threshold τ is found by bisection on plain numbers. On the tape it is the result of Newton's method started
//! there: nothing changes in its value, and n steps give it the right derivatives up to the order 2ⁿ − 1.

use crate::tape::{Tape, Var};
use crate::tree::Entropy;

/// V(s), on the tape.
pub fn smooth_maximum(tape: &mut Tape, entropy: Entropy, shape: f64, scores: &[Var]) -> Var {
    // Σ (factor·(s − τ)₊)^power = 1.
    let (factor, power) = match entropy {
        Entropy::Tsallis => (shape - 1.0, 1.0 / (shape - 1.0)),
        Entropy::Norm => (1.0, shape / (shape - 1.0)),
    };
    let values = tape.values(scores);
    let start = threshold(&values, factor, power);
    let tau = tape.constant(start);
    for score in scores {
        let above = tape.subtract(*score, tau);
        tape.kink(above);
    }
    let support: Vec<Var> = scores.iter().copied().filter(|s| tape.value(*s) > start).collect();
    scores.iter().for_each(|s| tape.choose(u64::from(tape.value(*s) > start)));
    let mut tau = tau;
    for _ in 0..3 {
        tau = newton(tape, &support, tau, factor, power);
    }
    let bases: Vec<Var> = support
        .iter()
        .map(|s| {
            let above = tape.subtract(*s, tau);
            tape.scale(above, factor)
        })
        .collect();
    match entropy {
        Entropy::Tsallis => {
            let p: Vec<Var> = bases.iter().map(|x| tape.power(*x, power)).collect();
            let gain = tape.dot(&p, &support);
            let parts: Vec<Var> = p
                .iter()
                .map(|p| {
                    let power = tape.power(*p, shape);
                    tape.subtract(*p, power)
                })
                .collect();
            let sum = tape.sum(parts);
            let entropy = tape.scale(sum, 1.0 / (shape * (shape - 1.0)));
            tape.add(gain, entropy)
        }
        Entropy::Norm => {
            let w: Vec<Var> = bases.iter().map(|x| tape.power(*x, 1.0 / (shape - 1.0))).collect();
            let total = tape.sum(w.iter().copied());
            let p: Vec<Var> = w.iter().map(|w| tape.divide(*w, total)).collect();
            let gain = tape.dot(&p, &support);
            let powers: Vec<Var> = p.iter().map(|p| tape.power(*p, shape)).collect();
            let sum = tape.sum(powers);
            let norm = tape.power(sum, 1.0 / shape);
            let one = tape.constant(1.0);
            let entropy = tape.subtract(one, norm);
            tape.add(gain, entropy)
        }
    }
}

/// τ with Σ (factor·(s − τ)₊)^power = 1; the left side falls in τ.
fn threshold(scores: &[f64], factor: f64, power: f64) -> f64 {
    let top = scores.iter().fold(f64::NEG_INFINITY, |m, s| m.max(*s));
    let (mut low, mut high) = (top - 1.0 / factor, top);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        let sum: f64 = scores.iter().map(|s| (factor * (s - middle).max(0.0)).powf(power)).sum();
        if sum >= 1.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// τ − f(τ)/f′(τ) with f = Σ (factor·(s − τ))^power − 1.
fn newton(tape: &mut Tape, support: &[Var], tau: Var, factor: f64, power: f64) -> Var {
    let (mut sum, mut slope) = (tape.constant(-1.0), tape.constant(0.0));
    for score in support {
        let above = tape.subtract(*score, tau);
        let base = tape.scale(above, factor);
        let value = tape.power(base, power);
        let lower = tape.power(base, power - 1.0);
        let part = tape.scale(lower, -factor * power);
        sum = tape.add(sum, value);
        slope = tape.add(slope, part);
    }
    let step = tape.divide(sum, slope);
    tape.subtract(tau, step)
}
