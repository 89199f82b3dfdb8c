//! `dp personalize`: where its rows, settings, budget and output come from.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dp_data::SampleShares;

use super::{LedgerArgs, OutputArgs};
use crate::personal::{Intercept, Method};

#[derive(Args)]
pub struct PersonalizeArgs {
    /// Rows: csv or tsv with a header (or gzip), or Parquet; several rows to a user
    pub data: PathBuf,
    /// Dimension of the shared space of the users' coefficients
    #[arg(long, value_name = "K", allow_hyphen_values = true)]
    pub rank: usize,
    /// Privacy target epsilon (nats), for adding or removing one user
    #[arg(long, value_name = "E", allow_hyphen_values = true)]
    pub epsilon: f64,
    /// Privacy target delta; choose it well below one over the number of users
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    pub delta: f64,
    #[command(flatten)]
    pub columns: ColumnArgs,
    #[command(flatten)]
    pub ranges: RangeArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub ledger: LedgerArgs,
    #[command(flatten)]
    pub held_out: HeldOutArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What is in the file.
#[derive(Args)]
#[command(next_help_heading = "Input")]
pub struct ColumnArgs {
    /// Name of the user column [default: `user`, `userId` or `user_id`]
    #[arg(long, value_name = "NAME")]
    pub user_col: Option<String>,
    /// Name of the column to predict [default: `target`, `label` or `y`]
    #[arg(long, value_name = "NAME")]
    pub target_col: Option<String>,
    /// Names of the feature columns [default: all others]
    #[arg(
        long,
        alias = "features",
        value_name = "NAME,...",
        value_delimiter = ','
    )]
    pub feature_cols: Option<Vec<String>>,
    /// Most rows of a user; later ones are left out
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 256
    )]
    pub max_rows: usize,
}

/// Ranges that are known without the data.
#[derive(Args)]
#[command(next_help_heading = "Ranges (public: never take them from the data)")]
pub struct RangeArgs {
    /// File `column,lower,upper`: values are clipped and mapped onto -1 to 1
    #[arg(long, value_name = "FILE")]
    pub bounds: Option<PathBuf>,
    /// Range of the features that are not in --bounds [default: values as they are]
    #[arg(
        long,
        value_name = "LO,HI",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub feature_range: Option<Vec<f64>>,
    /// Range of the target, where it is not in --bounds [default: values as they are]
    #[arg(
        long,
        value_name = "LO,HI",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub target_range: Option<Vec<f64>>,
}

/// What is fitted.
#[derive(Args)]
#[command(next_help_heading = "Settings (public: never choose them by looking at the data)")]
pub struct ModelArgs {
    /// regression or classification (above the threshold or not?)
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
    /// own (means), shared (constant feature), none [default: own; of classes: shared]
    #[arg(long, value_enum, value_name = "WHERE", hide_possible_values = true)]
    pub intercept: Option<Intercept>,
    /// residual, projectors, gradient, alternating [default: residual; classes gradient]
    #[arg(long, value_enum, value_name = "METHOD", hide_possible_values = true)]
    pub method: Option<Method>,
    /// Steps after the first release [default: residual 4, gradient 3, alternating 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub steps: Option<usize>,
    /// Ridges that a user's own fit chooses from [default: 0.001 to 100; of classes: 0.1]
    #[arg(
        long,
        value_name = "X,...",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub l2_penalty: Option<Vec<f64>>,
    /// Most coefficients of a user's own beside the shared space [default: 0]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub sparse: Option<usize>,
    /// With gradient: bound on the norm of a user's mean gradient [default: 1]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub gradient_clip: Option<f64>,
    /// With gradient: step size [default: 1]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub learning_rate: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TaskKind {
    Regression,
    Classification,
}

/// What is held out for the internal report.
#[derive(Args)]
#[command(next_help_heading = "Held-out rows (for the internal report)")]
pub struct HeldOutArgs {
    #[command(flatten)]
    pub shares: HeldOutShares,
    /// Seed of both
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 0
    )]
    pub split_seed: u64,
    /// Train on all rows of all users and report no accuracy
    #[arg(long, conflicts_with_all = ["test_share", "held_out_users", "split_seed"])]
    pub no_split: bool,
}

/// How much of it.
#[derive(Args)]
#[command(next_help_heading = "Held-out rows (for the internal report)")]
pub struct HeldOutShares {
    /// Share of each user's rows that is tested on
    #[arg(
        long,
        value_name = "SHARE",
        allow_hyphen_values = true,
        default_value_t = 0.2
    )]
    pub test_share: f64,
    /// Share of the users that nothing is trained on: they join later
    #[arg(
        long,
        value_name = "SHARE",
        allow_hyphen_values = true,
        default_value_t = 0.0
    )]
    pub held_out_users: f64,
}

impl HeldOutShares {
    pub const fn given(&self) -> SampleShares {
        SampleShares {
            test_rows: self.test_share,
            held_out_users: self.held_out_users,
        }
    }
}
