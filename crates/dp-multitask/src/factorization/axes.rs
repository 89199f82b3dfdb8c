//! Axes of the tastes in which one penalty fits all. Post-processing of releases.

use dp_linalg::symmetric_eigen;
use dp_mechanism::ReleasedGrams;

use crate::Result;

/// Least spread of users along an axis, relative to the mean over all axes.
const LEAST_SPREAD: f64 = 0.02;

/// Turns and stretches the tastes of all items, rows `[h_i, q_i]` of length `dim`, so that users' tastes spread alike along every axis.
///
/// ```text
/// S = sum_j v_j v_j^T + noise = sum_k l_k u_k u_k^T        v_j of norm at most 1, from the released pooled matrix
/// q_i <- diag(s_k) U^T q_i,     s_k^2 = (max(l_k, 0) + r) / (mean_k max(l_k, 0) + r)
/// r = 0.02 mean_k max(l_k, 0) + sqrt(d) sigma
/// ```
///
/// A fit with one penalty for all tastes is then, in the old axes, the one whose prior covariance is `S` up to scale (and `r` on the
/// diagonal): directions in which users differ more are held back less. Scores do not change; where the noise `sigma` drowns the matrix all `s_k` are near 1.
/// Axes come with the widest first.
pub(super) fn spread_alike(
    factors: &mut [f64],
    dim: usize,
    pooled: &ReleasedGrams,
) -> Result<()> {
    let d = dim - 1;
    let mut matrix = vec![0.0; dim * dim];
    pooled.write_item(0, &mut matrix, &mut vec![0.0; dim]);
    let tastes: Vec<f64> = (matrix.chunks_exact(dim).skip(1))
        .flat_map(|row| row[1..].to_vec())
        .collect();
    let eigen = symmetric_eigen(&tastes, d)?;
    let spreads: Vec<f64> = eigen.values.iter().map(|l| l.max(0.0)).collect();
    let mean = spreads.iter().sum::<f64>() / d as f64;
    let ridge = LEAST_SPREAD * mean + (d as f64).sqrt() * pooled.matrix_noise_stddev();
    let mut turned = vec![0.0; d];
    for row in factors.chunks_exact_mut(dim) {
        let axes = eigen.vectors.chunks_exact(d).zip(&spreads).rev();
        for (to, (axis, spread)) in turned.iter_mut().zip(axes) {
            let along: f64 = axis.iter().zip(&row[1..]).map(|(u, q)| u * q).sum();
            *to = ((spread + ridge) / (mean + ridge)).sqrt() * along;
        }
        row[1..].copy_from_slice(&turned);
    }
    Ok(())
}
