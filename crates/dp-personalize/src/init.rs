//! Initial estimates of the subspace, each from one release.

use dp_accounting::ReleaseRequest;
use dp_core::{ReplaceFactor, SampleRows, UserRow, UserSamples};
use dp_linalg::{
    Across, BatchedRows, PaddedMatrix, WideRows, batched_solve, packed_len, separate,
    unpack_symmetric,
};
use dp_mechanism::{
    FactorBuffer, FactorContribution, GramGrids, GramSums, Run, SparseBuffer, VectorContribution,
};

use crate::batched::{BatchedUsers, USERS, UserBlock, is_batched};
use crate::cache::Cache;
use crate::design::{SINGLE_RIDGE, min_norm_least_squares, solve_dual};
use crate::embedding::{RowUse, SymmetricNoise};
use crate::small::{norm, transposed};
use crate::user_rows::{UserCells, single};
use crate::{Result, Subspace};

/// Share of the release's budget for the right-hand sides of the Gram sum, which contain only
/// zeros.
const RHS_SHARE: f64 = 1e-6;

/// One user's contribution to `P = sum_j u_j u_j^T`, with `u_j` the unit vector along the
/// least-squares solution of smallest norm of the user's own rows.
///
/// ```text
/// u_j = theta_j / ||theta_j||,   theta_j = X_j^+ y_j
/// ```
///
/// With fewer rows than features `theta_j` is the projection of the true coefficients onto the span
/// of the user's rows, and for isotropic features `E[u u^T] = a U U^T + b (I - U U^T)` with
/// `a > b`: the top eigenvectors of `P` span the shared subspace. Unlike Algorithm 3 it uses all
/// rows at once, and a user's contribution has norm 1 whatever the scale of features and labels, so
/// nothing needs clipping.
///
/// # Privacy
/// Adding or removing a user changes `P` by `u u^T`, of Frobenius norm exactly `||u||^2 = 1` (or
/// 0). Both contributions of a replaced user are positive semidefinite, so
/// `||u u^T - w w^T||_F^2 = 2 - 2 <u, w>^2 <= 2`: sensitivity 1 under add/remove and sqrt 2 under
/// replacement. The kernel checks `||u||^4` in exact integers. The Gram sum of the kernel also
/// releases a vector, which here contains zeros whatever the data; it has a millionth of the
/// budget.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
pub struct ProjectorSum {
    n_features: usize,
    /// Rows are multiplied by this before the fit; none for the identity.
    transform: Option<PaddedMatrix>,
    /// The transform `W`, lower triangular, in single precision; empty for the identity.
    lower: Vec<f32>,
}

impl ProjectorSum {
    /// The contribution for features of length `n_features`.
    #[must_use]
    pub const fn new(n_features: usize) -> Self {
        Self {
            n_features,
            transform: None,
            lower: Vec::new(),
        }
    }

    /// The same for rows `W x`, with a lower triangular `W` of shape `(n_features, n_features)`
    /// that is public or released.
    pub(crate) fn transformed(n_features: usize, transform: Option<&[f64]>) -> Result<Self> {
        let Some(transform) = transform else {
            return Ok(Self::new(n_features));
        };
        let columns = transposed(transform, n_features);
        Ok(Self {
            n_features,
            transform: Some(PaddedMatrix::new(&columns, n_features)?),
            lower: transform.iter().map(|&w| single(w)).collect(),
        })
    }

    fn lower(&self) -> &[f32] {
        &self.lower
    }

    /// Whether users are batched, given the maximum number of rows in their table: if there are
    /// few, and fewer than features.
    const fn is_batched(&self, user: UserCells<'_>) -> bool {
        is_batched(user) && user.n_rows() < self.n_features
    }

    /// Scales a non-zero factor to a unit vector, of weight 1.
    fn normalise(out: &mut FactorBuffer) {
        let length = norm(&out.factor);
        if length > 0.0 && length.is_finite() {
            out.factor.iter_mut().for_each(|u| *u /= length);
            out.weights.fill(1.0);
        } else {
            out.factor.fill(0.0);
        }
    }

    pub(crate) fn requests(n_features: usize, share: f64) -> [ReleaseRequest; 2] {
        let matrix = GramSums::matrix_draws(1, n_features);
        let rhs = GramSums::rhs_draws(1, n_features);
        let (psd, any) = (ReplaceFactor::SqrtTwo, ReplaceFactor::Two);
        [
            ReleaseRequest::new("projectors", share * (1.0 - RHS_SHARE), psd, matrix),
            ReleaseRequest::new("projectors, empty part", share * RHS_SHARE, any, rhs),
        ]
    }

    /// The top `rank` eigenvectors of the released sum.
    pub(crate) fn release(
        &self,
        samples: &UserSamples,
        rank: usize,
        run: &mut Run<'_>,
    ) -> Result<Subspace> {
        let directions = CachedDirections::of(self, samples, !run.is_replaying()?);
        let grids = |matrix, rhs| GramGrids::new(matrix, 1.0, rhs, 1.0);
        let released = run.grams(samples.table(), grids, &directions)?;
        let dim = self.n_features;
        let (mut sum, mut empty) = (vec![0.0; dim * dim], vec![0.0; dim]);
        released.write_item(0, &mut sum, &mut empty);
        Subspace::top_eigenvectors(dim, rank, &sum, run.provenance())
    }
}

/// Scratch memory for one user.
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct ProjectorScratch {
    batched: Directions,
    direction: Vec<f32>,
    /// Rows unchanged and multiplied by the transform.
    rows: [WideRows; 2],
    labels: Vec<f64>,
    pairs: Vec<f64>,
    kernel: Vec<f64>,
}

impl FactorContribution for ProjectorSum {
    type Scratch = Option<ProjectorScratch>;

    fn scratch(&self) -> Self::Scratch {
        self.own_scratch()
    }

    fn dim(&self) -> usize {
        self.n_features
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut FactorBuffer) {
        let Some(scratch) = scratch else {
            return; // does not happen for any user: the number of features is public
        };
        let user = UserCells::of(user, self.n_features);
        self.write_solution(user, scratch, &mut out.factor);
        Self::normalise(out);
    }
}

impl ProjectorSum {
    pub(crate) fn own_scratch(&self) -> Option<ProjectorScratch> {
        let rows = WideRows::new(self.n_features).ok()?;
        Some(ProjectorScratch {
            batched: Directions::new(self.n_features).ok()?,
            direction: vec![0.0; self.n_features],
            rows: [rows.clone(), rows],
            labels: Vec::new(),
            pairs: Vec::new(),
            kernel: Vec::new(),
        })
    }

    /// Writes a vector along the least-squares solution of one user; zeros where there is none.
    pub(crate) fn write_solution(
        &self,
        user: UserCells<'_>,
        own: &mut ProjectorScratch,
        theta: &mut [f64],
    ) {
        if self.is_batched(user) {
            let direction = &mut own.direction;
            let alone = UserBlock::alone(&user);
            own.batched.write(alone, &self.lower, direction);
            let cells = theta.iter_mut().zip(direction);
            cells.for_each(|(u, x)| *u = (*x).into());
        } else if self.solve(user.without_padding(), own, theta).is_err() {
            theta.fill(0.0);
        }
    }

    /// Least squares of smallest norm on the rows of one user, who may have many.
    fn solve(
        &self,
        user: UserCells<'_>,
        own: &mut ProjectorScratch,
        theta: &mut [f64],
    ) -> dp_linalg::Result<()> {
        let [given, moved] = &mut own.rows;
        given.load(user.rows())?;
        let rows = match &self.transform {
            Some(transform) => {
                moved.load_product(given, transform)?;
                &*moved
            }
            None => &*given,
        };
        // rows of zeros are not counted, whatever their labels
        let label = |row| f64::from(user.label(row)) * f64::from(u8::from(user.is_used(row)));
        let labels = &mut own.labels;
        labels.clear();
        labels.extend((0..user.n_rows()).map(label));
        if labels.len() >= self.n_features {
            let x: Vec<f64> = rows.iter().flatten().copied().collect();
            theta.copy_from_slice(&min_norm_least_squares(&x, labels, self.n_features));
            return Ok(());
        }
        rows.inner_products(&mut own.pairs);
        own.kernel.resize(labels.len().pow(2), 0.0);
        unpack_symmetric(&own.pairs, labels.len(), &mut own.kernel)?;
        if solve_dual(&mut own.kernel, labels) {
            rows.weighted_sum(labels, theta)?;
        }
        Ok(())
    }
}

/// Scratch memory for least-squares directions of users, batched.
struct Directions {
    users: BatchedUsers,
    moved: BatchedRows,
    kernel: Vec<Across>,
    sum: Vec<Across>,
}

impl Directions {
    fn new(n_features: usize) -> Result<Self> {
        let users = BatchedUsers::new(n_features)?;
        Ok(Self {
            moved: users.rows.clone(),
            users,
            kernel: Vec::new(),
            sum: vec![Across::default(); n_features],
        })
    }

    /// Writes for each user a vector along `Z^T (Z Z^T + ridge tr(Z Z^T)/m I)^-1 y`, with `Z` the
    /// rows times the transform (a lower triangular matrix, or the identity): the least-squares
    /// solution of smallest norm of fewer rows than features.
    fn write(&mut self, users: UserBlock<'_>, transform: &[f32], out: &mut [f32]) {
        if self.solve(users, transform, out).is_err() {
            out.fill(0.0); // does not happen for any user: lengths are public
        }
    }

    fn solve(&mut self, users: UserBlock<'_>, transform: &[f32], out: &mut [f32]) -> Result<()> {
        self.users.load(users)?;
        let BatchedUsers { rows, labels } = &mut self.users;
        let rows = if transform.is_empty() {
            rows
        } else {
            self.moved.load_product(rows, transform)?;
            &mut self.moved
        };
        rows.inner_products(&mut self.kernel);
        let lifts = lifts(&self.kernel, rows.n_rows());
        batched_solve(&mut self.kernel, &lifts, labels)?;
        rows.weighted_sum(labels, &mut self.sum)?;
        Ok(separate(&self.sum, out)?)
    }
}

/// The ridge times the mean of the diagonal, excluding rows of zeros.
fn lifts(kernel: &[Across], n_rows: usize) -> Across {
    let (mut traces, mut counts) = ([0.0_f32; USERS], [0.0_f32; USERS]);
    let mut at = 0;
    for r in 0..n_rows {
        let sums = traces.iter_mut().zip(&mut counts);
        for ((trace, count), square) in sums.zip(kernel[at].0) {
            *trace += square;
            *count += if square > 0.0 { 1.0 } else { 0.0 };
        }
        at += n_rows - r;
    }
    let ridge = single(SINGLE_RIDGE);
    Across(std::array::from_fn(|at| {
        ridge * traces[at] / counts[at].max(1.0)
    }))
}

/// A [`ProjectorSum`] with precomputed directions of all users, if they fit into memory.
struct CachedDirections<'a> {
    sum: &'a ProjectorSum,
    cache: Option<Cache>,
}

impl<'a> CachedDirections<'a> {
    /// With a cache if `to_be` is set.
    fn of(sum: &'a ProjectorSum, samples: &UserSamples, to_be: bool) -> Self {
        let (dim, first) = (sum.dim(), samples.table().expose().users().next());
        let is_batched = first.is_some_and(|user| sum.is_batched(UserCells::of(user, dim)));
        let write = |users: UserBlock<'_>, own: &mut Option<Directions>, out: &mut [f32]| {
            match own {
                Some(own) => own.write(users, sum.lower(), out),
                None => out.fill(0.0), // does not happen for any user: the number of features is public
            }
        };
        let scratch = || Directions::new(dim).ok();
        let cache = || Cache::of(samples, dim, Vec::new(), scratch, write);
        Self {
            sum,
            cache: if to_be && is_batched { cache() } else { None },
        }
    }
}

impl FactorContribution for CachedDirections<'_> {
    type Scratch = Option<ProjectorScratch>;

    fn scratch(&self) -> Self::Scratch {
        self.sum.scratch()
    }

    fn dim(&self) -> usize {
        self.sum.dim()
    }

    fn reads_features(&self) -> bool {
        self.cache.is_none()
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut FactorBuffer) {
        match self.cache.as_ref().and_then(|cache| cache.find(user)) {
            Some(direction) => {
                let cells = out.factor.iter_mut().zip(direction);
                cells.for_each(|(u, &x)| *u = x.into());
                ProjectorSum::normalise(out);
            }
            None => self.sum.contribute(user, scratch, out),
        }
    }
}

/// One user's contribution to `M = sum_j sum_i W_ij` of Jain et al. 2021, Algorithm 3.
///
/// ```text
/// W_ij = sym( x_a x_b^T / (||x_a|| ||x_b||) ) clip(y_a; zeta) clip(y_b; zeta),   a = 2i-1, b = 2i
/// ```
///
/// over the pairs of the user's rows, with `sym(W) = (W + W^T)/2`. Two corrections
/// (`docs/errata.md`): pairs begin at the first row, so that none exceeds the last, and
/// symmetrisation averages, because copying the upper triangle would double the variance.
///
/// # Privacy
/// `||W_ij||_F <= zeta^2`, and averaging with the transpose does not increase it. With at most `m`
/// rows a user has `m/2` pairs (rounded down), so adding or removing a user moves `M` by at most
/// `(m/2) zeta^2` in Frobenius norm, and replacing one by twice that: the contributions need not be
/// positive semidefinite. The kernel checks each user's whole contribution in exact integers.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
#[derive(Clone, Copy)]
pub struct SamplePairs {
    /// Length of the features.
    pub n_features: usize,
    /// Maximum number of rows of a user.
    pub max_rows: usize,
    /// Bound `zeta` on a label.
    pub label_bound: f64,
    /// Coordinates of the release.
    pub symmetric_noise: SymmetricNoise,
    /// Rows from which pairs are formed.
    pub rows: RowUse,
}

impl SamplePairs {
    /// `floor(m/2) zeta^2`, with `m` the maximum number of rows used: the sensitivity under
    /// add/remove.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane_users::{DIM, each_user_alone_decides, samples, transform};

    fn buffer() -> FactorBuffer {
        FactorBuffer {
            factor: vec![0.0; DIM],
            weights: vec![0.0],
            labels: vec![0.0],
        }
    }

    /// The values passed to the kernel.
    fn bits(out: &FactorBuffer) -> Vec<u64> {
        let numbers = out.factor.iter().chain(&out.weights).chain(&out.labels);
        numbers.map(|x| x.to_bits()).collect()
    }

    #[test]
    fn directions_are_those_of_the_user_alone() {
        let lower: Vec<f32> = transform().into_iter().map(single).collect();
        for lower in [&[][..], &lower] {
            let fresh = || Directions::new(DIM).unwrap();
            let write = |own: &mut Directions, block: UserBlock<'_>, out: &mut [f32]| {
                own.write(block, lower, out);
            };
            each_user_alone_decides(DIM, fresh, write, |found| {
                let mut out = buffer();
                let cells = out.factor.iter_mut().zip(found);
                cells.for_each(|(u, &x)| *u = x.into());
                ProjectorSum::normalise(&mut out);
                bits(&out)
            });
        }
    }

    #[test]
    fn what_the_kernel_is_handed_is_a_function_of_the_user_alone() {
        let (samples, less, others) = (samples(0), samples(1), samples(0));
        let table = samples.table().expose();
        let (copy, less_table) = (table.clone(), less.table().expose());
        let others = others.table().expose(); // the same rows, which are in no cache
        for transform in [None, Some(&transform()[..])] {
            let sum = ProjectorSum::transformed(DIM, transform).unwrap();
            let cached = CachedDirections::of(&sum, &samples, true);
            let cached_of_less = CachedDirections::of(&sum, &less, true);
            assert!(cached.cache.is_some() && cached_of_less.cache.is_some());
            assert!(CachedDirections::of(&sum, &samples, false).cache.is_none());
            let (mut used, mut moved) = (sum.scratch(), 0);
            for at in 0..table.n_users() {
                let mut expected = buffer();
                sum.contribute(others.user(at), &mut sum.scratch(), &mut expected);
                moved += usize::from(expected.weights[0] > 0.0);
                let check = |contribution: &CachedDirections<'_>, user, scratch: &mut _| {
                    let mut found = buffer();
                    contribution.contribute(user, scratch, &mut found);
                    assert_eq!(bits(&found), bits(&expected), "{at}");
                };
                for user in [table.user(at), copy.user(at), others.user(at)] {
                    check(&cached, user, &mut used);
                }
                if at > 0 {
                    check(&cached_of_less, less_table.user(at - 1), &mut used);
                }
            }
            assert!(moved > 40, "{moved}");
        }
    }
}
