//! Commands on a model or a certificate, and the demo that makes both.

use std::path::PathBuf;

use clap::Args;

use super::GeneratedArgs;

#[derive(Args)]
pub struct DemoArgs {
    /// Folder for the model; one from an earlier demo is replaced
    #[arg(long, value_name = "DIR", default_value = "dp-demo")]
    pub out: PathBuf,
    #[command(flatten)]
    pub generated: GeneratedArgs,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct RecommendArgs {
    /// Folder written by `dp train`
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// The user's own ratings: csv, tsv or Parquet with columns item and rating
    #[arg(long, value_name = "FILE")]
    pub history: PathBuf,
    /// Items that the model does not have, with the columns of its features, to be ranked too
    #[arg(long, value_name = "FILE")]
    pub items: Option<PathBuf>,
    /// With a model of implicit feedback: the least rating that is a yes
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub min_rating: Option<f64>,
    /// How many items to recommend
    #[arg(
        short = 'k',
        value_name = "K",
        allow_hyphen_values = true,
        default_value_t = 10
    )]
    pub count: usize,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct PredictArgs {
    /// Folder written by `dp personalize` or `dp federate`
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// Users' own labelled rows, with the columns of the training data
    #[arg(long, value_name = "FILE")]
    pub history: PathBuf,
    /// Rows to predict, without target [default: the users' coefficients are shown]
    #[arg(long, value_name = "FILE")]
    pub rows: Option<PathBuf>,
    /// Name of the user column [default: the usual names; may be missing]
    #[arg(long, value_name = "NAME")]
    pub user_col: Option<String>,
    /// Print one JSON object instead of csv
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct VerifyArgs {
    /// A certificate, or a folder written by `dp train` or `dp personalize`
    pub certificate: PathBuf,
    /// Also check that this ledger paid for every release (it is only read)
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Print one JSON object instead of the statement
    #[arg(long)]
    pub json: bool,
}
