//! The table of public items, and the names used as features.

use std::path::Path;

use dp_data::{FeatureVocabulary, ItemCatalogue, ItemTable};
use dp_pubfeat::{ItemFeatures, ItemFeaturesBuilder};

use crate::error::{Error, Result};
use crate::settings::FeatureSettings;

/// Names that occur in fewer items are not used as features, unless the flags say otherwise.
const MIN_ITEMS: usize = 2;
/// A column with this name, in upper or lower case, contains years; their decades are the features.
const YEAR: &str = "year";

/// Public items with the names in their columns. Nothing here is computed from ratings.
pub(crate) struct Items {
    pub(super) table: ItemTable,
    pub(super) vocabulary: FeatureVocabulary,
}

/// The columns of a file of items.
pub(crate) fn read_columns(path: &Path, columns: &[&str]) -> Result<ItemTable> {
    let table = dp_data::read_item_table(path, columns)?;
    let years = columns.iter().filter(|name| is_year(name));
    Ok(years.fold(table, |table, name| table.with_decades(name)))
}

fn is_year(column: &str) -> bool {
    column.eq_ignore_ascii_case(YEAR)
}

impl Items {
    /// The columns that the flags name, or otherwise all columns with a name that enough items
    /// share. Numeric columns are used only if they are named: the number or mean of an item's
    /// ratings is such a column, and private.
    pub(crate) fn read(path: &Path, args: &FeatureSettings) -> Result<Self> {
        let min_items = args.min_items.unwrap_or(MIN_ITEMS);
        dp_core::params::at_least_one("min_items", min_items)?;
        let columns = match &args.feature_cols {
            Some(columns) => columns.clone(),
            None => usable_columns(path, min_items)?,
        };
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        if columns.is_empty() {
            return Err(no_features(path, min_items));
        }
        let table = read_columns(path, &columns)?;
        let vocabulary =
            FeatureVocabulary::new(&table, min_items).map_err(|_| no_features(path, min_items))?;
        Ok(Self { table, vocabulary })
    }

    /// Names of the columns that are features.
    pub(crate) fn columns(&self) -> &[String] {
        self.table.columns()
    }

    /// Tells the operator what becomes public with the model.
    pub(super) fn announce(&self, path: &Path) {
        let (columns, path) = (self.table.columns().join(", "), path.display());
        tracing::warn!(
            target: "dp_personal::notice",
            "features: {columns} of {path}; their names are published with the model and must not come from this data set (`feature_cols` chooses)"
        );
    }

    /// The assumption of the guarantee about the table.
    pub(crate) fn assumption(&self) -> String {
        let columns = self.table.columns().join(", ");
        format!(
            "columns {columns} of the item table are public and were not made from this data set"
        )
    }

    /// The features of the items of a catalogue as a file: indices into the catalogue and the
    /// feature weights, counted from 0.
    pub(crate) fn features_file(
        &self,
        catalogue: &ItemCatalogue,
    ) -> Result<(&'static str, Vec<u8>)> {
        let lines = || -> csv::Result<Vec<u8>> {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(["item", "feature", "weight"])?;
            for (item, id) in catalogue.ids().iter().enumerate() {
                for (feature, weight) in self.vocabulary.features(&self.table, id) {
                    let words = [item.to_string(), feature.to_string(), weight.to_string()];
                    writer.write_record(words)?;
                }
            }
            writer.into_inner().map_err(|e| e.into_error().into())
        };
        let bytes = lines().map_err(|e| Error::model(Path::new(FEATURES), e))?;
        Ok((FEATURES, bytes))
    }

    /// Features of the items of a catalogue, in its order.
    pub(crate) fn features(&self, catalogue: &ItemCatalogue) -> Result<ItemFeatures> {
        let sizes = self.vocabulary.category_sizes();
        let mut builder = ItemFeaturesBuilder::new(catalogue.len(), &sizes)?;
        for (item, id) in (0..).zip(catalogue.ids()) {
            for (feature, weight) in self.vocabulary.features(&self.table, id) {
                builder.push(item, feature, weight)?;
            }
        }
        Ok(builder.build())
    }
}

/// The features of a model's items as used in training.
pub(crate) const FEATURES: &str = "features.csv";

/// Reads features from the file of a model folder, for `n_items` items.
pub(crate) fn read_features(
    path: &Path,
    n_items: usize,
    category_sizes: &[usize],
) -> Result<ItemFeatures> {
    let wrong = |e: csv::Error| Error::model(path, e);
    let mut builder = ItemFeaturesBuilder::new(n_items, category_sizes)?;
    for line in csv::Reader::from_path(path).map_err(wrong)?.deserialize() {
        let (item, feature, weight): (u32, u32, f64) = line.map_err(wrong)?;
        builder.push(item, feature, weight)?;
    }
    Ok(builder.build())
}

fn usable_columns(path: &Path, min_items: usize) -> Result<Vec<String>> {
    let all = dp_data::read_whole_item_table(path)?;
    let mut usable = Vec::new();
    for (at, column) in all.columns().iter().enumerate() {
        let alone = read_columns(path, &[column])?;
        if FeatureVocabulary::new(&alone, min_items).is_ok() {
            if !is_year(column) && is_of_numbers(&all, at) {
                return Err(of_numbers(path, column));
            }
            usable.push(column.clone());
        }
    }
    Ok(usable)
}

fn is_of_numbers(table: &ItemTable, column: usize) -> bool {
    let mut names = table.ids().flat_map(|id| table.names(id, column));
    names.all(|name| name.parse::<f64>().is_ok())
}

fn of_numbers(path: &Path, column: &str) -> Error {
    Error::Usage(format!(
        "all fields of the column {column} of {} are numbers, which may come from ratings; name the columns that are features and public with `feature_cols`",
        path.display()
    ))
}

fn no_features(path: &Path, min_items: usize) -> Error {
    let reason = format!(
        "a feature column needs a value that at least {min_items} items share (`min_items`)"
    );
    Error::model(path, reason)
}
