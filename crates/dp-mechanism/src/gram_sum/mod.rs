//! Exact per-item sums of rank-one matrices and their right-hand sides.

mod accumulate;
mod factors;
mod grids;
mod pooled;
mod quantise;

use dp_accounting::Spend;
use dp_core::params::same_size;
use dp_core::{Interactions, Private};
use dp_linalg::packed_len;

use crate::contribution::{AnyContribution, FactorBuffer, FactorContribution};
use crate::payment::{check_spend, same_grid};
use crate::release::ReleasedGrams;
use crate::sum_backend::{InProcess, SumBackend, SumRequest, add_sums, sum_over_users};
use crate::summed_users::SummedUsers;
use crate::{NoiseSource, Result};

pub(crate) use factors::integers_of_one;
pub use factors::{GramContribution, gram_contribution};
pub(crate) use grids::check_dim;
pub use grids::{GramGrids, GramLayout};

/// Exact integer sums `A_i = sum_j x_ij x_ij^T` and `b_i = sum_j l_ij x_ij` over the users `j`
/// of each item `i`, not yet released.
///
/// ```text
/// x_ij = trunc(sqrt(w_ij) v_j / sqrt(g_A))       integer factor of user j for item i
/// l_ij = trunc(sqrt(w_ij) y_ij sqrt(g_A) / g_b)  integer label
/// ```
///
/// `g_A`, `g_b` are the steps of the two grids, `D_A`, `D_b` their integer bounds.
///
/// # Privacy
/// One user adds a rank-one matrix to each of the user's items, every item once. Hence the squared
/// Frobenius norm of everything the user contributes to the matrices is exactly `sum_i ||x_i||^4`,
/// and to the right-hand sides `sum_i l_i^2 ||x_i||^2`. The kernel checks both against `D_A^2` and
/// `D_b^2` in exact integers; a user who exceeds either contributes nothing to either. The
/// matrices' contributions are positive semidefinite, so replacing a user changes them by at most
/// `sqrt 2 D_A` (K9); the right-hand sides by `2 D_b`.
///
/// On [pooled](GramGrids::pooled) grids there is a single matrix for all items, `A = sum_j x_j
/// x_j^T`, with each user once:
///
/// ```text
/// x_j = trunc(v_j / sqrt(g_A)),    l_ij = trunc(w_ij y_ij sqrt(g_A) / g_b),    b_i = sum_j l_ij x_j
/// ```
///
/// The kernel then checks `||x_j||^4 <= D_A^2`, exactly the squared Frobenius norm of the user's
/// matrix, and `||x_j||^2 sum_i l_ij^2 <= D_b^2`. A user without records contributes nothing.
///
/// The sums are formed by a floating-point Gram kernel over integers whose partial sums are all at
/// most 2^51, where every operation is exact. The result depends neither on order nor on threads.
#[allow(
    missing_debug_implementations,
    reason = "holds private sums; printing them is never wanted"
)]
pub struct GramSums {
    grids: GramGrids,
    dim: usize,
    matrices: Vec<i64>,
    rhs: Vec<i64>,
    users: SummedUsers,
}

impl GramSums {
    /// Sums the contributions of all users in this process, in two passes: users (contribution,
    /// quantisation, bound), then items (gathered Gram sums).
    ///
    /// # Errors
    /// [`crate::Error::Param`] if the contribution's `dim` is 0 or above [`GramGrids::MAX_DIM`].
    pub fn accumulate<C: FactorContribution>(
        data: &Private<Interactions>,
        grids: GramGrids,
        contribution: &C,
    ) -> Result<Self> {
        Self::accumulate_with(&InProcess, data, grids, contribution)
    }

    /// Sums the contributions of all users with `backend`. The result is bit-identical to that of
    /// [`accumulate`](Self::accumulate). The backend sees matrices and right-hand sides as one
    /// integer vector.
    ///
    /// # Errors
    /// As [`accumulate`](Self::accumulate), and the errors of the backend.
    pub fn accumulate_with<C: FactorContribution>(
        backend: &dyn SumBackend,
        data: &Private<Interactions>,
        grids: GramGrids,
        contribution: &C,
    ) -> Result<Self> {
        Self::accumulate_any(backend, data, grids, contribution.dim(), contribution)
    }

    fn accumulate_any(
        backend: &dyn SumBackend,
        data: &Private<Interactions>,
        grids: GramGrids,
        dim: usize,
        contribution: &dyn AnyContribution<FactorBuffer>,
    ) -> Result<Self> {
        let data = data.expose();
        let dim = check_dim(dim)?;
        let n = Self::n_coordinates(data.n_items(), dim, &grids);
        let total = sum_over_users(backend, data, &SumRequest::alone(n), &|shard| {
            Self::shard_sum(shard, &grids, dim, contribution)
        })?;
        Ok(Self {
            users: SummedUsers::of(data),
            ..Self::of_total(grids, dim, total)
        })
    }

    /// Length of the sum as one integer vector: matrices, then right-hand sides.
    pub(crate) const fn n_coordinates(n_items: usize, dim: usize, grids: &GramGrids) -> usize {
        let (n_matrix, n_rhs) = lengths(n_items, dim, grids.layout());
        n_matrix.saturating_add(n_rhs)
    }

    /// The sum over the users of one shard, as one integer vector; `dim` has been checked.
    pub(crate) fn shard_sum(
        shard: &Interactions,
        grids: &GramGrids,
        dim: usize,
        contribution: &dyn AnyContribution<FactorBuffer>,
    ) -> Result<Vec<i64>> {
        let (n_matrix, n_rhs) = lengths(shard.n_items(), dim, grids.layout());
        let mut sums = vec![0; n_matrix.saturating_add(n_rhs)];
        let (matrices, rhs) = sums.split_at_mut(n_matrix);
        // a table on disk is listed by item block by block; one in memory caches its listing for
        // the next sum
        for shard in shard.blocks() {
            for users in factors::blocks(&shard) {
                let bounded = factors::bounded_factors(&shard, users, grids, dim, contribution)?;
                let by_item = shard.item_major();
                match grids.layout() {
                    GramLayout::PerItem => {
                        accumulate::gather_items(by_item, &bounded, grids, matrices, rhs)?;
                    }
                    GramLayout::Pooled => {
                        pooled::gather_users(&bounded, grids, matrices)?;
                        pooled::gather_labels(by_item, &bounded, grids, rhs)?;
                    }
                }
            }
        }
        Ok(sums)
    }

    /// Splits one integer vector into matrices and right-hand sides.
    pub(crate) fn split(
        grids: &GramGrids,
        dim: usize,
        mut total: Vec<i64>,
    ) -> (Vec<i64>, Vec<i64>) {
        let triangle = packed_len(dim);
        let n_matrix = match grids.layout() {
            GramLayout::PerItem => {
                let n_items = total.len().checked_div(triangle.saturating_add(dim));
                n_items.unwrap_or(0).saturating_mul(triangle)
            }
            GramLayout::Pooled => triangle,
        };
        let rhs = total.split_off(n_matrix.min(total.len()));
        (total, rhs)
    }

    /// The sums in one integer vector.
    pub(crate) fn of_total(grids: GramGrids, dim: usize, total: Vec<i64>) -> Self {
        let (matrices, rhs) = Self::split(&grids, dim, total);
        Self {
            grids,
            dim,
            matrices,
            rhs,
            users: SummedUsers::Unknown,
        }
    }

    /// The sums over no users, in the same form as those of a shard: the start value for merging
    /// shards.
    #[cfg(test)]
    pub(crate) fn zero(n_items: usize, dim: usize, grids: GramGrids) -> Self {
        let (n_matrix, n_rhs) = lengths(n_items, dim, grids.layout());
        Self {
            grids,
            dim,
            matrices: vec![0; n_matrix],
            rhs: vec![0; n_rhs],
            users: SummedUsers::nobody(),
        }
    }

    /// Adds the sums over another shard of users, computed on the same grids. The shards must
    /// contain different users, as those of `Interactions::shards` do: each sum bounds its users
    /// separately, so a user in both could change the total twice as much. Sums over one table, its
    /// copies, its parts or shards that may overlap are rejected ([`dp_core::Origin`]). For tables
    /// that were built separately, the caller must make sure that they contain different users.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] if sizes differ, [`crate::Error::Param`] if grids differ,
    /// [`crate::Error::SameUsers`] if the users are not known to be different. Nothing is then
    /// added.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        same_grid(self.grids.matrix(), other.grids.matrix())?;
        same_grid(self.grids.rhs(), other.grids.rhs())?;
        same_size("factor of the shard", other.dim, self.dim)?;
        same_size("shard sum", other.rhs.len(), self.rhs.len())?;
        same_size("shard sum", other.matrices.len(), self.matrices.len())?;
        same_layout(self.grids.layout(), other.grids.layout())?;
        self.users.join(other.users)?;
        add_sums(&mut self.matrices, &other.matrices)?;
        add_sums(&mut self.rhs, &other.rhs)
    }

    #[cfg(test)]
    pub(crate) fn sums(&self) -> (&[i64], &[i64]) {
        (&self.matrices, &self.rhs)
    }

    /// Noise coordinates drawn by the release of the matrices: one per entry of the triangles.
    #[must_use]
    pub const fn matrix_draws(n_items: usize, dim: usize) -> u64 {
        lengths(n_items, dim, GramLayout::PerItem).0 as u64
    }

    /// Noise coordinates drawn by the release of a single matrix for all items.
    #[must_use]
    pub const fn pooled_matrix_draws(dim: usize) -> u64 {
        packed_len(dim) as u64
    }

    /// Noise coordinates drawn by the release of the right-hand sides.
    #[must_use]
    pub const fn rhs_draws(n_items: usize, dim: usize) -> u64 {
        lengths(n_items, dim, GramLayout::Pooled).1 as u64
    }

    /// Adds exact noise once and makes both sums public.
    ///
    /// Diagonal entries get noise of scale `2^k`, off-diagonal ones `ceil(2^k / sqrt 2)`: the
    /// Gaussian mechanism in the isometric coordinates of symmetric matrices, where off-diagonals
    /// carry sqrt 2 (`docs/errata.md`, row "Algorithm 1, noise").
    ///
    /// # Privacy
    /// Two events under the given spends: matrices with `mu = D_A / 2^k_A`, right-hand sides with
    /// `mu = D_b / 2^k_b`, under add/remove.
    ///
    /// # Errors
    /// [`crate::Error::SpendTooSmall`], [`crate::Error::WrongSpend`] or [`crate::Error::DrawCount`]
    /// if a spend does not cover its part; [`crate::Error::EntropyUnavailable`]. Nothing is
    /// released and the spends are lost.
    pub fn release(
        mut self,
        matrix_spend: Spend,
        rhs_spend: Spend,
        noise: &mut NoiseSource,
    ) -> Result<ReleasedGrams> {
        check_spend(
            &matrix_spend,
            None,
            self.grids.matrix(),
            self.matrices.len(),
            true,
        )?;
        check_spend(&rhs_spend, None, self.grids.rhs(), self.rhs.len(), false)?;
        let matrix_stream = noise.release_stream()?;
        let rhs_stream = noise.release_stream()?;
        let grid = self.grids.matrix();
        matrix_stream.add_floored_gaussian_packed(
            grid.sigma(),
            grid.off_diagonal_sigma(),
            self.dim,
            &mut self.matrices,
        );
        rhs_stream.add_floored_gaussian(self.grids.rhs().sigma(), &mut self.rhs);
        Ok(ReleasedGrams {
            dim: self.dim,
            matrix_grid: *self.grids.matrix(),
            rhs_grid: *self.grids.rhs(),
            layout: self.grids.layout(),
            matrices: self.matrices,
            rhs: self.rhs,
            insecure: noise.is_insecure(),
        })
    }
}

/// Number of entries of all matrices and of all right-hand sides. Saturates where no memory would
/// suffice.
const fn lengths(n_items: usize, dim: usize, layout: GramLayout) -> (usize, usize) {
    let n_matrices = match layout {
        GramLayout::PerItem => n_items,
        GramLayout::Pooled => 1,
    };
    (
        n_matrices.saturating_mul(packed_len(dim)),
        n_items.saturating_mul(dim),
    )
}

/// With a single item the lengths are equal, but the matrices are sums of different things.
fn same_layout(a: GramLayout, b: GramLayout) -> Result<()> {
    let n_pooled = |layout| usize::from(layout == GramLayout::Pooled);
    Ok(same_size(
        "pooled matrices of the shard",
        n_pooled(b),
        n_pooled(a),
    )?)
}

#[cfg(test)]
mod tests;
