//! `dp report`: which folders, and what to show of them.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub(crate) struct ReportArgs {
    /// Folders of `dp train`, `dp tune`, `dp personalize` or `dp federate`: the first is described, the others are compared with it
    #[arg(required = true, value_name = "DIR")]
    pub(crate) folders: Vec<PathBuf>,
    /// An item whose nearest ones are shown: its id, title or a part of it; may be repeated [default: the most counted]
    #[arg(long = "title", value_name = "NAME")]
    pub(crate) titles: Vec<String>,
    /// Table of items with other titles than those of the model
    #[arg(long, value_name = "CATALOGUE")]
    pub(crate) items: Option<PathBuf>,
    /// Folder for the pages [default: the first DIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object instead of the names of the pages
    #[arg(long)]
    pub(crate) json: bool,
}
