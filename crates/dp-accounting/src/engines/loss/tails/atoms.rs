//! The atoms of a loss: where it lies on single points.

use super::super::{Loss, Side};
use super::{exponential, symmetric};

/// Atoms that one discrete Gaussian may have: sigma up to about 13,000.
const MOST_ATOMS: f64 = 1_048_576.0;

impl Loss {
    /// Points t with their mass under P; under Q each has e^-L times as much. Absent when there
    /// are too many to list.
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

    /// The step of the lattice t = step * integer that carries the whole loss, if there is one.
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
    let (spread, far) = (exponential::spread(epsilon, q), libm::exp(-epsilon));
    let top = 0.5 * ((1.0 - q) * far + q);
    match side {
        Side::Remove => vec![(0.0, 0.5 * (1.0 - q + q * far)), (spread, top)],
        Side::Add => vec![(-spread, 0.5 * far), (0.0, 0.5)],
        Side::Replace => vec![(-spread, 0.5 * far * (1.0 - q + q * far)), (spread, top)],
    }
}

/// Loss (s² - 2 s y) / (2σ²) at the integer y, ascending; all y with a mass above the smallest
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
