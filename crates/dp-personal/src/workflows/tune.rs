//! `dp tune`: several settings trained, compared and paid for within one budget.

use std::time::Instant;

use dp_core::ApproxDp;
use dp_multitask::{
    FactorizationParams, MatrixFactorization, Trainer, TunedModel, Tuning, TuningParams,
};
use serde_json::json;

use super::input::{HeldOut, as_feedback, read, settings_for, with_given};
use super::ledger::{Account, data_set_id};
use super::private_run::PrivateRun;
use super::train::{
    ADJACENCY, TrainOutcome, held_out_by, open_output, protect, public_data, with_assumptions,
};
use crate::error::{Error, Result};
use crate::evaluate::Evaluation;
use crate::output::{
    Comparison, OutputFolder, Seconds, TrainRelease, TrainReport, catalogue_sha256,
};
use crate::settings::{ChoiceSettings, FactorSettings, Given, Setting, Settings, TuneSettings};
use crate::watch::{Watch, Watched, go_on};

/// Trains several settings within one budget, keeps the best by noisy scores, and writes its release folder.
///
/// # Errors
/// As [`train`](super::train::train), and when candidates are alike or name a setting that there is not.
///
/// # Privacy
/// All candidates and the choice among them are within the target.
pub fn tune(args: &TuneSettings, watch: &mut dyn Watch) -> Result<TrainOutcome> {
    // everything public is checked before the data is touched
    let train = &args.train;
    let target = ApproxDp::target(train.target.epsilon, train.target.delta)?;
    let how = TuningParams {
        score_share: args.choice.score_share,
        held_out_fraction: args.choice.held_out_fraction,
        ..TuningParams::default()
    };
    let fits = candidates(args, how, target)?;
    // neither noise nor cost depends on the number of items
    let draft = Tuning::new(fits.clone(), how)?.plan(1, target, ADJACENCY)?;
    protect(
        &train.output,
        &[
            Some(train.ratings.as_path()),
            train.input.items.as_deref(),
            train.ledger.file(),
        ],
    )?;
    // a model that is there already needs no account
    OutputFolder::recover(&train.output.out, train.output.force)?;
    let data_set = data_set_id(&train.ledger, &train.ratings);
    let account = Account::open(&train.ledger, data_set, &draft)?;
    let folder = open_output(&train.output, &train.resume, || account.check(&draft))?;

    go_on(watch)?;
    let start = Instant::now();
    let ratings = as_feedback(&train.feedback, read(&train.ratings, &train.input)?)?;
    let mut account = account.bind(&ratings)?;
    let split = HeldOut::new(&train.feedback, &train.split, &ratings)?;
    let load = start.elapsed();

    let assumed = fits
        .into_iter()
        .map(|fit| with_assumptions(fit, train, &ratings));
    let tuning = Tuning::new(assumed.collect(), how)?;
    let plan = tuning.plan(ratings.catalogue().len(), target, ADJACENCY)?;
    go_on(watch)?;
    let start = Instant::now();
    let candidates: Vec<_> = tuning.candidates().iter().map(|fit| fit.params()).collect();
    let public = json!({
        "command": "tune",
        "method": train.target.method.name(),
        "target": target,
        "candidates": candidates,
        "tuning": tuning.params(),
        "items_sha256": catalogue_sha256(ratings.catalogue())?,
        "data": public_data(train, &ratings),
    });
    let run = PrivateRun {
        folder: &folder,
        account: &mut account,
        plan: &plan,
        public: &public,
    };
    let noise = &mut train.output.noise();
    let mut watched = Watched::begin(watch, &plan)?;
    let tuned = run.train(&tuning, split.train(), noise, &mut watched, |_| false)?;
    let (comparison, chosen) = (comparison(&args.choice, &tuned.model), tuned.model.chosen);
    let fitted = tuned.map(|tuned| tuned.model);
    let seconds = start.elapsed();

    let release = TrainRelease {
        fitted: &fitted,
        method: train.target.method,
        params: tuning.candidates()[chosen].params(),
        ratings: &ratings,
        held_out: held_out_by(train),
        comparison: Some(comparison),
        run: Some(&public),
    };
    release.write(&folder, train.output.publish_releases)?;
    // from here on the model stays, whatever happens
    let report = folder.commit_after(|folder| {
        let start = Instant::now();
        let metrics = Evaluation::measure(&fitted, &split)?;
        let report = TrainReport {
            release: &release,
            metrics,
            by_round: None,
            seconds: Seconds {
                load: load.as_secs_f64(),
                train: seconds.as_secs_f64(),
                evaluate: start.elapsed().as_secs_f64(),
            },
        };
        report.write_internal(folder)?;
        Ok(report)
    })?;
    Ok(TrainOutcome::new(
        &report,
        &train.output,
        account.balance(&plan),
    ))
}

/// Settings of every candidate: defaults for its part of the budget, then flags, then its own.
fn candidates(
    args: &TuneSettings,
    how: TuningParams,
    target: ApproxDp,
) -> Result<Vec<MatrixFactorization>> {
    let own = &args.choice.candidates;
    let of_each = Tuning::target_of_each(own.len(), how, target, ADJACENCY)?;
    let train = &args.train;
    let base = settings_for(
        train.target.method,
        &train.feedback,
        &train.settings,
        of_each,
    )?;
    let check = |text: &String| -> Result<MatrixFactorization> {
        let checked = with_settings(base.clone(), text)?
            .check()
            .map_err(Error::from);
        checked.map_err(|error| match error {
            Error::Param(param) => {
                let name = format!("`{}`", param.name);
                let reason = param.to_string().replacen(param.name, &name, 1);
                Error::Usage(format!("`candidates` {text}: {reason}"))
            }
            other => other,
        })
    };
    let fits = own.iter().map(check).collect::<Result<Vec<_>>>()?;
    refuse_alike(own, &fits)?;
    Ok(fits)
}

/// Two candidates of the same settings would share a budget for nothing.
fn refuse_alike(own: &[String], fits: &[MatrixFactorization]) -> Result<()> {
    for (at, fit) in fits.iter().enumerate() {
        let earlier = fits[..at]
            .iter()
            .position(|other| other.params() == fit.params());
        if let Some(earlier) = earlier {
            let text = format!(
                "`candidates` {} and `candidates` {} are the same settings; expected candidates that differ",
                own[earlier], own[at]
            );
            return Err(Error::Usage(text));
        }
    }
    Ok(())
}

/// The settings that a candidate may have of its own. The model of the scores decides defaults of others, so that all
/// candidates have the same.
fn own_settings() -> impl Iterator<Item = Setting> {
    let all = FactorSettings::table().into_iter();
    all.filter(|setting| setting.name != "score_model")
}

/// Settings `key=value,...` by the keys of the table.
fn with_settings(params: FactorizationParams, text: &str) -> Result<FactorizationParams> {
    let wrong = |what: &str| Error::Usage(format!("`candidates` {text}: {what}"));
    let mut own = Given::default();
    for setting in text.split(',').map(str::trim).filter(|s| !s.is_empty()) {
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| wrong("settings are NAME=VALUE, separated by commas"))?;
        let key = key.trim();
        let Some(known) = own_settings().find(|setting| setting.key() == key) else {
            let keys: Vec<String> = own_settings().map(|setting| setting.key()).collect();
            let keys = keys.join(", ");
            return Err(wrong(&format!("{key} is not a setting; there are {keys}")));
        };
        if own.has(&known) {
            let text = format!("{key} stands there twice; expected each setting once");
            return Err(wrong(&text));
        }
        if known.name == "head_fraction" && params.feedback.implicit().is_none() {
            return Err(wrong(&format!("{key} needs `feedback` implicit")));
        }
        own = own.with(known.name, value.trim());
    }
    let own: FactorSettings = own.settings().map_err(|error| wrong(&error.to_string()))?;
    Ok(with_given(params, &own))
}

fn comparison(choice: &ChoiceSettings, tuned: &TunedModel) -> Comparison {
    Comparison {
        candidates: choice.candidates.clone(),
        scores: tuned.scores.clone(),
        noise_stddev: tuned.score_noise_stddev,
        chosen: tuned.chosen,
    }
}
