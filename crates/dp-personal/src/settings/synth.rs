//! `dp synth`: which made data, how much of it, and where.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::GeneratedArgs;

#[derive(Args)]
pub struct SynthArgs {
    /// ratings (long-tailed, in stars) or groups (labelled rows of users alike in a few directions)
    #[arg(value_enum, value_name = "KIND", hide_possible_values = true)]
    pub kind: SynthKind,
    /// Folder for the files; it must not exist
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Users
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 2000
    )]
    pub users: usize,
    /// ratings: items of the catalogue [default: 500]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub items: Option<usize>,
    /// ratings: ratings in all [default: 40 for each user]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub ratings: Option<usize>,
    /// groups: rows of each user [default: 10]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub rows: Option<usize>,
    /// groups: features of a row [default: 8]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub features: Option<usize>,
    /// groups: directions in which users' models differ [default: 2]
    #[arg(long, value_name = "K", allow_hyphen_values = true)]
    pub rank: Option<usize>,
    #[command(flatten)]
    pub generated: GeneratedArgs,
    /// Print one JSON object instead of the names of the files
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SynthKind {
    Ratings,
    Groups,
}
