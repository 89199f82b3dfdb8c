//! A user's contribution to the sums of Algorithm 2, and a cache of it for both sums.

use dp_accounting::ReleaseRequest;
use dp_core::{PerUser, ReplaceFactor, SampleRows, UserRow, UserSamples, parallel, params};
use dp_linalg::{
    PsdScratch, SymmetricEigen, psd_part_plus_ridge_solve, symmetric_eigen, unpack_symmetric,
    write_outer_product,
};
use dp_mechanism::{
    KroneckerContribution, KroneckerSum, Provenance, ReleasedVector, RowsBuffer, Run, SparseBuffer,
    VectorContribution,
};

use super::{StepUsers, SymmetricNoise};
use crate::cache::{USERS_PER_TASK, fill, fits, user_index};
use crate::design::{SINGLE_RIDGE, UserDesign};
use crate::residual::pseudo_inverse;
use crate::small::{clip_factor, norm, transposed};
use crate::user_rows::{Sweep, UserCells};
use crate::{Result, Subspace};

/// Common inputs of both sums of Algorithm 2.
#[derive(Clone, Copy)]
pub(crate) struct SspUser<'a> {
    pub(crate) settings: &'a SspEmbedding,
    pub(crate) subspace: &'a Subspace,
    pub(crate) max_rows: usize,
    pub(crate) users: StepUsers,
    /// Precomputed values for both sums.
    pub(crate) cache: Option<&'a ShareCache>,
}

/// A user's contribution to both sums.
struct Share<'a> {
    /// `v_j`.
    own: &'a [f64],
    /// Clip factors of all rows, 0 for those that are not in the step.
    factors: &'a [f64],
    /// `sum_i y'_ij f_ij x_ij` with the clip factors `f`, times `||v_j||` and in units of the
    /// clipping norms.
    pulled: &'a [f32],
    /// Scratch memory.
    scales: &'a mut Vec<f64>,
}

/// Scratch memory: the user's rows and least squares, and the rows of the step.
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
    scales: Vec<f64>,
}

/// For a row `x_ij` of the step, the clip factor of `W_ij = x_ij v_j^T`, and the clipped label.
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
            cache: None,
        })
    }
}

impl SspUser<'_> {
    /// The user's contribution. `None` for a user who is not in the step.
    fn share<'s>(&'s self, user: UserRow<'_>, scratch: &'s mut SspScratch) -> Option<Share<'s>> {
        match self.cache.and_then(|cache| cache.find(user)) {
            Some(cached) => cached.share(&mut scratch.scales),
            None => self.compute(user, scratch),
        }
    }

    /// The same from the user's rows: fits `v_j` and clips the rows of the step.
    fn compute<'s>(&self, user: UserRow<'_>, scratch: &'s mut SspScratch) -> Option<Share<'s>> {
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
        // in units of the clipping norms, so that very small ones do not underflow
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

/// One user's contribution to `A = sum_ij W_ij W_ij^T`, which is
/// `(sum_i x_ij x_ij^T) (x) v_j v_j^T` with the clip factors in the rows.
///
/// # Privacy
/// `||W W^T||_F = ||W||^2 <= eta^2`, so a user with at most `m'` rows in this step moves `A` by at
/// most `m' eta^2` in Frobenius norm under add/remove, and by at most twice that under replacement.
/// The kernel checks the norm in exact integers ([`KroneckerSum`](dp_mechanism::KroneckerSum)).
/// `v_j` is computed from the user's own rows inside the contribution and leaves it only in these
/// products.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
pub struct SspMatrix<'a>(pub(crate) SspUser<'a>);

impl<'a> SspMatrix<'a> {
    /// The contributions of all users, with all of their at most `max_rows` rows.
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

/// One user's contribution to `b = sum_ij y'_ij W_ij = (sum_i y'_ij x_ij) v_j^T`, released column
/// by column.
///
/// # Privacy
/// `||y' W|| <= zeta eta`, so a user moves `b` by at most `m' zeta eta` under add/remove and twice that under replacement.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
pub struct SspRhs<'a>(pub(crate) SspUser<'a>);

impl<'a> SspRhs<'a> {
    /// The contributions of all users, with all of their at most `max_rows` rows.
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
        self.0.cache.is_none()
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
            out.fill(0.0); // does not happen for any user: lengths are public
        }
    }
}

/// Every user's personal model, clip factors and weighted sum of rows at one subspace.
pub(crate) struct ShareCache {
    index: PerUser<()>,
    /// Personal models followed by clip factors, shape `(n_users, rank + n_places)`. NaN in a model
    /// marks a user who is not in the step.
    models: Vec<f64>,
    /// Weighted sums of rows, shape `(n_users, dim)`.
    pulled: Vec<f32>,
    dim: usize,
    rank: usize,
    n_places: usize,
}

impl ShareCache {
    /// The contributions of all users, if they fit into memory.
    pub(super) fn of(step: &SspUser<'_>, samples: &UserSamples) -> Option<Self> {
        let (dim, rank) = (samples.n_features(), step.subspace.rank());
        let (n_users, n) = (samples.users().len(), rank + samples.n_places());
        if !fits(samples, 4 * dim + 8 * n) {
            return None;
        }
        let mut cache = Self {
            index: user_index(samples),
            models: vec![f64::NAN; n_users * n],
            pulled: vec![0.0; n_users * dim],
            dim,
            rank,
            n_places: samples.n_places(),
        };
        let models = cache.models.chunks_mut(USERS_PER_TASK * n);
        let pulled = cache.pulled.chunks_mut(USERS_PER_TASK * dim);
        let tasks = models.zip(pulled).enumerate();
        parallel::for_each(tasks, |(task, (models, pulled))| {
            let entries = models.chunks_exact_mut(n);
            let entries = entries.zip(pulled.chunks_exact_mut(dim));
            let scratch = || step.scratch();
            fill(samples, task, entries, scratch, |user, own, entry| {
                let (model, pulled) = entry;
                if let Some(share) = step.compute(user, own) {
                    let (own, factors) = model.split_at_mut(rank);
                    own.copy_from_slice(share.own);
                    factors.copy_from_slice(share.factors);
                    pulled.copy_from_slice(share.pulled);
                }
            });
        });
        Some(cache)
    }

    /// The entry of the user with this row.
    fn find(&self, user: UserRow<'_>) -> Option<CachedShare<'_>> {
        let at = self.index.place(user.key())?;
        let (dim, n) = (self.dim, self.rank + self.n_places);
        let (own, factors) = self.models[at * n..(at + 1) * n].split_at(self.rank);
        Some(CachedShare {
            own,
            factors,
            pulled: &self.pulled[at * dim..(at + 1) * dim],
        })
    }
}

/// One user's contribution, or that there is none.
struct CachedShare<'a> {
    own: &'a [f64],
    factors: &'a [f64],
    pulled: &'a [f32],
}

impl<'a> CachedShare<'a> {
    fn share<'s>(self, scales: &'s mut Vec<f64>) -> Option<Share<'s>>
    where
        'a: 's,
    {
        let takes_part = self.own.first().is_some_and(|v| !v.is_nan());
        takes_part.then_some(Share {
            own: self.own,
            factors: self.factors,
            pulled: self.pulled,
            scales,
        })
    }
}

/// Settings of Algorithm 2 of Jain et al. 2021: given personal models `v_j`, the subspace is a
/// least-squares problem in the `d k` entries of `U`, solved from two noisy sums.
///
/// ```text
/// W_ij = clip(vec(x_ij v_j^T); eta),   y'_ij = clip(y_ij; zeta)
/// A = sum_ij W_ij W_ij^T + noise,      b = sum_ij y'_ij W_ij + noise
/// Z = (PSD(A) + r I)^-1 b,             U = orthonormal basis of Z
/// ```
///
/// The published step takes the minimiser of a quadratic form that is indefinite when the noise is
/// large and then has none; here its positive semidefinite part is used and a ridge
/// `r = ridge_factor s_A sqrt(d k)` added, with `s_A` the standard deviation of the noise: both
/// after the release (`docs/errata.md`). Clipping norms far below the data retain direction and
/// sign only, and the lost scale does not matter for the span of `Z`.
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
    /// The experiment of the paper's section 6: clipping norm 1e-4 for both, noise by copying a
    /// triangle; half the step's budget for each sum, ridge factor 1.
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
        let rhs = transposed(&b.values(), current.rank());
        self.solve(current, &a, (rhs, b.noise_stddev()), run.provenance())
    }

    /// Post-processing of the two releases.
    fn solve(
        &self,
        current: &Subspace,
        matrix: &ReleasedVector,
        (mut rhs, rhs_noise): (Vec<f64>, f64),
        provenance: Provenance,
    ) -> Result<Subspace> {
        let n = rhs.len();
        // in units of the clipping norms, so that very small ones do not underflow
        let (a_unit, b_unit) = (self.design_clip.powi(2), self.design_clip * self.label_clip);
        let values: Vec<f64> = matrix.values().iter().map(|a| a / a_unit).collect();
        rhs.iter_mut().for_each(|b| *b /= b_unit);
        let mut full = vec![0.0; n * n];
        unpack_symmetric(&values, n, &mut full)?;
        let ridge = self.ridge_factor * matrix.noise_stddev() / a_unit * (n as f64).sqrt();
        psd_part_plus_ridge_solve(&full, ridge, &mut rhs, &mut PsdScratch::new(n)?)?;
        let found = Subspace::spanned_by(current.dim(), current.rank(), &rhs, provenance)?;
        let noise = StepNoise {
            matrix: &full,
            ridge,
            stddevs: [matrix.noise_stddev() / a_unit, rhs_noise / b_unit],
            symmetric: self.symmetric_noise,
        };
        let errors = noise.share_errors(&found, &rhs).ok().flatten();
        Ok(found.with_share_errors(errors))
    }
}

/// The noise in `Z = (PSD(A) + ridge)^-1 b`.
struct StepNoise<'a> {
    matrix: &'a [f64],
    ridge: f64,
    /// Of a diagonal entry of `A` and of an entry of `b`.
    stddevs: [f64; 2],
    symmetric: SymmetricNoise,
}

impl StepNoise<'_> {
    /// [`Subspace::share_errors`] of the span of the columns of `Z`, shape `(dim, rank)`:
    ///
    /// ```text
    /// dZ = (A + ridge)^-1 (db - dA Z),   dP_aa = 2 <g_a, dZ>,   g_a = (I - P)_a (Z^+)_a^T
    /// ```
    fn share_errors(&self, model: &Subspace, columns: &[f64]) -> Result<Option<Vec<f64>>> {
        let (dim, rank) = (model.dim(), model.rank());
        let [of_matrix, of_rhs] = self.stddevs;
        let eigen = symmetric_eigen(self.matrix, columns.len())?;
        let square = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>();
        let inverse = pseudo_inverse(columns, rank)?;
        let mut errors = Vec::with_capacity(dim);
        for (feature, own) in inverse.iter().enumerate() {
            let row = |at: usize| &model.basis()[at * rank..][..rank];
            let mut g = Vec::with_capacity(columns.len());
            for other in 0..dim {
                let unit = f64::from(u8::from(other == feature));
                let products = row(feature).iter().zip(row(other));
                let outside = unit - products.map(|(a, b)| a * b).sum::<f64>();
                g.extend(own.iter().map(|x| outside * x));
            }
            let g = self.solved(&eigen, &g);
            // V <g, dA Z> for symmetric noise
            let each = g.iter().zip(columns);
            let product: f64 = each.clone().map(|(g, z)| g * z).sum();
            let both = square(&g) * square(columns) + product * product;
            let mixed = match self.symmetric {
                SymmetricNoise::Isometric => 0.5 * both,
                SymmetricNoise::Copied => both - each.map(|(g, z)| (g * z).powi(2)).sum::<f64>(),
            };
            let variance = of_rhs.powi(2) * square(&g) + of_matrix.powi(2) * mixed;
            errors.push(2.0 * variance.sqrt());
        }
        Ok(Some(errors).filter(|errors| errors.iter().all(|error| error.is_finite())))
    }

    /// `(PSD(A) + ridge)^-1 g`.
    fn solved(&self, of: &SymmetricEigen, g: &[f64]) -> Vec<f64> {
        let mut solution = vec![0.0; g.len()];
        for (value, axis) in of.values.iter().zip(of.vectors.chunks_exact(g.len())) {
            let along: f64 = axis.iter().zip(g).map(|(a, g)| a * g).sum();
            let along = along / (value.max(0.0) + self.ridge);
            let entries = solution.iter_mut().zip(axis);
            entries.for_each(|(x, a)| *x += along * a);
        }
        solution
    }
}

#[cfg(test)]
mod tests {
    use dp_core::UserSamplesBuilder;
    use dp_mechanism::{Grid, KroneckerGrid, kronecker_contribution, vector_contribution};

    use super::*;
    use crate::RowUse;

    /// Rounding must not push the sum of many clipped rows over the bound, in which case the kernel
    /// replaces the whole contribution by 0.
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

    fn samples() -> UserSamples {
        let mut builder = UserSamplesBuilder::new(3, 8).unwrap();
        for user in 0..250_u8 {
            let angle = |row: u8| f32::from(user) * 0.7 + f32::from(row) * 1.3;
            for row in 0..1 + user % 8 {
                let x = [angle(row).sin(), angle(row).cos(), 1.0 - angle(row) % 2.0];
                builder.push(user.into(), &x, angle(row) % 3.0).unwrap();
            }
        }
        builder.build().0
    }

    #[test]
    fn a_cache_holds_what_the_user_would_add() {
        let samples = samples();
        let columns = [1.0, 0.5, 0.1, 1.0, 0.3, -0.4];
        let plane = Subspace::spanned_by(3, 2, &columns, Provenance::NonPrivate).unwrap();
        let settings = SspEmbedding {
            design_clip: 0.4,
            label_clip: 2.0,
            ..SspEmbedding::section_6()
        };
        let mut step = SspUser {
            settings: &settings,
            subspace: &plane,
            max_rows: 8,
            users: StepUsers {
                batch: Some((1, 2)),
                model_rows: RowUse::Quarter(0),
                embedding_rows: RowUse::Quarter(1),
            },
            cache: None,
        };
        let (fresh, cache) = (step, ShareCache::of(&step, &samples).unwrap());
        step.cache = Some(&cache);
        let grids = (Grid::new(2.0, 1.0), KroneckerGrid::new(2.0, 1.0));
        let grids = (grids.0.unwrap(), grids.1.unwrap());
        let numbers = |step, user| {
            let matrix = kronecker_contribution(&grids.1, &SspMatrix(step), user).unwrap();
            (
                matrix,
                vector_contribution(&grids.0, 6, &SspRhs(step), user),
            )
        };
        let (copy, others) = (samples.table().expose().clone(), self::samples());
        let others = others.table().expose(); // the same rows, which are not in the cache
        let mut silent = 0;
        for (at, user) in samples.table().expose().users().enumerate() {
            assert!(cache.find(user).is_some() && cache.find(copy.user(at)).is_some());
            assert!(cache.find(others.user(at)).is_none());
            let expected = numbers(fresh, others.user(at));
            silent += usize::from(expected.0.is_empty());
            assert!(numbers(step, user) == expected, "{at}");
            assert!(numbers(step, copy.user(at)) == expected, "{at}");
            assert!(numbers(step, others.user(at)) == expected, "{at}");
        }
        assert!((80..200).contains(&silent), "{silent}");
    }
}
