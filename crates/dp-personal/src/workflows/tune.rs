//! `dp tune`: several settings trained, compared and paid for within one budget.

use std::time::Instant;

use dp_core::ApproxDp;
use dp_multitask::{
    FactorizationParams, MatrixFactorization, Run, Trainer, TunedModel, Tuning, TuningParams,
};

use super::input::{HeldOut, as_feedback, read, set_head, settings_for};
use super::ledger::{Account, data_set_id};
use super::train::{ADJACENCY, held_out_by, protect, with_assumptions};
use crate::error::{Error, Result};
use crate::evaluate::Evaluation;
use crate::output::{self, Comparison, OutputFolder, Seconds, TrainRelease, TrainReport};
use crate::progress::ReleaseBar;
use crate::settings::{ChoiceArgs, TuneArgs};

pub fn run(args: &TuneArgs) -> Result<()> {
    // everything public is checked before the data is touched
    let train = &args.train;
    let target = ApproxDp::target(train.target.epsilon, train.target.delta)?;
    let how = TuningParams {
        score_share: args.choice.score_share,
        held_out_fraction: args.choice.compare_on,
        ..TuningParams::default()
    };
    let fits = candidates(args, how, target)?;
    // neither noise nor cost depends on the number of items
    let draft = Tuning::new(fits.clone(), how)?.plan(1, target, ADJACENCY)?;
    if train.resume.resume.is_some() {
        let text = "--resume: dp tune keeps no state between its releases; use dp train";
        return Err(Error::Usage(text.to_owned()));
    }
    protect(
        &train.output,
        &[
            Some(train.ratings.as_path()),
            train.input.items.as_deref(),
            train.ledger.ledger.as_deref(),
        ],
    )?;
    // a model that is there already needs no account
    OutputFolder::recover(&train.output.out, train.output.force)?;
    let mut account = Account::open(
        &train.ledger,
        data_set_id(&train.ledger, &train.ratings),
        target,
        ADJACENCY,
    )?;
    account.check(&draft)?;
    let folder = OutputFolder::create(&train.output.out, train.output.force)?;

    let start = Instant::now();
    let ratings = as_feedback(&train.feedback, read(&train.ratings, &train.input)?)?;
    let split = HeldOut::new(&train.feedback, &train.split, &ratings)?;
    let load = start.elapsed();

    let assumed = fits
        .into_iter()
        .map(|fit| with_assumptions(fit, train, &ratings));
    let tuning = Tuning::new(assumed.collect(), how)?;
    let plan = tuning.plan(ratings.catalogue().len(), target, ADJACENCY)?;
    let start = Instant::now();
    folder.mark_paid()?;
    let spends = account.reserve(&plan)?;
    let mut noise = train.output.noise();
    let mut bar = ReleaseBar::new(plan.releases().len());
    let run = Run::new(&plan, spends, &mut noise).map_err(dp_multitask::Error::from)?;
    let tuned = tuning.run(split.train(), run.observed_by(&mut bar))?;
    drop(bar);
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
    };
    release.write(&folder)?;
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
    if train.output.json {
        return output::print_json(&report.json());
    }
    let balance = account.balance(&plan);
    output::print(&report.summary(&train.output.out, balance.as_deref()))
}

/// Settings of every candidate: defaults for its part of the budget, then flags, then its own.
fn candidates(
    args: &TuneArgs,
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
            Error::Param(param) => Error::Usage(format!("--try {text}: {param}")),
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
                "--try {} and --try {} are the same settings; expected candidates that differ",
                own[earlier], own[at]
            );
            return Err(Error::Usage(text));
        }
    }
    Ok(())
}

/// Settings `name=value,...` by the names of the flags.
fn with_settings(mut params: FactorizationParams, text: &str) -> Result<FactorizationParams> {
    let wrong = |what: &str| Error::Usage(format!("--try {text}: {what}"));
    let mut names = Vec::new();
    for setting in text.split(',').map(str::trim).filter(|s| !s.is_empty()) {
        let (name, value) = setting
            .split_once('=')
            .ok_or_else(|| wrong("settings are NAME=VALUE, separated by commas"))?;
        if names.contains(&name.trim()) {
            return Err(wrong(&format!(
                "{} stands there twice; expected each setting once",
                name.trim()
            )));
        }
        names.push(name.trim());
        let number = || {
            let parsed = value.trim().parse::<f64>();
            parsed.map_err(|_| wrong(&format!("{value} is not a number")))
        };
        let count = || {
            let parsed = value.trim().parse::<usize>();
            parsed.map_err(|_| wrong(&format!("{value} is not a whole number")))
        };
        match name.trim() {
            "dim" => params.dim = Some(count()?),
            "steps" => params.n_rounds = count()?,
            "weight-exponent" => params.weight_exponent = number()?,
            "clip-norm" => params.clip_norm = number()?,
            "label-center" => params.label_center = number()?,
            "label-bound" => params.label_bound = number()?,
            "reg" => params.item_ridge_factor = number()?,
            "count-share" => params.count_share = number()?,
            "head-fraction" if params.feedback.implicit().is_none() => {
                return Err(wrong("head-fraction needs --feedback implicit"));
            }
            "head-fraction" => set_head(&mut params, number()?),
            other => {
                return Err(wrong(&format!(
                    "{other} is not a setting; there are dim, steps, weight-exponent, clip-norm, \
                     label-center, label-bound, reg, count-share, head-fraction"
                )));
            }
        }
    }
    Ok(params)
}

fn comparison(choice: &ChoiceArgs, tuned: &TunedModel) -> Comparison {
    Comparison {
        candidates: choice.candidates.clone(),
        scores: tuned.scores.clone(),
        noise_stddev: tuned.score_noise_stddev,
        chosen: tuned.chosen,
    }
}
