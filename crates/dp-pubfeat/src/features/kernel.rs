//! Inner products of items' features.

use std::collections::HashMap;

use dp_core::params;
use rayon::prelude::*;

use super::{ItemFeatures, ItemKernel};
use crate::Result;

/// `K = (1 - a) X X^T / s + a I`: inner products of items' features, what a linear encoder knows of the items, whatever `p` is.
///
/// `v_j = theta^T x_j` with a penalty `||theta||_F^2` is ridge regression with this kernel. `s` is the mean squared norm of a row of `X`, so the
/// mean of the diagonal is 1. `a`, the own share, gives every item one feature of its own, so that an item can differ from what its features say.
///
/// Cost: `m^2` numbers; built in time proportional to the pairs of items that share a feature.
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
    /// Largest number of items: 2 GB of kernel.
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
        let rows = entries.par_chunks_exact_mut(n).enumerate();
        rows.for_each(|(item, row)| {
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

    /// The kernel of items that share nothing: the identity.
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
        out.par_chunks_exact_mut(dim)
            .enumerate()
            .for_each(|(item, out)| {
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

/// Which items have each feature that any has.
fn holders(features: &ItemFeatures) -> HashMap<u32, Vec<(u32, f64)>> {
    let mut holders: HashMap<u32, Vec<(u32, f64)>> = HashMap::new();
    for (item, number) in (0..features.n_items()).zip(0_u32..) {
        for (feature, weight) in features.item(item) {
            holders.entry(feature).or_default().push((number, weight));
        }
    }
    holders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ItemFeaturesBuilder;

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
}
