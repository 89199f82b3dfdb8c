//! Inner products of items' features, by the features.

use dp_core::params;
use rayon::prelude::*;

use super::item_features::below;
use super::{ItemFeatures, ItemKernel};
use crate::Result;

/// `K = X X^T + a I`, kept as the sparse `X`: for any number of items, and products in the time of the active features.
///
/// The kernel of the linear encoder `v_j = theta^T x_j + own_j` with unit priors on `theta` and prior variance `a` on what is an item's own.
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
    /// From the rows of `X`, each a list of columns and values, and `a`, 0 or above. A column given twice in a row counts with the sum.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when there is no item, or a number is not finite or out of range; [`crate::Error::Shape`] for a column that is not below `n_features`.
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

    /// The kernel of [`FeatureKernel::new`](crate::FeatureKernel::new): `(1 - own_share) X X^T / s + own_share I`, `s` the mean squared norm of a row.
    ///
    /// # Errors
    /// As there, but for the number of items.
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
        let each = out.par_chunks_exact_mut(dim).zip(g.par_chunks_exact(dim));
        each.zip(&self.rows).for_each(|((out, g), row)| {
            out.iter_mut().zip(g).for_each(|(o, g)| *o = self.own * g);
            for &(feature, weight) in row {
                let theta = &theta[feature as usize * dim..][..dim];
                out.iter_mut()
                    .zip(theta)
                    .for_each(|(o, t)| *o += weight * t);
            }
        });
    }
}

/// Sorts a row by column and adds up values of one column.
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
