//! Errors of predicted ratings.

use dp_core::{Interactions, Private};
use dp_data::{PopularityBuckets, RatingSplit, Ratings, SplitFractions, rmse};
use dp_multitask::{
    FactorModel, Fitted, LocalBias, NonPrivateAls, constant_predictions, user_mean_predictions,
};

use super::data::buckets;
use super::neighbours::Neighbours;
use super::task::{Figures, Metric, N_BUCKETS, Task};
use dp_personal::error::Result;

const RMSE: Metric = ("test RMSE", "test RMSE by popularity");
/// Shrinkage of the user-mean baseline, in ratings.
const USER_MEAN_SHRINKAGE: f64 = 5.0;

/// Ratings, split 80/10/10 by a hash of user and item, the same for all seeds.
pub(super) struct HeldOutRatings {
    split: RatingSplit,
    buckets: PopularityBuckets,
    als: FactorModel,
    /// The same model from another initialisation: an upper limit on the agreement of neighbours.
    als_again: FactorModel,
    neighbours: Neighbours,
}

impl HeldOutRatings {
    pub(super) fn new(ratings: &Ratings) -> Result<Self> {
        let split = ratings.split(SplitFractions::default(), 0)?;
        let from = |init_seed| NonPrivateAls {
            init_seed,
            ..NonPrivateAls::default()
        };
        let als = from(0).fit(&split.train)?;
        Ok(Self {
            buckets: buckets(split.train.expose())?,
            neighbours: Neighbours::of(&als)?,
            als,
            als_again: from(1).fit(&split.train)?,
            split,
        })
    }

    fn errors(&self, pairs: &[(f64, f64)]) -> Result<Figures> {
        let mut by_bucket: [Vec<(f64, f64)>; N_BUCKETS] = Default::default();
        let rows = self.split.test.expose().users();
        let items = rows.flat_map(|row| row.items().to_vec());
        for (item, pair) in items.zip(pairs) {
            if let Some(bucket) = self.buckets.of(item as usize) {
                by_bucket[bucket].push(*pair);
            }
        }
        Ok(Figures {
            metric: RMSE,
            all: rmse(pairs.iter().copied())?,
            by_bucket: by_bucket.map(|pairs| rmse(pairs).ok()),
        })
    }

    fn model_errors(&self, model: &FactorModel) -> Result<Figures> {
        let pairs = model.predict_held_out(&self.split.train, &self.split.test)?;
        self.errors(&pairs.into_exposed())
    }
}

impl Task for HeldOutRatings {
    fn train(&self) -> &Private<Interactions> {
        &self.split.train
    }

    fn validation(&self, fitted: &Fitted<FactorModel>) -> Result<f64> {
        let pairs = fitted
            .model
            .predict_held_out(&self.split.train, &self.split.valid)?;
        Ok(rmse(pairs.into_exposed())?)
    }

    fn test(&self, fitted: &Fitted<FactorModel>) -> Result<Vec<Figures>> {
        let mut figures = vec![self.model_errors(&fitted.model)?];
        figures.extend(self.neighbours.overlap(&fitted.model, &self.buckets)?);
        Ok(figures)
    }

    /// Constant, user mean, and the same kind of model without privacy; for neighbours, two such
    /// models.
    fn baselines(&self) -> Result<Vec<(&'static str, Figures)>> {
        let (train, test) = (self.split.train.expose(), self.split.test.expose());
        let bias = LocalBias {
            center: mean(train),
            shrinkage: USER_MEAN_SHRINKAGE,
        };
        let constant: Vec<_> = constant_predictions(test, bias.center).collect();
        let user_mean: Vec<_> = user_mean_predictions(train, test, bias).collect();
        let agreement = self.neighbours.overlap(&self.als_again, &self.buckets)?;
        let mut rows = vec![
            ("constant", self.errors(&constant)?),
            ("user-mean", self.errors(&user_mean)?),
            ("non-private", self.model_errors(&self.als)?),
        ];
        rows.extend(agreement.map(|figures| ("non-private", figures)));
        Ok(rows)
    }
}

fn mean(table: &Interactions) -> f64 {
    let values = table.users().flat_map(|row| row.values().to_vec());
    values.map(f64::from).sum::<f64>() / table.n_records().max(1) as f64
}
