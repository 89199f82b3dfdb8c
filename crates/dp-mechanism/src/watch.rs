//! Releases with what each user added to them, for audits.

use dp_accounting::Spend;
use dp_core::{Interactions, Private};

use crate::contribution::{FactorContribution, VectorContribution};
use crate::gram_sum::{GramGrids, GramSums, gram_contribution};
use crate::kronecker_sum::{
    KroneckerContribution, KroneckerGrid, KroneckerSum, OffDiagonalNoise, kronecker_contribution,
};
use crate::release::{ReleasedGrams, ReleasedVector};
use crate::vector_sum::{VectorSum, vector_contribution};
use crate::{Error, Grid, NoiseSource, Observed, ObservedSums, Result};

/// Sees every release of a fit.
pub type Watch<'a> = dyn FnMut(Observed<'_>) + 'a;

/// Noise, and who watches what it is added to.
#[allow(
    missing_debug_implementations,
    reason = "holds a generator; printing it is never wanted"
)]
pub struct WatchedNoise<'a> {
    /// The source of noise.
    pub noise: &'a mut NoiseSource,
    /// Sees each release.
    pub watch: &'a mut Watch<'a>,
}

impl WatchedNoise<'_> {
    /// Whether the noise is repeatable, which voids the guarantee.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.noise.is_insecure()
    }

    /// Sums and releases a vector of `n_coordinates` with one user's norm at most `clip_norm`: [`VectorSum`].
    ///
    /// # Errors
    /// As [`VectorSum::accumulate`] and [`VectorSum::release`].
    pub fn vector<C: VectorContribution>(
        &mut self,
        data: &Private<Interactions>,
        (n_coordinates, clip_norm): (usize, f64),
        contribution: &C,
        spend: Spend,
    ) -> Result<ReleasedVector> {
        let (label, multiplier) = (spend.label().to_owned(), multiplier(&spend)?);
        let grid = Grid::new(multiplier, clip_norm)?;
        let sum = VectorSum::accumulate(data, n_coordinates, grid, contribution)?;
        let released = sum.release(spend, self.noise)?;
        (self.watch)(Observed {
            labels: [&label; 2],
            noise_multipliers: [multiplier; 2],
            sums: ObservedSums::Vector {
                grid: &grid,
                released: &released,
                one_user: &|row| vector_contribution(&grid, n_coordinates, contribution, row),
            },
        });
        Ok(released)
    }

    /// Sums and releases a matrix of Kronecker products with one user's Frobenius norm at most `clip_norm`: [`KroneckerSum`].
    ///
    /// # Errors
    /// As [`KroneckerSum::accumulate`] and [`KroneckerSum::release`].
    pub fn kronecker<C: KroneckerContribution>(
        &mut self,
        data: &Private<Interactions>,
        (off_diagonal, clip_norm): (OffDiagonalNoise, f64),
        contribution: &C,
        spend: Spend,
    ) -> Result<ReleasedVector> {
        let (label, multiplier) = (spend.label().to_owned(), multiplier(&spend)?);
        let grid = KroneckerGrid::new(multiplier, clip_norm)?;
        let sum = KroneckerSum::accumulate(data, grid, contribution)?;
        let released = sum.release(off_diagonal, spend, self.noise)?;
        let (dim, rank) = contribution.shape();
        (self.watch)(Observed {
            labels: [&label; 2],
            noise_multipliers: [multiplier; 2],
            sums: ObservedSums::Triangle {
                grid: grid.grid(),
                side: dim.saturating_mul(rank),
                off_diagonal,
                released: &released,
                one_user: &|row| kronecker_contribution(&grid, contribution, row),
            },
        });
        Ok(released)
    }

    /// Sums and releases matrices and right-hand sides: [`GramSums`].
    ///
    /// # Errors
    /// As [`GramSums::accumulate`] and [`GramSums::release`].
    pub fn grams<C: FactorContribution>(
        &mut self,
        data: &Private<Interactions>,
        grids: GramGrids,
        contribution: &C,
        [matrix, rhs]: [Spend; 2],
    ) -> Result<ReleasedGrams> {
        let labels = [matrix.label().to_owned(), rhs.label().to_owned()];
        let noise_multipliers = [multiplier(&matrix)?, multiplier(&rhs)?];
        let sums = GramSums::accumulate(data, grids, contribution)?;
        let released = sums.release(matrix, rhs, self.noise)?;
        (self.watch)(Observed {
            labels: [&labels[0], &labels[1]],
            noise_multipliers,
            sums: ObservedSums::Grams {
                grids: &grids,
                released: &released,
                one_user: &|row| gram_contribution(&grids, contribution, row),
            },
        });
        Ok(released)
    }
}

fn multiplier(spend: &Spend) -> Result<f64> {
    spend.noise_multiplier().map_err(|_| Error::WrongSpend {
        label: spend.label().to_owned(),
        release: "one Gaussian release",
    })
}
