//! `dp`: train a private recommender, fold users in, verify certificates, account for mechanisms.

mod args;
mod commands;
mod config;
mod logging;

#[cfg(feature = "parquet")]
mod panics;

use std::process::ExitCode;

use args::Command;
use config::Invocation;

use dp_personal::{error, output, workflows};

fn main() -> ExitCode {
    #[cfg(feature = "parquet")]
    panics::show_what_is_not_caught();
    let argv: Vec<_> = std::env::args_os().collect();
    let outcome = config::invocation(&argv).and_then(|invocation| match invocation {
        Invocation::Run(cli) => {
            logging::start(cli.verbose, cli.quiet);
            run(cli.command)
        }
        Invocation::Print(settings) => output::print(&settings),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::print_error(&error);
            error.exit_code()
        }
    }
}

fn run(command: Command) -> error::Result<()> {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "dp {}", command.name());
    match command {
        Command::Demo(args) => workflows::demo::run(&args),
        Command::Synth(args) => workflows::synth::run(&args),
        Command::Train(args) => workflows::train::run(&args),
        Command::Tune(args) => workflows::tune::run(&args),
        Command::Personalize(args) => workflows::personalize::run(&args),
        Command::Federate(args) => workflows::federate::run(&args),
        Command::Predict(args) => workflows::predict::run(&args),
        Command::Evaluate(args) => workflows::evaluate::run(&args),
        Command::Report(args) => workflows::report::run(&args),
        Command::Recommend(args) => workflows::recommend::run(&args),
        Command::Verify(args) => workflows::verify::run(&args),
        Command::Account(args) => commands::account::run(&args),
        Command::Calibrate(args) => commands::calibrate::run(&args),
        Command::Audit(args) => workflows::audit::run(&args),
        Command::Completions(args) => commands::completions::run(&args),
    }
}
