//! What the releases say of the items: total weights once, then all rounds together.

use dp_core::{Interactions, Private};
use dp_linalg::project_psd_in_place;
use dp_mechanism::Run;

use super::contribution::MOMENT_RATIO;
use crate::residual::TotalsContribution;
use crate::{PooledStatistics, ProblemSetup, Result};

/// Released total weights.
pub(crate) struct Totals {
    /// Of each item as released, 0 and below included.
    pub(crate) released: Vec<f64>,
    /// The same, at least `totals_floor` deviations of the noise.
    pub(crate) items: Vec<f64>,
    /// Standard deviation of the noise in them.
    pub(crate) noise: f64,
    /// Users with items, at least 1.
    pub(crate) n_users: f64,
}

impl Totals {
    pub(crate) fn release(
        setup: &ProblemSetup,
        n_items: usize,
        floor: f64,
        (users, run): (&Private<Interactions>, &mut Run<'_>),
    ) -> Result<Self> {
        let contribution = TotalsContribution { setup, n_items };
        let released = run.vector(users, (n_items + 1, 1.0), &contribution)?;
        let noise = released.noise_stddev() / TotalsContribution::ITEMS;
        let values = released.values();
        let totals = values[..n_items].iter();
        let released: Vec<f64> = totals
            .map(|total| total / TotalsContribution::ITEMS)
            .collect();
        let n_users = (values[n_items] / TotalsContribution::units()).max(1.0);
        #[cfg(privacy_mutants)]
        let (released, n_users) = (
            crate::mutants::totals(released, &setup.weights, users),
            crate::mutants::units(n_users, users),
        );
        Ok(Self {
            items: released
                .iter()
                .map(|total| total.max(floor * noise))
                .collect(),
            released,
            noise,
            n_users,
        })
    }
}

/// One round's release, taken apart.
pub(super) struct Round<'a> {
    /// Residual sums, shape `(m, d)`.
    pub(super) residuals: &'a [f64],
    /// Item vectors that they are residuals of, shape `(m, d)`, the bias per unit of users' constant.
    pub(super) at: &'a [f64],
    /// `C`: the mean of users' `x x^T`, shape `(d, d)`, symmetric.
    pub(super) mean: &'a [f64],
    /// Standard deviation of the noise in a residual sum.
    pub(super) noise: f64,
}

/// Sums over rounds, each weighed by one over the variance of its noise, older ones by less.
///
/// ```text
/// A_j^t = W_j C^t,   b_j^t = r_j^t + A_j^t v_j^t                  what round t says of item j: W_j the released total weight
/// C     = sum_t g_t C^t / sum_t g_t,   b_j alike,   g_t = memory^(T - t) / s_t^2;   A_j = W_j C
/// noise of b_j:   s = sqrt(sum_t g_t^2 s_t^2) / sum_t g_t
/// ```
pub(super) struct Evidence<'a> {
    /// The items' total weights.
    totals: &'a [f64],
    dim: usize,
    memory: f64,
    matrix: Vec<f64>,
    rhs: Vec<f64>,
    /// `sum_t g_t`.
    precision: f64,
    /// `sum_t g_t^2 s_t^2`.
    variance: f64,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(totals: &'a [f64], dim: usize, memory: f64) -> Self {
        Self {
            totals,
            dim,
            memory,
            matrix: vec![0.0; dim * dim],
            rhs: vec![0.0; totals.len() * dim],
            precision: 0.0,
            variance: 0.0,
        }
    }

    /// Adds a round.
    pub(super) fn add(&mut self, round: &Round<'_>) {
        let (d, new) = (self.dim, (round.noise * round.noise).recip());
        let old = self.memory;
        let cells = self.matrix.iter_mut().zip(round.mean);
        cells.for_each(|(cell, c)| *cell = old * *cell + new * c);
        let released = round.residuals.chunks_exact(d);
        let released = released.zip(round.at.chunks_exact(d));
        let each = self.totals.iter().zip(self.rhs.chunks_exact_mut(d));
        for ((total, rhs), (r, v)) in each.zip(released) {
            let rows = round.mean.chunks_exact(d);
            for ((rhs, r), row) in rhs.iter_mut().zip(r).zip(rows) {
                let image: f64 = row.iter().zip(v).map(|(c, v)| c * v).sum();
                *rhs = old * *rhs + new * (r + total * image);
            }
        }
        self.precision = old * self.precision + new;
        self.variance = old * old * self.variance + new;
    }

    /// The means, for a learner.
    pub(super) fn statistics(&self) -> Result<PooledStatistics> {
        let mean = |sums: &[f64]| sums.iter().map(|x| x / self.precision).collect();
        let noise = self.variance.sqrt() / self.precision;
        PooledStatistics::new(
            self.dim,
            self.totals.to_vec(),
            mean(&self.matrix),
            mean(&self.rhs),
            noise,
        )
    }
}

/// `C` from released second moments of all users: symmetric, positive semidefinite part, over the moments of `n_users`.
pub(crate) fn mean_moment(
    released: &[f64],
    dim: usize,
    (bound, n_users): (f64, f64),
) -> Result<Vec<f64>> {
    let scale = (2.0 * MOMENT_RATIO * bound * n_users).recip();
    let mirror = |at: usize| at % dim * dim + at / dim;
    let mut mean: Vec<f64> = (0..dim * dim)
        .map(|at| (released[at] + released[mirror(at)]) * scale)
        .collect();
    project_psd_in_place(&mut mean, dim)?;
    // symmetric to the last bit, whatever the projection leaves
    Ok((0..dim * dim)
        .map(|at| 0.5 * (mean[at] + mean[mirror(at)]))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_the_weighted_mean_that_is_documented() {
        let totals = [3.0];
        let mut evidence = Evidence::new(&totals, 2, 0.5);
        let mean = [[1.0, 0.25, 0.25, 0.5], [0.5, 0.0, 0.0, 2.0]];
        let residuals = [[0.2, -0.4], [0.1, 0.3]];
        let at = [[1.0, 2.0], [-1.0, 0.5]];
        let noise = [2.0, 0.5];
        for t in 0..2 {
            evidence.add(&Round {
                residuals: &residuals[t],
                at: &at[t],
                mean: &mean[t],
                noise: noise[t],
            });
        }
        // numpy, from the three lines of the doc comment: g = [.125, 4]
        let found = evidence.statistics().unwrap();
        let g = [0.5 / 4.0, 4.0];
        let whole = g[0] + g[1];
        assert!((found.factors()[0] - 3.0).abs() < 1e-14);
        for a in 0..2 {
            for b in 0..2 {
                let cell = |t: usize| 3.0 * mean[t][a * 2 + b];
                let expected = (g[0] * cell(0) + g[1] * cell(1)) / whole;
                assert!((3.0 * found.matrix()[a * 2 + b] - expected).abs() < 1e-14);
            }
            let b = |t: usize| {
                residuals[t][a] + 3.0 * (mean[t][a * 2] * at[t][0] + mean[t][a * 2 + 1] * at[t][1])
            };
            let expected = (g[0] * b(0) + g[1] * b(1)) / whole;
            assert!((found.rhs()[a] - expected).abs() < 1e-14);
        }
        let variance = (g[0] * noise[0]).powi(2) + (g[1] * noise[1]).powi(2);
        let expected = variance.sqrt() / whole;
        assert!((found.rhs_noise() - expected).abs() < 1e-14);
    }

    #[test]
    fn moments_become_a_mean_without_negative_directions() {
        // 10 users with x = [.8, .6], bound .5; the second coordinate's noise makes the matrix indefinite
        let scale = MOMENT_RATIO * 0.5 * 10.0;
        let released = [0.64 * scale, 0.5 * scale, 0.46 * scale, -0.1 * scale];
        let mean = mean_moment(&released, 2, (0.5, 10.0)).unwrap();
        assert_eq!(mean[1].to_bits(), mean[2].to_bits());
        let determinant = mean[0] * mean[3] - mean[1] * mean[2];
        assert!(mean[0] > 0.64 && mean[3] > 0.0 && determinant.abs() < 1e-12);
        let plain = [0.64 * scale, 0.4 * scale, 0.56 * scale, 0.6 * scale];
        let mean = mean_moment(&plain, 2, (0.5, 10.0)).unwrap();
        for (m, e) in mean.iter().zip([0.64, 0.48, 0.48, 0.6]) {
            assert!((m - e).abs() < 1e-12);
        }
    }
}
