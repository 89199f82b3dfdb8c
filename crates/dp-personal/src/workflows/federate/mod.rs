//! `dp federate`: rows of many users in, a model that they share in part and its certificate out; or a look at many epsilons.

mod certified;
mod choice;
mod exploration;
mod runs;
mod settings;
mod source;

use self::settings::Settings;
use crate::error::Result;
use crate::settings::FederateArgs;
use crate::workflows::train::protect;

pub fn run(args: &FederateArgs) -> Result<()> {
    // everything public is checked before the data is touched
    let settings = Settings::new(args)?;
    protect(
        &args.output,
        &[
            Some(args.data.as_path()),
            args.items.as_deref(),
            args.ranges.bounds.as_deref(),
            args.ledger.ledger.as_deref(),
        ],
    )?;
    if settings.targets.len() > 1 {
        exploration::run(args, &settings)
    } else {
        certified::run(args, &settings)
    }
}
