//! `dp account` and `dp calibrate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dp_core::Adjacency;

#[derive(Args)]
pub(crate) struct AccountArgs {
    /// JSON file: questions with cases, or one event
    pub(crate) file: PathBuf,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Leave out one of --steps, --sampling-probability and --noise-multiplier: it is solved for.\n\
    Adjacencies are add-remove-user, replace-user, add-remove-record and replace-record."
)]
pub(crate) struct CalibrateArgs {
    /// Event file in which one parameter is null, instead of the flags below
    #[arg(conflicts_with_all = [
        "epsilon", "delta", "noise_multiplier", "steps", "sampling_probability", "adjacency"
    ])]
    pub(crate) file: Option<PathBuf>,
    /// Privacy target epsilon (nats)
    #[arg(long, value_name = "E", allow_hyphen_values = true)]
    pub(crate) epsilon: Option<f64>,
    /// Privacy target delta
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    pub(crate) delta: Option<f64>,
    /// Noise standard deviation of a step divided by the clipping norm
    #[arg(long, value_name = "Z", allow_hyphen_values = true)]
    pub(crate) noise_multiplier: Option<f64>,
    /// Number of steps
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) steps: Option<u64>,
    /// Probability that a user or record takes part in a step; 1 without sampling
    #[arg(long, value_name = "Q", allow_hyphen_values = true)]
    pub(crate) sampling_probability: Option<f64>,
    /// Neighbouring data sets of the target
    #[arg(
        long,
        value_enum,
        value_name = "A",
        hide_possible_values = true,
        default_value_t = Neighbours::AddRemoveUser
    )]
    pub(crate) adjacency: Neighbours,
    /// Print one JSON object instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
}

/// [`dp_core::Adjacency`] as a flag.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Neighbours {
    AddRemoveUser,
    ReplaceUser,
    AddRemoveRecord,
    ReplaceRecord,
}

impl From<Neighbours> for Adjacency {
    fn from(neighbours: Neighbours) -> Self {
        match neighbours {
            Neighbours::AddRemoveUser => Self::AddRemoveUser,
            Neighbours::ReplaceUser => Self::ReplaceUser,
            Neighbours::AddRemoveRecord => Self::AddRemoveRecord,
            Neighbours::ReplaceRecord => Self::ReplaceRecord,
        }
    }
}
