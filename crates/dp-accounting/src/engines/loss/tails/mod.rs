//! Masses of the privacy loss beyond a point, under both distributions of the pair.
//!
//! A loss is described on its own axis t = L - anchor, where the anchor is the point that the
//! distribution is sharpest at: the smallest loss of a sampled mechanism, an atom, or 0. Near it
//! t keeps digits that L itself has lost (q = 1e-9). The law of t is a continuous part, given by
//! [`Loss::edge`], and the atoms of [`Loss::atoms`].
//!
//! Both tails are returned, because each is accurate only where it is small; [`mass_between`]
//! subtracts the ones that cancel least and says how much was lost.

mod atoms;
mod exponential;
mod mixture;
mod normal;
mod symmetric;

use super::{Loss, Side};

/// One rounding error, relative.
pub(crate) const ULP: f64 = f64::EPSILON;

/// The two tails of one measure at a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tail {
    /// Mass strictly above.
    pub(crate) above: f64,
    /// Mass strictly below.
    pub(crate) below: f64,
    /// Bound on the relative error of the smaller one.
    pub(crate) error: f64,
}

impl Tail {
    /// The same point seen from the other end.
    const fn reversed(self) -> Self {
        Self {
            above: self.below,
            below: self.above,
            error: self.error,
        }
    }

    /// `weight` of this and `1 - weight` of `other`.
    fn mixed(self, weight: f64, other: Self) -> Self {
        Self {
            above: weight * self.above + (1.0 - weight) * other.above,
            below: weight * self.below + (1.0 - weight) * other.below,
            error: self.error.max(other.error) + 2.0 * ULP,
        }
    }
}

/// A point on the axis of a loss with the mass on either side, of the continuous part only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Edge {
    /// Under P.
    pub(crate) p: Tail,
    /// Under Q.
    pub(crate) q: Tail,
    /// Bound on the distance between the point asked for and the point that the tails are for.
    pub(crate) shift: f64,
}

impl Edge {
    /// The same point for the loss with P and Q exchanged and the sign turned.
    const fn exchanged(self) -> Self {
        Self {
            p: self.q.reversed(),
            q: self.p.reversed(),
            shift: self.shift,
        }
    }
}

/// The mass between two edges with a bound on its absolute error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mass {
    /// Under P.
    pub(crate) p: f64,
    /// Absolute error of `p`.
    pub(crate) p_error: f64,
    /// Under Q.
    pub(crate) q: f64,
    /// Absolute error of `q`.
    pub(crate) q_error: f64,
}

/// The mass between the edges `a` and `b`, a left of b.
pub(crate) fn mass_between(a: &Edge, b: &Edge) -> Mass {
    let (p, p_error) = difference(a.p, b.p);
    let (q, q_error) = difference(a.q, b.q);
    Mass {
        p,
        p_error,
        q,
        q_error,
    }
}

/// From the tails on the side where they are small; each brings its own error.
fn difference(a: Tail, b: Tail) -> (f64, f64) {
    let (large, small, error) = if b.below < a.above {
        (b.below, a.below, b.error * b.below + a.error * a.below)
    } else {
        (a.above, b.above, a.error * a.above + b.error * b.above)
    };
    // An absolute floor stands for results that underflow.
    ((large - small).max(0.0), error + ULP * large + 1e-307)
}

impl Loss {
    /// The loss at t = 0.
    pub(crate) fn anchor(&self) -> f64 {
        match self {
            Self::Gaussian { .. } | Self::WithoutReplacement { .. } => 0.0,
            &Self::Laplace { epsilon } | &Self::BoundedRange { epsilon } => epsilon,
            &Self::DiscreteGaussian { sigma, sensitivity } => {
                let s = sensitivity as f64 / sigma;
                0.5 * s * s
            }
            Self::Finite(finite) => finite.atoms.first().map_or(0.0, |atom| atom.0),
            Self::Mixture(mixture) => mixture.anchor(),
            &Self::SampledLaplace { epsilon, q, side } => match side {
                Side::Remove => exponential::bottom(epsilon, q),
                Side::Add => -exponential::bottom(epsilon, q),
                Side::Replace => 0.0,
            },
        }
    }

    /// The interval of t that carries the continuous part; absent without one.
    pub(crate) fn reach(&self) -> Option<(f64, f64)> {
        match self {
            Self::Gaussian { .. } | Self::WithoutReplacement { .. } => {
                Some((f64::NEG_INFINITY, f64::INFINITY))
            }
            &Self::Laplace { epsilon } | &Self::BoundedRange { epsilon } => {
                Some((-2.0 * epsilon, 0.0))
            }
            Self::DiscreteGaussian { .. } | Self::Finite(_) => None,
            Self::Mixture(mixture) => Some(mixture.reach()),
            &Self::SampledLaplace { epsilon, q, side } => {
                let spread = exponential::spread(epsilon, q);
                Some(match side {
                    Side::Remove => (0.0, spread),
                    Side::Add => (-spread, 0.0),
                    Side::Replace => (-spread, spread),
                })
            }
        }
    }

    /// The masses of the continuous part on both sides of t, t within the reach.
    pub(crate) fn edge(&self, t: f64) -> Edge {
        match self {
            &Self::Gaussian { mu_squared } => normal::gaussian(mu_squared, t),
            &Self::Laplace { epsilon } => exponential::laplace(epsilon, t),
            &Self::BoundedRange { epsilon } => exponential::bounded_range(epsilon, t),
            Self::DiscreteGaussian { .. } | Self::Finite(_) => symmetric::NOTHING,
            Self::Mixture(mixture) => mixture.edge(t),
            &Self::SampledLaplace { epsilon, q, side } => {
                exponential::sampled_laplace(epsilon, q, side, t)
            }
            &Self::WithoutReplacement { mu, q } => symmetric::without_replacement(mu, q, t),
        }
    }
}
