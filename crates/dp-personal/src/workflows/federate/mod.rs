//! `dp federate`: from rows of many users to a partly shared model and its certificate, or an
//! exploration of several epsilons.

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

/// Results of a run.
#[derive(Debug, Clone)]
pub enum FederateOutcome {
    /// For one epsilon: a released model.
    Certified(Box<CertifiedOutcome>),
    /// For several: results to look at, none of which may be released.
    Exploration(ExplorationOutcome),
}

/// The releases that [`federate`] will make with these settings, and its guarantee at the first
/// epsilon: public, and known before any data are read. Neither noise nor cost depends on the
/// number of features.
///
/// # Errors
/// When settings are out of range or conflict.
pub fn plan(args: &FederateSettings) -> Result<Plan> {
    certified::plan(args, &Settings::new(args)?)
}

/// Learns a partly shared model from a table of rows, and writes a release folder; with several
/// epsilons it explores them instead.
///
/// # Errors
/// Before anything is read, when settings are out of range or conflict, when the output exists or
/// when the ledger's budget is too small; after that, when the data cannot be read or the folder
/// cannot be written.
///
/// # Privacy
/// For one epsilon, one certificate covers all runs and the choice among them, and they are paid
/// for in the ledger before any noise is drawn. An exploration is internal as a whole.
pub fn federate(args: &FederateSettings, watch: &mut dyn Watch) -> Result<FederateOutcome> {
    federate_at(args, watch, Place::Alone)
}

/// Refuses settings that need more than the updates of devices.
fn check_devices(args: &FederateSettings) -> Result<()> {
    let (run, held_out) = (&args.run, &args.held_out);
    let refused = [
        (
            run.model.sampling_probability.is_none(),
            "devices are asked at random: give `sampling_probability`, with 1 for all in every round",
        ),
        (
            run.model.n_users.is_none(),
            "the server does not count users who are on devices: give `n_users`",
        ),
        (
            run.alpha_grid.len() != 1,
            "devices train at one ratio: give one `alpha_grid`",
        ),
        (
            run.items.is_some(),
            "`items` is for ratings, which devices do not send",
        ),
        (
            !held_out.no_split,
            "devices train on all of their rows: give `no_split`",
        ),
        (
            args.output.metrics.release_metrics.is_some(),
            "`release_metrics` needs held-out rows, and devices hold out none",
        ),
    ];
    match refused.into_iter().find(|(is_refused, _)| *is_refused) {
        Some((_, reason)) => Err(Error::Usage(reason.to_owned())),
        None => Ok(()),
    }
}

/// [`federate`] at one epsilon with users in several processes: see [`crate::workers`]. Users'
/// personal parameters stay in the processes that hold the users, so nothing is measured except
/// what the run releases.
///
/// # Errors
/// As [`federate`]; [`Error::Usage`] for an exploration; [`Error::WorkerDone`] at a worker that has
/// sent its sums; errors of the links.
///
/// # Privacy
/// As [`federate`]. Exact sums are sent over the links.
pub fn federate_at(
    args: &FederateSettings,
    watch: &mut dyn Watch,
    place: Place<'_>,
) -> Result<FederateOutcome> {
    args.held_out.shares.check_dealt(place.dealing())?;
    if let Place::Devices(_) = &place {
        check_devices(args)?;
    }
    // everything public is checked before the data are read
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
