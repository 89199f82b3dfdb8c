//! Many small systems with noisy matrices: a separate matrix for each, or one for all.

use dp_core::parallel;
use dp_linalg::{
    PsdBatchScratch, SymmetricEigen, cholesky_in_place, cholesky_solve_in_place,
    psd_part_plus_ridge_solve_batch, symmetric_eigen,
};

/// Number of systems that a thread collects before it solves them: a multiple of the vector lanes,
/// so that few lanes stay empty when some matrices need no eigenvalues.
const SYSTEMS_AT_ONCE: usize = 32;

/// Overwrites each row of `rhs` with `x_s = (PSD(A_s) + ridge_s I)^-1 b_s`.
///
/// `rhs` has shape `(n, dim)`. `system(s, matrix, b)` writes `A_s` (row-major), may modify the row
/// `b`, and returns the ridge, above 0. The result for one system does not depend on the others or
/// on the number of threads.
///
/// # Errors
/// When a matrix or a row is not finite.
pub(crate) fn solve_systems(
    dim: usize,
    rhs: &mut [f64],
    system: impl Fn(usize, &mut [f64], &mut [f64]) -> f64 + Sync,
) -> Result<(), dp_linalg::Error> {
    parallel::try_for_each(
        rhs.chunks_mut(SYSTEMS_AT_ONCE * dim).enumerate(),
        || Ok((PsdBatchScratch::new(dim)?, Vec::new(), Vec::new())),
        |(scratch, matrices, ridges), (chunk, rows)| {
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

/// The average `C` of users' `f f^T` in its eigenbasis, with negative eigenvalues replaced by 0 and
/// scaled to trace 1, the squared norm of a factor with biases.
///
/// One decomposition serves all items: `(W_i C + ridge I)^-1 b = Q diag(1 / (W_i l_k + ridge)) Q^T b`.
#[derive(Debug)]
pub(crate) struct PooledSolve {
    eigen: SymmetricEigen,
    dim: usize,
}

impl PooledSolve {
    /// From a released sum over users, `dim x dim`.
    pub(crate) fn new(sum: &[f64], dim: usize) -> Result<Self, dp_linalg::Error> {
        let mut eigen = symmetric_eigen(sum, dim)?;
        let positive = eigen.values.iter().map(|l| l.max(0.0));
        let trace: f64 = positive.clone().sum();
        eigen.values = if trace > 0.0 {
            positive.map(|l| l / trace).collect()
        } else {
            vec![(dim as f64).recip(); dim] // only noise: treat all directions as equal
        };
        Ok(Self { eigen, dim })
    }

    /// Overwrites each row of `rhs`, `(n_items, dim)`, with its item's solution; `ridge` must be
    /// above 0.
    pub(crate) fn solve(&self, rhs: &mut [f64], weights: &[f64], ridge: f64) {
        let dim = self.dim;
        parallel::for_each_with(
            rhs.chunks_mut(dim).zip(weights),
            || vec![0.0; dim],
            |turned, (row, &weight)| {
                let vectors = self.eigen.vectors.chunks_exact(dim);
                let values = &self.eigen.values;
                for ((t, v), l) in turned.iter_mut().zip(vectors.clone()).zip(values) {
                    let along: f64 = v.iter().zip(&*row).map(|(v, b)| v * b).sum();
                    *t = along / (weight.max(0.0) * l + ridge);
                }
                row.fill(0.0);
                for (t, v) in turned.iter().zip(vectors) {
                    row.iter_mut().zip(v).for_each(|(x, v)| *x += t * v);
                }
            },
        );
    }
}

/// Variances of the noise in a system `H x = b`: that of an entry of `b`, and that of a diagonal
/// entry of `H`; other entries of `H` have half of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemNoise {
    pub(crate) rhs: f64,
    pub(crate) matrix: f64,
}

impl SystemNoise {
    /// Writes the standard deviations of `x = H^-1 b` that this noise causes, to first order:
    ///
    /// ```text
    /// d x = H^-1 (d b - d b_0 p - E x)          p what H x changes with the first entry of b
    /// ```
    pub(crate) fn write_stddevs(self, inverse: &[f64], (x, p): (&[f64], &[f64]), out: &mut [f64]) {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        for (sd, h) in out.iter_mut().zip(inverse.chunks_exact(x.len())) {
            let first = h[0] - dot(h, p);
            let direct = dot(&h[1..], &h[1..]) + first * first;
            let through = (dot(h, h) * dot(x, x) + dot(h, x).powi(2)) / 2.0;
            *sd = (self.rhs * direct + self.matrix * through).sqrt();
        }
    }
}

/// The inverse of a positive definite matrix, row-major, which is overwritten.
///
/// # Errors
/// When the matrix is not positive definite, or not finite.
pub(crate) fn inverse(matrix: &mut [f64], dim: usize) -> Result<Vec<f64>, dp_linalg::Error> {
    cholesky_in_place(matrix, dim)?;
    let mut inverse = vec![0.0; dim * dim];
    for (k, row) in inverse.chunks_exact_mut(dim).enumerate() {
        row[k] = 1.0;
        cholesky_solve_in_place(matrix, dim, row)?;
    }
    Ok(inverse)
}

#[cfg(test)]
mod tests {
    use dp_linalg::{
        PsdScratch, cholesky_in_place, cholesky_solve_in_place, psd_part_plus_ridge_solve,
    };

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

    #[test]
    fn solutions_are_those_of_each_item_s_own_system() {
        let dim = 3;
        // eigenvalues about 9.3, 2.2 and -1.5, which must be replaced by 0
        let sum = [4.0, 3.0, 3.0, 3.0, 5.0, 1.0, 3.0, 1.0, 1.0];
        let mut positive = sum;
        dp_linalg::project_psd_in_place(&mut positive, dim).unwrap();
        let trace: f64 = (0..dim).map(|k| positive[k * dim + k]).sum();
        let weights = [0.0, 2.0, -1.0, 70.0];
        let mut rhs: Vec<f64> = (0..12).map(|k| f64::from(k * k % 7) - 2.0).collect();
        let mut expected = rhs.clone();
        PooledSolve::new(&sum, dim)
            .unwrap()
            .solve(&mut rhs, &weights, 0.3);
        for (row, &w) in expected.chunks_exact_mut(dim).zip(&weights) {
            let mut a = positive.map(|g| w.max(0.0) * g / trace);
            (0..dim).for_each(|k| a[k * dim + k] += 0.3);
            cholesky_in_place(&mut a, dim).unwrap();
            cholesky_solve_in_place(&a, dim, row).unwrap();
        }
        for (x, y) in rhs.iter().zip(&expected) {
            assert!((x - y).abs() < 1e-10, "{x} {y}");
        }
    }

    #[test]
    fn a_sum_without_a_positive_part_counts_as_isotropic() {
        let mut rhs = [1.0, 2.0];
        PooledSolve::new(&[-1.0, 0.0, 0.0, -3.0], 2)
            .unwrap()
            .solve(&mut rhs, &[4.0], 1.0);
        assert!((rhs[0] - 1.0 / 3.0).abs() < 1e-12 && (rhs[1] - 2.0 / 3.0).abs() < 1e-12);
    }
}
