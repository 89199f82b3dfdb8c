//! Losses with an exponential density between atoms.

use super::MAX_CELLS;
use crate::engines::loss::Side;
use crate::engines::saddle_point::inversion::whole;

/// Cells for a factor of e in the density.
const RESOLUTION: f64 = 16.0;

/// Factors of e in the density that are looked at.
const DEPTH: f64 = 40.0;

/// The Laplace pair: density e^((l - epsilon)/2) / 4, tilted by e^{cl}.
pub(super) fn plain(epsilon: f64, c: f64, log_mgf: f64) -> Vec<(f64, f64)> {
    let top = libm::log(0.25) + c * epsilon - log_mgf;
    rising(epsilon, c + 0.5, top)
}

/// Bounded range: density e^((epsilon + l)/2) / (2 (e^epsilon - 1)), tilted by e^{cl}.
pub(super) fn bounded_range(epsilon: f64, c: f64, log_mgf: f64) -> Vec<(f64, f64)> {
    let scale = libm::log(2.0) + libm::log(-libm::expm1(-epsilon));
    rising(epsilon, c + 0.5, c * epsilon - scale - log_mgf)
}

/// The density e^(top + rate (l - epsilon)) on [-epsilon, epsilon].
fn rising(epsilon: f64, rate: f64, top: f64) -> Vec<(f64, f64)> {
    let depth = (2.0 * epsilon).min(DEPTH / rate);
    let count = (rate * depth * RESOLUTION).ceil().clamp(16.0, MAX_CELLS);
    let width = depth / count;
    let cell = |i: usize| {
        let below = depth - width * i as f64;
        (width, libm::exp(top - rate * below))
    };
    (0..whole(count)).map(cell).collect()
}

/// The Laplace mechanism on a Poisson sample, as in [`crate::engines::loss::Loss::SampledLaplace`].
pub(super) struct Sampled {
    pub(super) epsilon: f64,
    pub(super) q: f64,
    pub(super) side: Side,
}

impl Sampled {
    /// ln(1 - q + q e^y) and its derivative in y, both rising.
    fn log_ratio(&self, y: f64) -> (f64, f64) {
        let excess = self.q * libm::expm1(y);
        (libm::log1p(excess), (self.q + excess) / (1.0 + excess))
    }
}

/// Between the kinks, in units of the sensitivity, with noise of density ε e^(-ε|x|) / 2 and
/// r(x) = ln(1 - q + q e^(ε(2x - 1))) on [0, 1].
///
/// Removing a user, l = r(x) and the density under P is the noise times e^{r(x)}; adding one,
/// l = -r(x) and it is the noise. Under replacement l is r(x) - r(0) on [0, 1], and r(0) - r(-x)
/// on [-1, 0], where the density is the noise times e^{r(0)}. Noise and r are monotone there and
/// so is the slope of r, hence every factor is least at an end of a cell.
pub(super) fn sampled(loss: &Sampled, c: f64, log_mgf: f64) -> Vec<(f64, f64)> {
    let epsilon = loss.epsilon;
    let rate = epsilon * (2.0 * c + 3.0);
    let count = (rate * RESOLUTION).ceil().clamp(16.0, MAX_CELLS);
    let at = |i: usize| {
        let x = i as f64 / count;
        (x, loss.log_ratio(epsilon * (2.0 * x - 1.0)))
    };
    let floor = loss.log_ratio(-epsilon).0;
    let mut cells = Vec::with_capacity(2 * whole(count));
    for i in 0..whole(count) {
        let ((_, (r_a, _)), (b, (r_b, slope))) = (at(i), at(i + 1));
        let noise = libm::log(0.5 * epsilon) - epsilon * b - log_mgf;
        let length = r_b - r_a;
        let steepest = 2.0 * epsilon * slope;
        let mut push = |log_density: f64| {
            let density = libm::exp(log_density) / steepest;
            cells.push((length, if density.is_finite() { density } else { 0.0 }));
        };
        match loss.side {
            Side::Remove => push(noise + (c + 1.0) * r_a),
            Side::Add => push(noise - c * r_b),
            Side::Replace => {
                push(noise + (c + 1.0) * r_a - c * floor);
                // Mirrored: l = floor - r.
                push(noise + floor + c * (floor - r_b));
            }
        }
    }
    // Stretches must be unions of neighbours: the mirrored half goes first, in reverse.
    if matches!(loss.side, Side::Replace) {
        let mirrored: Vec<_> = cells.iter().skip(1).step_by(2).rev().copied().collect();
        let plain = cells.iter().step_by(2).copied();
        return mirrored.into_iter().chain(plain).collect();
    }
    cells
}
