//! The run: from ratings and public items to factors, feature weights and certificate.

use dp_accounting::Plan;
use dp_core::ApproxDp;
use dp_pubfeat::FeaturePrior;
use serde_json::json;

use super::items::Items;
use super::rounds::{Rounds, TrainedModel};
use super::settings::{self, Featured};
use super::weights_file;
use crate::error::Result;
use crate::metric_release::MetricRelease;
use crate::output::{TrainRelease, catalogue_sha256};
use crate::settings::{FeedbackKind, Method, TrainSettings};
use crate::warnings;
use crate::watch::{Watch, Watched, go_on};
use crate::workers::Place;
use crate::workflows::input::read;
use crate::workflows::private_run::Clock;
use crate::workflows::train::{
    ADJACENCY, Parts, TrainOutcome, assumptions, finish, held_out_by, metric_release, opening,
    scratch,
};

/// The releases, before any data are read.
pub(crate) fn plan(args: &TrainSettings) -> Result<Plan> {
    let (fit, metrics, target) = checked(args)?;
    fit.plan(1, (metrics.as_ref(), target), ADJACENCY)
}

/// All public inputs, checked before the data are read.
fn checked(args: &TrainSettings) -> Result<(Rounds, Option<MetricRelease>, ApproxDp)> {
    let target = args.target.guarantee.target()?;
    let fit = settings::settings(args, target)?;
    let counts = args.feedback.feedback == FeedbackKind::Implicit;
    let metrics = metric_release(args, fit.label_bound(), counts)?;
    settings::items_path(args)?;
    dp_core::params::at_least_one("min_items", args.features.min_items.unwrap_or(1))?;
    Ok((fit, metrics, target))
}

pub(crate) fn train(
    args: &TrainSettings,
    watch: &mut dyn Watch,
    place: Place<'_>,
) -> Result<TrainOutcome> {
    let (fit, metrics, target) = checked(args)?;
    let released = (metrics.as_ref(), target);
    let items_path = settings::items_path(args)?;
    let draft = fit.plan(1, released, ADJACENCY)?;
    let scratch = scratch(args, &place)?;
    let opened = opening(args, &place)?.open(&draft, place)?;

    go_on(watch)?;
    let mut clock = Clock::start();
    let items = Items::read(items_path, &args.features)?;
    items.announce(items_path);
    let ratings = read(&args.ratings, &args.input, &args.feedback, scratch)?;
    for column in 0..items.table.columns().len() {
        let names = items.vocabulary.names(column).iter();
        dp_data::check_no_user_ids(items_path, names.map(String::as_str), &ratings)?;
    }
    let mut opened = opened.bind(&ratings)?;
    let features = items.features(ratings.catalogue())?;

    let prior = FeaturePrior::new(&features, fit.variances(&features))?;
    weights_file::check(&items, items_path)?;
    let plan = fit.plan(prior.n_items(), released, ADJACENCY)?;
    go_on(watch)?;
    let features_file = items.features_file(ratings.catalogue())?;
    let mut own = json!({
        "method": Method::AmSsp.name(),
        "settings": fit.settings(),
        "prior_variances": prior.variances(),
        "category_sizes": items.vocabulary.category_sizes(),
        "features_sha256": dp_accounting::sha256_hex(&features_file.1),
        "items_sha256": catalogue_sha256(ratings.catalogue())?,
    });
    MetricRelease::put(metrics.as_ref(), &mut own);
    let mut assumed = assumptions(args, &ratings, &opened);
    assumed.push(items.assumption());
    let public = opened.public("train", args, &assumed, own)?;
    let parts = Parts::new(args, ratings, &opened, &public)?;
    let ratings = &parts.ratings;
    let load = clock.lap();
    let noise = &mut args.output.noise();
    let mut watched = Watched::begin(watch, &plan)?;
    let TrainedModel {
        mut fitted,
        weights,
    } = fit.fit(
        &prior,
        parts.own(),
        released,
        opened.run(&plan, &public),
        noise,
        &mut watched,
    )?;
    for assumption in assumed {
        fitted.certificate = fitted.certificate.with_assumption(assumption);
    }

    let params = Featured {
        params: fit.settings(),
        prior_variances: prior.variances(),
        feature_columns: items.table.columns(),
        n_features: weights.n_features(),
        files: [weights_file::write(&weights, &items)?, features_file],
    };
    let release = TrainRelease {
        fitted: &fitted,
        method: Method::AmSsp,
        params: &params,
        ratings,
        held_out: held_out_by(args),
        comparison: None,
        prior: None,
        run: Some(&public),
    };
    opened.found(warnings::of_items(&items.table, ratings));
    let run = (args, &plan, noise);
    finish(opened, run, &release, &parts.all, Vec::new(), (load, clock))
}
