//! Algorithm 3: products of pairs of a user's rows.

use dp_accounting::ReleaseRequest;
use dp_core::{ReplaceFactor, SampleRows, UserRow, UserSamples};
use dp_linalg::packed_len;
use dp_mechanism::{Run, SparseBuffer, VectorContribution};

use crate::embedding::{RowUse, SymmetricNoise};
use crate::{Result, Subspace};

/// One user's share of `M = sum_j sum_i W_ij` of Jain et al. 2021, Algorithm 3.
///
/// ```text
/// W_ij = sym( x_a x_b^T / (||x_a|| ||x_b||) ) clip(y_a; zeta) clip(y_b; zeta),   a = 2i-1, b = 2i
/// ```
///
/// over the pairs of the user's rows, `sym(W) = (W + W^T)/2`. Two corrections (`docs/errata.md`): pairs begin at the first row, so that
/// none runs past the last, and symmetrisation averages, where copying the upper triangle would double the variance.
///
/// # Privacy
/// `||W_ij||_F <= zeta^2`, and averaging with the transpose does not raise it. With at most `m` rows a user has `m/2` pairs (rounded
/// down), so adding or removing one moves `M` by at most `(m/2) zeta^2` in Frobenius norm, and replacing one by
/// twice that: the shares need not be positive semidefinite. The kernel checks each user's whole share in exact
/// integers.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
#[derive(Clone, Copy)]
pub struct SamplePairs {
    /// Length of the features.
    pub n_features: usize,
    /// Most rows of a user.
    pub max_rows: usize,
    /// Bound `zeta` on a label.
    pub label_bound: f64,
    /// Coordinates of the release.
    pub symmetric_noise: SymmetricNoise,
    /// Rows that pairs are made of.
    pub rows: RowUse,
}

impl SamplePairs {
    /// `floor(m/2) zeta^2`, `m` the most rows looked at: the sensitivity under add/remove.
    #[must_use]
    pub fn clip_norm(&self) -> f64 {
        (self.rows.most(self.max_rows) / 2) as f64 * self.label_bound * self.label_bound
    }

    pub(crate) fn request(n_features: usize, share: f64) -> ReleaseRequest {
        let draws = packed_len(n_features) as u64;
        ReleaseRequest::new("pairs of rows", share, ReplaceFactor::Two, draws)
    }

    /// The top `rank` eigenvectors of the released sum.
    pub(crate) fn release(
        &self,
        samples: &UserSamples,
        rank: usize,
        run: &mut Run<'_>,
    ) -> Result<Subspace> {
        let dim = self.n_features;
        let shape = (packed_len(dim), self.clip_norm());
        let released = run.vector(samples.table(), shape, self)?;
        let matrix = self.symmetric_noise.read(&released.values(), dim);
        Subspace::top_eigenvectors(dim, rank, &matrix, run.provenance())
    }
}

impl VectorContribution for SamplePairs {
    /// The user's matrix, and two unit rows.
    type Scratch = (Vec<f64>, [Vec<f64>; 2]);

    fn scratch(&self) -> Self::Scratch {
        let unit = || vec![0.0; self.n_features];
        (
            vec![0.0; self.n_features * self.n_features],
            [unit(), unit()],
        )
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut SparseBuffer) {
        let (matrix, [first, second]) = scratch;
        let dim = self.n_features;
        matrix.fill(0.0);
        let mut rows = self
            .rows
            .of(SampleRows::of(user, dim).iter(), self.max_rows);
        let bound = self.label_bound;
        while let (Some(a), Some(b)) = (rows.next(), rows.next()) {
            write_unit(a.0, first);
            write_unit(b.0, second);
            let labels = f64::from(a.1).clamp(-bound, bound) * f64::from(b.1).clamp(-bound, bound);
            for (row, entries) in matrix.chunks_exact_mut(dim).enumerate() {
                let (p, q) = (0.5 * labels * first[row], 0.5 * labels * second[row]);
                let upper = entries.iter_mut().zip(&*first).zip(&*second).skip(row);
                upper.for_each(|((m, f), s)| *m += p * s + q * f);
            }
        }
        let out = out.dense(packed_len(dim));
        self.symmetric_noise.write(out, matrix, dim);
    }
}

/// `x / ||x||`.
fn write_unit(x: &[f32], out: &mut [f64]) {
    let length = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    for (out, &x) in out.iter_mut().zip(x) {
        *out = if length > 0.0 {
            f64::from(x) / length
        } else {
            0.0
        };
    }
}
