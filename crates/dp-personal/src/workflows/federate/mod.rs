//! `dp federate`: rows of many users in, a model that they share in part and its certificate out; or a look at many epsilons.

mod audit;
mod certified;
mod exploration;
mod runs;
mod settings;
mod source;

use std::path::PathBuf;

use dp_accounting::Plan;

use self::settings::Settings;
use crate::error::{Error, Result};
use crate::settings::FederateSettings;
use crate::watch::Watch;
use crate::workers::Place;
use crate::workflows::private_run::Opening;

pub use audit::audit;
pub use certified::CertifiedOutcome;
pub(crate) use certified::selection;
pub use exploration::ExplorationOutcome;
pub(crate) use runs::{AllRuns, Rows, Shape};

/// What a run left, and what it has to say.
#[derive(Debug, Clone)]
pub enum FederateOutcome {
    /// Of one epsilon: a model that was released.
    Certified(Box<CertifiedOutcome>),
    /// Of several: figures to look at, of which nothing may be released.
    Exploration(ExplorationOutcome),
}

/// What [`federate`] will release with these settings, and its guarantee at the first epsilon: public, and known before any data is read. Neither noise nor
/// cost depends on the number of features.
///
/// # Errors
/// When settings are out of range or do not go together.
pub fn plan(args: &FederateSettings) -> Result<Plan> {
    certified::plan(args, &Settings::new(args)?)
}

/// Learns a model that users share in part from a table of rows, and writes a release folder; with several epsilons it
/// explores them instead.
///
/// # Errors
/// Before anything is read when settings are out of range or do not go together, when the output exists or when the ledger has
/// no room; after that when the data cannot be read or the folder cannot be written.
///
/// # Privacy
/// Of one epsilon: all runs, and the choice among them, are covered by one certificate and paid for in the ledger before any
/// noise is drawn. An exploration is internal as a whole.
pub fn federate(args: &FederateSettings, watch: &mut dyn Watch) -> Result<FederateOutcome> {
    federate_at(args, watch, Place::Alone)
}

/// [`federate`] at one epsilon with users in several processes: see [`crate::workers`]. Users' own parameters stay in the processes that hold
/// the users, so that nothing is measured but what the run releases.
///
/// # Errors
/// As [`federate`]; [`Error::Usage`] for an exploration; [`Error::WorkerDone`] at a worker that has sent its sums; those of the links.
///
/// # Privacy
/// As [`federate`]. Exact sums go over the links.
pub fn federate_at(
    args: &FederateSettings,
    watch: &mut dyn Watch,
    place: Place<'_>,
) -> Result<FederateOutcome> {
    args.held_out.shares.check_dealt(place.dealing())?;
    // everything public is checked before the data is touched
    let settings = Settings::new(args)?;
    let opening = Opening {
        data: &args.data,
        catalogue: args
            .run
            .items
            .as_deref()
            .map(|items| (items, [args.run.columns.user_col.as_ref(), None])),
        inputs: [&args.run.items, &args.run.ranges.bounds]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
            .collect(),
        ledger: &args.ledger,
        resume: &args.resume,
        output: &args.output,
    };
    if settings.targets.len() > 1 {
        if !matches!(place, Place::Alone) {
            let text = "an exploration of several `epsilon` has all users in one process";
            return Err(Error::Usage(text.to_owned()));
        }
        if args.output.fail_if_worse {
            let text = "`fail_if_worse` is for one `epsilon`: an exploration releases no model";
            return Err(Error::Usage(text.to_owned()));
        }
        opening.protect()?;
        opening.check_catalogue()?;
        exploration::run(args, &settings, watch).map(FederateOutcome::Exploration)
    } else {
        let outcome = certified::run(args, &settings, opening, watch, place)?;
        Ok(FederateOutcome::Certified(Box::new(outcome)))
    }
}
