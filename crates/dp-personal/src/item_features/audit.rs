//! Audit of the rounds.

use dp_audit::{AuditedRun, AuditedTrainer, Canaries, FeatureRounds, FeatureRoundsOracle};
use dp_pubfeat::{FeaturePrior, ItemFeatures, ItemFeaturesBuilder};

use super::items::Items;
use super::rounds::Rounds;
use super::settings;
use crate::error::Result;
use crate::metric_release::with_audited_metrics;
use crate::settings::{FeedbackKind, TrainSettings};
use crate::watch::{Watch, go_on};
use crate::workflows::input::{HeldOut, read};
use crate::workflows::train::{ADJACENCY, metric_release};

/// Number of items of a planted user, which no other user has.
const ITEMS_EACH: usize = 4;
/// Their ratings, in units of the rating bound.
const FAR: f64 = 1e4;

/// The run of a training, with planted users in its data.
pub(crate) struct AuditedRounds {
    pub(crate) trainer: Box<dyn AuditedRun>,
    pub(crate) canaries: Canaries,
    pub(crate) dim: usize,
}

/// The run with these settings, with `n_canaries` users whose items have no features.
///
/// # Errors
/// When settings are out of range, and when a file cannot be read.
#[allow(
    clippy::cast_possible_truncation,
    reason = "bounds of centre and label keep the rating in the range of f32"
)]
pub(crate) fn audited(
    args: &TrainSettings,
    n_canaries: usize,
    watch: &mut dyn Watch,
) -> Result<AuditedRounds> {
    // everything public is checked before the data are read
    let target = args.target.guarantee.target()?;
    let rounds = settings::settings(args, target)?;
    let items_path = settings::items_path(args)?;
    let counts = args.feedback.feedback == FeedbackKind::Implicit;
    let metrics = metric_release(args, rounds.label_bound(), counts)?;
    let metrics = metrics.as_ref();
    rounds.plan(1, (metrics, target), ADJACENCY)?;
    go_on(watch)?;
    let items = Items::read(items_path, &args.features)?;
    let ratings = read(&args.ratings, &args.input, &args.feedback, None)?;
    let features = items.features(ratings.catalogue())?;
    let data = HeldOut::new(&args.feedback, &args.split, &ratings)?.into_train();
    let (dim, rating) = match &rounds {
        Rounds::Ratings(fit) => {
            let params = fit.params();
            (
                params.dim,
                params.user_step.label_center + FAR * params.bound.first,
            )
        }
        Rounds::Likes(fit) => (fit.params().dim, 1.0),
    };
    let canaries = Canaries::new(data, n_canaries, ITEMS_EACH, rating as f32)?;
    let (n_items, features) = (
        canaries.n_items(),
        with_items(&features, canaries.n_items())?,
    );
    let variances = rounds.variances(&features);
    let prior = FeaturePrior::new(&features, variances.clone())?;
    let plan = rounds.plan(n_items, (metrics, target), ADJACENCY)?;
    let oracle = |fit: FeatureRounds| FeatureRoundsOracle::new(fit, &features, &variances);
    let trainer: Box<dyn AuditedRun> = match rounds {
        Rounds::Ratings(fit) => with_audited_metrics(metrics, &plan, &canaries, |plan| {
            let trainer = AuditedTrainer::new(fit.with(prior), n_items, target, ADJACENCY)?;
            let oracle = oracle(FeatureRounds::Ratings(fit));
            Ok(trainer.with_plan(plan).checked_by(oracle))
        })?,
        Rounds::Likes(fit) => with_audited_metrics(metrics, &plan, &canaries, |plan| {
            let trainer = AuditedTrainer::new(fit.with(prior), n_items, target, ADJACENCY)?;
            let oracle = oracle(FeatureRounds::Likes(fit));
            Ok(trainer.with_plan(plan).checked_by(oracle))
        })?,
    };
    Ok(AuditedRounds {
        trainer,
        canaries,
        dim,
    })
}

/// The same features with additional items, which have none.
fn with_items(features: &ItemFeatures, n_items: usize) -> Result<ItemFeatures> {
    let sizes = (0..features.n_categories()).map(|category| features.category(category).len());
    let mut more = ItemFeaturesBuilder::new(n_items, &sizes.collect::<Vec<_>>())?;
    for (number, item) in (0..).zip(0..features.n_items()) {
        for (feature, weight) in features.item(item) {
            more.push(number, feature, weight)?;
        }
    }
    Ok(more.build())
}
