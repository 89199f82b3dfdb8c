//! Algorithm 2: sufficient statistics of the embedding, perturbed.

use dp_accounting::{ReleaseRequest, Spend};
use dp_core::{ReplaceFactor, SampleRows, UserRow, UserSamples, params};
use dp_linalg::{PsdScratch, psd_part_plus_ridge_solve, unpack_symmetric, write_outer_product};
use dp_mechanism::{
    KroneckerContribution, KroneckerSum, ReleasedVector, RowsBuffer, SparseBuffer,
    VectorContribution, WatchedNoise,
};

use super::SymmetricNoise;
use crate::alt_min::StepUsers;
use crate::design::{SINGLE_RIDGE, UserDesign};
use crate::small::{clip_factor, norm, transposed};
use crate::user_rows::{Sweep, UserCells};
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
        spends: [Spend; 2],
        out: &mut WatchedNoise<'_>,
    ) -> Result<Subspace> {
        let user = SspUser {
            settings: self,
            subspace: current,
            max_rows: samples.max_rows(),
            users,
        };
        let [matrix_spend, rhs_spend] = spends;
        let n = current.dim() * current.rank();
        let matrix = SspMatrix(user);
        let shape = (self.symmetric_noise.off_diagonal(), matrix.clip_norm());
        let a = out.kronecker(samples.table(), shape, &matrix, matrix_spend)?;
        let rhs = SspRhs(user);
        let b = out.vector(samples.table(), (n, rhs.clip_norm()), &rhs, rhs_spend)?;
        // released column by column
        let b = transposed(&b.values(), current.rank());
        self.solve(current, &a, b, out.is_insecure())
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
        let mut full = vec![0.0; n * n];
        unpack_symmetric(&values, n, &mut full)?;
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

/// Working memory: the user's rows and least squares, and the rows of the step.
#[derive(Default)]
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct SspScratch {
    sweep: Sweep,
    design: UserDesign,
    rows: Vec<ClippedRow>,
    /// Clip factors of all rows, 0 for those that are not in the step.
    factors: Vec<f64>,
}

/// A row `x_ij` of the step with the clip factor of `W_ij = x_ij v_j^T`, and the clipped label.
struct ClippedRow {
    row: usize,
    factor: f64,
    label: f64,
}

impl SspUser<'_> {
    /// Fits `v_j` and clips the rows of the step. `None` for a user who is not in it.
    fn read<'a>(&self, user: UserRow<'a>, scratch: &mut SspScratch) -> Option<UserCells<'a>> {
        let (dim, most) = (self.subspace.dim(), self.max_rows);
        if !self.users.include(SampleRows::of(user, dim)) {
            return None;
        }
        let user = UserCells::of(user, dim);
        let SspScratch {
            sweep,
            design,
            rows,
            ..
        } = scratch;
        sweep.read(user);
        sweep.fill(design, user, (self.users.model_rows, most));
        design.solve(SINGLE_RIDGE);
        let (own, zeta) = (norm(&design.own), self.settings.label_clip);
        rows.clear();
        for row in sweep.used((self.users.embedding_rows, most)) {
            rows.push(ClippedRow {
                row,
                factor: clip_factor(sweep.norm(user, row) * own, self.settings.design_clip),
                label: f64::from(user.label(row)).clamp(-zeta, zeta),
            });
        }
        Some(user)
    }

    fn scratch(&self) -> SspScratch {
        let rank = self.subspace.rank();
        SspScratch {
            sweep: Sweep::new(self.subspace.basis(), rank),
            design: UserDesign::new(rank),
            ..SspScratch::default()
        }
    }

    fn n_rows(&self) -> f64 {
        self.users.embedding_rows.most(self.max_rows) as f64
    }
}

/// One user's share of `A = sum_ij W_ij W_ij^T`, which is `(sum_i x_ij x_ij^T) (x) v_j v_j^T` with the clip factors in the rows.
///
/// # Privacy
/// `||W W^T||_F = ||W||^2 <= eta^2`, so a user with at most `m'` rows in this step moves `A` by at most `m' eta^2` in
/// Frobenius norm under add/remove, and by at most twice that under replacement. The kernel checks the norm in exact integers ([`KroneckerSum`]).
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

impl KroneckerContribution for SspMatrix<'_> {
    type Scratch = SspScratch;

    fn scratch(&self) -> SspScratch {
        self.0.scratch()
    }

    fn shape(&self) -> (usize, usize) {
        (self.0.subspace.dim(), self.0.subspace.rank())
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut SspScratch, out: &mut RowsBuffer) {
        if let Some(user) = self.0.read(user, scratch) {
            scratch.factors.clear();
            scratch.factors.resize(user.n_rows(), 0.0);
            for used in &scratch.rows {
                scratch.factors[used.row] = used.factor;
            }
            let factors = scratch.factors.iter().copied();
            out.rows_of(user.cells(), user.stride(), factors);
            out.vector.clone_from(&scratch.design.own);
        }
    }
}

/// One user's share of `b = sum_ij y'_ij W_ij = (sum_i y'_ij x_ij) v_j^T`, released column by column.
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
        self.0.scratch()
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut SspScratch, out: &mut SparseBuffer) {
        let settings = self.0.settings;
        let Some(user) = self.0.read(user, scratch) else {
            return;
        };
        let own = &scratch.design.own;
        let length = norm(own);
        if length == 0.0 {
            return;
        }
        // in units of the clips, so that tiny ones stay far from underflow
        let unit = settings.design_clip * settings.label_clip;
        let coefficients = scratch.rows.iter();
        let coefficients = coefficients.map(|r| r.factor * r.label * length / unit);
        let rows = (self.0.users.embedding_rows, self.0.max_rows);
        let pulled = scratch.sweep.weighted_sum(user, rows, coefficients);
        scratch.factors.clear();
        let scales = own.iter().map(|v| v * unit / length);
        scratch.factors.extend(scales);
        let out = out.dense(pulled.len() * own.len());
        if write_outer_product(&scratch.factors, pulled, out).is_err() {
            out.fill(0.0); // not for any user: lengths are public
        }
    }
}
