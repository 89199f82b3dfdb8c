//! Several epsilons: a run for each epsilon and each alpha, for exploration. Nothing of it is
//! released.

use std::path::Path;
use std::time::Instant;

use dp_core::ApproxDp;
use dp_mechanism::Trainer;
use serde_json::Value;

use super::runs::{AllRuns, Rows, Runs, Shape};
use super::settings::{Settings, by_setting};
use super::source::{Source, items_of};
use crate::error::{Error, Result};
use crate::federated::{Figures, Spending};
use crate::output::{ExplorationReport, FrontierPoint, OutputFolder, warn};
use crate::settings::{FederateSettings, LedgerChoice, LedgerFile};
use crate::watch::{Watch, go_on};
use crate::workflows::ledger::{UNNOTED, data_set_id, note_exploration, refuse_unpaid};

/// Results of an exploration: computed from private data, and not covered by any guarantee.
#[derive(Debug, Clone)]
pub struct ExplorationOutcome {
    /// The metrics as JSON with a documented schema.
    pub json: Value,
    /// The same as text, for a terminal.
    pub summary: String,
}

pub(super) fn run(
    args: &FederateSettings,
    settings: &Settings,
    watch: &mut dyn Watch,
) -> Result<ExplorationOutcome> {
    let of_new = |file: &LedgerFile| file.is_new || file.epsilon.is_some();
    if matches!(&args.ledger.account, LedgerChoice::Ledger(file) if of_new(file)) {
        let text = "`new_ledger` and `ledger_epsilon` with several `epsilon`: an exploration releases nothing and is not paid for; \
                    give an existing ledger to record that it was made";
        return Err(Error::Usage(text.to_owned()));
    }
    if args.output.publish_releases {
        let text = "`publish_releases` with several `epsilon`: an exploration releases nothing";
        return Err(Error::Usage(text.to_owned()));
    }
    if args.held_out.shares.held_out_users > 0.0 {
        let text = "`held_out_users` needs a single `epsilon`: an exploration does not measure users who join later";
        return Err(Error::Usage(text.to_owned()));
    }
    let items = items_of(args)?;
    let n_items = items.as_ref().map(|items| items.catalogue().len());
    drop(items);
    for &target in &settings.targets {
        one(args, settings, n_items)
            .plan(1, target)
            .map_err(by_setting)?;
    }
    let (out, force) = (&args.output.out, args.output.force);
    let may_recover = |left: &Path| refuse_unpaid(&args.ledger, left);
    let folder = OutputFolder::create_or_resume(out, force, false, &may_recover)?;
    if let Some(ledger) = args.ledger.file() {
        // before there are any results
        let data_set = data_set_id(&args.ledger, &args.data);
        note_exploration(ledger, Some(&data_set), "several epsilons compared")?;
    } else {
        warn(UNNOTED);
    }
    let start = Instant::now();
    let (mut points, mut metric) = (Vec::new(), "");
    for (at, &target) in settings.targets.iter().enumerate() {
        for &alpha in &settings.alphas {
            go_on(watch)?;
            // with alpha 0 the result is the same at every epsilon, unless features are counted
            if alpha > 0.0 || at == 0 || args.run.items.is_some() {
                let (found, name) = measure(args, settings, alpha, target, at == 0)?;
                metric = name;
                points.extend(found);
            }
        }
    }
    let report = ExplorationReport {
        metric,
        delta: args.delta,
        alphas: &settings.alphas,
        points: &points,
        seconds: start.elapsed().as_secs_f64(),
    };
    report.write(&folder)?;
    folder.commit()?;
    Ok(ExplorationOutcome {
        json: report.json(&args.output),
        summary: report.summary(&args.output),
    })
}

fn one(args: &FederateSettings, settings: &Settings, n_items: Option<usize>) -> Spending {
    Spending {
        settings: settings.run(args, 1.0),
        alphas: vec![1.0],
        counts_users: args.run.model.n_users.is_none(),
        n_items,
        choice: None,
        has_votes: false,
    }
}

/// One alpha at one target: with noise, and at the first target also without.
fn measure(
    args: &FederateSettings,
    settings: &Settings,
    alpha: f64,
    target: ApproxDp,
    is_first: bool,
) -> Result<(Vec<FrontierPoint>, &'static str)> {
    let items = items_of(args)?;
    let n_items = items.as_ref().map(|items| items.catalogue().len());
    let source = Source::read(args, settings, items)?;
    let inputs = source.inputs(settings)?;
    let mut spending = one(args, settings, n_items);
    spending.settings = settings.run(args, source.curvature(&inputs, args));
    let plan = spending.plan(inputs.dim(), target)?;
    let spends = spending.reserve_in_memory(&plan)?;
    let all = AllRuns {
        spending,
        inputs,
        shape: Shape {
            alphas: vec![alpha],
            ..settings.shape(args)
        },
        assumptions: Vec::new(),
    };
    let rows = Rows::of(source, None)?;
    let fitted = all.fit(&rows, &plan, spends, &mut args.output.noise())?;
    let mut runs = Runs::new(all, rows, fitted.model)
        .ok_or_else(|| Error::Usage("nothing was trained".to_owned()))?;
    // with alpha 0 there is no noise to leave out
    let compares = is_first && alpha > 0.0;
    if compares {
        runs.compare()?;
    }
    let users = runs.measure()?;
    let point = |at: usize, epsilon: Option<f64>| {
        let figures = Figures::over(&runs.of.inputs, &users, at, String::new());
        FrontierPoint {
            alpha,
            epsilon,
            over_rows: figures.over_rows,
            median_user: figures.median_user,
        }
    };
    let mut points = Vec::new();
    if alpha > 0.0 || args.run.items.is_some() {
        points.push(point(0, Some(target.epsilon)));
    }
    if is_first {
        points.push(point(usize::from(compares), None));
    }
    let metric = runs.of.inputs.metric();
    Ok((points, metric))
}
