//! The public feature matrix, row by row.

use std::ops::Range;

use dp_core::{ParamError, ShapeError, params};

use crate::Result;

/// The public matrix `X`: per item its active features, each with a positive weight (a count, say).
///
/// Features belong to categories (genres, directors, year), which are consecutive ranges of columns. An item may lack any
/// category, or all of them. The matrix is public as a whole: it must not be made from what users did.
///
/// # Examples
/// ```
/// use dp_pubfeat::ItemFeaturesBuilder;
/// // 3 genres, then 4 people
/// let mut builder = ItemFeaturesBuilder::new(2, &[3, 4])?;
/// builder.push(0, 2, 1.0)?;
/// builder.push(0, 3, 1.0)?;
/// builder.push(0, 3, 1.0)?; // the same person in two roles: weights add up
/// let features = builder.build();
/// assert_eq!(features.item(0).collect::<Vec<_>>(), [(2, 1.0), (3, 2.0)]);
/// assert_eq!(features.item(1).count(), 0);
/// # Ok::<(), dp_pubfeat::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ItemFeatures {
    /// Where each item's entries begin, and the end of the last.
    offsets: Vec<usize>,
    columns: Vec<u32>,
    weights: Vec<f64>,
    /// First column of each category, and `p`.
    categories: Vec<u32>,
}

/// Collects the entries of [`ItemFeatures`].
#[derive(Debug, Clone)]
pub struct ItemFeaturesBuilder {
    n_items: usize,
    categories: Vec<u32>,
    entries: Vec<(u32, u32, f64)>,
}

impl ItemFeaturesBuilder {
    /// An empty matrix of `n_items` rows; `category_sizes` says how many columns each category has, in order.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when there is no item, no category, an empty category, or more than `2^32 - 1` of items or columns.
    pub fn new(n_items: usize, category_sizes: &[usize]) -> Result<Self> {
        let most = u32::MAX as usize;
        params::in_range("n_items", n_items, 1, most, "1 to 2^32 - 1")?;
        params::at_least_one("number of categories", category_sizes.len())?;
        let mut categories = vec![0];
        let mut end = 0_usize;
        for &size in category_sizes {
            params::at_least_one("category size", size)?;
            end = end.saturating_add(size);
            params::in_range("n_features", end, 1, most, "1 to 2^32 - 1")?;
            categories.push(u32::try_from(end).unwrap_or(u32::MAX));
        }
        Ok(Self {
            n_items,
            categories,
            entries: Vec::new(),
        })
    }

    /// Adds `weight` to the weight of `feature` at `item`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for an item or feature that does not exist, [`crate::Error::Param`] for a weight that is not finite and
    /// positive. Features are public, so they may be refused.
    pub fn push(&mut self, item: u32, feature: u32, weight: f64) -> Result<()> {
        let n_features = self.categories[self.categories.len() - 1] as usize;
        below("item", item, self.n_items)?;
        below("feature", feature, n_features)?;
        params::finite_positive("weight", weight)?;
        self.entries.push((item, feature, weight));
        Ok(())
    }

    /// Sorts and adds up the entries.
    #[must_use]
    pub fn build(mut self) -> ItemFeatures {
        self.entries
            .sort_by_key(|&(item, feature, _)| (item, feature));
        self.entries.dedup_by(|later, first| {
            let same = (later.0, later.1) == (first.0, first.1);
            if same {
                first.2 += later.2;
            }
            same
        });
        let mut offsets = vec![0; self.n_items + 1];
        for &(item, _, _) in &self.entries {
            offsets[item as usize + 1] += 1;
        }
        for item in 0..self.n_items {
            offsets[item + 1] += offsets[item];
        }
        ItemFeatures {
            offsets,
            columns: self
                .entries
                .iter()
                .map(|&(_, feature, _)| feature)
                .collect(),
            weights: self.entries.iter().map(|&(_, _, weight)| weight).collect(),
            categories: self.categories,
        }
    }
}

impl ItemFeatures {
    /// Number of items `m`.
    #[must_use]
    pub const fn n_items(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of columns `p`.
    #[must_use]
    pub fn n_features(&self) -> usize {
        self.categories[self.categories.len() - 1] as usize
    }

    /// Number of categories.
    #[must_use]
    pub const fn n_categories(&self) -> usize {
        self.categories.len() - 1
    }

    /// Number of active features of all items.
    #[must_use]
    pub const fn n_entries(&self) -> usize {
        self.columns.len()
    }

    /// Columns of a category.
    ///
    /// # Panics
    /// When there is no such category.
    #[must_use]
    pub fn category(&self, category: usize) -> Range<u32> {
        self.categories[category]..self.categories[category + 1]
    }

    /// Active features of `item` with their weights, columns increasing.
    ///
    /// # Panics
    /// When there is no such item.
    pub fn item(&self, item: usize) -> impl ExactSizeIterator<Item = (u32, f64)> + '_ {
        let range = self.offsets[item]..self.offsets[item + 1];
        let columns = self.columns[range.clone()].iter().copied();
        columns.zip(self.weights[range].iter().copied())
    }

    /// Active features of `item` in one category.
    ///
    /// # Panics
    /// When there is no such item or category.
    pub fn item_category(
        &self,
        item: usize,
        category: usize,
    ) -> impl ExactSizeIterator<Item = (u32, f64)> + '_ {
        let own = self.offsets[item]..self.offsets[item + 1];
        let columns = self.category(category);
        let first = self.columns[own.clone()].partition_point(|&c| c < columns.start);
        let last = self.columns[own.clone()].partition_point(|&c| c < columns.end);
        let range = own.start + first..own.start + last;
        let weights = self.weights[range.clone()].iter().copied();
        self.columns[range].iter().copied().zip(weights)
    }

    /// The same features with every row that has any divided by its Euclidean norm.
    #[must_use]
    pub fn with_unit_rows(mut self) -> Self {
        for item in 0..self.n_items() {
            let row = &mut self.weights[self.offsets[item]..self.offsets[item + 1]];
            let norm = row.iter().map(|w| w * w).sum::<f64>().sqrt();
            row.iter_mut().for_each(|w| *w /= norm);
        }
        self
    }
}

/// Refuses an index that is not below `n`.
pub(crate) fn below(name: &'static str, index: u32, n: usize) -> Result<()> {
    if (index as usize) < n {
        return Ok(());
    }
    Err(ShapeError {
        name,
        found: index as usize,
        expected: n,
    }
    .into())
}

/// Refuses items that do not exist.
pub(crate) fn check_items(items: &[u32], n_items: usize) -> Result<()> {
    items.iter().try_for_each(|&j| below("item", j, n_items))
}

/// A public magnitude from 1e-6 to 1e6.
pub(crate) fn in_public_range(name: &'static str, value: f64) -> Result<f64, ParamError> {
    if (1e-6..=1e6).contains(&value) {
        return Ok(value);
    }
    Err(ParamError {
        name,
        value,
        expected: "a number from 1e-6 to 1e6",
    })
}

/// Positive weights over their norm, in order; squares can neither overflow nor vanish.
pub(crate) fn to_unit_norm(
    weights: impl Iterator<Item = f64> + Clone,
) -> impl Iterator<Item = f64> {
    let largest = weights.clone().fold(0.0, f64::max);
    let relative = weights.map(move |w| w / largest);
    let norm = relative.clone().map(|w| w * w).sum::<f64>().sqrt();
    relative.map(move |w| w / norm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_entries_are_refused_with_their_place() {
        assert!(ItemFeaturesBuilder::new(0, &[1]).is_err());
        assert!(ItemFeaturesBuilder::new(1, &[]).is_err());
        assert!(ItemFeaturesBuilder::new(1, &[2, 0]).is_err());
        let mut builder = ItemFeaturesBuilder::new(2, &[3]).unwrap();
        assert!(builder.push(2, 0, 1.0).is_err());
        assert!(builder.push(0, 3, 1.0).is_err());
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(builder.push(0, 0, weight).is_err());
        }
        assert_eq!(builder.build().n_entries(), 0);
    }

    #[test]
    fn categories_split_an_item_s_features() {
        let mut builder = ItemFeaturesBuilder::new(1, &[2, 3, 1]).unwrap();
        for feature in [4, 0, 2, 0] {
            builder.push(0, feature, 1.0).unwrap();
        }
        let features = builder.build();
        let of = |c| features.item_category(0, c).collect::<Vec<_>>();
        assert_eq!(of(0), [(0, 2.0)]);
        assert_eq!(of(1), [(2, 1.0), (4, 1.0)]);
        assert!(of(2).is_empty());
        let unit = features.with_unit_rows();
        let norm: f64 = unit.item(0).map(|(_, w)| w * w).sum();
        assert!((norm - 1.0).abs() < 1e-15);
    }
}
