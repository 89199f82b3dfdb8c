//! Public features of items.

use std::collections::HashMap;
use std::ops::Range;

use dp_core::{ParamError, ShapeError, parallel, params};

use crate::Result;

/// Number of rows in one task.
pub(crate) const ROWS_AT_ONCE: usize = 256;

/// A kernel over `m` items, symmetric and positive semidefinite. Public.
pub trait ItemKernel {
    /// Number of items `m`.
    fn n_items(&self) -> usize;

    /// `K_jj`.
    fn diagonal(&self, item: usize) -> f64;

    /// `out = K g` for `g` and `out` of shape `(m, dim)`, row-major.
    fn apply(&self, dim: usize, g: &[f64], out: &mut [f64]);
}

/// The public matrix `X`: for each item its active features, each with a positive weight (for
/// example a count).
///
/// Features belong to categories (genres, directors, year), which are consecutive ranges of
/// columns. An item may lack any category, or all of them. The whole matrix is public: it must not
/// be computed from users' behaviour.
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
    /// Start of each item's entries, and the end of the last.
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
    /// An empty matrix of `n_items` rows; `category_sizes` is the number of columns of each
    /// category, in order.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when there is no item or no category, when a category is empty, or
    /// when there are more than `2^32 - 1` items or columns.
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

    /// Adds `weight` to the weight of `feature` for `item`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for an item or feature that does not exist, [`crate::Error::Param`]
    /// for a weight that is not finite and positive. Features are public, so refusing them reveals
    /// nothing.
    pub fn push(&mut self, item: u32, feature: u32, weight: f64) -> Result<()> {
        let n_features = self.categories[self.categories.len() - 1] as usize;
        below("item", item, self.n_items)?;
        below("feature", feature, n_features)?;
        params::finite_positive("weight", weight)?;
        self.entries.push((item, feature, weight));
        Ok(())
    }

    /// Sorts the entries and sums repeated ones.
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

    /// Active features of `item` with their weights, in column order.
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

    /// The same features, with every non-empty row divided by its Euclidean norm.
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
    Err(ShapeError::new(name, index as usize, n).into())
}

/// Refuses items that do not exist.
pub(crate) fn check_items(items: &[u32], n_items: usize) -> Result<()> {
    items.iter().try_for_each(|&j| below("item", j, n_items))
}

/// Checks that a public magnitude is from 1e-6 to 1e6.
pub(crate) fn in_public_range(name: &'static str, value: f64) -> Result<f64, ParamError> {
    if (1e-6..=1e6).contains(&value) {
        return Ok(value);
    }
    Err(ParamError::new(name, value, "a number from 1e-6 to 1e6"))
}

/// Divides positive weights by their norm, in order; squares can neither overflow nor vanish.
pub(crate) fn to_unit_norm(
    weights: impl Iterator<Item = f64> + Clone,
) -> impl Iterator<Item = f64> {
    let largest = weights.clone().fold(0.0, f64::max);
    let relative = weights.map(move |w| w / largest);
    let norm = relative.clone().map(|w| w * w).sum::<f64>().sqrt();
    relative.map(move |w| w / norm)
}

/// `K = (1 - a) X X^T / s + a I`: inner products of items' features, which contain all that a
/// linear encoder uses of the items, whatever `p` is.
///
/// `v_j = theta^T x_j` with a penalty `||theta||_F^2` is ridge regression with this kernel. `s` is
/// the mean squared norm of a row of `X`, so the mean of the diagonal is 1. `a`, the own share,
/// gives every item one feature of its own, so that an item can differ from what its features
/// predict.
///
/// Memory: `m^2` numbers. Construction time is proportional to the number of item pairs that share
/// a feature.
///
/// # Examples
/// ```
/// use dp_pubfeat::{FeatureKernel, ItemFeaturesBuilder};
/// let mut builder = ItemFeaturesBuilder::new(3, &[4])?;
/// for (item, feature) in [(0, 0), (0, 1), (1, 1), (1, 2), (2, 3)] {
///     builder.push(item, feature, 1.0)?;
/// }
/// let kernel = FeatureKernel::new(&builder.build(), 0.0)?;
/// assert_eq!(kernel.row(0), [1.2, 0.6, 0.0]);
/// # Ok::<(), dp_pubfeat::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureKernel {
    n_items: usize,
    entries: Vec<f64>,
}

impl FeatureKernel {
    /// Largest number of items: a kernel of 2 GB.
    pub const MAX_ITEMS: usize = 16_384;

    /// The kernel with own share `a`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when there are more than [`MAX_ITEMS`](Self::MAX_ITEMS) items, `own_share` is outside [0, 1), or no item has a
    /// feature.
    pub fn new(features: &ItemFeatures, own_share: f64) -> Result<Self> {
        let n = features.n_items();
        params::in_range("n_items", n, 1, Self::MAX_ITEMS, "1 to 16384")?;
        params::closed_unit("own_share", own_share)?;
        params::finite_positive("1 - own_share", 1.0 - own_share)?;
        let holders = holders(features);
        let mut entries = vec![0.0; n * n];
        let rows = entries.chunks_exact_mut(n).enumerate();
        parallel::for_each(rows, |(item, row)| {
            for (feature, weight) in features.item(item) {
                for &(other, w) in &holders[&feature] {
                    row[other as usize] += weight * w;
                }
            }
        });
        let mean = entries.iter().step_by(n + 1).sum::<f64>() / n as f64;
        params::finite_positive("mean squared norm of the items' features", mean)?;
        let shared = (1.0 - own_share) / mean;
        entries.iter_mut().for_each(|k| *k *= shared);
        entries
            .iter_mut()
            .step_by(n + 1)
            .for_each(|k| *k += own_share);
        Ok(Self {
            n_items: n,
            entries,
        })
    }

    /// The kernel of items without common features: the identity.
    ///
    /// # Errors
    /// As [`new`](Self::new), for the number of items.
    pub fn id_only(n_items: usize) -> Result<Self> {
        params::in_range("n_items", n_items, 1, Self::MAX_ITEMS, "1 to 16384")?;
        let mut entries = vec![0.0; n_items * n_items];
        entries
            .iter_mut()
            .step_by(n_items + 1)
            .for_each(|k| *k = 1.0);
        Ok(Self { n_items, entries })
    }

    /// Number of items `m`.
    #[must_use]
    pub const fn n_items(&self) -> usize {
        self.n_items
    }

    /// Row of one item.
    ///
    /// # Panics
    /// When there is no such item.
    #[must_use]
    pub fn row(&self, item: usize) -> &[f64] {
        &self.entries[item * self.n_items..][..self.n_items]
    }

    /// `out = K g` for `g` of shape `(m, dim)`, row-major.
    pub(crate) fn apply(&self, dim: usize, g: &[f64], out: &mut [f64]) {
        parallel::for_each(out.chunks_exact_mut(dim).enumerate(), |(item, out)| {
            out.fill(0.0);
            for (&k, g) in self.row(item).iter().zip(g.chunks_exact(dim)) {
                if k != 0.0 {
                    out.iter_mut().zip(g).for_each(|(o, g)| *o += k * g);
                }
            }
        });
    }
}

impl ItemKernel for FeatureKernel {
    fn n_items(&self) -> usize {
        self.n_items
    }

    fn diagonal(&self, item: usize) -> f64 {
        self.row(item)[item]
    }

    fn apply(&self, dim: usize, g: &[f64], out: &mut [f64]) {
        Self::apply(self, dim, g, out);
    }
}

/// The items that have each feature, for features that occur.
fn holders(features: &ItemFeatures) -> HashMap<u32, Vec<(u32, f64)>> {
    let mut holders: HashMap<u32, Vec<(u32, f64)>> = HashMap::new();
    for (item, number) in (0..features.n_items()).zip(0_u32..) {
        for (feature, weight) in features.item(item) {
            holders.entry(feature).or_default().push((number, weight));
        }
    }
    holders
}

/// `K = X X^T + a I`, stored as the sparse `X`: for any number of items, with products in time
/// proportional to the active features.
///
/// The kernel of the linear encoder `v_j = theta^T x_j + own_j` with unit priors on `theta` and
/// prior variance `a` on `own_j`.
///
/// # Examples
/// ```
/// use dp_pubfeat::{FeatureKernel, ItemFeaturesBuilder, ItemKernel, SparseKernel};
/// let mut builder = ItemFeaturesBuilder::new(3, &[4])?;
/// for (item, feature) in [(0, 0), (0, 1), (1, 1), (1, 2), (2, 3)] {
///     builder.push(item, feature, 1.0)?;
/// }
/// let features = builder.build();
/// let (dense, sparse) = (FeatureKernel::new(&features, 0.25)?, SparseKernel::of_features(&features, 0.25)?);
/// let (mut a, mut b) = ([0.0; 3], [0.0; 3]);
/// ItemKernel::apply(&dense, 1, &[1.0, 2.0, 3.0], &mut a);
/// sparse.apply(1, &[1.0, 2.0, 3.0], &mut b);
/// assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-14));
/// # Ok::<(), dp_pubfeat::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SparseKernel {
    rows: Vec<Vec<(u32, f64)>>,
    n_features: usize,
    own: f64,
}

impl SparseKernel {
    /// A kernel from the rows of `X`, each a list of columns and values, and `a`, 0 or above.
    /// Values of a column that appears twice in a row are summed.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when there is no item, or a number is not finite or out of range;
    /// [`crate::Error::Shape`] for a column that is not below `n_features`.
    pub fn new(mut rows: Vec<Vec<(u32, f64)>>, n_features: usize, own: f64) -> Result<Self> {
        params::in_range("n_items", rows.len(), 1, u32::MAX as usize, "1 to 2^32 - 1")?;
        params::finite_non_negative("own variance", own)?;
        for &(column, value) in rows.iter().flatten() {
            below("feature", column, n_features)?;
            params::finite("value of a feature", value)?;
        }
        rows.iter_mut().for_each(merge_repeats);
        Ok(Self {
            rows,
            n_features,
            own,
        })
    }

    /// The kernel of [`FeatureKernel::new`](crate::FeatureKernel::new):
    /// `(1 - own_share) X X^T / s + own_share I`, where `s` is the mean squared norm of a row.
    ///
    /// # Errors
    /// As [`FeatureKernel::new`](crate::FeatureKernel::new), except that the number of items is not
    /// limited.
    pub fn of_features(features: &ItemFeatures, own_share: f64) -> Result<Self> {
        params::closed_unit("own_share", own_share)?;
        params::finite_positive("1 - own_share", 1.0 - own_share)?;
        let n_items = features.n_items();
        let squares: f64 = (0..n_items)
            .flat_map(|item| features.item(item).map(|(_, w)| w * w))
            .sum();
        let mean = squares / n_items as f64;
        params::finite_positive("mean squared norm of the items' features", mean)?;
        let scale = ((1.0 - own_share) / mean).sqrt();
        let row = |item| features.item(item).map(|(f, w)| (f, scale * w)).collect();
        Self::new(
            (0..n_items).map(row).collect(),
            features.n_features(),
            own_share,
        )
    }

    /// `a`.
    pub(crate) const fn own(&self) -> f64 {
        self.own
    }

    pub(crate) const fn n_features(&self) -> usize {
        self.n_features
    }

    /// `X theta`, shape `(m, dim)`, for `theta` of shape `(p, dim)`.
    pub(crate) fn feature_values(&self, dim: usize, theta: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.rows.len() * dim];
        let parts = out
            .chunks_mut(ROWS_AT_ONCE * dim)
            .zip(self.rows.chunks(ROWS_AT_ONCE));
        parallel::for_each(parts, |(out, rows)| {
            for (out, row) in out.chunks_exact_mut(dim).zip(rows) {
                add_features(dim, theta, row, out);
            }
        });
        out
    }

    /// `X^T g`, shape `(p, dim)`, for `g` of shape `(m, dim)`.
    #[must_use]
    pub fn feature_sums(&self, dim: usize, g: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.n_features * dim];
        for (row, g) in self.rows.iter().zip(g.chunks_exact(dim)) {
            for &(feature, weight) in row {
                let sum = &mut sums[feature as usize * dim..][..dim];
                sum.iter_mut().zip(g).for_each(|(s, g)| *s += weight * g);
            }
        }
        sums
    }
}

impl ItemKernel for SparseKernel {
    fn n_items(&self) -> usize {
        self.rows.len()
    }

    fn diagonal(&self, item: usize) -> f64 {
        self.own + self.rows[item].iter().map(|(_, w)| w * w).sum::<f64>()
    }

    fn apply(&self, dim: usize, g: &[f64], out: &mut [f64]) {
        let theta = self.feature_sums(dim, g);
        let parts = out
            .chunks_mut(ROWS_AT_ONCE * dim)
            .zip(g.chunks(ROWS_AT_ONCE * dim));
        parallel::for_each(
            parts.zip(self.rows.chunks(ROWS_AT_ONCE)),
            |((out, g), rows)| {
                out.iter_mut().zip(g).for_each(|(o, g)| *o = self.own * g);
                for (out, row) in out.chunks_exact_mut(dim).zip(rows) {
                    add_features(dim, &theta, row, out);
                }
            },
        );
    }
}

/// Adds `theta^T x` of one item's row `x`.
fn add_features(dim: usize, theta: &[f64], row: &[(u32, f64)], out: &mut [f64]) {
    for &(feature, weight) in row {
        let theta = &theta[feature as usize * dim..][..dim];
        let each = out.iter_mut().zip(theta);
        each.for_each(|(o, t)| *o += weight * t);
    }
}

/// Sorts a row by column and sums the values of repeated columns.
fn merge_repeats(row: &mut Vec<(u32, f64)>) {
    row.sort_by_key(|&(column, _)| column);
    row.dedup_by(|later, first| {
        let same = later.0 == first.0;
        if same {
            first.1 += later.1;
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ItemFeaturesBuilder;

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

    #[test]
    fn kernel_is_the_scaled_product_with_its_own_part() {
        let mut builder = ItemFeaturesBuilder::new(3, &[3]).unwrap();
        for (item, feature, w) in [(0, 0, 1.0), (0, 2, 2.0), (1, 2, 3.0)] {
            builder.push(item, feature, w).unwrap();
        }
        // X X^T = [[5, 6, 0], [6, 9, 0], [0, 0, 0]], mean of the diagonal 14/3
        let kernel = FeatureKernel::new(&builder.build(), 0.25).unwrap();
        let s = 0.75 * 3.0 / 14.0;
        let expected = [
            5.0 * s + 0.25,
            6.0 * s,
            0.0,
            6.0 * s,
            9.0 * s + 0.25,
            0.0,
            0.0,
            0.0,
            0.25,
        ];
        for (k, e) in kernel.entries.iter().zip(expected) {
            assert!((k - e).abs() < 1e-14, "{k} {e}");
        }
        let mut out = [0.0; 6];
        kernel.apply(2, &[1.0, 0.0, 0.0, 1.0, 2.0, 2.0], &mut out);
        for (o, e) in out
            .iter()
            .zip([expected[0], expected[1], expected[3], expected[4], 0.5, 0.5])
        {
            assert!((o - e).abs() < 1e-14);
        }
    }

    #[test]
    fn kernels_that_mean_nothing_are_refused() {
        let features = ItemFeaturesBuilder::new(2, &[3]).unwrap().build();
        assert!(FeatureKernel::new(&features, 0.0).is_err());
        assert!(FeatureKernel::id_only(0).is_err());
        let mut builder = ItemFeaturesBuilder::new(1, &[1]).unwrap();
        builder.push(0, 0, 2.0).unwrap();
        let features = builder.build();
        for share in [-0.1, 1.0, f64::NAN] {
            assert!(FeatureKernel::new(&features, share).is_err());
        }
    }

    #[test]
    fn products_are_those_of_the_written_out_matrix() {
        // X = [[1, 2], [0, 3]] with column 1 given in two parts for item 1, a = .5
        let rows = vec![vec![(0, 1.0), (1, 2.0)], vec![(1, 1.0), (1, 2.0)]];
        let kernel = SparseKernel::new(rows, 2, 0.5).unwrap();
        let mut out = [0.0; 4];
        kernel.apply(2, &[1.0, 0.0, 0.0, 1.0], &mut out);
        assert_eq!(
            out.map(f64::to_bits),
            [5.5, 6.0, 6.0, 9.5].map(f64::to_bits)
        );
        assert_eq!(
            [kernel.diagonal(0), kernel.diagonal(1)].map(f64::to_bits),
            [5.5, 9.5].map(f64::to_bits)
        );
        assert_eq!(kernel.feature_sums(1, &[1.0, 1.0]), [1.0, 5.0]);
    }

    #[test]
    fn rows_that_mean_nothing_are_refused() {
        assert!(SparseKernel::new(Vec::new(), 1, 0.5).is_err());
        assert!(SparseKernel::new(vec![vec![(1, 1.0)]], 1, 0.5).is_err());
        assert!(SparseKernel::new(vec![vec![(0, f64::NAN)]], 1, 0.5).is_err());
        assert!(SparseKernel::new(vec![Vec::new()], 1, -0.5).is_err());
    }
}
