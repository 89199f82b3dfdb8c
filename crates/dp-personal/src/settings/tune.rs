//! `dp tune`: candidates besides what `dp train` takes.

use clap::Args;

use super::TrainArgs;

#[derive(Args)]
pub struct TuneArgs {
    #[command(flatten)]
    pub train: TrainArgs,
    #[command(flatten)]
    pub choice: ChoiceArgs,
}

/// What is chosen from, and how.
#[derive(Args)]
#[command(next_help_heading = "Candidates (each is trained and paid for)")]
pub struct ChoiceArgs {
    /// A candidate: settings that differ from the flags; repeat for more
    #[arg(long = "try", value_name = "dim=4,reg=0.5,...", required = true)]
    pub candidates: Vec<String>,
    /// Share of the budget spent on comparing them
    #[arg(
        long,
        value_name = "SHARE",
        allow_hyphen_values = true,
        default_value_t = 0.02
    )]
    pub score_share: f64,
    /// Share of each user's ratings that candidates are compared on
    #[arg(
        long,
        value_name = "SHARE",
        allow_hyphen_values = true,
        default_value_t = 0.1
    )]
    pub compare_on: f64,
}
