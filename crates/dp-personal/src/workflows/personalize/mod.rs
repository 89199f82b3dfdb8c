//! `dp personalize`: from rows of many users to a private shared subspace and its certificate.

mod audit;
mod held_out;
mod settings;

use dp_accounting::{Certificate, Plan};
use dp_core::Adjacency;
use dp_personalize::{Fitted, Subspace};
use serde_json::{Value, json};

pub use self::audit::audit;
pub(crate) use self::held_out::HeldOut;
use self::settings::Settings;
pub(crate) use self::settings::check_rank;
use crate::error::Result;
use crate::metric_release::{Measured, MetricRelease, TrainedAndHeldOut, with_metrics};
use crate::output::{PersonalRelease, PersonalReport, Seconds, SubspaceBy};
use crate::personal::Task;
use crate::quality::Verdict;
use crate::settings::PersonalizeSettings;
use crate::warnings;
use crate::watch::{Watch, Watched, go_on};
use crate::workers::Place;
use crate::workflows::private_run::{Clock, Opened, Opening};

const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;
/// What certificates of models of labelled rows do not cover.
pub(crate) const INTERNAL_REPORT: &str =
    "internal report: errors of users and data-handling counts";

/// Results of a run.
#[derive(Debug, Clone)]
pub struct PersonalizeOutcome {
    /// The released subspace with its certificate.
    pub fitted: Fitted<Subspace>,
    /// Released values and, separately, internal ones, as JSON with a documented schema.
    pub json: Value,
    /// The same as text, for a terminal.
    pub summary: String,
    /// Whether the best baseline is better: by released metrics if the run released some, otherwise
    /// by private ones, and then only with `show_internal` or `fail_if_worse`.
    pub verdict: Option<Verdict>,
}

/// The releases that [`personalize`] will make with these settings, and its guarantee: public, and
/// known before any data are read. Neither noise nor cost depends on the number of features.
///
/// # Errors
/// When settings are out of range or conflict.
pub fn plan(args: &PersonalizeSettings) -> Result<Plan> {
    Settings::new(args)?.draft_plan(args.run.guarantee.target()?, ADJACENCY)
}

/// Learns the shared subspace of users' linear models from a table of labelled rows, and writes a
/// release folder.
///
/// # Errors
/// Before anything is read, when settings are out of range or conflict, when the output exists or
/// when the ledger's budget is too small; after that, when the data cannot be read or the folder
/// cannot be written.
///
/// # Privacy
/// The contents of the folder are covered by its certificate; measurements on private data go to a
/// separate folder. The run is paid for in the ledger before any noise is drawn.
pub fn personalize(
    args: &PersonalizeSettings,
    watch: &mut dyn Watch,
) -> Result<PersonalizeOutcome> {
    personalize_at(args, watch, Place::Alone)
}

/// [`personalize`] with users in several processes: see [`crate::workers`].
///
/// # Errors
/// As [`personalize`]; [`Error::WorkerDone`](crate::error::Error::WorkerDone) at a worker that has
/// sent its sums; errors of the links.
///
/// # Privacy
/// As [`personalize`]. Exact sums are sent over the links.
pub fn personalize_at(
    args: &PersonalizeSettings,
    watch: &mut dyn Watch,
    place: Place<'_>,
) -> Result<PersonalizeOutcome> {
    args.held_out.shares.check_dealt(place.dealing())?;
    // everything public is checked before the data are read
    let target = args.run.guarantee.target()?;
    let mut settings = Settings::new(args)?;
    let draft = settings.draft_plan(target, ADJACENCY)?;
    let opening = Opening {
        catalogue: None,
        data: &args.run.data,
        inputs: args.run.ranges.bounds.as_deref().into_iter().collect(),
        ledger: &args.ledger,
        resume: &args.resume,
        output: &args.output,
    };
    let opened = opening.open(&draft, place)?;

    go_on(watch)?;
    let mut clock = Clock::start();
    tracing::info!(file = %args.run.data, "reading rows");
    let table = dp_data::read_samples(&args.run.data, &settings.columns)?;
    let mut opened = opened.bind(&table)?;
    let inputs = settings.inputs(&table)?;
    let n_left_out = *table.n_not_finite().expose();
    let clipped = inputs
        .target
        .range
        .filter(|_| inputs.task == Task::Regression);
    let clipped = clipped.and_then(|range| warnings::of_targets(&table, range));
    opened.found(clipped.into_iter().collect());
    opened.found(match opened.has_no_users() {
        true => vec![warnings::USERS_ELSEWHERE.to_owned()],
        false => warnings::of_rows(&table, target.delta),
    });
    let plan = settings.plan(&inputs, target, ADJACENCY)?;
    go_on(watch)?;
    let mut noise = args.output.noise();
    let mut own = json!({
        "settings": settings.method,
        "inputs": inputs,
        "max_rows": args.run.columns.max_rows,
    });
    MetricRelease::put(settings.metrics.as_ref(), &mut own);
    let assumed = assumptions(args, table.user_column(), &opened);
    let public = opened.public("personalize", args, &assumed, own)?;
    let (table, shard) = opened.deal(&public, table, |all, keep| all.of_users(keep))?;
    let max_rows = args.run.columns.max_rows;
    let parts = |table| HeldOut::new(&args.held_out, max_rows, &inputs, table);
    let (held_out, shard) = (parts(table)?, shard.map(parts).transpose()?);
    let own = shard.as_ref().unwrap_or(&held_out);
    let load = clock.lap();
    let mut rounds = held_out.rounds(settings.method.n_steps());
    let mut watched = Watched::begin(watch, &plan)?.with_rounds(&mut rounds);
    let run = opened.run(&plan, &public);
    let trainer = with_metrics(&settings.fit, settings.metrics.as_ref(), target);
    let data = TrainedAndHeldOut {
        train: own.train().samples(),
        scored: &|subspace| own.scored(&inputs, subspace),
    };
    let fitted = run.train(&trainer, &data, &mut noise, &mut watched, |_| false)?;
    let fitted = Measured::certified(fitted);
    let train = clock.lap();

    let fitted = with_assumptions(fitted, assumed);
    let release = PersonalRelease {
        fitted: &fitted,
        inputs: &inputs,
        by: SubspaceBy::Run(&settings.method),
        run: &public,
    };
    opened.write(&release)?;
    let (json, summary, verdict) = opened.close(&plan, || {
        tracing::info!("measuring on held-out rows");
        Ok(PersonalReport {
            release: &release,
            users: held_out.measure(&inputs, &fitted.model, &plan, &mut noise)?,
            by_round: held_out.by_round(&inputs, rounds, fitted.model.user_prior())?,
            n_left_out,
            seconds: Seconds {
                load,
                train,
                evaluate: clock.lap(),
            },
        })
    })?;
    Ok(PersonalizeOutcome {
        fitted,
        json,
        summary,
        verdict,
    })
}

/// The operator's assumptions.
fn assumptions(
    args: &PersonalizeSettings,
    user_column: Option<&str>,
    opened: &Opened<'_>,
) -> Vec<String> {
    let columns = "names of columns and their ranges are public".to_owned();
    let unit = opened.unit(user_column, args.run.columns.user_col.as_ref());
    let own = [columns, args.ledger.assumption().to_owned(), unit].into_iter();
    own.chain(opened.dealing_assumptions(&args.ledger))
        .collect()
}

fn with_assumptions(mut fitted: Fitted<Subspace>, assumed: Vec<String>) -> Fitted<Subspace> {
    let certificate = assumed
        .into_iter()
        .fold(fitted.certificate, Certificate::with_assumption);
    fitted.certificate = certificate.with_not_covered(INTERNAL_REPORT);
    fitted
}
