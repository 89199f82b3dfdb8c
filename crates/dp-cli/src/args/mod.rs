//! The command line.

mod account;
mod flags;

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};

pub(crate) use account::{AccountArgs, CalibrateArgs};
pub(crate) use flags::Flags;

use dp_personal::settings::{
    AuditFederateSettings, AuditPersonalizeSettings, AuditSettings, AuditTuneSettings,
    DemoSettings, EvaluateSettings, EvidenceSettings, FederateSettings,
    LedgerAcceptRollbackSettings, LedgerCreateSettings, LedgerMergeSettings, LedgerShowSettings,
    LedgerUpgradeSettings, NightlyEraseSettings, NightlyInitRowsSettings, NightlyInitSettings,
    NightlyPublishSettings, NightlyRunRowsSettings, NightlyRunSettings, NightlyStatusSettings,
    PersonalizeSettings, PredictSettings, PublishSettings, RecommendSettings, ReportSettings,
    SimilarSettings, SynthSettings, TrainSettings, TuneSettings, VerifySettings,
};

/// Train recommenders with differential privacy for each user's whole data, check and audit their
/// guarantees, and account for any other private mechanism.
#[derive(Parser)]
#[command(name = "dp", version, propagate_version = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Settings as TOML, a table for each command; flags and `DP_` variables override it
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "DP_CONFIG",
        hide_env = true,
        help_heading = "Settings from a file"
    )]
    pub(crate) config: Option<PathBuf>,
    /// Print the settings of this command in that format and exit
    #[arg(long, global = true, help_heading = "Settings from a file")]
    pub(crate) print_config: bool,
    /// Log progress on standard error; -vv logs each step too (never private values)
    #[arg(
        short,
        long,
        global = true,
        action = ArgAction::Count,
        help_heading = "Messages"
    )]
    pub(crate) verbose: u8,
    /// Print only errors on standard error: no warnings, no progress bar
    #[arg(
        long,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Messages"
    )]
    pub(crate) quiet: bool,
}

/// The definition of the command line.
pub(crate) static COMMAND: LazyLock<clap::Command> = LazyLock::new(Cli::command);

/// Flags of `dp ledger`.
#[derive(Args)]
pub(crate) struct LedgerArgs {
    #[command(subcommand)]
    pub(crate) command: LedgerCommand,
}

/// What is done with a ledger.
#[derive(Subcommand)]
pub(crate) enum LedgerCommand {
    /// Create a ledger before the first run
    Create(Flags<LedgerCreateSettings>),
    /// Print what was spent, on what and when, and what is left
    Show(Flags<LedgerShowSettings>),
    /// Rewrite it in the newest format, as another kind or with more budget; keeps what was spent
    Upgrade(Flags<LedgerUpgradeSettings>),
    /// Combine ledgers of one data set into a new one
    Merge(Flags<LedgerMergeSettings>),
    /// Use a ledger whose newest payments are lost, with a note that they are not counted
    AcceptRollback(Flags<LedgerAcceptRollbackSettings>),
}

/// Flags of `dp nightly`.
#[derive(Args)]
pub(crate) struct NightlyArgs {
    #[command(subcommand)]
    pub(crate) command: NightlyCommand,
}

/// What is done with nights.
#[derive(Subcommand)]
pub(crate) enum NightlyCommand {
    /// Reserve the budget of all nights and create the state folder
    Init(Box<Flags<NightlyInitSettings>>),
    /// Release tonight's model from all current ratings; running again on the same night rebuilds it
    Run(Box<Flags<NightlyRunSettings>>),
    /// The same as init, for a subspace that users' linear models share
    InitRows(Box<Flags<NightlyInitRowsSettings>>),
    /// The same as run, from labelled rows
    RunRows(Box<Flags<NightlyRunRowsSettings>>),
    /// Print which nights were released and how much budget users have left
    Status(Flags<NightlyStatusSettings>),
    /// Erase users: later nights do not use their data, and they cannot return as new users
    #[command(
        override_usage = "dp nightly erase [OPTIONS] <STATE> <USER>...\n       dp nightly erase [OPTIONS] <STATE> --list <FILE>"
    )]
    Erase(Flags<NightlyEraseSettings>),
    /// Copy what the latest model's certificate covers and write its pages anew, for publication
    Publish(Flags<NightlyPublishSettings>),
}

/// Flags of `dp completions`.
#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

const EXAMPLES: &str = "\
Examples:
  dp train ratings.csv.gz --epsilon 1 --delta 1e-6 --items catalogue.csv --ledger ratings.ledger --new-ledger
  dp ledger show ratings.ledger
  dp audit ratings.csv.gz --epsilon 1 --delta 1e-6 --items catalogue.csv
  dp verify dp-model
  dp publish dp-model to-publish
  dp recommend --model dp-model --history my-ratings.csv
  dp similar --model dp-model Alien
  dp evaluate ratings.csv.gz --model dp-model --non-private
  dp report dp-model --title Alien
  dp personalize visits.csv --user-col clinic --target-col days --rank 2 --epsilon 1 --delta 1e-5 --no-ledger
  dp predict --model dp-model --history my-visits.csv --rows new-visits.csv
  dp federate visits.csv --user-col clinic --target-col days --epsilon 1 --delta 1e-5 --no-ledger
  dp calibrate --epsilon 1 --delta 1e-5 --steps 10000 --sampling-probability 0.01

Exit codes: 0 done, 1 other failure, 2 bad argument, 3 budget spent, 4 bad input file, 5 ledger in
use or damaged, 6 certificate does not hold or audit refutes a claim, 7 output cannot be written,
8 audit inconclusive, 9 a baseline is better (--fail-if-worse).";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Generate ratings, train on them at epsilon 1 and 5, and compare with no privacy
    Demo(Flags<DemoSettings>),
    /// Generate data to try the other commands on
    Synth(Flags<SynthSettings>),
    /// Make the table for `dp train --prior` from public ratings (not private)
    Evidence(Flags<EvidenceSettings>),
    /// Train private item factors from a file of ratings
    Train(Box<Flags<TrainSettings>>),
    /// Train several settings within one budget and keep the best
    Tune(Box<Flags<TuneSettings>>),
    /// Learn a subspace shared by the linear models of users with few rows each
    Personalize(Box<Flags<PersonalizeSettings>>),
    /// Train models that are partly shared and partly personal; choose the mix under the privacy budget
    Federate(Box<Flags<FederateSettings>>),
    /// Fit personal models to the output of `dp personalize` or `dp federate`, locally, and predict
    Predict(Flags<PredictSettings>),
    /// Measure a model of `dp train` on held-out ratings (internal: not covered by the guarantee)
    Evaluate(Flags<EvaluateSettings>),
    /// Write report pages about runs: one of released values, and a separate internal one
    Report(Flags<ReportSettings>),
    /// Recommend items to one user or many, each from their own ratings alone, locally
    Recommend(Flags<RecommendSettings>),
    /// List the items most similar to others, by their released factors
    Similar(Flags<SimilarSettings>),
    /// Copy what a certificate covers and write its pages anew, for publication
    Publish(Flags<PublishSettings>),
    /// Recompute a certificate from its list of releases
    Verify(Flags<VerifySettings>),
    /// Retrain a recommender every night on one lifetime budget per user
    Nightly(NightlyArgs),
    /// Create, show, upgrade and merge ledgers, which record what all runs on one data set spend
    Ledger(LedgerArgs),
    /// Compute epsilon, delta and more for any composition of mechanisms
    Account(AccountArgs),
    /// Solve for the noise, the steps or the sampling probability that meets a target
    Calibrate(CalibrateArgs),
    /// Audit `dp train`: repeat the run with planted users and measure its privacy loss
    Audit(Box<Flags<AuditSettings>>),
    /// Audit `dp tune` in the same way
    AuditTune(Box<Flags<AuditTuneSettings>>),
    /// Audit `dp personalize` in the same way
    AuditPersonalize(Box<Flags<AuditPersonalizeSettings>>),
    /// Audit `dp federate` in the same way
    AuditFederate(Box<Flags<AuditFederateSettings>>),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

impl Command {
    /// The name as typed on the command line.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Demo(_) => "demo",
            Self::Synth(_) => "synth",
            Self::Evidence(_) => "evidence",
            Self::Train(_) => "train",
            Self::Tune(_) => "tune",
            Self::Personalize(_) => "personalize",
            Self::Federate(_) => "federate",
            Self::Predict(_) => "predict",
            Self::Evaluate(_) => "evaluate",
            Self::Report(_) => "report",
            Self::Recommend(_) => "recommend",
            Self::Similar(_) => "similar",
            Self::Publish(_) => "publish",
            Self::Verify(_) => "verify",
            Self::Nightly(of) => match of.command {
                NightlyCommand::Init(_) => "nightly init",
                NightlyCommand::Run(_) => "nightly run",
                NightlyCommand::Status(_) => "nightly status",
                NightlyCommand::Erase(_) => "nightly erase",
                NightlyCommand::Publish(_) => "nightly publish",
                NightlyCommand::InitRows(_) => "nightly init-rows",
                NightlyCommand::RunRows(_) => "nightly run-rows",
            },
            Self::Ledger(of) => match of.command {
                LedgerCommand::Create(_) => "ledger create",
                LedgerCommand::Show(_) => "ledger show",
                LedgerCommand::Upgrade(_) => "ledger upgrade",
                LedgerCommand::Merge(_) => "ledger merge",
                LedgerCommand::AcceptRollback(_) => "ledger accept-rollback",
            },
            Self::Account(_) => "account",
            Self::Calibrate(_) => "calibrate",
            Self::Audit(_) => "audit",
            Self::AuditTune(_) => "audit-tune",
            Self::AuditPersonalize(_) => "audit-personalize",
            Self::AuditFederate(_) => "audit-federate",
            Self::Completions(_) => "completions",
        }
    }
}

/// Replaces the names between backticks in a text by the results of `flag`.
pub(crate) fn with_flags(text: &str, flag: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    for (at, part) in text.split('`').enumerate() {
        match flag(part).filter(|_| at % 2 == 1) {
            Some(flag) => out.push_str(&flag),
            None if at % 2 == 1 => out.push_str(&format!("`{part}`")),
            None => out.push_str(part),
        }
    }
    out
}

/// The flag for the argument of this name in a command or, if it has none, in another one.
pub(crate) fn flag_of(command: &str, name: &str) -> Option<String> {
    own_flag(command, name).or_else(|| {
        let mut others = COMMAND
            .get_subcommands()
            .flat_map(|command| std::iter::once(command).chain(command.get_subcommands()));
        others.find_map(|command| flag_in(command, name))
    })
}

/// The flag for the argument of this name in a command.
pub(crate) fn own_flag(command: &str, name: &str) -> Option<String> {
    let mut words = command.split_whitespace();
    let own = words.try_fold(&*COMMAND, |command, word| command.find_subcommand(word))?;
    flag_in(own, name)
}

fn flag_in(command: &clap::Command, name: &str) -> Option<String> {
    let arg = command.get_arguments().find(|arg| arg.get_id() == name);
    arg.map(|arg| match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(letter)) => format!("-{letter}"),
        (None, None) => arg.get_value_names().map_or_else(
            || name.to_uppercase(),
            |names| names.iter().map(ToString::to_string).collect(),
        ),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use dp_core::ApproxDp;
    use dp_personal::multitask::FactorizationParams;
    use dp_personal::settings::{Kind, Settings};

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_of_a_run_is_in_the_table_and_agrees_with_it() {
        let mut all = Cli::command();
        all.build();
        for (name, table) in [
            ("train", TrainSettings::table()),
            ("tune", TuneSettings::table()),
            ("personalize", PersonalizeSettings::table()),
            ("federate", FederateSettings::table()),
            ("audit", AuditSettings::table()),
            ("audit-tune", AuditTuneSettings::table()),
            ("audit-personalize", AuditPersonalizeSettings::table()),
            ("audit-federate", AuditFederateSettings::table()),
        ] {
            let command = all.find_subcommand(name).unwrap();
            // arguments that do not describe a run
            let others = ["json", "plan"].into_iter().chain(crate::COMMON_FLAGS);
            let others: Vec<&str> = others.collect();
            let own = |arg: &&clap::Arg| !others.contains(&arg.get_id().as_str());
            let args: Vec<&clap::Arg> = command.get_arguments().filter(own).collect();
            assert_eq!(args.len(), table.len(), "{name}");
            for (arg, row) in args.into_iter().zip(table) {
                assert_eq!(arg.get_id(), row.name, "{name}");
                assert_eq!(arg.is_positional(), row.positional, "{name}: {}", row.name);
                assert_eq!(
                    arg.is_required_set(),
                    row.is_required(),
                    "{name}: {}",
                    row.name
                );
                if !row.positional {
                    assert_eq!(flag_of(name, row.name), Some(row.flag()));
                    assert_eq!(crate::config::key(arg), row.key());
                }
                let defaults = arg.get_default_values().iter();
                let defaults: Vec<_> = defaults.map(|text| text.to_str().unwrap()).collect();
                let of_table: Vec<&str> = row.default.into_iter().collect();
                if row.kind != Kind::Switch {
                    assert_eq!(defaults, of_table, "{name}: {}", row.name);
                }
                let text = arg.get_help().unwrap().to_string();
                if name.ends_with("tune") && row.name == "method" {
                    assert!(!text.contains("am-ssp"), "{name} refuses it: {text}");
                    assert!(text.contains("pooled"), "{name}: {text}");
                    continue;
                }
                for part in [row.doc.trim(), row.usual.unwrap_or_default()] {
                    let part = with_flags(part, |word| flag_of(name, word));
                    assert!(text.contains(&part), "{name}: {text}");
                }
            }
        }
    }

    #[test]
    fn names_between_backticks_become_flags() {
        let flag = |command: &'static str| move |name: &str| flag_of(command, name);
        let said = "`min_rating` needs `feedback` implicit, not `this`";
        assert_eq!(
            with_flags(said, flag("recommend")),
            "--min-rating needs --feedback implicit, not `this`"
        );
        assert_eq!(
            with_flags("`count` or `ratings`", flag("recommend")),
            "-k or RATINGS"
        );
        assert_eq!(with_flags("`n_rounds`", flag("federate")), "--rounds");
        assert_eq!(with_flags("`n_rounds`", flag("tune")), "--steps");
        assert_eq!(
            with_flags("`night` of `state`", flag("nightly run")),
            "--night of STATE"
        );
    }

    #[test]
    fn the_help_states_the_defaults_of_the_library() {
        for epsilon in [0.1, 1.0, 5.0, 20.0] {
            let target = ApproxDp::target(epsilon, 1e-5).unwrap();
            let params = FactorizationParams::for_target(target);
            assert_eq!(params.dim, None);
            let params = serde_json::to_value(params).unwrap();
            let stated = TrainSettings::table().into_iter().filter_map(|row| {
                let usual: f64 = row.usual?.split([',', ';']).next()?.parse().ok()?;
                Some((row.name, usual, params.get(row.name)?.as_f64()))
            });
            let stated: Vec<_> = stated.collect();
            assert!(stated.len() >= 8, "{stated:?}");
            for (name, usual, value) in stated {
                assert_eq!(Some(usual), value, "{name} at {epsilon}");
            }
        }
    }
}
