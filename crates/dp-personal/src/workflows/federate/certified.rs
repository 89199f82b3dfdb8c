//! One epsilon: all alphas within it, one of them chosen, one certificate.

use std::time::{Duration, Instant};

use dp_accounting::{Certificate, Plan};
use dp_fedsgd::{AlphaSelection, SharedModel};
use serde_json::{Value, json};

use super::runs::{AllRuns, Measured, Rows, Runs};
use super::settings::{Settings, by_setting};
use super::source::{Source, items_of};
use crate::error::{Error, Result};
use crate::federated::{Convergence, Figures, ItemTable, Spending, UserFigures};
use crate::output::{FederatedRelease, FederatedReport, OutputFolder, Seconds};
use crate::personal::Task;
use crate::settings::{DataFormat, FederateSettings};
use crate::watch::{Watch, Watched, go_on};
use crate::workflows::ledger::{Account, data_set_id};
use crate::workflows::private_run::PrivateRun;
use crate::workflows::train::open_output;

/// What is known and open before the data is read.
struct Ready {
    items: Option<ItemTable>,
    spending: Spending,
    draft: Plan,
    account: Account,
    folder: OutputFolder,
}

/// What was released at one epsilon.
#[derive(Debug, Clone)]
pub struct CertifiedOutcome {
    /// The certificate of everything that was released.
    pub certificate: Certificate,
    /// The shared parameters of the chosen run.
    pub model: SharedModel,
    /// Global over local steps of the chosen run.
    pub alpha: f64,
    /// What was released and, apart from it, what is internal, by a documented schema.
    pub json: Value,
    /// The same in words, for a terminal.
    pub summary: String,
}

pub(super) fn run(
    args: &FederateSettings,
    settings: &Settings,
    watch: &mut dyn Watch,
) -> Result<CertifiedOutcome> {
    let mut ready = prepare(args, settings)?;
    go_on(watch)?;
    let start = Instant::now();
    tracing::info!(file = %args.data.display(), "reading rows");
    let source = Source::read(args, settings, ready.items.take())?;
    let mut account = ready.account.bind(&source)?;
    let load = start.elapsed();
    go_on(watch)?;
    let start = Instant::now();
    let inputs = source.inputs(settings)?;
    ready.spending.settings = settings.run(args, source.norm_squared(&inputs));
    let plan = ready.spending.resized(&ready.draft, inputs.dim())?;
    let all = AllRuns {
        spending: ready.spending,
        inputs,
        shape: settings.shape(args),
        assumptions: assumptions(args, settings.format),
    };
    let public = public(args, settings, &all, source.items());
    let rows = Rows::of(source);
    let n_rounds = all.spending.settings.n_rounds;
    let mut convergence = (!args.held_out.no_split).then(|| Convergence::new(n_rounds));
    let run = PrivateRun {
        folder: &ready.folder,
        account: &mut account,
        plan: &plan,
        public: &public,
    };
    let mut measured = Measured {
        watched: Some(Watched::begin(watch, &plan)?),
        convergence: convergence.as_mut(),
        inputs: &all.inputs,
        rows: &rows,
    };
    let noise = &mut args.output.noise();
    let fitted = run.train(&all, &rows, noise, &mut measured, |_| false)?;
    let watched = convergence
        .as_ref()
        .map_or(Duration::ZERO, Convergence::took);
    let train = start.elapsed().saturating_sub(watched);
    let chosen = fitted.model.chosen;
    let model = fitted.model.private[chosen].shared.clone();
    let (inputs, run_settings) = (all.inputs.clone(), all.spending.settings);
    let mut runs = Runs::new(all, rows, fitted.model)
        .ok_or_else(|| Error::Usage("nothing was trained".to_owned()))?;
    let items = runs.made.items.take();
    let release = FederatedRelease {
        certificate: fitted.certificate,
        model: &model,
        alphas: &settings.alphas,
        chosen,
        inputs: &inputs,
        items: items.as_ref(),
        settings: &run_settings,
        run: &public,
    };
    release.write(&ready.folder, args.output.publish_releases)?;
    // from here on the model stays, whatever happens
    let (summary, json) = ready.folder.commit_after(|folder| {
        let start = Instant::now();
        tracing::info!("comparing with runs without noise, measuring on held-out rows");
        runs.compare()?;
        let [users, held_out] = measure(&runs, chosen)?;
        let report = FederatedReport {
            release: &release,
            users: &users,
            held_out: &held_out,
            convergence: convergence.as_ref(),
            n_left_out: runs.made.n_left_out,
            seconds: Seconds {
                load: load.as_secs_f64(),
                train: train.as_secs_f64(),
                evaluate: (watched + start.elapsed()).as_secs_f64(),
            },
        };
        report.write_internal(folder)?;
        let balance = account.balance(&plan);
        let summary = report.summary(&args.output.out, balance.as_deref());
        Ok((summary, report.json()))
    })?;
    Ok(CertifiedOutcome {
        certificate: release.certificate,
        model,
        alpha: settings.alphas[chosen],
        json,
        summary,
    })
}

/// Everything that can fail without the data.
fn prepare(args: &FederateSettings, settings: &Settings) -> Result<Ready> {
    // a model that is there already needs no account
    OutputFolder::recover(&args.output.out, args.output.force)?;
    let target = settings.targets[0];
    let items = items_of(args)?;
    let n_items = items.as_ref().map(|items| items.catalogue().len());
    let spending = spending(args, settings, n_items)?;
    // the number of features changes neither noise nor cost
    let draft = spending.plan(1, target).map_err(by_setting)?;
    let data_set = data_set_id(&args.ledger, &args.data);
    let account = Account::open(&args.ledger, data_set, &draft)?;
    let folder = open_output(&args.output, &args.resume, || account.check(&draft))?;
    Ok(Ready {
        items,
        spending,
        draft,
        account,
        folder,
    })
}

/// Everything public that shapes the runs.
fn public(
    args: &FederateSettings,
    settings: &Settings,
    all: &AllRuns,
    items: Option<&ItemTable>,
) -> Value {
    let choice = settings.has_choice().then_some(args.choice.choice_share);
    json!({
        "command": "federate",
        "target": settings.targets[0],
        "settings": all.spending.settings,
        "inputs": all.inputs,
        "shape": all.shape,
        "choice_share": choice,
        "n_items": all.spending.n_items,
        "items_sha256": items.map(ItemTable::sha256),
        "format": settings.format.name(),
        "label_index": args.label_index,
        "user_column": args.columns.user_col,
        "assumptions": all.assumptions,
    })
}

pub(super) fn spending(
    args: &FederateSettings,
    settings: &Settings,
    n_items: Option<usize>,
) -> Result<Spending> {
    let choice = if settings.has_choice() {
        let share = args.choice.choice_share;
        Some(selection(
            share,
            settings.targets[0].epsilon,
            args.choice.loss_range,
        )?)
    } else {
        None
    };
    Ok(Spending {
        settings: settings.run(args, 1.0),
        n_runs: settings.releasing().len(),
        counts_users: args.model.n_users.is_none(),
        n_items,
        choice,
    })
}

/// The choice among alphas that costs a share of epsilon.
pub(crate) fn selection(share: f64, epsilon: f64, loss_range: f64) -> Result<AlphaSelection> {
    dp_core::params::open_unit("choice_share", share)?;
    let selection = AlphaSelection::new(share * epsilon, loss_range);
    selection.map_err(|e| by_setting(e.into()))
}

/// Errors of all runs, and behind them of the users' own choices on the chosen one: of users trained on, and of those held out.
fn measure(runs: &Runs, chosen: usize) -> Result<[Vec<UserFigures>; 2]> {
    let (mut users, mut held_out) = (runs.measure()?, runs.measure_held_out()?);
    if runs.of.inputs.task == Task::Regression {
        let model = &runs.models.private[chosen];
        for (group, figures) in [
            (&runs.made.parts.trained, &mut users),
            (&runs.made.parts.held_out, &mut held_out),
        ] {
            Figures::add_own_choices(&runs.of.inputs, group, model, figures)?;
        }
    }
    Ok([users, held_out])
}

/// What the operator answers for.
fn assumptions(args: &FederateSettings, format: DataFormat) -> Vec<String> {
    let unit = match (format, &args.columns.user_col) {
        (DataFormat::Leaf, _) => "a user is one id in the list `users` of the LEAF file".to_owned(),
        (_, Some(name)) => format!("a user is whoever shares a value of the column `{name}`"),
        (_, None) => "a user is whoever shares a value of the user column".to_owned(),
    };
    let public = match format {
        DataFormat::Ratings => "the list of items and what it says of them are public",
        DataFormat::Leaf => {
            "the number of features (--n-features), the place of the label and the ranges were known without the data"
        }
        DataFormat::Csv => "names of columns and their ranges are public",
    };
    vec![args.ledger.assumption().to_owned(), unit, public.to_owned()]
}
