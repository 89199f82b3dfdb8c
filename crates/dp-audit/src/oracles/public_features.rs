//! Fits by statistics and by gradients (`dp-pubfeat`).

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

/// Oracle for a fit of item vectors by statistics (`dp-pubfeat`).
///
/// What item vectors were at each release is computed here once more, from the releases before it, public settings and a learner of the audit's own; and what each user adds is computed once more
/// from that. A trainer whose users add anything else, or whose last model does not follow from its releases, is refused: one that looks at true counts, a true mean, or exact sums between
/// releases is one. Bugs in code that both sides share (bounds on a user's share, the split of a budget among a user's items) do not show that way; the kernel's bound, canaries and neighbouring
/// tables are for those.
#[derive(Debug, Clone)]
pub struct PublicFeaturesOracle<L> {
    fit: PublicFeatures,
    learner: L,
}

/// The fits that [`PublicFeaturesOracle`] knows.
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
    /// For runs with these settings that start from `learner`.
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

/// A run made once more, release by release.
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

/// What was released, per item.
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

/// Share of a user's norm that goes to the items' total weights.
const TO_ITEMS: f64 = 0.95;

/// The statistics that a pooled matrix and residuals stand for, from the formulas of [`ResidualSsp`].
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

    /// Releases of residuals so far, the first right-hand sides among them.
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

    /// `b = r + W_j C v`, averaged with what is known already.
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
/// The parameters before each step are computed here once more from the releases and public settings, and what each user adds if drawn from those. A trainer whose users add anything else, or
/// whose encoder does not follow from its releases, is refused. Who was drawn stays secret also to an audit, so exact sums are not known and stay at 0: scores of canaries and noise where nobody
/// stands are what is left to test ([`audit_epsilon`](crate::audit_epsilon), [`audit_release`](crate::audit_release)).
#[derive(Debug, Clone)]
pub struct DpSgdOracle<E> {
    fit: DpSgd,
    encoder: E,
    rate: f64,
}

impl<E> DpSgdOracle<E> {
    /// For runs that start at this encoder.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] for an optimiser other than SGD, whose steps are the audit's own.
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

    /// They say what users add if drawn.
    fn trusts_contributions(&self) -> bool {
        false
    }
}

/// The steps of a run made once more.
struct Steps<'a, E> {
    oracle: &'a DpSgdOracle<E>,
    own: E,
    users: AuditedUsers<'a>,
}

impl<E: PublicEncoder + Clone> Watch<E> for Steps<'_, E> {
    /// Holds what users add to what follows from the parameters so far, and takes the step that the release says.
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
        // the probability that is accounted for is the one that batches are drawn with, rounded up to 2^-64
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
