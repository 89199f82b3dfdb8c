//! Exact sums of Kronecker products: a user's Gram matrix of several rows, and one vector of the
//! user's own.

mod accumulate;
mod grid;
mod user;

use dp_accounting::Spend;
use dp_core::{Interactions, Private, UserRow};
use dp_linalg::packed_len;

use crate::contribution::AnyContribution;
use crate::payment::check_spend;
use crate::release::{NoiseLaw, ReleasedVector};
use crate::{NoiseSource, Result};

pub use grid::KroneckerGrid;
use user::Shape;
pub use user::{KroneckerContribution, RowsBuffer};

/// Noise outside the diagonal of a symmetric matrix that is released as its upper triangle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffDiagonalNoise {
    /// `2^k / sqrt 2`: all that the bound on the Frobenius norm requires (K11).
    Isometric,
    /// `2^k` as on the diagonal: more than is required, as in publications that copy one triangle
    /// to the other.
    Full,
}

/// An exact integer sum of one symmetric matrix per user, not yet released.
///
/// ```text
/// S = sum_u Z_u,   Z_u = floor(C_u (x) V_u V_u^T / 2^s),   C_u = sum_r X_ur X_ur^T
/// ```
///
/// `X_ur` are integer rows of length d (the user's rows with their scales), `V_u` an integer vector of length k
/// along the user's own vector, of norm about 2^24; entry `((a, p), (b, q))` of the matrix is `C_ab V_p V_q`.
///
/// # Privacy
/// Every entry is rounded down from the exact product to an integer, changing it by less than 1, so
/// `||Z_u||_F <= ||C_u||_F ||V_u||^2 / 2^s + d k`. The kernel compares `||C_u||_F ||V_u||^2 + d k
/// 2^s` with `D 2^s` in exact integers (K24). It first uses the trace, which is no less than the
/// norm and faster to compute. A user above the bound contributes nothing. So adding or removing
/// one user changes `S` by at most `D` in Frobenius norm, replacing one by at most `2 D` (rounded
/// matrices need not be semidefinite). This needs no sum over the `(d k)^2 / 2` entries of a user,
/// and none is formed before the entries are added to the total.
#[allow(
    missing_debug_implementations,
    reason = "holds a private sum; printing it is never wanted"
)]
pub struct KroneckerSum {
    grid: KroneckerGrid,
    /// Upper triangle of the `(d k) x (d k)` matrix.
    sums: Vec<i64>,
    dim: usize,
}

impl KroneckerSum {
    /// Sums the contributions of all users in this process. Because the sums are integers, neither
    /// the order of the users nor the number of threads matters.
    ///
    /// # Errors
    /// [`crate::Error::Linalg`] or [`crate::Error::Param`] unless `d` and `k` are at least 1 and `d k` at most 1024.
    pub fn accumulate<C: KroneckerContribution>(
        data: &Private<Interactions>,
        grid: KroneckerGrid,
        contribution: &C,
    ) -> Result<Self> {
        let shape = contribution.shape();
        let sums = Self::shard_sum(data.expose(), &grid, shape, contribution)?;
        Ok(Self::of_total(grid, Self::side(shape)?, sums))
    }

    /// The side of the matrix that a contribution belongs to.
    pub(crate) fn side(shape: (usize, usize)) -> Result<usize> {
        Ok(Shape::checked(shape)?.side())
    }

    /// The sum over the users of one shard.
    pub(crate) fn shard_sum(
        shard: &Interactions,
        grid: &KroneckerGrid,
        shape: (usize, usize),
        contribution: &dyn AnyContribution<RowsBuffer>,
    ) -> Result<Vec<i64>> {
        accumulate::all_users(shard, Shape::checked(shape)?, grid, contribution)
    }

    /// The sum in a matrix of this side.
    pub(crate) const fn of_total(grid: KroneckerGrid, dim: usize, sums: Vec<i64>) -> Self {
        Self { grid, sums, dim }
    }

    /// Noise coordinates drawn by the release of matrices of side `d k`.
    #[must_use]
    pub const fn draws(side: usize) -> u64 {
        packed_len(side) as u64
    }

    #[cfg(test)]
    pub(crate) fn sums(&self) -> &[i64] {
        &self.sums
    }

    /// Adds exact noise once and makes the upper triangle public, row by row.
    ///
    /// # Privacy
    /// One event under the given spend: a Gaussian with `mu = D / 2^k` under add/remove and twice
    /// that under replacement. With [`OffDiagonalNoise::Full`] the noise outside the diagonal is
    /// larger than necessary.
    ///
    /// # Errors
    /// As [`VectorSum::release`](crate::VectorSum::release).
    pub fn release(
        mut self,
        off_diagonal: OffDiagonalNoise,
        spend: Spend,
        noise: &mut NoiseSource,
    ) -> Result<ReleasedVector> {
        let grid = *self.grid.grid();
        check_spend(&spend, None, &grid, self.sums.len(), false)?;
        let stream = noise.release_stream()?;
        match off_diagonal {
            OffDiagonalNoise::Isometric => stream.add_floored_gaussian_packed(
                grid.sigma(),
                grid.off_diagonal_sigma(),
                self.dim,
                &mut self.sums,
            ),
            OffDiagonalNoise::Full => stream.add_floored_gaussian(grid.sigma(), &mut self.sums),
        }
        let insecure = noise.is_insecure();
        Ok(ReleasedVector::new(
            grid,
            self.sums,
            NoiseLaw::Floored,
            insecure,
        ))
    }
}

/// The integers that [`KroneckerSum`] adds for one user: indices in the upper triangle and non-zero
/// values. As private as the records they are computed from.
///
/// # Errors
/// As [`KroneckerSum::accumulate`].
pub fn kronecker_contribution<C: KroneckerContribution>(
    grid: &KroneckerGrid,
    contribution: &C,
    user: UserRow<'_>,
) -> Result<Vec<(usize, i64)>> {
    entries_of_one(grid, contribution.shape(), contribution, user)
}

/// The same for a contribution of any type.
pub(crate) fn entries_of_one(
    grid: &KroneckerGrid,
    shape: (usize, usize),
    contribution: &dyn AnyContribution<RowsBuffer>,
    user: UserRow<'_>,
) -> Result<Vec<(usize, i64)>> {
    let sums = accumulate::one_user(Shape::checked(shape)?, grid, contribution, user)?;
    let entries = sums.into_iter().enumerate();
    Ok(entries.filter(|&(_, z)| z != 0).collect())
}

#[cfg(test)]
mod tests;
