//! One epsilon: all alphas are trained within it, one of them is chosen, and there is one
//! certificate.

use dp_accounting::{Certificate, Plan};
use dp_fedsgd::{AlphaSelection, SharedModel};
use dp_mechanism::Dealing;
use serde_json::{Value, json};

use super::runs::{AllRuns, Measured, Rows, Runs};
use super::settings::{Settings, by_setting};
use super::source::{Source, items_of};
use crate::error::{Error, Result};
use crate::federated::{
    Convergence, Figures, ItemTable, Offer, Spending, Turning, UserFigures, offered_by,
    users_choose,
};
use crate::metric_release::{self, MetricRelease, TrainedAndHeldOut, with_metrics};
use crate::output::{FederatedRelease, FederatedReport, Seconds};
use crate::quality::Verdict;
use crate::settings::{DataFormat, FederateSettings};
use crate::warnings::{USERS_ELSEWHERE, USERS_ON_DEVICES};
use crate::watch::{Watch, Watched, go_on};
use crate::workers::Place;
use crate::workflows::private_run::{Clock, Opened, Opening};

/// The results at one epsilon.
#[derive(Debug, Clone)]
pub struct CertifiedOutcome {
    /// The certificate of everything that was released.
    pub certificate: Certificate,
    /// The shared parameters of the chosen run.
    pub model: SharedModel,
    /// Ratio of global to local steps of the chosen run.
    pub alpha: f64,
    /// Released values and, separately, internal ones, as JSON with a documented schema.
    pub json: Value,
    /// The same as text, for a terminal.
    pub summary: String,
    /// Whether a baseline is better: by released metrics if the run released some, otherwise by
    /// private ones, and then only with `show_internal` or `fail_if_worse`.
    pub verdict: Option<Verdict>,
}

/// The releases of a run, before any data are read.
pub(super) fn plan(args: &FederateSettings, settings: &Settings) -> Result<Plan> {
    let items = items_of(args)?;
    let n_items = items.as_ref().map(|items| items.catalogue().len());
    let spending = spending(args, settings, n_items)?;
    let (target, metrics) = (settings.targets[0], settings.metrics.as_ref());
    spending.plan_with(1, target, metrics).map_err(by_setting)
}

pub(super) fn run(
    args: &FederateSettings,
    settings: &Settings,
    opening: Opening<'_>,
    watch: &mut dyn Watch,
    place: Place<'_>,
) -> Result<CertifiedOutcome> {
    let is_alone = matches!(place, Place::Alone);
    let (place, devices) = place.without_devices();
    let items = items_of(args)?;
    let n_items = items.as_ref().map(|items| items.catalogue().len());
    let mut spending = spending(args, settings, n_items)?;
    // the number of features affects neither noise nor cost
    let (target, metrics) = (settings.targets[0], settings.metrics.as_ref());
    let draft = spending.plan_with(1, target, metrics).map_err(by_setting)?;
    let opened = opening.open(&draft, place)?;
    go_on(watch)?;
    let mut clock = Clock::start();
    tracing::info!(file = %args.data, "reading rows");
    let source = Source::read(args, settings, items)?;
    let mut opened = opened.bind(&source)?;
    let load = clock.lap();
    go_on(watch)?;
    if !opened.has_no_users() {
        opened.found(source.warnings(draft.target().delta));
    }
    if !is_alone {
        let elsewhere = match &devices {
            Some(_) => USERS_ON_DEVICES,
            None => USERS_ELSEWHERE,
        };
        opened.found(vec![elsewhere.to_owned()]);
    }
    let inputs = source.inputs(settings)?;
    spending.settings = settings.run(args, source.curvature(&inputs, args));
    let plan = spending.resized(&draft, inputs.dim(), metrics)?;
    let all = AllRuns {
        spending,
        inputs,
        shape: settings.shape(args),
        assumptions: assumptions(args, (settings.format, source.user_column()), &opened),
    };
    let own = public_of(args, settings, &all, source.items());
    let public = opened.public("federate", args, &all.assumptions, own)?;
    let (source, shard) = opened.deal(&public, source, |all, keep| all.of_users(keep))?;
    let rows = Rows::of(shard.unwrap_or(source), devices)?;
    let n_rounds = all.spending.settings.n_rounds;
    let is_measured = is_alone && !args.held_out.no_split;
    let mut convergence = is_measured.then(|| Convergence::new(n_rounds));
    let mut turning = Turning::default();
    let mut measured = Measured {
        watched: Some(Watched::begin(watch, &plan)?),
        convergence: convergence.as_mut(),
        turning: &mut turning,
        settings: &all.spending.settings,
        alphas: &all.shape.alphas,
        inputs: &all.inputs,
        rows: &rows,
    };
    let noise = &mut args.output.noise();
    let run = opened.run(&plan, &public);
    let trainer = with_metrics(&all, metrics, target);
    let data = TrainedAndHeldOut {
        train: &rows,
        scored: &|models| all.scored(&rows, models),
    };
    let fitted = run.train(&trainer, &data, noise, &mut measured, |_| false)?;
    let fitted = metric_release::Measured::certified(fitted);
    let watched = convergence.as_ref().map(Convergence::took);
    let watched = watched.unwrap_or_default().as_secs_f64();
    let train = (clock.lap() - watched).max(0.0);
    let chosen = fitted.model.chosen;
    let model = fitted.model.private[chosen].shared.clone();
    let prior = fitted.model.prior.clone();
    let (inputs, run_settings) = (all.inputs.clone(), all.spending.settings);
    let mut runs = Runs::new(all, rows, fitted.model)
        .ok_or_else(|| Error::Usage("nothing was trained".to_owned()))?;
    let items = runs.made.items.take();
    let release = FederatedRelease {
        certificate: fitted.certificate,
        model: &model,
        prior: prior.as_ref(),
        alphas: &settings.alphas,
        chosen,
        inputs: &inputs,
        items: items.as_ref(),
        settings: &run_settings,
        run: &public,
    };
    opened.write(&release)?;
    let (json, summary, verdict) = opened.close(&plan, || {
        tracing::info!("comparing with runs without noise, measuring on held-out rows");
        let [users, held_out] = match is_alone {
            true => {
                runs.compare()?;
                measure(&runs, chosen)?
            }
            // the personal parameters of most users are at workers
            false => Default::default(),
        };
        Ok(FederatedReport {
            release: &release,
            users,
            held_out,
            convergence: convergence.as_ref(),
            n_left_out: runs.made.n_left_out,
            seconds: Seconds {
                load,
                train,
                evaluate: watched + clock.lap(),
            },
        })
    })?;
    if turning.diverged(chosen) {
        return Err(Error::Diverged {
            model: args.output.out.clone(),
        });
    }
    Ok(CertifiedOutcome {
        certificate: release.certificate,
        model,
        alpha: settings.alphas[chosen],
        json,
        summary,
        verdict,
    })
}

/// The inputs to rebuild the model.
fn public_of(
    args: &FederateSettings,
    settings: &Settings,
    all: &AllRuns,
    items: Option<&ItemTable>,
) -> Value {
    let choice = settings
        .has_choice()
        .then_some(args.run.choice.choice_share);
    let mut public = json!({
        "settings": all.spending.settings,
        "inputs": all.inputs,
        "shape": all.shape,
        "choice_share": choice,
        "prior_votes": all.spending.has_votes,
        "n_items": all.spending.n_items,
        "items_sha256": items.map(ItemTable::sha256),
        "format": settings.format.name(),
    });
    MetricRelease::put(settings.metrics.as_ref(), &mut public);
    public
}

pub(super) fn spending(
    args: &FederateSettings,
    settings: &Settings,
    n_items: Option<usize>,
) -> Result<Spending> {
    let choice = if settings.has_choice() {
        let share = args.run.choice.choice_share;
        Some(selection(
            share,
            settings.targets[0].epsilon,
            args.run.choice.loss_range,
        )?)
    } else {
        None
    };
    Ok(Spending {
        settings: settings.run(args, 1.0),
        alphas: settings.releasing(),
        counts_users: args.run.model.n_users.is_none(),
        n_items,
        choice,
        // users who are asked at random, as on devices, send updates only
        has_votes: args.run.model.sampling_probability.is_none(),
    })
}

/// The choice among alphas, which costs a share of epsilon.
pub(crate) fn selection(share: f64, epsilon: f64, loss_range: f64) -> Result<AlphaSelection> {
    dp_core::params::open_unit("choice_share", share)?;
    let selection = AlphaSelection::new(share * epsilon, loss_range);
    selection.map_err(|e| by_setting(e.into()))
}

/// Errors of all runs, and after them of the users' own choices given the chosen run, for training
/// users and for held-out users.
fn measure(runs: &Runs, chosen: usize) -> Result<[Vec<UserFigures>; 2]> {
    let (mut users, mut held_out) = (runs.measure()?, runs.measure_held_out()?);
    if users_choose(&runs.of.inputs) {
        let inputs = &runs.of.inputs;
        let released = offered_by(inputs.task, &runs.models.private[chosen].shared);
        let exact = runs.without_noise(chosen);
        let exact_prior = match &exact {
            Some(exact) => runs.prior_without_noise(exact)?,
            None => None,
        };
        let released = Offer {
            models: &released,
            prior: runs.models.prior.as_ref(),
        };
        let exact = exact.as_ref().map(|models| Offer {
            models,
            prior: exact_prior.as_ref(),
        });
        for (group, figures) in [
            (&runs.made.parts.trained, &mut users),
            (&runs.made.parts.held_out, &mut held_out),
        ] {
            Figures::add_own_choices(inputs, group, released, exact, figures)?;
        }
    }
    Ok([users, held_out])
}

/// The operator's assumptions.
fn assumptions(
    args: &FederateSettings,
    (format, user_column): (DataFormat, Option<&str>),
    opened: &Opened<'_>,
) -> Vec<String> {
    let unit = match format {
        _ if opened.dealing() == Dealing::Devices => {
            "a user is one device, which has all of that person's rows".to_owned()
        }
        DataFormat::Leaf => "a user is one id in the list `users` of the LEAF file".to_owned(),
        DataFormat::Csv | DataFormat::Ratings => {
            opened.unit(user_column, args.run.columns.user_col.as_ref())
        }
    };
    let public = match format {
        DataFormat::Ratings => "the list of items and what it says of them are public",
        DataFormat::Leaf => {
            "the number of features (--n-features), the place of the label and the ranges were known without the data"
        }
        DataFormat::Csv => "names of columns and their ranges are public",
    };
    let own = [args.ledger.assumption().to_owned(), unit, public.to_owned()].into_iter();
    own.chain(opened.dealing_assumptions(&args.ledger))
        .collect()
}
