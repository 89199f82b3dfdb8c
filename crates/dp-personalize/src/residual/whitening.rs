//! Second moments of the features, and the transform that makes them alike in all directions.

use dp_accounting::{ReleaseRequest, Spend};
use dp_core::{ReplaceFactor, SampleRows, UserRow, UserSamples};
use dp_linalg::{packed_len, symmetric_eigen};
use dp_mechanism::{SparseBuffer, VectorContribution, WatchedNoise};

use super::Whitening;
use crate::Result;
use crate::small::{clip_factor, push_symmetric, read_symmetric};

/// One user's share of the second moments of feature directions: `min(1, c/||C_j||_F) C_j`, with
///
/// ```text
/// C_j = (1/m_j) sum_i x_ij x_ij^T / ||x_ij||^2
/// ```
///
/// Directions alone need no bound in data units; the scale comes back through each user's own row norms, and the trace is known.
///
/// # Privacy
/// The share has Frobenius norm at most `c = clip_norm`; so the sum moves by at most `c` under add/remove and is paid for
/// `2 c` under replacement (`sqrt 2 c` would do: shares are positive semidefinite, but a vector sum does not know).
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
#[derive(Clone, Copy)]
pub struct DirectionMoments {
    /// Length of the features.
    pub n_features: usize,
    /// Bound `c` on a user's share.
    pub clip_norm: f64,
}

impl VectorContribution for DirectionMoments {
    type Scratch = (Vec<f64>, Vec<f64>);

    fn scratch(&self) -> Self::Scratch {
        (
            vec![0.0; self.n_features * self.n_features],
            vec![0.0; self.n_features],
        )
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut SparseBuffer) {
        let (sum, x) = scratch;
        let dim = self.n_features;
        sum.fill(0.0);
        let mut n_rows = 0.0;
        for (features, _) in SampleRows::of(user, dim).iter() {
            x.iter_mut().zip(features).for_each(|(x, &f)| *x = f.into());
            let square = crate::small::inner(x, x);
            if square > 0.0 {
                n_rows += 1.0;
                for (a, row) in sum.chunks_exact_mut(dim).enumerate() {
                    let scaled = x[a] / square;
                    row[a..]
                        .iter_mut()
                        .zip(&x[a..])
                        .for_each(|(s, b)| *s += scaled * b);
                }
            }
        }
        if n_rows > 0.0 {
            sum.iter_mut().for_each(|s| *s /= n_rows);
            push_symmetric(
                out,
                0,
                sum,
                dim,
                clip_factor(frobenius(sum, dim), self.clip_norm),
            );
        }
    }
}

/// Frobenius norm of the symmetric matrix with this upper triangle.
fn frobenius(upper: &[f64], dim: usize) -> f64 {
    let rows = upper.chunks_exact(dim).enumerate();
    let squares = rows.map(|(a, row)| {
        let off: f64 = row[a + 1..].iter().map(|x| x * x).sum();
        row[a] * row[a] + 2.0 * off
    });
    squares.sum::<f64>().sqrt()
}

impl Whitening {
    pub(super) fn request(n_features: usize, share: f64) -> ReleaseRequest {
        let draws = packed_len(n_features) as u64;
        ReleaseRequest::new("feature directions", share, ReplaceFactor::Two, draws)
    }

    /// `W = (d C)^-1/2`, symmetric, shape `(d, d)`: `C` the released moments with trace 1, eigenvalues lifted. `W x` then has
    /// second moments `E||x||^2 / d` in every direction. `None` where the noise drowns the moments.
    pub(super) fn release(
        &self,
        samples: &UserSamples,
        spend: Spend,
        out: &mut WatchedNoise<'_>,
    ) -> Result<Option<Vec<f64>>> {
        let dim = samples.n_features();
        let moments = DirectionMoments {
            n_features: dim,
            clip_norm: self.clip_norm,
        };
        let shape = (packed_len(dim), self.clip_norm);
        let released = out.vector(samples.table(), shape, &moments, spend)?;
        self.transform(dim, &released.values(), released.noise_stddev())
    }

    /// Post-processing of the release.
    fn transform(&self, dim: usize, values: &[f64], noise_stddev: f64) -> Result<Option<Vec<f64>>> {
        let matrix = read_symmetric(values, dim);
        let trace: f64 = matrix.iter().step_by(dim + 1).sum();
        let n = dim as f64;
        if trace.is_nan() || trace <= 4.0 * n.sqrt() * noise_stddev {
            return Ok(None);
        }
        let eigen = symmetric_eigen(&matrix, dim)?;
        // sqrt(2 d) s is the spectral norm of noise with variance s^2 on the diagonal and s^2/2 off it
        let lift = self.damping * (2.0 * n).sqrt() * noise_stddev / trace;
        let least = 1e-6 / n;
        let roots: Vec<f64> = eigen
            .values
            .iter()
            .map(|value| {
                (n * ((value / trace).max(0.0) + lift).max(least))
                    .sqrt()
                    .recip()
            })
            .collect();
        let mut transform = vec![0.0; dim * dim];
        for (vector, root) in eigen.vectors.chunks_exact(dim).zip(roots) {
            for (a, row) in transform.chunks_exact_mut(dim).enumerate() {
                let scaled = root * vector[a];
                row.iter_mut()
                    .zip(vector)
                    .for_each(|(t, v)| *t += scaled * v);
            }
        }
        Ok(Some(transform))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transform_undoes_what_the_features_have() {
        let whitening = Whitening {
            share: 0.1,
            clip_norm: 0.5,
            damping: 0.0,
        };
        let root = std::f64::consts::SQRT_2;
        // coordinates of 10 [[4, 1], [1, 2]]
        let found = whitening
            .transform(2, &[40.0, 10.0 * root, 20.0], 1e-9)
            .unwrap()
            .unwrap();
        let w = |a: usize, b: usize| found[2 * a + b];
        let c = |a: usize, b: usize| [4.0, 1.0, 1.0, 2.0][2 * a + b] / 6.0;
        for a in 0..2 {
            for b in 0..2 {
                let mut product = 0.0;
                for i in 0..2 {
                    for j in 0..2 {
                        product += w(a, i) * c(i, j) * w(j, b);
                    }
                }
                let expected = if a == b { 0.5 } else { 0.0 };
                assert!((product - expected).abs() < 1e-12);
            }
        }
        assert!(
            whitening
                .transform(2, &[1.0, 0.0, 1.0], 1.0)
                .unwrap()
                .is_none()
        );
    }
}
