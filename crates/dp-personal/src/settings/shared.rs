//! Groups of flags that several commands have: what is trained, on what, with which guarantee.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// What is trained, and the guarantee it is to have.
#[derive(Args)]
pub struct TargetArgs {
    /// pooled (one matrix), adadpals (one an item) or am-ssp (features)
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        default_value_t = Method::Pooled
    )]
    pub method: Method,
    /// Privacy target epsilon (nats), for adding or removing one user
    #[arg(long, value_name = "E", allow_hyphen_values = true)]
    pub epsilon: f64,
    /// Privacy target delta; choose it well below one over the number of users
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    pub delta: f64,
}

/// How the item factors are trained.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    // no doc comments: with one, clap spreads the whole help page out
    Pooled,
    Adadpals,
    AmSsp,
}

impl Method {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pooled => "pooled",
            Self::Adadpals => "adadpals",
            Self::AmSsp => "am-ssp",
        }
    }
}

/// What a score is made of.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScoreModelName {
    Biased,
    Plain,
}

impl SettingArgs {
    /// The first flag that only rounds of implicit feedback have, if any is given.
    pub fn of_lists(&self) -> Option<&'static str> {
        [
            (self.score_model.is_some(), "--score-model"),
            (self.head_fraction.is_some(), "--head-fraction"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }
}

/// What is in the file of ratings.
#[derive(Args)]
#[command(next_help_heading = "Input")]
pub struct InputArgs {
    /// Catalogue of items; without one the item ids of the ratings are taken to be public
    #[arg(long, value_name = "CATALOGUE", requires = "ratings")]
    pub items: Option<PathBuf>,
    /// Name of the user column [default: `user`, `userId` or `user_id`]
    #[arg(long, value_name = "NAME", requires = "ratings")]
    pub user_col: Option<String>,
    /// Name of the item column [default: `item`, `item_id`, `movieId`, ...]
    #[arg(long, value_name = "NAME", requires = "ratings")]
    pub item_col: Option<String>,
    /// Name of the rating column [default: `rating`]
    #[arg(long, value_name = "NAME", requires = "ratings")]
    pub rating_col: Option<String>,
}

/// Settings of the method.
#[derive(Args)]
#[command(next_help_heading = "Settings (public: never choose them by looking at the data)")]
pub struct SettingArgs {
    /// Item factors: a bias and DIM - 1 tastes [default: by rule, from released counts]
    #[arg(long, allow_hyphen_values = true)]
    pub dim: Option<usize>,
    /// Rounds of alternating minimisation [default: 8]
    #[arg(long, value_name = "ROUNDS", allow_hyphen_values = true)]
    pub steps: Option<usize>,
    /// Weight n^-X of an item with n ratings; 0 releases no counts [default: 0.25]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub weight_exponent: Option<f64>,
    /// Norm of the taste part of a user's factor, below 1 [default: 0.95]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub clip_norm: Option<f64>,
    /// Centre of the ratings, in rating units [default: 3]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub label_center: Option<f64>,
    /// Bound on ratings after centre and user bias, in rating units [default: 1]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub label_bound: Option<f64>,
    /// Ridge of the item step, in units of its noise [default: 1]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub reg: Option<f64>,
    /// Implicit feedback: item biases (biased) or none (plain) [default: biased]
    #[arg(long, value_enum, value_name = "MODEL", hide_possible_values = true)]
    pub score_model: Option<ScoreModelName>,
    /// Implicit feedback: fraction of items to learn, by noisy counts; 1 is all of them
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub head_fraction: Option<f64>,
    /// Share of the budget spent on item counts [default: 0.03]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    pub count_share: Option<f64>,
}

/// What is held out for the internal report.
#[derive(Args)]
#[command(next_help_heading = "Held-out ratings (for the internal report)")]
pub struct SplitArgs {
    /// Seed of the 80/10/10 split of ratings into train, validation and test
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        requires = "ratings",
        default_value_t = 0
    )]
    pub split_seed: u64,
    /// Train on all ratings and report no accuracy
    #[arg(long, requires = "ratings", conflicts_with = "split_seed")]
    pub no_split: bool,
}

/// Data that is made up.
#[derive(Args)]
pub struct GeneratedArgs {
    /// Seed of what is generated (the noise is always fresh)
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 1
    )]
    pub data_seed: u64,
}
