//! Held-out metrics that may be published: one additional release of a run, paid for from the same
//! budget.
//!
//! Each user with held-out records adds one vector to a sum, computed from that user's metrics
//! `x_k` (means over the user's held-out records) after clipping to public ranges:
//!
//! ```text
//! v_k = 2 (clip(x_k, [lo_k, hi_k]) − lo_k) / (hi_k − lo_k) − 1              in [−1, 1]
//! c_u = (1, v_1, ..., v_K, W v_1², ..., W v_K²),   W = 1/2
//! S   = Σ_u c_u + N(0, σ² I),   σ = z C,   C = sqrt(1 + K (1 + W²)) >= ||c_u||
//! ```
//!
//! The mean over users is `m = S_k / S_0`, and its 95 % interval
//!
//! ```text
//! m ± 1.96 sqrt(s²/n + σ² (1 + m²)/n²),   n = S_0 − 2σ,   s² = min(q, 1) − m²,   q = second moment + 2 standard deviations of its noise
//! ```
//!
//! covers the sampling of users (first term) and the noise in both sums (second term, by
//! linearisation). `n` and `q` are the conservative ends of their intervals given the noise; if `n`
//! is below 2 nothing is known and the interval is the public range. Each user has the same weight,
//! however many records are held out, unlike in the internal files. A value outside a public range
//! counts as the nearest end.
//!
//! # Privacy
//! Unit: one user with all of their records; adjacency: adding or removing one user, as for the
//! run. Which of a user's records are held out depends on the user's id and a public seed. A user's
//! metrics are computed from the user's own records, training and held-out, and from what the run
//! has released: the model, noisy counts, public constants. The baseline is one of these functions
//! too: the user's own mean shrunk to a public centre, or the items with the largest released
//! counts. So `c_u` is a function of one user's records and of earlier releases, its norm is at
//! most `C` whatever the records are, and the sum is a Gaussian release of L2 sensitivity `C` that
//! composes with the releases before it (adaptive composition). The number of users is among the
//! noisy sums. The release is planned, paid for and listed together with the training. The sums may
//! go to anyone; the metrics, intervals and verdict computed from them are post-processing.
//! Personal models stay with their users (joint DP).

mod audit;

use dp_accounting::{
    CertificateBuilder, Plan, PlannedRelease, ReleaseRequest, ReleasedMetric, Requests, gdp,
};
use dp_core::{
    Adjacency, ApproxDp, DpEvent, Interactions, InteractionsBuilder, Private, ReplaceFactor,
    UserRow,
};
use dp_mechanism::{
    Error as KernelError, Fitted, Run, SparseBuffer, Trainer, VectorContribution, plan_for,
};
use dp_multitask::{FactorModel, TunedModel};
use dp_personalize::Subspace;
use dp_pubfeat::{FeatureModel, LikesModel};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::audit::{AuditedMetrics, with_audited_metrics};
use crate::error::{Error, Result};
use crate::quality::{CONFIDENCE, Metric, QUANTILE, Scored, Verdict};
use crate::settings::{MetricSettings, TaskKind};
use crate::workflows::evaluate::MODEL;
use crate::workflows::private_run::HasTable;

/// The label of the release.
pub(crate) const LABEL: &str = "held-out metrics";
/// Weight `W` of second moments, which need less accuracy than means.
const MOMENT_WEIGHT: f64 = 0.5;
/// Keeps rounding from pushing a contribution over its bound, in which case the kernel would drop
/// it.
const INSIDE: f64 = 1.0 - 1e-12;

/// One user's metrics on held-out records, computed from that user's records and from earlier
/// releases alone. Private.
///
/// A released sum is computed from these and from nothing that compares users: a missing value of
/// one user changes that user's values only.
#[derive(Clone)]
pub(crate) struct OwnMetrics {
    /// The metrics of the release for the model; none where there is no value.
    pub(crate) model: Vec<Option<f64>>,
    /// The first of the metrics for the baseline.
    pub(crate) baseline: Option<f64>,
}

impl OwnMetrics {
    /// User by user, from the model's metrics in their order and the first metric's baseline; none
    /// for users with nothing held out.
    pub(crate) fn of_columns(scored: &[Scored]) -> Vec<Option<Self>> {
        let value = |metric: &Scored, method: usize, user: usize| {
            let users = &metric.methods.get(method)?.1;
            users.get(user)?.mean()
        };
        let n_users = scored.first().and_then(|of| of.methods.first());
        let n_users = n_users.map_or(0, |(_, users)| users.len());
        let of_user = |user: usize| {
            let model: Vec<_> = scored.iter().map(|of| value(of, 0, user)).collect();
            let is_tested = model.iter().any(Option::is_some);
            is_tested.then(|| Self {
                model,
                baseline: scored.first().and_then(|of| value(of, 1, user)),
            })
        };
        (0..n_users).map(of_user).collect()
    }
}

/// The settings of the release of held-out metrics: public.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetricRelease {
    /// Share of the budget (mu^2 of the target), strictly between 0 and 1.
    pub(crate) share: f64,
    /// Metrics of the model, with the range to which a user's mean is clipped. The first is
    /// compared with the baseline.
    pub(crate) metrics: Vec<(Metric, [f64; 2])>,
    /// The model-free method available to users, from their own records and what the run released.
    pub(crate) baseline: Option<String>,
    /// Whether ranges are in the unit that the run learns instead of data units.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) in_learnt_unit: bool,
}

/// A model whose unit may have been released with it.
pub(crate) trait LearntUnit {
    /// The released unit of labels, in data units; 1 if none was released.
    fn unit(&self) -> f64 {
        1.0
    }
}

impl LearntUnit for FactorModel {
    fn unit(&self) -> f64 {
        self.scale().map_or(1.0, |scale| scale.unit)
    }
}

impl LearntUnit for TunedModel {
    fn unit(&self) -> f64 {
        self.model.unit()
    }
}

impl LearntUnit for FeatureModel {}
impl LearntUnit for LikesModel {}
impl LearntUnit for Subspace {}
#[cfg(test)]
impl LearntUnit for f64 {}

impl MetricRelease {
    /// Its name among the public inputs of a run.
    pub(crate) const KEY: &'static str = "held_out_metrics";

    /// The settings from the public inputs of a run; none if it releases no metrics.
    pub(crate) fn of_public(public: &Value) -> Option<Self> {
        serde_json::from_value(public.get(Self::KEY)?.clone()).ok()
    }

    /// Adds the settings to the public inputs, if there are any.
    pub(crate) fn put(release: Option<&Self>, public: &mut Value) {
        if let Some(release) = release {
            public[Self::KEY] = serde_json::json!(release);
        }
    }

    /// For ratings: a user's root mean squared error is clipped at `bound`.
    pub(crate) fn of_ratings(share: f64, bound: f64, baseline: Option<String>) -> Self {
        let metrics = vec![
            (Metric::Mse, [0.0, bound * bound]),
            (Metric::Mae, [0.0, bound]),
        ];
        Self {
            share,
            metrics,
            baseline,
            in_learnt_unit: false,
        }
    }

    /// The same in data units, using the unit of a model.
    fn in_data_units(&self, model: &impl LearntUnit) -> Self {
        let mut release = self.clone();
        if self.in_learnt_unit {
            for (metric, range) in &mut release.metrics {
                let power = if *metric == Metric::Mse { 2 } else { 1 };
                *range = range.map(|x| x * model.unit().powi(power));
            }
        }
        release
    }

    /// For labelled rows, if metrics are requested: a user's root mean squared error is clipped at
    /// the bound, by default half of the public range of the target; an error rate is not clipped.
    ///
    /// # Errors
    /// When a setting is out of range, or no public value bounds an error.
    pub(crate) fn of_rows(
        settings: &MetricSettings,
        task: TaskKind,
        target_range: Option<[f64; 2]>,
        baseline: &str,
    ) -> Result<Option<Self>> {
        let Some(share) = settings.share()? else {
            return Ok(None);
        };
        let half_range = target_range.map(|[low, high]| 0.5 * (high - low));
        let metric = match task {
            TaskKind::Classification => (Metric::ErrorRate, [0.0, 1.0]),
            TaskKind::Regression => {
                let bound = settings.metric_bound.or(half_range);
                let bound = bound.filter(|bound| *bound > 0.0).ok_or_else(|| {
                    let text = "`release_metrics` needs the public `metric_bound` or `target_range`: errors are clipped";
                    Error::Usage(text.to_owned())
                })?;
                (Metric::Mse, [0.0, bound * bound])
            }
        };
        Ok(Some(Self {
            share,
            metrics: vec![metric],
            baseline: Some(baseline.to_owned()),
            in_learnt_unit: false,
        }))
    }

    /// For lists, whose metrics are shares.
    pub(crate) fn of_lists(share: f64, baseline: Option<String>) -> Self {
        let metrics = vec![(Metric::Recall, [0.0, 1.0]), (Metric::Ndcg, [0.0, 1.0])];
        Self {
            share,
            metrics,
            baseline,
            in_learnt_unit: false,
        }
    }

    /// The public range of every value of a user: the metrics, and the gain over the baseline.
    fn ranges(&self) -> Vec<[f64; 2]> {
        let metrics = self.metrics.iter().map(|(_, range)| *range);
        let gain = self.baseline.as_ref().and(self.metrics.first());
        let gain = gain.map(|(_, [lower, upper])| [lower - upper, upper - lower]);
        metrics.chain(gain).collect()
    }

    /// The contribution to the released sum.
    fn contribution(&self) -> ClippedMetrics {
        ClippedMetrics {
            ranges: self.ranges(),
        }
    }

    /// Its place in a plan whose other releases have separately determined noise: a share of mu^2
    /// of the target.
    fn planned(&self, target: ApproxDp) -> Result<PlannedRelease> {
        let mu = gdp::mu_for(target)?;
        let event = DpEvent::gaussian(1.0 / (self.share.sqrt() * mu));
        let n_draws = self.contribution().n_coordinates() as u64;
        Ok(PlannedRelease::new(LABEL, event, n_draws))
    }

    /// The values of one user, all finite: a value that is missing or not a number becomes the
    /// worst of its range.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "kept finite, and clipped again in the sum"
    )]
    fn values(&self, own: &OwnMetrics) -> Vec<f32> {
        let ranges = self.ranges();
        let model = |at: usize| own.model.get(at).copied().flatten();
        let gain = self.baseline.as_ref().map(|_| {
            let larger_is_better = self.metrics[0].0.larger_is_better();
            let sign = if larger_is_better { 1.0 } else { -1.0 };
            let pair = model(0).zip(own.baseline);
            pair.map(|(model, baseline)| sign * (model - baseline))
        });
        let worst = |at: usize| {
            let larger = at >= self.metrics.len() || self.metrics[at].0.larger_is_better();
            ranges[at][usize::from(!larger)]
        };
        let values = (0..self.metrics.len()).map(model).chain(gain).enumerate();
        let values = values.map(|(at, x)| x.filter(|x| x.is_finite()).unwrap_or_else(|| worst(at)));
        values.map(|x| x.clamp(-1e30, 1e30) as f32).collect()
    }

    /// The values of every user who has held-out records: a row is a function of its own user.
    /// Private.
    fn table(&self, users: &[Option<OwnMetrics>]) -> Result<Private<Interactions>> {
        #[cfg(privacy_mutants)]
        let users = &mutants::baseline_of_everybody(users);
        let mut builder = InteractionsBuilder::new(1).with_feature_dim(self.ranges().len());
        for (user, own) in (0..).zip(users) {
            if let Some(own) = own {
                builder
                    .set_features(user, &self.values(own))
                    .map_err(dp_data::Error::from)?;
            }
        }
        Ok(Private::new(builder.build().0))
    }

    /// Releases the sum over the users of a table of [values](Self::values), and computes the
    /// metrics from it.
    fn of_table(
        &self,
        table: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> dp_mechanism::Result<Vec<ReleasedMetric>> {
        let contribution = self.contribution();
        let shape = (contribution.n_coordinates(), contribution.clip_norm());
        let released = run.vector(table, shape, &contribution)?;
        let (sums, noise) = (released.values(), released.noise_stddev());
        #[cfg(privacy_mutants)]
        let sums = mutants::true_sums(sums, table, &contribution);
        Ok(self.estimates(&sums, noise))
    }

    /// Adds the metrics to the certificate.
    fn describe(certificate: CertificateBuilder) -> CertificateBuilder {
        certificate.released_output(
            "noisy sums of users' held-out metrics, and the metrics with their confidence intervals",
            "anyone",
        )
    }

    /// Metrics with their intervals, from the released sums. Post-processing.
    fn estimates(&self, sums: &[f64], noise: f64) -> Vec<ReleasedMetric> {
        let metrics = self.metrics.iter();
        let mut named: Vec<(Metric, String)> = metrics
            .map(|&(metric, _)| (metric, MODEL.to_owned()))
            .collect();
        if let Some(baseline) = &self.baseline {
            named.push((self.metrics[0].0, gain_over(baseline)));
        }
        let ranges = self.ranges();
        let each = named.into_iter().zip(&ranges).enumerate();
        let each = each.map(|(at, ((metric, method), &[low, high]))| {
            let found = interval(sums, noise, at);
            let own = found.map(|v| low + (v + 1.0) / 2.0 * (high - low));
            // for mean squares the square root is reported; gains are not changed
            let is_root = metric == Metric::Mse && method == MODEL;
            let metric = if is_root { Metric::Rmse } else { metric };
            let [value, lower, upper] = own.map(|x| metric.of(x));
            ReleasedMetric {
                release: LABEL.to_owned(),
                metric: metric.name().to_owned(),
                method,
                value,
                lower,
                upper,
                confidence: CONFIDENCE,
                clipped_to: [low, high].map(|x| metric.of(x)),
            }
        });
        each.collect()
    }

    /// The verdict from the released metrics; none without a baseline or without the release.
    pub(crate) fn verdict(&self, metrics: &[ReleasedMetric]) -> Option<Verdict> {
        let baseline = self.baseline.as_ref()?;
        let (metric, _) = *self.metrics.first()?;
        let method = gain_over(baseline);
        let gain = metrics.iter().find(|of| of.method == method)?;
        let model = metrics.iter().find(|of| of.method == MODEL)?;
        let value = if metric == Metric::Mse {
            model.value.powi(2)
        } else {
            model.value
        };
        let sign: f64 = if metric.larger_is_better() { -1.0 } else { 1.0 };
        let other = sign.mul_add(gain.value, value);
        let ends = (gain.value, gain.lower, gain.upper);
        let mut verdict = Verdict::new(metric, value, (baseline, other), ends);
        verdict.is_released = true;
        Some(verdict)
    }
}

/// The name of the difference from a baseline.
fn gain_over(baseline: &str) -> String {
    format!("gain over {baseline}")
}

/// Mean of the values `at` and the ends of its interval, in [-1, 1]: see the module.
fn interval(sums: &[f64], noise: f64, at: usize) -> [f64; 3] {
    let n_values = (sums.len() - 1) / 2;
    let (n, least) = (sums[0], sums[0] - 2.0 * noise);
    if least < 2.0 {
        let value = sums[1 + at] / n.max(1.0);
        return [value.clamp(-1.0, 1.0), -1.0, 1.0];
    }
    let mean = (sums[1 + at] / n).clamp(-1.0, 1.0);
    let square = sums[1 + n_values + at] / (MOMENT_WEIGHT * n);
    let of_noise = 2.0 * noise * (MOMENT_WEIGHT.powi(-2) + square * square).sqrt() / least;
    let variance = ((square + of_noise).min(1.0) - mean * mean).max(0.0);
    let sampling = variance / least;
    let of_noise = noise * noise * (1.0 + mean * mean) / (least * least);
    let half = QUANTILE * (sampling + of_noise).sqrt();
    [mean, (mean - half).max(-1.0), (mean + half).min(1.0)]
}

/// A user's clipped values and their squares: `c_u` of the module. The features of a row are the user's values.
struct ClippedMetrics {
    ranges: Vec<[f64; 2]>,
}

impl ClippedMetrics {
    /// Length of the sum.
    fn n_coordinates(&self) -> usize {
        1 + 2 * self.ranges.len()
    }

    /// The bound `C` on a user's norm.
    fn clip_norm(&self) -> f64 {
        let n = self.ranges.len() as f64;
        let norm = (1.0 + n * MOMENT_WEIGHT.mul_add(MOMENT_WEIGHT, 1.0)).sqrt();
        #[cfg(privacy_mutants)]
        let norm = dp_core::mutants::pick("released-metrics-charged-by-half", norm, 0.5 * norm);
        norm
    }
}

impl VectorContribution for ClippedMetrics {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        out.push(0, INSIDE);
        let n = u32::try_from(self.ranges.len()).unwrap_or(u32::MAX); // only a few
        for (at, (&x, &[low, high])) in (1_u32..).zip(user.features().iter().zip(&self.ranges)) {
            let clipped = f64::from(x).clamp(low, high);
            #[cfg(privacy_mutants)]
            let clipped =
                dp_core::mutants::pick("released-metrics-unclipped", clipped, f64::from(x));
            let v = 2.0 * (clipped - low) / (high - low) - 1.0;
            out.push(at, INSIDE * v);
            out.push(at + n, INSIDE * MOMENT_WEIGHT * v * v);
        }
    }
}

/// A trainer that releases held-out metrics of its model at the end, if requested; otherwise the
/// trainer itself.
pub(crate) struct WithMetrics<'a, T> {
    trainer: &'a T,
    release: Option<&'a MetricRelease>,
    /// The target of the whole run.
    target: ApproxDp,
}

/// A trainer that also releases the metrics, if there are any to release.
pub(crate) const fn with_metrics<'a, T>(
    trainer: &'a T,
    release: Option<&'a MetricRelease>,
    target: ApproxDp,
) -> WithMetrics<'a, T> {
    WithMetrics {
        trainer,
        release,
        target,
    }
}

/// The requests of a run, and of the metrics after it if there are any to release.
///
/// If all other releases are Gaussian on all users, they leave the metrics their share. With
/// releases of other kinds, such as rounds on samples of the users, the metrics have a fixed
/// Gaussian of mu^2 = share × mu^2 of the target; the accountant determines the noise of the others
/// from the exact composition of all.
pub(crate) fn and_metrics(
    own: Requests,
    release: Option<&MetricRelease>,
    target: ApproxDp,
) -> Result<Requests> {
    let Some(release) = release else {
        return Ok(own);
    };
    #[cfg(privacy_mutants)]
    if dp_core::mutants::active("released-metrics-unplanned") {
        return Ok(own);
    }
    let fixed = release.planned(target)?;
    Ok(match own {
        Requests::Shares(mut all) => {
            let total: f64 = all.iter().map(|request| request.budget_share).sum();
            for request in &mut all {
                request.budget_share *= (1.0 - release.share) / total;
            }
            let (factor, n_draws) = (ReplaceFactor::Two, fixed.n_draws());
            all.push(ReleaseRequest::new(LABEL, release.share, factor, n_draws));
            Requests::Shares(all)
        }
        Requests::Schedule(releases) => Requests::schedule(move |z| {
            let mut all = releases(z);
            all.push(fixed.clone());
            all
        }),
        Requests::Fixed(mut all) => {
            all.push(fixed);
            Requests::Fixed(all)
        }
    })
}

/// The users' data: the training data, and users' scores of a model on their held-out data.
pub(crate) struct TrainedAndHeldOut<'a, D: ?Sized, M> {
    pub(crate) train: &'a D,
    pub(crate) scored: &'a Scorer<'a, M>,
}

impl<D: HasTable + ?Sized, M> HasTable for TrainedAndHeldOut<'_, D, M> {
    fn table(&self) -> Option<&Private<Interactions>> {
        self.train.table()
    }
}

/// Users' scores by a model, user by user; none for users with nothing held out.
pub(crate) type Scorer<'a, M> = dyn Fn(&M) -> Result<Vec<Option<OwnMetrics>>> + 'a;

/// A model, and its released metrics; none if the run releases none or ended before.
pub(crate) struct Measured<M> {
    model: M,
    metrics: Vec<ReleasedMetric>,
}

impl<M> Measured<M> {
    /// The fitted model, with its metrics in the certificate.
    pub(crate) fn certified(fitted: Fitted<Self>) -> Fitted<M> {
        let metrics = fitted.model.metrics.clone();
        let mut fitted = fitted.map(|of| of.model);
        if !metrics.is_empty() {
            fitted.certificate = fitted.certificate.with_metrics(metrics);
        }
        fitted
    }
}

impl<'a, T: Trainer> Trainer for WithMetrics<'a, T>
where
    Error: From<T::Error>,
    T::Data: 'a,
    T::Model: LearntUnit + 'a,
{
    type Data = TrainedAndHeldOut<'a, T::Data, T::Model>;
    type Model = Measured<T::Model>;
    type Error = Error;

    fn width(&self, data: &Self::Data) -> usize {
        self.trainer.width(data.train)
    }

    /// The requests of the trainer, and one with its share of mu^2 of the target.
    fn requests(&self, width: usize, adjacency: Adjacency) -> Result<Requests> {
        let own = self.trainer.requests(width, adjacency)?;
        and_metrics(own, self.release, self.target)
    }

    fn n_accounts(&self) -> usize {
        self.trainer.n_accounts()
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let certificate = self.trainer.describe(certificate);
        match self.release {
            Some(_) => MetricRelease::describe(certificate),
            None => certificate,
        }
    }

    /// Errors are those of the trainer.
    fn plan(&self, width: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        let plan = plan_for(&self.requests(width, adjacency)?, target, adjacency);
        Ok(plan.map_err(T::Error::from)?)
    }

    fn train(&self, data: &Self::Data, run: &mut Run<'_>) -> Result<Self::Model> {
        let model = self.trainer.train(data.train, run)?;
        let mut metrics = Vec::new();
        if let Some(release) = self.release.map(|of| of.in_data_units(&model)) {
            let table = release.table(&(data.scored)(&model)?)?;
            match release.of_table(&table, run) {
                Ok(found) => metrics = found,
                // a run that ends after the rounds already made has no metrics
                Err(KernelError::EndOfList) if run.is_at_end()? => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Measured { model, metrics })
    }
}

/// Deliberate bugs, in `--cfg privacy_mutants` builds only; see `docs/audits.md`.
#[cfg(privacy_mutants)]
mod mutants {
    use dp_core::mutants::active;

    use super::*;

    /// Bug: metrics from the true sums, so that the paid release is not used.
    pub(super) fn true_sums(
        released: Vec<f64>,
        table: &Private<Interactions>,
        contribution: &ClippedMetrics,
    ) -> Vec<f64> {
        if !active("released-metrics-of-the-true-sums") {
            return released;
        }
        let (n, mut sums) = (released.len(), vec![0.0; released.len()]);
        let Ok(grid) = dp_mechanism::Grid::new(1.0, contribution.clip_norm()) else {
            return released;
        };
        for user in table.expose().users() {
            for (at, z) in dp_mechanism::vector_contribution(&grid, n, contribution, user) {
                sums[at] += z as f64 * grid.step();
            }
        }
        sums
    }

    /// Bug: one user without a baseline removes it for all.
    pub(super) fn baseline_of_everybody(users: &[Option<OwnMetrics>]) -> Vec<Option<OwnMetrics>> {
        let mut users = users.to_vec();
        let lacks = |user: &OwnMetrics| user.baseline.is_none();
        if active("released-metrics-baseline-of-everybody") && users.iter().flatten().any(lacks) {
            users
                .iter_mut()
                .flatten()
                .for_each(|user| user.baseline = None);
        }
        users
    }
}

#[cfg(test)]
pub(super) mod tests {
    use chacha20::ChaCha20Rng;
    use dp_accounting::{Budget, Ledger};
    use dp_mechanism::{Grid, NoiseSource, ReleaseList, RunFolder, vector_contribution};
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::quality::{Outcome, UserValue};

    pub(super) fn release(share: f64) -> MetricRelease {
        MetricRelease::of_ratings(share, 2.0, Some("user mean".to_owned()))
    }

    /// Squared and absolute errors of the model, and squared errors of a baseline.
    fn scored(users: &[[f64; 3]]) -> Vec<Option<OwnMetrics>> {
        let column = |name: &str, at: usize| {
            let value = |user: &[f64; 3]| UserValue {
                total: 2.0 * user[at],
                weight: 2.0,
            };
            // the last user has nothing held out
            let values = users.iter().map(value).chain([UserValue::default()]);
            (name.to_owned(), values.collect())
        };
        let squared = vec![column("model", 0), column("user mean", 2)];
        let of = |metric, methods| Scored { metric, methods };
        OwnMetrics::of_columns(&[
            of(Metric::Mse, squared),
            of(Metric::Mae, vec![column("model", 1)]),
        ])
    }

    /// Whatever one user's records do to their own metrics, no other user's row changes, and the
    /// user has the worst values.
    #[test]
    fn figures_that_one_user_lacks_are_the_worst_of_that_user_and_change_nobody_else() {
        let release = release(0.1);
        let own = |model: [Option<f64>; 2], baseline| OwnMetrics {
            model: model.to_vec(),
            baseline,
        };
        let honest = |at: u32| {
            let x = 0.1 * f64::from(at);
            Some(own([Some(1.0 + x), Some(0.5 + x)], Some(1.5)))
        };
        let rows = |users: &[Option<OwnMetrics>]| -> Vec<Vec<f32>> {
            let table = release.table(users).unwrap().into_exposed();
            table.users().map(|row| row.features().to_vec()).collect()
        };
        let others: Vec<_> = (0..5).map(honest).collect();
        let alone = rows(&others);
        assert!((alone[0][2] - 0.5).abs() < 1e-6);
        let of_error = [Some(0.3), Some(0.2)];
        for (hostile, expected) in [
            (own(of_error, None), [0.3, 0.2, -4.0]),
            (own(of_error, Some(f64::NAN)), [0.3, 0.2, -4.0]),
            (own([None, Some(0.2)], Some(0.1)), [4.0, 0.2, -4.0]),
            (own([Some(0.3), None], Some(0.3)), [0.3, 2.0, 0.0]),
            (own([None, None], None), [4.0, 2.0, -4.0]),
            (own([Some(f64::INFINITY); 2], Some(1.0)), [4.0, 2.0, -4.0]),
        ] {
            for at in 0..=others.len() {
                let mut users = others.clone();
                users.insert(at, Some(hostile.clone()));
                let mut found = rows(&users);
                assert_eq!(found.remove(at), expected, "user {at}");
                assert_eq!(found, alone);
            }
        }
    }

    /// The bound is the one to which the noise is scaled; a user beyond it would be dropped by the
    /// kernel, and not counted.
    #[test]
    fn no_user_adds_more_than_the_bound_whatever_the_errors_are() {
        let release = release(0.1);
        let contribution = release.contribution();
        let (n, clip_norm) = (contribution.n_coordinates(), contribution.clip_norm());
        assert_eq!(n, 7);
        assert!((clip_norm - 4.75_f64.sqrt()).abs() < 1e-12);
        let grid = Grid::new(3.0, clip_norm).unwrap();
        let wild = [
            [0.0, 0.0, 0.0],
            [4.0, 2.0, 0.0],
            [1e300, 1e300, 0.0],
            [f64::INFINITY, f64::NAN, f64::NAN],
            [-1e9, -5.0, 1e9],
            [1.2, 0.9, 1.3],
        ];
        let table = release.table(&scored(&wild)).unwrap();
        assert_eq!(table.expose().n_users(), wild.len());
        for (user, row) in wild.iter().zip(table.expose().users()) {
            let entries = vector_contribution(&grid, n, &contribution, row);
            assert!(!entries.is_empty(), "{user:?} was dropped");
            let squares: u128 = entries
                .iter()
                .map(|(_, z)| u128::from(z.unsigned_abs()).pow(2))
                .sum();
            assert!(squares <= u128::from(grid.l2_bound()).pow(2), "{user:?}");
            let first = entries.iter().find(|(at, _)| *at == 0).unwrap().1;
            assert!((first as f64 * grid.step() - 1.0).abs() < 1e-3);
        }
        // a missing value counts as the worst: the upper end of the error, the lower end of the
        // gain
        let lost = table.expose().user(3).features().to_vec();
        assert_eq!(lost, [4.0, 2.0, -4.0]);
    }

    /// A trainer of one count.
    pub(super) struct Counting;

    impl Trainer for Counting {
        type Data = Private<Interactions>;
        type Model = f64;
        type Error = Error;

        fn width(&self, _: &Private<Interactions>) -> usize {
            1
        }

        fn requests(&self, _: usize, _: Adjacency) -> Result<Requests> {
            let request = ReleaseRequest::new("count", 5.0, ReplaceFactor::Two, 1);
            Ok(Requests::Shares(vec![request]))
        }

        fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
            certificate.released_output("a count", "anyone")
        }

        fn train(&self, data: &Private<Interactions>, run: &mut Run<'_>) -> Result<f64> {
            Ok(run.count(data)?.value())
        }
    }

    const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

    #[test]
    fn the_share_is_taken_from_the_training_and_the_whole_stays_within_the_target() {
        let target = ApproxDp::target(2.0, 1e-5).unwrap();
        let plan = |release: Option<&MetricRelease>| {
            let trainer = WithMetrics {
                trainer: &Counting,
                release,
                target,
            };
            trainer.plan(1, target, ADJACENCY).unwrap()
        };
        let (alone, shared) = (plan(None), plan(Some(&release(0.2))));
        assert!(shared.guarantee().epsilon <= 2.0 && shared.guarantee().epsilon > 1.999);
        let cost = |release: &PlannedRelease| gdp::mu_squared(release.event(), ADJACENCY).unwrap();
        let whole = alone.mu_squared().unwrap();
        let costs: Vec<f64> = shared.releases().iter().map(cost).collect();
        assert_eq!((alone.releases().len(), costs.len()), (1, 2));
        for (found, share) in costs.iter().zip([0.8, 0.2]) {
            assert!((found / whole - share).abs() < 1e-9, "{found} of {whole}");
        }
        let last = &shared.releases()[1];
        assert_eq!((last.label(), last.n_draws()), (LABEL, 7));
    }

    #[test]
    fn what_is_released_is_near_the_truth_listed_and_in_the_certificate() {
        let target = ApproxDp::target(8.0, 1e-5).unwrap();
        let release = release(0.5);
        let trainer = WithMetrics {
            trainer: &Counting,
            release: Some(&release),
            target,
        };
        let users: Vec<[f64; 3]> = (0..4000)
            .map(|u| {
                let x = f64::from(u % 5) / 5.0;
                [0.4 + x, 0.5 + x / 2.0, 1.0 + x]
            })
            .collect();
        let mut people = InteractionsBuilder::new(1);
        (0..4000).for_each(|user| people.push(user, 0, 1.0).unwrap());
        let people = Private::new(people.build().0);
        let data = TrainedAndHeldOut {
            train: &people,
            scored: &|_: &f64| Ok(scored(&users)),
        };
        let plan = trainer.plan(1, target, ADJACENCY).unwrap();
        let budget = Budget::new(target, ADJACENCY).unwrap();
        let spends = Ledger::in_memory("users", budget)
            .unwrap()
            .reserve(&plan)
            .unwrap();
        let noise = &mut NoiseSource::operating_system();
        let fitted = trainer.fit(&data, &plan, spends, noise).unwrap();
        assert_eq!(fitted.n_releases, 2);
        let fitted = Measured::certified(fitted);
        let certificate = &fitted.certificate;
        assert!(certificate.verify().unwrap().is_private());
        assert_eq!(certificate.releases[1].label, LABEL);
        let found = &certificate.metrics;
        let expected = [
            ("RMSE", "model", 0.8_f64.sqrt()),
            ("MAE", "model", 0.7),
            ("MSE", "gain over user mean", 0.6),
        ];
        for (found, (metric, method, value)) in found.iter().zip(expected) {
            assert_eq!((&*found.metric, &*found.method), (metric, method));
            // noise of about 4 on sums over 4000: 0.02 is fifteen deviations
            assert!((found.value - value).abs() < 0.02, "{found:?}");
            let width = found.upper - found.lower;
            assert!(found.lower < found.value && found.value < found.upper && width < 0.08);
            // fresh noise: three half-widths of 95 % are six deviations, missed once in 10^8 runs
            assert!((found.value - value).abs() < 1.5 * width, "{found:?}");
        }
        assert_eq!((found.len(), found[0].clipped_to), (3, [0.0, 2.0]));
        let verdict = release.verdict(found).unwrap();
        assert_eq!(
            (verdict.outcome, verdict.is_released),
            (Outcome::Better, true)
        );
        assert!((verdict.baseline_value - 1.4).abs() < 0.05);
    }

    #[test]
    fn a_replay_has_the_metrics_of_its_run_and_one_that_ends_before_them_has_none() {
        let target = ApproxDp::target(8.0, 1e-5).unwrap();
        let release = release(0.5);
        let trainer = with_metrics(&Counting, Some(&release), target);
        let plan = trainer.plan(1, target, ADJACENCY).unwrap();
        let (dir, users) = (tempfile::tempdir().unwrap(), [[0.5, 0.6, 0.7]; 50]);
        let folder = RunFolder::new(dir.path());
        let nobody = Private::new(InteractionsBuilder::new(1).build().0);
        let data = TrainedAndHeldOut {
            train: &nobody,
            scored: &|_: &f64| Ok(scored(&users)),
        };
        let budget = Budget::new(target, ADJACENCY).unwrap();
        let ledgers = &mut [Ledger::in_memory("users", budget).unwrap()];
        let noise = &mut NoiseSource::operating_system();
        let fitted = folder.train(&trainer, &data, &plan, ledgers, "run", noise, &mut ());
        let fitted = Measured::certified(fitted.unwrap());
        assert_eq!(fitted.certificate.metrics.len(), 3);
        // a crash while the last release was written
        let bytes = std::fs::read(folder.list_path()).unwrap();
        let early = dir.path().join("early.list");
        std::fs::write(&early, &bytes[..bytes.len() - 3]).unwrap();
        let replayed = |list: &std::path::Path| {
            let of_nobody = TrainedAndHeldOut {
                train: &nobody,
                scored: &|_: &f64| Ok(Vec::new()),
            };
            let list = ReleaseList::open(list, "run", &plan).unwrap();
            let run = Run::replay(&plan, list).unwrap();
            Measured::certified(trainer.run(&of_nobody, run).unwrap())
        };
        let again = replayed(&folder.list_path());
        assert_eq!(again.certificate.metrics, fitted.certificate.metrics);
        let early = replayed(&early);
        assert!(early.certificate.metrics.is_empty());
        assert_eq!(early.model.to_bits(), fitted.model.to_bits());
        // the planned metrics are counted anyway
        assert_eq!(early.certificate.not_made.len(), 1);
    }

    /// 2,000 populations, sampled and with noise, for several sizes of noise: at least 95 % of the
    /// intervals contain the true mean. The bound is 4.5 standard deviations below: a false alarm
    /// in 300,000 tests.
    #[test]
    #[ignore = "heavy: part of CI"]
    fn heavy_intervals_hold_the_mean_of_the_population_as_often_as_they_say() {
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let mut normal = move || (0..12).map(|_| rng.random::<f64>() - 0.5).sum::<f64>();
        let mut rng = ChaCha20Rng::seed_from_u64(6);
        for (n_users, noise) in [
            (300, 0.0),
            (300, 6.0),
            (300, 60.0),
            (300, 200.0),
            (1200, 16.4),
        ] {
            let (mut held, mut width) = (0, 0.0);
            for _ in 0..2000 {
                let mut sums = [0.0; 3];
                for _ in 0..n_users {
                    // a skewed distribution on [-1, 1]: v = 2 u^3 - 1, with mean -1/2
                    let v = 2.0 * rng.random::<f64>().powi(3) - 1.0;
                    let own = [1.0, v, MOMENT_WEIGHT * v * v];
                    sums.iter_mut().zip(own).for_each(|(s, c)| *s += c);
                }
                sums.iter_mut().for_each(|s| *s += noise * normal());
                let [value, lower, upper] = interval(&sums, noise, 0);
                assert!(lower <= value && value <= upper && lower >= -1.0 && upper <= 1.0);
                held += u32::from(lower <= -0.5 && -0.5 <= upper);
                width += (upper - lower) / 2000.0;
            }
            let share = f64::from(held) / 2000.0;
            assert!(
                share > 0.95 - 4.5 * 0.0049,
                "{n_users} users, noise {noise}: {share}"
            );
            // informative if the noise is far below the number of users
            assert!(width < if noise > 50.0 { 2.1 } else { 0.2 }, "{width}");
        }
    }
}
