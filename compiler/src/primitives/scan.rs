//! Chunked scans: Σ_n (x_t·y_n) γ_{t,n} v_n over the tokens a query sees, in time and memory that grow with the number of
//! tokens and not with its square.
//!
//! Tokens go in chunks. Inside of a chunk the sum is taken pair by pair, as a small matrix product; everything before it
//! is in a state S = Σ_n γ y_n v_nᵀ of d × d numbers, so a query adds x_t S. With decays, γ is always a product of
//! factors from a token up to a later one, never a quotient, so nothing overflows.

use super::product::{Strides, multiply};
use super::real::Real;
use std::ops::Range;

/// Tokens of a chunk.
pub(super) const CHUNK: usize = 64;

/// What queries see, as far as a scan can follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Course {
    /// The queries of a range see the same tokens, the others nothing.
    Full { queries: Range<usize>, seen: Range<usize> },
    /// A query sees everything from the start of its document to itself.
    Causal {
        /// The first token that is seen from every position up to the end.
        first: Vec<usize>,
        /// The position of the first query.
        offset: usize,
    },
}

impl Course {
    /// The course through these intervals, if there is one. With a decay it must be causal: what all queries of a range see
    /// alike has not faded alike for them.
    pub fn of(visible: &[Range<usize>], tokens: usize, has_decay: bool) -> Option<Course> {
        let queries = visible.len();
        let seeing = |i: &Range<usize>| !i.is_empty();
        let Some(start) = visible.iter().position(seeing) else {
            return Some(Course::Full { queries: 0..0, seen: 0..0 });
        };
        let offset = tokens.checked_sub(queries)?;
        Course::causal(visible, offset).or_else(|| {
            let end = visible.iter().rposition(seeing).map_or(start, |last| last + 1);
            let seen = visible[start].clone();
            let is_same = visible[start..end].iter().all(|i| *i == seen);
            (is_same && !has_decay).then_some(Course::Full { queries: start..end, seen })
        })
    }

    fn causal(visible: &[Range<usize>], offset: usize) -> Option<Course> {
        let count = visible.iter().take_while(|i| !i.is_empty()).count();
        if visible[count..].iter().any(|i| !i.is_empty()) {
            return None;
        }
        let mut first = vec![visible[0].start; offset];
        for (t, interval) in visible[..count].iter().enumerate() {
            let position = offset + t;
            let goes_on = first.last().is_none_or(|before| *before == interval.start);
            if interval.end != position + 1 || !(goes_on || interval.start == position) {
                return None;
            }
            first.push(interval.start);
        }
        Some(Course::Causal { first, offset })
    }
}

/// The arrays of a scan. Vectors x, y have `rank` components, values `width`.
#[derive(Clone, Copy)]
pub struct Scan<'a, T> {
    pub course: &'a Course,
    pub rank: usize,
    pub width: usize,
    /// One per query.
    pub x: &'a [T],
    /// One per token.
    pub y: &'a [T],
    /// The factor of every step, if there is a decay.
    pub decay: Option<&'a [T]>,
}

impl<T: Real> Scan<'_, T> {
    /// out_t = Σ_n (x_t·y_n) γ_{t,n} v_n.
    #[inline(always)]
    pub fn forward(&self, v: &[T], out: &mut [T]) {
        let (rank, width) = (self.rank, self.width);
        out.fill(T::ZERO);
        let mut state = vec![T::ZERO; rank * width];
        let (first, offset) = match self.course {
            Course::Full { queries, seen } => {
                let (y, v) = (&self.y[seen.start * rank..], &v[seen.start * width..]);
                add_outer([rank, width, seen.len()], y, v, &mut state);
                let (x, out) = (&self.x[queries.start * rank..], &mut out[queries.start * width..]);
                return add_product([queries.len(), width, rank], x, &state, out);
            }
            Course::Causal { first, offset } => (first, *offset),
        };
        let (mut tile, mut scaled) = (vec![T::ZERO; CHUNK * CHUNK], Vec::new());
        for start in (0..first.len()).step_by(CHUNK) {
            let chunk = start..first.len().min(start + CHUNK);
            let rows = chunk.start.max(offset)..chunk.end;
            if !rows.is_empty() {
                let x = &self.x[(rows.start - offset) * rank..(rows.end - offset) * rank];
                let out = &mut out[(rows.start - offset) * width..(rows.end - offset) * width];
                self.pairs(rows.clone(), chunk.clone(), first, x, &mut tile);
                let sides = ((&tile[..], Strides::rows(CHUNK)), (&v[chunk.start * width..], Strides::rows(width)));
                multiply([rows.len(), width, chunk.len()], (out, Strides::rows(width)), true, sides.0, sides.1);
                // Queries whose document began before this chunk see the state, faded by the steps up to them.
                self.fade(x, rank, &mut scaled, rows.clone(), |t| match first[t] < chunk.start {
                    true => self.product(chunk.start..t + 1),
                    false => T::ZERO,
                });
                add_product([rows.len(), width, rank], &scaled, &state, out);
            }
            // What the next chunk's first query will see.
            let from = first.get(chunk.end).copied().unwrap_or(chunk.end);
            let kept = if from < chunk.start { self.product(chunk.clone()) } else { T::ZERO };
            state.iter_mut().for_each(|s| *s = *s * kept);
            let y = &self.y[chunk.start * rank..chunk.end * rank];
            self.fade(y, rank, &mut scaled, chunk.clone(), |n| match n >= from {
                true => self.product(n + 1..chunk.end),
                false => T::ZERO,
            });
            add_outer([rank, width, chunk.len()], &scaled, &v[chunk.start * width..], &mut state);
        }
    }

    /// out_n = Σ_t (x_t·y_n) γ_{t,n} g_t over the queries that see token n.
    #[inline(always)]
    pub fn backward(&self, g: &[T], out: &mut [T]) {
        let (rank, width) = (self.rank, self.width);
        out.fill(T::ZERO);
        let mut state = vec![T::ZERO; rank * width];
        let (first, offset) = match self.course {
            Course::Full { queries, seen } => {
                let (x, g) = (&self.x[queries.start * rank..], &g[queries.start * width..]);
                add_outer([rank, width, queries.len()], x, g, &mut state);
                let (y, out) = (&self.y[seen.start * rank..], &mut out[seen.start * width..seen.end * width]);
                return add_product([seen.len(), width, rank], y, &state, out);
            }
            Course::Causal { first, offset } => (first, *offset),
        };
        let (mut tile, mut scaled) = (vec![T::ZERO; CHUNK * CHUNK], Vec::new());
        for start in (0..first.len()).step_by(CHUNK).rev() {
            let chunk = start..first.len().min(start + CHUNK);
            let rows = chunk.start.max(offset)..chunk.end;
            let out = &mut out[chunk.start * width..chunk.end * width];
            // Tokens that the next chunk's first query sees get the state, faded by the steps after them.
            let from = first.get(chunk.end).copied().unwrap_or(chunk.end);
            let y = &self.y[chunk.start * rank..chunk.end * rank];
            self.fade(y, rank, &mut scaled, chunk.clone(), |n| match n >= from {
                true => self.product(n + 1..chunk.end),
                false => T::ZERO,
            });
            add_product([chunk.len(), width, rank], &scaled, &state, out);
            let kept = if from < chunk.start { self.product(chunk.clone()) } else { T::ZERO };
            state.iter_mut().for_each(|s| *s = *s * kept);
            if rows.is_empty() {
                continue;
            }
            let x = &self.x[(rows.start - offset) * rank..(rows.end - offset) * rank];
            let g = &g[(rows.start - offset) * width..(rows.end - offset) * width];
            self.pairs(rows.clone(), chunk.clone(), first, x, &mut tile);
            let sides = ((&tile[..], Strides::columns(CHUNK)), (g, Strides::rows(width)));
            multiply([chunk.len(), width, rows.len()], (out, Strides::rows(width)), true, sides.0, sides.1);
            self.fade(x, rank, &mut scaled, rows.clone(), |t| match first[t] < chunk.start {
                true => self.product(chunk.start..t + 1),
                false => T::ZERO,
            });
            add_outer([rank, width, rows.len()], &scaled, g, &mut state);
        }
    }

    /// The product of the steps of a range; 1 without a decay.
    #[inline(always)]
    pub(super) fn product(&self, steps: Range<usize>) -> T {
        self.decay.map_or(T::ONE, |decay| decay[steps].iter().fold(T::ONE, |p, d| p * *d))
    }

    /// (x_t·y_n) γ_{t,n} for the pairs of a chunk; 0 at what is not seen.
    #[inline(always)]
    fn pairs(&self, rows: Range<usize>, chunk: Range<usize>, first: &[usize], x: &[T], tile: &mut [T]) {
        let rank = self.rank;
        let y = &self.y[chunk.start * rank..chunk.end * rank];
        let sides = ((x, Strides::rows(rank)), (y, Strides::columns(rank)));
        multiply([rows.len(), chunk.len(), rank], (tile, Strides::rows(CHUNK)), false, sides.0, sides.1);
        let mut gamma = [T::ONE; CHUNK];
        for t in chunk.clone() {
            if let (Some(decay), true) = (self.decay, t > chunk.start) {
                gamma[..t - chunk.start].iter_mut().for_each(|g| *g = *g * decay[t]);
            }
            let Some(r) = t.checked_sub(rows.start) else { continue };
            let row = &mut tile[r * CHUNK..r * CHUNK + chunk.len()];
            let seen = first[t].max(chunk.start) - chunk.start..t + 1 - chunk.start;
            row[..seen.start].fill(T::ZERO);
            row[seen.end..].fill(T::ZERO);
            if self.decay.is_some() {
                row[seen.clone()].iter_mut().zip(&gamma[seen]).for_each(|(a, g)| *a = *a * *g);
            }
        }
    }

    /// Rows times a number each.
    #[inline(always)]
    pub(super) fn fade(
        &self,
        rows: &[T],
        width: usize,
        out: &mut Vec<T>,
        at: Range<usize>,
        factor: impl Fn(usize) -> T,
    ) {
        out.clear();
        for (row, i) in rows.chunks(width.max(1)).zip(at) {
            let factor = factor(i);
            out.extend(row.iter().map(|x| *x * factor));
        }
    }
}

/// out += a b.
#[inline(always)]
pub(super) fn add_product<T: Real>([m, n, k]: [usize; 3], a: &[T], b: &[T], out: &mut [T]) {
    multiply([m, n, k], (out, Strides::rows(n)), true, (a, Strides::rows(k)), (b, Strides::rows(n)));
}

/// out += aᵀ b.
#[inline(always)]
pub(super) fn add_outer<T: Real>([m, n, k]: [usize; 3], a: &[T], b: &[T], out: &mut [T]) {
    multiply([m, n, k], (out, Strides::rows(n)), true, (a, Strides::columns(m)), (b, Strides::rows(n)));
}
