//! Where the ratings are, and how popular items are.

use std::path::{Path, PathBuf};

use dp_core::Interactions;
use dp_data::{PopularityBuckets, Ratings, RatingsFormat, read_ratings};

use super::super::ReproduceArgs;
use super::task::N_BUCKETS;
use crate::error::{Error, Result};

/// Names that MovieLens files have had.
const FILES: [&str; 4] = ["ratings.csv.gz", "ratings.csv", "ratings.dat", "u.data"];

pub(super) fn read(args: &ReproduceArgs, folder: &str) -> Result<Ratings> {
    let path = find(args.data.as_deref(), folder)?;
    Ok(read_ratings(&path, &RatingsFormat::default())?)
}

/// The ratings in `DIR/folder` or in `DIR` itself.
fn find(data: Option<&Path>, folder: &str) -> Result<PathBuf> {
    let Some(data) = data else {
        let message =
            format!("--data DIR is needed: a folder with ratings, or with {folder} in it");
        return Err(Error::Usage(message));
    };
    let places = [data.join(folder), data.to_owned()];
    let mut files = places
        .iter()
        .flat_map(|place| FILES.iter().map(|name| place.join(name)));
    files.find(|path| path.is_file()).ok_or_else(|| {
        Error::Usage(format!(
            "--data {}: neither it nor its {folder} has {}",
            data.display(),
            FILES.join(" or ")
        ))
    })
}

/// Buckets by exact training counts: internal, as all rows are.
pub(super) fn buckets(train: &Interactions) -> Result<PopularityBuckets> {
    let counts: Vec<f64> = (0..train.n_items())
        .map(|item| train.item_major().item(item).len() as f64)
        .collect();
    Ok(PopularityBuckets::new(&counts, N_BUCKETS)?)
}
