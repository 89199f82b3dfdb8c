//! Accuracy on held-out ratings. Computed from private data: internal, never released.

use dp_core::{Interactions, Private};
use dp_data::RatingSplit;
use dp_multitask::{FactorModel, LocalBias, constant_predictions, user_mean_predictions};
use serde::Serialize;

use crate::error::Result;

/// Shrinkage of the user-mean baseline, in ratings.
const USER_MEAN_SHRINKAGE: f64 = 5.0;

/// Root mean squared errors; `None` where the held-out part is empty.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Metrics {
    pub(crate) valid_rmse: Option<f64>,
    pub(crate) test_rmse: Option<f64>,
    /// Predicting the mean of the training ratings.
    pub(crate) constant_rmse: Option<f64>,
    /// Predicting each user's own shrunken mean.
    pub(crate) user_mean_rmse: Option<f64>,
}

impl Metrics {
    pub(crate) fn measure(model: &FactorModel, split: &RatingSplit) -> Result<Self> {
        let train = split.train.expose();
        let bias = LocalBias {
            center: mean(train),
            shrinkage: USER_MEAN_SHRINKAGE,
        };
        let test = split.test.expose();
        Ok(Self {
            valid_rmse: model_rmse(model, &split.train, &split.valid)?,
            test_rmse: model_rmse(model, &split.train, &split.test)?,
            constant_rmse: rmse(constant_predictions(test, bias.center)),
            user_mean_rmse: rmse(user_mean_predictions(train, test, bias)),
        })
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

/// No held-out rating is no failure: that there are none is itself private.
fn rmse(pairs: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    dp_data::rmse(pairs).ok()
}

fn mean(table: &Interactions) -> f64 {
    let total: f64 = table
        .users()
        .flat_map(|row| row.values().iter().map(|&y| f64::from(y)))
        .sum();
    total / (table.n_records().max(1) as f64)
}
