//! Formulas by tensor operations, for every device candle has and with its gradients.
//!
//! A value has the axes `[B, H, queries, tokens, d_h]`, with length 1 where it does not extend. What is not seen takes no
//! part: it is replaced before it could overflow, so that no gradient is 0·∞. Only operations whose gradients candle
//! knows are used.

use super::blocks::Size;
use super::matrix::{inverse, product};
use super::dropout::Dropout;
use super::visible::Visible;
use candle_core::{Device, Result, Tensor};

/// A number, as a tensor of the kind and rank of another.
pub fn number(x: f64, like: &Tensor) -> Result<Tensor> {
    Tensor::full(x, vec![1; like.rank()], like.device())?.to_dtype(like.dtype())
}

/// x where the mask is not 0, y elsewhere; shapes broadcast.
pub fn choose(mask: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let longest = |i: usize| mask.dims()[i].max(x.dims()[i]).max(y.dims()[i]);
    let shape: Vec<usize> = (0..x.rank()).map(longest).collect();
    mask.broadcast_as(&*shape)?.where_cond(&x.broadcast_as(&*shape)?, &y.broadcast_as(&*shape)?)
}

/// x where a ≤ b, else y.
pub fn select(a: &Tensor, b: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    choose(&a.broadcast_le(b)?, x, y)
}

/// The larger of x and 0; the slope at 0 is 0.
pub fn positive(x: &Tensor) -> Result<Tensor> {
    choose(&x.gt(0.0)?, x, &number(0.0, x)?)
}

/// |x|; the slope at 0 is 0.
pub fn absolute(x: &Tensor) -> Result<Tensor> {
    x * x.sign()?.detach()
}

/// The total power x^r: 0 at 0, and 0 where a fractional power has no value.
pub fn power(x: &Tensor, r: f64) -> Result<Tensor> {
    let is_whole = r.fract() == 0.0;
    if r == 2.0 {
        return x.sqr();
    }
    if is_whole && r > 0.0 {
        return x.powf(r);
    }
    let has_value = if is_whole { x.ne(0.0)? } else { x.gt(0.0)? };
    let base = choose(&has_value, x, &number(1.0, x)?)?;
    let y = match r {
        -1.0 => base.recip()?,
        0.5 => base.sqrt()?,
        -0.5 => base.sqrt()?.recip()?,
        _ => base.powf(r)?,
    };
    choose(&has_value, &y, &number(0.0, x)?)
}

/// A value as long as it can be along queries, tokens and components, where that is said.
pub fn spread(x: &Tensor, size: &Size, [t, n, e]: [bool; 3]) -> Result<Tensor> {
    let length = |is_whole: bool, i: usize, whole: usize| if is_whole { whole } else { x.dims()[i] };
    let shape = (length(t, 2, size.queries), length(n, 3, size.tokens), length(e, 4, size.head));
    x.broadcast_as((size.batch, size.heads, shape.0, shape.1, shape.2))
}

/// Vectors of queries `[B, queries, H·d_h]` along their axes.
pub fn rows(x: &Tensor, size: &Size) -> Result<Tensor> {
    x.reshape((size.batch, size.queries, size.heads, size.head))?.transpose(1, 2)?.contiguous()?.unsqueeze(3)
}

/// Vectors of tokens, part `part` of `[B, tokens, parts·H·d_h]`, along their axes.
pub fn tokens(x: &Tensor, size: &Size, part: usize) -> Result<Tensor> {
    let width = size.heads * size.head;
    let own = x.narrow(2, part * width, width)?.contiguous()?;
    own.reshape((size.batch, size.tokens, size.heads, size.head))?.transpose(1, 2)?.contiguous()?.unsqueeze(2)
}

/// A number per head, from `at` on.
pub fn parameter(numbers: &Tensor, size: &Size, at: usize) -> Result<Tensor> {
    numbers.narrow(0, at, size.heads)?.reshape((1, size.heads, 1, 1, 1))
}

/// A vector per head, from `at` on.
pub fn vector(numbers: &Tensor, size: &Size, at: usize) -> Result<Tensor> {
    numbers.narrow(0, at, size.heads * size.head)?.reshape((1, size.heads, 1, 1, size.head))
}

/// A number per head and query, from `at` on.
pub fn query_gate(numbers: &Tensor, size: &Size, at: usize) -> Result<Tensor> {
    let length = size.all_heads() * size.queries;
    numbers.narrow(0, at, length)?.reshape((size.batch, size.heads, size.queries, 1, 1))
}

/// A number per head and token, from `at` on.
pub fn gate(numbers: &Tensor, size: &Size, at: usize) -> Result<Tensor> {
    let length = size.all_heads() * size.tokens;
    numbers.narrow(0, at, length)?.reshape((size.batch, size.heads, 1, size.tokens, 1))
}

/// γ_{t,i} = Π_{i < j ≤ t} d_j, as the exponential of a sum of logarithms; 0 behind the query.
pub fn decays(steps: &Tensor, size: &Size) -> Result<Tensor> {
    let (queries, tokens) = (size.queries, size.tokens);
    let is_before: Vec<u8> =
        (0..queries * tokens).map(|i| u8::from(i % tokens + queries <= i / tokens + tokens)).collect();
    let is_before = Tensor::from_vec(is_before, (1, 1, queries, tokens, 1), steps.device())?;
    let least = number(f64::from(f32::MIN_POSITIVE), steps)?;
    let sums = steps.broadcast_maximum(&least)?.log()?.cumsum(3)?;
    let own = sums.narrow(3, tokens - queries, queries)?.transpose(2, 3)?;
    let zero = number(0.0, steps)?;
    let exponents = choose(&is_before, &own.broadcast_sub(&sums)?, &zero)?;
    choose(&is_before, &exponents.exp()?, &zero)
}

/// x_t·y_n.
pub fn dot(row: &Tensor, token: &Tensor) -> Result<Tensor> {
    product(&row.squeeze(3)?, &token.squeeze(2)?.transpose(2, 3)?)?.unsqueeze(4)
}

/// |x_t − y_n|².
pub fn distance(row: &Tensor, token: &Tensor) -> Result<Tensor> {
    row.broadcast_sub(token)?.sqr()?.sum_keepdim(4)
}

/// The diagonal matrices of vectors or numbers.
pub fn diagonal(x: &Tensor, size: &Size) -> Result<Tensor> {
    let identity = Tensor::eye(size.head, x.dtype(), x.device())?.reshape((1, 1, 1, size.head, size.head))?;
    x.transpose(3, 4)?.broadcast_mul(&identity)
}

/// The matrices x yᵀ.
pub fn outer(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    x.transpose(3, 4)?.broadcast_mul(y)
}

/// A⁻¹ x, 0 where A is singular.
pub fn solve(matrix: &Tensor, right: &Tensor) -> Result<Tensor> {
    let (batch, heads, queries, _, head) = right.dims5()?;
    let matrix = matrix.broadcast_as((batch, heads, queries, head, head))?;
    product(&inverse(&matrix)?, &right.transpose(3, 4)?)?.transpose(3, 4)
}

/// What dropout multiplies pairs by, `[B, H, queries, tokens, 1]`; one 1 where nothing is dropped.
pub fn kept(dropout: Option<Dropout>, size: &Size, like: &Tensor) -> Result<Tensor> {
    let Some(dropout) = dropout else { return number(1.0, like)?.reshape((1, 1, 1, 1, 1)) };
    let mut factors = vec![0.0f32; size.all_heads() * size.queries * size.tokens];
    for (i, row) in factors.chunks_mut(size.tokens.max(1)).enumerate() {
        dropout.row((i / size.queries) as u32, i % size.queries, 0..size.tokens, row);
    }
    Tensor::from_vec(factors, (size.batch, size.heads, size.queries, size.tokens, 1), like.device())?
        .to_dtype(like.dtype())
}

/// Which pairs of a query and a token take part.
pub struct Seen {
    /// `[B, 1, queries, tokens, 1]`.
    pairs: Tensor,
    /// `[B, 1, queries, 1, 1]`: whether the query sees anything.
    rows: Tensor,
}

impl Seen {
    pub fn new(visible: &[Visible], size: &Size, device: &Device) -> Result<Seen> {
        let (batch, queries, tokens) = (size.batch, size.queries, size.tokens);
        let mut pairs = vec![0u8; batch * queries * tokens];
        let intervals = visible.iter().flat_map(|seen| seen.intervals());
        let rows: Vec<u8> = intervals.clone().map(|interval| u8::from(!interval.is_empty())).collect();
        for (row, interval) in pairs.chunks_mut(tokens.max(1)).zip(intervals) {
            if !interval.is_empty() {
                row[interval.clone()].fill(1);
            }
        }
        Ok(Seen {
            pairs: Tensor::from_vec(pairs, (batch, 1, queries, tokens, 1), device)?,
            rows: Tensor::from_vec(rows, (batch, 1, queries, 1, 1), device)?,
        })
    }

    /// 1 at pairs that are seen, 0 at others.
    pub fn indicator(&self, like: &Tensor) -> Result<Tensor> {
        self.pairs.to_dtype(like.dtype())
    }

    /// x at pairs that are seen, a number at others.
    pub fn or(&self, x: &Tensor, other: f64) -> Result<Tensor> {
        choose(&self.pairs, x, &number(other, x)?)
    }

    /// x at queries that see something, 0 at others.
    pub fn rows(&self, x: &Tensor) -> Result<Tensor> {
        self.rows_or(x, 0.0)
    }

    /// x at queries that see something, a number at others.
    pub fn rows_or(&self, x: &Tensor, other: f64) -> Result<Tensor> {
        choose(&self.rows, x, &number(other, x)?)
    }

    /// Σ_n x.
    pub fn sum(&self, x: &Tensor) -> Result<Tensor> {
        self.or(x, 0.0)?.sum_keepdim(3)
    }

    /// max_n x, 0 of nothing. It only ever moves the scores of a row together, which changes no weight: it has no
    /// gradient.
    pub fn max(&self, x: &Tensor) -> Result<Tensor> {
        self.rows(&self.or(&x.detach(), f64::from(f32::MIN))?.max_keepdim(3)?)
    }

    /// Σ_n w_tn y_n.
    pub fn apply(&self, tile: &Tensor, token: &Tensor) -> Result<Tensor> {
        let tile = self.or(tile, 0.0)?.squeeze(4)?;
        product(&tile, &token.squeeze(2)?)?.unsqueeze(3)
    }

    /// Σ_n w x yᵀ.
    pub fn moment(&self, w: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let left = self.or(&w.broadcast_mul(x)?, 0.0)?;
        product(&left.transpose(3, 4)?, y)
    }

    /// The τ of every row with Σ_n [scale·s − τ]₊^p = 1, for scores with the maximum 0, so that −1 ≤ τ ≤ 0.
    ///
    /// It is found by bisection, without gradients; one step of Newton's, τ − f/f′, then leaves it where it is and has
    /// the gradient of the implicit function.
    pub fn threshold(&self, scores: &Tensor, scale: f64, p: f64) -> Result<Tensor> {
        let scores = self.or(&(scores * scale)?, -2.0)?;
        let above = |scores: &Tensor, tau: &Tensor| positive(&scores.broadcast_sub(tau)?);
        let fixed = scores.detach();
        let mut low = self.rows.to_dtype(fixed.dtype())?.broadcast_as(fixed.narrow(3, 0, 1)?.shape())?.neg()?;
        let mut width = 1.0;
        for _ in 0..30 {
            width *= 0.5;
            let middle = (&low + width)?;
            let is_left = power(&above(&fixed, &middle)?, p)?.sum_keepdim(3)?.ge(1.0)?;
            low = choose(&is_left, &middle, &low)?;
        }
        let slope = match p == 1.0 {
            true => above(&fixed, &low)?.gt(0.0)?.to_dtype(fixed.dtype())?.sum_keepdim(3)?,
            false => (power(&above(&fixed, &low)?, p - 1.0)?.sum_keepdim(3)? * p)?,
        };
        let excess = (power(&above(&scores, &low)?, p)?.sum_keepdim(3)? - 1.0)?;
        self.rows(&low.broadcast_add(&(excess * power(&slope, -1.0)?)?)?)
    }
}
