//! Where the ratings are, and how popular items are.

use dp_core::Interactions;
use dp_data::{PopularityBuckets, Ratings, RatingsFormat, read_ratings};

use super::super::ReproduceArgs;
use super::super::data_file::data_file;
use super::task::N_BUCKETS;
use crate::error::Result;

/// Names that MovieLens files have had.
const FILES: [&str; 4] = ["ratings.csv.gz", "ratings.csv", "ratings.dat", "u.data"];

pub(super) fn read(args: &ReproduceArgs, folder: &str) -> Result<Ratings> {
    let path = data_file(args, folder, &FILES)?;
    Ok(read_ratings(&path, &RatingsFormat::default())?)
}

/// Buckets by exact training counts: internal, as all rows are.
pub(super) fn buckets(train: &Interactions) -> Result<PopularityBuckets> {
    let counts: Vec<f64> = (0..train.n_items())
        .map(|item| train.item_major().item(item).len() as f64)
        .collect();
    Ok(PopularityBuckets::new(&counts, N_BUCKETS)?)
}
