//! Quality of recommendation lists for held-out users. Computed from private data: internal.

use dp_core::Private;
use dp_data::{HeldOutUsers, PopularityBuckets, RankingMetrics, RankingSums, UserSplit};
use dp_multitask::FactorModel;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::evaluate::shown;
use crate::output::{ByRound, ChartData, RoundLine};

/// Length of the lists.
pub(crate) const K: usize = 20;
/// List lengths at which recall is measured, up to the length of the available lists.
const LENGTHS: [usize; 7] = [1, 2, 5, 10, 20, 50, 100];
/// Popularity buckets of the sliced recall.
pub(crate) const N_BUCKETS: usize = 5;

/// Recall and NDCG of held-out users, with their history masked; `None` if no users are held out,
/// or for metrics that need released counts if the run has none.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct RankingFigures {
    pub(crate) test_recall_at_20: Option<f64>,
    /// Over test users.
    pub(crate) test_recall_standard_error: Option<f64>,
    pub(crate) test_ndcg_at_20: Option<f64>,
    pub(crate) valid_recall_at_20: Option<f64>,
    pub(crate) valid_ndcg_at_20: Option<f64>,
    /// Recommending the items with the largest released counts.
    pub(crate) popularity_recall_at_20: Option<f64>,
    pub(crate) popularity_ndcg_at_20: Option<f64>,
    /// Test recall of lists of several lengths, and the recall of recommending the items with the
    /// largest released counts.
    pub(crate) test_recall_by_length: Vec<RecallAt>,
    /// Test recall within buckets of items by released counts, rarest first, at 100, 80, 60, 40 and
    /// 20.
    pub(crate) test_recall_by_bucket: Vec<Option<f64>>,
    /// The same for the items with the largest released counts.
    pub(crate) popularity_recall_by_bucket: Vec<Option<f64>>,
}

/// Recall of lists of one length.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct RecallAt {
    pub(crate) k: usize,
    pub(crate) model: f64,
    pub(crate) popularity: Option<f64>,
}

/// Recall of these lists at several lengths up to their own.
fn by_length(
    lists: &Private<Vec<Vec<u32>>>,
    popular: Option<&Private<Vec<Vec<u32>>>>,
    users: &HeldOutUsers,
) -> Result<Vec<RecallAt>> {
    let recall = |lists: &Private<Vec<Vec<u32>>>, k: usize| -> Result<Option<f64>> {
        let mut sums = RankingSums::new(k, None)?;
        sums.add_all(lists, &users.targets)?;
        Ok(sums.finish().ok().map(|metrics| metrics.recall))
    };
    let longest = lists.expose().iter().map(Vec::len).max().unwrap_or(0);
    let mut all = Vec::new();
    for k in LENGTHS.into_iter().filter(|k| *k <= longest) {
        let popularity = popular.map(|popular| recall(popular, k)).transpose()?;
        if let Some(model) = recall(lists, k)? {
            let popularity = popularity.flatten();
            all.push(RecallAt {
                k,
                model,
                popularity,
            });
        }
    }
    Ok(all)
}

impl RankingFigures {
    /// From test users' lists by the model, and by released counts if there are any.
    pub(crate) fn measure(
        model: &FactorModel,
        split: &UserSplit,
        test: &Private<Vec<Vec<u32>>>,
        popular: Option<&Private<Vec<Vec<u32>>>>,
    ) -> Result<Self> {
        let buckets = match model.counts() {
            Some(counts) => Some(PopularityBuckets::new(counts.values(), N_BUCKETS)?),
            None => None,
        };
        let found = |lists: &Private<Vec<Vec<u32>>>, users: &HeldOutUsers| {
            let mut sums = RankingSums::new(K, buckets.as_ref())?;
            sums.add_all(lists, &users.targets)?;
            Ok::<_, Error>(sums.finish().ok()) // having no held-out users is not an error
        };
        let valid = &split.valid;
        let of_valid = model.recommend_held_out(&valid.history, &valid.targets, K)?;
        let by_length = by_length(test, popular, &split.test)?;
        let (test, valid) = (found(test, &split.test)?, found(&of_valid, valid)?);
        let popular = match popular {
            Some(lists) => found(lists, &split.test)?,
            None => None,
        };
        let (test, valid, popular) = (test.as_ref(), valid.as_ref(), popular.as_ref());
        Ok(Self {
            test_recall_at_20: test.map(|m| m.recall),
            test_recall_standard_error: test.map(|m| m.recall_standard_error),
            test_ndcg_at_20: test.map(|m| m.ndcg),
            valid_recall_at_20: valid.map(|m| m.recall),
            valid_ndcg_at_20: valid.map(|m| m.ndcg),
            popularity_recall_at_20: popular.map(|m| m.recall),
            popularity_ndcg_at_20: popular.map(|m| m.ndcg),
            test_recall_by_length: by_length,
            test_recall_by_bucket: by_bucket(test),
            popularity_recall_by_bucket: by_bucket(popular),
        })
    }

    /// Recall of a model; none if no users are held out.
    pub(crate) fn recall(model: &FactorModel, users: &HeldOutUsers) -> Result<Option<f64>> {
        let mut sums = RankingSums::new(K, None)?;
        let lists = model.recommend_held_out(&users.history, &users.targets, sums.depth())?;
        sums.add_all(&lists, &users.targets)?;
        Ok(sums.finish().ok().map(|metrics| metrics.recall))
    }

    /// Metrics as names and numbers.
    pub(crate) fn figures(&self) -> Vec<(String, Option<f64>)> {
        [
            ("Recall@20 test users", self.test_recall_at_20),
            (
                "  standard error over users",
                self.test_recall_standard_error,
            ),
            ("NDCG@20 test users", self.test_ndcg_at_20),
            ("Recall@20 validation users", self.valid_recall_at_20),
            ("NDCG@20 validation users", self.valid_ndcg_at_20),
            ("Recall@20 test, popularity", self.popularity_recall_at_20),
            ("NDCG@20 test, popularity", self.popularity_ndcg_at_20),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Recall by the popularity of items, if the run released counts.
    pub(crate) fn by_popularity(&self) -> Option<ChartData> {
        if self.test_recall_by_bucket.is_empty() {
            return None;
        }
        let popular = &self.popularity_recall_by_bucket;
        let rows = self.test_recall_by_bucket.iter().enumerate();
        let rows = rows.map(|(bucket, &model)| {
            let k = K * (N_BUCKETS - bucket);
            let name = format!("{}, Recall@{k}", bucket_name(bucket));
            (name, vec![model, popular.get(bucket).copied().flatten()])
        });
        Some(ChartData {
            title: "Recall by popularity of items".to_owned(),
            note: "items grouped into fifths by their released counts, so groups differ from those by how many users have them; lists are longer for rarer items"
                .to_owned(),
            series: ["private model", "most popular items"]
                .map(str::to_owned)
                .into(),
            rows: rows.collect(),
            standard_errors: Vec::new(),
        })
    }

    /// Recall against list length; none if nobody is held out.
    pub(crate) fn curve(&self) -> Option<ByRound> {
        let all = &self.test_recall_by_length;
        all.first()?;
        let popular = RoundLine {
            name: "most popular items".to_owned(),
            values: all.iter().map(|at| at.popularity).collect(),
        };
        Some(ByRound {
            others: vec![popular],
            ..ByRound::one_line(
                "Recall@k of test users",
                all.iter().map(|at| at.k).collect(),
                all.iter().map(|at| Some(at.model)).collect(),
            )
        })
    }

    /// Metrics as names and texts, for a report.
    pub(crate) fn rows(&self) -> Vec<(String, String)> {
        let figures = self.figures().into_iter();
        let mut rows: Vec<_> = figures.map(|(name, value)| (name, shown(value))).collect();
        let both = self
            .test_recall_by_bucket
            .iter()
            .zip(&self.popularity_recall_by_bucket);
        for (bucket, (model, popular)) in both.enumerate() {
            let k = K * (N_BUCKETS - bucket);
            let name = format!("Recall@{k} fifth {} of items, popularity", bucket + 1);
            rows.push((name, format!("{}, {}", shown(*model), shown(*popular))));
        }
        rows
    }
}

/// Name of a fifth of the items, by popularity.
pub(crate) const fn bucket_name(bucket: usize) -> &'static str {
    match bucket {
        0 => "rarest fifth",
        1 => "second fifth",
        2 => "third fifth",
        3 => "fourth fifth",
        _ => "most popular fifth",
    }
}

fn by_bucket(metrics: Option<&RankingMetrics>) -> Vec<Option<f64>> {
    let buckets = metrics.map(|metrics| metrics.by_bucket.iter().map(|bucket| bucket.recall));
    buckets.into_iter().flatten().collect()
}
