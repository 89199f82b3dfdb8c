//! Rating files, and popularity buckets of items.

use dp_core::Interactions;
use dp_data::{Layout, PopularityBuckets, Ratings, RatingsFormat, read_ratings};

use super::super::ReproduceArgs;
use super::super::data_file::data_file;
use super::super::sizes::{apply, whole};
use super::most_played::{MostPlayed, most_played};
use super::task::N_BUCKETS;
use dp_personal::error::{Error, Result};

/// File names of the MovieLens data sets.
const FILES: [&str; 4] = ["ratings.csv.gz", "ratings.csv", "ratings.dat", "u.data"];

pub(super) fn read(args: &ReproduceArgs, folder: &str) -> Result<Ratings> {
    let path = data_file(args, folder, &FILES)?;
    Ok(read_ratings(&path, &RatingsFormat::default())?)
}

/// File names of the Million Song data set: user, song and plays separated by tabs, no header.
const PLAYS: [&str; 2] = ["train_triplets.txt", "train_triplets.txt.gz"];

/// Songs played by enough users, and users who played enough of them; each play is a positive.
pub(super) fn read_plays(args: &ReproduceArgs) -> Result<Ratings> {
    let mut least = match args.quick {
        true => MostPlayed::EVERYTHING,
        false => MostPlayed::default(),
    };
    apply(
        &args.size,
        "min_item_users, min_user_items",
        |key, value| {
            match key {
                "min_item_users" => least.min_item_users = whole(value),
                "min_user_items" => least.min_user_items = whole(value),
                _ => return false,
            }
            true
        },
    )?;
    let path = data_file(args, "msd", &PLAYS)?;
    let plays = read_ratings(&path, &RatingsFormat::default().with_layout(Layout::Tab))?;
    most_played(&plays.to_implicit(1.0)?, least)?.ok_or_else(|| {
        let reason = "no song is played by enough users, or no user has enough of them: see --size";
        Error::model(&path, reason.to_owned())
    })
}

/// Buckets by exact training counts: internal, like all rows.
pub(super) fn buckets(train: &Interactions) -> Result<PopularityBuckets> {
    let counts: Vec<f64> = (0..train.n_items())
        .map(|item| train.item_major().item(item).len() as f64)
        .collect();
    Ok(PopularityBuckets::new(&counts, N_BUCKETS)?)
}
