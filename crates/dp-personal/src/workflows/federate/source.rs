//! Sources of the rows.

use dp_core::{Interactions, InteractionsBuilder, Private};
use dp_data::{LeafRows, Ratings, RatingsColumns, SampleTable, SampleUser};
use dp_mechanism::Run;
use dp_multitask::CountContribution;

use super::settings::Settings;
use crate::columns::refuse_repeated;
use crate::error::{Error, Result};
use crate::federated::{DescribedItems, ItemTable};
use crate::personal::{Inputs, Intercept, Task};
use crate::settings::{DataFormat, FederateSettings, ratings_format};
use crate::warnings;
use crate::workflows::ledger::HasUsers;

/// Norm to which a user's votes for items are shortened.
const VOTES: f64 = 1.0;
/// Name of the ratings if their column has no other name.
const RATING: &str = "rating";

/// The data as read, before anything is spent on it.
pub(super) enum Source {
    Rows(SampleTable),
    Ratings(Box<(Ratings, ItemTable)>),
}

/// The training rows of a run, and the items whose features they contain.
pub(super) struct UserRows {
    pub(super) users: Private<Vec<SampleUser>>,
    pub(super) items: Option<DescribedItems>,
    pub(super) n_left_out: usize,
}

/// The public list of items, for ratings.
pub(super) fn items_of(args: &FederateSettings) -> Result<Option<ItemTable>> {
    let read = |path: &std::path::PathBuf| ItemTable::read(path);
    args.run.items.as_ref().map(read).transpose()
}

impl Source {
    pub(super) fn read(
        args: &FederateSettings,
        settings: &Settings,
        items: Option<ItemTable>,
    ) -> Result<Self> {
        if let (Some(items), Some(path)) = (items, &args.run.items) {
            let columns = RatingsColumns {
                user: args.run.columns.user_col.clone(),
                item: None,
                rating: args.run.columns.target_col.clone(),
            };
            let format = ratings_format(columns, args.run.columns.header.as_deref());
            let catalogue = items.catalogue().clone();
            let ratings = dp_data::read_ratings_with_catalogue(&args.data, &format, catalogue)?;
            let genres = items.genres().iter().map(String::as_str);
            dp_data::check_no_user_ids(path, genres, &ratings)?;
            return Ok(Self::Ratings(Box::new((ratings, items))));
        }
        Ok(Self::Rows(match settings.format {
            DataFormat::Leaf => {
                let rows = LeafRows {
                    n_features: args.run.n_features.unwrap_or_default(),
                    label: args.run.label_index,
                };
                let file = args.data.file().ok_or_else(|| {
                    Error::Usage("LEAF JSON is read from a file: `data` is a table".to_owned())
                })?;
                dp_data::read_leaf(file, rows)?
            }
            _ => dp_data::read_samples(&args.data, &settings.columns)?,
        }))
    }

    /// The users that `keep` selects by their keys.
    pub(super) fn of_users(&self, keep: &dyn Fn(u128) -> bool) -> Self {
        match self {
            Self::Rows(table) => Self::Rows(table.of_users(keep)),
            Self::Ratings(rated) => {
                let (ratings, items) = &**rated;
                Self::Ratings(Box::new((ratings.of_users(keep), items.clone())))
            }
        }
    }

    /// The column that user ids were read from.
    pub(super) fn user_column(&self) -> Option<&str> {
        match self {
            Self::Rows(table) => table.user_column(),
            Self::Ratings(rated) => rated.0.user_column(),
        }
    }

    /// The public list of items, for ratings.
    pub(super) fn items(&self) -> Option<&ItemTable> {
        match self {
            Self::Rows(_) => None,
            Self::Ratings(rated) => Some(&rated.1),
        }
    }

    /// Warnings about its records and about `delta`: private.
    pub(super) fn warnings(&self, delta: f64) -> Vec<String> {
        match self {
            Self::Rows(table) => warnings::of_rows(table, delta),
            Self::Ratings(rated) => warnings::of_ratings(&rated.0, delta),
        }
    }

    /// Model inputs from the columns.
    pub(super) fn inputs(&self, settings: &Settings) -> Result<Inputs> {
        match self {
            Self::Rows(table) => {
                let target = table.target().unwrap_or_default();
                refuse_repeated(table.features(), target)?;
                settings.inputs(table.features(), target)
            }
            Self::Ratings(rated) => settings.inputs(&rated.1.names(), RATING),
        }
    }

    /// A public bound on the curvature of a user's loss in any round, from norms of rows that hold
    /// for all data: longer rows are scaled down.
    pub(super) fn curvature(&self, inputs: &Inputs, args: &FederateSettings) -> f64 {
        let squared_length = match self {
            // for features mapped to -1 to 1, or scaled to this norm
            Self::Rows(_) => inputs.dim() as f64,
            Self::Ratings(rated) => {
                let constant = f64::from(u8::from(inputs.intercept == Intercept::Shared));
                rated.1.largest() + constant
            }
        };
        let of_loss = match inputs.task {
            Task::Regression => 1.0,
            Task::Classification { .. } => 0.25,
        };
        let scaled = matches!(self, Self::Rows(_)) && !inputs.has_ranges();
        let centred = inputs.intercept == Intercept::Own && args.run.model.batch_size.is_some();
        let together = match (scaled, centred) {
            // for rows that all have the maximum norm, shared and local steps add up
            (true, _) => 2.0,
            // after subtracting the mean of all rows, those of a batch may be twice as long
            (false, true) => 4.0,
            (false, false) => 1.0,
        };
        squared_length.max(1.0) * of_loss * together
    }

    /// The rows, and for ratings the items with their features; their popularity is released for
    /// this.
    pub(super) fn into_rows(self, run: &mut Run<'_>) -> Result<UserRows> {
        let (ratings, items) = match self {
            Self::Rows(table) => return Ok(UserRows::of(table, None)),
            Self::Ratings(rated) => *rated,
        };
        let counts = count_of_items(ratings.interactions(), items.catalogue().len(), run)?;
        let items = items.described(&counts);
        Ok(UserRows::of(items.rows_of(&ratings)?, Some(items)))
    }
}

impl Source {
    /// The ids of the users who have rows, in their order.
    pub(super) fn row_ids(&self) -> Private<Vec<&str>> {
        match self {
            Self::Rows(table) => table.user_ids(),
            Self::Ratings(rated) => {
                let ids = rated.0.user_ids().expose().iter();
                Private::new(ids.map(String::as_str).collect())
            }
        }
    }
}

impl HasUsers for Source {
    fn user_ids(&self) -> Private<Vec<&str>> {
        match self {
            Self::Rows(table) => table.user_ids(),
            Self::Ratings(rated) => HasUsers::user_ids(&rated.0),
        }
    }
}

impl UserRows {
    fn of(table: SampleTable, items: Option<DescribedItems>) -> Self {
        Self {
            n_left_out: *table.n_not_finite().expose(),
            users: table.into_users(),
            items,
        }
    }

    /// An empty set of rows, for ratings of `n_items`: the model of a replay follows from releases
    /// alone.
    pub(super) fn of_nobody(n_items: Option<usize>, run: &mut Run<'_>) -> Result<Self> {
        if let Some(n_items) = n_items {
            let nobody = Private::new(InteractionsBuilder::new(n_items).build().0);
            count_of_items(&nobody, n_items, run)?;
        }
        Ok(Self {
            users: Private::new(Vec::new()),
            items: None,
            n_left_out: 0,
        })
    }
}

/// Noisy numbers of ratings per item: the item ratings that
/// [`Spending`](crate::federated::Spending) counts.
fn count_of_items(
    ratings: &Private<Interactions>,
    n_items: usize,
    run: &mut Run<'_>,
) -> Result<Vec<f64>> {
    let votes = CountContribution::new(VOTES)?;
    let released = run.vector(ratings, (n_items, VOTES), &votes);
    Ok(released.map_err(dp_multitask::Error::from)?.values())
}
