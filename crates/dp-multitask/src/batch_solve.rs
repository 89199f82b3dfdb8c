//! Many small systems with noisy matrices, solved side by side.

use dp_linalg::{PsdBatchScratch, psd_part_plus_ridge_solve_batch};
use rayon::prelude::*;

/// Systems that a thread gathers before it solves them: a multiple of the vector lanes, so that few
/// of them stay empty where some matrices need no eigenvalues.
const SYSTEMS_AT_ONCE: usize = 32;

/// Overwrites each row of `rhs` by `x_s = (PSD(A_s) + ridge_s I)^-1 b_s`.
///
/// `rhs` has shape `(n, dim)`. `system(s, matrix, b)` writes `A_s` (row-major), may rewrite the row `b`,
/// and returns the ridge, above 0. What one system gets depends neither on the others nor on threads.
///
/// # Errors
/// When a matrix or a row is not finite.
pub(crate) fn solve_systems(
    dim: usize,
    rhs: &mut [f64],
    system: impl Fn(usize, &mut [f64], &mut [f64]) -> f64 + Sync,
) -> Result<(), dp_linalg::Error> {
    let chunks = rhs.par_chunks_mut(SYSTEMS_AT_ONCE * dim).enumerate();
    chunks.try_for_each_init(
        || (PsdBatchScratch::new(dim), Vec::new(), Vec::new()),
        |(scratch, matrices, ridges), (chunk, rows)| {
            let scratch = scratch.as_mut().map_err(|e| *e)?;
            matrices.resize(rows.len() * dim, 0.0);
            ridges.clear();
            let each = matrices
                .chunks_exact_mut(dim * dim)
                .zip(rows.chunks_exact_mut(dim));
            for (at, (matrix, row)) in each.enumerate() {
                ridges.push(system(chunk * SYSTEMS_AT_ONCE + at, matrix, row));
            }
            psd_part_plus_ridge_solve_batch(matrices, ridges, rows, scratch)?;
            Ok(())
        },
    )
}

#[cfg(test)]
mod tests {
    use dp_linalg::{PsdScratch, psd_part_plus_ridge_solve};

    use super::*;

    #[test]
    fn every_system_gets_what_it_gets_alone() {
        let (dim, n) = (3, 71);
        let number = |at: usize| ((at * 7919) % 201) as f64 / 50.0 - 2.0;
        let entry = |s: usize, a: usize, b: usize| number(s * 9 + 3 * a.min(b) + a.max(b));
        let write = |s: usize, matrix: &mut [f64]| {
            for (at, cell) in matrix.iter_mut().enumerate() {
                *cell = entry(s, at / dim, at % dim);
            }
        };
        let ridge = |s: usize| 0.2 + s as f64 / 10.0;
        let mut together: Vec<f64> = (0..n * dim).map(number).collect();
        let mut alone = together.clone();
        solve_systems(dim, &mut together, |s, matrix, row| {
            write(s, matrix);
            row[0] += 1.0;
            ridge(s)
        })
        .unwrap();
        let mut matrix = vec![0.0; dim * dim];
        let mut scratch = PsdScratch::new(dim).unwrap();
        for (s, row) in alone.chunks_exact_mut(dim).enumerate() {
            write(s, &mut matrix);
            row[0] += 1.0;
            psd_part_plus_ridge_solve(&matrix, ridge(s), row, &mut scratch).unwrap();
        }
        for (x, y) in together.iter().zip(&alone) {
            assert!((x - y).abs() < 1e-10 * (1.0 + y.abs()), "{x} {y}");
        }
    }
}
