//! One epsilon: all alphas within it, one of them chosen, one certificate.

use std::time::{Duration, Instant};

use dp_accounting::{Certificate, CertificateBuilder, Plan, ReleaseRecord, Spend};
use dp_fedsgd::{AlphaSelection, PpSgdModel, Provenance, SharedModel};
use serde_json::Value;

use super::choice::Choice;
use super::runs::{Order, Runs};
use super::settings::{Settings, by_setting};
use super::source::{Source, items_of};
use crate::error::Result;
use crate::federated::{
    ADJACENCY, Convergence, Figures, ItemTable, RunSettings, Spending, UserFigures, losses_of_users,
};
use crate::output::{FederatedRelease, FederatedReport, OutputFolder, Seconds};
use crate::personal::Task;
use crate::settings::{DataFormat, FederateSettings};
use crate::watch::{Watch, go_on};
use crate::workflows::ledger::{Account, data_set_id};

/// What is known and open before the data is read.
struct Ready {
    items: Option<ItemTable>,
    spending: Spending,
    draft: Plan,
    account: Account,
    folder: OutputFolder,
}

/// What was paid for, and came of it.
struct Done {
    plan: Plan,
    runs: Runs,
    chosen: usize,
    certificate: Certificate,
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
    let load = start.elapsed();
    go_on(watch)?;
    let start = Instant::now();
    let Done {
        plan,
        mut runs,
        chosen,
        certificate,
    } = train(args, settings, &mut ready, source)?;
    let watched = runs
        .convergence
        .as_ref()
        .map_or(Duration::ZERO, Convergence::took);
    let train = start.elapsed().saturating_sub(watched);
    let (inputs, model) = (runs.inputs.clone(), runs.private[chosen].shared.clone());
    let items = runs.items.take();
    let release = FederatedRelease {
        certificate,
        model: &model,
        alphas: &settings.alphas,
        chosen,
        inputs: &inputs,
        items: items.as_ref(),
        settings: &ready.spending.settings,
    };
    release.write(&ready.folder)?;
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
            convergence: runs.convergence.as_ref(),
            n_left_out: runs.n_left_out,
            seconds: Seconds {
                load: load.as_secs_f64(),
                train: train.as_secs_f64(),
                evaluate: (watched + start.elapsed()).as_secs_f64(),
            },
        };
        report.write_internal(folder)?;
        let balance = ready.account.balance(&plan);
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
    let open = if spending.is_gaussian() {
        Account::open
    } else {
        Account::open_schedule
    };
    let data_set = data_set_id(&args.ledger, &args.data);
    let account = open(&args.ledger, data_set, target, ADJACENCY)?;
    account.check(&draft)?;
    Ok(Ready {
        items,
        spending,
        draft,
        account,
        folder: OutputFolder::create(&args.output.out, args.output.force)?,
    })
}

/// Pays, trains every alpha, and chooses one.
fn train(
    args: &FederateSettings,
    settings: &Settings,
    ready: &mut Ready,
    source: Source,
) -> Result<Done> {
    let inputs = source.inputs(settings)?;
    let spending = &mut ready.spending;
    spending.settings = settings.run(args, source.norm_squared(&inputs));
    let plan = spending.resized(&ready.draft, inputs.dim())?;
    let mut noise = args.output.noise();
    ready.folder.mark_paid()?;
    let spends = ready.account.reserve(&plan)?;
    let records = spends.iter().map(Spend::record).collect();
    let data_set = spends.first().map_or("", Spend::data_set_id).to_owned();
    let mut paid = spending.divide(spends);
    let chosen_by = paid.choice.take();
    let order = Order {
        args,
        settings,
        alphas: &settings.alphas,
        spending,
        plan: &plan,
        measures_rounds: !args.held_out.no_split,
    };
    let runs = order.fill(source, paid, &mut noise)?;
    let chosen = match (&spending.choice, chosen_by) {
        (Some(selection), Some(spend)) => {
            let all: Vec<&PpSgdModel> = runs.private.iter().collect();
            let losses = losses_of_users(&runs.inputs, &runs.parts.trained, &all);
            let of = Choice {
                n_runs: all.len(),
                range: args.choice.loss_range,
                delta: args.delta,
            };
            of.choose(selection, &losses, spend, &mut noise)?
        }
        _ => 0,
    };
    let has_choice = spending.choice.is_some();
    let mut builder = certificate(args, &plan, records, data_set, &runs, has_choice);
    for assumption in assumptions(args, settings.format) {
        builder = builder.assumption(assumption);
    }
    let certificate = builder.build()?;
    Ok(Done {
        plan,
        runs,
        chosen,
        certificate,
    })
}

pub(super) fn spending(
    args: &FederateSettings,
    settings: &Settings,
    n_items: Option<usize>,
) -> Result<Spending> {
    let choice = if settings.has_choice() {
        let share = args.choice.choice_share;
        dp_core::params::open_unit("choice_share", share)?;
        let epsilon = share * settings.targets[0].epsilon;
        let selection = AlphaSelection::new(epsilon, args.choice.loss_range);
        Some(selection.map_err(|e| by_setting(e.into()))?)
    } else {
        None
    };
    let run: RunSettings = settings.run(args, 1.0);
    Ok(Spending {
        settings: run,
        n_runs: settings.releasing().len(),
        counts_users: args.model.n_users.is_none(),
        n_items,
        choice,
    })
}

/// Errors of all runs, and behind them of the users' own choices on the chosen one: of users trained on, and of those held out.
fn measure(runs: &Runs, chosen: usize) -> Result<[Vec<UserFigures>; 2]> {
    let (mut users, mut held_out) = (runs.measure()?, runs.measure_held_out()?);
    if runs.inputs.task == Task::Regression {
        let model = &runs.private[chosen];
        for (group, figures) in [
            (&runs.parts.trained, &mut users),
            (&runs.parts.held_out, &mut held_out),
        ] {
            Figures::add_own_choices(&runs.inputs, group, model, figures)?;
        }
    }
    Ok([users, held_out])
}

/// One certificate of everything that was released.
fn certificate(
    args: &FederateSettings,
    plan: &Plan,
    records: Vec<ReleaseRecord>,
    data_set: String,
    runs: &Runs,
    has_choice: bool,
) -> CertificateBuilder {
    let mut builder = Certificate::builder(plan, data_set)
        .releases(records)
        .released_output(
            "shared parameters of all runs after every round, settings",
            "anyone",
        )
        .not_covered("total running time")
        .not_covered("local parameters, which stay with their users")
        .not_covered("internal report: errors of users and data-handling counts")
        .tuning_included(has_choice);
    if has_choice {
        builder = builder.released_output("which alpha was chosen", "anyone");
    }
    if args.model.n_users.is_none() {
        builder = builder.released_output("noisy number of users", "anyone");
    }
    if args.items.is_some() {
        builder = builder.released_output("noisy counts of the ratings of items", "anyone");
    }
    for assumption in &runs.assumptions {
        builder = builder.assumption(assumption.clone());
    }
    let seeded = |run: &PpSgdModel| run.shared.provenance() == Provenance::SeededNoise;
    if runs.private.iter().any(seeded) {
        builder = builder.not_private("seeded noise");
    }
    builder
}

/// What the operator answers for.
fn assumptions(args: &FederateSettings, format: DataFormat) -> Vec<String> {
    let ledger = match args.ledger.ledger {
        Some(_) => "every run on this data set used the same ledger file",
        None => "this is the only run on this data set: no ledger file was used",
    };
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
    vec![ledger.to_owned(), unit, public.to_owned()]
}
