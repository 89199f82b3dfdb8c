//! Mixtures of normals.

use super::MAX_CELLS;
use crate::engines::loss::{MixtureLoss, Side};
use crate::engines::saddle_point::inversion::whole;
use crate::engines::saddle_point::mixture_nodes::range;
use crate::engines::saddle_point::nodes::Demand;

/// Cells a standard deviation of the noise.
const RESOLUTION: f64 = 16.0;

/// Lengths and least densities of the loss tilted by e^{cL}; `log_mgf` is K(c).
pub(super) fn cells(mixture: &MixtureLoss, demand: Demand, log_mgf: f64) -> Vec<(f64, f64)> {
    let sigma = mixture.sigma;
    let (low, high) = range(mixture, demand);
    let count = ((high - low) / sigma * RESOLUTION).ceil().min(MAX_CELLS);
    let width = (high - low) / count;
    let mut cells = Vec::with_capacity(whole(count));
    let mut before = End::at(mixture, low);
    for i in 1..=whole(count) {
        let end = End::at(mixture, low + width * i as f64);
        cells.push(cell(mixture, demand.c, (&before, &end), log_mgf));
        before = end;
    }
    cells
}

/// What a cell needs to know of its ends. The mirrored figures are those at -x, for replacement.
struct End {
    log_noise: f64,
    log_ratio: f64,
    slope: f64,
    mirrored_log_ratio: f64,
    mirrored_slope: f64,
}

impl End {
    fn at(mixture: &MixtureLoss, x: f64) -> Self {
        let (mirrored_log_ratio, mirrored_slope) = match mixture.side {
            Side::Replace => (mixture.log_ratio(-x), mixture.log_ratio_slope(-x)),
            Side::Remove | Side::Add => (0.0, 0.0),
        };
        Self {
            log_noise: mixture.log_noise(x),
            log_ratio: mixture.log_ratio(x),
            slope: mixture.log_ratio_slope(x),
            mirrored_log_ratio,
            mirrored_slope,
        }
    }
}

/// Length of the loss over x in [a, b] and a lower bound on its tilted density there: the noise is
/// log-concave, ℓ rises and so does its slope, so every factor is smallest at an end.
fn cell(mixture: &MixtureLoss, c: f64, (a, b): (&End, &End), log_mgf: f64) -> (f64, f64) {
    let noise = a.log_noise.min(b.log_noise);
    let log_density = noise
        + match mixture.side {
            Side::Remove => (c + 1.0) * a.log_ratio,
            Side::Add => -c * b.log_ratio,
            Side::Replace => (c + 1.0) * a.log_ratio - c * a.mirrored_log_ratio,
        };
    let rise = b.slope + a.mirrored_slope;
    let length = b.log_ratio - a.log_ratio + (a.mirrored_log_ratio - b.mirrored_log_ratio);
    let density = libm::exp(log_density - log_mgf) / (mixture.sigma * rise);
    (length, if density.is_finite() { density } else { 0.0 })
}
