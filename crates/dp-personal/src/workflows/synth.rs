//! `dp synth`: made data as csv, to try the other commands on.

use std::fmt::Write as _;

use dp_core::UserSamples;
use dp_data::{LongTailRatings, Ratings, SharedSubspace};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::output::{self, OutputFolder};
use crate::settings::{SynthArgs, SynthKind};

/// Standard deviation of the noise on the labels of groups.
const LABEL_NOISE: f64 = 0.1;
/// Every user rates at least this often, or as often as all do on average.
const MIN_PER_USER: usize = 10;

pub fn run(args: &SynthArgs) -> Result<()> {
    let mut rng = ChaCha20Rng::seed_from_u64(args.generated.data_seed);
    let files = match args.kind {
        SynthKind::Ratings => {
            let others = [args.rows, args.features, args.rank];
            refuse("ratings", ["--rows", "--features", "--rank"], others)?;
            refuse_large(args.users, 12, args.ratings.unwrap_or(0))?;
            refuse_large(args.items.unwrap_or(0), 12, 0)?;
            let ratings = ratings(args).generate(&mut rng).map_err(by_flag)?;
            vec![
                ("ratings.csv", ratings_csv(&ratings)),
                ("items.csv", items_csv(&ratings)),
            ]
        }
        SynthKind::Groups => {
            let others = [args.items, args.ratings, None];
            refuse("groups", ["--items", "--ratings", ""], others)?;
            let rows = args.users.saturating_mul(args.rows.unwrap_or(10));
            refuse_large(rows, args.features.unwrap_or(8), rows)?;
            refuse_large(args.users, args.features.unwrap_or(8), 0)?;
            let data = groups(args).generate(&mut rng).map_err(by_flag)?;
            vec![("rows.csv", rows_csv(&data.samples))]
        }
    };
    let folder = OutputFolder::create(&args.out, false)?;
    for (name, text) in &files {
        folder.write(name, text.as_bytes())?;
    }
    folder.commit()?;
    let n_lines = |text: &str| text.lines().count() - 1;
    if args.json {
        let files = files.iter().map(|(name, text)| {
            let path = args.out.join(name).display().to_string();
            json!({"path": path, "n_lines": n_lines(text)})
        });
        let files: Vec<Value> = files.collect();
        let data_seed = args.generated.data_seed;
        return output::print_json(&json!({"files": files, "data_seed": data_seed}));
    }
    let mut said = String::new();
    for (name, text) in &files {
        let path = args.out.join(name);
        let n_lines = n_lines(text);
        let _ = writeln!(said, "{}: {n_lines} lines under a header", path.display());
    }
    output::print(&said)
}

/// More numbers than this do not belong into csv, and may not fit into memory.
const MOST_NUMBERS: usize = 1 << 28;

fn refuse_large(n_rows: usize, width: usize, more: usize) -> Result<()> {
    let n_numbers = n_rows.saturating_mul(width).saturating_add(more);
    if n_numbers <= MOST_NUMBERS {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "these sizes make {n_numbers} numbers; expected at most {MOST_NUMBERS}: give smaller ones, such as fewer --users"
    )))
}

/// Flags of the other kind are a mistake, not something to pass over.
fn refuse(kind: &str, flags: [&str; 3], given: [Option<usize>; 3]) -> Result<()> {
    match flags.iter().zip(given).find(|(_, value)| value.is_some()) {
        Some((flag, _)) => Err(Error::Usage(format!(
            "{flag} does not go with `dp synth {kind}`"
        ))),
        None => Ok(()),
    }
}

/// Sizes out of range are bad arguments, not bad files.
fn by_flag(error: dp_data::Error) -> Error {
    match error {
        dp_data::Error::Param(error) => Error::Param(dp_core::ParamError {
            name: match error.name {
                "n_users" => "--users",
                "n_items" => "--items",
                "n_ratings" => "--ratings",
                "rows_per_user" | "max_rows" => "--rows",
                "dim" => "--features",
                "rank" => "--rank",
                other => other,
            },
            expected: match error.name {
                "n_ratings" => "on average 1 to 0.9 times --items for each of --users",
                "rank" => "a whole number from 1 to --features",
                _ => error.expected,
            },
            ..error
        }),
        other => other.into(),
    }
}

fn ratings(args: &SynthArgs) -> LongTailRatings {
    let n_ratings = args.ratings.unwrap_or(args.users.saturating_mul(40));
    let mean = n_ratings.checked_div(args.users).unwrap_or(0);
    LongTailRatings::new(args.users, args.items.unwrap_or(500), n_ratings)
        .with_min_per_user(MIN_PER_USER.min(mean).max(1))
}

fn groups(args: &SynthArgs) -> SharedSubspace {
    SharedSubspace {
        n_users: args.users,
        rows_per_user: args.rows.unwrap_or(10),
        dim: args.features.unwrap_or(8),
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
