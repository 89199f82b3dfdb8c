//! `dp evaluate`: which model, on which ratings.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub struct EvaluateArgs {
    /// The file that `dp train` read, or with --history a newer one
    pub ratings: PathBuf,
    /// Folder written by `dp train` or `dp tune`
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// What users are folded in from; RATINGS is then tested on whole
    #[arg(long, value_name = "FILE", conflicts_with = "split_seed")]
    pub history: Option<PathBuf>,
    /// Seed of the split, as it was given to `dp train` [default: as the run says]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub split_seed: Option<u64>,
    /// Of implicit feedback: the least rating that is a yes [default: as the run says]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub min_rating: Option<f64>,
    /// Train without privacy as well, on the same records
    #[arg(long)]
    pub non_private: bool,
    #[command(flatten)]
    pub columns: RatingColumnArgs,
    #[command(flatten)]
    pub output: EvaluateOutputArgs,
}

/// Columns under the header of the ratings.
#[derive(Args)]
#[command(next_help_heading = "Input")]
pub struct RatingColumnArgs {
    /// Name of the user column [default: `user`, `userId` or `user_id`]
    #[arg(long, value_name = "NAME")]
    pub user_col: Option<String>,
    /// Name of the item column [default: `item`, `item_id`, `movieId`, ...]
    #[arg(long, value_name = "NAME")]
    pub item_col: Option<String>,
    /// Name of the rating column [default: `rating`]
    #[arg(long, value_name = "NAME")]
    pub rating_col: Option<String>,
}

/// Where the figures go.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub struct EvaluateOutputArgs {
    /// Keep the figures in the model's folder, for `dp report`
    #[arg(long)]
    pub save: bool,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub json: bool,
}
