//! The command line `dp`: trains a private recommender, folds users in, verifies certificates and
//! accounts for mechanisms.
//!
//! A library, so that engines can run it in many processes: `dp` calls [`run`] in one process.

mod args;
mod commands;
mod config;
mod error;
mod hints;
mod logging;
#[cfg(feature = "parquet")]
mod panics;
mod progress;
mod screen;
mod style;

use std::time::Duration;

use args::Command;
use config::Invocation;
use dp_personal::error::Error as WorkflowError;
use dp_personal::workers::Place;

/// How long a worker waits before it reports the error that ended it. If the same error ended the
/// coordinator, the coordinator has by then reported it and ended the job.
const COORDINATOR_SPEAKS_FIRST: Duration = Duration::from_secs(1);

/// Ids of the flags of every command, which `docs/command-line.md` describes.
pub const COMMON_FLAGS: [&str; 6] = [
    "config",
    "print_config",
    "verbose",
    "quiet",
    "help",
    "version",
];

/// The definition of the command line, for manual pages and reference.
#[must_use]
pub fn command() -> clap::Command {
    args::COMMAND.clone()
}

/// Executes the command given by the arguments of this process, and returns the exit code. A worker
/// prints only the error that ends it.
#[must_use]
pub fn run(place: Place<'_>) -> u8 {
    #[cfg(feature = "parquet")]
    panics::show_what_is_not_caught();
    let worker = match &place {
        Place::Worker(worker) => Some(worker.shard),
        Place::Alone | Place::Coordinator(_) | Place::Driver(..) | Place::Devices(_) => None,
    };
    if worker.is_some() {
        screen::set_silent();
    }
    let argv: Vec<_> = std::env::args_os().collect();
    let mut name = "";
    let outcome = config::invocation(&argv).and_then(|invocation| match invocation {
        Invocation::Run(cli) => {
            if worker.is_none() {
                logging::start(cli.verbose, cli.quiet);
            }
            name = cli.command.name();
            carry_out(cli.command, place)
        }
        Invocation::Print(settings) => screen::print(&settings),
    });
    match outcome {
        Ok(()) | Err(error::Error::Workflow(WorkflowError::WorkerDone)) => 0,
        Err(error) => {
            if let Some(shard) = worker {
                std::thread::sleep(COORDINATOR_SPEAKS_FIRST);
                screen::speak_as(&format!("worker {shard}: "));
            }
            screen::print_error(&error, name);
            error.exit_code()
        }
    }
}

fn carry_out(command: Command, place: Place<'_>) -> error::Result<()> {
    tracing::info!(target: "dp", version = env!("CARGO_PKG_VERSION"), "dp {}", command.name());
    match command {
        Command::Train(flags) => commands::train(&flags, place),
        Command::Tune(flags) => commands::tune(&flags, place),
        Command::Personalize(flags) => commands::personalize(&flags, place),
        Command::Federate(flags) => commands::federate(&flags, place),
        command if !matches!(place, Place::Alone) => Err(error::Error::Usage(format!(
            "{0} works in one process: run `dp {0}`; only train, tune, personalize and federate distribute users over several processes",
            command.name()
        ))),
        Command::Demo(flags) => commands::demo(&flags),
        Command::Synth(flags) => commands::synth(&flags),
        Command::Evidence(flags) => commands::evidence(&flags),
        Command::Predict(flags) => commands::predict(&flags),
        Command::Evaluate(flags) => commands::evaluate(&flags),
        Command::Report(flags) => commands::report(&flags),
        Command::Recommend(flags) => commands::recommend(&flags),
        Command::Similar(flags) => commands::similar(&flags),
        Command::Publish(flags) => commands::publish(&flags),
        Command::Verify(flags) => commands::verify(&flags),
        Command::Audit(flags) => commands::audit(&flags),
        Command::AuditTune(flags) => commands::audit_tune(&flags),
        Command::AuditPersonalize(flags) => commands::audit_personalize(&flags),
        Command::AuditFederate(flags) => commands::audit_federate(&flags),
        Command::Nightly(args) => commands::nightly::run(&args.command),
        Command::Ledger(args) => commands::ledger::run(&args.command),
        Command::Account(args) => commands::account::run(&args),
        Command::Calibrate(args) => commands::calibrate::run(&args),
        Command::Completions(args) => commands::completions(&args),
    }
}
