//! How much of a tilted loss is spread out, which makes its characteristic function small.

use super::inversion::whole;
use super::nodes::Demand;
use crate::loss::{MixtureLoss, Side};

/// Stretches of the loss with a lower bound on its density there.
///
/// A uniform density f over a length l contributes at most 2 f |sin(t l/2)| / t to E[e^{itL}], which
/// is f l |sin(y)|/y with y = t l/2. So if disjoint stretches g of lengths l(g) carry densities of at
/// least f(g), then for any t
///
/// ```text
/// |E[e^{itL}]| <= 1 - Σ_g f(g) l(g) (1 - 1/y(g))
/// ```
///
/// and with y(g) >= Y at t the bound with Y in place of y(g) holds for this t and all larger ones.
#[derive(Debug, Clone)]
pub(super) struct Windows {
    /// Length and least density, in order of the loss.
    cells: Vec<(f64, f64)>,
}

/// Cells a standard deviation of the noise.
const RESOLUTION: f64 = 16.0;
const MAX_CELLS: f64 = 4_000.0;

impl Windows {
    /// The stretches of a mixture's loss tilted by e^{cL}; `log_mgf` is K(c).
    pub(super) fn new(mixture: &MixtureLoss, demand: Demand, log_mgf: f64) -> Self {
        let sigma = mixture.sigma;
        let (low, high) = super::mixture_nodes::range(mixture, demand);
        let count = ((high - low) / sigma * RESOLUTION).ceil().min(MAX_CELLS);
        let width = (high - low) / count;
        let mut cells = Vec::with_capacity(whole(count));
        let mut before = End::at(mixture, low);
        for i in 1..=whole(count) {
            let end = End::at(mixture, low + width * i as f64);
            cells.push(cell(mixture, demand.c, (&before, &end), log_mgf));
            before = end;
        }
        Self { cells }
    }

    /// A bound on |E[e^{iuL}]| for every u >= t.
    pub(super) fn log_modulus_from(&self, t: f64) -> f64 {
        let captured = TURNS
            .iter()
            .map(|y| self.spread_over(2.0 * y / t) * (1.0 - 1.0 / y))
            .fold(0.0, f64::max);
        libm::log1p(-(captured * (1.0 - 1e-9)).clamp(0.0, 1.0))
    }

    /// Largest total of density times length over disjoint stretches of at least `enough`, as far
    /// as a greedy choice finds it.
    fn spread_over(&self, enough: f64) -> f64 {
        let (mut total, mut length, mut least) = (0.0, 0.0, f64::INFINITY);
        for &(cell_length, density) in &self.cells {
            length += cell_length;
            least = f64::min(least, density);
            if length >= enough {
                total += length * least;
                (length, least) = (0.0, f64::INFINITY);
            }
        }
        total
    }
}

/// Values of Y that are tried.
const TURNS: [f64; 3] = [1.5, 2.5, 5.0];

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
