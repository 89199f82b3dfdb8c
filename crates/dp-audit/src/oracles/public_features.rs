//! Fits from statistics and from gradients (`dp-pubfeat`).

use dp_core::params;
use dp_linalg::project_psd_in_place;
use dp_mechanism::{GramGrids, Grid, Observed, ObservedSums, ReleasedGrams, ReleasedVector};
use dp_pubfeat::{
    AmSsp, ConvexSsp, CurvatureContribution, DpSgd, EncoderGradients, ItemStatistics, Logistic,
    Optimiser, PublicEncoder, RatingStatistics, ResidualContribution, ResidualSsp, Ssp,
    SspContribution, StatisticsLearner, TotalsContribution,
};

use super::shares::{OneGrams, OneVector, ROUNDED, same_grams, same_vectors};
use crate::trainer::{AuditedUsers, differs, failed};
use crate::view::View;
use crate::{Oracle, Result, Watch};

/// Oracle for a fit of item vectors from statistics (`dp-pubfeat`).
///
/// This oracle recomputes the item vectors at each release from the previous releases, public
/// settings and a learner of the audit's own, and from these the contributions of each user. A
/// trainer is rejected if its users contribute anything else, or if its last model does not follow
/// from its releases, for example because it uses true counts, a true mean, or exact sums between
/// releases. Bugs in code shared by both sides (bounds on a user's share, the division of a budget
/// among a user's items) cannot be detected in this way; the kernel's bound, canaries and tests on
/// neighbouring tables cover those.
#[derive(Debug, Clone)]
pub struct PublicFeaturesOracle<L> {
    fit: PublicFeatures,
    learner: L,
}

/// The fits that [`PublicFeaturesOracle`] supports.
#[derive(Debug, Clone)]
pub enum PublicFeatures {
    /// SSP-c and SSP-i.
    Ssp(Ssp),
    /// The residual form.
    Residual(ResidualSsp),
    /// SSP-convex with the logistic loss.
    Logistic(ConvexSsp),
    /// Alternating minimisation.
    AmSsp(AmSsp),
}

impl<L> PublicFeaturesOracle<L> {
    /// Creates an oracle for runs with these settings that start from `learner`.
    #[must_use]
    pub const fn new(fit: PublicFeatures, learner: L) -> Self {
        Self { fit, learner }
    }
}

impl<L: StatisticsLearner + Clone> Oracle<L> for PublicFeaturesOracle<L> {
    fn watch<'a>(&'a self, users: AuditedUsers<'a>) -> Box<dyn Watch<L> + 'a> {
        Box::new(Replay {
            fit: &self.fit,
            pooled: Pooled::new(self.learner.dim()),
            learner: self.learner.clone(),
            users,
        })
    }
}

/// A run that is recomputed release by release.
struct Replay<'a, L> {
    fit: &'a PublicFeatures,
    learner: L,
    users: AuditedUsers<'a>,
    pooled: Pooled,
}

impl<L: StatisticsLearner> Watch<L> for Replay<'_, L> {
    fn release(&mut self, seen: &Observed<'_>) -> Result<()> {
        match seen.sums {
            ObservedSums::Grams {
                grids,
                released,
                one_user,
            } => self.grams(grids, released, one_user),
            ObservedSums::Vector {
                grid,
                released,
                one_user,
            } => self.vector(grid, released, one_user),
            ObservedSums::Triangle { .. } => Err(differs("a known kind of release")),
        }
    }

    fn finish(self: Box<Self>, model: &L, _: &mut [View]) -> Result<()> {
        let (vectors, own) = (model.item_vectors().map_err(failed)?, self.vectors()?);
        params::same_size("item vectors", vectors.len(), own.len())?;
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 * (1.0 + b.abs());
        if vectors.iter().zip(&own).all(near) {
            return Ok(());
        }
        Err(differs("item vectors that follow from the releases"))
    }
}

impl<L: StatisticsLearner> Replay<'_, L> {
    fn vectors(&self) -> Result<Vec<f64>> {
        self.learner.item_vectors().map_err(failed)
    }

    fn grams(
        &mut self,
        grids: &GramGrids,
        released: &ReleasedGrams,
        one: OneGrams<'_>,
    ) -> Result<()> {
        let v = self.vectors()?;
        match self.fit {
            PublicFeatures::Ssp(fit) => {
                let contribution = SspContribution::new(&fit.params().setup);
                same_grams(self.users, grids, &contribution, one, ROUNDED)?;
                self.learn(&statistics(released)?)
            }
            PublicFeatures::AmSsp(fit) => {
                let contribution = RatingStatistics {
                    setup: &fit.params().setup,
                    user_step: &fit.params().user_step,
                    item_vectors: &v,
                };
                same_grams(self.users, grids, &contribution, one, ROUNDED)?;
                self.learn(&statistics(released)?)
            }
            PublicFeatures::Logistic(fit) => {
                let (setup, most) = (&fit.params().setup, fit.params().slope_norm);
                let contribution = CurvatureContribution::new(setup, &Logistic, &v, most);
                same_grams(
                    self.users,
                    grids,
                    &contribution.map_err(failed)?,
                    one,
                    ROUNDED,
                )?;
                let quadratic = around(&statistics(released)?, &v)?;
                self.learn(&quadratic)
            }
            PublicFeatures::Residual(fit) => {
                let contribution = SspContribution::new(&fit.params().setup);
                same_grams(self.users, grids, &contribution, one, ROUNDED)?;
                self.pooled.matrix(released)?;
                let stddev = released.rhs_noise_stddev();
                let rhs = right_hand_sides(released);
                let statistics = self.pooled.observe(&v, &rhs, stddev, true)?;
                self.learn(&statistics)
            }
        }
    }

    fn vector(&mut self, grid: &Grid, released: &ReleasedVector, one: OneVector<'_>) -> Result<()> {
        let PublicFeatures::Residual(fit) = self.fit else {
            return Err(differs("statistics and nothing else"));
        };
        let (setup, n) = (&fit.params().setup, released.len());
        let n_items = self.learner.n_items();
        if !self.pooled.has_totals() {
            let totals = TotalsContribution { setup, n_items };
            same_vectors(self.users, (grid, n), &totals, one, ROUNDED)?;
            self.pooled.totals(released);
            return Ok(());
        }
        let v = self.vectors()?;
        let contribution = ResidualContribution {
            setup,
            item_vectors: &v,
            bound: fit.params().bound.at(self.pooled.n_observed() + 1),
        };
        same_vectors(self.users, (grid, n), &contribution, one, ROUNDED)?;
        let (values, stddev) = (released.values(), released.noise_stddev());
        let forget = fit.params().forget;
        let statistics = self.pooled.observe(&v, &values, stddev, forget)?;
        self.learn(&statistics)
    }

    fn learn(&mut self, statistics: &ItemStatistics) -> Result<()> {
        self.learner.learn(statistics).map_err(failed)
    }
}

/// The released statistics per item.
fn statistics(released: &ReleasedGrams) -> Result<ItemStatistics> {
    let (dim, n_items) = (released.dim(), released.n_items());
    let (mut matrices, mut b) = (vec![0.0; n_items * dim * dim], vec![0.0; dim]);
    for (item, matrix) in matrices.chunks_exact_mut(dim * dim).enumerate() {
        released.write_item(item, matrix, &mut b);
    }
    let noise = [released.matrix_noise_stddev(), released.rhs_noise_stddev()];
    ItemStatistics::new(dim, matrices, right_hand_sides(released), noise).map_err(failed)
}

fn right_hand_sides(released: &ReleasedGrams) -> Vec<f64> {
    let (dim, n_items) = (released.dim(), released.n_items());
    let (mut matrix, mut rhs) = (vec![0.0; dim * dim], vec![0.0; n_items * dim]);
    for (item, b) in rhs.chunks_exact_mut(dim).enumerate() {
        released.write_item(item, &mut matrix, b);
    }
    rhs
}

/// Curvatures and slopes at `v` as a quadratic: `A = PSD(H)`, `b = A v - g`.
fn around(slopes: &ItemStatistics, v: &[f64]) -> Result<ItemStatistics> {
    let (dim, mut curved) = (slopes.dim(), slopes.clone());
    curved.project_psd().map_err(failed)?;
    let (mut matrices, mut rhs) = (Vec::new(), Vec::new());
    for (item, v) in v.chunks_exact(dim).enumerate() {
        let matrix = curved.matrix(item);
        for (row, g) in matrix.chunks_exact(dim).zip(slopes.rhs(item)) {
            rhs.push(row.iter().zip(v).map(|(a, v)| a * v).sum::<f64>() - g);
        }
        matrices.extend_from_slice(matrix);
    }
    ItemStatistics::new(dim, matrices, rhs, slopes.noise_stddevs()).map_err(failed)
}

/// Share of a user's norm that is used for the items' total weights.
const TO_ITEMS: f64 = 0.95;

/// The statistics represented by a pooled matrix and residuals, from the formulas of
/// [`ResidualSsp`].
struct Pooled {
    dim: usize,
    /// `W_j`, released.
    weights: Vec<f64>,
    /// Number of units, released.
    n_units: f64,
    /// `PSD(S) / n`.
    average: Vec<f64>,
    /// Sum over releases of `b / s^2`, and of `1 / s^2`.
    evidence: (Vec<f64>, f64),
    n_observed: usize,
}

impl Pooled {
    const fn new(dim: usize) -> Self {
        Self {
            dim,
            weights: Vec::new(),
            n_units: 1.0,
            average: Vec::new(),
            evidence: (Vec::new(), 0.0),
            n_observed: 0,
        }
    }

    const fn has_totals(&self) -> bool {
        !self.weights.is_empty()
    }

    /// Number of releases of residuals so far, including the first right-hand sides.
    const fn n_observed(&self) -> usize {
        self.n_observed
    }

    /// `W_j = max(t_j, s) / .95` and `n = max(t_m / sqrt(1 - .95^2), 1)`.
    fn totals(&mut self, released: &ReleasedVector) {
        let (mut values, least) = (released.values(), released.noise_stddev());
        let counted = values.pop().unwrap_or_default();
        self.n_units = (counted / (1.0 - TO_ITEMS * TO_ITEMS).sqrt()).max(1.0);
        let weights = values.iter().map(|t| t.max(least) / TO_ITEMS);
        self.weights = weights.collect();
    }

    fn matrix(&mut self, released: &ReleasedGrams) -> Result<()> {
        let dim = self.dim;
        let mut matrix = vec![0.0; dim * dim];
        released.write_item(0, &mut matrix, &mut vec![0.0; dim]);
        project_psd_in_place(&mut matrix, dim).map_err(failed)?;
        let mean = |at: usize| 0.5 * (matrix[at] + matrix[at % dim * dim + at / dim]);
        self.average = (0..dim * dim).map(|at| mean(at) / self.n_units).collect();
        Ok(())
    }

    /// `b = r + W_j C v`, averaged with the previous estimates.
    fn observe(
        &mut self,
        v: &[f64],
        residuals: &[f64],
        stddev: f64,
        forget: bool,
    ) -> Result<ItemStatistics> {
        if forget {
            self.evidence = (vec![0.0; v.len()], 0.0);
        }
        self.n_observed += 1;
        let (dim, precision) = (self.dim, stddev.powi(-2));
        for (at, sum) in self.evidence.0.iter_mut().enumerate() {
            let (item, row) = (at / dim, &self.average[at % dim * dim..][..dim]);
            let own = &v[item * dim..][..dim];
            let image: f64 = row.iter().zip(own).map(|(c, v)| c * v).sum();
            *sum += precision * (residuals[at] + self.weights[item] * image);
        }
        self.evidence.1 += precision;
        let total = self.evidence.1;
        let rhs = self.evidence.0.iter().map(|b| b / total).collect();
        let matrices = self.weights.iter();
        let matrices = matrices.flat_map(|w| self.average.iter().map(move |c| w * c));
        let noise = [0.0, total.sqrt().recip()];
        ItemStatistics::new(dim, matrices.collect(), rhs, noise).map_err(failed)
    }
}

/// Oracle for DP-SGD on an encoder's parameters (`dp-pubfeat`).
///
/// This oracle recomputes the parameters before each step from the releases and public settings,
/// and from these what each user contributes if drawn. A trainer is rejected if its users
/// contribute anything else, or if its encoder does not follow from its releases. Who was drawn
/// stays secret also from an audit, so exact sums are not known and stay at 0. What remains to be
/// tested are scores of canaries, and noise in coordinates without users
/// ([`audit_epsilon`](crate::audit_epsilon), [`audit_release`](crate::audit_release)).
#[derive(Debug, Clone)]
pub struct DpSgdOracle<E> {
    fit: DpSgd,
    encoder: E,
    rate: f64,
}

impl<E> DpSgdOracle<E> {
    /// Creates an oracle for runs that start with this encoder.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] for an optimiser other than SGD, because the audit has its own
    /// implementation of the steps.
    pub fn new(fit: DpSgd, encoder: E) -> Result<Self> {
        let Optimiser::Sgd { rate } = fit.params().optimiser else {
            let what = "an audit of steps other than plain ones";
            return Err(failed(dp_pubfeat::Error::Unsupported { what }));
        };
        Ok(Self { fit, encoder, rate })
    }
}

impl<E: PublicEncoder + Clone> Oracle<E> for DpSgdOracle<E> {
    fn watch<'a>(&'a self, users: AuditedUsers<'a>) -> Box<dyn Watch<E> + 'a> {
        Box::new(Steps {
            oracle: self,
            own: self.encoder.clone(),
            users,
        })
    }

    /// These are what users contribute if drawn.
    fn trusts_contributions(&self) -> bool {
        false
    }
}

/// The steps of a run, recomputed.
struct Steps<'a, E> {
    oracle: &'a DpSgdOracle<E>,
    own: E,
    users: AuditedUsers<'a>,
}

impl<E: PublicEncoder + Clone> Watch<E> for Steps<'_, E> {
    /// Compares what users contribute with what follows from the parameters so far, and applies the
    /// step of the release.
    fn release(&mut self, seen: &Observed<'_>) -> Result<()> {
        let ObservedSums::Vector {
            grid,
            released,
            one_user,
        } = seen.sums
        else {
            return Err(differs("steps on gradients"));
        };
        let params = self.oracle.fit.params();
        let gradients = EncoderGradients::new(&params.setup, &self.own, params.gradient_norm);
        let gradients = gradients.map_err(failed)?;
        same_vectors(
            self.users,
            (grid, released.len()),
            &gradients,
            one_user,
            ROUNDED,
        )?;
        drop(gradients);
        // the accounted probability is the one with which batches are drawn, rounded up to 2^-64
        let rate = self.oracle.rate / params.sampling_probability;
        for (theta, g) in self.own.parameters_mut().iter_mut().zip(released.values()) {
            *theta -= rate * g;
        }
        Ok(())
    }

    fn finish(self: Box<Self>, model: &E, _: &mut [View]) -> Result<()> {
        let mut each = model.parameters().iter().zip(self.own.parameters());
        if each.all(|(a, b)| (a - b).abs() <= 1e-9 * (1.0 + b.abs())) {
            return Ok(());
        }
        Err(differs("parameters that follow from the releases"))
    }
}
