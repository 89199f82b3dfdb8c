//! Ratings with public item features, held-out parts, and errors of predictions.

use std::path::Path;

use dp_core::{Interactions, Private};
use dp_data::{
    FeatureVocabulary, ItemCatalogue, ItemTable, PopularityBuckets, RatingSplit, RatingsFormat,
    SplitFractions, read_item_table, read_ratings_with_catalogue,
};
use dp_pubfeat::{ItemFeatures, ItemFeaturesBuilder};

use crate::Result;

/// Every tenth item of the catalogue is new, that is, excluded from training.
pub(crate) const NEW_ITEMS: u32 = 10;
/// Names that occur in fewer items are not used as features.
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
        let split = ratings.split(SplitFractions::default(), 0)?;
        let is_known = |_, item: u32, _| usize::from(is_new(item));
        let known = split.train.expose().partition(1, is_known)?.remove(0);
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

    /// Root mean square errors of `predict(user, item)` on a held-out table: overall, and by
    /// popularity.
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

/// Whether an item is excluded from training where new items are evaluated.
pub(crate) const fn is_new(item: u32) -> bool {
    item % NEW_ITEMS == 3
}

/// Names that occur in enough items, by the column that contains them.
fn features(table: &ItemTable, catalogue: &ItemCatalogue) -> Result<ItemFeatures> {
    let vocabulary = FeatureVocabulary::new(table, MIN_ITEMS)?;
    let mut builder = ItemFeaturesBuilder::new(catalogue.len(), &vocabulary.category_sizes())?;
    for (item, id) in (0_u32..).zip(catalogue.ids()) {
        for (feature, weight) in vocabulary.features(table, id) {
            builder.push(item, feature, weight)?;
        }
    }
    Ok(builder.build())
}
