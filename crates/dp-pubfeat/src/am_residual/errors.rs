//! Standard errors of item vectors and of the weights of features. Post-processing of releases.

use crate::learn::KernelRidge;
use crate::{FeaturePrior, PooledStatistics, Result, SparseKernel};

use super::prior::LEVELS;

/// The last solve of the rounds, from which standard errors follow.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LastSolve {
    pub(crate) learner: KernelRidge<SparseKernel>,
    pub(crate) statistics: PooledStatistics,
    pub(crate) prior: FeaturePrior,
    /// Shares of the popularity levels for an item of unknown popularity.
    pub(crate) unknown: [f64; LEVELS],
    /// Users' constant, by which the first coordinate is multiplied.
    pub(crate) constant: f64,
}

/// Standard errors given all releases ([`KernelRidge::standard_errors`]): of the mechanism's noise,
/// the residual variance of labels, and the shrinkage. The shape of the prior is
/// taken as known, and for ratings the released weights of the items too.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureErrors {
    /// Of the item vectors, shape `(m, d)`.
    pub items: Vec<f64>,
    /// Of the weights of features, shape `(p, d)`, as in
    /// [`FeatureWeights::feature`](crate::FeatureWeights::feature).
    pub features: Vec<f64>,
    /// Of the vector of an item that was not in the run and has no features, shape `(d)`: of the
    /// shared part, and of the item's own part, of which nothing is known.
    pub shared: Vec<f64>,
}

impl LastSolve {
    /// Simulated once per call: [`KernelRidge::standard_errors`].
    pub(crate) fn errors(&self) -> Result<FeatureErrors> {
        let dim = self.statistics.dim();
        let (mut n, mut features, mut shared) = (0.0, Vec::new(), vec![0.0; dim]);
        let of_features = |errors: &[f64]| {
            let (of_features, of_shared) = self.prior.scaled(errors, dim, &self.unknown);
            features.resize(of_features.len(), 0.0);
            n += 1.0;
            add_squares(&mut features, &of_features);
            add_squares(&mut shared, &of_shared);
            Ok(())
        };
        let found = self
            .learner
            .pooled_standard_errors(&self.statistics, of_features)?;
        let [mut items, own] = found;
        features.iter_mut().for_each(|x| *x = (*x / n).sqrt());
        let of_shared = shared.iter_mut().zip(own);
        of_shared.for_each(|(x, own)| *x = (*x / n + own).sqrt());
        for part in [&mut items, &mut features, &mut shared] {
            super::with_biases(part, dim, self.constant);
        }
        Ok(FeatureErrors {
            items,
            features,
            shared,
        })
    }
}

fn add_squares(sums: &mut [f64], errors: &[f64]) {
    let each = sums.iter_mut().zip(errors);
    each.for_each(|(sum, e)| *sum += e * e);
}
