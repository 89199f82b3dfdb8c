//! Axes of the taste factors in which a single penalty is appropriate. Post-processing of releases.

use dp_linalg::symmetric_eigen;

use crate::Result;

/// Minimum spread of users along an axis, relative to the mean over all axes.
const LEAST_SPREAD: f64 = 0.02;

/// Rotates and scales the taste factors of all items, rows `[h_i, q_i]` of length `dim`, so that
/// users' taste factors have about the same second moment along every axis.
///
/// ```text
/// S = sum_j v_j v_j^T + noise = sum_k l_k u_k u_k^T        the taste-factor block of the released pooled `matrix`
/// q_i <- diag(s_k) U^T q_i / B,     s_k^2 = (max(l_k, 0) + r) / (mean_k max(l_k, 0) + r)
/// r = 0.02 mean_k max(l_k, 0) + sqrt(d) sigma
/// ```
///
/// where `unit` is `B`, the bound on labels: users' weights then do not depend on the unit of the
/// ratings. A user's fit with one penalty for all taste factors in the new axes is the fit in the
/// old ones with a prior covariance of `S + r I` up to scale: directions in which users differ more
/// are shrunk less. The map is invertible, so items and users can express the same scores as
/// before; a user's fit may select different ones. If the noise `sigma` exceeds the matrix, all
/// `s_k` are near 1. The axis with the largest spread comes first.
pub(super) fn spread_alike(
    factors: &mut [f64],
    dim: usize,
    (matrix, noise_stddev): (&[f64], f64),
    unit: f64,
) -> Result<()> {
    let d = dim - 1;
    let tastes: Vec<f64> = (matrix.chunks_exact(dim).skip(1))
        .flat_map(|row| row[1..].to_vec())
        .collect();
    let eigen = symmetric_eigen(&tastes, d)?;
    let spreads: Vec<f64> = eigen.values.iter().map(|l| l.max(0.0)).collect();
    let mean = spreads.iter().sum::<f64>() / d as f64;
    let ridge = LEAST_SPREAD * mean + (d as f64).sqrt() * noise_stddev;
    let mut turned = vec![0.0; d];
    for row in factors.chunks_exact_mut(dim) {
        let axes = eigen.vectors.chunks_exact(d).zip(&spreads).rev();
        for (to, (axis, spread)) in turned.iter_mut().zip(axes) {
            let along: f64 = axis.iter().zip(&row[1..]).map(|(u, q)| u * q).sum();
            *to = ((spread + ridge) / (mean + ridge)).sqrt() * along / unit;
        }
        row[1..].copy_from_slice(&turned);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use approx::assert_relative_eq;

    use super::*;

    /// `[h, q]` of two items, and users' second moments: of the taste factors 4 along
    /// `(1, 1)/sqrt 2` and 1 along `(1, -1)/sqrt 2`.
    const FACTORS: [f64; 6] = [0.5, 1.0, 2.0, -0.25, 3.0, -1.0];
    const MATRIX: [f64; 9] = [9.0, 7.0, 7.0, 7.0, 2.5, 1.5, 7.0, 1.5, 2.5];

    fn inner(rows: &[f64], a: usize, b: usize) -> f64 {
        (1..3).map(|k| rows[3 * a + k] * rows[3 * b + k]).sum()
    }

    #[test]
    fn inner_products_are_those_of_the_users_covariance() {
        let mut turned = FACTORS;
        spread_alike(&mut turned, 3, (&MATRIX, 0.0), 1.0).unwrap();
        // prior covariance (S + r I) / (mean + r), with mean 2.5 and r = 0.02 * 2.5
        let covariance = |a: usize, b: usize| {
            let (q, p) = (
                &FACTORS[3 * a + 1..3 * a + 3],
                &FACTORS[3 * b + 1..3 * b + 3],
            );
            let s = 2.55 * (q[0] * p[0] + q[1] * p[1]) + 1.5 * (q[0] * p[1] + q[1] * p[0]);
            s / 2.55
        };
        for (a, b) in [(0, 0), (0, 1), (1, 1)] {
            assert_relative_eq!(inner(&turned, a, b), covariance(a, b), max_relative = 1e-12);
        }
        assert_relative_eq!(turned[0], 0.5);
        assert_relative_eq!(turned[3], -0.25);
        // the axis with the largest spread comes first: item 0 is 3/sqrt 2 along it
        assert_relative_eq!(
            turned[1].abs(),
            (4.05_f64 / 2.55).sqrt() * 4.5_f64.sqrt(),
            max_relative = 1e-12
        );
    }

    #[test]
    fn an_axis_along_which_noise_made_the_matrix_negative_counts_as_one_without_spread() {
        // 4 along (1, 1)/sqrt 2 and -3 along (1, -1)/sqrt 2: the mean is 2, r is .04 + sqrt(2) sigma
        let (matrix, sigma) = ([9.0, 7.0, 7.0, 7.0, 0.5, 3.5, 7.0, 3.5, 0.5], 0.1);
        let mut turned = FACTORS;
        spread_alike(&mut turned, 3, (&matrix, sigma), 1.0).unwrap();
        let ridge = 0.04 + 2.0_f64.sqrt() * sigma;
        // item 0 is 3/sqrt 2 along the first and -1/sqrt 2 along the second
        for (found, square) in [
            (turned[1], 4.5 * (4.0 + ridge) / (2.0 + ridge)),
            (turned[2], 0.5 * ridge / (2.0 + ridge)),
        ] {
            assert_relative_eq!(found * found, square, max_relative = 1e-12);
        }
    }

    #[test]
    fn noise_that_drowns_the_matrix_leaves_lengths_alone() {
        let mut turned = FACTORS;
        spread_alike(&mut turned, 3, (&MATRIX, 1e9), 4.0).unwrap();
        for (a, b) in [(0, 0), (0, 1), (1, 1)] {
            assert_relative_eq!(
                inner(&turned, a, b),
                inner(&FACTORS, a, b) / 16.0,
                max_relative = 1e-6
            );
        }
    }
}
