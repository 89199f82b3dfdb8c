//! The linear encoder that the rounds leave: vectors of items that were not there.

use dp_core::{ParamError, params};

use crate::Result;
use crate::features::{below, to_unit_norm};

/// What each public feature adds to an item's vector.
///
/// ```text
/// v = shared + sum_c sum_f (w_f / ||w||_c) theta_f        f over the item's features in category c, ||w||_c their norm there
/// ```
///
/// # Privacy
/// Released, like the item vectors.
///
/// # Examples
/// ```
/// use dp_pubfeat::FeatureWeights;
/// // 2 genres and 1 decade, vectors of length 1
/// let weights = FeatureWeights::new(1, &[2, 1], vec![0.5], vec![1.0, 2.0, -1.0])?;
/// assert_eq!(weights.vector(&[(1, 1.0), (2, 1.0)])?, [1.5]);
/// assert_eq!(weights.vector(&[])?, [0.5]); // nothing is known of it
/// assert!(weights.vector(&[(3, 1.0)]).is_err());
/// # Ok::<(), dp_pubfeat::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureWeights {
    dim: usize,
    /// End of each category.
    ends: Vec<usize>,
    shared: Vec<f64>,
    /// `(p, dim)`.
    features: Vec<f64>,
}

impl FeatureWeights {
    /// From what all items share, shape `(dim)`, and the weights of features, shape `(p, dim)`, category by category.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for shapes that do not fit, [`crate::Error::Param`] for numbers that are not finite.
    pub fn new(
        dim: usize,
        category_sizes: &[usize],
        shared: Vec<f64>,
        features: Vec<f64>,
    ) -> Result<Self> {
        params::in_range("dim", dim, 1, 256, "a whole number from 1 to 256")?;
        let ends: Vec<usize> = category_sizes
            .iter()
            .scan(0_usize, |end, size| {
                *end = end.saturating_add(*size);
                Some(*end)
            })
            .collect();
        let n_features = ends.last().copied().unwrap_or(0);
        params::same_size("shared part", shared.len(), dim)?;
        let expected = n_features.saturating_mul(dim);
        params::same_size("weights of features", features.len(), expected)?;
        for &weight in shared.iter().chain(&features) {
            params::finite("weight of a feature", weight)?;
        }
        Ok(Self {
            dim,
            ends,
            shared,
            features,
        })
    }

    /// Length of vectors.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Number of features `p`.
    #[must_use]
    pub fn n_features(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// What all items that were not in the run have in common.
    #[must_use]
    pub fn shared(&self) -> &[f64] {
        &self.shared
    }

    /// What one feature adds.
    ///
    /// # Panics
    /// When there is no such feature.
    #[must_use]
    pub fn feature(&self, feature: usize) -> &[f64] {
        &self.features[feature * self.dim..][..self.dim]
    }

    /// The vector of an item by its features and their weights, each feature once, in any order: one that was not in the run, or that nobody rated. Unknown names have no number and are left out by
    /// the caller; an item without features gets what all share.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for a feature that does not exist, [`crate::Error::Param`] for a weight that is not finite and above 0.
    pub fn vector(&self, features: &[(u32, f64)]) -> Result<Vec<f64>> {
        let category = |f: u32| self.ends.partition_point(|end| *end <= f as usize);
        let mut by_category = vec![Vec::new(); self.ends.len()];
        for &(feature, weight) in features {
            below("feature", feature, self.n_features())?;
            params::finite_positive("weight", weight)?;
            by_category[category(feature)].push((feature, weight));
        }
        let mut vector = self.shared.clone();
        for own in by_category {
            let unit = to_unit_norm(own.iter().map(|&(_, w)| w));
            for ((feature, _), scale) in own.iter().zip(unit) {
                let theta = self.feature(*feature as usize);
                let each = vector.iter_mut().zip(theta);
                each.for_each(|(v, t)| *v += scale * t);
            }
        }
        if vector.iter().all(|v| v.is_finite()) {
            return Ok(vector);
        }
        Err(ParamError {
            name: "vector of an item",
            value: f64::NAN,
            expected: "finite numbers: smaller weights",
        }
        .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_count_by_their_ratios_however_small_or_large() {
        let weights = FeatureWeights::new(1, &[2], vec![0.0], vec![1.0, 10.0]).unwrap();
        // (3 * 1 + 4 * 10) / 5; squares of these under- and overflow
        for unit in [1e-300, 1.0, 1e300] {
            let vector = weights.vector(&[(0, 3.0 * unit), (1, 4.0 * unit)]).unwrap();
            assert!((vector[0] - 8.6).abs() < 1e-12, "{unit}: {vector:?}");
        }
    }
}
