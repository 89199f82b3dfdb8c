//! Ranked lists for held-out users, from records as positives.

use dp_core::{Interactions, Private};
use dp_data::{HeldOutUsers, PopularityBuckets, RankingMetrics, RankingSums, Ratings, UserSplit};
use dp_multitask::{FactorModel, Fitted, NonPrivateAls};

use super::data::buckets;
use super::task::{Figures, Metric, N_BUCKETS, Task};
use dp_personal::error::Result;
use dp_personal::workflows::input::hold_out_users;

/// Within a bucket, the rarer the items, the longer the lists: 100, 80, 60, 40, 20.
const RECALL: Metric = ("Recall@20", "Recall@20 to 100 by popularity");
const POPULARITY: Metric = (
    "Recall@20 of the largest counts",
    "Recall@20 to 100 of the largest counts by popularity",
);
const K: usize = 20;
/// Ratings from this value on count as positive.
pub(super) const LEAST_YES: f64 = 4.0;

/// Users held out with 80 % of their records as history, the same for all seeds.
pub(super) struct Lists {
    split: UserSplit,
    buckets: PopularityBuckets,
    als: FactorModel,
}

impl Lists {
    /// Each record of `likes` is a positive.
    pub(super) fn new(likes: &Ratings) -> Result<Self> {
        let split = hold_out_users(likes, 0)?;
        Ok(Self {
            buckets: buckets(split.train.expose())?,
            als: NonPrivateAls::implicit().fit(&split.train)?,
            split,
        })
    }

    fn of_model(&self, model: &FactorModel, users: &HeldOutUsers) -> Result<RankingMetrics> {
        self.ranking(users, |k| {
            model.recommend_held_out(&users.history, &users.targets, k)
        })
    }

    fn ranking(
        &self,
        users: &HeldOutUsers,
        lists: impl FnOnce(usize) -> dp_multitask::Result<Private<Vec<Vec<u32>>>>,
    ) -> Result<RankingMetrics> {
        let mut sums = RankingSums::new(K, Some(&self.buckets))?;
        sums.add_all(&lists(sums.depth())?, &users.targets)?;
        Ok(sums.finish()?)
    }
}

fn figures(metric: Metric, ranking: &RankingMetrics) -> Figures {
    let mut by_bucket = [None; N_BUCKETS];
    for (slot, bucket) in by_bucket.iter_mut().zip(&ranking.by_bucket) {
        *slot = bucket.recall;
    }
    Figures {
        metric,
        all: ranking.recall,
        by_bucket,
    }
}

impl Task for Lists {
    fn train(&self) -> &Private<Interactions> {
        &self.split.train
    }

    fn validation(&self, fitted: &Fitted<FactorModel>) -> Result<f64> {
        Ok(-self.of_model(&fitted.model, &self.split.valid)?.recall)
    }

    /// Metrics of lists by the model, and of lists by the counts that the run released.
    fn test(&self, fitted: &Fitted<FactorModel>) -> Result<Vec<Figures>> {
        let users = &self.split.test;
        let mut all = vec![figures(RECALL, &self.of_model(&fitted.model, users)?)];
        if let Some(counts) = fitted.model.counts() {
            let popular = self.ranking(users, |k| {
                counts.most_popular_held_out(&users.history, &users.targets, k)
            })?;
            all.push(figures(POPULARITY, &popular));
        }
        Ok(all)
    }

    /// The same kind of model without privacy.
    fn baselines(&self) -> Result<Vec<(&'static str, Figures)>> {
        let ranking = self.of_model(&self.als, &self.split.test)?;
        Ok(vec![("non-private", figures(RECALL, &ranking))])
    }
}
