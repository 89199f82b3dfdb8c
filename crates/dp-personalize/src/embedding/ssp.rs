//! Algorithm 2: sufficient statistics of the embedding, perturbed.

use dp_accounting::{ReleaseRequest, Spend};
use dp_core::{ReplaceFactor, SampleRows, UserRow, UserSamples, params};
use dp_linalg::{PsdScratch, packed_len, psd_part_plus_ridge_solve};
use dp_mechanism::{
    Grid, NoiseSource, ReleasedVector, SparseBuffer, VectorContribution, VectorSum,
};

use super::SymmetricNoise;
use crate::alt_min::StepUsers;
use crate::design::{TINY_RIDGE, UserDesign};
use crate::small::clip_factor;
use crate::{Provenance, Result, Subspace};

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
        let matrix_draws = packed_len(n) as u64;
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
        spends: [Spend; 2],
        noise: &mut NoiseSource,
    ) -> Result<Subspace> {
        let user = SspUser {
            settings: self,
            subspace: current,
            max_rows: samples.max_rows(),
            users,
        };
        let [matrix_spend, rhs_spend] = spends;
        let n = current.dim() * current.rank();
        let release = |sum: VectorSum, spend, noise: &mut NoiseSource| -> Result<ReleasedVector> {
            Ok(sum.release(spend, noise)?)
        };
        let matrix = SspMatrix(user);
        let grid = Grid::new(matrix_spend.noise_multiplier()?, matrix.clip_norm())?;
        let sum = VectorSum::accumulate(samples.table(), packed_len(n), grid, &matrix)?;
        let a = release(sum, matrix_spend, noise)?;
        let rhs = SspRhs(user);
        let grid = Grid::new(rhs_spend.noise_multiplier()?, rhs.clip_norm())?;
        let sum = VectorSum::accumulate(samples.table(), n, grid, &rhs)?;
        let b = release(sum, rhs_spend, noise)?;
        self.solve(current, &a, b.values(), noise.is_insecure())
    }

    /// Post-processing of the two releases.
    fn solve(
        &self,
        current: &Subspace,
        matrix: &ReleasedVector,
        mut rhs: Vec<f64>,
        insecure: bool,
    ) -> Result<Subspace> {
        let n = rhs.len();
        // in units of the clips, so that tiny ones stay far from underflow
        let (a_unit, b_unit) = (self.design_clip.powi(2), self.design_clip * self.label_clip);
        let values: Vec<f64> = matrix.values().iter().map(|a| a / a_unit).collect();
        rhs.iter_mut().for_each(|b| *b /= b_unit);
        let full = self.symmetric_noise.read(&values, n);
        let ridge = self.ridge_factor * matrix.noise_stddev() / a_unit * (n as f64).sqrt();
        psd_part_plus_ridge_solve(&full, ridge, &mut rhs, &mut PsdScratch::new(n)?)?;
        Subspace::spanned_by(
            current.dim(),
            current.rank(),
            &rhs,
            Provenance::of(insecure),
        )
    }
}

/// What both sums of Algorithm 2 need to know.
#[derive(Clone, Copy)]
pub(crate) struct SspUser<'a> {
    pub(crate) settings: &'a SspEmbedding,
    pub(crate) subspace: &'a Subspace,
    pub(crate) max_rows: usize,
    pub(crate) users: StepUsers,
}

/// Working memory: the user's least squares, one `W`, the user's sum.
#[derive(Default)]
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct SspScratch {
    design: UserDesign,
    row: Vec<f64>,
    sum: Vec<f64>,
}

impl SspUser<'_> {
    /// Calls `add` with `W_ij` and the clipped label of each row of the user's.
    fn for_each_row(
        &self,
        user: UserRow<'_>,
        scratch: &mut SspScratch,
        add: impl Fn(&[f64], f64, &mut [f64]),
    ) {
        let dim = self.subspace.dim();
        let rows = SampleRows::of(user, dim);
        if !self.users.include(rows) {
            return;
        }
        let SspScratch { design, row, sum } = scratch;
        design.read(
            self.users.model_rows.of(rows.iter(), self.max_rows),
            self.subspace.basis(),
        );
        design.solve(TINY_RIDGE);
        let zeta = self.settings.label_clip;
        for (x, y) in self.users.embedding_rows.of(rows.iter(), self.max_rows) {
            row.clear();
            row.extend(
                x.iter()
                    .flat_map(|&x| design.own.iter().map(move |v| f64::from(x) * v)),
            );
            let factor = clip_factor(crate::small::norm(row), self.settings.design_clip);
            row.iter_mut().for_each(|w| *w *= factor);
            add(row, f64::from(y).clamp(-zeta, zeta), sum);
        }
    }

    fn scratch(&self, n_sum: usize) -> SspScratch {
        SspScratch {
            design: UserDesign::new(self.subspace.rank()),
            row: Vec::new(),
            sum: vec![0.0; n_sum],
        }
    }

    fn n_rows(&self) -> f64 {
        self.users.embedding_rows.most(self.max_rows) as f64
    }
}

/// One user's share of `A = sum_ij W_ij W_ij^T`.
///
/// # Privacy
/// `||W W^T||_F = ||W||^2 <= eta^2`, so a user with at most `m'` rows in this step moves `A` by at most `m' eta^2` in
/// Frobenius norm under add/remove, and by twice that under replacement (the noise of a vector sum is paid for general shares).
/// `v_j` is computed from the user's own rows inside the contribution and leaves it in these products only.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
pub struct SspMatrix<'a>(pub(crate) SspUser<'a>);

impl SspMatrix<'_> {
    /// `m' eta^2`: the sensitivity under add/remove.
    #[must_use]
    pub fn clip_norm(&self) -> f64 {
        self.0.n_rows() * self.0.settings.design_clip.powi(2)
    }
}

impl VectorContribution for SspMatrix<'_> {
    type Scratch = SspScratch;

    fn scratch(&self) -> SspScratch {
        let n = self.0.subspace.basis().len();
        self.0.scratch(n * n)
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut SspScratch, out: &mut SparseBuffer) {
        let n = self.0.subspace.basis().len();
        scratch.sum.fill(0.0);
        self.0.for_each_row(user, scratch, |w, _, sum| {
            for (a, entries) in sum.chunks_exact_mut(n).enumerate() {
                let upper = entries[a..].iter_mut().zip(&w[a..]);
                upper.for_each(|(s, b)| *s += w[a] * b);
            }
        });
        if self
            .0
            .users
            .include(SampleRows::of(user, self.0.subspace.dim()))
        {
            self.0
                .settings
                .symmetric_noise
                .push(out, 0, &scratch.sum, n, 1.0);
        }
    }
}

/// One user's share of `b = sum_ij y'_ij W_ij`.
///
/// # Privacy
/// `||y' W|| <= zeta eta`, so a user moves `b` by at most `m' zeta eta` under add/remove and twice that under replacement.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
pub struct SspRhs<'a>(pub(crate) SspUser<'a>);

impl SspRhs<'_> {
    /// `m' zeta eta`: the sensitivity under add/remove.
    #[must_use]
    pub fn clip_norm(&self) -> f64 {
        self.0.n_rows() * self.0.settings.design_clip * self.0.settings.label_clip
    }
}

impl VectorContribution for SspRhs<'_> {
    type Scratch = SspScratch;

    fn scratch(&self) -> SspScratch {
        self.0.scratch(self.0.subspace.basis().len())
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut SspScratch, out: &mut SparseBuffer) {
        scratch.sum.fill(0.0);
        self.0.for_each_row(user, scratch, |w, y, sum| {
            sum.iter_mut().zip(w).for_each(|(s, w)| *s += y * w);
        });
        crate::small::push_all(out, 0, scratch.sum.iter().copied());
    }
}
