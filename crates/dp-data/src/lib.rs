#![doc = include_str!("../README.md")]

mod catalogue;
mod error;
mod generate;
mod id_numbers;
mod ranking;
mod ratings;
mod readers;
mod samples;
mod split;

pub use catalogue::FeatureVocabulary;
pub use catalogue::ItemTable;
pub use catalogue::{CatalogueSource, ItemCatalogue};
pub use error::{CatalogueFault, ColumnRole, Error, Expected, Result};
pub use generate::{
    GeneratedLabels, LongTailRatings, OffsetData, PersonalOffsets, PublicFeatureData,
    PublicFeatureTask, SharedSubspace, SkewedTasks, SubspaceData, TaskData, write_csv,
};
pub use ranking::{BucketRecall, PopularityBuckets, RankingMetrics, RankingSums, UserRanking};
pub use ranking::{mae, rmse};
pub use ratings::{Ratings, ReadSummary, user_key};
#[cfg(feature = "parquet")]
pub use readers::panic_is_contained;
pub use readers::{
    Column, ColumnKind, ItemAttributes, Layout, LeafRows, MemoryTable, RatingsColumns,
    RatingsFormat, SampleColumns, TableRows, TableSource, UserHistory, check_catalogue,
    check_item_list, check_no_user_ids, is_usual_column, read_catalogue, read_history,
    read_history_from, read_item_attributes, read_item_table, read_leaf, read_leaf_from,
    read_ratings, read_ratings_from, read_ratings_on_disk, read_ratings_with_catalogue,
    read_samples, read_samples_from, read_whole_item_table, write_display, write_float,
    write_whole,
};
pub use samples::{SampleTable, SampleUser};
pub use split::{HeldOutUsers, UserSplit};
pub use split::{RatingSplit, SplitFractions};
pub use split::{SampleShares, SplitUser};
