//! The privacy loss of one mechanism, in the form that the exact accountants work on.
//!
//! For an ordered pair of neighbours with output distributions P and Q the privacy loss is
//! L = ln(dP/dQ) with the output drawn from P. A mechanism's *dominating pair* has, at every
//! epsilon, at least the hockey-stick divergence of any neighbours, and dominating pairs compose
//! (Zhu, Dong, Wang, arXiv 2106.08567, Theorem 10). Composition adds independent losses.

mod finite;
mod mgf;
mod mixture;
mod tails;

pub(crate) use finite::FiniteLoss;
pub(crate) use mgf::{LogMoment, bounded_range_renyi, phi};
pub(crate) use mixture::{MixtureLoss, Side};
pub(crate) use tails::{Edge, Mass, Tail, ULP, mass_between};

/// Which of the two neighbours the outputs are drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    /// P is the data set with the unit. Also the only direction under replacement, where every
    /// pair here is symmetric.
    Remove,
    /// P is the data set without the unit.
    Add,
}

/// The distribution of one mechanism's privacy loss.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Loss {
    /// N(mu^2/2, mu^2): the pair N(0, 1), N(mu, 1).
    Gaussian {
        /// mu^2, rounded up.
        mu_squared: f64,
    },
    /// Pair Laplace(0, 1/epsilon), Laplace(1, 1/epsilon).
    Laplace {
        /// Sensitivity over scale: the largest loss.
        epsilon: f64,
    },
    /// Truncated exponential density e^((epsilon + l)/2) / (2 (e^epsilon - 1)) on
    /// [-epsilon, epsilon]: the profile (e^(epsilon/2) - e^(l/2))^2 / (e^epsilon - 1) that is the
    /// supremum over all mechanisms of bounded range epsilon.
    BoundedRange {
        /// The range.
        epsilon: f64,
    },
    /// Pair of discrete Gaussians at 0 and `sensitivity`.
    DiscreteGaussian {
        /// Parameter of the noise.
        sigma: f64,
        /// Distance, in integers.
        sensitivity: u64,
    },
    /// Finitely many values, and infinity with some probability.
    Finite(FiniteLoss),
    /// A mixture of normals against a normal or its mirror image: Poisson sampling and more.
    Mixture(MixtureLoss),
    /// Laplace mechanism (scale 1/epsilon at distance 1) on a Poisson sample.
    SampledLaplace {
        /// Sensitivity under add/remove over scale.
        epsilon: f64,
        /// Sampling probability.
        q: f64,
        /// Which pair.
        side: Side,
    },
    /// The Gaussian pair at distance `mu`, on a subset of fixed size: for losses above 0 the pair
    /// ((1-q) Q + q P, Q), for losses below 0 the pair (P, (1-q) P + q Q), the remaining mass at 0
    /// (Zhu, Dong, Wang, arXiv 2106.08567, Theorem 11).
    WithoutReplacement {
        /// Distance over standard deviation, replacement factor included.
        mu: f64,
        /// Sampled fraction.
        q: f64,
    },
}

impl Loss {
    /// Probability under P of an infinite loss.
    pub(crate) const fn infinite_mass(&self) -> f64 {
        match self {
            Self::Finite(finite) => finite.infinite_mass,
            _ => 0.0,
        }
    }
}
