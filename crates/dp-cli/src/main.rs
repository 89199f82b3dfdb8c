//! `dp`: train a private recommender, fold users in, verify certificates, account for mechanisms.

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

use std::process::ExitCode;

use args::Command;
use config::Invocation;

fn main() -> ExitCode {
    #[cfg(feature = "parquet")]
    panics::show_what_is_not_caught();
    let argv: Vec<_> = std::env::args_os().collect();
    let mut name = "";
    let outcome = config::invocation(&argv).and_then(|invocation| match invocation {
        Invocation::Run(cli) => {
            logging::start(cli.verbose, cli.quiet);
            name = cli.command.name();
            run(cli.command)
        }
        Invocation::Print(settings) => screen::print(&settings),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            screen::print_error(&error, name);
            error.exit_code()
        }
    }
}

fn run(command: Command) -> error::Result<()> {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "dp {}", command.name());
    match command {
        Command::Demo(flags) => commands::demo(&flags),
        Command::Synth(flags) => commands::synth(&flags),
        Command::Train(flags) => commands::train(&flags),
        Command::Tune(flags) => commands::tune(&flags),
        Command::Personalize(flags) => commands::personalize(&flags),
        Command::Federate(flags) => commands::federate(&flags),
        Command::Predict(flags) => commands::predict(&flags),
        Command::Evaluate(flags) => commands::evaluate(&flags),
        Command::Report(flags) => commands::report(&flags),
        Command::Recommend(flags) => commands::recommend(&flags),
        Command::Publish(flags) => commands::publish(&flags),
        Command::Verify(flags) => commands::verify(&flags),
        Command::Audit(flags) => commands::audit(&flags),
        Command::AuditTune(flags) => commands::audit_tune(&flags),
        Command::AuditPersonalize(flags) => commands::audit_personalize(&flags),
        Command::AuditFederate(flags) => commands::audit_federate(&flags),
        Command::Ledger(args) => commands::ledger::run(&args.command),
        Command::Account(args) => commands::account::run(&args),
        Command::Calibrate(args) => commands::calibrate::run(&args),
        Command::Completions(args) => commands::completions(&args),
    }
}
