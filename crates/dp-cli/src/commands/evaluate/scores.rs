//! Figures of a model and of what it is measured against, over all and by the popularity of items.

use std::collections::BTreeMap;

use dp_core::{Interactions, Private};
use dp_data::{HeldOutUsers, PopularityBuckets, RankingMetrics, RankingSums};
use dp_multitask::{
    FactorModel, LocalBias, NonPrivateAls, constant_predictions, user_mean_predictions,
};
use serde::{Deserialize, Serialize};

use super::parts::Parts;
use crate::error::Result;
use crate::evaluate::{USER_MEAN_SHRINKAGE, mean};
use crate::ranking::{K, N_BUCKETS};

/// One method: a number, or none where nothing is held out, under the name of each metric.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Score {
    pub(crate) method: String,
    #[serde(flatten)]
    pub(crate) figures: BTreeMap<String, Option<f64>>,
}

/// A fifth of the items, by how many users have rated them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PopularityBucket {
    /// From 1, the rarest.
    pub(crate) bucket: usize,
    pub(crate) n_items: usize,
    /// Held-out records on them.
    pub(crate) n_targets: usize,
    /// Length of the lists that recall looks at; none of predicted ratings.
    pub(crate) k: Option<usize>,
    pub(crate) scores: Vec<Score>,
}

/// How well a model serves users: private.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Scores {
    /// `explicit` or `implicit`.
    pub(crate) feedback: String,
    /// Names of the figures over all targets.
    pub(crate) metrics: Vec<String>,
    /// The model first.
    pub(crate) overall: Vec<Score>,
    pub(crate) by_popularity: Vec<PopularityBucket>,
}

/// The name of the model itself.
pub(crate) const MODEL: &str = "model";
/// The same kind of model without privacy.
pub(crate) const NON_PRIVATE: &str = "non-private";

/// Errors of predicted ratings.
pub(super) fn of_ratings(model: &FactorModel, parts: &Parts, non_private: bool) -> Result<Scores> {
    let (train, targets) = (parts.train.expose(), parts.targets.expose());
    let predicted = |model: &FactorModel| -> Result<Vec<(f64, f64)>> {
        let pairs = model.predict_held_out(&parts.history, &parts.targets)?;
        Ok(pairs.into_exposed())
    };
    let bias = LocalBias {
        center: mean(train),
        shrinkage: USER_MEAN_SHRINKAGE,
    };
    let own_mean = user_mean_predictions(parts.history.expose(), targets, bias).collect();
    let constant = constant_predictions(targets, bias.center).collect();
    let mut all: Vec<(&str, Vec<(f64, f64)>)> = vec![(MODEL, predicted(model)?)];
    if non_private {
        let exact = NonPrivateAls::default().fit(&parts.train)?;
        all.push((NON_PRIVATE, predicted(&exact)?));
    }
    all.extend([("user-mean", own_mean), ("constant", constant)]);

    let buckets = Buckets::of(train)?;
    let of_target = buckets.of_targets(targets);
    let by_popularity = (0..N_BUCKETS).map(|bucket| PopularityBucket {
        bucket: bucket + 1,
        n_items: buckets.n_items(bucket),
        n_targets: of_target.iter().filter(|b| **b == Some(bucket)).count(),
        k: None,
        scores: all
            .iter()
            .map(|(name, pairs)| {
                let inside = of_target.iter().zip(pairs).filter(|(b, _)| **b == Some(bucket));
                errors(name, inside.map(|(_, pair)| *pair))
            })
            .collect(),
    });
    let overall = all.iter().map(|(name, pairs)| errors(name, pairs.iter().copied()));
    Ok(Scores {
        feedback: "explicit".to_owned(),
        metrics: ["rmse", "mae"].map(str::to_owned).into(),
        overall: overall.collect(),
        by_popularity: by_popularity.collect(),
    })
}

/// No held-out rating is no failure: that there are none is itself private.
fn errors(method: &str, pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Score {
    let figures = [
        ("rmse", dp_data::rmse(pairs.clone()).ok()),
        ("mae", dp_data::mae(pairs).ok()),
    ];
    score(method, figures)
}

fn score<const N: usize>(method: &str, figures: [(&str, Option<f64>); N]) -> Score {
    let figures = figures.map(|(name, value)| (name.to_owned(), value));
    Score {
        method: method.to_owned(),
        figures: figures.into(),
    }
}

/// Recall and NDCG of lists, history left out.
pub(super) fn of_lists(model: &FactorModel, parts: Parts) -> Result<(Scores, Vec<(String, u64)>)> {
    let buckets = Buckets::of(parts.train.expose())?;
    let of_target = buckets.of_targets(parts.targets.expose());
    let users = HeldOutUsers {
        history: parts.history,
        targets: parts.targets,
    };
    let measure = |lists: Private<Vec<Vec<u32>>>| -> Result<Option<RankingMetrics>> {
        let mut sums = RankingSums::new(K, Some(&buckets.dealt))?;
        sums.add_all(&lists, &users.targets)?;
        Ok(sums.finish().ok())
    };
    let depth = RankingSums::new(K, Some(&buckets.dealt))?.depth();
    let ranked = [
        (MODEL, measure(model.recommend_all(&users.history, depth)?)?),
        ("popularity", measure(buckets.most_popular(&users.history, depth)?)?),
    ];
    let overall = ranked.iter().map(|(name, found)| {
        let figure = |of: fn(&RankingMetrics) -> f64| found.as_ref().map(of);
        score(
            name,
            [
                ("recall_at_20", figure(|m| m.recall)),
                ("recall_standard_error", figure(|m| m.recall_standard_error)),
                ("ndcg_at_20", figure(|m| m.ndcg)),
            ],
        )
    });
    let by_popularity = (0..N_BUCKETS).map(|bucket| PopularityBucket {
        bucket: bucket + 1,
        n_items: buckets.n_items(bucket),
        n_targets: of_target.iter().filter(|b| **b == Some(bucket)).count(),
        k: Some(K * (N_BUCKETS - bucket)),
        scores: ranked
            .iter()
            .map(|(name, found)| {
                let found = found.as_ref().and_then(|m| m.by_bucket.get(bucket));
                score(name, [("recall", found.and_then(|b| b.recall))])
            })
            .collect(),
    });
    let scores = Scores {
        feedback: "implicit".to_owned(),
        metrics: ["recall_at_20", "ndcg_at_20"].map(str::to_owned).into(),
        overall: overall.collect(),
        by_popularity: by_popularity.collect(),
    };
    Ok((scores, parts.data))
}

/// Items by how many users of a table have them. Private.
struct Buckets {
    counts: Vec<f64>,
    dealt: PopularityBuckets,
}

impl Buckets {
    fn of(table: &Interactions) -> Result<Self> {
        let mut counts = vec![0.0; table.n_items()];
        for row in table.users() {
            for &item in row.items() {
                counts[item as usize] += 1.0;
            }
        }
        Ok(Self {
            dealt: PopularityBuckets::new(&counts, N_BUCKETS)?,
            counts,
        })
    }

    fn n_items(&self, bucket: usize) -> usize {
        let items = 0..self.counts.len();
        items.filter(|&item| self.dealt.of(item) == Some(bucket)).count()
    }

    /// The bucket of every record, in the order of the table.
    fn of_targets(&self, table: &Interactions) -> Vec<Option<usize>> {
        let items = table.users().flat_map(|row| row.items().to_vec());
        items.map(|item| self.dealt.of(item as usize)).collect()
    }

    fn most_popular(
        &self,
        own: &Private<Interactions>,
        k: usize,
    ) -> Result<Private<Vec<Vec<u32>>>> {
        let of_user = |items: &[u32]| -> Result<Vec<u32>> {
            let best = dp_linalg::top_k(&self.counts, &[1.0], k, items)
                .map_err(dp_multitask::Error::from)?;
            Ok(best.into_iter().map(|scored| scored.item).collect())
        };
        let users = own.expose().users();
        let lists: Result<Vec<_>> = users.map(|row| of_user(row.items())).collect();
        Ok(Private::new(lists?))
    }
}
