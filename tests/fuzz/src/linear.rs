//! Systems of a few equations, on the tape.
#![allow(clippy::needless_range_loop, reason = "rows and columns are read by their numbers")]

use crate::tape::{Tape, Var};

/// x with A x = b, by elimination; rows are exchanged for the largest pivot.
pub fn solve(tape: &mut Tape, matrix: &[Vec<Var>], right: &[Var]) -> Vec<Var> {
    let n = right.len();
    let mut rows: Vec<Vec<Var>> = matrix.iter().zip(right).map(|(row, b)| [&row[..], &[*b]].concat()).collect();
    for column in 0..n {
        let size = |row: &usize| tape.value(rows[*row][column]).abs();
        let pivot = (column..n).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(column);
        rows.swap(column, pivot);
        for row in column + 1..n {
            let factor = tape.divide(rows[row][column], rows[column][column]);
            for j in column..=n {
                let part = tape.multiply(factor, rows[column][j]);
                rows[row][j] = tape.subtract(rows[row][j], part);
            }
        }
    }
    let mut x: Vec<Option<Var>> = vec![None; n];
    for row in (0..n).rev() {
        let mut rest = rows[row][n];
        for j in row + 1..n {
            let known = x[j].expect("solved before");
            let part = tape.multiply(rows[row][j], known);
            rest = tape.subtract(rest, part);
        }
        x[row] = Some(tape.divide(rest, rows[row][row]));
    }
    x.into_iter().flatten().collect()
}

/// ‖A‖·‖A⁻¹‖ in the maximum norm of rows; infinite for a singular matrix.
pub fn condition(matrix: &[Vec<f64>]) -> f64 {
    let n = matrix.len();
    let norm = |rows: &[Vec<f64>]| {
        rows.iter().map(|row| row.iter().map(|x| x.abs()).sum::<f64>()).fold(0.0, |m: f64, x| m.max(x))
    };
    let mut tape = Tape::new();
    let rows: Vec<Vec<Var>> = matrix.iter().map(|row| row.iter().map(|x| tape.constant(*x)).collect()).collect();
    let mut inverse = vec![vec![0.0; n]; n];
    for j in 0..n {
        let unit: Vec<Var> = (0..n).map(|i| tape.constant(f64::from(u8::from(i == j)))).collect();
        let x = solve(&mut tape, &rows, &unit);
        for (i, x) in x.iter().enumerate() {
            inverse[i][j] = tape.value(*x);
        }
    }
    // A pivot of 0 has the inverse 0, which would hide that there is none.
    let product = |i: usize, j: usize| (0..n).map(|l| matrix[i][l] * inverse[l][j]).sum::<f64>();
    let off = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
    let is_inverse = off.map(|(i, j)| (product(i, j) - f64::from(u8::from(i == j))).abs()).all(|gap| gap < 1e-3);
    if is_inverse { norm(matrix) * norm(&inverse) } else { f64::INFINITY }
}
