//! `dp personalize`: rows of many users in, a private shared subspace and its certificate out.

mod audit;
mod held_out;
mod rounds;
mod settings;

use std::time::Instant;

use dp_accounting::Certificate;
use dp_core::{Adjacency, ApproxDp};
use dp_personalize::{Fitted, Subspace};
use serde_json::{Value, json};

pub use self::audit::audit;
use self::held_out::HeldOut;
use self::settings::Settings;
use crate::error::Result;
use crate::output::{OutputFolder, PersonalRelease, PersonalReport, Seconds};
use crate::settings::PersonalizeSettings;
use crate::watch::{Watch, Watched, go_on};
use crate::workflows::ledger::{Account, data_set_id};
use crate::workflows::private_run::PrivateRun;
use crate::workflows::train::{open_output, protect};

const ADJACENCY: Adjacency = Adjacency::AddRemoveUser;

/// What a run left, and what it has to say.
#[derive(Debug, Clone)]
pub struct PersonalizeOutcome {
    /// The released subspace with its certificate.
    pub fitted: Fitted<Subspace>,
    /// What was released and, apart from it, what is internal, by a documented schema.
    pub json: Value,
    /// The same in words, for a terminal.
    pub summary: String,
}

/// Learns the subspace that users' linear models share from a table of labelled rows, and writes a release folder.
///
/// # Errors
/// Before anything is read when settings are out of range or do not go together, when the output exists or when the ledger has
/// no room; after that when the data cannot be read or the folder cannot be written.
///
/// # Privacy
/// What the folder holds beside files whose names begin with `internal` is covered by its certificate; the run is paid for
/// in the ledger before any noise is drawn.
pub fn personalize(
    args: &PersonalizeSettings,
    watch: &mut dyn Watch,
) -> Result<PersonalizeOutcome> {
    // everything public is checked before the data is touched
    let target = ApproxDp::target(args.epsilon, args.delta)?;
    let settings = Settings::new(args)?;
    protect(
        &args.output,
        &[
            Some(args.data.as_path()),
            args.ranges.bounds.as_deref(),
            args.ledger.file(),
        ],
    )?;
    // a model that is there already needs no account
    OutputFolder::recover(&args.output.out, args.output.force)?;
    let draft = settings.draft_plan(target, ADJACENCY)?;
    let data_set = data_set_id(&args.ledger, &args.data);
    let account = Account::open(&args.ledger, data_set, &draft)?;
    let folder = open_output(&args.output, &args.resume, || account.check(&draft))?;

    go_on(watch)?;
    let start = Instant::now();
    tracing::info!(file = %args.data.display(), "reading rows");
    let table = dp_data::read_samples(&args.data, &settings.columns)?;
    let mut account = account.bind(&table)?;
    let inputs = settings.inputs(&table)?;
    let n_left_out = *table.n_not_finite().expose();
    let held_out = HeldOut::new(args, &inputs, table)?;
    let load = start.elapsed();

    let plan = settings.plan(&inputs, target, ADJACENCY)?;
    go_on(watch)?;
    let start = Instant::now();
    let mut noise = args.output.noise();
    let shares = &args.held_out.shares;
    let public = json!({
        "command": "personalize",
        "target": target,
        "settings": settings.method,
        "inputs": inputs,
        "max_rows": args.columns.max_rows,
        "held_out": [shares.test_share, shares.held_out_users],
        "no_split": args.held_out.no_split,
        "split_seed": args.held_out.split_seed,
        "user_column": args.columns.user_col,
        "assumptions": assumptions(args),
    });
    let run = PrivateRun {
        folder: &folder,
        account: &mut account,
        plan: &plan,
        public: &public,
    };
    let mut rounds = held_out.rounds(settings.method.n_steps());
    let mut watched = Watched::begin(watch, &plan)?.with_rounds(&mut rounds);
    let samples = held_out.train().samples();
    let fitted = (settings.fit).fit(samples, run, &mut noise, &mut watched)?;
    let train = start.elapsed();

    let fitted = with_assumptions(fitted, args);
    let release = PersonalRelease {
        fitted: &fitted,
        inputs: &inputs,
        settings: &settings.method,
        run: &public,
    };
    release.write(&folder, args.output.publish_releases)?;
    // from here on the model stays, whatever happens
    let report = folder.commit_after(|folder| {
        let start = Instant::now();
        tracing::info!("measuring on held-out rows");
        let users = held_out.measure(&inputs, &fitted.model, &plan, &mut noise)?;
        let by_round = held_out.by_round(&inputs, rounds)?;
        let report = PersonalReport {
            release: &release,
            users,
            by_round,
            n_left_out,
            seconds: Seconds {
                load: load.as_secs_f64(),
                train: train.as_secs_f64(),
                evaluate: start.elapsed().as_secs_f64(),
            },
        };
        report.write_internal(folder)?;
        Ok(report)
    })?;
    let balance = account.balance(&plan);
    let (json, summary) = (
        report.json(),
        report.summary(&args.output.out, balance.as_deref()),
    );
    Ok(PersonalizeOutcome {
        fitted,
        json,
        summary,
    })
}

/// What the operator answers for.
fn assumptions(args: &PersonalizeSettings) -> [String; 3] {
    let unit = match &args.columns.user_col {
        Some(name) => format!("a user is whoever shares a value of the column `{name}`"),
        None => "a user is whoever shares a value of the user column".to_owned(),
    };
    let columns = "names of columns and their ranges are public".to_owned();
    [columns, args.ledger.assumption().to_owned(), unit]
}

fn with_assumptions(mut fitted: Fitted<Subspace>, args: &PersonalizeSettings) -> Fitted<Subspace> {
    let certificate = assumptions(args)
        .into_iter()
        .fold(fitted.certificate, Certificate::with_assumption);
    fitted.certificate =
        certificate.with_not_covered("internal report: errors of users and data-handling counts");
    fitted
}
