//! Accuracy on held-out ratings. Computed from private data: internal, never released.

use dp_core::{Interactions, Private};
use dp_data::{HeldOutUsers, PopularityBuckets, RankingSums, RatingSplit, UserRanking, UserSplit};
use dp_multitask::{
    FactorModel, Fitted, LocalBias, NoisyCounts, ScoreModel, Scoring, constant_predictions,
    user_mean_predictions,
};
use dp_page::figure;
use serde::Serialize;

use crate::error::Result;
use crate::output::{ByRound, ChartData, Headline};
use crate::quality::{Estimate, Metric, MetricRow, QUANTILE, Quality, Scored, UserValue};
use crate::ranking::{K, N_BUCKETS, RankingFigures, bucket_name};
use crate::workflows::evaluate::{Buckets, MODEL};
use crate::workflows::input::HeldOut;

/// Shrinkage of the user-mean baseline, in ratings.
pub(crate) const USER_MEAN_SHRINKAGE: f64 = 5.0;

/// Root mean squared errors; `None` if the held-out part is empty.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Metrics {
    pub(crate) valid_rmse: Option<f64>,
    pub(crate) test_rmse: Option<f64>,
    /// Predicting the mean of the training ratings.
    pub(crate) constant_rmse: Option<f64>,
    /// Predicting each user's own shrunken mean.
    pub(crate) user_mean_rmse: Option<f64>,
}

/// Baselines that a model is compared with on held-out records.
pub(crate) enum Baseline<'a> {
    /// Each user's own mean, shrunk to this centre.
    UserMean(f64),
    /// The same number for every user.
    Constant(f64),
    /// Another model, fitted to the same users.
    Model(&'static str, &'a FactorModel),
    /// The items with the largest counts.
    Popularity(&'static str, &'a NoisyCounts),
}

/// Needs neither a server nor a budget.
pub(crate) const USER_MEAN: &str = "user mean (free, local)";
/// Uses the counts that a run released anyway.
pub(crate) const POPULARITY: &str = "popularity (released counts)";

/// Pairs of prediction and truth, in the order of the held-out table.
pub(crate) type Pairs = Vec<(f64, f64)>;
/// Lists of items, best first, one for each user.
pub(crate) type Lists = Private<Vec<Vec<u32>>>;

/// Predictions by method, the model first; only for methods that predict ratings.
fn predictions<'b>(
    model: &FactorModel,
    split: &RatingSplit,
    baselines: impl IntoIterator<Item = &'b Baseline<'b>>,
) -> Result<Vec<(String, Pairs)>> {
    let (train, test) = (split.train.expose(), split.test.expose());
    let of_model = |model: &FactorModel| -> Result<Pairs> {
        let pairs = model.predict_held_out(&split.train, &split.test)?;
        Ok(pairs.into_exposed())
    };
    let mut all = vec![(MODEL.to_owned(), of_model(model)?)];
    for baseline in baselines {
        let (name, pairs) = match *baseline {
            Baseline::UserMean(center) => {
                let shrinkage = USER_MEAN_SHRINKAGE;
                let bias = LocalBias { center, shrinkage };
                (
                    USER_MEAN,
                    user_mean_predictions(train, test, bias).collect(),
                )
            }
            Baseline::Constant(value) => ("constant", constant_predictions(test, value).collect()),
            Baseline::Model(name, model) => (name, of_model(model)?),
            Baseline::Popularity(..) => continue,
        };
        all.push((name.to_owned(), pairs));
    }
    Ok(all)
}

/// Lists by method, the model first; only for methods that make lists.
fn lists<'b>(
    model: &FactorModel,
    users: &HeldOutUsers,
    baselines: impl IntoIterator<Item = &'b Baseline<'b>>,
    depth: usize,
) -> Result<Vec<(String, Lists)>> {
    let (own, targets) = (&users.history, &users.targets);
    let mut all = vec![(
        MODEL.to_owned(),
        model.recommend_held_out(own, targets, depth)?,
    )];
    for baseline in baselines {
        if let Baseline::Popularity(name, counts) = *baseline {
            let lists = counts.most_popular_held_out(own, targets, depth)?;
            all.push((name.to_owned(), lists));
        }
    }
    Ok(all)
}

/// Users' sums of a loss over held-out records, or only over those of some items.
fn losses(
    metric: Metric,
    test: &Interactions,
    methods: &[(String, Pairs)],
    loss: impl Fn(f64, f64) -> f64,
    is_in: impl Fn(u32) -> bool,
) -> Scored {
    let of_method = |(name, pairs): &(String, Pairs)| {
        if pairs.is_empty() {
            return (name.clone(), Vec::new()); // no user has held-out records
        }
        let mut pairs = pairs.iter();
        let users = test.users().map(|row| {
            let mut sum = UserValue::default();
            // zip takes no more pairs than the row has
            for (&item, &(predicted, truth)) in row.items().iter().zip(&mut pairs) {
                if is_in(item) {
                    sum.total += loss(predicted, truth);
                    sum.weight += 1.0;
                }
            }
            sum
        });
        (name.clone(), users.collect())
    };
    Scored {
        metric,
        methods: methods.iter().map(of_method).collect(),
    }
}

fn squared(predicted: f64, truth: f64) -> f64 {
    (predicted - truth) * (predicted - truth)
}

fn absolute(predicted: f64, truth: f64) -> f64 {
    (predicted - truth).abs()
}

/// Users' metrics of their lists.
fn list_metrics(
    metric: Metric,
    targets: &Interactions,
    methods: &[(String, Lists)],
    sums: &RankingSums<'_>,
    value: impl Fn(&UserRanking) -> Option<f64>,
) -> Scored {
    let of_method = |(name, lists): &(String, Lists)| {
        let rows = lists.expose().iter().zip(targets.users());
        let users = rows.map(|(list, row)| {
            let found = sums.of_user(list, row.items());
            let total = found.as_ref().and_then(&value);
            total.map_or_else(UserValue::default, |total| UserValue { total, weight: 1.0 })
        });
        (name.clone(), users.collect())
    };
    Scored {
        metric,
        methods: methods.iter().map(of_method).collect(),
    }
}

/// Users' metrics of the model and of baselines on the test part: mean squared and absolute errors, or recall and NDCG.
pub(crate) fn scored(
    model: &FactorModel,
    held_out: &HeldOut,
    baselines: &[Baseline<'_>],
) -> Result<Vec<Scored>> {
    Ok(match held_out {
        HeldOut::Ratings(split) => {
            let (all, test) = (predictions(model, split, baselines)?, split.test.expose());
            vec![
                losses(Metric::Mse, test, &all, squared, |_| true),
                losses(Metric::Mae, test, &all, absolute, |_| true),
            ]
        }
        HeldOut::Users(split) => {
            let all = lists(model, &split.test, baselines, K)?;
            let (sums, targets) = (RankingSums::new(K, None)?, split.test.targets.expose());
            of_all_lists(targets, &all, &sums).into()
        }
    })
}

/// Recall and NDCG of lists.
fn of_all_lists(
    targets: &Interactions,
    methods: &[(String, Lists)],
    sums: &RankingSums<'_>,
) -> [Scored; 2] {
    [
        list_metrics(Metric::Recall, targets, methods, sums, |of| Some(of.recall)),
        list_metrics(Metric::Ndcg, targets, methods, sums, |of| Some(of.ndcg)),
    ]
}

impl Quality {
    /// Quality of predicted ratings, by method, the model first; users are folded in from
    /// `history`, whose rows match those of `test`.
    pub(crate) fn of_ratings(
        history: &Interactions,
        test: &Interactions,
        methods: &[(String, Pairs)],
        buckets: &PopularityBuckets,
    ) -> Self {
        let by_items = (0..N_BUCKETS).map(|bucket| {
            let is_in = |item: u32| buckets.of(item as usize) == Some(bucket);
            let of = losses(Metric::Rmse, test, methods, squared, is_in);
            (bucket_name(bucket).to_owned(), of)
        });
        Self {
            by_items: by_items.collect(),
            activity: history.users().map(|row| row.len()).collect(),
            others: Vec::new(),
            scored: vec![
                losses(Metric::Rmse, test, methods, squared, |_| true),
                losses(Metric::Mae, test, methods, absolute, |_| true),
            ],
        }
    }

    /// Quality of lists with the lengths that [`RankingSums::depth`] requires for these buckets, by
    /// method, the model first.
    pub(crate) fn of_lists(
        history: &Interactions,
        targets: &Interactions,
        methods: &[(String, Lists)],
        buckets: &PopularityBuckets,
    ) -> Result<Self> {
        let sums = RankingSums::new(K, Some(buckets))?;
        let of_bucket = |bucket: usize| {
            let value = |of: &UserRanking| of.by_bucket.get(bucket).copied().flatten();
            let of = list_metrics(Metric::Recall, targets, methods, &sums, value);
            let (name, k) = (bucket_name(bucket), K * (N_BUCKETS - bucket));
            (format!("{name}, Recall@{k}"), of)
        };
        let n_items = targets.n_items();
        let coverage = methods
            .iter()
            .map(|(name, lists)| coverage(name, lists, n_items));
        Ok(Self {
            scored: of_all_lists(targets, methods, &sums).into(),
            others: coverage.collect(),
            activity: history.users().map(|row| row.len()).collect(),
            by_items: (0..N_BUCKETS).map(of_bucket).collect(),
        })
    }
}

/// The accuracy of a run, by the kind of records.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum Figures {
    Ratings(Metrics),
    Ranking(Box<RankingFigures>),
}

/// Everything that a run measured on held-out data.
pub(crate) struct Evaluation {
    pub(crate) figures: Figures,
    pub(crate) quality: Quality,
}

impl Evaluation {
    /// Compares the model with `others`, which are available to users without it.
    pub(crate) fn measure(
        fitted: &Fitted<FactorModel>,
        held_out: &HeldOut,
        others: &[Baseline<'_>],
    ) -> Result<Self> {
        match held_out {
            HeldOut::Ratings(split) => Self::of_ratings(&fitted.model, split, others),
            HeldOut::Users(split) => Self::of_lists(&fitted.model, split, others),
        }
    }

    pub(crate) fn of_ratings(
        model: &FactorModel,
        split: &RatingSplit,
        others: &[Baseline<'_>],
    ) -> Result<Self> {
        let (train, test) = (split.train.expose(), split.test.expose());
        let center = mean(train);
        let own = [Baseline::UserMean(center), Baseline::Constant(center)];
        let all = predictions(model, split, own.iter().chain(others))?;
        let buckets = Buckets::of(train)?.dealt;
        let quality = Quality::of_ratings(train, test, &all, &buckets);
        let rmse = &quality.scored[0];
        let value = |at: usize| rmse.estimate(at).map(|of| of.value);
        let metrics = Metrics {
            valid_rmse: model_rmse(model, &split.train, &split.valid)?,
            test_rmse: value(0),
            user_mean_rmse: value(1),
            constant_rmse: value(2),
        };
        Ok(Self {
            figures: Figures::Ratings(metrics),
            quality,
        })
    }

    fn of_lists(model: &FactorModel, split: &UserSplit, others: &[Baseline<'_>]) -> Result<Self> {
        let (test, counts) = (&split.test, model.counts());
        let buckets = Buckets::of(split.train.expose())?.dealt;
        let depth = RankingSums::new(K, Some(&buckets))?.depth();
        // a model of the counts alone is not a baseline for itself
        let is_popularity = model.ranks_by_counts();
        let counts = counts.filter(|_| !is_popularity);
        let released = counts.map(|counts| Baseline::Popularity(POPULARITY, counts));
        let others = others.iter().chain(&released);
        let all = lists(model, test, others, depth)?;
        let (history, targets) = (test.history.expose(), test.targets.expose());
        let quality = Quality::of_lists(history, targets, &all, &buckets)?;
        let popular = all.iter().find(|(name, _)| name == POPULARITY);
        let popular = popular.or(is_popularity.then_some(&all[0]));
        let popular = popular.map(|(_, lists)| lists);
        let figures = RankingFigures::measure(model, split, &all[0].1, popular)?;
        Ok(Self {
            figures: Figures::Ranking(Box::new(figures)),
            quality,
        })
    }

    /// The headline metric after every round, on the validation part; `rounds` holds the factors
    /// after each round and their dimension, which changes when taste factors are dropped or found.
    pub(crate) fn by_round(
        fitted: &Fitted<FactorModel>,
        rounds: Vec<(Vec<f64>, usize)>,
        held_out: &HeldOut,
    ) -> Result<Option<ByRound>> {
        let mut values = Vec::with_capacity(rounds.len());
        let last = &fitted.model;
        for (factors, dim) in rounds {
            let mut scoring = Scoring {
                dim,
                ..*last.scoring()
            };
            if dim > last.dim() && scoring.unobserved_weight.is_some() {
                scoring.score_model = ScoreModel::Plain; // the last round left popularity alone
            }
            // only the last round's model has standard errors of its factors
            let is_last = dim == last.dim() && factors == last.item_factors();
            let model = match is_last {
                true => last.clone(),
                false if last.typical_user().is_some() => {
                    FactorModel::new(scoring, factors, last.provenance())?
                        .with_counts(last.counts().cloned())
                }
                false => FactorModel::new(scoring, factors, last.provenance())?,
            };
            values.push(match held_out {
                HeldOut::Ratings(split) => model_rmse(&model, &split.train, &split.valid)?,
                HeldOut::Users(split) => RankingFigures::recall(&model, &split.valid)?,
            });
        }
        let metric = match held_out {
            HeldOut::Ratings(_) => "RMSE validation",
            HeldOut::Users(_) => "Recall@20 validation users",
        };
        let is_measured = values.iter().any(Option::is_some);
        let rounds = (1..=values.len()).collect();
        Ok(is_measured.then(|| ByRound::one_line(metric, rounds, values)))
    }

    /// Recall against list length; none for ratings.
    pub(crate) fn recall_curve(&self) -> Option<ByRound> {
        match &self.figures {
            Figures::Ratings(_) => None,
            Figures::Ranking(figures) => figures.curve(),
        }
    }

    /// The metric by which runs are compared.
    pub(crate) fn headline(&self) -> Option<Headline> {
        let (metric, value) = match &self.figures {
            Figures::Ratings(metrics) => ("RMSE test", metrics.test_rmse),
            Figures::Ranking(figures) => ("Recall@20 test users", figures.test_recall_at_20),
        };
        value.map(|value| Headline {
            metric: metric.to_owned(),
            value,
            interval: self.quality.interval(),
            non_private: None,
        })
    }

    /// Metrics as names and numbers.
    pub(crate) fn figures(&self) -> Vec<(String, Option<f64>)> {
        match &self.figures {
            Figures::Ratings(metrics) => metrics.figures(),
            Figures::Ranking(figures) => figures.figures(),
        }
    }

    /// Charts of the metrics.
    pub(crate) fn charts(&self) -> Vec<ChartData> {
        match &self.figures {
            Figures::Ratings(_) => Vec::new(),
            Figures::Ranking(figures) => figures.by_popularity().into_iter().collect(),
        }
    }

    /// Metrics as names and texts, for a report.
    pub(crate) fn rows(&self) -> Vec<(String, String)> {
        match &self.figures {
            Figures::Ratings(metrics) => metrics.rows(),
            Figures::Ranking(figures) => figures.rows(),
        }
    }
}

/// Share of the items that are in some user's list of 20. Its interval is that of the delete-one
/// jackknife over users.
fn coverage(name: &str, lists: &Lists, n_items: usize) -> MetricRow {
    let lists = lists.expose().iter().filter(|list| !list.is_empty());
    let tops: Vec<&[u32]> = lists.map(|list| &list[..K.min(list.len())]).collect();
    let mut holders = vec![0_usize; n_items];
    tops.iter()
        .flat_map(|top| *top)
        .for_each(|&item| holders[item as usize] += 1);
    let share = |n: usize| n as f64 / n_items.max(1) as f64;
    // items that occur in one list only are lost when that user is left out
    let alone = |top: &&[u32]| {
        share(
            top.iter()
                .filter(|&&item| holders[item as usize] == 1)
                .count(),
        )
    };
    let alone: Vec<f64> = tops.iter().map(alone).collect();
    let n = tops.len();
    let middle = alone.iter().sum::<f64>() / n.max(1) as f64;
    let squares: f64 = alone.iter().map(|x| (x - middle).powi(2)).sum();
    let error = QUANTILE * (squares * n.saturating_sub(1) as f64 / n.max(1) as f64).sqrt();
    let value = share(holders.iter().filter(|&&n| n > 0).count());
    MetricRow {
        group: String::new(),
        metric: "coverage of items".to_owned(),
        method: name.to_owned(),
        n_users: n,
        estimate: (n > 1).then_some(Estimate {
            value,
            lower: Some(value - error),
            upper: Some(value + error),
        }),
    }
}

/// A metric with four decimal places, or more if it is small.
pub(crate) fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "- (nothing held out)".to_owned(), |v| figure(v, v))
}

impl Metrics {
    fn rows(&self) -> Vec<(String, String)> {
        let figures = self.figures().into_iter();
        figures.map(|(name, value)| (name, shown(value))).collect()
    }

    fn figures(&self) -> Vec<(String, Option<f64>)> {
        [
            ("RMSE test", self.test_rmse),
            ("RMSE validation", self.valid_rmse),
            ("RMSE test, user mean (free, local)", self.user_mean_rmse),
            ("RMSE test, constant", self.constant_rmse),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

/// Error of personal models, folded in from `train`, on `held_out`.
pub(crate) fn model_rmse(
    model: &FactorModel,
    train: &Private<Interactions>,
    held_out: &Private<Interactions>,
) -> Result<Option<f64>> {
    let pairs = model.predict_held_out(train, held_out)?;
    Ok(rmse(pairs.into_exposed().into_iter()))
}

/// Without held-out ratings there is no error: that there are none is itself private.
fn rmse(pairs: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    dp_data::rmse(pairs).ok()
}

/// The mean of all values; 0 if there are none.
pub(crate) fn mean(table: &Interactions) -> f64 {
    let total: f64 = table
        .users()
        .flat_map(|row| row.values().iter().map(|&y| f64::from(y)))
        .sum();
    total / (table.n_records().max(1) as f64)
}
