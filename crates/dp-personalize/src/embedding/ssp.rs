//! Algorithm 2: sufficient statistics of the embedding, perturbed.

use dp_accounting::ReleaseRequest;
use dp_core::{ReplaceFactor, UserSamples, params};
use dp_linalg::{PsdScratch, psd_part_plus_ridge_solve, unpack_symmetric};
use dp_mechanism::{KroneckerSum, Provenance, ReleasedVector, Run};

use super::ssp_user::{ShareCache, SspMatrix, SspRhs, SspUser};
use super::{StepUsers, SymmetricNoise};
use crate::small::transposed;
use crate::{Result, Subspace};

/// Settings of Algorithm 2 of Jain et al. 2021: given personal models `v_j`, the subspace is a least-squares
/// problem in the `d k` entries of `U`, solved from two noisy sums.
///
/// ```text
/// W_ij = clip(vec(x_ij v_j^T); eta),   y'_ij = clip(y_ij; zeta)
/// A = sum_ij W_ij W_ij^T + noise,      b = sum_ij y'_ij W_ij + noise
/// Z = (PSD(A) + r I)^-1 b,             U = orthonormal basis of Z
/// ```
///
/// The published step takes the minimiser of a quadratic form that is indefinite when the noise is large and then has none;
/// here its positive semidefinite part is taken and a ridge `r = ridge_factor s_A sqrt(d k)` added, `s_A` the standard
/// deviation of the noise: both after the release (`docs/errata.md`). Clip norms far below the data
/// leave direction and sign only, and what scale is lost does not matter for the span of `Z`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SspEmbedding {
    /// Bound `eta` on `||x v^T||_F`.
    pub design_clip: f64,
    /// Bound `zeta` on a label.
    pub label_clip: f64,
    /// Share of a step's budget for `A`, strictly between 0 and 1.
    pub matrix_share: f64,
    /// Ridge in units of the noise of `A`, above 0.
    pub ridge_factor: f64,
    /// Coordinates of the release of `A`.
    pub symmetric_noise: SymmetricNoise,
}

impl SspEmbedding {
    /// The experiment of the paper's section 6: clip norm 1e-4 for both, noise by copying a triangle; half the
    /// step's budget for either sum, ridge factor 1.
    #[must_use]
    pub const fn section_6() -> Self {
        Self {
            design_clip: 1e-4,
            label_clip: 1e-4,
            matrix_share: 0.5,
            ridge_factor: 1.0,
            symmetric_noise: SymmetricNoise::Copied,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        params::finite_positive("design_clip", self.design_clip)?;
        params::finite_positive("label_clip", self.label_clip)?;
        params::open_unit("matrix_share", self.matrix_share)?;
        params::finite_positive("ridge_factor", self.ridge_factor)?;
        Ok(())
    }

    pub(crate) fn requests(
        &self,
        dim: usize,
        rank: usize,
        step: &str,
        share: f64,
    ) -> [ReleaseRequest; 2] {
        let n = dim * rank;
        let matrix_draws = KroneckerSum::draws(n);
        let request = |what, share, draws| {
            ReleaseRequest::new(format!("{step} {what}"), share, ReplaceFactor::Two, draws)
        };
        [
            request("matrix", share * self.matrix_share, matrix_draws),
            request(
                "right-hand side",
                share * (1.0 - self.matrix_share),
                n as u64,
            ),
        ]
    }

    /// One step from `current`.
    pub(crate) fn step(
        &self,
        current: &Subspace,
        samples: &UserSamples,
        users: StepUsers,
        run: &mut Run<'_>,
    ) -> Result<Subspace> {
        let mut user = SspUser {
            settings: self,
            subspace: current,
            max_rows: samples.max_rows(),
            users,
            cache: None,
        };
        let mut cache = None;
        if !run.is_replaying()? {
            cache = ShareCache::of(&user, samples);
        }
        user.cache = cache.as_ref();
        let n = current.dim() * current.rank();
        let matrix = SspMatrix(user);
        let shape = (self.symmetric_noise.off_diagonal(), matrix.clip_norm());
        let a = run.kronecker(samples.table(), shape, &matrix)?;
        let rhs = SspRhs(user);
        let b = run.vector(samples.table(), (n, rhs.clip_norm()), &rhs)?;
        // released column by column
        let b = transposed(&b.values(), current.rank());
        self.solve(current, &a, b, run.provenance())
    }

    /// Post-processing of the two releases.
    fn solve(
        &self,
        current: &Subspace,
        matrix: &ReleasedVector,
        mut rhs: Vec<f64>,
        provenance: Provenance,
    ) -> Result<Subspace> {
        let n = rhs.len();
        // in units of the clips, so that tiny ones stay far from underflow
        let (a_unit, b_unit) = (self.design_clip.powi(2), self.design_clip * self.label_clip);
        let values: Vec<f64> = matrix.values().iter().map(|a| a / a_unit).collect();
        rhs.iter_mut().for_each(|b| *b /= b_unit);
        let mut full = vec![0.0; n * n];
        unpack_symmetric(&values, n, &mut full)?;
        let ridge = self.ridge_factor * matrix.noise_stddev() / a_unit * (n as f64).sqrt();
        psd_part_plus_ridge_solve(&full, ridge, &mut rhs, &mut PsdScratch::new(n)?)?;
        Subspace::spanned_by(current.dim(), current.rank(), &rhs, provenance)
    }
}
