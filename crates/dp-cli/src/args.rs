//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use dp_core::Adjacency;

/// Train recommenders that protect each user's whole data, check what they promise, and account
/// for any other private mechanism.
#[derive(Parser)]
#[command(name = "dp", version, propagate_version = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  dp train ratings.csv.gz --epsilon 1 --delta 1e-6 --items catalogue.csv --ledger ratings.ledger
  dp verify dp-model
  dp recommend --model dp-model --history my-ratings.csv
  dp calibrate --epsilon 1 --delta 1e-5 --steps 10000 --sampling-probability 0.01

Exit codes: 0 done, 1 other failure, 2 bad argument, 3 budget spent, 4 bad input file, 5 ledger in
use or damaged, 6 certificate does not hold, 7 output cannot be written.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Generate ratings, train on them at epsilon 1 and 5, compare with no privacy
    Demo(DemoArgs),
    /// Train private item factors from a file of ratings
    Train(Box<TrainArgs>),
    /// Recommend items to one user from that user's own ratings, locally
    Recommend(RecommendArgs),
    /// Recompute a certificate from its list of releases
    Verify(VerifyArgs),
    /// Answer questions about the privacy of any composition of mechanisms
    Account(AccountArgs),
    /// Solve for the noise, the steps or the sampling probability that meets a target
    Calibrate(CalibrateArgs),
    /// Train many times on generated ratings and measure what planted users give away
    Audit(AuditArgs),
    /// Recompute figures and tables of the papers (seeded noise, no guarantee)
    Reproduce(crate::commands::reproduce::ReproduceArgs),
}

#[derive(Args)]
pub(crate) struct AuditArgs {
    /// Training method
    #[arg(long, value_enum, default_value_t = Method::Adadpals)]
    pub(crate) method: Method,
    /// Privacy target epsilon (nats) that the runs claim
    #[arg(long, value_name = "E", allow_hyphen_values = true)]
    pub(crate) epsilon: f64,
    /// Privacy target delta
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    pub(crate) delta: f64,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    /// Users planted in the data; each takes part in a run or not by the toss of a coin
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 200
    )]
    pub(crate) canaries: usize,
    /// Training runs
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 16
    )]
    pub(crate) runs: usize,
    /// Confidence of the lower bound from outputs alone
    #[arg(
        long,
        value_name = "P",
        allow_hyphen_values = true,
        default_value_t = 0.999
    )]
    pub(crate) confidence: f64,
    /// Seed of the generated ratings and of the coins (the noise is always fresh)
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 1
    )]
    pub(crate) data_seed: u64,
    /// Print one JSON object instead of the report
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Folder for the model; one from an earlier demo is replaced
    #[arg(long, value_name = "DIR", default_value = "dp-demo")]
    pub(crate) out: PathBuf,
    /// Seed of the generated ratings (the noise is always fresh)
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 1
    )]
    pub(crate) data_seed: u64,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// How the item factors are trained.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    // no doc comment: with one, clap spreads the whole help page out
    Adadpals,
}

#[derive(Args)]
pub(crate) struct TrainArgs {
    /// Ratings: csv or tsv with a header, MovieLens `::` or tab, optionally gzip
    pub(crate) ratings: PathBuf,
    /// Training method
    #[arg(long, value_enum, default_value_t = Method::Adadpals)]
    pub(crate) method: Method,
    /// Privacy target epsilon (nats), for adding or removing one user
    #[arg(long, value_name = "E", allow_hyphen_values = true)]
    pub(crate) epsilon: f64,
    /// Privacy target delta; choose it well below one over the number of users
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    pub(crate) delta: f64,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) split: SplitArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What is in the file of ratings.
#[derive(Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputArgs {
    /// Catalogue of items; without one the item ids of the ratings are taken to be public
    #[arg(long, value_name = "CATALOGUE")]
    pub(crate) items: Option<PathBuf>,
    /// Name of the user column [default: `user`, `userId` or `user_id`]
    #[arg(long, value_name = "NAME")]
    pub(crate) user_col: Option<String>,
    /// Name of the item column [default: `item`, `item_id`, `movieId`, ...]
    #[arg(long, value_name = "NAME")]
    pub(crate) item_col: Option<String>,
    /// Name of the rating column [default: `rating`]
    #[arg(long, value_name = "NAME")]
    pub(crate) rating_col: Option<String>,
}

/// Settings of the method.
#[derive(Args)]
#[command(next_help_heading = "Settings (public: never choose them by looking at the data)")]
pub(crate) struct SettingArgs {
    /// Item factors: a bias and DIM - 1 tastes [default: by rule, from released counts]
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) dim: Option<usize>,
    /// Rounds of alternating minimisation [default: 5]
    #[arg(long, value_name = "ROUNDS", allow_hyphen_values = true)]
    pub(crate) steps: Option<usize>,
    /// Weight n^-X of an item with n ratings; 0 releases no counts [default: 0.25]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub(crate) weight_exponent: Option<f64>,
    /// Norm of the taste part of a user's factor, below 1 [default: 0.95]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub(crate) clip_norm: Option<f64>,
    /// Centre of the ratings, in rating units [default: 3]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub(crate) label_center: Option<f64>,
    /// Bound on ratings after centre and user bias, in rating units [default: 1]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub(crate) label_bound: Option<f64>,
    /// Ridge of the item step, in units of its noise [default: 0.7]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    pub(crate) reg: Option<f64>,
    /// Share of the budget spent on item counts [default: 0.03]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    pub(crate) count_share: Option<f64>,
}

/// Where the privacy loss is recorded.
#[derive(Args)]
#[command(next_help_heading = "Ledger")]
pub(crate) struct LedgerArgs {
    /// Account of this data set over all runs; made when it does not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) ledger: Option<PathBuf>,
    /// Total epsilon of the ledger [default: as it was made; of a new one, the run's]
    #[arg(
        long,
        value_name = "E",
        requires = "ledger",
        allow_hyphen_values = true
    )]
    pub(crate) ledger_epsilon: Option<f64>,
    /// Total delta of the ledger [default: as it was made; of a new one, the run's]
    #[arg(
        long,
        value_name = "D",
        requires = "ledger",
        allow_hyphen_values = true
    )]
    pub(crate) ledger_delta: Option<f64>,
    /// Save the state here after every release, and go on from it where there is one
    #[arg(long, value_name = "DIR", requires = "ledger")]
    pub(crate) resume: Option<PathBuf>,
    /// Name of the data set in ledger and certificate [default: the file's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) data_set: Option<String>,
}

/// What is held out for the internal report.
#[derive(Args)]
#[command(next_help_heading = "Held-out ratings (for the internal report)")]
pub(crate) struct SplitArgs {
    /// Seed of the 80/10/10 split of ratings into train, validation and test
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        default_value_t = 0
    )]
    pub(crate) split_seed: u64,
    /// Train on all ratings and report no accuracy
    #[arg(long, conflicts_with = "split_seed")]
    pub(crate) no_split: bool,
}

/// What the run leaves behind.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Folder for model, certificate and reports
    #[arg(long, value_name = "DIR", default_value = "dp-model")]
    pub(crate) out: PathBuf,
    /// Replace the output folder, whatever it holds
    #[arg(long)]
    pub(crate) force: bool,
    /// Print one JSON object instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
    /// Repeatable noise for tests: NOT PRIVATE and marked so; not with --ledger
    #[arg(long, value_name = "N", conflicts_with = "ledger")]
    pub(crate) insecure_seed: Option<u64>,
}

#[derive(Args)]
pub(crate) struct RecommendArgs {
    /// Folder written by `dp train`
    #[arg(long, value_name = "DIR")]
    pub(crate) model: PathBuf,
    /// The user's own ratings: csv or tsv with columns item and rating
    #[arg(long, value_name = "FILE")]
    pub(crate) history: PathBuf,
    /// How many items to recommend
    #[arg(
        short = 'k',
        value_name = "K",
        allow_hyphen_values = true,
        default_value_t = 10
    )]
    pub(crate) count: usize,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// A certificate, or a folder written by `dp train`
    pub(crate) certificate: PathBuf,
    /// Also check that this ledger paid for every release (it is only read)
    #[arg(long, value_name = "FILE")]
    pub(crate) ledger: Option<PathBuf>,
    /// Print one JSON object instead of the statement
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct AccountArgs {
    /// JSON: a question file with cases, or an event file
    pub(crate) file: PathBuf,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(
    after_help = "One of --steps, --sampling-probability and --noise-multiplier is left out and \
    solved for.\nNeighbours are add-remove-user, replace-user, add-remove-record or replace-record."
)]
pub(crate) struct CalibrateArgs {
    /// Event file in which one parameter is null, instead of the flags below
    #[arg(conflicts_with_all = [
        "epsilon", "delta", "noise_multiplier", "steps", "sampling_probability", "adjacency"
    ])]
    pub(crate) file: Option<PathBuf>,
    /// Privacy target epsilon (nats)
    #[arg(long, value_name = "E", allow_hyphen_values = true)]
    pub(crate) epsilon: Option<f64>,
    /// Privacy target delta
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    pub(crate) delta: Option<f64>,
    /// Noise standard deviation of a step over the norm bound of a unit
    #[arg(long, value_name = "Z", allow_hyphen_values = true)]
    pub(crate) noise_multiplier: Option<f64>,
    /// How many steps there are
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) steps: Option<u64>,
    /// Probability that a unit takes part in a step; 1 without sampling
    #[arg(long, value_name = "Q", allow_hyphen_values = true)]
    pub(crate) sampling_probability: Option<f64>,
    /// Neighbours that the target is for
    #[arg(
        long,
        value_enum,
        value_name = "A",
        hide_possible_values = true,
        default_value_t = Neighbours::AddRemoveUser
    )]
    pub(crate) adjacency: Neighbours,
    /// Print one JSON object instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
}

/// [`dp_core::Adjacency`] as a flag.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Neighbours {
    AddRemoveUser,
    ReplaceUser,
    AddRemoveRecord,
    ReplaceRecord,
}

impl From<Neighbours> for Adjacency {
    fn from(neighbours: Neighbours) -> Self {
        match neighbours {
            Neighbours::AddRemoveUser => Self::AddRemoveUser,
            Neighbours::ReplaceUser => Self::ReplaceUser,
            Neighbours::AddRemoveRecord => Self::AddRemoveRecord,
            Neighbours::ReplaceRecord => Self::ReplaceRecord,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use dp_core::ApproxDp;
    use dp_multitask::FactorizationParams;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The number in `[default: X]` of a flag's help.
    fn stated_default(flag: &str) -> Option<f64> {
        let command = Cli::command();
        let train = command.find_subcommand("train").unwrap();
        let arg = train.get_arguments().find(|arg| arg.get_id() == flag);
        let help = arg.unwrap().get_help().unwrap().to_string();
        let (_, stated) = help.split_once("[default: ")?;
        stated.strip_suffix(']')?.parse().ok()
    }

    #[test]
    fn the_help_states_the_defaults_of_the_library() {
        for epsilon in [0.1, 1.0, 5.0, 20.0] {
            let target = ApproxDp::target(epsilon, 1e-5).unwrap();
            let params = FactorizationParams::for_target(target);
            assert_eq!(params.dim, None);
            for (flag, value) in [
                ("steps", params.n_rounds as f64),
                ("weight_exponent", params.weight_exponent),
                ("clip_norm", params.clip_norm),
                ("label_center", params.label_center),
                ("label_bound", params.label_bound),
                ("reg", params.item_ridge_factor),
                ("count_share", params.count_share),
            ] {
                assert_eq!(stated_default(flag), Some(value), "--{flag} at {epsilon}");
            }
        }
    }
}
