//! `dp train`: where its ratings, settings, budget and output come from.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dp_mechanism::NoiseSource;

use super::{InputArgs, SettingArgs, SplitArgs, TargetArgs};

#[derive(Args)]
pub struct TrainArgs {
    /// Ratings: csv or tsv with a header, MovieLens `::` or tab, or gzip of these; Parquet
    pub ratings: PathBuf,
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub feedback: FeedbackArgs,
    #[command(flatten)]
    pub features: FeatureArgs,
    #[command(flatten)]
    pub settings: SettingArgs,
    #[command(flatten)]
    pub ledger: LedgerArgs,
    #[command(flatten)]
    pub resume: ResumeArgs,
    #[command(flatten)]
    pub split: SplitArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What is publicly known of items.
#[derive(Args)]
#[command(next_help_heading = "Features of items (with --method am-ssp)")]
pub struct FeatureArgs {
    /// Columns of --items to use [default: all but item, title and those of numbers]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub feature_cols: Option<Vec<String>>,
    /// A name that fewer items have is no feature [default: 2]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub min_items: Option<usize>,
}

/// What the records mean.
#[derive(Args)]
#[command(next_help_heading = "Feedback")]
pub struct FeedbackArgs {
    /// explicit (values to predict) or implicit (records are a yes)
    #[arg(
        long,
        value_enum,
        value_name = "KIND",
        hide_possible_values = true,
        default_value_t = FeedbackKind::Explicit
    )]
    pub feedback: FeedbackKind,
    /// With implicit feedback: the least rating that is a yes [default: all are]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub min_rating: Option<f64>,
    /// What is held out: ratings (default when explicit) or users (implicit)
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        hide_possible_values = true,
        conflicts_with = "no_split"
    )]
    pub split: Option<SplitKind>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FeedbackKind {
    Explicit,
    Implicit,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SplitKind {
    Ratings,
    Users,
}

/// Where the privacy loss is recorded.
#[derive(Args)]
#[command(next_help_heading = "Ledger")]
pub struct LedgerArgs {
    /// Account of this data set over all runs; made when it does not exist
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Total epsilon of the ledger [default: as it was made; of a new one, the run's]
    #[arg(
        long,
        value_name = "E",
        requires = "ledger",
        allow_hyphen_values = true
    )]
    pub ledger_epsilon: Option<f64>,
    /// Total delta of the ledger [default: as it was made; of a new one, the run's]
    #[arg(
        long,
        value_name = "D",
        requires = "ledger",
        allow_hyphen_values = true
    )]
    pub ledger_delta: Option<f64>,
    /// Name of the data set in ledger and certificate [default: the file's name]
    #[arg(long, value_name = "NAME")]
    pub data_set: Option<String>,
}

/// Where an interrupted run goes on from.
#[derive(Args)]
#[command(next_help_heading = "Ledger")]
pub struct ResumeArgs {
    /// Save the state here after every release, and go on from it where there is one
    #[arg(long, value_name = "DIR", requires = "ledger")]
    pub resume: Option<PathBuf>,
}

/// What the run leaves behind.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Folder for model, certificate and reports
    #[arg(long, value_name = "DIR", default_value = "dp-model")]
    pub out: PathBuf,
    /// Replace the output folder, whatever it holds
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object instead of the summary
    #[arg(long)]
    pub json: bool,
    /// Repeatable noise for tests: NOT PRIVATE and marked so; not with --ledger
    #[arg(long, value_name = "N", conflicts_with = "ledger")]
    pub insecure_seed: Option<u64>,
}

impl OutputArgs {
    /// The noise of the run: the operating system's, unless it is to repeat.
    pub fn noise(&self) -> NoiseSource {
        let seeded = self.insecure_seed.map(NoiseSource::insecure_seeded);
        seeded.unwrap_or_else(NoiseSource::operating_system)
    }
}
