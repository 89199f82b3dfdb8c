//! `dp synth`: generated data as csv, for experiments with the other commands.

use std::fmt::Write as _;
use std::path::PathBuf;

use chacha20::ChaCha20Rng;
use dp_core::UserSamples;
use dp_data::{LongTailRatings, Ratings, SharedSubspace};
use rand::SeedableRng;

use crate::error::{Error, Result};
use crate::output::OutputFolder;
use crate::settings::{SynthKind, SynthSettings};

/// Standard deviation of the noise on the labels of groups.
const LABEL_NOISE: f64 = 0.1;
/// Minimum number of ratings of a user, unless the average is lower.
const MIN_PER_USER: usize = 10;

/// A file of generated data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synthesized {
    /// Path of the file.
    pub path: PathBuf,
    /// Number of lines after its header.
    pub n_lines: usize,
}

/// Writes generated data as csv, for experiments with the other workflows.
///
/// # Errors
/// When sizes are out of range, and when the folder exists or cannot be written.
pub fn synth(args: &SynthSettings) -> Result<Vec<Synthesized>> {
    let mut rng = ChaCha20Rng::seed_from_u64(args.generated.data_seed);
    let files = match args.kind {
        SynthKind::Ratings => {
            let others = [args.rows_per_user, args.dim, args.rank];
            refuse("ratings", ["rows_per_user", "dim", "rank"], others)?;
            refuse_large(args.n_users, 12, args.n_ratings.unwrap_or(0))?;
            refuse_large(args.n_items.unwrap_or(0), 12, 0)?;
            let ratings = ratings(args).generate(&mut rng).map_err(by_setting)?;
            vec![
                ("ratings.csv", ratings_csv(&ratings)),
                ("items.csv", items_csv(&ratings)),
            ]
        }
        SynthKind::Groups => {
            let others = [args.n_items, args.n_ratings, None];
            refuse("groups", ["n_items", "n_ratings", ""], others)?;
            let rows = args
                .n_users
                .saturating_mul(args.rows_per_user.unwrap_or(10));
            refuse_large(rows, args.dim.unwrap_or(8), rows)?;
            refuse_large(args.n_users, args.dim.unwrap_or(8), 0)?;
            let data = groups(args).generate(&mut rng).map_err(by_setting)?;
            vec![("rows.csv", rows_csv(&data.samples))]
        }
    };
    let folder = OutputFolder::create(&args.out, false)?;
    for (name, text) in &files {
        folder.write(name, text.as_bytes())?;
    }
    folder.commit()?;
    let made = files.iter().map(|(name, text)| Synthesized {
        path: args.out.join(name),
        n_lines: text.lines().count() - 1,
    });
    Ok(made.collect())
}

/// More numbers than this should not be written as csv, and may not fit into memory.
const MOST_NUMBERS: usize = 1 << 28;

fn refuse_large(n_rows: usize, width: usize, more: usize) -> Result<()> {
    let n_numbers = n_rows.saturating_mul(width).saturating_add(more);
    if n_numbers <= MOST_NUMBERS {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "these sizes make {n_numbers} numbers; expected at most {MOST_NUMBERS}: give smaller ones, such as fewer `n_users`"
    )))
}

/// Flags of the other kind are refused as mistakes.
fn refuse(kind: &str, flags: [&str; 3], given: [Option<usize>; 3]) -> Result<()> {
    match flags.iter().zip(given).find(|(_, value)| value.is_some()) {
        Some((flag, _)) => Err(Error::Usage(format!(
            "`{flag}` does not go with `kind` {kind}"
        ))),
        None => Ok(()),
    }
}

/// Sizes out of range are argument errors, not file errors.
fn by_setting(error: dp_data::Error) -> Error {
    match error {
        dp_data::Error::Param(error) => Error::Param(dp_core::ParamError {
            name: match error.name {
                "max_rows" => "rows_per_user",
                other => other,
            },
            expected: match error.name {
                "n_ratings" => "on average 1 to 0.9 times `n_items` for each of `n_users`",
                "rank" => "a whole number from 1 to `dim`",
                _ => error.expected,
            },
            ..error
        }),
        other => other.into(),
    }
}

fn ratings(args: &SynthSettings) -> LongTailRatings {
    let n_ratings = args.n_ratings.unwrap_or(args.n_users.saturating_mul(40));
    let mean = n_ratings.checked_div(args.n_users).unwrap_or(0);
    LongTailRatings::new(args.n_users, args.n_items.unwrap_or(500), n_ratings)
        .with_min_per_user(MIN_PER_USER.min(mean).max(1))
}

fn groups(args: &SynthSettings) -> SharedSubspace {
    SharedSubspace {
        n_users: args.n_users,
        rows_per_user: args.rows_per_user.unwrap_or(10),
        dim: args.dim.unwrap_or(8),
        rank: args.rank.unwrap_or(2),
        label_noise: LABEL_NOISE,
        feature_decay: 0.0,
    }
}

fn ratings_csv(ratings: &Ratings) -> String {
    let items = ratings.catalogue().ids();
    let table = ratings.interactions().expose();
    let mut text = "user,item,rating\n".to_owned();
    for (user, row) in ratings.user_ids().expose().iter().zip(table.users()) {
        for (item, stars) in row.iter() {
            let _ = writeln!(text, "u{user},i{},{stars}", items[item as usize]);
        }
    }
    text
}

fn items_csv(ratings: &Ratings) -> String {
    let mut text = "item,title\n".to_owned();
    for id in ratings.catalogue().ids() {
        let _ = writeln!(text, "i{id},Title {id}");
    }
    text
}

fn rows_csv(samples: &UserSamples) -> String {
    let mut text = "user".to_owned();
    for feature in 1..=samples.n_features() {
        let _ = write!(text, ",x{feature}");
    }
    text.push_str(",y\n");
    for (user, rows) in (1..).zip(samples.users()) {
        for (features, label) in rows.iter() {
            let _ = write!(text, "g{user}");
            for x in features {
                let _ = write!(text, ",{x}");
            }
            let _ = writeln!(text, ",{label}");
        }
    }
    text
}
