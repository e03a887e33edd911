//! Sixteen numbers side by side: what a fused loop loads, computes and stores at a time.
//!
//! Loops over lanes have a fixed length and no bounds checks inside, so the compiler turns them into vector
//! instructions. A row need not be a multiple of sixteen: loads fill up with 0, stores leave out what is too much.

/// Numbers that are worked on together.
pub const LANES: usize = 16;

/// The numbers of a row from `at` on.
#[inline(always)]
pub fn load(row: &[f32], at: usize) -> [f32; LANES] {
    match row.get(at..).and_then(|rest| rest.first_chunk::<LANES>()) {
        Some(lanes) => *lanes,
        None => load_end(row, at),
    }
}

#[cold]
#[inline(never)]
fn load_end(row: &[f32], at: usize) -> [f32; LANES] {
    std::array::from_fn(|l| row.get(at + l).copied().unwrap_or(0.0))
}

/// Writes numbers to a row from `at` on.
#[inline(always)]
pub fn store(row: &mut [f32], at: usize, lanes: [f32; LANES]) {
    match row.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<LANES>()) {
        Some(row) => *row = lanes,
        None => store_end(row, at, &lanes),
    }
}

#[cold]
#[inline(never)]
fn store_end(row: &mut [f32], at: usize, lanes: &[f32; LANES]) {
    row.iter_mut().skip(at).zip(lanes).for_each(|(y, x)| *y = *x);
}

/// Adds numbers to a row from `at` on.
#[inline(always)]
pub fn add(row: &mut [f32], at: usize, lanes: [f32; LANES]) {
    match row.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<LANES>()) {
        Some(row) => row.iter_mut().zip(lanes).for_each(|(y, x)| *y += x),
        None => add_end(row, at, &lanes),
    }
}

#[cold]
#[inline(never)]
fn add_end(row: &mut [f32], at: usize, lanes: &[f32; LANES]) {
    row.iter_mut().skip(at).zip(lanes).for_each(|(y, x)| *y += *x);
}

/// Whether lane `l` of the sixteen at `at` lies in `from..from + count`.
#[inline(always)]
pub fn within(at: usize, l: usize, from: usize, count: usize) -> bool {
    ((at + l) as u32).wrapping_sub(from as u32) < count as u32
}

/// The sum of all lanes.
#[inline(always)]
pub fn sum(lanes: [f32; LANES]) -> f32 {
    let mut half: [f32; 8] = std::array::from_fn(|l| lanes[l] + lanes[l + 8]);
    for width in [4, 2, 1] {
        for l in 0..width {
            half[l] += half[l + width];
        }
    }
    half[0]
}

/// The largest of all lanes.
#[inline(always)]
pub fn largest(lanes: [f32; LANES]) -> f32 {
    lanes.into_iter().fold(f32::NEG_INFINITY, |m, x| if x > m { x } else { m })
}
