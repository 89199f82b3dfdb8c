//! Accuracy on held-out ratings. Computed from private data: internal, never released.

use dp_core::{Interactions, Private};
use dp_data::RatingSplit;
use dp_multitask::{FactorModel, Fitted, LocalBias, constant_predictions, user_mean_predictions};
use serde::Serialize;

use crate::error::Result;
use crate::output::{ByRound, ChartData, Headline};
use crate::ranking::RankingFigures;
use crate::workflows::input::HeldOut;

/// Shrinkage of the user-mean baseline, in ratings.
pub(crate) const USER_MEAN_SHRINKAGE: f64 = 5.0;

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

/// The accuracy of a run, by what its records mean.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum Evaluation {
    Ratings(Metrics),
    Ranking(Box<RankingFigures>),
}

impl Evaluation {
    pub(crate) fn measure(fitted: &Fitted<FactorModel>, held_out: &HeldOut) -> Result<Self> {
        Ok(match held_out {
            HeldOut::Ratings(split) => Self::Ratings(Metrics::measure(&fitted.model, split)?),
            HeldOut::Users(split) => {
                Self::Ranking(Box::new(RankingFigures::measure(fitted, split)?))
            }
        })
    }

    /// The same figure after every round, on the validation part; `rounds` holds the factors after each.
    pub(crate) fn by_round(
        fitted: &Fitted<FactorModel>,
        rounds: Vec<Vec<f64>>,
        held_out: &HeldOut,
    ) -> Result<Option<ByRound>> {
        let mut values = Vec::with_capacity(rounds.len());
        let last = &fitted.model;
        for factors in rounds {
            let model = FactorModel::new(*last.scoring(), factors, last.provenance())?;
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

    /// The figure that runs are compared by.
    pub(crate) fn headline(&self) -> Option<Headline> {
        let (metric, value) = match self {
            Self::Ratings(metrics) => ("RMSE test", metrics.test_rmse),
            Self::Ranking(figures) => ("Recall@20 test users", figures.test_recall_at_20),
        };
        value.map(|value| Headline {
            metric: metric.to_owned(),
            value,
            non_private: None,
        })
    }

    /// Names and numbers.
    pub(crate) fn figures(&self) -> Vec<(String, Option<f64>)> {
        match self {
            Self::Ratings(metrics) => metrics.figures(),
            Self::Ranking(figures) => figures.figures(),
        }
    }

    /// What is better seen than read.
    pub(crate) fn charts(&self) -> Vec<ChartData> {
        match self {
            Self::Ratings(_) => Vec::new(),
            Self::Ranking(figures) => figures.by_popularity().into_iter().collect(),
        }
    }

    /// Names and values, for a report.
    pub(crate) fn rows(&self) -> Vec<(String, String)> {
        match self {
            Self::Ratings(metrics) => metrics.rows(),
            Self::Ranking(figures) => figures.rows(),
        }
    }
}

/// A figure with four places.
pub(crate) fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "- (nothing held out)".to_owned(), |v| format!("{v:.4}"))
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

/// The mean of all values; 0 without any.
pub(crate) fn mean(table: &Interactions) -> f64 {
    let total: f64 = table
        .users()
        .flat_map(|row| row.values().iter().map(|&y| f64::from(y)))
        .sum();
    total / (table.n_records().max(1) as f64)
}
