//! Rounds on residuals: what each user adds, and the two ways to step on their release.

use dp_core::UserRow;
use dp_mechanism::{
    FactorBuffer, ReleasedGrams, ReleasedVector, Run, SparseBuffer, VectorContribution,
};

use super::fit::{RoundState, Weighted};
use super::item_step::{ItemStatistics, ridge};
use super::item_update::{GradientRounds, ResidualRounds};
use super::params::MatrixFactorization;
use super::user_step::UserScratch;
use crate::Result;
use crate::regression::{Descent, GradientClip, TaskScales};
use crate::solve::{PooledSolve, solve_systems};

/// One user's share of the residual sums of all items.
///
/// ```text
/// e_ij = y_ij - <x_i, f_j>          f_j, w_ij and single labels as in ItemStatistics
/// Joint:    s_ij = w_ij e_ij min(1, c / sqrt(sum_i w_ij^2 e_ij^2))
/// PerTask:  s_ij = w_ij clip(e_ij, [-c, c])
/// r_i += s_ij f_j
/// ```
///
/// This is minus the gradient of `sum_j w_ij e_ij^2 / 2`, clipped user by user inside the sum
/// (`docs/errata.md`, Algorithm 2).
///
/// # Privacy
/// User `j` adds the blocks `s_ij f_j`, one per item of the user, and `||f_j|| <= F`. Joint:
/// `sum_i s_ij^2 <= c^2` by construction. Each by itself: `sum_i w_ij^2 c^2 <= c^2`, because
/// `sum_i w_ij^2 <= 1`. Either way the squared norm of everything the user adds is
/// `||f_j||^2 sum_i s_ij^2 <= F^2 c^2`: the L2 sensitivity under add/remove is `F c`, whatever the labels and
/// the coefficients. `F` is 1 with biases and `clip_norm` without.
#[derive(Debug)]
pub struct ItemResiduals<'a> {
    /// How users are described, by factors that were released.
    pub statistics: &'a ItemStatistics<'a>,
    /// Coefficients `x_i`, public or released, one row per item in the coordinates of `f_j`.
    pub coefficients: &'a [f64],
    /// The bound `c`, data units, above 0.
    pub bound: f64,
    /// What is bounded.
    pub clip: GradientClip,
}

impl ItemResiduals<'_> {
    /// Overwrites the labels by the bounded, weighted residuals `s_ij`.
    fn bounded_residuals(&self, user: UserRow<'_>, own: &mut FactorBuffer) {
        let f = &own.factor;
        let labels = own.labels.iter_mut().zip(&own.weights);
        let mut total = 0.0;
        for ((label, w), &item) in labels.zip(user.items()) {
            let x = &self.coefficients[item as usize * f.len()..][..f.len()];
            let fitted: f64 = x.iter().zip(f).map(|(x, f)| x * f).sum();
            let residual = *label - fitted;
            *label = match self.clip {
                GradientClip::Joint => w * residual,
                GradientClip::PerTask => w * residual.clamp(-self.bound, self.bound),
            };
            total += *label * *label;
        }
        let norm = total.sqrt();
        if self.clip == GradientClip::Joint && norm > self.bound {
            let scale = self.bound / norm;
            own.labels.iter_mut().for_each(|s| *s *= scale);
        }
    }
}

impl VectorContribution for ItemResiduals<'_> {
    type Scratch = (Option<UserScratch>, FactorBuffer);

    fn scratch(&self) -> Self::Scratch {
        self.statistics.describing_scratch()
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut SparseBuffer) {
        self.statistics.describe(user, scratch);
        let own = &mut scratch.1;
        self.bounded_residuals(user, own);
        let dim = u32::try_from(own.factor.len()).unwrap_or(u32::MAX); // at most 256
        for (&item, s) in user.items().iter().zip(&own.labels) {
            if *s == 0.0 {
                continue;
            }
            for (k, f) in (0..).zip(&own.factor) {
                // the plan refuses catalogues where this would not fit
                out.push(item.saturating_mul(dim).saturating_add(k), s * f);
            }
        }
    }
}

impl MatrixFactorization {
    /// What users will contribute to a round on residuals: a [`VectorContribution`] with one block of coordinates
    /// per item.
    ///
    /// # Privacy
    /// `coefficients` must be public or released, as what `statistics` was made of.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when there is not one row of the statistics' length for each item.
    pub fn residuals<'a>(
        &self,
        statistics: &'a ItemStatistics<'a>,
        coefficients: &'a [f64],
        bound: f64,
        clip: GradientClip,
    ) -> Result<ItemResiduals<'a>> {
        let expected = statistics.n_items() * statistics.n_coordinates();
        dp_core::params::same_size("coefficients", coefficients.len(), expected)?;
        dp_core::params::finite_positive("residual bound", bound)?;
        Ok(ItemResiduals {
            statistics,
            coefficients,
            bound,
            clip,
        })
    }

    /// Releases the residual sums around the factors of `rounds`.
    fn release_residuals(
        &self,
        on: &Weighted<'_>,
        rounds: &RoundState,
        (bound, clip): (f64, GradientClip),
        run: &mut Run<'_>,
    ) -> Result<(Vec<f64>, ReleasedVector)> {
        let coefficients = self.coefficients(&rounds.factors, rounds.dim);
        let statistics = self.statistics(rounds.dim, &rounds.factors, on.weights)?;
        let residuals = self.residuals(&statistics, &coefficients, bound, clip)?;
        let shape = (coefficients.len(), self.params().factor_bound() * bound);
        let released = run.vector(on.data, shape, &residuals)?;
        Ok((coefficients, released))
    }

    /// One round of [`ItemUpdate::NoisyGd`](super::ItemUpdate::NoisyGd).
    pub(super) fn gradient_round(
        &self,
        settings: &GradientRounds,
        scales: &TaskScales,
        on: &Weighted<'_>,
        rounds: &mut RoundState,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let bound = settings.residual_bound;
        let clipped = (bound, settings.clip);
        let (mut x, released) = self.release_residuals(on, rounds, clipped, run)?;
        let n_coordinates = self.params().score_model.coordinates(rounds.dim);
        let descent = Descent {
            step: rounds.n_rounds + 1,
            dim: n_coordinates,
            radius: settings.radius,
            gradient_norm: self.params().factor_bound() * bound,
            noise_stddev: released.noise_stddev(),
        };
        let sums = released.values();
        let items = x
            .chunks_exact_mut(n_coordinates)
            .zip(sums.chunks_exact(n_coordinates));
        for (item, (x, sum)) in items.enumerate() {
            let size = settings.step_size.at(&descent, scales, item);
            x.iter_mut().zip(sum).for_each(|(x, r)| *x += size * r);
            crate::regression::shorten(x, settings.radius);
        }
        rounds.refine(self.rows(x, rounds.dim), released.noise_stddev() / bound);
        Ok(())
    }

    /// One round of [`ItemUpdate::Residual`](super::ItemUpdate::Residual) after those of statistics.
    pub(super) fn residual_round(
        &self,
        settings: &ResidualRounds,
        on: &Weighted<'_>,
        rounds: &mut RoundState,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let bound = settings.bound(self.params().label_bound, rounds.n_rounds);
        let clipped = (bound, settings.clip);
        let (mut x, released) = self.release_residuals(on, rounds, clipped, run)?;
        let Some(matrices) = &rounds.matrices else {
            return Err(crate::Error::Unsupported {
                what: "residual rounds before any round of statistics",
            });
        };
        let mut change = released.values();
        match on.scales {
            Some(scales) => {
                let noise = released.noise_stddev();
                self.pooled_step(
                    settings,
                    matrices,
                    (scales.curvature(), noise),
                    &x,
                    &mut change,
                )?;
            }
            None => self.step_per_item(settings, matrices, &x, &mut change)?,
        }
        x.iter_mut().zip(&change).for_each(|(x, c)| *x += c);
        rounds.refine(self.rows(x, rounds.dim), released.noise_stddev() / bound);
        Ok(())
    }

    /// Overwrites released residual sums by the steps of the items, each by its own matrix.
    fn step_per_item(
        &self,
        settings: &ResidualRounds,
        matrices: &ReleasedGrams,
        x: &[f64],
        sums: &mut [f64],
    ) -> Result<()> {
        let dim = matrices.dim();
        let ridge = ridge(self.params(), matrices.matrix_noise_stddev(), dim);
        Ok(solve_systems(dim, sums, |item, matrix, rhs| {
            matrices.write_item(item, matrix, &mut vec![0.0; dim]);
            for (r, x) in rhs.iter_mut().zip(&x[item * dim..]) {
                *r -= settings.pull * ridge * x;
            }
            ridge
        })?)
    }

    /// The same with one matrix for all items, whose ridge follows the noise of this round.
    fn pooled_step(
        &self,
        settings: &ResidualRounds,
        matrices: &ReleasedGrams,
        (weights, noise_stddev): (&[f64], f64),
        x: &[f64],
        sums: &mut [f64],
    ) -> Result<()> {
        let dim = matrices.dim();
        let ridge = ridge(self.params(), noise_stddev, dim);
        let mut matrix = vec![0.0; dim * dim];
        matrices.write_item(0, &mut matrix, &mut vec![0.0; dim]);
        for (r, x) in sums.iter_mut().zip(x) {
            *r -= settings.pull * ridge * x;
        }
        PooledSolve::new(&matrix, dim)?.solve(sums, weights, ridge);
        Ok(())
    }
}
