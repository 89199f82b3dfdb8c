//! The run: ratings and public items in, factors, feature weights and certificate out.

use std::time::Instant;

use dp_core::ApproxDp;
use dp_pubfeat::FeaturePrior;
use serde_json::json;

use super::items::Items;
use super::rounds::Made;
use super::settings::{self, Featured};
use super::weights_file;
use crate::error::Result;
use crate::evaluate::Evaluation;
use crate::output::{OutputFolder, Seconds, TrainRelease, TrainReport, catalogue_sha256};
use crate::settings::{Method, TrainSettings};
use crate::watch::{Watch, Watched, go_on};
use crate::workflows::input::{HeldOut, as_feedback, read};
use crate::workflows::ledger::{Account, data_set_id};
use crate::workflows::private_run::PrivateRun;
use crate::workflows::sha256;
use crate::workflows::train::{
    ADJACENCY, TrainOutcome, assumptions, held_out_by, open_output, protect, public_data,
};

pub(crate) fn train(args: &TrainSettings, watch: &mut dyn Watch) -> Result<TrainOutcome> {
    // everything public is checked before the data is touched
    let target = ApproxDp::target(args.target.epsilon, args.target.delta)?;
    let fit = settings::settings(args, target)?;
    let items_path = settings::items_path(args)?;
    let draft = fit.plan(1, target, ADJACENCY)?;
    let ledger = args.ledger.file();
    let inputs = [Some(args.ratings.as_path()), Some(items_path), ledger];
    protect(&args.output, &inputs)?;
    // a model that is there already needs no account
    OutputFolder::recover(&args.output.out, args.output.force)?;
    let data_set = data_set_id(&args.ledger, &args.ratings);
    let account = Account::open(&args.ledger, data_set, &draft)?;
    let folder = open_output(&args.output, &args.resume, || account.check(&draft))?;

    go_on(watch)?;
    let start = Instant::now();
    let items = Items::read(items_path, &args.features)?;
    items.announce(items_path);
    let ratings = as_feedback(&args.feedback, read(&args.ratings, &args.input)?)?;
    let mut account = account.bind(&ratings)?;
    let features = items.features(ratings.catalogue())?;
    let split = HeldOut::new(&args.feedback, &args.split, &ratings)?;
    let load = start.elapsed();

    let prior = FeaturePrior::new(&features, fit.variances(&features))?;
    weights_file::check(&items, items_path)?;
    let plan = fit.plan(prior.n_items(), target, ADJACENCY)?;
    go_on(watch)?;
    let start = Instant::now();
    let features_file = items.features_file(ratings.catalogue())?;
    let public = json!({
        "command": "train",
        "method": Method::AmSsp.name(),
        "target": target,
        "settings": fit.settings(),
        "prior_variances": prior.variances(),
        "category_sizes": items.vocabulary.category_sizes(),
        "features_sha256": sha256(&features_file.1),
        "items_sha256": catalogue_sha256(ratings.catalogue())?,
        "data": public_data(args, &ratings),
    });
    let run = PrivateRun {
        folder: &folder,
        account: &mut account,
        plan: &plan,
        public: &public,
    };
    let noise = &mut args.output.noise();
    let mut watched = Watched::begin(watch, &plan)?;
    let Made {
        mut fitted,
        weights,
    } = fit.fit(&prior, split.train(), run, noise, &mut watched)?;
    for assumption in assumptions(args, &ratings)
        .into_iter()
        .chain([items.assumption()])
    {
        fitted.certificate = fitted.certificate.with_assumption(assumption);
    }
    let train = start.elapsed();

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
        ratings: &ratings,
        held_out: held_out_by(args),
        comparison: None,
        run: Some(&public),
    };
    release.write(&folder, args.output.publish_releases)?;
    // from here on the model stays, whatever happens
    let report = folder.commit_after(|folder| {
        let start = Instant::now();
        let report = TrainReport {
            release: &release,
            metrics: Evaluation::measure(&fitted, &split)?,
            by_round: None,
            seconds: Seconds {
                load: load.as_secs_f64(),
                train: train.as_secs_f64(),
                evaluate: start.elapsed().as_secs_f64(),
            },
        };
        report.write_internal(folder)?;
        Ok(report)
    })?;
    Ok(TrainOutcome::new(
        &report,
        &args.output,
        account.balance(&plan),
    ))
}
