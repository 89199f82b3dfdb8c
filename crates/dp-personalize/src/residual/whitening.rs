//! Second moments of the features, and the transform that makes them alike in all directions.

use dp_accounting::{ReleaseRequest, Spend};
use dp_core::{ReplaceFactor, UserRow, UserSamples};
use dp_linalg::{WideRows, packed_index, symmetric_eigen, unpack_symmetric};
use dp_mechanism::{
    KroneckerContribution, KroneckerSum, OffDiagonalNoise, RowsBuffer, WatchedNoise,
};

use super::Whitening;
use crate::Result;
use crate::small::clip_factor;
use crate::user_rows::UserCells;

/// One user's share of the second moments of feature directions: `min(1, c/||C_j||_F) C_j`, with
///
/// ```text
/// C_j = (1/m_j) sum_i x_ij x_ij^T / ||x_ij||^2
/// ```
///
/// Directions alone need no bound in data units; the scale comes back through each user's own row norms, and the trace is known.
///
/// # Privacy
/// The share has Frobenius norm at most `c = clip_norm`, which the kernel checks in exact integers ([`KroneckerSum`] with `k = 1`); so the
/// sum moves by at most `c` under add/remove and is paid for `2 c` under replacement (`sqrt 2 c` for shares that are semidefinite
/// to the last bit, which rounded ones are not).
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

impl KroneckerContribution for DirectionMoments {
    /// Rows in double precision, their inner products, and the inverse norms.
    type Scratch = (Option<WideRows>, [Vec<f64>; 2]);

    fn scratch(&self) -> Self::Scratch {
        (WideRows::new(self.n_features).ok(), Default::default())
    }

    fn shape(&self) -> (usize, usize) {
        (self.n_features, 1)
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut RowsBuffer) {
        let user = UserCells::of(user, self.n_features).without_padding();
        let (Some(rows), [products, inverses]) = scratch else {
            return; // not for any user: the length of the features is public
        };
        if rows.load(user.rows()).is_err() {
            return; // the same
        }
        rows.inner_products(products);
        let square = gramian_square(products, user.n_rows(), inverses);
        let n_rows = inverses.iter().filter(|&&inverse| inverse > 0.0).count() as f64;
        let factor = clip_factor(square.sqrt() / n_rows, self.clip_norm);
        let scale = (factor / n_rows).sqrt();
        let scales = inverses.iter().map(|inverse| scale * inverse);
        out.own_rows(user.stride(), scales);
        out.vector.fill(1.0);
    }
}

/// `||sum_r u_r u_r^T||_F^2` of the directions of rows with these inner products, whose inverse norms are written; 0 for a row of zeros.
fn gramian_square(products: &[f64], n_rows: usize, inverses: &mut Vec<f64>) -> f64 {
    let on_diagonal = (0..n_rows).map(|r| products[packed_index(n_rows, r, r)]);
    inverses.clear();
    inverses.extend(on_diagonal.map(|p| if p > 0.0 { p.sqrt().recip() } else { 0.0 }));
    let (mut square, mut rest) = (0.0, products);
    for (r, inverse) in inverses.iter().enumerate() {
        let (row, below) = rest.split_at(n_rows - r);
        let cosines = row.iter().zip(&inverses[r..]);
        let squares = cosines.map(|(p, other)| (p * inverse * other).powi(2));
        square += 2.0 * squares.sum::<f64>() - if *inverse > 0.0 { 1.0 } else { 0.0 };
        rest = below;
    }
    square
}

impl Whitening {
    pub(super) fn request(n_features: usize, share: f64) -> ReleaseRequest {
        let draws = KroneckerSum::draws(n_features);
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
        let shape = (OffDiagonalNoise::Isometric, self.clip_norm);
        let released = out.kronecker(samples.table(), shape, &moments, spend)?;
        self.transform(dim, &released.values(), released.noise_stddev())
    }

    /// Post-processing of the release.
    fn transform(&self, dim: usize, values: &[f64], noise_stddev: f64) -> Result<Option<Vec<f64>>> {
        let mut matrix = vec![0.0; dim * dim];
        unpack_symmetric(values, dim, &mut matrix)?;
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
        // the triangle of 10 [[4, 1], [1, 2]]
        let found = whitening
            .transform(2, &[40.0, 10.0, 20.0], 1e-9)
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
