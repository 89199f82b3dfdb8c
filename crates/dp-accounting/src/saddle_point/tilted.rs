//! One privacy loss under the exponential tilt e^{cL}, and its characteristic function.

use realfft::num_complex::Complex64;

use super::nodes::Nodes;
use crate::loss::Loss;

/// Cumulants of the loss under the tilt, for one run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Cumulants {
    /// K(c) = ln E_P[e^{cL}; L finite].
    pub(super) log_mgf: f64,
    /// K'(c), the mean.
    pub(super) mean: f64,
    /// K''(c), the variance.
    pub(super) variance: f64,
    /// Fourth central moment.
    pub(super) fourth: f64,
    /// Mean absolute deviation; 0 where nothing is summed.
    pub(super) absolute: f64,
}

/// Steps of a recurrence between two fresh starts.
pub(super) const RESTART: usize = 16;

/// A loss with probabilities proportional to e^{cL}, given by nodes or in closed form.
#[derive(Debug, Clone)]
pub(super) struct Tilted {
    pub(super) cumulants: Cumulants,
    /// Deviations from the mean and their probabilities; empty for the Gaussian.
    deviations: Vec<f64>,
    probabilities: Vec<f64>,
}

impl Tilted {
    /// The tilted loss, from `nodes` unless it is Gaussian; `None` when there are none or its moment
    /// generating function is beyond f64.
    pub(super) fn new(loss: &Loss, nodes: Option<&Nodes>, c: f64) -> Option<Self> {
        if let &Loss::Gaussian { mu_squared } = loss {
            return Some(Self::gaussian(mu_squared, c));
        }
        Self::from_nodes(nodes?, c)
    }

    fn gaussian(mu_squared: f64, c: f64) -> Self {
        Self {
            cumulants: Cumulants {
                log_mgf: 0.5 * mu_squared * c * (c + 1.0),
                mean: mu_squared * (c + 0.5),
                variance: mu_squared,
                fourth: 3.0 * mu_squared * mu_squared,
                absolute: 0.0,
            },
            deviations: Vec::new(),
            probabilities: Vec::new(),
        }
    }

    fn from_nodes(nodes: &Nodes, c: f64) -> Option<Self> {
        let exponents: Vec<f64> = (nodes.loss.iter().zip(&nodes.log_weight))
            .map(|(l, w)| w + c * l)
            .collect();
        let top = exponents.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut probabilities: Vec<f64> = exponents.iter().map(|e| libm::exp(e - top)).collect();
        let total: f64 = probabilities.iter().sum();
        probabilities.iter_mut().for_each(|p| *p /= total);
        let mean = dot(&probabilities, &nodes.loss);
        let deviations: Vec<f64> = nodes.loss.iter().map(|l| l - mean).collect();
        let mut cumulants = Cumulants {
            log_mgf: log_mgf(nodes, c, top + libm::log(total)),
            mean,
            ..Cumulants::default()
        };
        for (p, d) in probabilities.iter().zip(&deviations) {
            let square = d * d;
            cumulants.variance += p * square;
            cumulants.fourth += p * square * square;
            cumulants.absolute += p * d.abs();
        }
        cumulants.log_mgf.is_finite().then_some(Self {
            cumulants,
            deviations,
            probabilities,
        })
    }

    /// Whether the characteristic function is known in closed form.
    pub(super) fn is_gaussian(&self) -> bool {
        self.deviations.is_empty()
    }

    /// ln E[e^{it(L - mean)}] under the tilt at t = 0, h, 2h, ..., multiplied by `count` and
    /// added to `sums`.
    ///
    /// Each node carries e^{itd} - 1, which is advanced by e^{ihd} - 1 and computed afresh every
    /// [`RESTART`] steps; the sum is the characteristic function minus 1 without cancellation.
    pub(super) fn add_log_characteristic(&self, h: f64, count: f64, sums: &mut [Complex64]) {
        if self.is_gaussian() {
            for (k, sum) in sums.iter_mut().enumerate() {
                let t = h * k as f64;
                *sum -= 0.5 * count * self.cumulants.variance * t * t;
            }
            return;
        }
        let mut excess = vec![Complex64::ZERO; sums.len()];
        for (d, p) in self.deviations.iter().zip(&self.probabilities) {
            let turn = expm1_i(h * d);
            for (block, places) in excess.chunks_mut(RESTART).enumerate() {
                let mut now = expm1_i(h * (block * RESTART) as f64 * d);
                for place in places {
                    *place += now * *p;
                    now += turn + turn * now;
                }
            }
        }
        for (sum, e) in sums.iter_mut().zip(excess) {
            *sum += ln_1p(e) * count;
        }
    }

    /// E[e^{it(L - mean)}] - 1 under the tilt, of a loss that is not Gaussian.
    pub(super) fn characteristic_less_one(&self, t: f64) -> Complex64 {
        (self.deviations.iter().zip(&self.probabilities))
            .map(|(d, p)| expm1_i(t * d) * *p)
            .sum()
    }

    /// Number of nodes.
    pub(super) fn n_nodes(&self) -> usize {
        self.deviations.len()
    }
}

/// K(c): near 0 summed without cancellation, from sums that lack e^(their largest exponent)
/// otherwise.
fn log_mgf(nodes: &Nodes, c: f64, direct: f64) -> f64 {
    if direct.abs() > 0.5 {
        return direct;
    }
    let excess: f64 = (nodes.loss.iter().zip(&nodes.log_weight))
        .map(|(l, w)| libm::exp(*w) * libm::expm1(c * l))
        .sum();
    let total: f64 = nodes.log_weight.iter().map(|w| libm::exp(*w)).sum();
    // A loss that is infinite at times has finite part total < 1; otherwise total is 1.
    let missing = if (total - 1.0).abs() < 1e-12 { 0.0 } else { total - 1.0 };
    libm::log1p(excess + missing)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// e^{ix} - 1.
fn expm1_i(x: f64) -> Complex64 {
    let half = libm::sin(0.5 * x);
    Complex64::new(-2.0 * half * half, libm::sin(x))
}

/// ln(1 + z).
fn ln_1p(z: Complex64) -> Complex64 {
    let modulus = 0.5 * libm::log1p(z.re * (2.0 + z.re) + z.im * z.im);
    Complex64::new(modulus, libm::atan2(z.im, 1.0 + z.re))
}
