//! Nights of a subspace that users' linear models share, from tables of labelled rows.

use dp_accounting::Plan;
use dp_core::ApproxDp;
use dp_data::{ColumnRole, SampleColumns};
use dp_personalize::{
    Fitted, NightlySubspace, NightlySubspaceParams, Subspace, SubspaceState, Trainer,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Columns, Comparison, Learned, NightlyReport, RELEASES, SCHEMA, State, days_since_1970, fact,
    horizon_of, in_nights, is_first_night, keep, kept, lifetime_target, name_of_new,
    of_the_unerased, one_night, open_account,
};
use crate::error::{Error, Result};
use crate::output::{PersonalRelease, PersonalReport, Seconds, SubspaceBy};
use crate::personal::{Column, Inputs, Ranges, Task, columns_of, shares_of};
use crate::settings::{ColumnSettings, NightlyInitRowsSettings, NightlyRunRowsSettings};
use crate::warnings;
use crate::watch::{Watch, go_on};
use crate::workflows::personalize::{HeldOut, INTERNAL_REPORT, check_rank};
use crate::workflows::private_run::{Clock, unit_of};
use crate::workflows::train::ADJACENCY;

/// What shapes nights of rows. Public.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RowNights {
    pub(crate) subspace: NightlySubspaceParams,
    pub(crate) inputs: Inputs,
    /// Most rows of a user; the rest are left out.
    pub(crate) max_rows: usize,
}

impl RowNights {
    pub(crate) fn trainer(&self) -> Result<NightlySubspace> {
        Ok(self.subspace.check()?)
    }

    pub(crate) fn plan(&self, target: ApproxDp) -> Result<Plan> {
        Ok(self.trainer()?.plan(self.inputs.dim(), target, ADJACENCY)?)
    }

    /// The columns that nights read.
    fn columns(
        &self,
        user_col: Option<&String>,
        header: Option<&Vec<String>>,
    ) -> Result<SampleColumns> {
        let features = self.inputs.features.iter();
        let settings = ColumnSettings {
            user_col: user_col.cloned(),
            target_col: Some(self.inputs.target.name.clone()),
            feature_cols: Some(features.map(|column| column.name.clone()).collect()),
            header: header.cloned(),
            max_rows: self.max_rows,
        };
        columns_of(&settings, ColumnRole::Target)
    }
}

/// Begins a lifetime of nights that learn a shared subspace: reserves its one event in the ledger and makes the folder. Where that was interrupted, the same
/// settings go on with what was paid for.
///
/// # Errors
/// As [`init`](super::init).
///
/// # Privacy
/// No private data are read. The ledger pays for all nights at once.
pub fn init_rows(args: &NightlyInitRowsSettings) -> Result<NightlyReport> {
    let folder = &args.state;
    let name = name_of_new(folder)?;
    let draft = Inputs {
        target: Column {
            name: String::new(),
            range: None,
        },
        features: Vec::new(),
        intercept: args.intercept,
        task: Task::Regression,
        l2_penalties: Vec::new(),
        sparse: 0,
    };
    let ranges = Ranges::new(&args.ranges)?;
    let inputs = ranges.inputs_of(&draft, &args.feature_cols, &args.target_col)?;
    inputs.check().map_err(Error::Usage)?;
    check_rank(args.rank, inputs.dim(), NightlySubspaceParams::MAX_FEATURES)?;
    let horizon = horizon_of(args.horizon);
    let mut subspace = NightlySubspaceParams::new(args.rank);
    subspace.most_nights = subspace.most_nights.max(4 * horizon);
    let rows = RowNights {
        subspace,
        inputs,
        max_rows: args.max_rows,
    };
    // names of columns are checked before anything is paid
    rows.columns(args.user_col.as_ref(), None)?;
    let mut facts = vec![fact(
        "features",
        format!(
            "{}, subspace of dimension {}",
            rows.inputs.features.len(),
            args.rank
        ),
    )];
    let columns = rows.inputs.features.iter().chain([&rows.inputs.target]);
    let n_unranged = columns.filter(|column| column.range.is_none()).count();
    if n_unranged > 0 {
        let text = format!(
            "{n_unranged} columns have none, and their values are used as they are on every night: --feature-range, --target-range and --bounds give public ranges"
        );
        facts.push(fact("ranges", text));
    }
    let ledger = args.ledger.as_deref().map(std::path::absolute).transpose();
    let mut state = State {
        schema: SCHEMA,
        ledger: ledger.map_err(|e| Error::read(folder, e))?,
        data_set: args.data_set.clone().unwrap_or(name),
        release_id: String::new(),
        target: lifetime_target(args.lifetime_epsilon, args.delta)?,
        pace: dp_accounting::Pace::new(args.pace, horizon)?,
        settings: Learned::Rows(rows),
        min_rating: None,
        feature_cols: None,
        columns: Columns {
            user_col: args.user_col.clone(),
            ..Columns::default()
        },
        user_column: None,
        first_day: days_since_1970(),
        bound_items: None,
    };
    let plan = state.plan()?;
    state.warn_of_target();
    let balance = state.create(folder, &plan, None)?;
    state.begun(folder, &plan, balance, facts, "run-rows")
}

/// Makes tonight's release from all labelled rows that there are, and the subspace that follows from all nights, as [`run`](super::run) does of ratings.
///
/// # Errors
/// As [`run`](super::run).
///
/// # Privacy
/// As [`run`](super::run).
pub fn run_rows(args: &NightlyRunRowsSettings, watch: &mut dyn Watch) -> Result<NightlyReport> {
    let folder = &args.state;
    let mut state = State::of_night(folder, &args.rows, "rows")?;
    let Learned::Rows(rows) = state.settings.clone() else {
        let text = "this state learns from ratings: `dp nightly run` makes its nights";
        return Err(Error::Usage(text.to_owned()));
    };
    let user_col = args.user_col.as_ref().or(state.columns.user_col.as_ref());
    let columns = rows.columns(user_col, args.header.as_ref())?;
    shares_of(args.held_out.no_split, args.held_out.shares.given())?;
    let plan = state.plan()?;
    let night = state.tonight(args.night, args.restored)?;
    let file = state.ledger(folder);
    let has_nights = folder.join(RELEASES).exists();
    let is_first = is_first_night(folder, &file);
    let account = open_account(&file, (false, is_first), &state.data_set, &plan)
        .map_err(|error| in_nights(folder, error))?;
    go_on(watch)?;
    let mut clock = Clock::start();
    let table = dp_data::read_samples(&args.rows, &columns)?;
    let is_settled = state.protects(table.user_column(), has_nights)?;
    let unit = unit_of(table.user_column());
    let comparison = match has_nights {
        true => Comparison::Tell,
        false => Comparison::Refuse,
    };
    let bound = account.bind(&table, comparison);
    let mut account = bound.map_err(|error| in_nights(folder, error))?;
    let table = of_the_unerased(folder, &state, &mut account, &table, |table, keep| {
        table.of_users(keep)
    })?;
    let warnings = warnings::of_rows(&table, state.target.delta);
    let n_left_out = *table.n_not_finite().expose();
    let held_out = HeldOut::new(&args.held_out, rows.max_rows, &rows.inputs, table)?;
    let load = clock.lap();
    go_on(watch)?;
    if !is_settled {
        state.write_settings(folder)?;
    }
    let assumed = state.assumptions().into_iter();
    let assumed = assumed.chain([unit]).chain(account.doubts());
    let trainer = assumed.fold(rows.trainer()?, NightlySubspace::assuming);
    let kept = kept::<SubspaceState>(folder);
    let newest = kept
        .as_ref()
        .map(|kept| (kept.last_night(), kept.n_nights()));
    let trainer = match kept {
        Some(kept) => trainer.continuing(kept),
        None => trainer,
    };
    let samples = held_out.train().samples();
    let (fitted, is_new) = one_night(
        folder,
        &state,
        (&trainer, &plan),
        samples,
        (night, args.restored, newest),
        &mut account,
    )?;
    let train = clock.lap();
    let made = &fitted.model.state;
    keep(folder, made)?;
    let told = state.made((made.last_night(), made.n_nights(), made.moved()), &plan)?;
    let public = state.public();
    let mut fitted: Fitted<Subspace> = fitted.map(|made| made.subspace);
    fitted.certificate = fitted.certificate.with_not_covered(INTERNAL_REPORT);
    let release = PersonalRelease {
        fitted: &fitted,
        inputs: &rows.inputs,
        by: SubspaceBy::Nights(told.made_by(), json!(told)),
        run: &public,
    };
    let mut noise = dp_mechanism::NoiseSource::operating_system();
    let measured = || {
        Ok(PersonalReport {
            release: &release,
            users: held_out.measure(&rows.inputs, &fitted.model, &plan, &mut noise)?,
            by_round: None,
            n_left_out,
            seconds: Seconds {
                load,
                train,
                evaluate: clock.lap(),
            },
        })
    };
    state.write(folder, &told, &release, (measured, warnings), &mut account)?;
    Ok(state.told(folder, &told, &release, is_new))
}
