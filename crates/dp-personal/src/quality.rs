//! Held-out metrics with confidence intervals over users, and the verdict on a model.
//!
//! A metric is a ratio of sums over users: each user has the sum of a loss or gain over their
//! held-out records, and the number of these records.
//!
//! ```text
//! R = Σ t_u / Σ w_u,    metric g(R) with g the identity, or the square root of RMSE
//! influence of a user   φ_u = g'(R) (t_u − R w_u) / Σ w
//! standard error        sqrt(n/(n−1) Σ φ_u²)              over the n users with held-out records
//! difference of two     g(R) − g(S), standard error from the paired φ_u − ψ_u
//! ```
//!
//! This is the linearised variance of a ratio whose clusters are users (Cochran 1977, section 6.3),
//! so a user's records need not be independent. The ends of the 95 % interval are 1.96 standard
//! errors away.
//!
//! # Privacy
//! Computed from private data: internal, unless it was paid for (`metric_release`).

use std::fmt;

use dp_page::{Table, decimals, figure};
use dp_personalize::ClassScores;
use serde::{Deserialize, Serialize};

use crate::evaluate::shown;
use crate::personal::Task;

/// Coverage of the intervals for the mean over the population that users are drawn from.
pub(crate) const CONFIDENCE: f64 = 0.95;
/// Standard errors from the centre of an interval to its ends.
pub(crate) const QUANTILE: f64 = 1.96;
/// Prefix of the name of a row that is the difference of two methods.
pub(crate) const GAIN_OVER: &str = "gain over ";
/// Number of user groups by activity.
const N_GROUPS: usize = 4;
/// What is computed from users' sums, and which direction is better. The names are those in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Metric {
    /// Root mean squared error, from users' sums of squared errors.
    #[serde(rename = "RMSE")]
    Rmse,
    /// Mean squared error.
    #[serde(rename = "MSE")]
    Mse,
    /// Mean absolute error.
    #[serde(rename = "MAE")]
    Mae,
    /// Share of misclassified rows.
    #[serde(rename = "error rate")]
    ErrorRate,
    /// Area under the ROC curve of a user's own rows, as the mean over users who have rows of both
    /// classes.
    #[serde(rename = "AUC, mean of users")]
    Auc,
    /// Mean log loss over rows, in nats.
    #[serde(rename = "log loss")]
    LogLoss,
    /// Share of the rows above the threshold that are classified as such.
    #[serde(rename = "recall of yes")]
    RecallOfYes,
    /// The same for the other rows.
    #[serde(rename = "recall of no")]
    RecallOfNo,
    /// Share of the held-out items that a user liked that are in their list of 20.
    #[serde(rename = "Recall@20")]
    Recall,
    /// The same with larger weights for the first positions.
    #[serde(rename = "NDCG@20")]
    Ndcg,
}

impl Metric {
    /// Metrics of labelled rows; the first determines the verdict.
    pub(crate) const fn of_task(task: Task) -> &'static [Self] {
        match task {
            Task::Regression => &[Self::Rmse],
            Task::Classification { .. } => &[
                Self::ErrorRate,
                Self::Auc,
                Self::LogLoss,
                Self::RecallOfYes,
                Self::RecallOfNo,
            ],
        }
    }

    /// Name in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rmse => "RMSE",
            Self::Mse => "MSE",
            Self::Mae => "MAE",
            Self::ErrorRate => "error rate",
            Self::Auc => "AUC, mean of users",
            Self::LogLoss => "log loss",
            Self::RecallOfYes => "recall of yes",
            Self::RecallOfNo => "recall of no",
            Self::Recall => "Recall@20",
            Self::Ndcg => "NDCG@20",
        }
    }

    pub(crate) const fn larger_is_better(self) -> bool {
        !matches!(
            self,
            Self::Rmse | Self::Mse | Self::Mae | Self::ErrorRate | Self::LogLoss
        )
    }

    /// The metric computed from a mean.
    pub(crate) fn of(self, mean: f64) -> f64 {
        match self {
            Self::Rmse if mean < 0.0 => 0.0, // possible with noisy sums
            Self::Rmse => mean.sqrt(),
            _ => mean,
        }
    }

    fn slope(self, mean: f64) -> f64 {
        match self {
            Self::Rmse if mean > 0.0 => 0.5 / mean.sqrt(),
            Self::Rmse => 0.0,
            _ => 1.0,
        }
    }
}

/// One user's contribution to a metric: the sum over the held-out records, and their number; 0 if
/// none of the user's records are held out.
#[derive(Clone, Copy, Default)]
pub(crate) struct UserValue {
    pub(crate) total: f64,
    pub(crate) weight: f64,
}

impl UserValue {
    /// The user's own mean; none if nothing is held out.
    pub(crate) fn mean(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.total / self.weight)
    }
}

/// One metric of several methods on the same held-out records, with users in the same order. The
/// model comes first.
#[derive(Clone)]
pub(crate) struct Scored {
    pub(crate) metric: Metric,
    pub(crate) methods: Vec<(String, Vec<UserValue>)>,
}

/// Test results of one user for several methods, in their order. Private.
pub(crate) struct TestedUser<'a> {
    /// Number of rows that the personal model is fitted to.
    pub(crate) n_history: usize,
    pub(crate) n_test: usize,
    /// Mean errors; none for a method without a model of the user.
    pub(crate) errors: Vec<Option<f64>>,
    /// For classes, the scores behind the errors.
    pub(crate) scores: Vec<Option<&'a ClassScores>>,
}

impl TestedUser<'_> {
    fn error(&self, method: usize) -> Option<f64> {
        self.errors.get(method).copied().flatten()
    }

    /// NaN for a user who is tested but has no value.
    fn value(&self, metric: Metric, method: usize) -> UserValue {
        let scores = self.scores.get(method).copied().flatten();
        let (mean, weight) = match metric {
            Metric::Auc => {
                let has_both = |of: &ClassScores| [true, false].map(|y| of.recall(y).is_some());
                let is_asked = scores.is_some_and(|of| has_both(of) == [true, true]);
                (scores.and_then(ClassScores::auc), f64::from(is_asked))
            }
            Metric::LogLoss => (scores.and_then(ClassScores::log_loss), self.n_test as f64),
            Metric::RecallOfYes | Metric::RecallOfNo => {
                let class = metric == Metric::RecallOfYes;
                let n_rows = scores.map_or(0, |of| of.count(class));
                (scores.and_then(|of| of.recall(class)), n_rows as f64)
            }
            _ => (self.error(method), self.n_test as f64),
        };
        let total = if weight > 0.0 {
            mean.unwrap_or(f64::NAN) * weight
        } else {
            0.0
        };
        UserValue { total, weight }
    }
}

/// A number with the ends of its confidence interval, which is missing with fewer than two users.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) lower: Option<f64>,
    pub(crate) upper: Option<f64>,
}

impl Estimate {
    /// An estimate from users' influences, `n` of which are of users with held-out records.
    fn new(value: f64, influences: impl Iterator<Item = f64>, n: usize) -> Option<Self> {
        let squares: f64 = influences.map(|phi| phi * phi).sum();
        let error = (n > 1).then(|| QUANTILE * (squares * n as f64 / (n - 1) as f64).sqrt());
        let error = error.filter(|error| error.is_finite());
        value.is_finite().then(|| Self {
            value,
            lower: error.map(|error| value - error),
            upper: error.map(|error| value + error),
        })
    }

    fn interval(&self) -> String {
        match (self.lower, self.upper) {
            (Some(lower), Some(upper)) => {
                let of = |end| figure(end, self.value);
                format!("{} to {}", of(lower), of(upper))
            }
            _ => "-".to_owned(),
        }
    }
}

/// Value of a metric, each user's influence on it, and the number of users with held-out records.
fn linearised(metric: Metric, users: &[UserValue]) -> Option<(f64, Vec<f64>, usize)> {
    let weight: f64 = users.iter().map(|user| user.weight).sum();
    if weight <= 0.0 {
        return None;
    }
    let mean = users.iter().map(|user| user.total).sum::<f64>() / weight;
    let scale = metric.slope(mean) / weight;
    let influence = |user: &UserValue| scale * (user.total - mean * user.weight);
    let n = users.iter().filter(|user| user.weight > 0.0).count();
    Some((metric.of(mean), users.iter().map(influence).collect(), n))
}

impl Scored {
    /// A method's metric; none if nothing is held out, or if it is not finite.
    pub(crate) fn estimate(&self, method: usize) -> Option<Estimate> {
        let (value, influences, n) = linearised(self.metric, &self.methods.get(method)?.1)?;
        Estimate::new(value, influences.into_iter(), n)
    }

    /// How much better the model is than another method, from paired differences: above 0 if it is
    /// better.
    pub(crate) fn gain_over(&self, method: usize) -> Option<Estimate> {
        let (own, phi, n) = linearised(self.metric, &self.methods.first()?.1)?;
        let (other, psi, _) = linearised(self.metric, &self.methods.get(method)?.1)?;
        let gain = if self.metric.larger_is_better() {
            own - other
        } else {
            other - own
        };
        Estimate::new(gain, phi.iter().zip(&psi).map(|(a, b)| a - b), n)
    }

    /// The best of the methods other than the model.
    fn best_baseline(&self) -> Option<usize> {
        let sign = if self.metric.larger_is_better() {
            -1.0
        } else {
            1.0
        };
        let values = (1..self.methods.len()).filter_map(|at| Some((at, self.estimate(at)?.value)));
        let best = values.min_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1)));
        best.map(|(at, _)| at)
    }

    /// The same for some users, given by their indices.
    fn among(&self, users: &[usize]) -> Self {
        let kept = |values: &[UserValue]| {
            let users = users.iter().filter_map(|&at| values.get(at).copied());
            users.collect()
        };
        let methods = self.methods.iter();
        Self {
            metric: self.metric,
            methods: methods
                .map(|(name, values)| (name.clone(), kept(values)))
                .collect(),
        }
    }

    /// A row for each method, and one for the gain over a baseline if one is named.
    pub(crate) fn rows(&self, group: &str, baseline: Option<usize>) -> Vec<MetricRow> {
        let count = |(_, users): &(String, Vec<UserValue>)| {
            users.iter().filter(|user| user.weight > 0.0).count()
        };
        let n_users = self.methods.first().map_or(0, count);
        let row = |method: String, estimate| MetricRow {
            group: group.to_owned(),
            metric: self.metric.name().to_owned(),
            method,
            n_users,
            estimate,
        };
        let methods = self.methods.iter().enumerate();
        let methods = methods.map(|(at, (name, _))| row(name.clone(), self.estimate(at)));
        let gain = baseline.map(|at| {
            let name = format!("{GAIN_OVER}{}", self.methods[at].0);
            row(name, self.gain_over(at))
        });
        methods.chain(gain).collect()
    }
}

/// A row of a table of metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MetricRow {
    /// The group of users or items; empty for all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) group: String,
    pub(crate) metric: String,
    pub(crate) method: String,
    /// Number of users with held-out records.
    pub(crate) n_users: usize,
    /// None if nothing is held out.
    pub(crate) estimate: Option<Estimate>,
}

/// Rows as a table for pages and terminals, whose first column is the metric, or in `by_group` the group: all groups
/// have the same metric.
fn metric_table(title: impl Into<String>, by_group: bool, rows: &[MetricRow]) -> Table {
    let first = if by_group { "group" } else { "metric" };
    let heads = [first, "method", "value", "95 % interval", "users"];
    let cells = rows.iter().map(|row| {
        let estimate = row.estimate.as_ref();
        let first = if by_group { &row.group } else { &row.metric };
        vec![
            first.clone(),
            row.method.clone(),
            estimate.map_or_else(|| "-".to_owned(), |of| shown(Some(of.value))),
            estimate.map_or_else(|| "-".to_owned(), Estimate::interval),
            row.n_users.to_string(),
        ]
    });
    Table::new(title, heads, cells).with_text([1])
}

/// Everything that was measured on held-out records. The first metric determines the verdict.
#[derive(Clone, Default)]
pub(crate) struct Quality {
    pub(crate) scored: Vec<Scored>,
    /// Rows that are not means over users, such as the coverage of lists.
    pub(crate) others: Vec<MetricRow>,
    /// Number of records that each user's personal model is fitted to.
    pub(crate) activity: Vec<usize>,
    /// The first metric on the held-out records of groups of items.
    pub(crate) by_items: Vec<(String, Scored)>,
}

/// The tables of [`Quality`], for internal files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct QualityTables {
    pub(crate) metrics: Vec<MetricRow>,
    /// Quarters of the users by number of records.
    pub(crate) by_activity: Vec<MetricRow>,
    /// Fifths of the items by number of users.
    pub(crate) by_popularity: Vec<MetricRow>,
}

impl QualityTables {
    /// The table over all users, for pages and terminals.
    pub(crate) fn overall(&self) -> Table {
        metric_table("With confidence intervals over users", false, &self.metrics)
    }

    /// Tables by groups of users and of items; none if nothing is held out.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Table> {
        let all = [
            ("By activity of users", &self.by_activity),
            (
                "By popularity of items (how many users have them)",
                &self.by_popularity,
            ),
        ];
        let some = all.into_iter().filter(|(_, rows)| !rows.is_empty());
        some.map(|(title, rows)| {
            // groups of items name the length of their lists
            let metric = rows.first().filter(|row| !row.group.contains('@'));
            let metric = metric.map_or_else(String::new, |row| format!(": {}", row.metric));
            metric_table(format!("{title}{metric}"), true, rows)
        })
    }
}

impl Quality {
    /// Quality on labelled rows, by method, the model first. A baseline that lacks any user is left
    /// out.
    pub(crate) fn of_rows(
        metrics: &[Metric],
        methods: &[String],
        users: &[TestedUser<'_>],
    ) -> Self {
        let is_whole = |at: usize| {
            let mut tested = users.iter().filter(|user| user.n_test > 0);
            at == 0 || tested.all(|user| user.error(at).is_some())
        };
        let kept: Vec<usize> = (0..methods.len()).filter(|&at| is_whole(at)).collect();
        let scored = |metric| {
            let of = |&at: &usize| {
                let values = users.iter().map(|user| user.value(metric, at));
                (methods[at].clone(), values.collect())
            };
            Scored {
                metric,
                methods: kept.iter().map(of).collect(),
            }
        };
        Self {
            scored: metrics.iter().copied().map(scored).collect(),
            activity: users.iter().map(|user| user.n_history).collect(),
            ..Self::default()
        }
    }

    /// Ends of the 95 % interval of the model's first metric.
    pub(crate) fn interval(&self) -> Option<[f64; 2]> {
        let estimate = self.scored.first()?.estimate(0)?;
        Some([estimate.lower?, estimate.upper?])
    }

    pub(crate) fn tables(&self) -> QualityTables {
        let first = self.scored.first();
        let baseline = first.and_then(Scored::best_baseline);
        let metrics = self.scored.iter().enumerate();
        let metrics =
            metrics.flat_map(|(at, scored)| scored.rows("", baseline.filter(|_| at == 0)));
        let of_groups = |scored: &Scored| -> Vec<MetricRow> {
            let groups = self.groups(scored).into_iter();
            let rows = groups.flat_map(|(name, users)| scored.among(&users).rows(&name, baseline));
            rows.collect()
        };
        let items = self.by_items.iter();
        QualityTables {
            metrics: metrics.chain(self.others.iter().cloned()).collect(),
            by_activity: first.map(of_groups).unwrap_or_default(),
            by_popularity: items
                .flat_map(|(name, scored)| scored.rows(name, baseline))
                .collect(),
        }
    }

    /// Users with held-out records, divided into groups of equal size by activity; the indices of
    /// each group are in increasing order.
    fn groups(&self, scored: &Scored) -> Vec<(String, Vec<usize>)> {
        let Some((_, values)) = scored.methods.first() else {
            return Vec::new();
        };
        let activity = |&user: &usize| self.activity.get(user).copied().unwrap_or(0);
        let users = (0..values.len()).filter(|&user| values[user].weight > 0.0);
        let mut users: Vec<usize> = users.collect();
        users.sort_by_key(activity);
        let n = users.len();
        let group = |at: usize| {
            let users = &users[at * n / N_GROUPS..(at + 1) * n / N_GROUPS];
            let (first, last) = (users.first()?, users.last()?);
            let name = format!("{} to {} records", activity(first), activity(last));
            let mut users = users.to_vec();
            users.sort_unstable();
            Some((name, users))
        };
        (0..N_GROUPS).filter_map(group).collect()
    }

    /// Name and first metric of the best baseline.
    pub(crate) fn best_baseline(&self) -> Option<(String, f64)> {
        let (scored, at, value) = self.baseline()?;
        Some((scored.methods[at].0.clone(), value))
    }

    /// The first metric, the index of the best baseline, and its value.
    fn baseline(&self) -> Option<(&Scored, usize, f64)> {
        let scored = self.scored.first()?;
        let at = scored.best_baseline()?;
        Some((scored, at, scored.estimate(at)?.value))
    }

    /// The verdict by the first metric; none without a baseline, or if fewer than two users have
    /// held-out records.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let (scored, at, baseline) = self.baseline()?;
        let (value, ..) = linearised(scored.metric, &scored.methods.first()?.1)?;
        let gain = match scored.gain_over(at) {
            Some(gain) => (gain.value, gain.lower?, gain.upper?),
            // the model's metric is not a number
            None => (f64::NEG_INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY),
        };
        let against = (scored.methods[at].0.as_str(), baseline);
        let mut verdict = Verdict::new(scored.metric, value, against, gain);
        // if a model diverges for a few users, its interval is too wide to exclude anything
        if !scored.metric.larger_is_better() && value > 2.0 * baseline {
            verdict.outcome = Outcome::Worse;
        }
        Some(verdict)
    }
}

/// Result of comparing a model with the best baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The interval of the gain is above 0.
    Better,
    /// The interval contains 0.
    Undecided,
    /// The interval is below 0, the model's metric is not finite, or its error is more than twice
    /// that of the baseline.
    Worse,
}

/// Whether a model is better than the best baseline of a run, on held-out data.
///
/// The baseline is the one with the best metric. The 95 % interval of the gain is over users, from
/// paired differences.
///
/// # Privacy
/// Computed from private data and not covered by any guarantee unless
/// [`is_released`](Self::is_released).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The result.
    pub outcome: Outcome,
    /// The metric used.
    pub metric: String,
    /// The model's metric; none if it is not finite.
    pub model: Option<f64>,
    /// The best baseline.
    pub baseline: String,
    /// The baseline's metric.
    pub baseline_value: f64,
    /// How much better the model is; below 0 if it is worse, and none if its metric is not finite.
    pub gain: Option<f64>,
    /// The ends of the interval of the gain.
    pub interval: Option<[f64; 2]>,
    /// Whether the verdict follows from metrics that the run paid for and released.
    pub is_released: bool,
}

impl Verdict {
    pub(crate) fn new(
        metric: Metric,
        model: f64,
        (baseline, baseline_value): (&str, f64),
        (gain, lower, upper): (f64, f64, f64),
    ) -> Self {
        let outcome = if upper < 0.0 || !model.is_finite() {
            Outcome::Worse
        } else if lower > 0.0 {
            Outcome::Better
        } else {
            Outcome::Undecided
        };
        let finite = |value: f64| Some(value).filter(|value| value.is_finite());
        Self {
            outcome,
            metric: metric.name().to_owned(),
            model: finite(model),
            baseline: baseline.to_owned(),
            baseline_value,
            gain: finite(gain),
            interval: finite(lower).zip(finite(upper)).map(|(a, b)| [a, b]),
            is_released: false,
        }
    }

    /// Whether the baseline is better.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        self.outcome == Outcome::Worse
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (baseline, metric) = (&self.baseline, &self.metric);
        match self.outcome {
            Outcome::Better => write!(f, "better than {baseline}")?,
            Outcome::Undecided => write!(f, "not shown to be better or worse than {baseline}")?,
            Outcome::Worse => write!(f, "do not ship this: {baseline} is better")?,
        }
        let size = self.baseline_value;
        let model = self
            .model
            .map_or_else(|| "not finite".to_owned(), |m| figure(m, size));
        write!(f, " ({metric} {model} against {}", figure(size, size))?;
        if let (Some(gain), Some([lower, upper])) = (self.gain, self.interval) {
            write!(
                f,
                "; gain {gain:+.n$}, 95 % interval {lower:+.n$} to {upper:+.n$}",
                n = decimals(size)
            )?;
        }
        write!(f, ")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(of: &[(f64, f64)]) -> Vec<UserValue> {
        let user = |&(total, weight): &(f64, f64)| UserValue { total, weight };
        of.iter().map(user).collect()
    }

    fn scored(metric: Metric, methods: &[&[(f64, f64)]]) -> Scored {
        let methods = methods.iter().enumerate();
        let methods = methods.map(|(at, of)| (format!("method {at}"), users(of)));
        Scored {
            metric,
            methods: methods.collect(),
        }
    }

    #[test]
    fn a_mean_over_users_of_one_record_has_the_usual_standard_error() {
        // 1, 2, 3, 6: mean 3, sample variance 14/3, standard error sqrt(14/3/4)
        let of = scored(
            Metric::Mae,
            &[&[(1.0, 1.0), (2.0, 1.0), (0.0, 0.0), (3.0, 1.0), (6.0, 1.0)]],
        );
        let found = of.estimate(0).unwrap();
        let error = QUANTILE * (14.0_f64 / 12.0).sqrt();
        assert!((found.value - 3.0).abs() < 1e-12);
        assert!((found.lower.unwrap() - (3.0 - error)).abs() < 1e-12);
        assert!((found.upper.unwrap() - (3.0 + error)).abs() < 1e-12);
        let alone = scored(Metric::Mae, &[&[(1.0, 2.0)]]).estimate(0).unwrap();
        assert_eq!((alone.value, alone.lower), (0.5, None));
        assert_eq!(scored(Metric::Mae, &[&[(0.0, 0.0)]]).estimate(0), None);
    }

    /// Compared with the delete-one jackknife, an independent way to compute the variance of a
    /// ratio.
    #[test]
    fn intervals_of_a_root_mean_square_and_of_its_differences_are_those_of_the_jackknife() {
        let mut state = 1_u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut of = [Vec::new(), Vec::new()];
        for _ in 0..400 {
            let n = 1.0 + (10.0 * uniform()).floor();
            let own = n * (0.5 + uniform());
            of[0].push((own, n));
            of[1].push((0.8 * own + 0.3 * n * uniform(), n));
        }
        let both = scored(Metric::Rmse, &[&of[0], &of[1]]);
        let rms = |of: &[(f64, f64)], without: usize| {
            let kept = of.iter().enumerate().filter(|(at, _)| *at != without);
            let sums = kept.fold((0.0, 0.0), |s, (_, u)| (s.0 + u.0, s.1 + u.1));
            (sums.0 / sums.1).sqrt()
        };
        let jackknife = |of: &dyn Fn(usize) -> f64| {
            let all: Vec<f64> = (0..400).map(of).collect();
            let mean = all.iter().sum::<f64>() / 400.0;
            let squares: f64 = all.iter().map(|x| (x - mean).powi(2)).sum();
            (squares * 399.0 / 400.0).sqrt()
        };
        for (found, error) in [
            (both.estimate(0), jackknife(&|u| rms(&of[0], u))),
            (
                both.gain_over(1),
                jackknife(&|u| rms(&of[1], u) - rms(&of[0], u)),
            ),
        ] {
            let found = found.unwrap();
            let own = (found.upper.unwrap() - found.value) / QUANTILE;
            assert!((own / error - 1.0).abs() < 0.01, "{own}, {error}");
        }
    }

    fn verdict(metric: Metric, methods: &[&[(f64, f64)]]) -> Verdict {
        let quality = Quality {
            scored: vec![scored(metric, methods)],
            ..Quality::default()
        };
        quality.verdict().unwrap()
    }

    #[test]
    fn the_verdict_is_against_the_best_baseline_and_by_paired_differences() {
        // users differ much more than the methods do: unpaired intervals would overlap
        let own: Vec<_> = (0..50).map(|u| (f64::from(u), 1.0)).collect();
        let plus = |more: f64| -> Vec<_> {
            let users = own.iter().enumerate();
            let users = users.map(|(u, (t, w))| (t + more + 0.01 * (u % 3) as f64, *w));
            users.collect()
        };
        let (bad, good) = (plus(9.0), plus(-0.5));
        let found = verdict(Metric::Mae, &[&own, &bad, &good]);
        assert_eq!(
            (found.outcome, found.baseline.as_str()),
            (Outcome::Worse, "method 2")
        );
        assert!(
            found
                .to_string()
                .starts_with("do not ship this: method 2 is better (MAE 24.5")
        );
        assert_eq!(
            verdict(Metric::Recall, &[&own, &bad, &good]).baseline,
            "method 1"
        );
        assert_eq!(
            verdict(Metric::Recall, &[&bad, &own, &good]).outcome,
            Outcome::Better
        );
        let noise: Vec<_> = (0..50).map(|u| (f64::from((u * 7) % 50), 1.0)).collect();
        assert_eq!(
            verdict(Metric::Mae, &[&own, &noise]).outcome,
            Outcome::Undecided
        );
    }

    #[test]
    fn a_model_that_ran_away_is_worse_even_where_one_user_alone_did() {
        let calm = [(1.0, 1.0), (1.1, 1.0), (0.9, 1.0)];
        for wild in [1e36, f64::INFINITY, f64::NAN] {
            let found = verdict(
                Metric::Rmse,
                &[&[(1.0, 1.0), (wild, 1.0), (0.9, 1.0)], &calm],
            );
            assert!(found.is_worse(), "{wild}: {found}");
            assert!(serde_json::to_string(&found).is_ok_and(|text| text.contains("worse")));
        }
    }

    fn tested(n_history: usize, n_test: usize, errors: &[Option<f64>]) -> TestedUser<'static> {
        TestedUser {
            n_history,
            n_test,
            errors: errors.to_vec(),
            scores: Vec::new(),
        }
    }

    #[test]
    fn errors_of_rows_count_by_their_number_and_a_baseline_that_lacks_somebody_is_left_out() {
        let methods = ["model", "own", "single"].map(str::to_owned);
        let users = [
            tested(9, 2, &[Some(1.0), Some(4.0), Some(0.1)]),
            tested(3, 6, &[Some(2.0), Some(4.0), None]),
            tested(5, 0, &[None, None, None]),
        ];
        let quality = Quality::of_rows(&[Metric::Rmse], &methods, &users);
        assert_eq!(quality.scored.len(), 1);
        let scored = &quality.scored[0];
        assert_eq!(scored.methods.len(), 2);
        assert!((scored.estimate(0).unwrap().value - 1.75_f64.sqrt()).abs() < 1e-12);
        assert_eq!(quality.activity, [9, 3, 5]);
        assert_eq!(quality.verdict().unwrap().baseline, "own");
        let lost = [
            tested(1, 1, &[None, Some(1.0)]),
            tested(1, 1, &[Some(1.0), Some(1.0)]),
        ];
        let quality = Quality::of_rows(&[Metric::Rmse], &methods[..2], &lost);
        assert!(quality.verdict().unwrap().is_worse());
    }

    #[test]
    fn classes_have_the_mean_auc_of_users_with_both_and_log_loss_and_recalls_of_all_rows() {
        let of = |rows: &[(f64, bool)]| {
            let mut scores = ClassScores::default();
            rows.iter()
                .for_each(|&(logit, yes)| scores.push(logit, yes));
            scores
        };
        // areas 1 and 0; the third user has rows of one class only, the fourth no rows
        let scores = [
            of(&[(2.0, true), (-1.0, false), (0.0, false)]),
            of(&[(-3.0, true), (1.0, false)]),
            of(&[(0.0, true)]),
            of(&[]),
        ];
        let wild = of(&[(f64::NAN, true), (0.0, false)]);
        let user = |(own, n_test): (_, usize)| TestedUser {
            n_history: 1,
            n_test,
            errors: vec![Some(0.5), Some(0.5)],
            scores: vec![Some(own), Some(if n_test == 2 { &wild } else { own })],
        };
        let users: Vec<_> = scores.iter().zip([3, 2, 1, 0]).map(user).collect();
        let methods = ["model", "own"].map(str::to_owned);
        let task = Task::Classification { threshold: 0.5 };
        let quality = Quality::of_rows(Metric::of_task(task), &methods, &users);
        let metrics: Vec<_> = quality.scored.iter().map(|of| of.metric).collect();
        let [yes, no] = [Metric::RecallOfYes, Metric::RecallOfNo];
        assert_eq!(
            metrics,
            [Metric::ErrorRate, Metric::Auc, Metric::LogLoss, yes, no]
        );
        // three rows of each class, over users who have one
        for (at, found, users) in [(3, 1.0, [1.0, 1.0, 1.0]), (4, 2.0, [2.0, 1.0, 0.0])] {
            let recall = quality.scored[at].estimate(0).unwrap();
            assert!((recall.value - found / 3.0).abs() < 1e-12);
            assert!(recall.lower < Some(recall.value) && recall.upper > Some(recall.value));
            let weights = quality.scored[at].methods[0].1.iter().map(|of| of.weight);
            assert!(weights.eq(users.into_iter().chain([0.0])));
        }
        let auc = quality.scored[1].estimate(0).unwrap();
        // half of the difference of two values is the standard error of their mean
        assert!((auc.value - 0.5).abs() < 1e-12);
        assert!((auc.upper.unwrap() - (0.5 + QUANTILE * 0.5)).abs() < 1e-12);
        let loss = |margin: f64| (-margin).exp().ln_1p();
        let sum = loss(2.0) + loss(1.0) + 2.0 * loss(0.0) + loss(-3.0) + loss(-1.0);
        let found = quality.scored[2].estimate(0).unwrap();
        assert!((found.value - sum / 6.0).abs() < 1e-12);
        // scores that are not numbers have no area, and are not dropped from the mean
        assert_eq!(quality.scored[1].estimate(1), None);
        let rows = quality.tables().metrics;
        assert!(rows.iter().any(|row| row.metric == "AUC, mean of users"));
    }

    #[test]
    fn users_are_grouped_by_activity_and_every_one_of_them_once() {
        let of: Vec<_> = (0..10)
            .map(|u| (f64::from(u), f64::from(u32::from(u != 4))))
            .collect();
        let quality = Quality {
            scored: vec![scored(Metric::Mae, &[&of, &of])],
            activity: (0..10).map(|u| (u * 3) % 10).collect(),
            ..Quality::default()
        };
        let rows = quality.tables().by_activity;
        let model: Vec<_> = rows.iter().filter(|row| row.method == "method 0").collect();
        let sizes: Vec<usize> = model.iter().map(|row| row.n_users).collect();
        assert_eq!(sizes, [2, 2, 2, 3]);
        assert_eq!(
            (&*model[0].group, &*model[3].group),
            ("0 to 1 records", "7 to 9 records")
        );
        // users 0 and 7 have the fewest records
        assert!((model[0].estimate.unwrap().value - 3.5).abs() < 1e-12);
        assert_eq!(rows.len(), 4 * 3);
    }
}
