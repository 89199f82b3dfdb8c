//! `dp account` and `dp calibrate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dp_core::Adjacency;

#[derive(Args)]
pub(crate) struct AccountArgs {
    /// JSON: a question file with cases, or an event file
    pub(crate) file: PathBuf,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(
    after_help = "One of --steps, --sampling-probability and --noise-multiplier is left out and \
    solved for.\nNeighbours are add-remove-user, replace-user, add-remove-record or replace-record."
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
    /// Noise standard deviation of a step over the norm bound of a unit
    #[arg(long, value_name = "Z", allow_hyphen_values = true)]
    pub(crate) noise_multiplier: Option<f64>,
    /// How many steps there are
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) steps: Option<u64>,
    /// Probability that a unit takes part in a step; 1 without sampling
    #[arg(long, value_name = "Q", allow_hyphen_values = true)]
    pub(crate) sampling_probability: Option<f64>,
    /// Neighbours that the target is for
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
