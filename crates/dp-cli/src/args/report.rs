//! `dp report`: which folders, and what to show of them.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub(crate) struct ReportArgs {
    /// Folders of trained models; the first is described, the others stand beside it
    #[arg(required = true, value_name = "DIR")]
    pub(crate) folders: Vec<PathBuf>,
    /// Item to show the nearest ones of: its id or a part of its title; repeatable
    #[arg(long = "title", value_name = "NAME")]
    pub(crate) titles: Vec<String>,
    /// Table of items whose titles replace those of the model
    #[arg(long, value_name = "CATALOGUE")]
    pub(crate) items: Option<PathBuf>,
    /// Folder for the pages [default: the first DIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// With --out, write the internal pages there too
    #[arg(long)]
    pub(crate) internal: bool,
    /// Print one JSON object instead of the names of the pages
    #[arg(long)]
    pub(crate) json: bool,
}
