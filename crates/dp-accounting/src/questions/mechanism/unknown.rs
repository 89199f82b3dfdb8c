//! Parameters that are null, and copies in which they are not.

use super::super::Quantity;
use super::Mechanism;

impl Mechanism {
    /// The parameters that are null.
    pub(in crate::questions) fn unknowns(&self) -> Vec<Quantity> {
        let (sigma, scale, rate, q) = match *self {
            Self::Gaussian { sigma, .. }
            | Self::DiscreteGaussian { sigma, .. }
            | Self::BinaryTreeGaussian { sigma, .. } => (sigma.is_none(), false, false, false),
            Self::Laplace { scale, .. } => (false, scale.is_none(), false, false),
            Self::DiscreteLaplace { rate, .. } => (false, false, rate.is_none(), false),
            Self::PoissonSubsampledGaussian {
                sigma,
                sampling_probability: q,
                ..
            } => (sigma.is_none(), false, false, q.is_none()),
            Self::PoissonSubsampledApproximateDp {
                sampling_probability: q,
                ..
            } => (false, false, false, q.is_none()),
            Self::RandomizedResponse { .. }
            | Self::ApproximateDp { .. }
            | Self::RdpPoint { .. }
            | Self::Zcdp { .. } => (false, false, false, false),
        };
        [
            (sigma, Quantity::Sigma),
            (scale, Quantity::Scale),
            (rate, Quantity::Rate),
            (q, Quantity::SamplingProbability),
            (self.count().is_none(), Quantity::Count),
        ]
        .into_iter()
        .filter_map(|(null, quantity)| null.then_some(quantity))
        .collect()
    }

    /// A copy with the null of this kind, noise or probability, set to `x`.
    pub(in crate::questions) fn filled(&self, x: f64) -> Self {
        let mut copy = *self;
        let place = match &mut copy {
            Self::Gaussian { sigma, .. }
            | Self::DiscreteGaussian { sigma, .. }
            | Self::BinaryTreeGaussian { sigma, .. } => Some(sigma),
            Self::Laplace { scale, .. } => Some(scale),
            Self::DiscreteLaplace { rate, .. } => Some(rate),
            Self::PoissonSubsampledGaussian {
                sigma,
                sampling_probability,
                ..
            } => Some(if sigma.is_none() {
                sigma
            } else {
                sampling_probability
            }),
            Self::PoissonSubsampledApproximateDp {
                sampling_probability,
                ..
            } => Some(sampling_probability),
            Self::RandomizedResponse { .. }
            | Self::ApproximateDp { .. }
            | Self::RdpPoint { .. }
            | Self::Zcdp { .. } => None,
        };
        if let Some(place) = place {
            *place = place.or(Some(x));
        }
        copy
    }

    /// A copy with its count set.
    pub(in crate::questions) fn repeated(&self, n: u64) -> Self {
        let mut copy = *self;
        *copy.count_mut() = Some(n);
        copy
    }
}
