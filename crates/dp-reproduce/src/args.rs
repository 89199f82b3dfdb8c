//! Flags of `dp-reproduce`.

use std::path::PathBuf;

use clap::Parser;

/// Recompute figures and tables of the papers (seeded noise, no guarantee)
#[derive(Parser)]
#[command(name = "dp-reproduce", version)]
pub(crate) struct ReproduceArgs {
    /// Name of the reproduction; see --list
    #[arg(value_name = "NAME", required_unless_present = "list")]
    pub(crate) name: Option<String>,
    /// List what can be reproduced
    #[arg(long)]
    pub(crate) list: bool,
    /// Seeds to average over
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 3
    )]
    pub(crate) seeds: u64,
    /// First seed
    #[arg(
        long,
        value_name = "S",
        allow_hyphen_values = true,
        default_value_t = 0
    )]
    pub(crate) seed_base: u64,
    /// Change a size of the set-up; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) size: Vec<String>,
    /// Use small sizes, to check that it runs
    #[arg(long)]
    pub(crate) quick: bool,
    /// Folder with the data sets, for reproductions that need one
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Write the figure to this file as SVG (reproductions of 2022 and 2024, nights, evidence and
    /// limits)
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Draw the rows printed earlier by --json instead of running
    #[arg(long, value_name = "FILE", requires = "plot")]
    pub(crate) rows: Option<PathBuf>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}
