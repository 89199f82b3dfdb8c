//! `dp report`: which folders, and what to show of them.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub struct ReportArgs {
    /// Folders of trained models; the first is described, the others stand beside it
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// Item to show the nearest ones of: its id or a part of its title; repeatable
    #[arg(long = "title", value_name = "NAME")]
    pub titles: Vec<String>,
    /// Table of items whose titles replace those of the model
    #[arg(long, value_name = "CATALOGUE")]
    pub items: Option<PathBuf>,
    /// Folder for the pages [default: the first DIR]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// With --out, write the internal pages there too
    #[arg(long)]
    pub internal: bool,
    /// Print one JSON object instead of the names of the pages
    #[arg(long)]
    pub json: bool,
}
