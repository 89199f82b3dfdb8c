//! The rounds, by the kind of records, and their model as factors.

use dp_accounting::Plan;
use dp_core::{Adjacency, ApproxDp, Interactions, Private};
use dp_mechanism::plan_for;
use dp_multitask::{
    FactorModel, LocalBias, NoisyCounts, Provenance, ScoreModel, Scoring, UserPenalties,
};
use dp_pubfeat::{
    AmImplicitSsp, AmImplicitSspParams, AmResidualSsp, AmResidualSspParams, FeatureErrors,
    FeatureModel, FeaturePrior, FeatureWeights, Fitted, ItemFeatures, LikesModel, NoiseSource,
    Observer, PriorVariances, Run, Trainer,
};

use serde_json::Value;

use super::settings::RoundSettings;
use crate::error::Result;
use crate::metric_release::{
    LearntUnit, Measured, MetricRelease, Scorer, TrainedAndHeldOut, and_metrics, with_metrics,
};
use crate::workflows::input::HeldOut;
use crate::workflows::private_run::PrivateRun;
use crate::workflows::train::{LabelBound, scored_by_releases};

/// Validated settings.
pub(crate) enum Rounds {
    /// Values to predict.
    Ratings(AmResidualSsp),
    /// Records are positives.
    Likes(AmImplicitSsp),
}

/// Result of a run: factors, and the encoder that they correspond to.
pub(crate) struct TrainedModel {
    pub(crate) fitted: Fitted<FactorModel>,
    pub(crate) weights: FeatureWeights,
}

impl Rounds {
    /// The plan of the rounds, and of the metrics after them if any are released.
    pub(crate) fn plan(
        &self,
        n_items: usize,
        (metrics, target): Released<'_>,
        adjacency: Adjacency,
    ) -> Result<Plan> {
        let requests = match self {
            Self::Ratings(fit) => fit.requests(n_items, adjacency)?,
            Self::Likes(fit) => fit.requests(n_items, adjacency)?,
        };
        let requests = and_metrics(requests, metrics, target)?;
        Ok(plan_for(&requests, target, adjacency).map_err(dp_pubfeat::Error::from)?)
    }

    /// The bound on a rating around the centre; there is none for likes.
    pub(crate) const fn label_bound(&self) -> LabelBound {
        let bound = match self {
            Self::Ratings(fit) => fit.params().bound.first,
            Self::Likes(_) => 0.0,
        };
        LabelBound {
            bound,
            in_learnt_unit: false,
        }
    }

    pub(crate) fn variances(&self, features: &ItemFeatures) -> PriorVariances {
        match self {
            Self::Ratings(_) => PriorVariances::for_features(features),
            Self::Likes(_) => PriorVariances::for_likes(features),
        }
    }

    pub(crate) const fn settings(&self) -> RoundSettings<'_> {
        match self {
            Self::Ratings(fit) => RoundSettings::Ratings(fit.params()),
            Self::Likes(fit) => RoundSettings::Likes(fit.params()),
        }
    }

    /// Trains along `run`.
    pub(crate) fn fit(
        &self,
        prior: &FeaturePrior,
        split: &HeldOut,
        released: Released<'_>,
        run: PrivateRun<'_>,
        noise: &mut NoiseSource,
        observer: &mut dyn Observer,
    ) -> Result<TrainedModel> {
        let scored = |factors: Result<FactorModel>| scored_by_releases(&factors?, split);
        match self {
            Self::Ratings(fit) => {
                let fit = fit.with(prior);
                let scored = |model: &FeatureModel| scored(rating_factors(model, UNRELEASED));
                let fitted = trained(&fit, split, &scored, released, run, noise, observer)?;
                of_ratings(fitted)
            }
            Self::Likes(fit) => {
                let fit = fit.with(prior);
                let scored = |model: &LikesModel| scored(like_factors(model, UNRELEASED));
                let fitted = trained(&fit, split, &scored, released, run, noise, observer)?;
                of_likes(fitted)
            }
        }
    }

    /// The model that follows from the releases.
    pub(crate) fn replay(
        &self,
        prior: &FeaturePrior,
        nobody: &Private<Interactions>,
        released: Released<'_>,
        run: Run<'_>,
    ) -> Result<TrainedModel> {
        match self {
            Self::Ratings(fit) => of_ratings(replayed(&fit.with(prior), nobody, released, run)?),
            Self::Likes(fit) => of_likes(replayed(&fit.with(prior), nobody, released, run)?),
        }
    }
}

/// The metrics that a run releases, and the target of the whole run.
pub(crate) type Released<'a> = (Option<&'a MetricRelease>, ApproxDp);

/// Provenance of factors that users are scored with in the middle of a run; the provenance of the
/// model itself follows from the whole run.
const UNRELEASED: Provenance = Provenance::NonPrivate;

/// Runs the rounds on the users of `split`, and then the release of metrics.
fn trained<T>(
    rounds: &T,
    split: &HeldOut,
    scored: &Scorer<'_, T::Model>,
    (metrics, target): Released<'_>,
    run: PrivateRun<'_>,
    noise: &mut NoiseSource,
    observer: &mut dyn Observer,
) -> Result<Fitted<T::Model>>
where
    T: Trainer<Data = Private<Interactions>, Error = dp_pubfeat::Error>,
    T::Model: LearntUnit,
{
    let trainer = with_metrics(rounds, metrics, target);
    let data = TrainedAndHeldOut {
        train: split.train(),
        scored,
    };
    let fitted = run.train(&trainer, &data, noise, observer, |_| false)?;
    Ok(Measured::certified(fitted))
}

fn replayed<T>(
    rounds: &T,
    nobody: &Private<Interactions>,
    (metrics, target): Released<'_>,
    run: Run<'_>,
) -> Result<Fitted<T::Model>>
where
    T: Trainer<Data = Private<Interactions>, Error = dp_pubfeat::Error>,
    T::Model: LearntUnit,
{
    let data = TrainedAndHeldOut {
        train: nobody,
        scored: &|_| Ok(Vec::new()),
    };
    let fitted = with_metrics(rounds, metrics, target).run(&data, run)?;
    Ok(Measured::certified(fitted))
}

/// Rounds and prior of a run from its stored public inputs.
pub(crate) fn of_public(
    settings: Value,
    variances: PriorVariances,
    features: ItemFeatures,
) -> Result<(Rounds, FeaturePrior)> {
    let rounds = match serde_json::from_value::<AmImplicitSspParams>(settings.clone()) {
        Ok(params) => Rounds::Likes(params.check()?),
        Err(_) => {
            Rounds::Ratings(serde_json::from_value::<AmResidualSspParams>(settings)?.check()?)
        }
    };
    Ok((rounds, FeaturePrior::new(&features, variances)?))
}

/// Shrinkage of the user mean before the user step, in ratings: so large that there is no mean,
/// because the step fits the level itself.
const NO_MEAN: f64 = 1e12;

/// A model of ratings as factors, into which users fold in with the same ridge.
fn rating_factors(model: &FeatureModel, provenance: Provenance) -> Result<FactorModel> {
    let step = model.user_step();
    let scoring = Scoring {
        unobserved_weight: None,
        bias: no_mean(step.label_center),
        ..scoring(model.dim(), [step.level_penalty, step.l2_penalty])
    };
    let rows = model.item_vectors().to_vec();
    Ok(FactorModel::new(scoring, rows, provenance)?)
}

fn of_ratings(made: Fitted<FeatureModel>) -> Result<TrainedModel> {
    let factors = rating_factors(&made.model, made.provenance)?;
    let weights = made.model.weights().clone();
    let errors = made.model.standard_errors();
    with_errors(made.map(|_| factors), weights, errors)
}

/// A model that is paid for is not lost because its errors cannot be computed.
fn with_errors(
    made: Fitted<FactorModel>,
    weights: FeatureWeights,
    errors: dp_pubfeat::Result<Option<FeatureErrors>>,
) -> Result<TrainedModel> {
    let Some(errors) = errors.ok().flatten() else {
        let fitted = made;
        return Ok(TrainedModel { fitted, weights });
    };
    let factors = made.model.clone().with_standard_errors(errors.items)?;
    Ok(TrainedModel {
        fitted: made.map(|_| factors),
        weights: weights.with_standard_errors(errors.shared, errors.features)?,
    })
}

/// A model of likes as factors. Its total weights are counts: a user with `n` likes adds
/// `1/sqrt(n)` to each.
fn like_factors(model: &LikesModel, provenance: Provenance) -> Result<FactorModel> {
    let step = model.user_step();
    let scoring = Scoring {
        unobserved_weight: Some(step.unobserved_weight),
        ..scoring(model.dim(), [step.level_penalty, step.l2_penalty])
    };
    let (totals, noise) = (model.total_weights().to_vec(), model.total_weights_noise());
    let insecure = provenance != Provenance::Private;
    let counts = NoisyCounts::released_elsewhere(totals, noise, insecure)?;
    let rows = model.item_vectors().to_vec();
    let factors = FactorModel::new(scoring, rows, provenance)?;
    Ok(factors.with_counts(Some(counts)))
}

fn of_likes(made: Fitted<LikesModel>) -> Result<TrainedModel> {
    let factors = like_factors(&made.model, made.provenance)?;
    let weights = made.model.weights().clone();
    let errors = made.model.standard_errors();
    with_errors(made.map(|_| factors), weights, errors)
}

const fn no_mean(center: f64) -> LocalBias {
    LocalBias {
        center,
        shrinkage: NO_MEAN,
    }
}

const fn scoring(dim: usize, [offset, factor]: [f64; 2]) -> Scoring {
    Scoring {
        dim,
        bias: no_mean(0.0),
        score_model: ScoreModel::Biased,
        penalties: Some(UserPenalties {
            offset,
            factor,
            factor_per_record: 0.0,
        }),
        unobserved_weight: None,
        n_effects: 0,
    }
}

#[cfg(test)]
mod tests {
    use dp_accounting::{Budget, Ledger};
    use dp_core::InteractionsBuilder;
    use dp_mechanism::NoiseSource;
    use dp_pubfeat::{AmImplicitSspParams, AmResidualSspParams, ItemFeaturesBuilder};

    use super::*;

    const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

    /// Forty users, each with some of nine items of three genres, and a prior for the items.
    fn data() -> (ItemFeatures, Private<Interactions>) {
        let mut features = ItemFeaturesBuilder::new(9, &[3]).unwrap();
        let mut data = InteractionsBuilder::new(9);
        for item in 0..9_u32 {
            features.push(item, item % 3, 1.0).unwrap();
            for user in (0..40_u32).filter(|user| (user + item) % 2 == 0) {
                let y = 1.0 + ((user * 7 + item * 5) % 9) as f32 / 2.0;
                data.push(user, item, y).unwrap();
            }
        }
        (features.build(), Private::new(data.build().0))
    }

    fn pay(plan: &Plan) -> Vec<dp_accounting::Spend> {
        let budget = Budget::new(plan.target(), ADJACENCY).unwrap();
        let mut ledger = Ledger::in_memory("test", budget).unwrap();
        ledger.reserve(plan).unwrap()
    }

    #[test]
    fn factors_predict_what_the_model_predicts() {
        let (features, data) = data();
        let target = ApproxDp::target(20.0, 1e-5).unwrap();
        let fit = AmResidualSspParams::for_target(target).check().unwrap();
        let plan = fit.plan(9, target, ADJACENCY).unwrap();
        let prior = FeaturePrior::new(&features, PriorVariances::for_features(&features)).unwrap();
        let noise = &mut NoiseSource::insecure_seeded(3);
        let made = fit
            .with(prior)
            .fit(&data, &plan, pay(&plan), noise)
            .unwrap();
        let factors = of_ratings(made.clone()).unwrap().fitted.model;
        for row in data.expose().users() {
            let (own, other) = (
                made.model.fold_in(row).unwrap(),
                factors.fold_in(row).unwrap(),
            );
            for item in 0..9 {
                let (a, b) = (
                    made.model.predict(&own, item),
                    factors.predict(&other, item),
                );
                assert!((a - b).abs() < 1e-4, "{a} {b}"); // factors are summed in single precision
            }
        }
    }

    #[test]
    fn factors_score_likes_as_the_model_does() {
        let (features, data) = data();
        let target = ApproxDp::target(20.0, 1e-5).unwrap();
        let fit = AmImplicitSspParams::for_target(target).check().unwrap();
        let plan = fit.plan(9, target, ADJACENCY).unwrap();
        let prior = FeaturePrior::new(&features, PriorVariances::for_likes(&features)).unwrap();
        let noise = &mut NoiseSource::insecure_seeded(3);
        let made = fit
            .with(prior)
            .fit(&data, &plan, pay(&plan), noise)
            .unwrap();
        let found = of_likes(made.clone()).unwrap().fitted;
        assert_eq!(
            found.model.counts().unwrap().values(),
            made.model.total_weights()
        );
        for row in data.expose().users() {
            let own = made.model.fold_in(row).unwrap();
            let other = found.model.fold_in(row).unwrap();
            let scores = (0..9).map(|item| made.model.score(&own, item));
            for (item, a) in scores.enumerate() {
                let b = found.model.predict(&other, item);
                assert!((a - b).abs() < 1e-4, "{a} {b}");
            }
        }
    }
}
