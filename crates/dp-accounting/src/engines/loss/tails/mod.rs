//! Masses of the privacy loss beyond a point, under both distributions of the pair.
//!
//! A loss is described on its own axis t = L - anchor, where the anchor is the point where the
//! distribution is sharpest: the smallest loss of a sampled mechanism, an atom, or 0. Close to it,
//! t keeps digits that L itself has lost (q = 1e-9). The distribution of t has a continuous part,
//! given by [`Loss::edge`], and the atoms of [`Loss::atoms`].
//!
//! Both tails are returned, because each is accurate only where it is small; [`mass_between`]
//! subtracts the ones that cancel least and reports how much accuracy was lost.

mod mixture;
mod symmetric;
mod tail;

use super::{Loss, Side};

pub(crate) use tail::{Edge, Mass, Tail, ULP, mass_between};

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
                Side::Remove => symmetric::bottom(epsilon, q),
                Side::Add => -symmetric::bottom(epsilon, q),
                Side::Replace => 0.0,
            },
        }
    }

    /// The interval of t that contains the continuous part; `None` if there is none.
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
                let spread = symmetric::spread(epsilon, q);
                Some(match side {
                    Side::Remove => (0.0, spread),
                    Side::Add => (-spread, 0.0),
                    Side::Replace => (-spread, spread),
                })
            }
        }
    }

    /// The masses of the continuous part on both sides of t, for t within the reach.
    pub(crate) fn edge(&self, t: f64) -> Edge {
        match self {
            &Self::Gaussian { mu_squared } => tail::gaussian(mu_squared, t),
            &Self::Laplace { epsilon } => symmetric::laplace(epsilon, t),
            &Self::BoundedRange { epsilon } => symmetric::bounded_range(epsilon, t),
            Self::DiscreteGaussian { .. } | Self::Finite(_) => symmetric::NOTHING,
            Self::Mixture(mixture) => mixture.edge(t),
            &Self::SampledLaplace { epsilon, q, side } => {
                symmetric::sampled_laplace(epsilon, q, side, t)
            }
            &Self::WithoutReplacement { mu, q } => symmetric::without_replacement(mu, q, t),
        }
    }
}

/// Maximum number of atoms of one discrete Gaussian: sigma up to about 13,000.
const MOST_ATOMS: f64 = 1_048_576.0;

impl Loss {
    /// Points t with their mass under P; under Q each has e^-L times the mass. `None` if there are
    /// too many to list.
    pub(crate) fn atoms(&self) -> Option<Vec<(f64, f64)>> {
        Some(match self {
            Self::Gaussian { .. } | Self::BoundedRange { .. } | Self::Mixture(_) => Vec::new(),
            &Self::Laplace { epsilon } => {
                vec![(-2.0 * epsilon, 0.5 * libm::exp(-epsilon)), (0.0, 0.5)]
            }
            Self::Finite(finite) => {
                let anchor = self.anchor();
                finite.atoms.iter().map(|&(l, p)| (l - anchor, p)).collect()
            }
            &Self::DiscreteGaussian { sigma, sensitivity } => {
                return discrete_gaussian(sigma, sensitivity as f64);
            }
            &Self::SampledLaplace { epsilon, q, side } => sampled_laplace(epsilon, q, side),
            &Self::WithoutReplacement { mu, q } => {
                let (above, below) = symmetric::without_replacement_sides(mu, q);
                vec![(0.0, (1.0 - above - below).max(0.0))]
            }
        })
    }

    /// The step of the lattice t = step * integer that contains the whole loss, if there is one.
    pub(crate) fn lattice(&self) -> Option<f64> {
        match self {
            &Self::DiscreteGaussian { sigma, sensitivity } => {
                Some(sensitivity as f64 / sigma / sigma)
            }
            Self::Finite(finite) => match finite.atoms[..] {
                [] | [_] => Some(0.0),
                [(a, _), (b, _)] => Some(b - a),
                _ => finite.step,
            },
            _ => None,
        }
    }
}

fn sampled_laplace(epsilon: f64, q: f64, side: Side) -> Vec<(f64, f64)> {
    let (spread, far) = (symmetric::spread(epsilon, q), libm::exp(-epsilon));
    let top = 0.5 * ((1.0 - q) * far + q);
    match side {
        Side::Remove => vec![(0.0, 0.5 * (1.0 - q + q * far)), (spread, top)],
        Side::Add => vec![(-spread, 0.5 * far), (0.0, 0.5)],
        Side::Replace => vec![(-spread, 0.5 * far * (1.0 - q + q * far)), (spread, top)],
    }
}

/// Loss (s² - 2 s y) / (2σ²) at the integer y, ascending, for all y with a mass above the smallest
/// normal number.
fn discrete_gaussian(sigma: f64, s: f64) -> Option<Vec<(f64, f64)>> {
    let last = (38.0 * sigma).ceil().max(1.0);
    if last * 2.0 > MOST_ATOMS {
        return None;
    }
    let weight = |y: f64| libm::exp(-0.5 * (y / sigma) * (y / sigma));
    let (mut total, mut y) = (0.0, last);
    while y >= 1.0 {
        total += weight(y);
        y -= 1.0;
    }
    let total = 1.0 + 2.0 * total;
    let step = s / sigma / sigma;
    let mut atoms = Vec::new();
    let mut y = last;
    while y >= -last {
        let p = weight(y) / total;
        if p > 0.0 {
            atoms.push((-y * step, p));
        }
        y -= 1.0;
    }
    Some(atoms)
}
