//! Errors of predicted ratings.

use dp_multitask::{
    FactorModel, LocalBias, NonPrivateAls, constant_predictions, user_mean_predictions,
};

use super::parts::Parts;
use super::scores::{Buckets, MODEL, NON_PRIVATE, Score, Scores};
use crate::error::Result;
use crate::evaluate::{USER_MEAN_SHRINKAGE, mean};

/// Pairs of prediction and truth, in the order of the targets.
type Pairs = Vec<(f64, f64)>;

/// The model beside what costs nothing, and beside the same without privacy where that is asked for.
pub(super) fn score(model: &FactorModel, parts: &Parts, non_private: bool) -> Result<Scores> {
    let all = predictions(model, parts, non_private)?;
    let buckets = Buckets::of(parts.train.expose())?;
    let of_target = buckets.of_targets(parts.targets.expose());
    let inside = |bucket| {
        let of_method = |(name, pairs): &(&str, Pairs)| {
            let inside = of_target.iter().zip(pairs);
            let inside = inside.filter(|(b, _)| **b == Some(bucket));
            errors(name, inside.map(|(_, pair)| *pair))
        };
        all.iter().map(of_method).collect()
    };
    let overall = all.iter();
    let overall = overall.map(|(name, pairs)| errors(name, pairs.iter().copied()));
    Ok(Scores {
        feedback: "explicit".to_owned(),
        metrics: ["rmse", "mae"].map(str::to_owned).into(),
        overall: overall.collect(),
        by_popularity: buckets.scored(&of_target, |_| None, inside),
    })
}

/// By method, the model first.
fn predictions(
    model: &FactorModel,
    parts: &Parts,
    non_private: bool,
) -> Result<Vec<(&'static str, Pairs)>> {
    let (train, targets) = (parts.train.expose(), parts.targets.expose());
    let predicted = |model: &FactorModel| -> Result<Pairs> {
        let pairs = model.predict_held_out(&parts.history, &parts.targets)?;
        Ok(pairs.into_exposed())
    };
    let bias = LocalBias {
        center: mean(train),
        shrinkage: USER_MEAN_SHRINKAGE,
    };
    let mut all = vec![(MODEL, predicted(model)?)];
    if non_private {
        let exact = NonPrivateAls::default().fit(&parts.train)?;
        all.push((NON_PRIVATE, predicted(&exact)?));
    }
    let own_mean = user_mean_predictions(parts.history.expose(), targets, bias);
    all.push(("user-mean", own_mean.collect()));
    let constant = constant_predictions(targets, bias.center);
    all.push(("constant", constant.collect()));
    Ok(all)
}

/// No held-out rating is no failure: that there are none is itself private.
fn errors(method: &str, pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Score {
    let figures = [
        ("rmse", dp_data::rmse(pairs.clone()).ok()),
        ("mae", dp_data::mae(pairs).ok()),
    ];
    Score::new(method, figures)
}
