//! The gradient of a decay's factors per step by scans, in time and memory that grow with the number of tokens.

use super::decay;
use super::product::{Strides, multiply};
use super::real::Real;
use super::scan::{CHUNK, Course, Scan, add_outer, add_product};
use std::ops::Range;

impl<T: Real> Scan<'_, T> {
    /// ∂d_j = Σ_{t ≥ j > i} γ_{t,j} γ_{j−1,i} (x_t·y_i) (g_t·v_i): the slopes of out_t·g_t in the factors of the steps.
    ///
    /// Chunk by chunk, as [`decay::add_share`] does it for one query: what is before a chunk is one more token to every
    /// query in it, and what is after the chunk is one more query.
    #[inline(always)]
    pub fn steps(&self, v: &[T], g: &[T], out: &mut [T]) {
        let (rank, width) = (self.rank, self.width);
        out.fill(T::ZERO);
        let (Course::Causal { first, offset }, Some(decay)) = (self.course, self.decay) else { return };
        let offset = *offset;
        let chunks: Vec<Range<usize>> =
            (0..first.len()).step_by(CHUNK).map(|start| start..first.len().min(start + CHUNK)).collect();
        let mut scaled = Vec::new();
        // The states before every chunk.
        let mut states = vec![T::ZERO; (chunks.len() + 1) * rank * width];
        for (i, chunk) in chunks.iter().enumerate() {
            let (before, state) = states[i * rank * width..].split_at_mut(rank * width);
            self.follow(chunk, first, v, before, &mut state[..rank * width], &mut scaled);
        }
        let mut later = vec![T::ZERO; rank * width];
        let (mut slopes, mut ends) = (vec![T::ZERO; CHUNK * CHUNK], vec![T::ZERO; CHUNK * CHUNK]);
        let (mut through, mut sums) = (Vec::new(), Vec::new());
        for (i, chunk) in chunks.iter().enumerate().rev() {
            let state = &states[i * rank * width..(i + 1) * rank * width];
            let (y, values) =
                (&self.y[chunk.start * rank..chunk.end * rank], &v[chunk.start * width..chunk.end * width]);
            // The queries after the chunk, together.
            let from = first.get(chunk.end).copied().unwrap_or(chunk.end);
            through.clear();
            through.resize(chunk.len() * width, T::ZERO);
            add_product([chunk.len(), width, rank], y, &later, &mut through);
            let shares = through.chunks(width).zip(values.chunks(width)).zip(chunk.clone());
            let share = |((a, b), n): ((&[T], &[T]), usize)| if n < from { T::ZERO } else { dot(a, b) };
            slopes.clear();
            slopes.extend(shares.map(share));
            let before = if from < chunk.start { dot(state, &later) } else { T::ZERO };
            decay::add_share(&decay[chunk.clone()], &slopes, before, &mut sums, &mut out[chunk.clone()]);
            // Those inside.
            let rows = chunk.start.max(offset)..chunk.end;
            let kept = if from < chunk.start { self.product(chunk.clone()) } else { T::ZERO };
            later.iter_mut().for_each(|s| *s = *s * kept);
            if rows.is_empty() {
                continue;
            }
            let x = &self.x[(rows.start - offset) * rank..(rows.end - offset) * rank];
            let g = &g[(rows.start - offset) * width..(rows.end - offset) * width];
            let [m, n] = [rows.len(), chunk.len()];
            slopes.clear();
            slopes.resize(m * n, T::ZERO);
            ends.clear();
            ends.resize(m * n, T::ZERO);
            let sides = ((x, Strides::rows(rank)), (y, Strides::columns(rank)));
            multiply([m, n, rank], (&mut slopes, Strides::rows(n)), false, sides.0, sides.1);
            let sides = ((g, Strides::rows(width)), (values, Strides::columns(width)));
            multiply([m, n, width], (&mut ends, Strides::rows(n)), false, sides.0, sides.1);
            slopes.iter_mut().zip(&ends).for_each(|(a, b)| *a = *a * *b);
            through.clear();
            through.resize(m * width, T::ZERO);
            add_product([m, width, rank], x, state, &mut through);
            for (r, t) in rows.clone().enumerate() {
                let row = &mut slopes[r * n..(r + 1) * n];
                row[..first[t].max(chunk.start) - chunk.start].fill(T::ZERO);
                let own = &g[r * width..(r + 1) * width];
                let before = match first[t] < chunk.start {
                    true => dot(&through[r * width..(r + 1) * width], own),
                    false => T::ZERO,
                };
                let steps = chunk.start..t + 1;
                decay::add_share(&decay[steps.clone()], row, before, &mut sums, &mut out[steps]);
            }
            self.fade(x, rank, &mut scaled, rows.clone(), |t| match first[t] < chunk.start {
                true => self.product(chunk.start..t + 1),
                false => T::ZERO,
            });
            add_outer([rank, width, rows.len()], &scaled, g, &mut later);
        }
    }

    /// The state behind a chunk, from that before it: what the next chunk's first query will see.
    #[inline(always)]
    fn follow(
        &self,
        chunk: &Range<usize>,
        first: &[usize],
        v: &[T],
        before: &[T],
        state: &mut [T],
        scaled: &mut Vec<T>,
    ) {
        let (rank, width) = (self.rank, self.width);
        let from = first.get(chunk.end).copied().unwrap_or(chunk.end);
        let kept = if from < chunk.start { self.product(chunk.clone()) } else { T::ZERO };
        state.iter_mut().zip(before).for_each(|(s, b)| *s = *b * kept);
        let y = &self.y[chunk.start * rank..chunk.end * rank];
        self.fade(y, rank, scaled, chunk.clone(), |n| match n >= from {
            true => self.product(n + 1..chunk.end),
            false => T::ZERO,
        });
        add_outer([rank, width, chunk.len()], scaled, &v[chunk.start * width..], state);
    }
}

/// Σ a b.
#[inline(always)]
fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    a.iter().zip(b).fold(T::ZERO, |sum, (a, b)| sum + *a * *b)
}
