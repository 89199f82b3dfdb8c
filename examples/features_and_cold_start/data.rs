//! Ratings with public items, held-out parts, and what is said of predictions.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "numbers of items, features and rounds are small here"
)]

use std::path::Path;

use dp_core::{Interactions, Private};
use dp_data::{
    FeatureVocabulary, ItemCatalogue, ItemTable, PopularityBuckets, RatingSplit, RatingsFormat,
    SplitFractions, read_item_table, read_ratings_with_catalogue,
};
use dp_pubfeat::{ItemFeatures, ItemFeaturesBuilder};

use crate::Result;
use crate::ridge::SparseKernel;

/// Every tenth item of the catalogue is new: held out of training.
pub(crate) const NEW_ITEMS: u32 = 10;
/// Names that fewer items have are no features.
const MIN_ITEMS: usize = 2;
/// Popularity buckets, rarest items first.
pub(crate) const N_BUCKETS: usize = 5;

/// Ratings in three parts, and the items' public features.
pub(crate) struct Data {
    pub(crate) split: RatingSplit,
    /// Training ratings without those of new items.
    pub(crate) known: Private<Interactions>,
    /// Genres, decade and, where there are credits, people.
    pub(crate) features: ItemFeatures,
    buckets: PopularityBuckets,
}

impl Data {
    pub(crate) fn read(ratings: &Path, items: &Path, credits: Option<&Path>) -> Result<Self> {
        let mut table = read_item_table(items, &["genres", "year"])?.with_decades("year");
        if let Some(credits) = credits {
            let people = ["directors", "writers", "actors"];
            table = table.join(read_item_table(credits, &people)?);
        }
        let catalogue = ItemCatalogue::from_ids(table.ids());
        let features = features(&table, &catalogue)?;
        let format = RatingsFormat::default();
        let ratings = read_ratings_with_catalogue(ratings, &format, catalogue)?;
        let split = ratings.split(SplitFractions::default(), 0);
        let is_known = |_, item: u32, _| usize::from(is_new(item));
        let known = split.train.expose().partition(1, is_known).remove(0);
        let by_item = split.train.expose().item_major();
        let counts: Vec<f64> = (0..by_item.n_items())
            .map(|item| by_item.item(item).len() as f64)
            .collect();
        Ok(Self {
            buckets: PopularityBuckets::new(&counts, N_BUCKETS)?,
            known: Private::new(known),
            split,
            features,
        })
    }

    pub(crate) fn n_items(&self) -> usize {
        self.features.n_items()
    }

    /// Root mean square errors of `predict(user, item)` on a held-out table: of all its ratings, and by popularity.
    pub(crate) fn errors(
        &self,
        held_out: &Interactions,
        only_new: bool,
        mut predict: impl FnMut(usize, usize) -> f64,
    ) -> Result<Vec<f64>> {
        let mut sums = [(0.0, 0_u32); N_BUCKETS + 1];
        for (user, row) in held_out.users().enumerate() {
            for (item, y) in row.iter().filter(|(item, _)| !only_new || is_new(*item)) {
                let square = (predict(user, item as usize) - f64::from(y)).powi(2);
                let bucket = self.buckets.of(item as usize).ok_or("no such item")?;
                for at in [0, bucket + 1] {
                    sums[at].0 += square;
                    sums[at].1 += 1;
                }
            }
        }
        Ok(sums
            .iter()
            .map(|(s, n)| (s / f64::from(*n)).sqrt())
            .collect())
    }
}

/// Whether an item is held out of training where new items are asked for.
pub(crate) const fn is_new(item: u32) -> bool {
    item % NEW_ITEMS == 3
}

/// Each column's names share a weight of norm 1, however many names an item has there.
fn features(table: &ItemTable, catalogue: &ItemCatalogue) -> Result<ItemFeatures> {
    let vocabulary = FeatureVocabulary::new(table, MIN_ITEMS)?;
    let sizes = vocabulary.category_sizes();
    let mut builder = ItemFeaturesBuilder::new(catalogue.len(), &sizes)?;
    for (item, id) in (0_u32..).zip(catalogue.ids()) {
        let mut first = 0;
        let all = vocabulary.features(table, id);
        for size in &sizes {
            let end = first + u32::try_from(*size)?;
            let own: Vec<_> = all.iter().filter(|f| (first..end).contains(&f.0)).collect();
            let norm = own.iter().map(|f| f.1 * f.1).sum::<f64>().sqrt();
            for (feature, weight) in own {
                builder.push(item, *feature, weight / norm)?;
            }
            first = end;
        }
    }
    Ok(builder.build())
}

/// Prior variances: genres, decade, directors, writers, actors; an item's own part; a constant of all items; popularity.
const COLUMNS: [f64; 5] = [0.15, 0.15, 0.1, 0.1, 0.1];
const OWN: f64 = 0.3;
const SHARED: f64 = 0.1;
const POPULARITY: f64 = 0.3;

/// The kernel, before popularity is released.
pub(crate) struct Prior {
    pub(crate) kernel: SparseKernel,
    /// First column of the popularity features, and their weight.
    popularity: Option<(u32, f64)>,
    without_new: bool,
}

/// What a linear encoder of the features knows, or without features the identity and the constant.
pub(crate) fn kernel(data: &Data, with_features: bool, without_new: bool) -> Prior {
    let (f, n) = (&data.features, data.features.n_categories());
    let weight = |category: usize| COLUMNS.get(category).map_or(0.0, |p| p.sqrt());
    let constant = f.n_features() as u32;
    let mut rows = vec![vec![(constant, SHARED.sqrt())]; f.n_items()];
    for (item, row) in rows.iter_mut().enumerate().filter(|_| with_features) {
        for category in 0..n {
            row.extend(
                f.item_category(item, category)
                    .map(|(c, w)| (c, w * weight(category))),
            );
        }
    }
    let features: f64 = COLUMNS[..n].iter().sum();
    Prior {
        kernel: SparseKernel {
            rows,
            n_features: f.n_features() + 1 + LEVELS as usize,
            own: if with_features { OWN } else { OWN + features },
        },
        popularity: with_features.then(|| (constant + 1, POPULARITY.sqrt())),
        without_new,
    }
}

/// Popularity levels.
const LEVELS: u32 = 10;

impl Prior {
    /// Adds features made from *released* totals: the two nearest of ten levels on a logarithmic scale. New items have none.
    pub(crate) fn with_popularity(mut self, totals: &[f64], noise: f64) -> SparseKernel {
        let Some((first, weight)) = self.popularity else {
            return self.kernel;
        };
        for ((item, row), total) in (0_u32..).zip(&mut self.kernel.rows).zip(totals) {
            if self.without_new && is_new(item) {
                continue;
            }
            let level = (total / noise)
                .max(1.0)
                .log2()
                .min(f64::from(LEVELS) - 1.001);
            let part = level - level.floor();
            let low = first + level as u32;
            row.push((low, weight * (1.0 - part)));
            row.push((low + 1, weight * part));
        }
        self.kernel
    }
}
