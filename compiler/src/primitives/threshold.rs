//! The threshold of a sparse row: the one number that makes the positive parts above it, raised to a power, sum to 1.
//! A row of probabilities needs it once, so it is found by a few passes over the entries that can be in the support.
//!
//! Everything is measured from the row maximum: with d_i = scale (s_i - max s) <= 0 the threshold is scale * max s + t,
//! where S_p(t) = sum_i [d_i - t]_+^p = 1. The maximum alone gives S_p(-1) >= 1, so t >= -1 and only the candidates
//! d_i > -1 matter; K candidates give 1 = S_p(t) <= K (-t)^p, so t <= -K^(-1/p).
//!
//! All searches step by Newton's rule on the p-norm S_p^(1/p), a convex function of t for p >= 1: from the left they
//! never pass the solution. The step is h = (S_p - S_p^(1-1/p)) / S_{p-1}.

use super::real::Real;

/// Candidates are padded to whole blocks of this many lanes.
const LANES: usize = 16;
/// The length of the stretches that are summed on their own.
const STRETCH: usize = 16 * LANES;
/// A bound on the passes of every search; they end long before it unless the numbers are degenerate.
const PASSES: usize = 120;

/// tau with sum_i [(alpha-1) s_i - tau]_+^(1/(alpha-1)) = 1, for alpha > 1.
///
/// The support is found exactly for alpha = 1.5 and 2; tau is found to rounding for the others. NaN entries are left
/// out, an empty row and a row without an entry above -infinity give 0, an infinite entry gives infinity. `scratch`
/// holds the candidates and may be reused for any row.
#[inline(always)]
pub fn tsallis<T: Real>(scores: &[T], alpha: f64, scratch: &mut Vec<T>) -> T {
    let (max, t) = tsallis_below_max(scores, alpha, scratch);
    max.fused(T::of(alpha - 1.0), t)
}

/// [`tsallis`] as the pair (max, t) with tau = (alpha-1) max + t: the weights are [(alpha-1) (s_i - max) - t]_+^p.
///
/// This form keeps its accuracy when the scores are large, where tau itself is rounded to their spacing: t is within
/// EPSILON of the exact one. The sum is then 1 within a few EPSILON on common rows, and as close to 1 as the spacing of
/// t allows where many entries are just above the threshold.
#[inline(always)]
pub fn tsallis_below_max<T: Real>(scores: &[T], alpha: f64, scratch: &mut Vec<T>) -> (T, T) {
    below_max(scores, T::of(alpha - 1.0), snapped(1.0 / (alpha - 1.0)), scratch)
}

/// tau with sum_i [s_i - tau]_+^(gamma/(gamma-1)) = 1, for gamma > 1; the support is found exactly for gamma = 2.
///
/// Entries that are not finite are treated as by [`tsallis`].
#[inline(always)]
pub fn norm<T: Real>(scores: &[T], gamma: f64, scratch: &mut Vec<T>) -> T {
    let (max, t) = norm_below_max(scores, gamma, scratch);
    max + t
}

/// [`norm`] as the pair (max, t) with tau = max + t: the weights are [(s_i - max) - t]_+^(gamma/(gamma-1)).
#[inline(always)]
pub fn norm_below_max<T: Real>(scores: &[T], gamma: f64, scratch: &mut Vec<T>) -> (T, T) {
    below_max(scores, T::ONE, snapped(gamma / (gamma - 1.0)), scratch)
}

/// An exponent within rounding of a multiple of 1/2 is that multiple: 1/(1.1 - 1) means 10.
#[inline(always)]
fn snapped(p: f64) -> f64 {
    let near = (2.0 * p).round() / 2.0;
    if (p - near).abs() <= 1e-9 * p { near } else { p }
}

/// The row maximum and the t below it with S_p(t) = 1.
#[inline(always)]
fn below_max<T: Real>(scores: &[T], scale: T, p: f64, scratch: &mut Vec<T>) -> (T, T) {
    let max = maximum(scores);
    if max == -T::INFINITY {
        return (T::ZERO, T::ZERO);
    }
    if max == T::INFINITY {
        return (max, T::ZERO);
    }
    let candidates = filter(scores, max, scale, scratch);
    let t = if p == 1.0 {
        linear(candidates)
    } else if p == 2.0 {
        quadratic(candidates)
    } else {
        general(candidates, p)
    };
    (max, t)
}

/// The largest entry, NaN left out; -infinity for an empty row.
#[inline(always)]
fn maximum<T: Real>(scores: &[T]) -> T {
    let blocks = scores.chunks_exact(LANES);
    let tail = blocks.remainder().iter().fold(-T::INFINITY, |max, &x| x.larger(max));
    let mut lanes = [-T::INFINITY; LANES];
    for block in blocks {
        for i in 0..LANES {
            lanes[i] = block[i].larger(lanes[i]);
        }
    }
    lanes.iter().fold(tail, |max, &x| x.larger(max))
}

/// The candidates d_i = scale (s_i - max) > -1, padded to whole blocks with entries below every threshold.
#[inline(always)]
fn filter<'a, T: Real>(scores: &[T], max: T, scale: T, scratch: &'a mut Vec<T>) -> &'a [T] {
    let room = scores.len() + LANES;
    if scratch.len() < room {
        scratch.resize(room, T::ZERO);
    }
    let kept = &mut scratch[..room];
    let mut count = 0;
    let blocks = scores.chunks_exact(LANES);
    let tail = blocks.remainder();
    for block in blocks {
        let d: [T; LANES] = std::array::from_fn(|i| scale * (block[i] - max));
        // Most blocks of a long row hold no candidate.
        if d.iter().fold(false, |any, &x| any | (x > -T::ONE)) {
            count = keep(&d, kept, count);
        }
    }
    for &s in tail {
        count = keep(&[scale * (s - max)], kept, count);
    }
    let padded = count.next_multiple_of(LANES);
    kept[count..padded].fill(-T::INFINITY);
    &kept[..padded]
}

/// Appends the candidates among d to the first `count` kept ones, without branches; returns the new count.
#[inline(always)]
fn keep<T: Real>(d: &[T], kept: &mut [T], mut count: usize) -> usize {
    for &x in d {
        kept[count] = x;
        count += usize::from(x > -T::ONE);
    }
    count
}

/// What one pass finds out about the support of t, with u_i = [d_i - t]_+.
struct Pass<T> {
    /// The size of the support.
    count: T,
    /// The sum of the first power a: of u_i, or of u_i^(p-1).
    lower: T,
    /// The sum of the second power b: of u_i^2, or of u_i^p.
    upper: T,
    /// The smallest positive u_i.
    least: T,
}

/// One pass over the candidates: count, sum of a_i, sum of a_i u_i and least u_i, with the lanes a = `lower`(u).
#[inline(always)]
fn pass<T: Real>(candidates: &[T], t: T, lower: impl Fn([T; LANES]) -> [T; LANES]) -> Pass<T> {
    let mut count = [T::ZERO; LANES];
    let mut first = [T::ZERO; LANES];
    let mut second = [T::ZERO; LANES];
    let mut least = [T::INFINITY; LANES];
    // The sums of short stretches are added up, so that rounding does not grow with the length of the row.
    for stretch in candidates.chunks(STRETCH) {
        let mut first_here = [T::ZERO; LANES];
        let mut second_here = [T::ZERO; LANES];
        for block in stretch.chunks_exact(LANES) {
            let mut u = [T::ZERO; LANES];
            for i in 0..LANES {
                u[i] = (block[i] - t).larger(T::ZERO);
            }
            let a = lower(u);
            for i in 0..LANES {
                let inside = u[i] > T::ZERO;
                count[i] += if inside { T::ONE } else { T::ZERO };
                first_here[i] += a[i];
                second_here[i] = a[i].fused(u[i], second_here[i]);
                least[i] = if inside { u[i] } else { T::INFINITY }.smaller(least[i]);
            }
        }
        for i in 0..LANES {
            first[i] += first_here[i];
            second[i] += second_here[i];
        }
    }
    Pass { count: total(count), lower: total(first), upper: total(second), least: folded(least, T::smaller) }
}

/// The sum of the lanes, by halves.
#[inline(always)]
fn total<T: Real>(lanes: [T; LANES]) -> T {
    folded(lanes, |a, b| a + b)
}

/// The lanes combined by halves.
#[inline(always)]
fn folded<T: Real>(mut lanes: [T; LANES], combine: impl Fn(T, T) -> T) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = combine(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Below this value of S_p the rounding of S_p - 1 is harmless and a closed form may end the search.
#[inline(always)]
fn is_near<T: Real>(sum: T) -> bool {
    sum <= T::of(4.0)
}

/// p = 1: on a fixed support of k entries sum (u_i - h) = 1 gives h = (sum u_i - 1) / k, which is also the step.
///
/// Every step but the last two removes an entry; the search ends exactly when the support stays the same.
#[inline(always)]
fn linear<T: Real>(candidates: &[T]) -> T {
    let mut t = -T::ONE;
    for _ in 0..PASSES {
        let now = pass(candidates, t, |u| u);
        let h = (now.lower - T::ONE) / now.count;
        t += h;
        if h < now.least && is_near(now.lower) {
            break;
        }
    }
    t
}

/// p = 2: on a fixed support of k entries sum (u_i - h)^2 = 1 gives k h^2 - 2 A h + B - 1 = 0, with A = sum u_i and
/// B = sum u_i^2, so h = (B - 1) / (A + sqrt(A^2 - k (B - 1))).
///
/// This h never falls short of the solution: if it removes no entry, it is exact and ends the search. Otherwise the
/// step on the norm, h = (B - sqrt B) / A, never passes it.
#[inline(always)]
fn quadratic<T: Real>(candidates: &[T]) -> T {
    let mut t = -T::ONE;
    for _ in 0..PASSES {
        let now = pass(candidates, t, |u| u);
        let (a, b) = (now.lower, now.upper);
        let excess = b - T::ONE;
        let root = a.fused(a, -(now.count * excess)).square_root();
        let exact = excess / (a + root);
        // False as well if the root is not real.
        if exact < now.least && is_near(b) {
            return t + exact;
        }
        let next = t + (b - b.square_root()) / a;
        if next == t {
            break;
        }
        t = next;
    }
    t
}

/// Any other p > 0: steps on the p-norm inside of a bracket. For p >= 1 they converge from the left by themselves; for
/// p < 1, and whenever they take long, a bracket that does not halve in two steps is bisected.
#[inline(always)]
fn general<T: Real>(candidates: &[T], p: f64) -> T {
    let kept = pass(candidates, -T::ONE, |u| u).count.to_f64();
    // A little above the bound, so that both ends are outside of the search.
    let (mut low, mut high) = (-T::ONE, T::of(-kept.powf(-1.0 / p)) * (T::ONE - T::of(8.0) * T::EPSILON));
    let half = T::of(0.5);
    let (mut width, mut width_before) = (T::INFINITY, T::INFINITY);
    let mut t = low;
    for round in 0..PASSES {
        let now = pass(candidates, t, |u| T::powers(u, p - 1.0));
        let excess = now.upper - T::ONE;
        if excess > T::ZERO {
            low = t;
        } else {
            high = t;
        }
        let h = T::of(norm_step(now.lower.to_f64(), now.upper.to_f64(), p));
        let next = t + h;
        if next == t || is_last(excess.absolute(), h.absolute(), now.least, p) {
            return next;
        }
        let stalls = (p < 1.0 || round > 12) && high - low > half * width_before;
        (width, width_before) = (high - low, width);
        let inside = next > low && next < high;
        t = if inside && !stalls { next } else { low + half * (high - low) };
        if t == low || t == high {
            break;
        }
    }
    t
}

/// Newton's step on the p-norm: (S_p - S_p^(1-1/p)) / S_{p-1} = -S_p (S_p^(-1/p) - 1) / S_{p-1}.
#[inline(always)]
fn norm_step(lower: f64, upper: f64, p: f64) -> f64 {
    -upper * (-upper.ln() / p).exp_m1() / lower
}

/// Whether a step h leaves an error of S_p below rounding.
///
/// It does if S_p is 1 already; if the error (p-1)/2 h/u of the linear rule is small for every u in the support; or,
/// for p >= 2, where small u do not matter, if the square of the excess is small.
#[inline(always)]
fn is_last<T: Real>(excess: T, h: T, least: T, p: f64) -> bool {
    let small = T::of(0.1) * T::EPSILON.square_root();
    let curvature = T::of((p - 1.0).abs());
    excess <= T::of(4.0) * T::EPSILON
        || (excess <= small && p >= 2.0)
        || (h < T::of(0.5) * least && excess * h * curvature <= T::EPSILON * least)
}
