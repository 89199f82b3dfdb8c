//! Ratings of items with public features, divided into parts.

use std::sync::Arc;

use dp_core::{Interactions, Private};
use dp_data::{
    FeatureVocabulary, ItemCatalogue, ItemTable, PopularityBuckets, RatingSplit, Ratings,
    RatingsFormat, SplitFractions, UserSplit, read_item_table, read_ratings_with_catalogue,
};
use dp_pubfeat::{ItemFeatures, ItemFeaturesBuilder};

use super::super::super::ReproduceArgs;
use super::super::super::data_file::data_file;
use dp_personal::error::Result;
use dp_personal::workflows::input::hold_out_users;

const FOLDER: &str = "ml-1m";
const RATINGS: [&str; 2] = ["ratings.csv.gz", "ratings.csv"];
const ITEMS: [&str; 2] = ["items.tsv.gz", "items.tsv"];
const CREDITS: [&str; 2] = ["items_credits.tsv.gz", "items_credits.tsv"];
/// Names that occur in fewer items are not used as features.
const MIN_ITEMS: usize = 2;
/// Every tenth item is new: its ratings are excluded from training where new items are evaluated.
const NEW_ITEMS: u32 = 10;
/// Ratings from this value on count as positive.
const LEAST_YES: f64 = 4.0;
/// Popularity buckets by exact training counts, rarest items first: internal, like all rows.
pub(super) const N_BUCKETS: usize = 5;

pub(super) struct Data {
    /// Genres, decade and, where credits are available, people; rows of norm 1.
    pub(super) features: Arc<ItemFeatures>,
    pub(super) ratings: RatingSplit,
    /// Training ratings without those of new items.
    pub(super) known: Private<Interactions>,
    /// Positive ratings, with users held out.
    pub(super) lists: UserSplit,
    pub(super) buckets: PopularityBuckets,
    pub(super) list_buckets: PopularityBuckets,
}

impl Data {
    pub(super) fn read(args: &ReproduceArgs) -> Result<Self> {
        let items = data_file(args, FOLDER, &ITEMS)?;
        let mut table = read_item_table(&items, &["genres", "year"])?.with_decades("year");
        if let Ok(credits) = data_file(args, FOLDER, &CREDITS) {
            let people = ["directors", "writers", "actors"];
            table = table.join(read_item_table(&credits, &people)?);
        }
        let catalogue = ItemCatalogue::from_ids(table.ids());
        let features = features(&table, &catalogue)?;
        let path = data_file(args, FOLDER, &RATINGS)?;
        let ratings = read_ratings_with_catalogue(&path, &RatingsFormat::default(), catalogue)?;
        Self::of(&ratings, features)
    }

    fn of(all: &Ratings, features: ItemFeatures) -> Result<Self> {
        let ratings = all.split(SplitFractions::default(), 0)?;
        let lists = hold_out_users(&all.to_implicit(LEAST_YES)?, 0)?;
        let part = |_, item: u32, _| usize::from(is_new(item));
        let known = ratings.train.expose().partition(1, part)?.remove(0);
        Ok(Self {
            features: features.with_unit_rows().into(),
            buckets: buckets(ratings.train.expose())?,
            list_buckets: buckets(lists.train.expose())?,
            known: Private::new(known),
            ratings,
            lists,
        })
    }
}

/// Whether an item is excluded from training where new items are evaluated.
pub(super) const fn is_new(item: u32) -> bool {
    item % NEW_ITEMS == 3
}

fn buckets(train: &Interactions) -> Result<PopularityBuckets> {
    let items = train.item_major();
    let count = |item| items.item(item).len() as f64;
    let counts: Vec<f64> = (0..items.n_items()).map(count).collect();
    Ok(PopularityBuckets::new(&counts, N_BUCKETS)?)
}

fn features(table: &ItemTable, catalogue: &ItemCatalogue) -> Result<ItemFeatures> {
    let vocabulary = FeatureVocabulary::new(table, MIN_ITEMS)?;
    let sizes = vocabulary.category_sizes();
    let mut builder = ItemFeaturesBuilder::new(catalogue.len(), &sizes)?;
    for (item, id) in (0_u32..).zip(catalogue.ids()) {
        for (feature, weight) in vocabulary.features(table, id) {
            builder.push(item, feature, weight)?;
        }
    }
    Ok(builder.build())
}
