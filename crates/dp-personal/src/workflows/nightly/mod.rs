//! `dp nightly`: a recommender, or a shared subspace, that is updated every night with one budget
//! for each user's lifetime.
//!
//! ```text
//! STATE/nightly.json          public settings, the ledger, the first day
//! STATE/items.csv             items in the order in which they were added, which numbers them, and their features
//! STATE/releases.list         every night's release: public
//! STATE/nights.json           the state computed from the releases, so that no night is processed twice: public
//! STATE/model                 the last night's model, to be published
//! STATE/model-internal        measurements on private data
//! STATE/internal-nights.csv   measurements night by night
//! STATE/internal-erasures.csv when users were erased, and how many; no ids
//! STATE/first-seen, .key      when users were first seen: private, and part of the mechanism
//! .STATE.begun                all of this until the lifetime is paid for and recorded in `nightly.json`
//! ```
//!
//! A night proceeds as follows: it is summed, then its users are written to the store, then the
//! ledger's line is durable, then noise is drawn and the release listed, then the model is written.
//! If the process is killed before the ledger's line is durable, the night was not made; if killed
//! before its release is listed, the night is lost; if killed later, running it again writes its
//! model.

mod rows;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use dp_accounting::{Ledger, LifetimeState, Making, Pace, Plan, PrivacyStatement, gdp};
use dp_core::{ApproxDp, Interactions, InteractionsBuilder, Private, params};
use dp_data::{FeatureVocabulary, ItemCatalogue, TableSource, user_key};
use dp_mechanism::{NoiseSource, PacedLifetime, ReleaseList, Run, Trainer};
use dp_multitask::{FactorModel, Fitted, NightState, NightlyFactorization, NightlyParams, Scoring};
use dp_page::{Block, figure, terminal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use self::rows::RowNights;
pub use self::rows::{init_rows, run_rows};
use super::input::{HeldOut, read, read_again};
use super::items::Nobody;
use super::ledger::{
    Account, BoundAccount, Comparison, HasUsers, is_bound, names_users, note_exploration,
};
use super::private_run::{Clock, name_in_ledger, run_name, unit_of};
use super::publish::{Published, publish as publish_folder, refuse_nested};
use super::train::ADJACENCY;
use crate::columns::pair;
use crate::error::{Error, Result};
use crate::evaluate::{Baseline, Evaluation};
use crate::item_features::read_columns;
use crate::output::{
    Aside, Headline, HeldOutBy, INTERNAL, INTERNAL_PAGE, InternalRun, OutputFolder, RELEASED,
    Release, ReleasedRun, RunReport, Seconds, StagedFolder, TrainRelease, TrainReport,
    TrainSettings, internal_folder_of, pretty, read_run_file, replace_files, replace_private,
    rounded_down, rounded_up, warn,
};
use crate::prior::read_user_ids;
use crate::settings::{
    FeedbackKind, FeedbackSettings, InputSettings, LedgerChoice, LedgerFile, LedgerSettings,
    Method, NightColumnSettings, NightlyEraseSettings, NightlyInitSettings, NightlyPublishSettings,
    NightlyRunSettings, NightlyStatusSettings, ONE_LEDGER, PublishSettings, RatingColumnSettings,
};
use crate::warnings;
use crate::watch::{Watch, go_on};

const SCHEMA: u32 = 2;
/// The schema without [`State::bound_items`].
const SCHEMA_WITHOUT_ITEMS: u32 = 1;
const SETTINGS: &str = "nightly.json";
const ITEMS: &str = "items.csv";
/// The items of a night that has not been made.
const NEXT_ITEMS: &str = "items.next.csv";
const RELEASES: &str = "releases.list";
const KEPT: &str = "nights.json";
pub(crate) const MODEL: &str = "model";
const FIRST_SEEN: &str = "first-seen";
/// The order of items and their features, stored with a model if the catalogue grew or there are
/// features.
pub(crate) const ORDER: &str = "item_order.csv";
const HISTORY: &str = "internal-nights.csv";
const ERASURES: &str = "internal-erasures.csv";
/// Number of nights whose metrics `dp nightly status` prints.
const SHOWN: usize = 7;
const OWN_LEDGER: &str = "ledger";
/// Suffix of the hidden folder of an incomplete state.
const BEGUN: &str = "begun";
const DAY: u64 = 86_400;
/// Ids of users that were given have this bit: see [`Interactions::user_id`].
const GIVEN_IDS: u128 = 1 << 127;

/// The part of the state that is the same every night. Public.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    schema: u32,
    /// The ledger given to `dp nightly init`; if none, the ledger is in the folder.
    ledger: Option<PathBuf>,
    data_set: String,
    /// The id of the lifetime's line in the ledger.
    release_id: String,
    target: ApproxDp,
    pace: Pace,
    settings: Learned,
    min_rating: Option<f64>,
    /// The columns of the catalogue that contain the items' features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    feature_cols: Option<Vec<String>>,
    /// Names of the columns of the nights' data that were given to `init`.
    #[serde(default, skip_serializing_if = "Columns::is_empty")]
    columns: Columns,
    /// The column of user ids on the first night, which all later ones must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_column: Option<String>,
    /// Days since 1970 of the first day.
    first_day: u64,
    /// The items that nights were trained with; none in a state written by an earlier version,
    /// until its next night.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bound_items: Option<BoundItems>,
}

/// What nights learn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Learned {
    /// Items, from ratings or likes.
    Items(Box<NightlyParams>),
    /// A subspace that users' linear models share, from labelled rows.
    Rows(RowNights),
}

/// Names of columns that a night uses unless it is given others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Columns {
    #[serde(skip_serializing_if = "Option::is_none")]
    user_col: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    item_col: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rating_col: Option<String>,
}

impl Columns {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The columns of a night of ratings that was given these.
    fn or_given(&self, given: &NightlyRunSettings) -> RatingColumnSettings {
        let given = given.clone();
        let usual = self.of_nights();
        RatingColumnSettings {
            user_col: given.user_col.or(usual.user_col),
            item_col: given.item_col.or(usual.item_col),
            rating_col: given.rating_col.or(usual.rating_col),
            header: given.header,
        }
    }

    /// The columns of a night of ratings that was given none.
    fn of_nights(&self) -> RatingColumnSettings {
        let usual = self.clone();
        RatingColumnSettings {
            user_col: usual.user_col,
            item_col: usual.item_col,
            rating_col: usual.rating_col,
            header: None,
        }
    }
}

/// The first items of a state, which must be unchanged on later nights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BoundItems {
    n_items: usize,
    /// SHA-256 of their ids and features, with the names of the features. Titles may be corrected.
    sha256: String,
}

impl State {
    /// The name of a feature `column=name`. If column names contain `=`, all possible readings of
    /// it.
    fn names_in<'a>(&'a self, feature: &'a str) -> impl Iterator<Item = &'a str> {
        let columns = self.feature_cols.iter().flatten();
        columns.filter_map(move |column| feature.strip_prefix(column.as_str())?.strip_prefix('='))
    }

    fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(SETTINGS);
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                Error::Usage(format!(
                    "{} is not the folder of a nightly state: `dp nightly init` creates one",
                    folder.display()
                ))
            }
            _ => Error::read(&path, error),
        })?;
        let found: Self = serde_json::from_slice(&bytes).map_err(|e| Error::model(&path, e))?;
        match found.schema {
            SCHEMA if found.bound_items.is_some() || matches!(found.settings, Learned::Rows(_)) => {
                Ok(found)
            }
            SCHEMA => Err(Error::model(&path, "`bound_items` is missing")),
            SCHEMA_WITHOUT_ITEMS => Ok(Self {
                schema: SCHEMA,
                ..found
            }),
            other => Err(Error::model(&path, format!("schema {other} is not known"))),
        }
    }

    /// The state of a night of `data`, which is called `name`.
    fn of_night(folder: &Path, data: &TableSource, name: &str) -> Result<Self> {
        match data.file().filter(|path| path.join(SETTINGS).is_file()) {
            Some(path) if !folder.join(SETTINGS).exists() => Err(Error::Usage(format!(
                "`state` and `{name}` are swapped: {} is the folder of a nightly state, and {} is not",
                path.display(),
                folder.display()
            ))),
            _ => Self::open(folder),
        }
    }

    /// Returns an error if the items differ from those used on earlier nights.
    fn check_items(&self, folder: &Path, items: &Items) -> Result<()> {
        let Some(bound) = &self.bound_items else {
            return Ok(());
        };
        if items.ids.len() >= bound.n_items && items.bound(bound.n_items)? == *bound {
            return Ok(());
        }
        Err(Error::model(
            &folder.join(ITEMS),
            format!(
                "the ids or features of its first {} items are not those that the state was made with ({SETTINGS} has their SHA-256): put the file back. New items are added with \
                 `items`; nothing was paid or released",
                bound.n_items
            ),
        ))
    }

    /// Pays for the lifetime in a hidden folder that gets the state's name when all is there, or goes on where an interrupted call stopped; the ledger's balance.
    /// Nights of ratings have `items`.
    fn create(
        &mut self,
        folder: &Path,
        plan: &Plan,
        items: Option<&[u8]>,
    ) -> Result<Option<String>> {
        let staged = StagedFolder::open(folder, BEGUN)?;
        let is_interrupted = self.go_on_from(&staged.path, items)?;
        let begun = self.begin(&staged.path, plan, is_interrupted);
        if begun.is_err() && !staged.path.join(FIRST_SEEN).exists() {
            // nothing of a lifetime that was not begun stays; one that may be paid for keeps its store
            let _ = fs::remove_dir_all(&staged.path);
        }
        let balance = begun?;
        staged.finish()?;
        Ok(balance.filter(|_| self.ledger.is_some()))
    }

    /// Writes what the lifetime will be in a folder in which nothing is paid for yet, or takes over what an interrupted call wrote there, and says which.
    fn go_on_from(&mut self, staging: &Path, items: Option<&[u8]>) -> Result<bool> {
        if !staging.join(SETTINGS).exists() {
            let items = items.map(|items| (ITEMS, items.to_vec(), false));
            let settings = (SETTINGS, pretty(self)?, false); // last: it says that all is there
            let files: Vec<_> = items.into_iter().chain([settings]).collect();
            return replace_files(staging, &files, &[]).map(|()| false);
        }
        let found = Self::open(staging)?;
        self.first_day = found.first_day;
        let own = Self {
            release_id: found.release_id.clone(),
            bound_items: found.bound_items.clone(), // compared as a file
            ..self.clone()
        };
        let path = staging.join(ITEMS);
        let same_items = match items {
            Some(items) => fs::read(&path).map_err(|e| Error::read(&path, e))? == items,
            None => true,
        };
        if own == found && same_items {
            self.release_id = found.release_id;
            return Ok(true);
        }
        Err(Error::Usage(format!(
            "an interrupted `dp nightly init` left {0}, and its {1} differ from these. To finish it without paying again, repeat it with the settings in {0}/{SETTINGS} and the \
             items in {0}/{ITEMS}. To start over, remove {0}: if its ledger has paid for the lifetime (`dp ledger show`), that budget is lost",
            staging.display(),
            if same_items { "settings" } else { "items" },
        )))
    }

    /// Pays for the lifetime and creates its store; returns the ledger's balance.
    fn begin(
        &mut self,
        staging: &Path,
        plan: &Plan,
        is_interrupted: bool,
    ) -> Result<Option<String>> {
        let file = self.ledger(staging);
        let is_new = file.symlink_metadata().is_err();
        let account = open_account(&file, (is_new, false), &self.data_set, plan)?;
        if !is_interrupted {
            account.check(plan)?;
        }
        let mut account = account.before_users()?;
        let name = name_in_ledger(&self.public())?;
        let (pace, store) = (self.pace, staging.join(FIRST_SEEN));
        self.release_id = account.lifetime(
            |mut ledger| {
                ledger.set_run(Some(name));
                PacedLifetime::begin(ledger, plan, pace, store)
            },
            |lifetime| Ok(lifetime.release_id().to_owned()),
        )?;
        replace_files(staging, &[(SETTINGS, pretty(self)?, false)], &[])?;
        Ok(account.balance(plan))
    }

    fn ledger(&self, folder: &Path) -> PathBuf {
        let own = || folder.join(OWN_LEDGER);
        self.ledger.clone().unwrap_or_else(own)
    }

    /// Checks that a night protects the same users as earlier ones, by the column of their ids;
    /// false if the state did not know it.
    ///
    /// # Errors
    /// [`Error::Usage`] for another column.
    fn protects(&mut self, user_column: Option<&str>, has_nights: bool) -> Result<bool> {
        let Some(now) = user_column else {
            return Ok(true);
        };
        match &self.user_column {
            Some(before) if before == now => Ok(true),
            Some(before) if has_nights => Err(Error::Usage(format!(
                "`user_col`: on earlier nights a user was whoever shares a value of the column `{before}`, and now it would be `{now}`; a lifetime \
                 protects one kind of user. If both columns have the ids of the same people, rename one of them in the table"
            ))),
            // none was made, or by an earlier version
            _ => {
                if has_nights {
                    warn(&format!(
                        "this state does not say from which column earlier nights took their users; this night takes them from `{now}`, and all later ones have to"
                    ));
                }
                self.user_column = Some(now.to_owned());
                Ok(false)
            }
        }
    }

    /// The name of the column of user ids, if one is known; in a file without header a column has a
    /// number, which may be an id.
    fn user_column_name(&self) -> Option<&str> {
        let given = self.columns.user_col.as_ref();
        let name = self.user_column.as_ref().or(given)?;
        Some(name.as_str()).filter(|name| name.parse::<u64>().is_err())
    }

    fn write_settings(&self, folder: &Path) -> Result<()> {
        replace_files(folder, &[(SETTINGS, pretty(self)?, false)], &[])
    }

    /// Settings of nights of ratings or likes.
    fn of_items(&self) -> Result<&NightlyParams> {
        match &self.settings {
            Learned::Items(params) => Ok(params),
            Learned::Rows(_) => {
                let text =
                    "this state learns from labelled rows: `dp nightly run-rows` makes its nights";
                Err(Error::Usage(text.to_owned()))
            }
        }
    }

    fn trainer(&self) -> Result<NightlyFactorization> {
        let trainer = self.of_items()?.clone().check()?;
        let assumed = self.assumptions();
        Ok(assumed
            .into_iter()
            .fold(trainer, |trainer, text| trainer.assuming(text)))
    }

    fn assumptions(&self) -> Vec<String> {
        if matches!(self.settings, Learned::Rows(_)) {
            return vec![
                "names of columns and their ranges are public".to_owned(),
                "the numbers of the nights do not follow from the rows".to_owned(),
                ONE_LEDGER.to_owned(),
            ];
        }
        let mut all = vec![
            "the catalogue does not follow from the ratings".to_owned(),
            "the numbers of the nights do not follow from the ratings".to_owned(),
            ONE_LEDGER.to_owned(),
        ];
        all.extend(self.feature_cols.as_ref().map(|columns| {
            let columns = columns.join(", ");
            format!("columns {columns} of the catalogue do not follow from the ratings")
        }));
        all
    }

    /// The inputs that determine every night, and name their list.
    fn public(&self) -> Value {
        json!({
            "command": "nightly",
            "data_set": self.data_set,
            "target": self.target,
            "adjacency": ADJACENCY,
            "pace": self.pace,
            "settings": self.settings,
            "assumptions": self.assumptions(),
        })
    }

    fn plan(&self) -> Result<Plan> {
        match &self.settings {
            Learned::Items(params) => {
                let most_items = params.most_items;
                Ok(self.trainer()?.plan(most_items, self.target, ADJACENCY)?)
            }
            Learned::Rows(rows) => rows.plan(self.target),
        }
    }

    fn feedback(&self, params: &NightlyParams) -> FeedbackSettings {
        FeedbackSettings {
            feedback: match params.base.feedback {
                dp_multitask::Feedback::Explicit => FeedbackKind::Explicit,
                dp_multitask::Feedback::Implicit(_) => FeedbackKind::Implicit,
            },
            min_rating: self.min_rating,
            split: None,
        }
    }

    /// What users' data will be summed for on the next night.
    fn next_night(&self, kept: Option<&Value>) -> String {
        let kept = kept.unwrap_or(&Value::Null);
        match &self.settings {
            Learned::Items(params) => {
                let level = match self.feedback(params).feedback {
                    FeedbackKind::Explicit => "item biases",
                    FeedbackKind::Implicit => "popularity",
                };
                match kept["n_tastes"].as_u64().unwrap_or(0) {
                    0 => format!("learns {level} alone"),
                    1 => format!("learns {level} and 1 taste"),
                    n => format!("learns {level} and {n} tastes"),
                }
            }
            Learned::Rows(_) => match kept["stage"].as_str() {
                Some(stage) => format!("stage `{stage}`"),
                None => "the first stage".to_owned(),
            },
        }
    }

    /// Whose data a night no longer uses, if there can be such users: from the public horizon alone.
    fn past_horizon(&self, night: u32) -> Option<String> {
        let horizon = self.pace.horizon();
        let last = night.checked_sub(horizon)?;
        Some(format!(
            "users first seen on night {last} or before, if any, have used their budget for {horizon} nights and add nothing: only users who came \
             later can add to the model, and without any it learns nothing new"
        ))
    }

    /// Tonight's number by the calendar.
    fn today(&self) -> u32 {
        let days = days_since_1970().saturating_sub(self.first_day);
        u32::try_from(days).unwrap_or(u32::MAX)
    }

    /// The part of the lifetime's epsilon that a user has spent who took part in the nights with
    /// these ages.
    fn epsilon_of(&self, plan: &Plan, ages: std::ops::Range<u32>) -> Result<f64> {
        let whole = 1_u64 << 50;
        let bounds = self.pace.bounds(whole)?;
        let spoken = bounds
            .iter()
            .zip(0_u32..)
            .filter(|(_, age)| ages.contains(age));
        let squares: f64 = spoken
            .map(|(d, _)| (*d as f64 / whole as f64).powi(2))
            .sum();
        let mu = plan.gdp()?.mu * squares.sqrt();
        Ok(if mu > 0.0 {
            gdp::epsilon(mu, self.target.delta)
        } else {
            0.0
        })
    }
}

fn days_since_1970() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs() / DAY)
}

/// Output of `dp nightly`.
#[derive(Debug)]
pub struct NightlyReport {
    /// JSON for programs.
    pub json: Value,
    /// Text for a terminal.
    pub text: String,
    /// In a status, the error with which the next night would be refused whatever its data.
    pub refused: Option<Error>,
}

/// Begins a lifetime: reserves its one event in the ledger and creates the folder. If that was
/// interrupted, a call with the same settings continues with what was paid for.
///
/// # Errors
/// Before anything is paid, when settings are out of range, the folder exists, the catalogue cannot
/// be read, the ledger's budget is too small, or an interrupted call had other settings.
///
/// # Privacy
/// No private data are read. The ledger pays for all nights at once.
pub fn init(args: &NightlyInitSettings) -> Result<NightlyReport> {
    let folder = &args.state;
    let usage = |text: String| Err(Error::Usage(text));
    let name = name_of_new(folder)?;
    let NightColumnSettings {
        user_col,
        item_col,
        rating_col,
    } = args.columns.clone();
    let columns = Columns {
        user_col,
        item_col,
        rating_col,
    };
    let of_nights = columns.of_nights();
    // names of columns are checked before anything is paid
    of_nights.format(args.feedback == FeedbackKind::Explicit || args.min_rating.is_some())?;
    let names = [&of_nights.user_col, &of_nights.item_col];
    dp_data::check_item_list(&args.items, names.map(|name| name.as_deref()))?;
    let items = Items::of(&args.items, args.feature_cols.as_deref(), None)?;
    let n_items = items.ids.len();
    let most_items = args.most_items.unwrap_or(4 * n_items + 10_000);
    if most_items < n_items {
        return usage(format!(
            "`most_items` {most_items} is less than the {n_items} items of the catalogue"
        ));
    }
    let mut settings = match args.feedback {
        FeedbackKind::Explicit => {
            if args.min_rating.is_some() {
                return usage("`min_rating` needs `feedback` implicit".to_owned());
            }
            let Some([low, high]) = pair("rating_range", args.rating_range.as_deref())? else {
                return usage("give `rating_range`, the smallest and the largest possible rating, as in 1,5: it is public, and must not be read off the data".to_owned());
            };
            NightlyParams::for_ratings(low, high, most_items)
        }
        FeedbackKind::Implicit if args.rating_range.is_some() => {
            return usage("`rating_range` has no meaning with `feedback` implicit".to_owned());
        }
        FeedbackKind::Implicit => NightlyParams::for_likes(most_items),
    };
    settings.n_tastes = args.tastes;
    let horizon = horizon_of(args.horizon);
    settings.most_nights = settings.most_nights.max(4 * horizon);
    let mut state = State {
        schema: SCHEMA,
        ledger: args
            .ledger
            .as_deref()
            .map(std::path::absolute)
            .transpose()
            .map_err(|e| Error::read(folder, e))?,
        data_set: args.data_set.clone().unwrap_or(name),
        release_id: String::new(),
        target: lifetime_target(args.lifetime_epsilon, args.delta)?,
        pace: Pace::new(args.pace, horizon)?,
        settings: Learned::Items(Box::new(settings)),
        min_rating: args.min_rating,
        feature_cols: args.feature_cols.clone(),
        columns,
        user_column: None,
        first_day: days_since_1970(),
        bound_items: Some(items.bound(n_items)?),
    };
    items.describe(state.trainer()?)?;
    let plan = state.plan()?;
    state.warn_of_target();
    let balance = state.create(folder, &plan, Some(&items.bytes()?))?;
    let mut facts = vec![fact("items", format!("{n_items}, room for {most_items}"))];
    if let Some(columns) = &args.feature_cols {
        let n = items.features.len();
        facts.push(fact("features", format!("{n}, of {}", columns.join(", "))));
    }
    state.begun(folder, &plan, balance, facts, "run")
}

/// The name of a state's folder, which must not be there.
fn name_of_new(folder: &Path) -> Result<String> {
    if folder.symlink_metadata().is_ok() {
        let text = format!(
            "`state` {} exists already: give another folder, or go on with its nights",
            folder.display()
        );
        return Err(Error::Usage(text));
    }
    let name = folder.file_name().ok_or_else(|| {
        Error::Usage(format!(
            "`state` {} does not name a folder to be made",
            folder.display()
        ))
    })?;
    Ok(name.to_string_lossy().into_owned())
}

/// The target of a lifetime; an error names the setting.
fn lifetime_target(epsilon: f64, delta: f64) -> Result<ApproxDp> {
    params::finite_positive("lifetime_epsilon", epsilon)?;
    Ok(ApproxDp::target(epsilon, delta)?)
}

fn horizon_of(given: usize) -> u32 {
    u32::try_from(given).unwrap_or(u32::MAX)
}

impl State {
    /// Warns of a target that promises little, before it is paid for.
    fn warn_of_target(&self) {
        for text in warnings::of_settings(self.target, None) {
            warn(&text);
        }
    }

    /// What a call says that has paid for a lifetime.
    fn begun(
        &self,
        folder: &Path,
        plan: &Plan,
        balance: Option<String>,
        own: Vec<(String, String)>,
        command: &str,
    ) -> Result<NightlyReport> {
        let first = self.epsilon_of(plan, 0..1)?;
        let pace = format!(
            "{} nights from the first on which a user is seen; the first night alone has epsilon {first:.3}",
            self.pace.horizon()
        );
        let of_plan = (self.target, plan.counterpart_epsilon());
        let mut facts = lifetime_facts(of_plan).to_vec();
        facts.push(fact("pace", pace));
        facts.extend(balance.map(|balance| fact("ledger", balance)));
        facts.extend(own);
        facts.push(fact("written to", folder.display().to_string()));
        let data = match self.settings {
            Learned::Items(_) => "RATINGS",
            Learned::Rows(_) => "ROWS",
        };
        let next = format!(
            "dp nightly {command} {} {data}, every night",
            folder.display()
        );
        facts.push(fact("next", next));
        let file = self.ledger(folder);
        Ok(NightlyReport {
            json: json!({ "state": folder, "ledger": file, "release_id": self.release_id, "public": self.public() }),
            text: terminal(&[Block::Facts(facts)]),
            refused: None,
        })
    }
}

/// The guarantee of a lifetime under both neighbouring relations, as [`Plan`] or certificate states it.
fn lifetime_facts((target, replace): (ApproxDp, Option<f64>)) -> [(String, String); 2] {
    let ApproxDp { epsilon, delta } = target;
    let replace = replace.map_or_else(
        || PrivacyStatement::NOT_CERTIFIED.to_owned(),
        |epsilon| format!("epsilon {}, delta {delta:e}", rounded_up(epsilon)),
    );
    let lifetime = format!(
        "epsilon {epsilon}, delta {delta:e} for all nights of a user, add or remove one user"
    );
    [
        fact("lifetime", lifetime),
        fact("", format!("{replace}, replace one user")),
    ]
}

fn fact(name: &str, text: String) -> (String, String) {
    (name.to_owned(), text)
}

/// Opens the ledger; `is_first` means that none of its users are known yet.
fn open_account(
    file: &Path,
    (is_new, is_first): (bool, bool),
    data_set: &str,
    plan: &Plan,
) -> Result<Account> {
    let total = is_new.then_some((plan.target().epsilon, plan.target().delta));
    let settings = LedgerSettings {
        account: LedgerChoice::Ledger(LedgerFile {
            is_new,
            epsilon: total.map(|of| of.0),
            delta: total.map(|of| of.1),
            // never in place of users that the ledger knows
            same_data_set: is_first && !names_users(file),
            ..LedgerFile::at(file)
        }),
        data_set: None,
    };
    let account = Account::open(&settings, data_set.to_owned(), plan)?;
    match account.lost_payments() {
        None => Ok(account),
        Some(lost) => Err(Error::Usage(format!(
            "`ledger` {}: {lost}, so nobody knows what is left of its users' lifetimes; nights need a ledger that has every payment",
            file.display()
        ))),
    }
}

/// Items in the order in which they were added, with their public features.
///
/// As a table: `item`, `title`, and a column for each feature, such as `genres=Drama`, with the
/// number of times that the item has that name in that column.
pub(crate) struct Items {
    ids: Vec<String>,
    titles: Vec<String>,
    features: Vec<String>,
    /// Features row by row.
    numbers: Vec<f64>,
}

/// Names that occur in fewer items of the first catalogue are not used as features.
const MIN_ITEMS: usize = 2;

impl Items {
    fn read(folder: &Path) -> Result<Self> {
        Self::of_file(&folder.join(ITEMS))
    }

    /// The order and the features stored with a model, if it has features or its order is not that
    /// of its catalogue.
    pub(crate) fn of_model(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(ORDER);
        match path.exists() {
            true => Ok(Some(Self::of_file(&path)?)),
            false => Ok(None),
        }
    }

    /// The items of a catalogue, with the names in its columns, restricted to `features` if given.
    fn of(path: &Path, columns: Option<&[String]>, features: Option<&[String]>) -> Result<Self> {
        let catalogue = dp_data::read_catalogue(path)?;
        let titles = catalogue.titles().iter().map(Option::clone);
        let mut found = Self {
            ids: catalogue.ids().to_vec(),
            titles: titles.map(Option::unwrap_or_default).collect(),
            features: Vec::new(),
            numbers: Vec::new(),
        };
        let Some(columns) = columns else {
            return Ok(found);
        };
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let table = read_columns(path, &columns)?;
        let named = |column: usize, name: &String| format!("{}={name}", columns[column]);
        found.features = match features {
            Some(features) => features.to_vec(),
            None => {
                let vocabulary = FeatureVocabulary::new(&table, MIN_ITEMS).map_err(|_| {
                    let path = path.display();
                    Error::Usage(format!("`feature_cols`: each column needs a name that {MIN_ITEMS} items of {path} have"))
                })?;
                let all = 0..columns.len();
                all.flat_map(|column| {
                    vocabulary
                        .names(column)
                        .iter()
                        .map(move |name| named(column, name))
                })
                .collect()
            }
        };
        let places: HashMap<&String, usize> = found.features.iter().zip(0..).collect();
        for id in &found.ids {
            let mut row = vec![0.0; places.len()];
            for column in 0..columns.len() {
                let names = table.names(id, column).iter();
                for at in names.filter_map(|name| places.get(&named(column, name))) {
                    row[*at] += 1.0;
                }
            }
            found.numbers.extend(row);
        }
        Ok(found)
    }

    fn of_file(path: &Path) -> Result<Self> {
        let failed = |e: csv::Error| Error::model(path, e);
        let mut reader = csv::Reader::from_path(path).map_err(failed)?;
        let header = reader.headers().map_err(failed)?;
        let features = header.iter().skip(2).map(str::to_owned);
        let mut found = Self {
            ids: Vec::new(),
            titles: Vec::new(),
            features: features.collect(),
            numbers: Vec::new(),
        };
        for row in reader.records() {
            let row = row.map_err(failed)?;
            found.ids.push(row.get(0).unwrap_or_default().to_owned());
            found.titles.push(row.get(1).unwrap_or_default().to_owned());
            for cell in row.iter().skip(2) {
                let number = cell.parse();
                found
                    .numbers
                    .push(number.map_err(|e| Error::model(path, e))?);
            }
        }
        Ok(found)
    }

    /// What a state records about its first items.
    fn bound(&self, n_items: usize) -> Result<BoundItems> {
        let sha256 = dp_accounting::sha256_hex(&self.untitled(n_items).bytes()?);
        Ok(BoundItems { n_items, sha256 })
    }

    /// The first items, without titles.
    fn untitled(&self, n_items: usize) -> Self {
        Self {
            ids: self.ids[..n_items].to_vec(),
            titles: vec![String::new(); n_items],
            features: self.features.clone(),
            numbers: self.numbers[..n_items * self.features.len()].to_vec(),
        }
    }

    fn bytes(&self) -> Result<Vec<u8>> {
        let write = || -> std::result::Result<Vec<u8>, csv::Error> {
            let mut writer = csv::Writer::from_writer(Vec::new());
            let header = ["item", "title"].into_iter();
            writer.write_record(header.chain(self.features.iter().map(String::as_str)))?;
            let n = self.features.len();
            for (at, (id, title)) in self.ids.iter().zip(&self.titles).enumerate() {
                let numbers = self.numbers[at * n..][..n].iter().map(f64::to_string);
                writer.write_record([id.clone(), title.clone()].into_iter().chain(numbers))?;
            }
            writer.into_inner().map_err(|e| e.into_error().into())
        };
        write().map_err(|e| Error::model(Path::new(ITEMS), e))
    }

    /// The trainer of nights with these items.
    pub(crate) fn describe(&self, trainer: NightlyFactorization) -> Result<NightlyFactorization> {
        match self.features.len() {
            0 => Ok(trainer),
            n => Ok(trainer.with_columns(self.numbers.clone(), n)?),
        }
    }

    /// The data needed to rebuild a model, if items have features or are not in the order of its
    /// catalogue.
    fn order_file(&self, numbers: &[u32]) -> Result<Option<Vec<u8>>> {
        if numbers.is_sorted() && self.features.is_empty() {
            return Ok(None);
        }
        self.untitled(self.ids.len()).bytes().map(Some)
    }

    /// The number in a night of each item of the catalogue.
    pub(crate) fn numbers(&self, catalogue: &ItemCatalogue) -> Result<Vec<u32>> {
        let mut numbers = vec![u32::MAX; catalogue.len()];
        for (number, id) in (0_u32..).zip(&self.ids) {
            if let Some(at) = catalogue.index(id) {
                numbers[at] = number;
            }
        }
        match numbers.contains(&u32::MAX) {
            true => Err(Error::Usage(format!("{ITEMS} has an item twice"))),
            false => Ok(numbers),
        }
    }

    /// Appends the items of a catalogue that are new.
    fn add(&mut self, new: Self) {
        let known: HashSet<String> = self.ids.iter().cloned().collect();
        let n = self.features.len();
        for (at, (id, title)) in new.ids.into_iter().zip(new.titles).enumerate() {
            if !known.contains(&id) {
                self.ids.push(id);
                self.titles.push(title);
                self.numbers.extend(&new.numbers[at * n..][..n]);
            }
        }
    }
}

/// The items of tonight: those so far, unchanged, followed by the new items of a catalogue; and
/// whether the state on disk does not have them yet. They are then in [`NEXT_ITEMS`], and recorded
/// when the night has been read and checked, so that a wrong catalogue can be corrected.
fn tonights_items(
    folder: &Path,
    catalogue: Option<&Path>,
    state: &mut State,
) -> Result<(Items, bool)> {
    let mut items = Items::read(folder)?;
    state.check_items(folder, &items)?;
    if let Some(catalogue) = catalogue {
        add_items(&mut items, catalogue, state)?;
    }
    let bound = Some(items.bound(items.ids.len())?);
    let are_new = state.bound_items != bound;
    if are_new {
        state.bound_items = bound;
        replace_files(folder, &[(NEXT_ITEMS, items.bytes()?, false)], &[])?;
    }
    Ok((items, are_new))
}

/// Appends the items of a catalogue that are new. Their features are restricted to those of the
/// first catalogue.
fn add_items(items: &mut Items, catalogue: &Path, state: &State) -> Result<()> {
    let new = Items::of(
        catalogue,
        state.feature_cols.as_deref(),
        Some(&items.features),
    )?;
    let titles: HashMap<&String, &String> = items.ids.iter().zip(&items.titles).collect();
    let titled = (new.ids.iter().zip(&new.titles))
        .filter_map(|(id, new)| Some((new, *titles.get(id)?)))
        .filter(|(new, old)| !new.is_empty() && !old.is_empty());
    let (n_titled, n_other) = titled.fold((0, 0), |(n, other), (new, old)| {
        (n + 1, other + usize::from(new != old))
    });
    if 2 * n_other > n_titled {
        return Err(Error::Usage(format!(
            "{n_other} of the {n_titled} items that `items` {} shares with the catalogue so far have other titles there: it is a catalogue of other items, or its ids have changed",
            catalogue.display()
        )));
    }
    items.add(new);
    let (n_items, most) = (items.ids.len(), state.of_items()?.most_items);
    if n_items > most {
        return Err(Error::Usage(format!(
            "`items` brings the catalogue to {n_items} items, and this state has room for {most}: create a new one with a larger `most_items`"
        )));
    }
    Ok(())
}

/// The table with items by their numbers in a night. Its users keep their ids, which are those of
/// the data: with row numbers, a user would become another one whenever a row is added or removed.
fn numbered(table: &Private<Interactions>, numbers: &[u32]) -> Result<Private<Interactions>> {
    let table = table.expose();
    if (0..table.n_users()).any(|user| table.user_id(user) < GIVEN_IDS) {
        let text = "the users of these ratings have no ids of their own";
        return Err(Error::Usage(text.to_owned()));
    }
    let mut builder = InteractionsBuilder::new(numbers.len());
    for (user, row) in (0_u32..).zip(table.users()) {
        for (item, value) in row.iter() {
            builder.push(user, numbers[item as usize], value)?;
        }
        builder.set_id(user, table.user_id(user as usize));
    }
    builder.ensure_users(table.n_users());
    Ok(Private::new(builder.build().0))
}

/// The model with items in the order of the catalogue. Items added after the night have zeros, with
/// the largest standard error of each coordinate.
pub(crate) fn by_catalogue(model: &FactorModel, numbers: &[u32]) -> Result<FactorModel> {
    let dim = model.dim();
    let in_order = |rows: &[f64], later: &[f64]| -> Vec<f64> {
        let rows = numbers.iter().flat_map(|&number| {
            let at = number as usize * dim;
            rows.get(at..at + dim).unwrap_or(later)
        });
        rows.copied().collect()
    };
    let rows = in_order(model.item_factors(), &vec![0.0; dim]);
    let ordered = FactorModel::new(*model.scoring(), rows, model.provenance())?;
    let Some(errors) = model.standard_errors() else {
        return Ok(ordered);
    };
    let mut largest = vec![0.0; dim];
    for row in errors.chunks_exact(dim) {
        let pairs = largest.iter_mut().zip(row);
        pairs.for_each(|(most, error): (&mut f64, _)| *most = most.max(*error));
    }
    Ok(ordered.with_standard_errors(in_order(errors, &largest))?)
}

/// The item biases of a model of ratings that has more: post-processing.
fn biases_alone(model: &FactorModel) -> Result<Option<FactorModel>> {
    let scoring = *model.scoring();
    if scoring.dim == 1 || scoring.unobserved_weight.is_some() {
        return Ok(None);
    }
    let rows = model.item_factors().chunks_exact(scoring.dim);
    let alone = Scoring {
        dim: 1,
        n_effects: 0,
        ..scoring
    };
    let biases = rows.map(|row| row[0]).collect();
    Ok(Some(FactorModel::new(alone, biases, model.provenance())?))
}

/// The settings recorded with a night's release.
#[derive(Debug, Clone, Serialize)]
struct NightSettings {
    #[serde(flatten)]
    params: NightlyParams,
    #[serde(flatten)]
    night: Night,
    /// The items in the order in which they came, where the catalogue grew or they have features.
    #[serde(skip)]
    order: Option<Vec<u8>>,
}

/// The same, whatever is learned.
#[derive(Debug, Clone, Serialize)]
struct Night {
    /// Number of the night.
    night: u32,
    /// Number of nights that were made.
    n_nights: usize,
    /// Epsilon of all nights of a user.
    lifetime_epsilon: f64,
    /// Number of nights of a user.
    horizon: u32,
    /// Epsilon of this night alone for a user whose first night it is.
    epsilon_of_first_night: f64,
    /// How far the item biases, or the subspace, moved since the night before.
    moved: Option<f64>,
}

impl Night {
    fn made_by(&self) -> String {
        let (n, horizon) = (self.n_nights, self.horizon);
        let nights = if n == 1 { "night" } else { "nights" };
        format!("{n} {nights}, on a budget for {horizon} nights of each user")
    }
}

impl TrainSettings for NightSettings {
    fn more_files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let order = self.order.iter().cloned();
        order.map(|bytes| (ORDER, bytes)).collect()
    }

    fn n_rounds(&self) -> usize {
        self.night.n_nights
    }

    fn dim_by_rule(&self) -> bool {
        false
    }

    fn label_bound(&self) -> Option<f64> {
        self.params.base.label_bound()
    }

    fn rating_range(&self) -> Option<[f64; 2]> {
        self.params.base.rating_range()
    }

    fn command(&self) -> &'static str {
        "nightly"
    }

    fn made_by(&self, _: Method) -> String {
        self.night.made_by()
    }
}

/// Makes tonight's release from all current ratings, and the model that follows from all nights.
///
/// The default number of the night is the number of days since [`init`]. For a night that was made
/// before, nothing is paid, and the model is written again; missed nights are skipped.
///
/// # Errors
/// Before anything is paid, when a file cannot be read, users are not those of the ledger, the
/// store of first nights is missing, older or changed, or the night has passed.
///
/// # Privacy
/// The contents of `STATE/model` and `STATE/releases.list` are covered by the certificate of the
/// lifetime. See [`PacedLifetime`].
pub fn run(args: &NightlyRunSettings, watch: &mut dyn Watch) -> Result<NightlyReport> {
    let folder = &args.state;
    let mut state = State::of_night(folder, &args.ratings, "ratings")?;
    let params = state.of_items()?.clone();
    let trainer = state.trainer()?;
    let plan = state.plan()?;
    let night = state.tonight(args.night, args.restored)?;
    let columns = state.columns.or_given(args);
    let file = state.ledger(folder);
    let is_first = is_first_night(folder, &file);
    let account = open_account(&file, (false, is_first), &state.data_set, &plan)
        .map_err(|error| in_nights(folder, error))?;
    if let Some(items) = &args.items {
        let names = [&columns.user_col, &columns.item_col];
        let names = names.map(|name| name.as_deref());
        dp_data::check_catalogue(items, &args.ratings, names)?;
    }
    let (items, are_new) = tonights_items(folder, args.items.as_deref(), &mut state)?;
    go_on(watch)?;
    let mut clock = Clock::start();
    let feedback = state.feedback(&params);
    let catalogue = if are_new { NEXT_ITEMS } else { ITEMS };
    let input = InputSettings {
        items: Some(folder.join(catalogue)),
        item_ids_are_public: false,
        columns,
    };
    let ratings = match is_first {
        true => read(&args.ratings, &input, &feedback, None)?,
        false => read_again(&args.ratings, &input, &feedback)?,
    };
    let has_nights = folder.join(RELEASES).exists();
    let is_settled = state.protects(ratings.user_column(), has_nights)?;
    let trainer = items.describe(trainer)?;
    let features = items.features.iter();
    let names = features.flat_map(|feature| state.names_in(feature));
    dp_data::check_no_user_ids(folder.join(ITEMS), names, &ratings)?;
    let numbers = items.numbers(ratings.catalogue())?;
    let comparison = match has_nights {
        true => Comparison::Tell,
        false => Comparison::Refuse,
    };
    let bound = account.bind(&ratings, comparison);
    let mut account = bound.map_err(|error| in_nights(folder, error))?;
    // with the keys of users' ids: rows are numbered anew every night
    let ratings = of_the_unerased(folder, &state, &mut account, &ratings, |ratings, keep| {
        ratings.of_users(keep)
    })?;
    let split = HeldOut::new(&feedback, &args.split, &ratings)?;
    let table = numbered(split.train(), &numbers)?;
    let load = clock.lap();
    go_on(watch)?;
    if are_new {
        // in this order: items not yet recorded may follow those that are
        let files = [
            (ITEMS, items.bytes()?, false),
            (SETTINGS, pretty(&state)?, false),
        ];
        replace_files(folder, &files, &[NEXT_ITEMS])?;
    } else if !is_settled {
        state.write_settings(folder)?;
    }
    let kept = kept::<NightState>(folder);
    let newest = kept
        .as_ref()
        .map(|kept| (kept.last_night(), kept.n_nights()));
    let trainer = match kept {
        Some(kept) => trainer.continuing(kept),
        None => trainer,
    };
    let assumed = [unit_of(ratings.user_column())].into_iter();
    let assumed = assumed.chain(account.doubts());
    let trainer = assumed.fold(trainer, NightlyFactorization::assuming);
    let (fitted, is_new) = one_night(
        folder,
        &state,
        (&trainer, &plan),
        &table,
        (night, args.restored, newest),
        &mut account,
    )?;
    let train = clock.lap();
    let made = &fitted.model.state;
    keep(folder, made)?;
    let settings = NightSettings {
        params,
        night: state.made((made.last_night(), made.n_nights(), made.moved()), &plan)?,
        order: items.order_file(&numbers)?,
    };
    let model = by_catalogue(&fitted.model.model, &numbers)?;
    let fitted = fitted.map(|_| model);
    let public = state.public();
    let release = TrainRelease {
        fitted: &fitted,
        method: Method::Pooled,
        params: &settings,
        ratings: &ratings,
        held_out: HeldOutBy {
            no_split: args.split.no_split,
            split_seed: args.split.split_seed,
            min_rating: state.min_rating,
        },
        comparison: None,
        prior: None,
        run: Some(&public),
    };
    let mut warnings = warnings::of_ratings(release.ratings, state.target.delta);
    let range = settings.rating_range();
    warnings.extend(range.and_then(|range| {
        let remedy = "a state keeps its range, so create a new state with the right one";
        warnings::of_range(release.ratings, range, remedy)
    }));
    let biases = biases_alone(&release.fitted.model)?;
    let biases = biases
        .as_ref()
        .map(|of| Baseline::Model("item biases (of this model, without the rest)", of));
    let measured = || {
        Ok(TrainReport {
            release: &release,
            metrics: Evaluation::measure(release.fitted, &split, biases.as_slice())?,
            by_round: None,
            seconds: Seconds {
                load,
                train,
                evaluate: clock.lap(),
            },
        })
    };
    state.write(
        folder,
        &settings.night,
        &release,
        (measured, warnings),
        &mut account,
    )?;
    Ok(state.told(folder, &settings.night, &release, is_new))
}

/// Converts ledger errors of a run to errors of nights, which cannot be continued with other users
/// or an older ledger.
fn in_nights(folder: &Path, error: Error) -> Error {
    let state = folder.to_owned();
    match error {
        Error::OtherUsers { .. } => Error::Nights {
            state,
            reason: "fewer than half of these users are those of earlier runs of its ledger; users keep their ids, since whoever is renamed \
                     has a new budget",
        },
        Error::LedgerCut { .. } => Error::Nights {
            state,
            reason: "its ledger was truncated or is an older copy: restore the newest copy, or all files of one copy and then make the next night with `restored`",
        },
        Error::Binding { .. } => Error::Nights {
            state,
            reason: "the .key or .users file next to its ledger is missing or is not the ledger's: restore both from a copy; without them its \
                     users cannot be told from others",
        },
        Error::Accounting(dp_accounting::Error::LedgerMissing { .. }) => Error::Nights {
            state,
            reason: "its ledger is missing: put it back from the newest copy, with first-seen and releases.list of the same night. A new one would not \
                     know what was spent",
        },
        other => other,
    }
}

/// Tonight's data without users who were erased. They would contribute nothing, but would still be
/// in the internal measurements. Refuses users of whom none was there before, while none of them is
/// recorded with the ledger.
fn of_the_unerased<T: HasUsers>(
    folder: &Path,
    state: &State,
    account: &mut BoundAccount,
    data: &T,
    of_users: impl FnOnce(&T, &dyn Fn(u128) -> bool) -> T,
) -> Result<T> {
    let (id, store) = (state.release_id.clone(), folder.join(FIRST_SEEN));
    account.lend(
        |ledger| PacedLifetime::resume(ledger, id, store),
        |lifetime| {
            let ids = data.user_ids();
            if lifetime.knows_nobody_of(ids.expose().iter().map(|id| user_key(id))) {
                return Err(Error::Releases(dp_mechanism::Error::FirstSeen {
                    path: lifetime.path().to_owned(),
                    what: STRANGERS,
                }));
            }
            Ok(of_users(data, &|id| !lifetime.is_erased(id)))
        },
    )
}

/// What was kept of earlier nights; a file that cannot be read is made again.
fn kept<T: DeserializeOwned>(folder: &Path) -> Option<T> {
    let bytes = fs::read(folder.join(KEPT)).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn keep(folder: &Path, made: &impl Serialize) -> Result<()> {
    replace_files(folder, &[(KEPT, serde_json::to_vec(made)?, false)], &[])
}

const STRANGERS: &str = "it knows none of tonight's users: users keep their ids for a lifetime, since a user whose id changes has a new budget. Give the data of the earlier nights as they are now, or create a \
                         state for other users";

/// Refuses a ledger that is older than what was kept of the nights, and a list that lacks them.
fn check_is_newest(
    folder: &Path,
    (kept, n_listed): (Option<(u32, usize)>, usize),
    found: &LifetimeState,
) -> Result<()> {
    let reason = if kept.map(|(last, _)| last) > found.last_night {
        "its ledger is older than nights.json: it was restored from a copy. Make the next night with `restored` and a `night` above all nights that were made, so that users who \
         are not in the copy do not get a second budget"
    } else if kept.is_some_and(|(_, n_nights)| n_listed < n_nights) {
        "releases.list lacks nights that nights.json has: put its newest copy back, or go on without these nights with `restored` and a `night` above all nights that were made"
    } else if n_listed == 0 && found.n_nights > 1 {
        "releases.list lacks the nights that the ledger paid for: put its newest copy back, or begin the model again from nothing with `restored` and a `night` above all \
         nights that were made"
    } else {
        return Ok(());
    };
    Err(Error::Nights {
        state: folder.to_owned(),
        reason,
    })
}

/// Says that the model lacks nights that the ledger paid for: public, since both are counts of nights.
fn warn_of_unlisted(folder: &Path, n_listed: usize, found: &LifetimeState) {
    let missing = found.n_nights.saturating_sub(n_listed);
    if missing > 0 {
        warn(&format!(
            "{}: the ledger paid for {missing} more {} than releases.list has, and the model is made without what they released: either crashes \
             lost them, or the list is an older copy; then put the newest one back before the next night",
            folder.display(),
            if missing == 1 { "night" } else { "nights" }
        ));
    }
}

/// The night, and whether it was made now.
fn one_night<T: Trainer>(
    folder: &Path,
    state: &State,
    (trainer, plan): (&T, &Plan),
    data: &T::Data,
    (night, was_restored, kept): (u32, bool, Option<(u32, usize)>),
    account: &mut BoundAccount,
) -> Result<(Fitted<T::Model>, bool)>
where
    Error: From<T::Error>,
{
    let name = run_name(&state.public())?;
    let list = ReleaseList::open(folder.join(RELEASES), &name, plan)?;
    let before = list.paid_before().len();
    let (id, store) = (state.release_id.clone(), folder.join(FIRST_SEEN));
    let noise = &mut NoiseSource::operating_system();
    let mut fitted = account.lifetime(
        |ledger| {
            let lifetime = PacedLifetime::resume(ledger, id, store)?;
            Ok(match was_restored {
                true => lifetime.restored(),
                false => lifetime,
            })
        },
        |lifetime| {
            let found = lifetime.state()?;
            if !was_restored {
                check_is_newest(folder, (kept, before), &found)?;
                warn_of_unlisted(folder, before, &found);
            }
            let is_made = |last: &u32| *last > night || was_restored && *last == night;
            if let Some(last) = found.last_night.filter(is_made) {
                let text = format!(
                    "tonight would be night {night}, and night {last} was made already: give `night`, a number above {last}; without it the number is the days since the state was made, so a clock that was set back gives a smaller one"
                );
                return Err(Error::Usage(text));
            }
            let run = Run::nightly(plan, lifetime, night, noise)?;
            Ok(trainer.run(data, run.listed_in(list))?)
        },
    )?;
    let is_new = fitted.n_releases > before;
    // settings were chosen when the state was made: who looked later did not choose them
    let looked = account.explorations_before(&state.release_id);
    let certificate = fitted.certificate.after_explorations(&looked);
    fitted.certificate = certificate.with_released_output(
        format!(
            "how many nights there were, and the pace of a lifetime: it is the {} nights from the first on which a user is seen, after which the user's data are not used",
            state.pace.horizon()
        ),
        "anyone",
    );
    Ok((fitted, is_new))
}

impl State {
    /// Tonight's number, as it was given or by the calendar.
    fn tonight(&self, given: Option<usize>, was_restored: bool) -> Result<u32> {
        match given {
            Some(night) => {
                // a wrong one would take the lifetimes of all users
                let most = self.today().saturating_add(self.pace.horizon());
                let fits = u32::try_from(night).ok().filter(|night| *night <= most);
                fits.ok_or_else(|| {
                    Error::Usage(format!(
                        "`night` {night} is above {most}, the days since the state was made and a horizon more: it counts days, and no \
                         earlier night can be made after it"
                    ))
                })
            }
            None if was_restored => {
                let text = "`restored` needs `night`, a number above those of all nights that were made: none may be made twice";
                Err(Error::Usage(text.to_owned()))
            }
            None => Ok(self.today()),
        }
    }

    /// What is said of the last night, from its number, how many there were and how far it moved the model.
    fn made(
        &self,
        (night, n_nights, moved): (u32, usize, Option<f64>),
        plan: &Plan,
    ) -> Result<Night> {
        Ok(Night {
            night,
            n_nights,
            lifetime_epsilon: self.target.epsilon,
            horizon: self.pace.horizon(),
            epsilon_of_first_night: self.epsilon_of(plan, 0..1)?,
            moved,
        })
    }

    /// Writes the model, then what `measured` finds on private data.
    fn write<R: RunReport>(
        &self,
        folder: &Path,
        night: &Night,
        release: &impl Release,
        (measured, mut warnings): (impl FnOnce() -> Result<R>, Vec<String>),
        account: &mut BoundAccount,
    ) -> Result<()> {
        let out = folder.join(MODEL);
        // what a killed run left is made again from the list
        match OutputFolder::recover(&out, true, &|_| Ok(())) {
            Ok(()) | Err(Error::Recovered { .. }) => {}
            Err(error) => return Err(error),
        }
        let files = OutputFolder::create(&out, true)?;
        release.write(&files, false, &[])?;
        let report = measured()?;
        if account.has_other_users() {
            warnings.push(
                "fewer than half of tonight's users are known from earlier nights. Users must keep their ids: a user with a new id gets a new budget"
                    .to_owned(),
            );
        }
        let aside = Aside {
            ledger: Some(self.ledger(folder)),
            warnings,
        };
        files.commit_after(
            |files| report.write_internal(files, &aside),
            |hidden| account.confirm(hidden),
        )?;
        let headline = report.internal().headline;
        let baseline = report.quality().and_then(|quality| quality.best_baseline());
        add_history(folder, night.night, headline, baseline)
    }
}

/// Adds the night's held-out metric and that of the best baseline to the history, for the
/// owner only.
fn add_history(
    folder: &Path,
    night: u32,
    figures: Option<Headline>,
    baseline: Option<(String, f64)>,
) -> Result<()> {
    let path = folder.join(HISTORY);
    let Some(Headline { metric, value, .. }) = figures else {
        return Ok(());
    };
    let old = history(folder).into_iter().filter(|of| of.night != night);
    let (baseline, baseline_value) = baseline.unzip();
    let now = NightFigure {
        night,
        metric,
        value,
        baseline,
        baseline_value,
    };
    write_rows(&path, &old.chain([now]).collect::<Vec<_>>())
}

/// Replaces a private table.
fn write_rows(path: &Path, rows: &[impl Serialize]) -> Result<()> {
    let write = || {
        let mut writer = csv::Writer::from_writer(Vec::new());
        rows.iter().try_for_each(|row| writer.serialize(row))?;
        writer.into_inner().map_err(|e| e.into_error().into())
    };
    let bytes = write().map_err(|e: csv::Error| Error::model(path, e))?;
    replace_private(path, &bytes)
}

/// The rows of a table; those that cannot be read are left out.
fn rows_of<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let rows = csv::Reader::from_path(path).map(csv::Reader::into_deserialize);
    rows.into_iter().flatten().flatten().collect()
}

/// A call that erased users: private, and without their ids.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Erasure {
    /// In UTC.
    time: String,
    n_ids: usize,
}

/// A held-out metric of a night: private.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct NightFigure {
    night: u32,
    metric: String,
    value: f64,
    /// The best baseline, on the same records. Earlier versions wrote none.
    #[serde(default)]
    baseline: Option<String>,
    #[serde(default)]
    baseline_value: Option<f64>,
}

/// The stored history.
fn history(folder: &Path) -> Vec<NightFigure> {
    rows_of(&folder.join(HISTORY))
}

impl State {
    /// What a call says that has made a night.
    fn told(
        &self,
        folder: &Path,
        settings: &Night,
        release: &impl Release,
        is_new: bool,
    ) -> NightlyReport {
        let certificate = release.certificate();
        let ledger = self.ledger(folder);
        let (records, moved) = match self.settings {
            Learned::Items(_) => ("ratings", ["item biases", "root mean square"]),
            Learned::Rows(_) => ("rows", ["the subspace", "as a Frobenius distance"]),
        };
        let night = match is_new {
            true => format!("{}, made now", settings.night),
            false => format!(
                "{} is the last one and was made before: nothing was paid, and its model was written again from the list of releases, without tonight's {records}",
                settings.night
            ),
        };
        let mut facts = vec![fact("night", night)];
        facts.extend(self.past_horizon(settings.night).map(|text| fact("", text)));
        let target = ApproxDp {
            epsilon: settings.lifetime_epsilon,
            delta: certificate.target.delta,
        };
        let guarantee = certificate.guarantee.as_ref();
        let replace = guarantee.and_then(|guarantee| guarantee.epsilon_replace);
        facts.extend(lifetime_facts((target, replace)));
        facts.push(fact("model", release.model_line()));
        if let Some(by) = settings.moved {
            let [what, how] = moved;
            let text = format!("{what} by {by:.4} since the night before, {how}");
            facts.push(fact("moved", text));
        }
        let paid = "all nights were paid for when the state was made; later ones cost nothing more";
        facts.push(fact("ledger", format!("{}: {paid}", ledger.display())));
        facts.push(fact("written to", folder.join(MODEL).display().to_string()));
        facts.push(fact(
            "internal",
            format!(
                "{}: whether the model beats what is free; {}: errors by night; not to be published",
                internal_folder_of(&folder.join(MODEL)).join(INTERNAL_PAGE).display(),
                folder.join(HISTORY).display()
            ),
        ));
        NightlyReport {
            json: json!({
                "night": settings.night,
                "n_nights": settings.n_nights,
                "made_now": is_new,
                "moved": settings.moved,
                "model": release.model_line(),
                "out": folder.join(MODEL),
                "certificate_digest": certificate.digest,
            }),
            text: terminal(&[Block::Facts(facts)]),
            refused: None,
        }
    }
}

/// What the next night would be refused for before its data are read; nothing is paid or written,
/// except that a store of first nights whose writing was interrupted is put in place. Returns how
/// many nights the list has.
fn check_before_night(
    folder: &Path,
    state: &State,
    plan: &Plan,
    kept: Option<(u32, usize)>,
) -> Result<usize> {
    let file = state.ledger(folder);
    let is_first = is_first_night(folder, &file);
    let account = open_account(&file, (false, is_first), &state.data_set, plan)?;
    if matches!(state.settings, Learned::Items(_)) {
        state.check_items(folder, &Items::read(folder)?)?;
    }
    let mut account = match is_first {
        true => account.before_users()?,
        false => account.bind(&Nobody, Comparison::Elsewhere)?,
    };
    let list = folder.join(RELEASES);
    let n_listed = match list.exists() {
        true => ReleaseList::read(list, &run_name(&state.public())?, plan)?
            .paid_before()
            .len(),
        false => 0,
    };
    let (id, store) = (state.release_id.clone(), folder.join(FIRST_SEEN));
    account.lend(
        |ledger| PacedLifetime::resume(ledger, id, store),
        |lifetime| {
            let found = lifetime.state()?;
            check_is_newest(folder, (kept, n_listed), &found)?;
            match n_listed > found.n_nights {
                true => Err(Error::Nights {
                    state: folder.to_owned(),
                    reason: "releases.list has nights that the ledger did not pay for: one of them is an older copy. Restore ledger, first-seen and list from the same copy",
                }),
                false => Ok(()),
            }
        },
    )?;
    Ok(n_listed)
}

/// Whether no night was made yet, so that the ledger knows no users of it.
fn is_first_night(folder: &Path, ledger: &Path) -> bool {
    !is_bound(ledger) && !folder.join(RELEASES).exists()
}

/// The status of the nights: from public files and the ledger alone, except for the metrics of the
/// last nights, which are internal, and the check that the store of first nights is the ledger's.
///
/// # Errors
/// When the folder or its ledger cannot be read.
pub fn status(args: &NightlyStatusSettings) -> Result<NightlyReport> {
    let folder = &args.state;
    let state = State::open(folder)?;
    let plan = state.plan()?;
    let ledger = Ledger::open(state.ledger(folder), &state.data_set, ADJACENCY)
        .map_err(|error| in_nights(folder, error.into()))?;
    let found = ledger.lifetime(&state.release_id)?;
    drop(ledger);
    let kept: Option<Value> = kept(folder);
    let newest = kept.as_ref().and_then(|kept| {
        let number = |name| kept[name].as_u64();
        let last = u32::try_from(number("last_night")?).ok()?;
        Some((last, usize::try_from(number("n_nights")?).ok()?))
    });
    let ready = check_before_night(folder, &state, &plan, newest);
    let ready = ready.map_err(|error| in_nights(folder, error));
    // a model that a crash left incomplete is written again by the same night
    let (model, damaged) = match read_run_file::<ReleasedRun>(&folder.join(MODEL), RELEASED) {
        Ok(released) => (released.map(|released| released.model), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let (today, horizon) = (state.today(), state.pace.horizon());
    let made = match &ready {
        Ok(n_listed) => *n_listed,
        Err(_) => newest.map_or(0, |(_, n_nights)| n_nights),
    };
    let since_first = found.last_night.map_or(0, |last| last + 1).min(horizon);
    let spent = state.epsilon_of(&plan, 0..since_first)?;
    let left = state.epsilon_of(&plan, since_first..horizon)?;
    let last = found
        .last_night
        .map_or_else(|| "none yet".to_owned(), |last| last.to_string());
    let tonight = match found.last_night {
        Some(last) if last > today => {
            "by the calendar: the clock was set back, or a later number was given".to_owned()
        }
        Some(last) if last == today => "made".to_owned(),
        _ => "not made yet".to_owned(),
    };
    let figures = match args.show_internal {
        true => history(folder),
        false => Vec::new(),
    };
    let internal: Result<Option<InternalRun>> = match args.show_internal {
        true => read_run_file(&internal_folder_of(&folder.join(MODEL)), INTERNAL),
        false => Ok(None),
    };
    let warnings = match internal {
        Ok(internal) => internal.map_or_else(Vec::new, |internal| internal.aside.warnings),
        Err(error) => vec![error.to_string()],
    };
    if !figures.is_empty() || !warnings.is_empty() {
        let noted = note_exploration(
            &state.ledger(folder),
            Some(&state.data_set),
            "errors by night shown by dp nightly status",
        );
        noted.map_err(|error| in_nights(folder, error))?;
    }
    let mut facts = vec![
        fact(
            "nights",
            format!(
                "{made} in the list, {} paid for, the last one {last}",
                found.n_nights
            ),
        ),
        fact("tonight", format!("night {today}, {tonight}")),
        fact(
            "a newcomer",
            format!(
                "has epsilon {} for {horizon} nights",
                rounded_down(state.target.epsilon)
            ),
        ),
        fact(
            "the first users",
            format!(
                "have spent epsilon {spent:.3}; epsilon {left:.3} is left (costs add up as squares)"
            ),
        ),
        fact("noise draws", format!("{} left", found.draws_left)),
        fact(
            "model",
            match (&model, &damaged) {
                (Some(model), _) => model.clone(),
                (None, Some(error)) => format!("unknown: {error}"),
                (None, None) => "none yet".to_owned(),
            },
        ),
        fact("next night", state.next_night(kept.as_ref())),
    ];
    let next = found.last_night.map_or(today, |last| today.max(last + 1));
    facts.extend(state.past_horizon(next).map(|text| fact("", text)));
    if !args.show_internal && folder.join(HISTORY).exists() {
        let text = format!(
            "held-out errors by night are in {} (internal; --show-internal shows them)",
            folder.join(HISTORY).display()
        );
        facts.push(fact("errors", text));
    }
    for of in figures.iter().rev().take(SHOWN).rev() {
        let name = format!("night {}", of.night);
        let against = match (&of.baseline, of.baseline_value) {
            (Some(name), Some(value)) => format!("; {name} {}", figure(value, value)),
            _ => String::new(),
        };
        let text = format!(
            "{} {}{against} (internal: not to be published)",
            of.metric,
            figure(of.value, of.value)
        );
        facts.push(fact(&name, text));
    }
    let erasures: Vec<Erasure> = match args.show_internal {
        true => rows_of(&folder.join(ERASURES)),
        false => Vec::new(),
    };
    for Erasure { time, n_ids } in &erasures {
        let text = format!("{n_ids} on {time} (internal: not to be published)");
        facts.push(fact("ids erased", text));
    }
    for text in &warnings {
        let text = format!("{text} (internal: not to be published)");
        facts.push(fact("warning", text));
    }
    Ok(NightlyReport {
        json: json!({
            "n_listed": made,
            "n_paid": found.n_nights,
            "last_night": found.last_night,
            "today": today,
            "horizon": horizon,
            "lifetime_epsilon": state.target.epsilon,
            "delta": state.target.delta,
            "epsilon_spent_by_the_first_users": spent,
            "epsilon_left_to_the_first_users": left,
            "draws_left": found.draws_left,
            "model": model,
            "internal_by_night": figures,
            "internal_warnings": warnings,
            "internal_erasures": erasures,
            "refused": ready.as_ref().err().map(ToString::to_string),
        }),
        text: terminal(&[Block::Facts(facts)]),
        refused: ready.err(),
    })
}

/// Erases users: from now on they add nothing, whatever records of theirs the ratings contain. A
/// tombstone under a secret key is kept for each, so that they cannot come back as new users.
/// Earlier releases do not change.
///
/// # Errors
/// When the folder, its ledger or the list of ids cannot be read, or the store of first nights is
/// missing, older or changed.
pub fn erase(args: &NightlyEraseSettings) -> Result<NightlyReport> {
    let folder = &args.state;
    let state = State::open(folder)?;
    let mut users: BTreeSet<_> = args.users.iter().flatten().cloned().collect();
    let mut first = "";
    if let Some(list) = &args.list {
        let (listed, header) = read_user_ids(list, state.user_column_name())?;
        users.extend(listed);
        first = match header {
            true => " (the first line of the list is its header)",
            false => {
                " (the first line of the list is one of them: it is not a header such as `user`)"
            }
        };
    }
    let plan = state.plan()?;
    let account = open_account(
        &state.ledger(folder),
        (false, false),
        &state.data_set,
        &plan,
    )?;
    let (id, store) = (state.release_id.clone(), folder.join(FIRST_SEEN));
    let ids = users.iter().map(|user| user_key(user));
    account.before_users()?.lifetime(
        |ledger| PacedLifetime::resume(ledger, id, store),
        |lifetime| Ok(lifetime.erase(ids)?),
    )?;
    let n = users.len();
    let erasure = Erasure {
        time: Making::now(),
        n_ids: n,
    };
    let mut erasures: Vec<Erasure> = rows_of(&folder.join(ERASURES));
    erasures.push(erasure);
    write_rows(&folder.join(ERASURES), &erasures)?;
    let text = format!(
        "ids marked as erased: {n}{first}, whether or not there were records of them. They add nothing to any later night; delete their records from the ratings as well. \
         {} has the date and the number of ids\n",
        folder.join(ERASURES).display()
    );
    Ok(NightlyReport {
        json: json!({ "n_erased": n, "time": erasures.last().map(|of| &of.time) }),
        text,
        refused: None,
    })
}

/// Copies the last night's model for publication: see [`publish`](super::publish::publish).
///
/// # Errors
/// As [`publish`](super::publish::publish).
pub fn publish(args: &NightlyPublishSettings) -> Result<Published> {
    State::open(&args.state)?;
    refuse_nested(&args.state, &args.dest)?;
    let model = args.state.join(MODEL);
    if !model.exists() {
        let text = "there is no model to publish yet: `dp nightly run`, or `run-rows`, makes the first night";
        return Err(Error::Usage(text.to_owned()));
    }
    publish_folder(&PublishSettings {
        model,
        dest: args.dest.clone(),
        force: args.force,
    })
}
