//! `dp federate`: where its rows, settings, budget and output come from.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{ColumnArgs, HeldOutShares, LedgerArgs, OutputArgs, RangeArgs, TaskKind};
use crate::personal::Intercept;

#[derive(Args)]
pub struct FederateArgs {
    /// Rows: csv or tsv with a header (or gzip), Parquet, LEAF JSON, or with --items ratings
    pub data: PathBuf,
    /// Privacy target epsilon (nats), for adding or removing one user; several explore
    #[arg(
        long,
        value_name = "E,...",
        value_delimiter = ',',
        required = true,
        allow_hyphen_values = true
    )]
    pub epsilon: Vec<f64>,
    /// Privacy target delta; choose it well below one over the number of users
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    pub delta: f64,
    /// Global over local steps: 0 alone, inf one for all
    #[arg(
        long,
        value_name = "A,...",
        value_delimiter = ',',
        allow_hyphen_values = true,
        default_value = "0,0.1,0.3,1,3,10,inf"
    )]
    pub alpha_grid: Vec<f64>,
    /// csv, leaf or ratings [default: by --items and the end of the name]
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub format: Option<DataFormat>,
    /// Of LEAF: numbers in a row, public; rows of another length are left out
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub n_features: Option<usize>,
    /// Of LEAF rows with several labels: which one, from 0
    #[arg(long, value_name = "N")]
    pub label_index: Option<usize>,
    /// Public list of rated items: item, title, year, genres
    #[arg(long, value_name = "FILE")]
    pub items: Option<PathBuf>,
    #[command(flatten)]
    pub columns: ColumnArgs,
    #[command(flatten)]
    pub ranges: RangeArgs,
    #[command(flatten)]
    pub model: RoundArgs,
    #[command(flatten)]
    pub choice: AlphaArgs,
    #[command(flatten)]
    pub ledger: LedgerArgs,
    #[command(flatten)]
    pub held_out: FederatedHeldOutArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What is held out for the internal report.
#[derive(Args)]
#[command(next_help_heading = "Held-out rows (for the internal report)")]
pub struct FederatedHeldOutArgs {
    #[command(flatten)]
    pub shares: HeldOutShares,
    /// Seed of both, and of the rows that alphas are compared on
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 0
    )]
    pub split_seed: u64,
    /// Test on no rows: no errors; alphas are compared on their rows all the same
    #[arg(long, conflicts_with_all = ["test_share", "held_out_users"])]
    pub no_split: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DataFormat {
    Csv,
    Leaf,
    Ratings,
}

/// How rounds are made.
#[derive(Args)]
#[command(next_help_heading = "Settings (public: never choose them by looking at the data)")]
pub struct RoundArgs {
    /// regression (squared loss) or classification (logistic)
    #[arg(
        long,
        value_enum,
        value_name = "TASK",
        hide_possible_values = true,
        default_value_t = TaskKind::Regression
    )]
    pub task: TaskKind,
    /// With classification: the target is a yes above this [default: 0.5]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub threshold: Option<f64>,
    /// shared (a constant feature), own (users' means off), none
    #[arg(
        long,
        value_enum,
        value_name = "WHERE",
        hide_possible_values = true,
        default_value_t = Intercept::Shared
    )]
    pub intercept: Intercept,
    /// Rounds of every run
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 50
    )]
    pub rounds: usize,
    /// The larger of local and global step [default: 1 / number of features]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub learning_rate: Option<f64>,
    /// Bound on the norm of a user's mean gradient
    #[arg(
        long,
        value_name = "X",
        allow_hyphen_values = true,
        default_value_t = 1.0
    )]
    pub clip_norm: f64,
    /// Factor on clip and global step at the last round [default: 1]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub shrink: Option<f64>,
    /// Rows of a user in a round [default: all]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub batch_size: Option<usize>,
    /// A user joins a round with this probability [default: all in every round]
    #[arg(long, value_name = "Q", allow_hyphen_values = true)]
    pub sampling_probability: Option<f64>,
    /// Number of users, with those held out [default: a noisy count, charged]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub n_users: Option<f64>,
}

/// How one alpha is chosen, where one epsilon and several alphas are asked for.
#[derive(Args)]
#[command(next_help_heading = "Choice of alpha (charged; of one epsilon)")]
pub struct AlphaArgs {
    /// Part of epsilon that the choice costs
    #[arg(
        long,
        value_name = "SHARE",
        allow_hyphen_values = true,
        default_value_t = 0.1
    )]
    pub choice_share: f64,
    /// Share of each user's rows that the alphas are compared on
    #[arg(
        long,
        value_name = "SHARE",
        allow_hyphen_values = true,
        default_value_t = 0.2
    )]
    pub validation_share: f64,
    /// Range of a user's loss over alphas
    #[arg(
        long,
        value_name = "X",
        allow_hyphen_values = true,
        default_value_t = 0.1
    )]
    pub loss_range: f64,
}
