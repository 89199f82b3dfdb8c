//! `dp`: train a private recommender, fold users in, verify certificates, account for mechanisms.

mod args;
mod columns;
mod commands;
mod config;
mod error;
mod evaluate;
mod featured;
mod federated;
mod logging;
mod output;
#[cfg(feature = "parquet")]
mod panics;
mod personal;
mod progress;
mod ranking;
mod report;
mod rounds;

use std::process::ExitCode;

use args::Command;
use config::Invocation;

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
        Command::Demo(args) => commands::demo::run(&args),
        Command::Synth(args) => commands::synth::run(&args),
        Command::Train(args) => commands::train::run(&args),
        Command::Tune(args) => commands::tune::run(&args),
        Command::Personalize(args) => commands::personalize::run(&args),
        Command::Federate(args) => commands::federate::run(&args),
        Command::Predict(args) => commands::predict::run(&args),
        Command::Evaluate(args) => commands::evaluate::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Recommend(args) => commands::recommend::run(&args),
        Command::Verify(args) => commands::verify::run(&args),
        Command::Account(args) => commands::account::run(&args),
        Command::Calibrate(args) => commands::calibrate::run(&args),
        Command::Audit(args) => commands::audit::run(&args),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Reproduce(args) => commands::reproduce::run(&args),
    }
}
