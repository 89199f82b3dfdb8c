//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Train recommenders that protect each user's whole data, and check what they promise.
#[derive(Parser)]
#[command(name = "dp", version, about, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Generate ratings, train on them at epsilon 1 and 5, compare with no privacy
    Demo(DemoArgs),
    /// Train private item factors from a file of ratings
    Train(Box<TrainArgs>),
    /// Recommend items to one user from that user's own ratings, locally
    Recommend(RecommendArgs),
    /// Recompute a certificate from its list of releases
    Verify(VerifyArgs),
}

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Folder for the model trained at epsilon 5; replaced when an earlier demo wrote it
    #[arg(long, value_name = "DIR", default_value = "dp-demo")]
    pub(crate) out: PathBuf,
    /// Seed of the generated ratings (the noise is always fresh)
    #[arg(long, default_value_t = 1)]
    pub(crate) data_seed: u64,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// How the item factors are trained.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// Matrix factorisation by noisy sufficient statistics with adaptive weights
    Adadpals,
}

#[derive(Args)]
pub(crate) struct TrainArgs {
    /// Ratings: csv or tsv with a header, MovieLens `::` or tab, optionally gzip
    pub(crate) ratings: PathBuf,
    /// Training method
    #[arg(long, value_enum, default_value_t = Method::Adadpals)]
    pub(crate) method: Method,
    /// Privacy target epsilon (nats), add/remove one user
    #[arg(long)]
    pub(crate) epsilon: f64,
    /// Privacy target delta
    #[arg(long)]
    pub(crate) delta: f64,
    /// Catalogue of items (csv or tsv with an `item` column); without it the item ids of the
    /// ratings are assumed to be public
    #[arg(long, value_name = "CATALOGUE")]
    pub(crate) items: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) columns: ColumnArgs,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    #[command(flatten)]
    pub(crate) split: SplitArgs,
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    /// Folder for model, certificate and reports
    #[arg(long, value_name = "DIR", default_value = "dp-model")]
    pub(crate) out: PathBuf,
    /// Replace the output folder when it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Print one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Repeatable noise, for tests only: the result is marked as not private
    #[arg(long, value_name = "N")]
    pub(crate) insecure_seed: Option<u64>,
}

/// Names of the columns of a file with a header.
#[derive(Args)]
pub(crate) struct ColumnArgs {
    /// Name of the user column
    #[arg(long, value_name = "NAME")]
    pub(crate) user_col: Option<String>,
    /// Name of the item column
    #[arg(long, value_name = "NAME")]
    pub(crate) item_col: Option<String>,
    /// Name of the rating column
    #[arg(long, value_name = "NAME")]
    pub(crate) rating_col: Option<String>,
}

/// Settings that otherwise follow from epsilon. Public: never choose them by looking at the data.
#[derive(Args)]
#[command(next_help_heading = "Settings (defaults follow from epsilon)")]
pub(crate) struct SettingArgs {
    /// Taste dimensions of the item factors, besides the item bias
    #[arg(long)]
    pub(crate) dim: Option<usize>,
    /// Rounds of alternating minimisation
    #[arg(long)]
    pub(crate) steps: Option<usize>,
    /// Exponent of the adaptive weights n^-mu; 0 weighs all items alike and needs no counts
    #[arg(long)]
    pub(crate) weight_exponent: Option<f64>,
    /// Norm of a user's factor
    #[arg(long)]
    pub(crate) clip_norm: Option<f64>,
    /// Public centre of the ratings
    #[arg(long)]
    pub(crate) label_center: Option<f64>,
    /// Clip of ratings after centre and user bias
    #[arg(long)]
    pub(crate) label_bound: Option<f64>,
    /// Ridge of the item step, in units of its noise
    #[arg(long)]
    pub(crate) reg: Option<f64>,
    /// Share of the budget spent on item counts
    #[arg(long)]
    pub(crate) count_share: Option<f64>,
}

/// What is held out for the internal report.
#[derive(Args)]
pub(crate) struct SplitArgs {
    /// Seed of the 80/10/10 split of ratings into train, validation and test
    #[arg(long, default_value_t = 0)]
    pub(crate) split_seed: u64,
    /// Train on all ratings and report no accuracy
    #[arg(long, conflicts_with = "split_seed")]
    pub(crate) no_split: bool,
}

/// Where the privacy loss is recorded.
#[derive(Args)]
pub(crate) struct LedgerArgs {
    /// Ledger file of this data set; made when it does not exist. Without one, earlier and later
    /// runs on the same data are not counted together
    #[arg(long, value_name = "FILE")]
    pub(crate) ledger: Option<PathBuf>,
    /// Total epsilon of a new ledger [default: epsilon of the run]
    #[arg(long, value_name = "E", requires = "ledger")]
    pub(crate) ledger_epsilon: Option<f64>,
    /// Total delta of a new ledger [default: delta of the run]
    #[arg(long, value_name = "D", requires = "ledger")]
    pub(crate) ledger_delta: Option<f64>,
    /// Name of the data set in ledger and certificate [default: the file's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) data_set: Option<String>,
}

#[derive(Args)]
pub(crate) struct RecommendArgs {
    /// Folder written by `dp train`
    #[arg(long, value_name = "DIR")]
    pub(crate) model: PathBuf,
    /// The user's own ratings: csv or tsv with columns item and rating
    #[arg(long, value_name = "FILE")]
    pub(crate) history: PathBuf,
    /// How many items to recommend
    #[arg(short = 'k', default_value_t = 10)]
    pub(crate) count: usize,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// A certificate, or a folder written by `dp train`
    pub(crate) certificate: PathBuf,
    /// Print one JSON object instead of the statement
    #[arg(long)]
    pub(crate) json: bool,
}
