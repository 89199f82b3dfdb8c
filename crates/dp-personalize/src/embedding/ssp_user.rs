//! One user's share of the sums of Algorithm 2.

use dp_core::{SampleRows, UserRow, params};
use dp_linalg::write_outer_product;
use dp_mechanism::{KroneckerContribution, RowsBuffer, SparseBuffer, VectorContribution};

use super::SspEmbedding;
use super::kept::KeptShares;
use crate::alt_min::StepUsers;
use crate::design::{SINGLE_RIDGE, UserDesign};
use crate::small::{clip_factor, norm};
use crate::user_rows::{Sweep, UserCells};
use crate::{Result, Subspace};

/// What both sums of Algorithm 2 need to know.
#[derive(Clone, Copy)]
pub(crate) struct SspUser<'a> {
    pub(crate) settings: &'a SspEmbedding,
    pub(crate) subspace: &'a Subspace,
    pub(crate) max_rows: usize,
    pub(crate) users: StepUsers,
    /// What was computed before, for both sums.
    pub(crate) kept: Option<&'a KeptShares<'a>>,
}

/// What a user adds to both sums.
pub(super) struct Share<'a> {
    /// `v_j`.
    pub(super) own: &'a [f64],
    /// Clip factors of all rows, 0 for those that are not in the step.
    pub(super) factors: &'a [f64],
    /// `sum_i y'_ij f_ij x_ij` with the clip factors `f`, times `||v_j||` and in units of the clips.
    pub(super) pulled: &'a [f32],
    /// Working memory.
    pub(super) scales: &'a mut Vec<f64>,
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
    factors: Vec<f64>,
    pub(super) scales: Vec<f64>,
}

/// Of a row `x_ij` of the step the clip factor of `W_ij = x_ij v_j^T`, and the clipped label.
struct ClippedRow {
    factor: f64,
    label: f64,
}

impl<'a> SspUser<'a> {
    /// All users, with all of their at most `max_rows` rows.
    fn new(settings: &'a SspEmbedding, subspace: &'a Subspace, max_rows: usize) -> Result<Self> {
        settings.check()?;
        params::at_least_one("max_rows", max_rows)?;
        Ok(Self {
            settings,
            subspace,
            max_rows,
            users: StepUsers::ALL,
            kept: None,
        })
    }
}

impl SspUser<'_> {
    /// What the user adds. `None` for a user who is not in the step.
    fn share<'s>(&'s self, user: UserRow<'_>, scratch: &'s mut SspScratch) -> Option<Share<'s>> {
        match self.kept.and_then(|kept| kept.find(user)) {
            Some(kept) => kept.share(&mut scratch.scales),
            None => self.compute(user, scratch),
        }
    }

    /// The same from the user's rows: fits `v_j` and clips the rows of the step.
    pub(super) fn compute<'s>(
        &self,
        user: UserRow<'_>,
        scratch: &'s mut SspScratch,
    ) -> Option<Share<'s>> {
        let (dim, most) = (self.subspace.dim(), self.max_rows);
        if !self.users.include(SampleRows::of(user, dim)) {
            return None;
        }
        let user = UserCells::of(user, dim);
        let SspScratch {
            sweep,
            design,
            rows,
            factors,
            scales,
        } = scratch;
        sweep.read(user);
        sweep.fill(design, user, (self.users.model_rows, most));
        design.solve(SINGLE_RIDGE);
        let (own, zeta) = (norm(&design.own), self.settings.label_clip);
        rows.clear();
        factors.clear();
        factors.resize(user.n_rows(), 0.0);
        for row in sweep.used((self.users.embedding_rows, most)) {
            let factor = clip_factor(sweep.norm(user, row) * own, self.settings.design_clip);
            factors[row] = factor;
            rows.push(ClippedRow {
                factor,
                label: f64::from(user.label(row)).clamp(-zeta, zeta),
            });
        }
        // in units of the clips, so that tiny ones stay far from underflow
        let unit = self.unit();
        let coefficients = rows.iter().map(|r| r.factor * r.label * own / unit);
        let rows = (self.users.embedding_rows, most);
        Some(Share {
            pulled: sweep.weighted_sum(user, rows, coefficients),
            own: &design.own,
            factors,
            scales,
        })
    }

    /// `zeta eta`.
    const fn unit(&self) -> f64 {
        self.settings.design_clip * self.settings.label_clip
    }

    pub(super) fn scratch(&self) -> SspScratch {
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
/// Frobenius norm under add/remove, and by at most twice that under replacement. The kernel checks the norm in exact integers ([`KroneckerSum`](dp_mechanism::KroneckerSum)).
/// `v_j` is computed from the user's own rows inside the contribution and leaves it in these products only.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
pub struct SspMatrix<'a>(pub(crate) SspUser<'a>);

impl<'a> SspMatrix<'a> {
    /// The shares of all users, with all of their at most `max_rows` rows.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn new(
        settings: &'a SspEmbedding,
        subspace: &'a Subspace,
        max_rows: usize,
    ) -> Result<Self> {
        SspUser::new(settings, subspace, max_rows).map(Self)
    }

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
        let stride = self.0.subspace.dim() + 1;
        if let Some(share) = self.0.share(user, scratch) {
            out.own_rows(stride, share.factors.iter().copied());
            out.vector.clear();
            out.vector.extend_from_slice(share.own);
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

impl<'a> SspRhs<'a> {
    /// The shares of all users, with all of their at most `max_rows` rows.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn new(
        settings: &'a SspEmbedding,
        subspace: &'a Subspace,
        max_rows: usize,
    ) -> Result<Self> {
        SspUser::new(settings, subspace, max_rows).map(Self)
    }

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

    fn reads_features(&self) -> bool {
        self.0.kept.is_none()
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut SspScratch, out: &mut SparseBuffer) {
        let Some(share) = self.0.share(user, scratch) else {
            return;
        };
        let length = norm(share.own);
        if length == 0.0 {
            return;
        }
        let scales = share.own.iter().map(|v| v * self.0.unit() / length);
        share.scales.clear();
        share.scales.extend(scales);
        let out = out.dense(share.pulled.len() * share.own.len());
        if write_outer_product(share.scales, share.pulled, out).is_err() {
            out.fill(0.0); // not for any user: lengths are public
        }
    }
}

#[cfg(test)]
mod tests {
    use dp_core::UserSamplesBuilder;
    use dp_mechanism::{Grid, vector_contribution};

    use super::*;
    use crate::Provenance;

    /// Rounding must not carry the sum of many clipped rows over the bound, where the kernel takes the whole share for 0.
    #[test]
    fn many_equal_rows_at_the_clip_are_not_left_out() {
        const N_ROWS: usize = 8192;
        let plane = [1.0, 0.2, 0.5, 1.0, 0.0, 0.3];
        let plane = Subspace::spanned_by(3, 2, &plane, Provenance::NonPrivate).unwrap();
        let mut builder = UserSamplesBuilder::new(3, N_ROWS).unwrap();
        for user in 0..24_u8 {
            let x = [
                1.0 + 0.013 * f32::from(user),
                0.7,
                -0.1 * f32::from(user % 7),
            ];
            for _ in 0..N_ROWS {
                builder.push(user.into(), &x, 1.0).unwrap();
            }
        }
        let samples = builder.build().0;
        let settings = SspEmbedding::section_6();
        let rhs = SspRhs::new(&settings, &plane, N_ROWS).unwrap();
        let grid = Grid::new(1.0, rhs.clip_norm()).unwrap();
        for user in samples.table().expose().users() {
            let share = vector_contribution(&grid, 6, &rhs, user);
            let square: f64 = share.iter().map(|&(_, z)| (z as f64).powi(2)).sum();
            let reached = square.sqrt() / grid.l2_bound() as f64;
            assert!(reached > 0.9999 && reached <= 1.0, "{reached}");
        }
    }
}
