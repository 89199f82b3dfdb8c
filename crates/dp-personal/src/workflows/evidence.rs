//! `dp evidence`: item information from public ratings, as a table for `prior`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use dp_core::{Interactions, InteractionsBuilder};
use dp_data::{FeatureVocabulary, ItemCatalogue, Ratings, SplitFractions};
use dp_multitask::{PublicFeatures, PublicItems, PublicRatings};

use crate::error::{Error, Result};
use crate::output::{folder_of, replace_files};
use crate::prior::{BIAS, ITEM, STANDARD_ERROR, TASTE};
use crate::settings::EvidenceSettings;

/// Features of fewer items are ignored.
const MIN_ITEMS: usize = 2;
/// Maximum number of feature columns in a table.
const MOST_COLUMNS: usize = 512;

/// A table of items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceTable {
    /// Path of the table.
    pub path: PathBuf,
    /// Number of items.
    pub n_items: usize,
    /// Number of items with public ratings.
    pub n_rated: usize,
    /// Number of public ratings of these items.
    pub n_used: usize,
    /// Number of all public ratings.
    pub n_ratings: usize,
}

/// Fits item biases and taste factors to public ratings, without privacy, and writes them with
/// their standard errors. A table of items adds items without ratings: their biases and taste factors
/// follow from their features. The features are columns of the output as well, named `column=name`
/// and with the weight of the name for the item, except those of sources with so many names that
/// there would be more than 512.
///
/// # Errors
/// When a file cannot be read or `out` exists or cannot be written.
///
/// # Privacy
/// None: whoever may see the table may see the ratings.
pub fn evidence(args: &EvidenceSettings) -> Result<EvidenceTable> {
    if args.out.exists() {
        return Err(Error::OutputExists {
            path: args.out.clone(),
        });
    }
    let ratings = dp_data::read_ratings(&args.ratings, &args.columns.format(true)?)?;
    let described = match &args.items {
        Some(path) => Described::read(path, args.feature_cols.as_deref())?,
        None => Described::unknown(ratings.catalogue().clone()),
    };
    let catalogue = &described.catalogue;
    let public = Public::of(&ratings, &described)?;
    let n_used = public.table.n_records();
    let rated: HashSet<u32> = (public.table.users())
        .flat_map(|row| row.items().to_vec())
        .collect();
    if n_used == 0 {
        let text = format!(
            "none of the public ratings is of an item of {}: both must use the same item ids",
            args.items
                .as_deref()
                .unwrap_or(Path::new("the catalogue"))
                .display()
        );
        return Err(Error::Usage(text));
    }
    let n_ratings = public.n_ratings;
    let items = public.fit(&described, Some(args.n_tastes))?;
    let lines = || -> csv::Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let tastes = (1..=args.n_tastes).map(|k| format!("{TASTE}_{k}"));
        let header = [ITEM, BIAS].map(str::to_owned).into_iter().chain(tastes);
        let header = header.chain([STANDARD_ERROR.to_owned()]);
        let shown = described.shown();
        writer.write_record(header.chain(described.names(&shown)))?;
        let rows = items.rows.chunks_exact(1 + args.n_tastes);
        let items = catalogue.ids().iter().zip(rows).zip(&items.standard_errors);
        for (at, ((id, row), error)) in items.enumerate() {
            let of_features = described.row(at, &shown);
            let numbers = row.iter().chain([error]).chain(&of_features);
            let words = numbers.map(f64::to_string);
            writer.write_record([id.clone()].into_iter().chain(words))?;
        }
        writer.into_inner().map_err(|e| e.into_error().into())
    };
    let bytes = lines().map_err(|e| Error::model(&args.out, e))?;
    let name = args.out.file_name().unwrap_or_default().to_string_lossy();
    replace_files(folder_of(&args.out), &[(&name, bytes, false)], &[])?;
    Ok(EvidenceTable {
        path: args.out.clone(),
        n_items: catalogue.len(),
        n_rated: rated.len(),
        n_used,
        n_ratings,
    })
}

/// Public ratings of the items of a catalogue.
pub(crate) struct Public {
    table: Interactions,
    /// Number of ratings, including those of other items.
    n_ratings: usize,
}

impl Public {
    /// The ratings of the described items.
    ///
    /// # Errors
    /// When the table cannot be made.
    pub(crate) fn of(ratings: &Ratings, described: &Described) -> Result<Self> {
        let all = ratings.split(SplitFractions::new(1.0, 0.0, 0.0)?, 0)?.train;
        let own = ratings.catalogue().ids();
        let catalogue = &described.catalogue;
        let mut builder = InteractionsBuilder::new(catalogue.len());
        for (user, row) in (0..).zip(all.expose().users()) {
            for (&item, &rating) in row.items().iter().zip(row.values()) {
                if let Some(at) = catalogue.index(&own[item as usize]) {
                    let at = u32::try_from(at).unwrap_or(u32::MAX);
                    builder.push(user, at, rating)?;
                }
            }
        }
        Ok(Self {
            table: builder.build().0,
            n_ratings: all.expose().n_records(),
        })
    }

    /// Item biases and taste factors, the usual number unless `n_tastes` is given.
    ///
    /// # Errors
    /// As [`PublicRatings::fit`].
    pub(crate) fn fit(
        &self,
        described: &Described,
        n_tastes: Option<usize>,
    ) -> Result<PublicItems> {
        let fit = n_tastes.map_or_else(PublicRatings::default, |n_tastes| PublicRatings {
            n_tastes,
        });
        Ok(fit.fit(&self.table, &described.features)?)
    }
}

/// Items with their features.
pub(crate) struct Described {
    catalogue: ItemCatalogue,
    /// Names of each source's features.
    sources: Vec<Vec<String>>,
    features: PublicFeatures,
}

impl Described {
    /// Items without features.
    pub(crate) fn unknown(catalogue: ItemCatalogue) -> Self {
        Self {
            catalogue,
            sources: Vec::new(),
            features: PublicFeatures::default(),
        }
    }

    fn read(path: &Path, columns: Option<&[String]>) -> Result<Self> {
        let catalogue = dp_data::read_catalogue(path)?;
        let Some(columns) = columns else {
            return Ok(Self::unknown(catalogue));
        };
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let table = crate::item_features::read_columns(path, &columns)?;
        let vocabulary = FeatureVocabulary::new(&table, MIN_ITEMS)?;
        let names = |(at, column): (usize, &&str)| {
            let of = vocabulary.names(at).iter();
            of.map(|name| format!("{column}={name}")).collect()
        };
        let ids = catalogue.ids().iter();
        let rows = ids.map(|id| vocabulary.features(&table, id)).collect();
        Ok(Self {
            sources: columns.iter().enumerate().map(names).collect(),
            features: PublicFeatures::new(rows, vocabulary.category_sizes())?,
            catalogue,
        })
    }

    /// Numbers of the features that are columns of a table: those of the sources with the fewest
    /// names, as many sources as fit.
    fn shown(&self) -> Vec<u32> {
        let mut starts = Vec::new();
        let mut next = 0;
        for names in &self.sources {
            starts.push(next);
            next += names.len();
        }
        let mut order: Vec<usize> = (0..self.sources.len()).collect();
        order.sort_by_key(|source| self.sources[*source].len());
        let mut n = 0;
        order.retain(|source| {
            n += self.sources[*source].len();
            n <= MOST_COLUMNS
        });
        order.sort_unstable();
        let numbers = order.into_iter().flat_map(|source| {
            let first = starts[source];
            first..first + self.sources[source].len()
        });
        numbers
            .map(|n| u32::try_from(n).unwrap_or(u32::MAX))
            .collect()
    }

    fn names(&self, shown: &[u32]) -> Vec<String> {
        let names = self.sources.concat();
        let each = shown.iter().map(|feature| names[*feature as usize].clone());
        each.collect()
    }

    fn row(&self, item: usize, shown: &[u32]) -> Vec<f64> {
        let own = self.features.row(item);
        let weight = |feature: &u32| {
            let found = own.binary_search_by_key(feature, |(number, _)| *number);
            found.map_or(0.0, |at| own[at].1)
        };
        shown.iter().map(weight).collect()
    }
}
