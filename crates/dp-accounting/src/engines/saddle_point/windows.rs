//! How much of a tilted loss has a smooth density, which makes its characteristic function small.

use super::nodes::{Demand, range};
use crate::engines::loss::{Loss, MixtureLoss, Side};
use crate::engines::quadrature::whole;

/// Intervals of the loss with a lower bound on its density there.
///
/// A uniform density f over a length l contributes at most 2 f |sin(t l/2)| / t to E[e^{itL}],
/// which is f l |sin(y)|/y with y = t l/2. So if disjoint intervals g of lengths l(g) have
/// densities of at least f(g), then for any t
///
/// ```text
/// |E[e^{itL}]| <= 1 - Σ_g f(g) l(g) (1 - 1/y(g))
/// ```
///
/// and with y(g) >= Y at t the bound with Y in place of y(g) holds for this t and all larger ones.
#[derive(Debug, Clone)]
pub(super) struct Windows {
    /// Length and lower bound on the density, in order of the loss.
    cells: Vec<(f64, f64)>,
}

/// Maximum number of cells of a loss.
const MAX_CELLS: f64 = 4_000.0;

impl Windows {
    /// The intervals of a loss tilted by e^{cL}; `log_mgf` is K(c). A loss that is not smooth has
    /// none.
    pub(super) fn new(loss: &Loss, demand: Demand, log_mgf: f64) -> Self {
        let c = demand.c;
        let cells = match loss {
            Loss::Mixture(one) => mixture(one, demand, log_mgf),
            &Loss::Laplace { epsilon } => laplace(epsilon, c, log_mgf),
            &Loss::BoundedRange { epsilon } => bounded_range(epsilon, c, log_mgf),
            &Loss::SampledLaplace { epsilon, q, side } => {
                sampled_laplace(&Sampled { epsilon, q, side }, c, log_mgf)
            }
            Loss::Gaussian { .. }
            | Loss::DiscreteGaussian { .. }
            | Loss::Finite(_)
            | Loss::WithoutReplacement { .. } => Vec::new(),
        };
        Self { cells }
    }

    /// ln of a bound on |E[e^{iuL}]| that holds from some u on: the mass outside the density.
    pub(super) fn log_rest(&self) -> f64 {
        let spread: f64 = self
            .cells
            .iter()
            .map(|(length, density)| length * density)
            .sum();
        libm::log1p(-(spread * (1.0 - 1e-9)).clamp(0.0, 1.0))
    }

    /// A bound on |E[e^{iuL}]| for every u >= t.
    pub(super) fn log_modulus_from(&self, t: f64) -> f64 {
        let captured = TURNS
            .iter()
            .map(|y| self.spread_over(2.0 * y / t) * (1.0 - 1.0 / y))
            .fold(0.0, f64::max);
        libm::log1p(-(captured * (1.0 - 1e-9)).clamp(0.0, 1.0))
    }

    /// Largest total of density times length over disjoint intervals of at least `enough`, as far
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
const TURNS: [f64; 5] = [1.5, 2.5, 5.0, 12.0, 30.0];

/// Cells per factor of e in the density.
const CELLS_PER_FACTOR: f64 = 16.0;

/// Factors of e in the density that are considered.
const DEPTH: f64 = 40.0;

/// The Laplace pair: density e^((l - epsilon)/2) / 4, tilted by e^{cl}.
fn laplace(epsilon: f64, c: f64, log_mgf: f64) -> Vec<(f64, f64)> {
    let top = libm::log(0.25) + c * epsilon - log_mgf;
    rising(epsilon, c + 0.5, top)
}

/// Bounded range: density e^((epsilon + l)/2) / (2 (e^epsilon - 1)), tilted by e^{cl}.
fn bounded_range(epsilon: f64, c: f64, log_mgf: f64) -> Vec<(f64, f64)> {
    let scale = libm::log(2.0) + libm::log(-libm::expm1(-epsilon));
    rising(epsilon, c + 0.5, c * epsilon - scale - log_mgf)
}

/// The density e^(top + rate (l - epsilon)) on [-epsilon, epsilon].
fn rising(epsilon: f64, rate: f64, top: f64) -> Vec<(f64, f64)> {
    let depth = (2.0 * epsilon).min(DEPTH / rate);
    let count = (rate * depth * CELLS_PER_FACTOR)
        .ceil()
        .clamp(16.0, MAX_CELLS);
    let width = depth / count;
    let cell = |i: usize| {
        let below = depth - width * i as f64;
        (width, libm::exp(top - rate * below))
    };
    (0..whole(count)).map(cell).collect()
}

/// The Laplace mechanism on a Poisson sample, as in [`crate::engines::loss::Loss::SampledLaplace`].
struct Sampled {
    epsilon: f64,
    q: f64,
    side: Side,
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
/// If a user is removed, l = r(x) and the density under P is the noise times e^{r(x)}; if one is
/// added, l = -r(x) and it is the noise. Under replacement l is r(x) - r(0) on [0, 1], and r(0) -
/// r(-x) on [-1, 0], where the density is the noise times e^{r(0)}. Noise and r are monotone there
/// and so is the slope of r, hence every factor is smallest at an end of a cell.
fn sampled_laplace(loss: &Sampled, c: f64, log_mgf: f64) -> Vec<(f64, f64)> {
    let epsilon = loss.epsilon;
    let rate = epsilon * (2.0 * c + 3.0);
    let count = (rate * CELLS_PER_FACTOR).ceil().clamp(16.0, MAX_CELLS);
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
    // Intervals must be unions of adjacent cells: the mirrored half goes first, in reverse.
    if matches!(loss.side, Side::Replace) {
        let mirrored: Vec<_> = cells.iter().skip(1).step_by(2).rev().copied().collect();
        let plain = cells.iter().step_by(2).copied();
        return mirrored.into_iter().chain(plain).collect();
    }
    cells
}

/// Cells per standard deviation of the noise.
const CELLS_PER_DEVIATION: f64 = 16.0;

/// Lengths and lower bounds on the density of the loss tilted by e^{cL}; `log_mgf` is K(c).
fn mixture(mixture: &MixtureLoss, demand: Demand, log_mgf: f64) -> Vec<(f64, f64)> {
    let sigma = mixture.sigma;
    let (low, high) = range(mixture, demand);
    let count = ((high - low) / sigma * CELLS_PER_DEVIATION)
        .ceil()
        .min(MAX_CELLS);
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

/// The values that a cell needs at its ends. The mirrored values are those at -x, for replacement.
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

/// Length of the loss over x in [a, b] and a lower bound on its tilted density there. The noise is
/// log-concave, and both ℓ and its slope increase, so every factor is smallest at an end.
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
