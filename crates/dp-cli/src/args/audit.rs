//! `dp audit`: the run that `dp train` would make, and how often to make it.

use std::path::PathBuf;

use clap::Args;

use super::{FeedbackArgs, GeneratedArgs, InputArgs, SettingArgs, SplitArgs, TargetArgs};

#[derive(Args)]
pub(crate) struct AuditArgs {
    /// Ratings to plant users in, as for `dp train` [default: generated ones]
    pub(crate) ratings: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Print one JSON object instead of the report
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) feedback: FeedbackArgs,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    #[command(flatten)]
    pub(crate) split: SplitArgs,
    #[command(flatten)]
    pub(crate) trials: TrialArgs,
}

/// How much is tried.
#[derive(Args)]
#[command(next_help_heading = "Trials")]
pub(crate) struct TrialArgs {
    /// Users planted in the data; a coin each says if it joins a run
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 200
    )]
    pub(crate) canaries: usize,
    /// Training runs
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 16
    )]
    pub(crate) runs: usize,
    /// Confidence of the lower bound from outputs alone
    #[arg(
        long,
        value_name = "P",
        allow_hyphen_values = true,
        default_value_t = 0.999
    )]
    pub(crate) confidence: f64,
    #[command(flatten)]
    pub(crate) generated: GeneratedArgs,
}
