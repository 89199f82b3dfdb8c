//! `dp tune`: several settings trained, compared and paid for within one budget.

use dp_accounting::{Plan, gdp, usable_delta};
use dp_audit::{AuditedTrainer, TuningOracle};
use dp_core::ApproxDp;
use dp_multitask::{
    FactorizationParams, MatrixFactorization, Trainer, TunedModel, Tuning, TuningParams,
};
use serde_json::json;

use super::audit::{
    AuditOutcome, Audited, Trials, USUAL_CANARIES, canaries, data, warn_of_memory, with_length,
};
use super::input::{check_feedback, read, settings_for};
use super::private_run::Clock;
use super::train::{
    ADJACENCY, LabelBound, Parts, TrainOutcome, assumptions, counts_items, finish, held_out_by,
    metric_release, opening, scored_by_releases, scratch, with_assumptions,
};
use crate::error::{Error, Result};
use crate::metric_release::{
    Measured, MetricRelease, TrainedAndHeldOut, with_audited_metrics, with_metrics,
};
use crate::output::{Comparison, TrainRelease, catalogue_sha256};
use crate::settings::{
    AuditTuneSettings, CandidateSettings, ChoiceSettings, Given, Method, Setting, Settings,
    TrainSettings, TuneSettings,
};
use crate::watch::{Watch, Watched, go_on};
use crate::workers::Place;

/// The releases that [`tune`] will make with these settings, and its guarantee: public, and known
/// before any data are read. Neither noise nor cost depends on the number of items, which is set to
/// 1.
///
/// # Errors
/// When settings are out of range or conflict.
pub fn plan(args: &TuneSettings) -> Result<Plan> {
    Ok(checked(args)?.draft)
}

/// Values that follow from settings alone.
struct Checked {
    target: ApproxDp,
    how: TuningParams,
    methods: Vec<Method>,
    fits: Vec<MatrixFactorization>,
    metrics: Option<MetricRelease>,
    draft: Plan,
}

/// Checks everything public before the data are read.
fn checked(args: &TuneSettings) -> Result<Checked> {
    let target = args.train.target.guarantee.target()?;
    let how = comparison_settings(&args.choice);
    let (methods, fits) = candidates(args, how, target)?;
    let (features, prior) = (&args.train.features, &args.train.prior);
    let unsupported = if features.feature_cols.is_some() || features.min_items.is_some() {
        Some(
            "`feature_cols` and `min_items` are not supported by `dp tune`: they belong to `dp train` with `method` am-ssp",
        )
    } else if prior.prior.is_some() || prior.opt_in.is_some() {
        Some("`prior` and `opt_in` are not supported by `dp tune`: use them with `dp train`")
    } else {
        None
    };
    if let Some(text) = unsupported {
        return Err(Error::Usage(text.to_owned()));
    }
    refuse_single(&args.choice)?;
    let metrics = metric_release_of(&args.train, &fits)?;
    let tuning = Tuning::new(fits.clone(), how)?;
    // neither noise nor cost depends on the number of items
    let draft = with_metrics(&tuning, metrics.as_ref(), target).plan(1, target, ADJACENCY)?;
    Ok(Checked {
        target,
        how,
        methods,
        fits,
        metrics,
        draft,
    })
}

/// Trains several settings within one budget, keeps the best by noisy scores, and writes its
/// release folder.
///
/// # Errors
/// As [`train`](super::train::train), and when candidates are equal or name an unknown setting.
///
/// # Privacy
/// The target covers all candidates and the choice among them.
pub fn tune(args: &TuneSettings, watch: &mut dyn Watch) -> Result<TrainOutcome> {
    tune_at(args, watch, Place::Alone)
}

/// [`tune`] with users in several processes: see [`crate::workers`].
///
/// # Errors
/// As [`tune`]; [`Error::WorkerDone`] at a worker that has sent its sums; errors of the links.
///
/// # Privacy
/// As [`tune`]. Exact sums are sent over the links.
pub fn tune_at(
    args: &TuneSettings,
    watch: &mut dyn Watch,
    place: Place<'_>,
) -> Result<TrainOutcome> {
    let train = &args.train;
    let Checked {
        target,
        how,
        methods,
        fits,
        metrics,
        draft,
    } = checked(args)?;
    let scratch = scratch(train, &place)?;
    let opened = opening(train, &place)?.open(&draft, place)?;

    go_on(watch)?;
    let mut clock = Clock::start();
    let ratings = read(&train.ratings, &train.input, &train.feedback, scratch)?;
    let mut opened = opened.bind(&ratings)?;

    let assumed = assumptions(train, &ratings, &opened);
    let fits = fits.into_iter().map(|fit| with_assumptions(fit, &assumed));
    let tuning = Tuning::new(fits.collect(), how)?;
    let trainer = with_metrics(&tuning, metrics.as_ref(), target);
    let plan = trainer.plan(ratings.catalogue().len(), target, ADJACENCY)?;
    go_on(watch)?;
    let candidates: Vec<_> = tuning.candidates().iter().map(|fit| fit.params()).collect();
    let mut own = json!({
        "method": train.target.method.meant().name(),
        "candidates": candidates,
        "tuning": tuning.params(),
        "items_sha256": catalogue_sha256(ratings.catalogue())?,
    });
    MetricRelease::put(metrics.as_ref(), &mut own);
    let public = opened.public("tune", args, &assumed, own)?;
    let parts = Parts::new(train, ratings, &opened, &public)?;
    let (ratings, own) = (&parts.ratings, parts.own());
    let load = clock.lap();
    let noise = &mut train.output.noise();
    let mut watched = Watched::begin(watch, &plan)?;
    let run = opened.run(&plan, &public);
    let data = TrainedAndHeldOut {
        train: own.train(),
        scored: &|tuned: &TunedModel| scored_by_releases(&tuned.model, own),
    };
    let tuned = run.train(&trainer, &data, noise, &mut watched, |_| false)?;
    let tuned = Measured::certified(tuned);
    let (comparison, chosen) = (comparison(&args.choice, &tuned.model), tuned.model.chosen);
    let fitted = tuned.map(|tuned| tuned.model);
    let release = TrainRelease {
        fitted: &fitted,
        method: methods[chosen],
        params: tuning.candidates()[chosen].params(),
        ratings,
        held_out: held_out_by(train),
        comparison: Some(comparison),
        prior: None,
        run: Some(&public),
    };
    let run = (train, &plan, noise);
    finish(opened, run, &release, &parts.all, Vec::new(), (load, clock))
}

/// Repeats the run of `dp tune` many times with planted users, and measures what the runs reveal
/// about them. Nothing is released, and no ledger is charged.
///
/// # Errors
/// As [`audit`](super::audit::audit()), and when candidates are equal or name an unknown setting. A
/// refuted claim is not an error.
pub fn audit(args: &AuditTuneSettings, watch: &mut dyn Watch) -> Result<AuditOutcome> {
    // everything public is checked before the data are read
    let (run, audited) = (args.run(), &args.audit);
    crate::item_features::refuse_flags(&audited.features)?;
    let target = audited.target.guarantee.target()?;
    let how = comparison_settings(&args.choice);
    let (_, fits) = candidates(&run, how, target)?;
    refuse_single(&args.choice)?;
    let metrics = metric_release_of(&run.train, &fits)?;
    let metrics = metrics.as_ref();
    let tuning = Tuning::new(fits.clone(), how)?;
    with_metrics(&tuning, metrics, target).plan(1, target, ADJACENCY)?;
    let of_each = target_of_each(&run, how, target)?;
    let trials = Trials::new(&audited.trials, USUAL_CANARIES)?;

    go_on(watch)?;
    let (data, _) = data(audited)?;
    let with_length = |fit: &MatrixFactorization| with_length(fit.clone(), &data, of_each, None);
    let all = fits.iter().map(with_length).collect::<Result<Vec<_>>>()?;
    let trained_on = 1.0 - how.held_out_fraction;
    let canaries = canaries(data, trials.n_canaries, (&all[0], trained_on))?;
    warn_of_memory(&all, &canaries, &trials.runs);
    let lengths: Vec<String> = all.iter().map(|p| p.dim.unwrap_or(1).to_string()).collect();
    let (dim, lengths) = (all.iter().filter_map(|p| p.dim).max(), lengths.join(", "));
    let fits = all.into_iter().map(FactorizationParams::check);
    let tuning = Tuning::new(fits.collect::<Result<_, _>>()?, how)?;
    let oracle = TuningOracle::new(tuning.clone());
    let n_items = canaries.n_items();
    let plan = with_metrics(&tuning, metrics, target).plan(n_items, target, ADJACENCY)?;
    let with_plan = |plan| {
        let trainer = AuditedTrainer::new(tuning, n_items, target, ADJACENCY)?;
        Ok(trainer.with_plan(plan).checked_by(oracle))
    };
    let trainer = with_audited_metrics(metrics, &plan, &canaries, with_plan)?;
    let what = Audited {
        data: audited.ratings.as_ref(),
        dim,
        run: format!("candidates with factors of length {lengths}, and the choice among them"),
    };
    what.measure(&*trainer, &canaries, &trials, watch)
}

/// The settings of the release of held-out metrics of a run with these candidates.
fn metric_release_of(
    train: &TrainSettings,
    fits: &[MatrixFactorization],
) -> Result<Option<MetricRelease>> {
    let bounds = fits.iter().map(|fit| fit.params().label_bound);
    let label = LabelBound {
        bound: bounds.fold(0.0, f64::max),
        in_learnt_unit: fits.iter().all(|fit| fit.params().releases_scale()),
    };
    let counted = fits.iter().map(counts_items).collect::<Result<Vec<_>>>()?;
    let is_counted = counted.iter().all(|counts| *counts);
    metric_release(train, label, is_counted)
}

fn comparison_settings(choice: &ChoiceSettings) -> TuningParams {
    TuningParams {
        score_share: choice.score_share,
        held_out_fraction: choice.held_out_fraction,
        ..TuningParams::default()
    }
}

/// The part of the target for each candidate, after the released metrics: its defaults follow from
/// it.
fn target_of_each(args: &TuneSettings, how: TuningParams, target: ApproxDp) -> Result<ApproxDp> {
    let share = args.train.output.metrics.share()?;
    let rest = share.map_or(Ok(target), |share| {
        let mu = (1.0 - share).sqrt() * gdp::mu_for(target)?;
        let epsilon = gdp::epsilon(mu, usable_delta(target.delta));
        Ok::<_, Error>(ApproxDp::target(epsilon, target.delta)?)
    });
    let n = args.choice.candidates.len();
    Ok(Tuning::target_of_each(n, how, rest?, ADJACENCY)?)
}

/// Method and settings of every candidate: defaults for its part of the budget, overridden by
/// flags, overridden by its own settings.
fn candidates(
    args: &TuneSettings,
    how: TuningParams,
    target: ApproxDp,
) -> Result<(Vec<Method>, Vec<MatrixFactorization>)> {
    let own = &args.choice.candidates;
    let of_each = target_of_each(args, how, target)?;
    let train = &args.train;
    let method = train.target.method.meant();
    if train.prior.prior.is_some() || train.prior.opt_in.is_some() {
        let text = "`prior` and `opt_in` are for a single run, not for a choice among candidates";
        return Err(Error::Usage(text.to_owned()));
    }
    settings_for(method, &train.feedback, &train.settings, of_each)?;
    let check = |text: &String| -> Result<(Method, MatrixFactorization)> {
        let (method, params) = with_settings(train, text, of_each)?;
        let checked = params.check().map_err(Error::from);
        let checked = checked.map(|fit| (method, fit));
        checked.map_err(|error| match error {
            Error::Param(param) => {
                let name = format!("`{}`", param.name);
                let reason = param.to_string().replacen(param.name, &name, 1);
                Error::Usage(format!("`candidates` {text}: {reason}"))
            }
            other => other,
        })
    };
    let all = own.iter().map(check).collect::<Result<Vec<_>>>()?;
    let (methods, fits): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    refuse_alike(own, &fits)?;
    Ok((methods, fits))
}

/// Comparing a single candidate would waste the share of the comparison.
fn refuse_single(choice: &ChoiceSettings) -> Result<()> {
    match choice.candidates.len() {
        1 => {
            let text = "`candidates`: there is one, and comparing it with nothing would still cost its share of the budget; give two or more, or train with these settings by `dp train`";
            Err(Error::Usage(text.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Two candidates with the same settings would waste budget.
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

/// The settings that a candidate may override. The score model determines defaults of others, so
/// all candidates have the same.
fn own_settings() -> impl Iterator<Item = Setting> {
    let all = CandidateSettings::table().into_iter();
    all.filter(|setting| setting.name != "score_model")
}

/// Method and settings of a candidate `key=value,...` by the keys of the table.
fn with_settings(
    train: &TrainSettings,
    text: &str,
    of_each: ApproxDp,
) -> Result<(Method, FactorizationParams)> {
    let wrong = |what: &str| Error::Usage(format!("`candidates` {text}: {what}"));
    let mut own = Given::default();
    for setting in text.split(',').map(str::trim).filter(|s| !s.is_empty()) {
        let (key, value) = setting
            .split_once('=')
            .ok_or_else(|| {
                wrong("settings are NAME=VALUE, separated by commas; a range is written as in rating-range=1..5")
            })?;
        let key = key.trim();
        let Some(known) = own_settings().find(|setting| setting.key() == key) else {
            let keys: Vec<String> = own_settings().map(|setting| setting.key()).collect();
            let keys = keys.join(", ");
            return Err(wrong(&format!("{key} is not a setting; there are {keys}")));
        };
        if own.has(&known) {
            let text = format!("{key} is given twice; expected each setting once");
            return Err(wrong(&text));
        }
        // commas separate settings, so two dots separate the numbers of a list
        let values: Vec<&str> = match known.delimiter {
            Some(_) => value.split("..").collect(),
            None => vec![value],
        };
        let values = values.into_iter().map(str::trim);
        own = values.fold(own, |own, value| own.with(known.name, value));
    }
    let own: CandidateSettings = own.settings().map_err(|error| wrong(&error.to_string()))?;
    let method = own.method.unwrap_or(train.target.method).meant();
    let flags = settings_for(method, &train.feedback, &train.settings, of_each);
    let checked = own.settings.check_method(method, train.feedback.feedback);
    let checked = checked.and_then(|()| check_feedback(&train.feedback, &own.settings));
    match flags.and_then(|params| checked.map(|()| own.settings.over(params))) {
        Ok(params) => Ok((method, params)),
        Err(Error::Usage(reason)) => Err(wrong(&reason)),
        Err(error) => Err(error),
    }
}

fn comparison(choice: &ChoiceSettings, tuned: &TunedModel) -> Comparison {
    Comparison {
        candidates: choice.candidates.clone(),
        scores: tuned.scores.clone(),
        noise_stddev: tuned.score_noise_stddev,
        chosen: tuned.chosen,
    }
}
