//! `dp audit`: the run that `dp train` would make, and how often to make it.

use std::path::PathBuf;

use clap::Args;

use super::{FeedbackArgs, GeneratedArgs, InputArgs, SettingArgs, SplitArgs, TargetArgs};

#[derive(Args)]
pub struct AuditArgs {
    /// Ratings to plant users in, as for `dp train` [default: generated ones]
    pub ratings: Option<PathBuf>,
    #[command(flatten)]
    pub target: TargetArgs,
    /// Print one JSON object instead of the report
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub feedback: FeedbackArgs,
    #[command(flatten)]
    pub settings: SettingArgs,
    #[command(flatten)]
    pub split: SplitArgs,
    #[command(flatten)]
    pub trials: TrialArgs,
}

/// How much is tried.
#[derive(Args)]
#[command(next_help_heading = "Trials")]
pub struct TrialArgs {
    /// Users planted in the data; a coin each says if it joins a run
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 200
    )]
    pub canaries: usize,
    /// Training runs
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 16
    )]
    pub runs: usize,
    /// Confidence of the lower bound from outputs alone
    #[arg(
        long,
        value_name = "P",
        allow_hyphen_values = true,
        default_value_t = 0.999
    )]
    pub confidence: f64,
    #[command(flatten)]
    pub generated: GeneratedArgs,
}
