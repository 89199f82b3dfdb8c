//! `dp nightly`: a recommender, or a shared subspace, that is retrained every night.

use dp_personal::workflows::nightly;

use super::tools::show_published;
use crate::args::{NightlyCommand, own_flag, with_flags};
use crate::error::Result;
use crate::progress::Bar;
use crate::screen::{print_json, print_summary};

pub(crate) fn run(command: &NightlyCommand) -> Result<()> {
    let (as_json, report) = match command {
        NightlyCommand::Init(flags) => (flags.json, nightly::init(&flags.settings)?),
        NightlyCommand::Run(flags) => {
            let made = nightly::run(&flags.settings, &mut Bar::default())?;
            (flags.json, made)
        }
        NightlyCommand::InitRows(flags) => (flags.json, nightly::init_rows(&flags.settings)?),
        NightlyCommand::RunRows(flags) => {
            let made = nightly::run_rows(&flags.settings, &mut Bar::default())?;
            (flags.json, made)
        }
        NightlyCommand::Status(flags) => (flags.json, nightly::status(&flags.settings)?),
        NightlyCommand::Erase(flags) => (flags.json, nightly::erase(&flags.settings)?),
        NightlyCommand::Publish(flags) => {
            let found = nightly::publish(&flags.settings)?;
            return show_published(flags.json, &found);
        }
    };
    match as_json {
        true => print_json(&report.json)?,
        false => print_summary(&with_flags(&report.text, next_night))?,
    }
    report.refused.map_or(Ok(()), |error| Err(error.into()))
}

/// The flags that a status may recommend for the next night.
fn next_night(name: &str) -> Option<String> {
    let is_one = ["night", "restored"].contains(&name);
    is_one.then(|| own_flag("nightly run", name)).flatten()
}
