//! Settings of a recommender that is updated every night.

use std::path::PathBuf;

use dp_data::TableSource;

use super::{
    FeedbackKind, PersonalHeldOutSettings, Range, RangeSettings, Shapes, SplitSettings, settings,
};
use crate::personal::Intercept;

settings! {
    /// Settings to begin a lifetime of nights.
    struct NightlyInitSettings {
        /// Folder for the state; must not exist
        state: PathBuf = { positional: true, value_name: "STATE" },
        /// Public catalogue of items, each once; ratings of other items are left out
        items: PathBuf = { value_name: "CATALOGUE" },
        /// Epsilon (nats) of all nights together, for adding or removing one user
        lifetime_epsilon: f64 = { value_name: "E", range: Range::above(0.0) },
        /// Delta of all nights together; choose it well below one over the number of users
        delta: f64 = { value_name: "D", range: Range::open_unit() },
        /// Nights over which a user's budget is spread; after them the user's ratings are no longer used
        horizon: usize = { value_name: "NIGHTS", default: "365", range: Range::of(1.0, 4096.0) },
        /// Decay of spending: a user's night a has the weight (a + 1)^-X
        pace: f64 = { value_name: "X", default: "0.4", range: Range::of(0.0, 4.0) },
        /// Range of ratings; not for implicit
        rating_range: Option<Vec<f64>> = { value_name: "LO,HI", delimiter: ',', usual: "required" },
        /// explicit (ratings: biases and tastes) or implicit (likes: popularity and tastes)
        feedback: FeedbackKind = { value_name: "KIND", default: "explicit" },
        /// Implicit feedback: lowest rating that counts as positive
        min_rating: Option<f64> = { value_name: "X", usual: "all ratings" },
        /// Most taste factors to learn once the signal allows; 0 learns item biases (or popularity) only
        tastes: usize = { value_name: "N", default: "8", range: Range::of(0.0, 64.0) },
        /// Maximum size of the catalogue
        most_items: Option<usize> = {
            value_name: "N",
            usual: "4 times the catalogue, plus 10000",
            range: Range::from(1.0),
        },
        /// Feature columns of the catalogue, such as genres,year; must not be derived from the ratings; not for implicit
        feature_cols: Option<Vec<String>> = { value_name: "NAMES", delimiter: ',', usual: "none" },
        /// Ledger that pays; created for these nights if it does not exist
        ledger: Option<PathBuf> = { value_name: "FILE", usual: "STATE/ledger" },
        /// Name of the data set in ledger and certificate
        data_set: Option<String> = { value_name: "NAME", usual: "the state folder's name" },
        /// Columns of every night's ratings.
        columns: NightColumnSettings = flatten,
    }

    /// Names of columns that nights use if they are given no others.
    struct NightColumnSettings under "Columns of all nights, unless a night names others" {
        /// Name of the user column
        user_col: Option<String> = { value_name: "NAME", usual: "`user`, `userId` or `user_id`" },
        /// Name of the item column
        item_col: Option<String> = { value_name: "NAME", usual: "`item`, `item_id`, `movieId`, ..." },
        /// Name of the rating column
        rating_col: Option<String> = { value_name: "NAME", usual: "`rating`" },
    }

    /// Settings of one night.
    struct NightlyRunSettings {
        /// Folder made by `dp nightly init`
        state: PathBuf = { positional: true, value_name: "STATE" },
        /// All current ratings: a table with user, item and rating
        ratings: TableSource = { positional: true, shapes: Shapes::Nothing },
        /// Public catalogue with new items; existing items stay
        items: Option<PathBuf> = { value_name: "CATALOGUE", usual: "the items so far" },
        /// Number of the night, above all earlier ones; must not depend on the data
        night: Option<usize> = { value_name: "N", usual: "days since the state was made" },
        /// The state was restored from a copy: treat unknown users as first seen right after the copy's last night
        restored: bool = {},
        /// Name of the user column
        user_col: Option<String> = { value_name: "NAME", usual: "as given to init, or `user`, `userId` or `user_id`" },
        /// Name of the item column
        item_col: Option<String> = { value_name: "NAME", usual: "as given to init, or `item`, `item_id`, `movieId`, ..." },
        /// Name of the rating column
        rating_col: Option<String> = { value_name: "NAME", usual: "as given to init, or `rating`" },
        /// Names of all columns, in order, if the file has no header
        header: Option<Vec<String>> = { value_name: "NAME,...", delimiter: ',' },
        /// What is held out.
        split: SplitSettings = flatten,
    }

    /// A lifetime of nights of a shared subspace, begun.
    struct NightlyInitRowsSettings {
        /// Folder for the state; must not exist
        state: PathBuf = { positional: true, value_name: "STATE" },
        /// Dimension of the shared subspace of users' coefficients
        rank: usize = { value_name: "K", range: Range::of(1.0, 256.0) },
        /// Epsilon (nats) of all nights together, for adding or removing one user
        lifetime_epsilon: f64 = { value_name: "E", range: Range::above(0.0) },
        /// Delta of all nights together; choose it well below one over the number of users
        delta: f64 = { value_name: "D", range: Range::open_unit() },
        /// Name of the column to predict
        target_col: String = { value_name: "NAME" },
        /// Names of the feature columns
        feature_cols: Vec<String> = { value_name: "NAME,...", delimiter: ',' },
        /// own (means), shared (constant feature), none
        intercept: Intercept = { value_name: "WHERE", default: "own" },
        /// Maximum rows per user; the rest are left out
        max_rows: usize = { value_name: "N", default: "256", range: Range::of(1.0, 65536.0) },
        /// Nights over which a user's budget is spread; after them the user's ratings are no longer used
        horizon: usize = { value_name: "NIGHTS", default: "365", range: Range::of(1.0, 4096.0) },
        /// Decay of spending: a user's night a has the weight (a + 1)^-X
        pace: f64 = { value_name: "X", default: "0.4", range: Range::of(0.0, 4.0) },
        /// Ledger that pays; created for these nights if it does not exist
        ledger: Option<PathBuf> = { value_name: "FILE", usual: "STATE/ledger" },
        /// Name of the data set in ledger and certificate
        data_set: Option<String> = { value_name: "NAME", usual: "the state folder's name" },
        /// Name of the user column of all nights, unless a night names another
        user_col: Option<String> = { value_name: "NAME", usual: "`user`, `userId` or `user_id`" },
        /// Ranges that are known without the data.
        ranges: RangeSettings = flatten,
    }

    /// One night of a shared subspace.
    struct NightlyRunRowsSettings {
        /// Folder made by `dp nightly init-rows`
        state: PathBuf = { positional: true, value_name: "STATE" },
        /// All current rows: a table with several rows per user
        rows: TableSource = { positional: true, shapes: Shapes::Nothing },
        /// Number of the night, above all earlier ones; must not depend on the data
        night: Option<usize> = { value_name: "N", usual: "days since the state was made" },
        /// The state was restored from a copy: treat unknown users as first seen right after the copy's last night
        restored: bool = {},
        /// Name of the user column
        user_col: Option<String> = { value_name: "NAME", usual: "as given to init-rows, or `user`, `userId` or `user_id`" },
        /// Names of all columns, in order, if the file has no header
        header: Option<Vec<String>> = { value_name: "NAME,...", delimiter: ',' },
        /// What is held out.
        held_out: PersonalHeldOutSettings = flatten,
    }

    /// Settings to erase users.
    struct NightlyEraseSettings {
        /// Folder made by `dp nightly init`
        state: PathBuf = { positional: true, value_name: "STATE" },
        /// Their ids, as in the data; other users of this machine may see them
        users: Option<Vec<String>> = { positional: true, value_name: "USER", one_of: "erased" },
        /// File with their ids, one a line; a header is `user` or the state's user column
        list: Option<PathBuf> = { value_name: "FILE", one_of: "erased" },
    }

    /// Settings to show the status of a state.
    struct NightlyStatusSettings {
        /// Folder made by `dp nightly init`; it is only read
        state: PathBuf = { positional: true, value_name: "STATE" },
        /// Also show held-out errors by night, which are computed from private data
        show_internal: bool = {},
    }

    /// Settings to publish a copy of the last night's released files.
    struct NightlyPublishSettings {
        /// Folder made by `dp nightly init`
        state: PathBuf = { positional: true, value_name: "STATE" },
        /// Folder for the copy
        dest: PathBuf = { positional: true, value_name: "DEST" },
        /// Replace that folder, unless it holds a ledger or files not from a run
        force: bool = {},
    }
}
