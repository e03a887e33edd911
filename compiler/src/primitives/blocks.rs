//! How work is cut: heads run in parallel, the queries of a head go in blocks whose tiles stay in cache.

use super::lanes::MOST_LANES;
use super::real::Real;
use std::cell::Cell;
use std::ops::Range;
use std::thread::LocalKey;

/// The lengths of a kernel's arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub batch: usize,
    pub heads: usize,
    pub queries: usize,
    pub tokens: usize,
    /// Components of a head.
    pub head: usize,
}

impl Size {
    /// Heads over the whole batch; the i-th is head i mod H of sequence i / H.
    pub fn all_heads(&self) -> usize {
        self.batch * self.heads
    }
}

/// Entries of a tile; more would leave the cache.
const TILE_ENTRIES: usize = 1 << 15;
/// A multiple of what the matrix multiplication takes at once, 6; with more, more of a causal tile is not seen.
const MOST_ROWS: usize = 48;
const LEAST_ROWS: usize = 8;

/// The tokens that some of the queries see, from the first one of a panel on.
pub fn seen_by(visible: &[Range<usize>]) -> Range<usize> {
    let seen = || visible.iter().filter(|i| !i.is_empty());
    let start = seen().map(|i| i.start).min().unwrap_or(0);
    start - start % MOST_LANES..seen().map(|i| i.end).max().unwrap_or(start)
}

/// The next block of queries from `start` on: as many as keep a tile in cache.
pub fn next_block(visible: &[Range<usize>], start: usize) -> Range<usize> {
    let most = visible.len().min(start + MOST_ROWS);
    let width = seen_by(&visible[start..most]).len().max(1);
    let rows = (TILE_ENTRIES / width).clamp(LEAST_ROWS, MOST_ROWS);
    start..visible.len().min(start + rows)
}

/// The most rows and the most tile entries that any block has, where rows of a tile are padded to `lanes`.
pub fn largest_block(visible: &[Range<usize>], lanes: usize) -> (usize, usize) {
    let (mut rows, mut entries, mut start) = (0, 0, 0);
    while start < visible.len() {
        let block = next_block(visible, start);
        rows = rows.max(block.len());
        entries = entries.max(block.len() * seen_by(&visible[block.clone()]).len().next_multiple_of(lanes));
        start = block.end;
    }
    (rows, entries)
}

/// Numbers of one array that a group of tokens has.
const GROUP_ENTRIES: usize = 1 << 10;

/// Tokens in groups that stay in the fastest cache with their vectors.
pub fn groups(tokens: Range<usize>, head: usize) -> impl Iterator<Item = Range<usize>> {
    let length = (GROUP_ENTRIES / head.max(1)).max(4);
    tokens.clone().step_by(length).map(move |start| start..tokens.end.min(start + length))
}

/// What lies in both ranges.
#[inline(always)]
pub fn both(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    let start = a.start.max(b.start);
    start..a.end.min(b.end).max(start)
}

/// The tokens that two rows both see, and what else each of them sees. A row beside itself shares nothing.
#[inline(always)]
pub fn shared(rows: [usize; 2], [a, b]: [Range<usize>; 2]) -> (Range<usize>, [(usize, Range<usize>); 4]) {
    let [i, j] = rows;
    let common = both(&a, &b);
    if i == j {
        return (0..0, [(i, a), (j, 0..0), (i, 0..0), (j, 0..0)]);
    }
    if common.is_empty() {
        return (0..0, [(i, a), (j, b), (i, 0..0), (j, 0..0)]);
    }
    let rest = [(i, a.start..common.start), (i, common.end..a.end), (j, b.start..common.start), (j, common.end..b.end)];
    (common, rest)
}

/// Part `i` of an array that is cut into `count` equal parts.
pub fn part<T>(array: &[T], i: usize, count: usize) -> &[T] {
    let length = array.len() / count.max(1);
    &array[i * length..(i + 1) * length]
}

/// The same for an array that is written.
pub fn parts<T>(array: &mut [T], count: usize) -> impl Iterator<Item = &mut [T]> {
    let length = (array.len() / count.max(1)).max(1);
    array.chunks_mut(length)
}

thread_local! {
    /// Buffers live as long as their thread: pages that were touched once stay warm.
    static SINGLE: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
    static DOUBLE: Cell<Vec<f64>> = const { Cell::new(Vec::new()) };
}

/// Numbers of which every thread has a workspace.
pub trait Stored: Copy + Default + 'static {
    fn workspace() -> &'static LocalKey<Cell<Vec<Self>>>;
}

impl Stored for f32 {
    fn workspace() -> &'static LocalKey<Cell<Vec<f32>>> {
        &SINGLE
    }
}

impl Stored for f64 {
    fn workspace() -> &'static LocalKey<Cell<Vec<f64>>> {
        &DOUBLE
    }
}

/// Runs tasks in parallel, each with a workspace of its own.
pub fn in_parallel<T: Send, N: Stored>(tasks: Vec<T>, run: impl Fn(T, &mut Vec<N>) + Sync) {
    use rayon::prelude::*;
    tasks.into_par_iter().with_max_len(1).for_each(|task| {
        let mut workspace = N::workspace().take();
        run(task, &mut workspace);
        N::workspace().set(workspace);
    });
}

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// So many entries of a workspace, from the start of a line on: what a register loads or stores lies in one line.
pub fn aligned<N: Stored>(workspace: &mut Vec<N>, room: usize) -> &mut [N] {
    let spare = LINE / size_of::<N>();
    if workspace.len() < room + spare {
        workspace.resize(room + spare, N::default());
    }
    let start = workspace.as_ptr().align_offset(LINE).min(spare);
    &mut workspace[start..start + room]
}

/// Cuts the next buffer off a workspace.
#[inline(always)]
pub fn take<'a, T>(rest: &mut &'a mut [T], length: usize) -> &'a mut [T] {
    let (buffer, left) = std::mem::take(rest).split_at_mut(length);
    *rest = left;
    buffer
}

/// A buffer with the same numbers in another precision.
pub fn converted<'a, M: Real, N: Real>(rest: &mut &'a mut [N], array: &[M]) -> &'a [N] {
    let buffer = take(rest, array.len());
    convert(array, buffer);
    buffer
}

/// The same numbers in another precision.
pub fn convert<M: Real, N: Real>(from: &[M], to: &mut [N]) {
    to.iter_mut().zip(from).for_each(|(y, x)| *y = N::of(x.to_f64()));
}

/// Whether no entry of these arrays is larger; nothing is known of what is not a number.
pub fn is_within(limit: f32, arrays: &[&[f32]]) -> bool {
    arrays.iter().all(|array| array.iter().all(|x| x.abs() <= limit))
}

/// A head and the workspace it is computed in.
pub struct With<'a, H, N> {
    pub head: H,
    pub workspace: &'a mut [N],
}
